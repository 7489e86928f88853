/* A step that begins before the results of the one before are known: what it is, and what becomes of
 * sequences that end or are given up meanwhile. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/ahead.h"

#include <string.h>

const char *const suite_name = "worker_core_repeat";
const double suite_timeout_s = 60;

START_TEST(a_step_is_repeated_one_position_further) {
    struct rig *rig = ahead_rig(rig_config());
    struct worker *worker = &rig->workers[0];
    struct call *calls[2];
    for (uint32_t i = 0; i < 2; i++) {
        calls[i] = rig_call(rig, 14 + i, 40);
        rig_both(rig, 0, calls[i]);
    }
    ck_assert(rig_step(rig, 0));
    ck_assert(rig_plan(rig, 0));
    for (uint32_t step = 0; step < 5; step++) { /* over the end of a block each */
        ahead_expect(rig, REPEAT_GRANTED);
        ck_assert_uint_eq(worker->ahead.n_rows, 2);
        ck_assert_uint_eq(worker->ahead.n_tokens, 2);
        ck_assert_uint_eq(worker->ahead.n_prompt, 0);
        for (uint32_t i = 0; i < 2; i++) {
            const struct plan_row *row = &worker->ahead.rows[i], *now = &worker->plan.rows[i];
            ck_assert_uint_eq(row->slot, now->slot);
            ck_assert_uint_eq(row->begin, now->begin + 1);
            ck_assert_uint_eq(row->begin, 15 + i + step);
            ck_assert_uint_eq(row->n_tokens, 1);
            ck_assert_ptr_null(row->ids);
            ck_assert_ptr_eq(row->blocks, now->blocks);
            ck_assert(row->sample);
            ck_assert_uint_eq(worker->engine->sequences.slots[row->slot].n_steps, 2);
        }
        rig_end(rig, 0);
        rig_check(rig);
        ck_assert_uint_eq(calls[0]->n_got, 2 + step);
        ck_assert_uint_eq(calls[1]->n_got, 2 + step);
    }
    rig_end(rig, 0);
    ck_assert(!worker->engine->in_flight);
    ck_assert_uint_eq(engine_repeats(worker->engine)->n[REPEAT_GRANTED], 5);
    rig_run(rig, 100);
    rig_expect_done(calls[0], 40, FINISH_LENGTH);
    rig_expect_done(calls[1], 40, FINISH_LENGTH);
    ahead_over(rig, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_variant_goes_along) {
    struct engine_config config = rig_config();
    config.n_variants = 2;
    config.variant_limits[0] = 10;
    struct rig *rig = ahead_rig(config);
    ahead_decoding(rig, 11, 9);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    ck_assert_uint_eq(rig->workers[0].ahead.rows[0].variant, 1);
    rig_free(rig);
}
END_TEST

/* Replaces the call's stop id by the token that comes as number `index`. */
static void stop_at(struct call *call, uint32_t index, uint32_t *stop) {
    uint32_t ids[RIG_IDS];
    memcpy(ids, call->ids, call->n_prompt * sizeof *ids);
    for (uint32_t i = 0; i <= index; i++)
        ids[call->n_prompt + i] = rig_oracle(ids, call->n_prompt + i);
    *stop = ids[call->n_prompt + index];
    call->sampling.stop_ids = stop;
    call->sampling.n_stop_ids = 1;
}

/* A call that stops with its second token, while the step behind that is in flight. */
static struct call *ended_too_late(struct rig *rig, uint32_t n_prompt) {
    uint32_t stop;
    struct call *call = rig_call(rig, n_prompt, 40);
    stop_at(call, 1, &stop);
    rig_both(rig, 0, call);
    ck_assert(rig_step(rig, 0));
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    rig_end(rig, 0);
    rig_check(rig);
    rig_expect_done(call, 2, FINISH_STOP); /* its router knows */
    return call;
}

START_TEST(an_end_is_seen_one_step_late_and_what_came_behind_it_is_dropped) {
    struct rig *rig = ahead_rig(rig_config());
    struct call *call = ended_too_late(rig, 20);
    ck_assert_int_eq(ahead_sequence(rig, call)->state, SEQUENCE_ENDED);
    ck_assert_uint_eq(ahead_n_used(rig), 2); /* the step ahead writes there */
    ahead_expect(rig, REPEAT_LEFT);
    rig_end(rig, 0);
    rig_expect_done(call, 2, FINISH_STOP);
    ck_assert_uint_eq(ahead_sequence(rig, call)->n_tokens, 22);
    ahead_over(rig, 1);
    rig_resend(rig, 0, call, 0); /* the same again */
    rig_expect_done(call, 2, FINISH_STOP);
    rig_forget(rig, 0, call);
    ck_assert(engine_idle(rig->workers[0].engine));
    rig_free(rig);
}
END_TEST

