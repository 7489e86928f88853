/* worker/core/shares.h: what each tenant has of this worker: its sequences that wait and that run.
 *
 * A tenant has a share while one of its sequences is in a list of the scheduler. One whose sequences
 * wait while none of them runs is *late*: the scheduler lets it in before others (schedule.c). Engine thread
 * only. Only shares_init() allocates; each operation but shares_count_blocks() takes constant time. */
#pragma once

#include "base/map.h"
#include "worker/core/kv_pool.h"
#include "worker/core/sequence.h"

struct tenant_share {
    uint64_t tenant;
    uint32_t n_waiting; /* sequences in QUEUE_WAITING */
    uint32_t n_running; /* in QUEUE_PREFILL or QUEUE_DECODE */
    uint32_t n_held;    /* in QUEUE_HELD */
    uint32_t n_blocks;  /* as shares_count_blocks() left it */
};

struct shares {
    struct tenant_share *all; /* owned (capacity) */
    uint32_t *free;           /* owned (capacity): a stack of indexes of `all` */
    uint32_t capacity;
    uint32_t n_used; /* tenants that have a share */
    uint32_t n_late; /* of them those that are late */
    struct map by_tenant;
};

/* `capacity`: sequences held at once, and so tenants. */
NODISCARD enum status shares_init(struct shares *shares, uint32_t capacity, uint64_t seed);
void shares_fini(struct shares *shares); /* fine on a zeroed or half-built object */

/* The sequence is in a list from now on, that of its `queue`; sets its `share`. */
void shares_enter(struct shares *shares, struct sequence *sequence);

/* The same sequence leaves that list: before its `queue` changes. */
void shares_leave(struct shares *shares, const struct sequence *sequence);

/* A sequence that waits: does none of its tenant's run? */
bool shares_is_late(const struct shares *shares, const struct sequence *sequence);

/* Blocks that would be free if this one gave its blocks back: those without another holder. */
uint32_t shares_own_blocks(const struct sequence *sequence, const struct kv_pool *pool);

/* Sets n_blocks of each tenant with sequences in these lists to what shares_own_blocks() says of all of
 * them that are in either. */
void shares_count_blocks(struct shares *shares, const struct list *prefill,
                         const struct list *decode, const struct kv_pool *pool);

/* NULL, or what is broken; the counts are those of the scheduler's lists. For tests. */
const char *shares_check(const struct shares *shares, uint32_t n_held, uint32_t n_waiting,
                         uint32_t n_running);
