/* model/tokenizer/bpe/regex.h: regular expressions that come with a model, matched by PCRE2 with
 * limits.
 *
 * Patterns are in the dialect of Hugging Face's tokenizers (Oniguruma, Ruby's syntax, Unicode) and
 * are rewritten for PCRE2 where the two differ; what cannot be rewritten is refused by its name. A
 * struct regex is read-only after opening: any thread, each with a scratch of its own. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define REGEX_BYTES_MAX 16384u /* of one pattern */

struct buf;

struct regex {
    void *code;  /* owned: compiled pattern */
    bool is_jit; /* false: refused by the system (or not built in), interpreted instead */
};

/* What one thread needs for matching. */
struct regex_scratch {
    void *match;   /* owned */
    void *context; /* owned: the limits */
    void *stack;   /* owned: for compiled patterns */
};

/* Where a walk over a text's matches stands; {0} at its beginning. */
struct regex_cursor {
    size_t at;
    size_t last_end; /* of the last match, if any */
    bool has_last;
};

/* `pattern` is an expression, or a text to be found as it stands (`is_literal`).
 * STATUS_UNSUPPORTED, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status regex_init(struct regex *regex, struct span pattern, bool is_literal,
                                 struct error *error);
void regex_fini(struct regex *regex);

NODISCARD enum status regex_scratch_init(struct regex_scratch *scratch);
void regex_scratch_fini(struct regex_scratch *scratch);

/* The next match at or behind the cursor in valid UTF-8 text; no empty match directly behind
 * another one, as Oniguruma's walk has it. STATUS_NOT_FOUND when there is none, STATUS_LIMIT when
 * the pattern takes more steps than allowed. */
NODISCARD enum status regex_next(const struct regex *regex, struct regex_scratch *scratch,
                                 struct span text, struct regex_cursor *cursor, size_t *begin,
                                 size_t *end);

/* Appends the text to out with each match replaced by `by`, until out reaches its limit.
 * STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status regex_replace(const struct regex *regex, struct regex_scratch *scratch,
                                    struct span text, struct span by, struct buf *out);
