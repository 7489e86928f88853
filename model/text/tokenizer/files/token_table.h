/* model/text/tokenizer/files/token_table.h: a vocabulary while it is read: tokens by id, in any
 * order, with gaps.
 *
 * Texts are borrowed. For the readers of tokenizer files. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdint.h>

struct tokenizer_added;
struct tokenizer_extras;
struct tokenizer_tokens;

struct token_table {
    struct span *tokens; /* owned (n_tokens) */
    uint8_t *kinds;      /* owned (n_tokens): enum token_kind; TOKEN_UNUSED and no text: a gap */
    uint8_t *flags;      /* owned (n_tokens): enum token_flags */
    uint32_t n_tokens;   /* highest id + 1 */
    uint32_t size;
};

/* Makes the table reach to this id, with gaps. STATUS_LIMIT past VOCABULARY_TOKENS_MAX, STATUS_NOMEM. */
NODISCARD enum status token_table_reach(struct token_table *table, uint64_t id,
                                        struct error *error);

/* A normal token. STATUS_CORRUPT when the id is taken, STATUS_LIMIT past VOCABULARY_TOKENS_MAX,
 * STATUS_NOMEM. An empty text takes the id too. */
NODISCARD enum status token_table_put(struct token_table *table, uint64_t id, struct span text,
                                      struct error *error);

/* An added token: a new one, or one of the same text that is there already. STATUS_CORRUPT when the
 * id belongs to another text. */
NODISCARD enum status token_table_add(struct token_table *table,
                                      const struct tokenizer_added *added, struct error *error);

/* Those of a folder's other files, where the table has no added token of that id yet. */
NODISCARD enum status token_table_add_extras(struct token_table *table,
                                             const struct tokenizer_extras *extras,
                                             struct error *error);

/* The tokens without ends: no bos_id, no eos_id. Borrowed from the table. */
struct tokenizer_tokens token_table_tokens(const struct token_table *table);

/* The first token spelled like this; TOKEN_NONE when there is none or the text is empty. */
uint32_t token_table_find(const struct token_table *table, struct span text);

void token_table_fini(struct token_table *table);
