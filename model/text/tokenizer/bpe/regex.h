/* model/text/tokenizer/bpe/regex.h: regular expressions that come with a model, matched by PCRE2
 * with limits.
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
#include <stdint.h>

#define REGEX_BYTES_MAX 16384u /* of one pattern */

struct buf;

struct regex {
    void *code;  /* owned: compiled pattern */
    bool is_jit; /* false: refused by the system (or not built in), interpreted instead */
};

/* What one thread needs for matching. */
struct regex_scratch {
    void *match;         /* owned */
    void *context;       /* owned: the limits */
    void *stack;         /* owned: for compiled patterns */
    uint64_t began_ns;   /* of the text, by the thread's clock */
    uint64_t cpu_ns_max; /* that matching in it may take */
    uint64_t looked_ns;  /* when that was last looked at, by the wall's */
};

/* How far a walk over a text's matches has come; {0} at its beginning. */
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

/* Before each text, by the thread that matches in it: all its matching together may take 2 s of a
 * processor, and 1 us for each byte that is walked over. A new scratch has begun. */
void regex_scratch_begin(struct regex_scratch *scratch);

/* The next match at or behind the cursor in valid UTF-8 text; no empty match directly behind
 * another one, as Oniguruma's walk has it. STATUS_NOT_FOUND when there is none,
 * STATUS_INVALID when matching in the text takes too long. */
NODISCARD enum status regex_next(const struct regex *regex, struct regex_scratch *scratch,
                                 struct span text, struct regex_cursor *cursor, size_t *begin,
                                 size_t *end);

/* Appends the text to out with each match replaced by `by`, until out reaches its limit.
 * STATUS_LIMIT, STATUS_NOMEM, STATUS_INVALID as regex_next(). */
NODISCARD enum status regex_replace(const struct regex *regex, struct regex_scratch *scratch,
                                    struct span text, struct span by, struct buf *out);
