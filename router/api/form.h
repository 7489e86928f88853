/* router/api/form.h: parts of an answer's form (grammar.h), in an ask's arena. Pure, any thread. */
#pragma once

#include "base/buf.h"
#include "model/text/grammar/grammar.h"
#include "router/api/ask.h"

/* So many, zeroed. NULL: the arena has no room. */
struct grammar_part *form_array(struct ask *ask, size_t n);

struct grammar_part form_text(struct span text);
struct grammar_part form_mark(struct span mark, bool special); /* a special token, else text */
struct grammar_part form_regex(struct span text);
struct grammar_part form_list(enum grammar_kind kind, const struct grammar_part *parts, size_t n);

/* The part, which is borrowed, or nothing. */
struct grammar_part form_maybe(const struct grammar_part *part);

/* The arena's copy of what was written, for a part to borrow. Frees the buffer. STATUS_LIMIT where
 * its own is reached; STATUS_NOMEM. */
NODISCARD enum status form_keep(struct ask *ask, struct buf *written, struct span *kept);

/* Sets the bytes of ask->sampling.grammar, those of this form. STATUS_LIMIT: there are more than
 * GRAMMAR_PACKED_MAX; STATUS_NOMEM. */
NODISCARD enum status form_pack(struct ask *ask, const struct grammar_part *form);
