/* router/core/policy/policy.h: which of several workers gets a request. The seam.
 *
 * A policy is asked once per stage (prefill, decode) with the workers that may take the request;
 * who may is place.c's business: nothing here sees a worker that is suspect, draining, full or of
 * another fingerprint. Pure: time does not count, randomness comes from the query. `open` allocates
 * all there will ever be. Router thread only.
 *
 * What every policy has to keep (tests/conform/policy_test.c asks all of the table): it looks at
 * the loads, so that with 48 sequences on 8 workers the most and the least loaded differ by at most
 * 14, also where four requests of five have one prefix; none of 8 equal workers gets less than a
 * quarter or more than three times its share; a worker that has just come back is not flooded;
 * prompts of one length spread; and one with `cached` sends a known prefix where it lies while that
 * worker's load is within its bounds. */
#pragma once

#include "base/random.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdint.h>

enum policy_stage { POLICY_PREFILL, POLICY_DECODE };

struct policy_candidate {
    uint32_t slot;
    uint32_t load; /* in sequences: running, waiting and sent there but not yet reported; for
                      prefill, queued prompt tokens count as one sequence per 512 */
};

struct policy_query {
    enum policy_stage stage;
    const struct policy_candidate *candidates; /* (n), by rising slot */
    uint32_t n;                                /* at least 1 */
    const struct map_key *hashes;              /* of the prompt's full blocks (n_hashes) */
    uint32_t n_hashes;
    struct random *random;
};

struct policy {
    const char *name;
    /* Both NULL: it has no state. */
    enum status (*open)(uint32_t max_workers, uint64_t seed, void **state);
    void (*close)(void *state); /* fine on NULL */

    /* The chosen one's index into `candidates`. */
    uint32_t (*pick)(void *state, const struct policy_query *query);

    /* A request with these prefixes was sent there. May be NULL. */
    void (*placed)(void *state, uint32_t slot, const struct map_key *hashes, uint32_t n_hashes);
    /* All that the worker had cached is gone. May be NULL. */
    void (*forget)(void *state, uint32_t slot);
    /* How many leading blocks are probably cached there. May be NULL: unknown, 0. */
    uint32_t (*cached)(const void *state, uint32_t slot, const struct map_key *hashes,
                       uint32_t n_hashes);
};

/* A policy is a file of its own and a row of this; NULL-terminated. Option lists and the conformance
 * suite walk it; what a seed of the simulator draws from is tests/sim/options.c. */
extern const struct policy *const policy_table[];

/* NULL: no such policy. Asserts that the required hooks are set. */
const struct policy *policy_find(const char *name);

/* Index of the least loaded candidate; ties are broken by the query's generator, so that equal
 * workers share alike. */
uint32_t policy_least(const struct policy_query *query);
