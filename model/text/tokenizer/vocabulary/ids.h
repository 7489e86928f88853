/* model/text/tokenizer/vocabulary/ids.h: a growing list of token ids with a bound. One owner
 * thread. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ids {
    uint32_t *at; /* owned (size) */
    size_t n;
    size_t size;
    size_t limit; /* most ids it may hold; 0: none */
};

void ids_init(struct ids *ids, size_t limit);
void ids_fini(struct ids *ids);
void ids_clear(struct ids *ids); /* keeps the memory */

/* STATUS_LIMIT past the limit, STATUS_NOMEM. */
NODISCARD enum status ids_grow(struct ids *ids);

NODISCARD static inline enum status ids_push(struct ids *ids, uint32_t id) {
    if (ids->n == ids->size)
        TRY(ids_grow(ids));
    ids->at[ids->n++] = id;
    return STATUS_OK;
}
