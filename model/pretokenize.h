/* model/pretokenize.h: cuts text into the pieces within which byte-pair merges happen.
 *
 * Which cuts a model was trained with is named in its file (tokenizer.ggml.pre). A struct
 * pretokenizer is read-only after opening: any thread, each with a scratch of its own. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/span.h"

#include <stdbool.h>

struct pretokenizer {
    const char *name; /* constant: "smollm", "gpt-2" */
    void *code;       /* owned: compiled pattern */
    bool is_jit;      /* false: refused by the system (or not built in), interpreted instead */
};

/* What one thread needs for matching. */
struct pretokenize_scratch {
    void *match;   /* owned */
    void *context; /* owned: the limits */
    void *stack;   /* owned: for compiled patterns */
};

/* STATUS_UNSUPPORTED when nothing is known by that name. */
NODISCARD enum status pretokenizer_init(struct pretokenizer *pretokenizer, struct span name,
                                        struct error *error);
void pretokenizer_fini(struct pretokenizer *pretokenizer);

NODISCARD enum status pretokenize_scratch_init(struct pretokenize_scratch *scratch);
void pretokenize_scratch_fini(struct pretokenize_scratch *scratch);

/* The end of the piece that starts at `at` < n, in valid UTF-8 text (n). STATUS_LIMIT when the
 * pattern takes more steps than allowed. */
NODISCARD enum status pretokenize_next(const struct pretokenizer *pretokenizer,
                                       struct pretokenize_scratch *scratch, const char *text,
                                       size_t n, size_t at, size_t *end);
