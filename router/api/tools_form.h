/* router/api/tools_form.h: the form of an answer that may call tools, as the parts of a grammar. Pure, any thread. */
#pragma once

#include "model/text/template/tool_format.h"
#include "router/api/tools.h"

#include <jansson.h>

/* A tool that may be called; all is borrowed from the body. */
struct tool {
    struct span name;
    const json_t *parameters; /* of a function: a schema, or NULL: any object */
    const struct grammar_part
        *input; /* of a custom tool (of the arena): its text, as a JSON string;
                                         NULL: it is a function */
    bool strict;
    bool allowed; /* by tool_choice */
};

struct toolbox {
    const struct tool_format *format;
    struct tool *all; /* of the arena (n) */
    size_t n;
    bool required;
    bool several; /* calls in one answer */
    bool loose;   /* arguments are any object: the schemas together were too long */
};

/* Sets ask->format and the bytes of ask->sampling.grammar; `form`: what a text that calls nothing must look like, or NULL.
 * STATUS_UNSUPPORTED where a strict one says what calls of this format cannot keep. STATUS_LIMIT where they are longer than a grammar may be; STATUS_NOMEM. */
NODISCARD enum status tools_form(struct ask *ask, const struct ask_limits *limits,
                                 const struct toolbox *box, const struct grammar_part *form);
