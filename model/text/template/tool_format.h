/* model/text/template/tool_format.h: how models write the calls of tools that they were trained with.
 *
 * A format is a row of texts: what stands before, between and behind the names and arguments of an answer's calls. From a row follow
 * both the mask over an answer's tokens and the reading of its text, and nothing else knows a format by its name. A model's row is
 * found by what its own template says; a new one is a file in formats/ and a line in tool_format.c. */
#pragma once

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* Texts that are special tokens where the vocabulary has them as such. All may be empty but the first. */
enum tool_mark {
    TOOL_MARK_CALL, /* begins a call, or the calls; stands nowhere else in an answer */
    TOOL_MARK_END,  /* ends a call */
    TOOL_MARK_ID,   /* may stand behind a name, with nine letters and digits that are read past */
    TOOL_MARK_ARGUMENTS, /* between the name, or that, and the arguments */
    TOOL_MARKS
};

/* How arguments are written. */
enum tool_arguments {
    TOOL_ARGUMENTS_JSON, /* as an object */
    TOOL_ARGUMENTS_TAGS, /* a name and a value each, in tags */
    TOOL_ARGUMENTS_PYTHON, /* as keyword arguments of a function in Python, and the bracket behind them */
};

struct tool_tags {
    struct span before_name, before_value;
    struct span end_value;    /* stands in no value that is a text */
    struct span behind_value; /* begins with it */
    struct span end;          /* of all arguments */
};

struct tool_format {
    const char *name; /* "hermes" */

    /* A template with all of `signs`, and with none of `others`, writes this format. Both end with NULL. */
    const char *signs[6];
    const char *others[4];

    struct span marks[TOOL_MARKS];
    enum {
        TOOL_CALLS_ROW,  /* the first mark before each call */
        TOOL_CALLS_LIST, /* the first mark once, before all of them */
        TOOL_CALLS_ONE, /* at most one call, and no text beside it; the first mark may be left out */
        TOOL_CALLS_TURN, /* at most one call, a turn of its own: the answer is that, or `before_text` and a
                            text, behind which it may come with the first mark. A turn's parts (a text, a
                            name, arguments) are tokenized by themselves, so that each may begin with a blank */
    } calls;
    struct span before_text;
    struct span opening; /* of a list, behind its mark; a blank may stand before it */
    struct span before_name;
    struct span behind_name;
    struct span before_arguments;
    enum tool_arguments arguments;
    struct tool_tags tags;
    const char
        *beside; /* a regular expression of what may stand behind the arguments; NULL: nothing */
    struct span behind;  /* the arguments, and the last in it before the mark of the end */
    struct span between; /* two calls; in a row it may be left out, or stand behind the last */
    struct span closing; /* of a list */
};

/* Whether an answer has one call at most. */
static inline bool tool_format_is_single(const struct tool_format *format) {
    return format->calls == TOOL_CALLS_ONE || format->calls == TOOL_CALLS_TURN;
}

/* NULL: the template writes calls in no known format, or none at all. */
const struct tool_format *tool_format_of(struct span template_text);

/* For people: the format's name; else whether the template shows tools to the model at all. */
const char *tool_format_shown(const struct tool_format *format, struct span template_text);

/* NULL: there is no such format. */
const struct tool_format *tool_format_find(const char *name);

const struct tool_format *tool_format_nth(size_t n); /* NULL past the last */
