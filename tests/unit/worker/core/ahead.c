#include "tests/unit/worker/core/ahead.h"

#include "tests/support/suite.h"

struct rig *ahead_rig(struct engine_config config) {
    struct rig *rig = rig_new(1);
    rig_add(rig, config);
    rig_hello(rig, 0);
    return rig;
}

/* A call whose prompt is computed and whose next step is planned. */
struct call *ahead_decoding(struct rig *rig, uint32_t n_prompt, uint32_t max_new) {
    struct call *call = rig_call(rig, n_prompt, max_new);
    rig_both(rig, 0, call);
    ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(call->n_got, 1);
    return call;
}

const struct sequence *ahead_sequence(const struct rig *rig, const struct call *call) {
    return sequence_find(&rig->workers[0].engine->sequences, call->req);
}

uint32_t ahead_n_used(const struct rig *rig) {
    return rig->workers[0].engine->pool.counts[KV_USED];
}

void ahead_expect(struct rig *rig, enum repeat repeat) {
    enum repeat got = rig_repeat(rig, 0);
    ck_assert_msg(got == repeat, "%s, not %s", engine_repeat_name(got), engine_repeat_name(repeat));
    rig_check(rig);
}

/* Nothing is held any more, and tokens that nobody wants were computed `n_dropped` times. */
void ahead_over(struct rig *rig, uint64_t n_dropped) {
    const struct engine *engine = rig->workers[0].engine;
    rig_check(rig);
    ck_assert(!engine->in_flight);
    ck_assert_uint_eq(ahead_n_used(rig), 0);
    ck_assert_uint_eq(engine_repeats(engine)->n_dropped, n_dropped);
}
