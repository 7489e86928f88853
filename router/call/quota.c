#include "router/call/quota.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdlib.h>

#define WAIT_MS 1000u /* for another call's end, which nobody knows */

static void quota_refill(struct quota *quota, uint64_t now_ns) {
    double since_min = (double)(now_ns - quota->refilled_ns) / (60.0 * (double)NS_PER_S);
    double n = quota->n_left + since_min * quota->per_minute;
    quota->n_left = quota->refilled_ns == 0 || n > quota->per_minute ? quota->per_minute : n;
    quota->refilled_ns = now_ns;
}

enum status quota_take(struct quota *quota, uint64_t now_ns, uint32_t *wait_ms) {
    if (quota->concurrent_max > 0 && quota->n_now >= quota->concurrent_max) {
        *wait_ms = WAIT_MS;
        return STATUS_BUSY;
    }
    if (quota->per_minute > 0) {
        quota_refill(quota, now_ns);
        if (quota->n_left < 1) {
            *wait_ms = 1 + (uint32_t)((1 - quota->n_left) * 60000 / quota->per_minute);
            return STATUS_BUSY;
        }
        quota->n_left -= 1;
    }
    quota->n_now++;
    return STATUS_OK;
}

void quota_give(struct quota *quota) {
    ASSERT(quota->n_now > 0);
    quota->n_now--;
    if (quota->retired && quota->n_now == 0)
        free(quota);
}

void quota_retire(struct quota *quota) {
    if (!quota)
        return;
    quota->retired = true;
    if (quota->n_now == 0)
        free(quota);
}
