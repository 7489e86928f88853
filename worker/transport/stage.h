/* worker/transport/stage.h: positions in a staging ring: who may write where.
 *
 * Positions count bytes since the ring was made and never wrap; a position's place in the ring is
 * position % n_bytes. A piece lies in one run. Pieces are given back in the order they were put, by
 * the position behind the last one that was read. Pieces lie in the first n_used bytes of each lap,
 * so that the rest of the ring need not be there yet. Pure. Engine thread only. */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define STAGE_ALIGNMENT 64u

struct stage {
    uint64_t n_bytes; /* of the ring; a multiple of STAGE_ALIGNMENT */
    uint64_t n_used;  /* of them; a multiple of STAGE_ALIGNMENT, which only grows */
    uint64_t head;    /* behind the newest piece */
    uint64_t tail;    /* before the oldest piece that is still read */
};

void stage_init(struct stage *stage, uint64_t n_bytes); /* all of it is used */

/* From now on so many bytes of the ring, n_bytes at most, are used. */
void stage_use(struct stage *stage, uint64_t n_used);

/* Where a piece of n bytes would begin. STATUS_BUSY: not until something is given back.
 * STATUS_LIMIT: never. */
NODISCARD enum status stage_room(const struct stage *stage, uint32_t n, uint64_t *position);

/* The piece that stage_room() answered is in use now. */
void stage_put(struct stage *stage, uint64_t position, uint32_t n);

/* All up to `position` has been read. Old news is fine; STATUS_CORRUPT for what was never put. */
NODISCARD enum status stage_release(struct stage *stage, uint64_t position);

/* The position behind a piece: what its reader acknowledges. */
static inline uint64_t stage_end(uint64_t position, uint32_t n) {
    return position + ((uint64_t)n + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
}
