#include "worker/transport/stage.h"

#include "base/assert.h"

void stage_init(struct stage *stage, uint64_t n_bytes) {
    ASSERT(n_bytes > 0 && n_bytes % STAGE_ALIGNMENT == 0);
    *stage = (struct stage){.n_bytes = n_bytes, .n_used = n_bytes};
}

void stage_use(struct stage *stage, uint64_t n_used) {
    ASSERT(n_used > 0 && n_used % STAGE_ALIGNMENT == 0 && n_used <= stage->n_bytes);
    ASSERT(stage->head == 0 || n_used >= stage->n_used);
    stage->n_used = n_used;
}

enum status stage_room(const struct stage *stage, uint32_t n, uint64_t *position) {
    uint64_t at = stage->head;
    uint64_t place = at % stage->n_bytes;
    if (n > stage->n_used)
        return STATUS_LIMIT;
    if (place + n > stage->n_used)
        at += stage->n_bytes - place; /* the rest of this lap stays empty */
    if (stage_end(at, n) - stage->tail > stage->n_bytes) {
        /* An empty ring may still be in the way of a large piece: its tail stands mid-lap. */
        if (stage->tail != stage->head)
            return STATUS_BUSY;
        ASSERT(stage_end(at, n) - at <= stage->n_bytes);
    }
    *position = at;
    return STATUS_OK;
}

void stage_put(struct stage *stage, uint64_t position, uint32_t n) {
    ASSERT(position >= stage->head);
    if (stage->tail == stage->head)
        stage->tail = position; /* nothing is read before it */
    stage->head = stage_end(position, n);
    ASSERT(stage->head - stage->tail <= stage->n_bytes);
}

enum status stage_release(struct stage *stage, uint64_t position) {
    if (position > stage->head)
        return STATUS_CORRUPT;
    if (position > stage->tail)
        stage->tail = position;
    return STATUS_OK;
}
