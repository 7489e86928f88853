/* model/text/template/tool_format.h: how models write the calls of tools that they were trained with.
 *
 * A format is a row: the texts around a call's name and its arguments, which are a JSON object. From a row follow both the
 * mask over an answer's tokens and the reading of its text. A model's row is found by the mark that its own template writes
 * in earlier calls. */
#pragma once

#include "base/span.h"

struct tool_format {
    const char *name; /* "hermes" */
    struct span mark; /* begins a call; stands nowhere else in an answer */
    struct span before_name;
    struct span before_arguments;
    struct span behind;   /* the arguments, */
    struct span end_mark; /* and this */
    struct span between;  /* two calls */
};

/* NULL: the template writes calls in no known format, or none at all. */
const struct tool_format *tool_format_of(struct span template_text);

const struct tool_format *tool_format_nth(size_t n); /* NULL past the last */
