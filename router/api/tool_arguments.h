/* router/api/tool_arguments.h: the JSON of arguments that a model writes one by one, in tags or as Python, as they come. Pure. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Zeroed before the first run of a call. */
struct tool_arguments {
    enum {
        TOOL_ARGUMENTS_NONE,
        TOOL_ARGUMENTS_NAME,  /* a parameter's name has begun */
        TOOL_ARGUMENTS_NAMED, /* and has ended */
        TOOL_ARGUMENTS_TEXT,  /* its text */
        TOOL_ARGUMENTS_VALUE,
        TOOL_ARGUMENTS_WHOLE,
    } at;
    char quote;      /* of the string that a literal is in; or 0 */
    bool is_escaped; /* a backslash comes before the next byte in it */
    bool is_null;    /* in the word None, all of which is said */
};

/* Appends what a run of a region (tools.h; "" outside of all) says. A run may break within a character. false: the region is none of such arguments. */
bool tool_arguments_take(struct tool_arguments *arguments, const char *region, const char *bytes,
                         size_t n, struct buf *json);

static inline bool tool_arguments_whole(const struct tool_arguments *arguments) {
    return arguments->at == TOOL_ARGUMENTS_WHOLE;
}
