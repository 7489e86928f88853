#include "tests/unit/worker/core/pair.h"

#include "tests/support/suite.h"

struct rig *pair_new(uint64_t seed, uint32_t credits) {
    struct rig *rig = rig_new(seed);
    rig->credits = credits;
    rig_add(rig, rig_config());
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    return rig;
}

struct call *pair_hand_over(struct rig *rig, uint32_t n_prompt, uint32_t max_new) {
    struct call *call = rig_call(rig, n_prompt, max_new);
    rig_reserve(rig, D, call);
    ck_assert(call->reserved);
    rig_prefill(rig, P, D, call);
    rig_decode(rig, D, P, call);
    return call;
}

const struct kv_pool *pair_pool(const struct rig *rig, uint32_t w) {
    return &rig->workers[w].engine->pool;
}

void pair_expect_quiet(struct rig *rig) {
    rig_check(rig);
    for (uint32_t w = 0; w < rig->n_workers; w++) {
        ck_assert_uint_eq(pair_pool(rig, w)->counts[KV_USED], 0);
        ck_assert_uint_eq(pair_pool(rig, w)->counts[KV_RESERVED], 0);
        ck_assert_uint_eq(pair_pool(rig, w)->counts[KV_QUARANTINED], 0);
        ck_assert_uint_eq(rig->workers[w].engine->handoffs.n_used, 0);
    }
}
