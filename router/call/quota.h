/* router/call/quota.h: what the calls of one key may use: so many at a time, so many a minute; and
 * under which name they are counted.
 *
 * On the heap: a key may be taken away while calls of it run, and its quota goes with the last of
 * them. Loop's thread only, but for `salt`, which does not change. The time is passed in. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define QUOTA_SALT_MAX 128
#define QUOTA_NAME_MAX 64

struct quota {
    uint32_t concurrent_max;       /* 0: as many as come */
    uint32_t per_minute;           /* 0: the same; else also how many may come at once */
    char salt[QUOTA_SALT_MAX + 1]; /* calls with others share no cached prefix; "": none */
    char name[QUOTA_NAME_MAX + 1]; /* of metrics and log; "": none */
    uint32_t n_now;                /* calls that run */
    bool retired;                  /* its key is gone: the last call frees it */
    double n_left;                 /* of per_minute; grows back evenly */
    uint64_t refilled_ns;          /* 0: never used */
};

/* One more call. STATUS_BUSY: not now; *wait_ms tells when to come again. */
NODISCARD enum status quota_take(struct quota *quota, uint64_t now_ns, uint32_t *wait_ms);

/* A call that was taken has ended. A retired quota is gone after the last one. */
void quota_give(struct quota *quota);

/* Its key is gone: frees it once no call of it runs, which may be now. NULL is fine. */
void quota_retire(struct quota *quota);
