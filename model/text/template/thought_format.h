/* model/text/template/thought_format.h: the marks between which models think before they answer.
 *
 * A format is a row. A model's row is found by the marks that its own template names. Constant; any thread. */
#pragma once

#include "base/span.h"

struct thought_format {
    const char *name;     /* "think" */
    struct span mark;     /* begins what the model thinks, in the prompt or in the answer */
    struct span end_mark; /* ends it; the answer proper follows */
    struct span
        behind; /* line ends between that mark and the answer proper, as the model was trained */
};

/* NULL: the template names no known mark. */
const struct thought_format *thought_format_of(struct span template_text);

const struct thought_format *thought_format_nth(size_t n); /* NULL past the last */
