#include "model/text/tokenizer/vocabulary/ids.h"

#include <stdlib.h>

void ids_init(struct ids *ids, size_t limit) {
    *ids = (struct ids){.limit = limit};
}

void ids_fini(struct ids *ids) {
    if (!ids)
        return;
    free(ids->at);
    *ids = (struct ids){0};
}

void ids_clear(struct ids *ids) {
    ids->n = 0;
}

enum status ids_grow(struct ids *ids) {
    size_t size = ids->size ? ids->size * 2 : 256;
    if (ids->limit && size > ids->limit)
        size = ids->limit;
    if (size == ids->size)
        return STATUS_LIMIT;
    uint32_t *at = reallocarray(ids->at, size, sizeof *at);
    if (!at)
        return STATUS_NOMEM;
    ids->at = at;
    ids->size = size;
    return STATUS_OK;
}
