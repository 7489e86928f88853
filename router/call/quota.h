/* router/call/quota.h: what the calls of one key may use: so many at a time, so many a minute, so many
 * tokens a minute; and under which name they are counted.
 *
 * On the heap: a key may be taken away while calls of it run, and its quota goes with the last of
 * them. Loop's thread only, but for `salt`, which does not change. The time is passed in. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define QUOTA_SALT_MAX 128
#define QUOTA_NAME_MAX 64

/* What grows back evenly, up to a minute's worth. */
struct quota_bucket {
    uint32_t per_minute;  /* 0: without bound; else also how much may be taken at once */
    double n_left;        /* below 0: owed */
    uint64_t refilled_ns; /* 0: never used */
};

struct quota {
    uint32_t concurrent_max; /* 0: as many as come */
    struct quota_bucket calls, tokens;
    char salt[QUOTA_SALT_MAX + 1]; /* calls with others share no cached prefix; "": none */
    char name[QUOTA_NAME_MAX + 1]; /* of metrics and log; "": none */
    uint64_t tenant; /* whose turn its calls take: equal on all routers, by the name if
                                      there is one, else by the key */
    uint32_t n_now;  /* calls that run */
    bool retired;    /* its key is gone: the last call frees it */
};

/* One more call. STATUS_BUSY: not now; *wait_ms tells when to come again. */
NODISCARD enum status quota_take(struct quota *quota, uint64_t now_ns, uint32_t *wait_ms);

/* A call that was taken has ended. A retired quota is gone after the last one. */
void quota_give(struct quota *quota);

/* The tokens that a call may come to; *n_taken of them are counted: none where there is no limit. One that may come
 * to more than a minute's worth goes when all of that is there, and the rest is owed. STATUS_BUSY as of
 * quota_take(). */
NODISCARD enum status quota_take_tokens(struct quota *quota, uint64_t now_ns, uint64_t n,
                                        uint64_t *n_taken, uint32_t *wait_ms);

/* Those of them that the call did not use. */
void quota_give_tokens(struct quota *quota, uint64_t n);

/* The limits and the name of `by` from now on; what was taken stays taken. */
void quota_change(struct quota *quota, const struct quota *by);

/* Its key is gone: frees it once no call of it runs, which may be now. NULL is fine. */
void quota_retire(struct quota *quota);
