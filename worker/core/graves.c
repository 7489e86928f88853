#include "worker/core/graves.h"

#include "base/assert.h"

enum status graves_init(struct graves *graves, uint64_t seed) {
    *graves = (struct graves){0};
    return map_init(&graves->attempts, GRAVES_MAX, seed);
}

void graves_fini(struct graves *graves) {
    if (!graves)
        return;
    map_fini(&graves->attempts);
}

void graves_add(struct graves *graves, struct request_id req, uint32_t attempt) {
    struct map_key key = {.hi = req.hi, .lo = req.lo};
    uint32_t known;
    bool found = map_get(&graves->attempts, key, &known) == STATUS_OK;
    if (found && known >= attempt)
        return;
    if (!found) {
        /* The oldest goes: its place in the ring is this one's. */
        if (graves->attempts.n_used == GRAVES_MAX)
            map_remove(&graves->attempts, graves->ring[graves->next]);
        graves->ring[graves->next] = key;
        graves->next = (graves->next + 1) % GRAVES_MAX;
    }
    enum status status = map_put(&graves->attempts, key, attempt);
    ASSERT(status == STATUS_OK);
}

bool graves_has(const struct graves *graves, struct request_id req, uint32_t attempt) {
    struct map_key key = {.hi = req.hi, .lo = req.lo};
    uint32_t known;
    return map_get(&graves->attempts, key, &known) == STATUS_OK && attempt <= known;
}