START_TEST(a_block_that_only_a_dropped_step_has_filled_gets_no_name) {
    for (uint32_t n_prompt = 29; n_prompt <= 31; n_prompt++) {
        struct rig *rig = ahead_rig(rig_config());
        ended_too_late(rig,
                       n_prompt); /* 31, 32 and 33 tokens, the last of them computed too late */
        rig_end(rig, 0);
        ahead_over(rig, 1);
        ck_assert_uint_eq(rig->workers[0].engine->cache.map.n_used, n_prompt == 31 ? 2 : 1);
        rig_free(rig);
    }
}
END_TEST

START_TEST(an_answer_that_is_forgotten_in_the_step_behind_its_end_leaves_with_it) {
    struct rig *rig = ahead_rig(rig_config());
    struct call *call = ended_too_late(rig, 20);
    rig_forget(rig, 0, call);
    rig_check(rig);
    ck_assert(!engine_idle(rig->workers[0].engine));
    ck_assert_uint_eq(ahead_n_used(rig), 2);
    rig_end(rig, 0);
    ahead_over(rig, 1);
    ck_assert(engine_idle(rig->workers[0].engine));
    rig_free(rig);
}
END_TEST

START_TEST(unusable_numbers_are_an_error_one_step_late) {
    struct rig *rig = ahead_rig(rig_config());
    struct call *call = ahead_decoding(rig, 20, 40);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    rig->workers[0].n_spoilt = 1;
    rig_end(rig, 0);
    rig_expect_done(call, 1, FINISH_ERROR);
    rig_check(rig);
    ck_assert_uint_eq(ahead_n_used(rig), 2);
    rig_end(rig, 0);
    rig_expect_done(call, 1, FINISH_ERROR);
    ahead_over(rig, 1);
    rig_free(rig);
}
END_TEST

