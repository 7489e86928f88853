/* A failing seed with less of everything: who reads its trace should not have to skip over faults
 * and clients that have no part in it. */
#include "tests/sim/campaign.h"

#include <string.h>
#include <time.h>

#define TRIALS_MAX 150

struct shrinker {
    struct seed_run best;
    char failure[256];
    uint32_t n_trials;
};

/* Keeps the smaller run if it fails too, whatever with: the first thing wrong is worth seeing. */
static bool still_fails(struct shrinker *shrinker, const struct limits *limits) {
    struct seed_run run = {.seed = shrinker->best.seed, .limits = *limits};
    char failure[256];
    if (shrinker->n_trials++ >= TRIALS_MAX || !campaign_fails(&run, failure))
        return false;
    shrinker->best = run;
    memcpy(shrinker->failure, failure, sizeof failure);
    return true;
}

static void fewer_events(struct shrinker *shrinker) {
    uint64_t low = 0;
    while (shrinker->best.limits.n_events - low > 200) {
        struct limits limits = shrinker->best.limits;
        limits.n_events = low + (limits.n_events - low) / 2;
        uint64_t tried = limits.n_events;
        if (!still_fails(shrinker, &limits))
            low = tried;
    }
}

static void fewer_kinds(struct shrinker *shrinker) {
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        struct limits limits = shrinker->best.limits;
        if (limits.without >> kind & 1)
            continue;
        limits.without |= 1ull << kind;
        still_fails(shrinker, &limits);
    }
}

static void fewer_nodes(struct shrinker *shrinker) {
    struct limits limits = shrinker->best.limits;
    limits.n_routers = 1;
    still_fails(shrinker, &limits);
    for (uint32_t n = 1; n < SIM_WORKERS; n++) {
        limits = shrinker->best.limits;
        limits.n_workers = n;
        if (still_fails(shrinker, &limits))
            return;
    }
}

static void fewer_clients(struct shrinker *shrinker) {
    uint64_t low = 0, high = 4096;
    while (high - low > 1) {
        struct limits limits = shrinker->best.limits;
        limits.n_clients = low + (high - low) / 2;
        if (still_fails(shrinker, &limits))
            high = limits.n_clients;
        else
            low = limits.n_clients;
    }
}

void shrink(struct seed_run *run, char failure[256]) {
    struct shrinker shrinker = {.best = *run};
    memcpy(shrinker.failure, failure, sizeof shrinker.failure);
    fewer_events(&shrinker);
    fewer_kinds(&shrinker);
    fewer_nodes(&shrinker);
    fewer_clients(&shrinker);
    fewer_events(&shrinker);
    *run = shrinker.best;
    memcpy(failure, shrinker.failure, sizeof shrinker.failure);
}
