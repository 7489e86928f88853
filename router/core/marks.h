/* router/core/marks.h: what a slot remembers of its worker's failures. The rules: trust.h for a
 * worker, pairs.h for two. */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define TRUST_ANSWERS      4u             /* the last ones count, */
#define TRUST_FAILURES     3u             /* and so many failures among them put a worker aside */
#define TRUST_ASIDE_NS     (1 * NS_PER_S) /* the first time; doubled each time, */
#define TRUST_ASIDE_NS_MAX (120 * NS_PER_S)
#define TRUST_AGAIN                                                                                \
    10u /* put aside again within so many times the last time: it goes on doubling */
#define TRUST_TRIAL_TOKENS 32u /* so many tokens, or an end, make a trial a good answer */

struct trust {
    uint32_t epoch;  /* rises when it is put aside and when that ends: older attempts say nothing */
    uint32_t serial; /* of its last answer */
    uint8_t answers; /* the last TRUST_ANSWERS, the youngest in bit 0; set: failed */
    bool hung;       /* once, and no good answer since */
    bool excused;    /* a mark was taken back, and no good answer came since */
    bool proved;     /* its last answer was good */
    bool is_aside;   /* or on trial */
    uint32_t n_trials; /* attempts there of this epoch, while it is aside */
    uint64_t until_ns; /* aside until then */
    uint64_t for_ns;   /* how long the last time was; 0: never aside */
    uint64_t back_ns;  /* when that ended */
    uint64_t was_for_ns;
    const char *why; /* a constant */
};

#define PAIRS_MAX         8u
#define PAIRS_AVOIDED_NS  (1 * NS_PER_S) /* the first time; doubled each time */
#define PAIRS_AVOIDED_MAX (120 * NS_PER_S)
#define PAIRS_TRIAL_NS    (5 * NS_PER_S) /* a request that tries it has so long alone */

struct pair {
    uint32_t with; /* slot */
    bool on_trial;
    uint64_t until_ns; /* avoided until then */
    uint64_t for_ns;   /* 0: no record */
};
