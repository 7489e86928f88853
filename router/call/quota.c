#include "router/call/quota.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MS     1000u /* for another call's end, which nobody knows */
#define WAIT_MS_MAX (3600u * 1000)

static void bucket_refill(struct quota_bucket *bucket, uint64_t now_ns) {
    double since_min = (double)(now_ns - bucket->refilled_ns) / (60.0 * (double)NS_PER_S);
    double n = bucket->n_left + since_min * bucket->per_minute;
    bucket->n_left = bucket->refilled_ns == 0 || n > bucket->per_minute ? bucket->per_minute : n;
    bucket->refilled_ns = now_ns;
}

/* More than fits the bucket is taken from a full one. */
static enum status bucket_take(struct quota_bucket *bucket, uint64_t now_ns, double n,
                               uint32_t *wait_ms) {
    double needed = n < bucket->per_minute ? n : bucket->per_minute;
    bucket_refill(bucket, now_ns);
    if (bucket->n_left < needed) {
        double ms = 1 + (needed - bucket->n_left) * 60000 / bucket->per_minute;
        *wait_ms = ms < WAIT_MS_MAX ? (uint32_t)ms : WAIT_MS_MAX;
        return STATUS_BUSY;
    }
    bucket->n_left -= n;
    return STATUS_OK;
}

enum status quota_take(struct quota *quota, uint64_t now_ns, uint32_t *wait_ms) {
    if (quota->concurrent_max > 0 && quota->n_now >= quota->concurrent_max) {
        *wait_ms = WAIT_MS;
        return STATUS_BUSY;
    }
    if (quota->calls.per_minute > 0)
        TRY(bucket_take(&quota->calls, now_ns, 1, wait_ms));
    quota->n_now++;
    return STATUS_OK;
}

void quota_give(struct quota *quota) {
    ASSERT(quota->n_now > 0);
    quota->n_now--;
    if (quota->retired && quota->n_now == 0)
        free(quota);
}

enum status quota_take_tokens(struct quota *quota, uint64_t now_ns, uint64_t n, uint64_t *n_taken,
                              uint32_t *wait_ms) {
    bool is_bounded = quota->tokens.per_minute > 0;
    if (is_bounded)
        TRY(bucket_take(&quota->tokens, now_ns, (double)n, wait_ms));
    *n_taken = is_bounded ? n : 0;
    return STATUS_OK;
}

void quota_give_tokens(struct quota *quota, uint64_t n) {
    quota->tokens.n_left += (double)n; /* the next refill bounds it */
}

void quota_change(struct quota *quota, const struct quota *by) {
    quota->concurrent_max = by->concurrent_max;
    quota->calls.per_minute = by->calls.per_minute;
    quota->tokens.per_minute = by->tokens.per_minute;
    quota->tenant = by->tenant;
    memcpy(quota->name, by->name, sizeof quota->name);
}

void quota_retire(struct quota *quota) {
    if (!quota)
        return;
    quota->retired = true;
    if (quota->n_now == 0)
        free(quota);
}
