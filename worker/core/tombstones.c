#include "worker/core/tombstones.h"

#include "base/assert.h"

enum status tombstones_init(struct tombstones *tombstones, uint64_t seed) {
    *tombstones = (struct tombstones){0};
    return map_init(&tombstones->attempts, TOMBSTONES_MAX, seed);
}

void tombstones_fini(struct tombstones *tombstones) {
    if (!tombstones)
        return;
    map_fini(&tombstones->attempts);
}

void tombstones_add(struct tombstones *tombstones, struct request_id req, uint32_t attempt) {
    struct map_key key = {.hi = req.hi, .lo = req.lo};
    uint32_t known;
    bool found = map_get(&tombstones->attempts, key, &known) == STATUS_OK;
    if (found && known >= attempt)
        return;
    if (!found) {
        /* The oldest goes: its place in the ring is this one's. */
        if (tombstones->attempts.n_used == TOMBSTONES_MAX)
            map_remove(&tombstones->attempts, tombstones->ring[tombstones->next]);
        tombstones->ring[tombstones->next] = key;
        tombstones->next = (tombstones->next + 1) % TOMBSTONES_MAX;
    }
    enum status status = map_put(&tombstones->attempts, key, attempt);
    ASSERT(status == STATUS_OK);
}

bool tombstones_has(const struct tombstones *tombstones, struct request_id req, uint32_t attempt) {
    struct map_key key = {.hi = req.hi, .lo = req.lo};
    uint32_t known;
    return map_get(&tombstones->attempts, key, &known) == STATUS_OK && attempt <= known;
}