/* Cancelled after `when` of the two steps in flight have ended; its neighbour goes on. */
START_TEST(what_is_cancelled_keeps_blocks_and_slot_until_its_last_step_ends) {
    struct rig *rig = ahead_rig(rig_config());
    struct engine *engine = rig->workers[0].engine;
    struct call *call = rig_call(rig, 20, 40), *other = rig_call(rig, 21, 12);
    rig_both(rig, 0, call);
    rig_both(rig, 0, other);
    ck_assert(rig_step(rig, 0));
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    if (_i == 1)
        rig_end(rig, 0);
    rig_cancel(rig, 0, call);
    for (int i = _i; i < 2; i++) {
        rig_check(rig);
        ck_assert(call->cancelled);
        ck_assert_uint_eq(ahead_n_used(rig), 4);
        ck_assert_uint_eq(engine->sequences.n_used, 2);
        if (i == 1)
            ahead_expect(rig, REPEAT_LEFT);
        rig_end(rig, 0);
    }
    rig_check(rig);
    ck_assert_uint_eq(ahead_n_used(rig), 2);
    ck_assert_uint_eq(engine->sequences.n_used, 1);
    ck_assert_uint_eq(call->n_got, 1 + (uint32_t)_i);
    rig_run(rig, 100);
    rig_expect_done(other, 12, FINISH_LENGTH);
    ahead_over(rig, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_router_that_leaves_takes_all_of_it_along) {
    struct rig *rig = ahead_rig(rig_config());
    struct worker *worker = &rig->workers[0];
    ahead_decoding(rig, 20, 40);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    engine_link_lost(worker->engine, rig->now_ns, rig_link(0));
    rig_check(rig);
    rig_end(rig, 0);
    rig_check(rig);
    ck_assert_uint_eq(ahead_n_used(rig), 2);
    rig_end(rig, 0);
    ahead_over(rig, 0);
    ck_assert(engine_idle(worker->engine));
    rig_free(rig);
}
END_TEST

START_TEST(a_step_ahead_is_announced_and_measured_when_it_is_its_turn) {
    struct rig *rig = ahead_rig(rig_config());
    struct worker *worker = &rig->workers[0];
    struct load load;
    rig_hello(rig, 1); /* a router for whom nothing is computed */
    ahead_decoding(rig, 20, 40);
    ck_assert(rig_plan(rig, 0)); /* 100 us */
    uint32_t n_beats = worker->n_beats;
    ahead_expect(rig, REPEAT_GRANTED); /* 200 us */
    engine_load(worker->engine, &load);
    ck_assert_uint_eq(load.step_us_expected, 100);
    rig_end(rig, 0);
    ck_assert_uint_eq(worker->load.step_us_expected, 200); /* in the STEP */
    ck_assert_uint_eq(worker->n_beats, n_beats);
    ck_assert_uint_eq(worker->engine->step_begin_ns, rig->now_ns);
    ahead_expect(rig, REPEAT_GRANTED);
    engine_step_begin(worker->engine, rig->now_ns, 30000); /* a long one */
    ck_assert_uint_eq(worker->n_beats, n_beats);
    rig_end(rig, 0);
    ck_assert_uint_eq(worker->n_beats, n_beats + 1); /* to the other router */
    ck_assert_uint_eq(worker->load.step_us_expected, 30000);
    rig_end(rig, 0);
    ck_assert_uint_eq(worker->load.step_us_expected, 0);
    engine_load(worker->engine, &load);
    ck_assert_uint_eq(load.step_us_expected, 0);
    ck_assert_uint_le(load.step_us_typical, 100); /* each from the end of the one before */
    rig_free(rig);
}
END_TEST

START_TEST(layers_are_those_of_the_older_step) {
    struct rig *rig = ahead_rig(rig_config());
    struct worker *worker = &rig->workers[0];
    ahead_decoding(rig, 20, 40);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    while (rig_layer(rig, 0))
        ;
    ck_assert_uint_eq(worker->engine->layers_ready, RIG_LAYERS);
    rig_end(rig, 0);
    ck_assert_uint_eq(worker->engine->layers_ready, 0);
    uint64_t progress = worker->engine->figures.progress;
    ck_assert(rig_layer(rig, 0));
    ck_assert_uint_eq(worker->engine->layers_ready, 1);
    ck_assert_uint_eq(worker->engine->figures.progress, progress + 1);
    rig_free(rig);
}
END_TEST

/* Calls of all kinds in a small pool, with and without steps ahead: rig_sink.c holds each token against
 * what the prompt says; here everything else that a client sees is compared. */
static struct rig *answer_all(bool repeats) {
    static uint32_t stops[40];
    struct engine_config config = rig_config();
    config.n_blocks = 16;
    config.context = 120;
    config.max_batch = 6;
    struct rig *rig = ahead_rig(config);
    rig->workers[0].repeats = repeats;
    for (uint32_t i = 0; i < 40; i++) {
        struct call *call = rig_call(rig, 1 + i * 7 % 60, 1 + i * 11 % 50);
        if (i % 3 == 0)
            stop_at(call, i % 13, &stops[i]);
        call->sampling.min_new = i % 5;
        call->sampling.want_logprobs = i % 2;
        call->sampling.presence = i % 17 == 5;
        call->priority = i % 3;
        if (i % 4 == 1) /* shares a prefix with the one before */
            memcpy(call->ids, call[-1].ids,
                   (call->n_prompt < call[-1].n_prompt ? call->n_prompt : call[-1].n_prompt) *
                       sizeof *call->ids);
        rig_both(rig, 0, call);
        for (uint32_t k = 0; k < i % 4; k++)
            rig_step(rig, 0);
    }
    rig_run(rig, 5000);
    return rig;
}

START_TEST(answers_are_the_same_with_and_without_steps_ahead) {
    struct rig *plain = answer_all(false), *ahead = answer_all(true);
    for (uint32_t i = 0; i < 40; i++) {
        const struct call *a = &plain->calls[i], *b = &ahead->calls[i];
        ck_assert_int_ne(a->finish, FINISH_NONE);
        rig_expect_done(&ahead->calls[i], a->n_got, a->finish);
        ck_assert_mem_eq(a->ids, b->ids, (a->n_prompt + a->n_got) * sizeof *a->ids);
        ck_assert_uint_eq(a->n_logprobs, b->n_logprobs);
    }
    const struct engine *engine = ahead->workers[0].engine;
    const struct engine_repeats *repeats = engine_repeats(engine);
    ck_assert_uint_gt(engine->figures.n_preemptions, 0);
    ck_assert_uint_gt(repeats->n_dropped, 0);
    for (enum repeat repeat = 0; repeat < REPEAT_REASONS; repeat++)
        if (repeat != REPEAT_OTHERS && repeat != REPEAT_BLOCKS)
            ck_assert_msg(repeats->n[repeat] > 0, "%s", engine_repeat_name(repeat));
    ahead_over(ahead, repeats->n_dropped);
    rig_free(plain);
    rig_free(ahead);
}
END_TEST

/* Labels of a metric. */
START_TEST(each_reason_has_a_name_of_its_own) {
    for (enum repeat a = REPEAT_GRANTED; a < REPEAT_REASONS; a++) {
        ck_assert_ptr_nonnull(engine_repeat_name(a));
        ck_assert_uint_gt(strlen(engine_repeat_name(a)), 0);
        for (enum repeat b = REPEAT_GRANTED; b < a; b++)
            ck_assert_str_ne(engine_repeat_name(a), engine_repeat_name(b));
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_step_is_repeated_one_position_further);
    tcase_add_test(tests, a_variant_goes_along);
    tcase_add_test(tests, an_end_is_seen_one_step_late_and_what_came_behind_it_is_dropped);
    tcase_add_test(tests, a_block_that_only_a_dropped_step_has_filled_gets_no_name);
    tcase_add_test(tests, an_answer_that_is_forgotten_in_the_step_behind_its_end_leaves_with_it);
    tcase_add_test(tests, unusable_numbers_are_an_error_one_step_late);
    tcase_add_loop_test(tests, what_is_cancelled_keeps_blocks_and_slot_until_its_last_step_ends, 0,
                        2);
    tcase_add_test(tests, a_router_that_leaves_takes_all_of_it_along);
    tcase_add_test(tests, a_step_ahead_is_announced_and_measured_when_it_is_its_turn);
    tcase_add_test(tests, layers_are_those_of_the_older_step);
    tcase_add_test(tests, answers_are_the_same_with_and_without_steps_ahead);
    tcase_add_test(tests, each_reason_has_a_name_of_its_own);
}
