#include "worker/core/shares.h"

#include "base/assert.h"

#include <stdlib.h>

enum status shares_init(struct shares *shares, uint32_t capacity, uint64_t seed) {
    ASSERT(capacity > 0);
    *shares = (struct shares){.capacity = capacity};
    shares->all = calloc(capacity, sizeof *shares->all);
    shares->free = calloc(capacity, sizeof *shares->free);
    enum status status = shares->all && shares->free ? STATUS_OK : STATUS_NOMEM;
    if (status == STATUS_OK)
        status = map_init(&shares->by_tenant, capacity, seed);
    if (status != STATUS_OK) {
        shares_fini(shares);
        return status;
    }
    for (uint32_t i = 0; i < capacity; i++)
        shares->free[i] = capacity - 1 - i;
    return STATUS_OK;
}

void shares_fini(struct shares *shares) {
    free(shares->all);
    free(shares->free);
    map_fini(&shares->by_tenant);
    *shares = (struct shares){0};
}

static bool shares_one_is_late(const struct tenant_share *share) {
    return share->n_waiting > 0 && share->n_running == 0;
}

static uint32_t *shares_count_of(struct tenant_share *share, enum queue queue) {
    if (queue == QUEUE_HELD)
        return &share->n_held;
    return queue == QUEUE_WAITING ? &share->n_waiting : &share->n_running;
}

static uint32_t shares_take(struct shares *shares, uint64_t tenant) {
    uint32_t index;
    struct map_key key = {.lo = tenant};
    if (map_get(&shares->by_tenant, key, &index) == STATUS_OK)
        return index;
    ASSERT(shares->n_used < shares->capacity); /* each has a sequence, and a slot for it */
    index = shares->free[shares->capacity - 1 - shares->n_used++];
    shares->all[index] = (struct tenant_share){.tenant = tenant};
    enum status status = map_put(&shares->by_tenant, key, index);
    ASSERT(status == STATUS_OK);
    return index;
}

static void shares_give(struct shares *shares, uint32_t index) {
    bool known = map_remove(&shares->by_tenant, (struct map_key){.lo = shares->all[index].tenant});
    ASSERT(known);
    shares->all[index] = (struct tenant_share){0};
    shares->free[shares->capacity - shares->n_used--] = index;
}

void shares_enter(struct shares *shares, struct sequence *sequence) {
    ASSERT(sequence->queue != QUEUE_NONE);
    sequence->share = shares_take(shares, sequence->tenant);
    struct tenant_share *share = &shares->all[sequence->share];
    shares->n_late -= shares_one_is_late(share);
    ++*shares_count_of(share, sequence->queue);
    shares->n_late += shares_one_is_late(share);
}

void shares_leave(struct shares *shares, const struct sequence *sequence) {
    ASSERT(sequence->queue != QUEUE_NONE);
    struct tenant_share *share = &shares->all[sequence->share];
    uint32_t *count = shares_count_of(share, sequence->queue);
    ASSERT(share->tenant == sequence->tenant && *count > 0);
    shares->n_late -= shares_one_is_late(share);
    --*count;
    shares->n_late += shares_one_is_late(share);
    if (share->n_held + share->n_waiting + share->n_running == 0)
        shares_give(shares, sequence->share);
}

bool shares_is_late(const struct shares *shares, const struct sequence *sequence) {
    ASSERT(sequence->queue == QUEUE_WAITING);
    return shares->all[sequence->share].n_running == 0;
}

uint32_t shares_own_blocks(const struct sequence *sequence, const struct kv_pool *pool) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < sequence->n_blocks; i++)
        n += pool->holders[sequence->blocks[i]] == 1;
    return n;
}

void shares_count_blocks(struct shares *shares, const struct list *prefill,
                         const struct list *decode, const struct kv_pool *pool) {
    const struct list *lists[] = {prefill, decode};
    for (uint32_t i = 0; i < 2; i++) {
        list_each_entry(sequence, lists[i], const struct sequence, at) {
            shares->all[sequence->share].n_blocks = 0;
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        list_each_entry(sequence, lists[i], const struct sequence, at) {
            shares->all[sequence->share].n_blocks += shares_own_blocks(sequence, pool);
        }
    }
}

const char *shares_check(const struct shares *shares, uint32_t n_held, uint32_t n_waiting,
                         uint32_t n_running) {
    uint32_t n_used = 0, n_late = 0;
    for (uint32_t i = 0; i < shares->capacity; i++) {
        const struct tenant_share *share = &shares->all[i];
        n_used += share->n_held + share->n_waiting + share->n_running > 0;
        n_late += shares_one_is_late(share);
        n_held -= share->n_held;
        n_waiting -= share->n_waiting;
        n_running -= share->n_running;
    }
    if (n_used != shares->n_used || n_used != shares->by_tenant.n_used)
        return "a share belongs to no sequence";
    if (n_held != 0 || n_waiting != 0 || n_running != 0)
        return "the shares of tenants and the scheduler's counts differ";
    return n_late == shares->n_late ? NULL : "late tenants are counted wrong";
}
