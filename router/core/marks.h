/* router/core/marks.h: what is remembered of failures: of a name in struct trust, of two
 * workers in struct pair. The rules: trust.h for a worker, pairs.h for two. */
#pragma once

#include "base/clock.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

#define TRUST_ANSWERS      4u             /* the last ones count, */
#define TRUST_FAILURES     3u             /* and so many failures among them put a worker aside */
#define TRUST_ASIDE_NS     (1 * NS_PER_S) /* the first time; doubled each time, */
#define TRUST_ASIDE_NS_MAX (120 * NS_PER_S)
#define TRUST_TIMES_MAX    8u /* 1, 2, 4 ... 64 s, 120 s */
#define TRUST_AGAIN                                                                                \
    10u /* put aside again within so many times the last time: it goes on doubling */
#define TRUST_TRIAL_TOKENS 32u /* so many tokens, or an end, make a trial a good answer */

/* What was seen of a worker last. */
enum proof {
    PROOF_NONE, /* nothing since it started, or a failure */
    PROOF_GOOD, /* a good answer */
    PROOF_HUNG, /* it was taken for hung, and no good answer came since */
};

struct trust {
    char name[MESSAGE_NAME_MAX];
    uint32_t epoch;  /* rises when it is put aside and when that ends: older attempts say nothing */
    uint8_t answers; /* the last TRUST_ANSWERS, the youngest in bit 0; set: failed */
    bool excused;    /* a failure was taken back, and no good answer came since */
    enum proof proof;
    uint32_t n_times;  /* put aside in a row; at most TRUST_TIMES_MAX */
    const char *why;   /* why it is aside or on trial: a constant; NULL: neither */
    uint64_t until_ns; /* aside until then; while it is neither, n_times counts until then */
    uint64_t failed;   /* request_id.lo, where its last answer is that request's failure; 0 */
    uint64_t steps_ns; /* the longest of its announced steps that ended, as far as it was silent
                        * in it and as far as it was announced: liveness.h */
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
