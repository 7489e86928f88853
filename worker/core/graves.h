/* worker/core/graves.h: attempts that are over, so that a message that comes late does not raise
 * them.
 *
 * Cancels overtake submits on their way; a Reserve or Submit that arrives after the Cancel or
 * Forget of its attempt is refused. Remembers the last GRAVES_MAX requests, which is far more than
 * can be under way. Engine thread only; allocates at start. */
#pragma once

#include "base/map.h"
#include "proto/message.h"

#include <stdbool.h>

#define GRAVES_MAX 1024

struct graves {
    struct map attempts;             /* request -> highest attempt that is over */
    uint32_t next;                   /* of `ring` */
    struct map_key ring[GRAVES_MAX]; /* in order of their end */
};

NODISCARD enum status graves_init(struct graves *graves, uint64_t seed);
void graves_fini(struct graves *graves);

/* This attempt and all lower ones are over. */
void graves_add(struct graves *graves, struct request_id req, uint32_t attempt);
bool graves_has(const struct graves *graves, struct request_id req, uint32_t attempt);
