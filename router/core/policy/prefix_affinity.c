/* prefix_affinity: the worker that probably holds most of the prompt's blocks, unless the load is
 * out of balance; then, and where no worker holds enough, the least loaded.
 *
 * Per worker and stage-free: a direct-mapped table of block hashes sent there. It forgets by
 * overwriting, so its memory is fixed; a wrong guess costs a recomputation, never a wrong token.
 * The guard is the usual pair of bounds (absolute and relative); "least loaded" is measured in
 * sequences, never in how little a worker has cached: that sends everything to the newest one. */
#include "router/core/policy/policy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_BLOCKS  8192 /* per worker: 131,072 tokens at 16 a block */
#define IMBALANCE_ABS 8    /* sequences */
#define MATCH_PERCENT 30   /* of the prompt's full blocks */

struct affinity {
    uint32_t max_workers;
    uint64_t seed;
    uint64_t *tags; /* owned (max_workers, TABLE_BLOCKS); 0: empty */
};

static void affinity_close(void *state) {
    struct affinity *affinity = state;
    if (!affinity)
        return;
    free(affinity->tags);
    free(affinity);
}

static enum status affinity_open(uint32_t max_workers, uint64_t seed, void **state) {
    struct affinity *affinity = calloc(1, sizeof *affinity);
    if (!affinity)
        return STATUS_NOMEM;
    affinity->max_workers = max_workers;
    affinity->seed = seed;
    affinity->tags = calloc((size_t)max_workers * TABLE_BLOCKS, sizeof *affinity->tags);
    if (!affinity->tags) {
        affinity_close(affinity);
        return STATUS_NOMEM;
    }
    *state = affinity;
    return STATUS_OK;
}

/* The place of a block's tag in a worker's table, and the tag (never 0). */
static uint64_t *affinity_tag_place(const struct affinity *affinity, uint32_t slot,
                                    struct map_key key, uint64_t *tag) {
    *tag = (mix64(key.hi ^ affinity->seed) ^ key.lo) | 1;
    return affinity->tags + (size_t)slot * TABLE_BLOCKS + mix64(*tag) % TABLE_BLOCKS;
}

static uint32_t affinity_cached(const void *state, uint32_t slot, const struct map_key *hashes,
                                uint32_t n_hashes) {
    const struct affinity *affinity = state;
    for (uint32_t i = 0; i < n_hashes; i++) {
        uint64_t tag;
        if (*affinity_tag_place(affinity, slot, hashes[i], &tag) != tag)
            return i;
    }
    return n_hashes;
}

static void affinity_placed(void *state, uint32_t slot, const struct map_key *hashes,
                            uint32_t n_hashes) {
    struct affinity *affinity = state;
    for (uint32_t i = 0; i < n_hashes && i < TABLE_BLOCKS; i++) {
        uint64_t tag;
        uint64_t *place = affinity_tag_place(affinity, slot, hashes[i], &tag);
        *place = tag;
    }
}

static void affinity_forget(void *state, uint32_t slot) {
    struct affinity *affinity = state;
    memset(affinity->tags + (size_t)slot * TABLE_BLOCKS, 0, TABLE_BLOCKS * sizeof *affinity->tags);
}

static bool affinity_out_of_balance(const struct policy_query *query) {
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < query->n; i++) {
        uint64_t load = query->candidates[i].load;
        least = load < least ? load : least;
        most = load > most ? load : most;
    }
    return most - least > IMBALANCE_ABS && 2 * most > 3 * least;
}

static uint32_t affinity_pick(void *state, const struct policy_query *query) {
    if (query->n == 1)
        return 0;
    if (query->n_hashes == 0 || affinity_out_of_balance(query))
        return policy_least(query);
    uint32_t best = 0, best_blocks = 0;
    for (uint32_t i = 0; i < query->n; i++) {
        const struct policy_candidate *candidate = &query->candidates[i];
        uint32_t n = affinity_cached(state, candidate->slot, query->hashes, query->n_hashes);
        if (n > best_blocks ||
            (n == best_blocks && candidate->load < query->candidates[best].load)) {
            best = i;
            best_blocks = n;
        }
    }
    if ((uint64_t)best_blocks * 100 < (uint64_t)query->n_hashes * MATCH_PERCENT)
        return policy_least(query);
    return best;
}

const struct policy policy_prefix_affinity = {
    .name = "prefix_affinity",
    .open = affinity_open,
    .close = affinity_close,
    .pick = affinity_pick,
    .placed = affinity_placed,
    .forget = affinity_forget,
    .cached = affinity_cached,
};
