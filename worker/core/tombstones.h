/* worker/core/tombstones.h: attempts that are over, so that a message that comes late does not revive
 * them.
 *
 * Cancels overtake submits on their way; a Reserve or Submit that arrives after the Cancel or
 * Forget of its attempt is refused. Remembers the last TOMBSTONES_MAX requests, which is far more than
 * can be under way. Engine thread only; allocates at start. */
#pragma once

#include "base/map.h"
#include "proto/message.h"

#include <stdbool.h>

#define TOMBSTONES_MAX 1024

struct tombstones {
    struct map attempts;                 /* request -> highest attempt that is over */
    uint32_t next;                       /* of `ring` */
    struct map_key ring[TOMBSTONES_MAX]; /* in order of their end */
};

NODISCARD enum status tombstones_init(struct tombstones *tombstones, uint64_t seed);
void tombstones_fini(struct tombstones *tombstones);

/* This attempt and all lower ones are over. */
void tombstones_add(struct tombstones *tombstones, struct request_id req, uint32_t attempt);
bool tombstones_has(const struct tombstones *tombstones, struct request_id req, uint32_t attempt);
