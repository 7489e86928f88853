/* When there is no step ahead: each reason, counted and noted. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/ahead.h"
#include "tests/unit/worker/core/pair.h"

const char *const suite_name = "worker_core_repeat_refused";
const double suite_timeout_s = 60;

START_TEST(no_step_is_ahead_of_a_prompt) {
    struct rig *rig = ahead_rig(rig_config());
    ahead_decoding(rig, 5, 9);
    struct call *call = rig_call(rig, 100, 5); /* two chunks */
    rig_both(rig, 0, call);
    for (int i = 0; i < 2; i++) {
        ck_assert(rig_plan(rig, 0));
        ahead_expect(rig, REPEAT_PROMPT);
        rig_end(rig, 0);
    }
    ck_assert_uint_eq(call->n_got, 1);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    ck_assert(rig_noted(&rig->workers[0], 0,
                        "no step ahead router=router request=1f4.2.1 reason=prompt rows=2"));
    rig_free(rig);
}
END_TEST

START_TEST(no_step_is_ahead_of_a_token_that_is_the_last_by_count) {
    struct rig *rig = ahead_rig(rig_config());
    struct call *call = ahead_decoding(rig, 5, 3);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED); /* the second of three */
    rig_end(rig, 0);
    ahead_expect(rig, REPEAT_FULL);
    rig_end(rig, 0);
    rig_expect_done(call, 3, FINISH_LENGTH);
    ahead_over(rig, 0);
    rig_free(rig);
}
END_TEST

START_TEST(no_step_is_ahead_of_a_token_that_fills_the_context) {
    struct engine_config config = rig_config();
    config.context = 32;
    struct rig *rig = ahead_rig(config);
    struct call *call = ahead_decoding(rig, 29, 30);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED); /* the 31st */
    rig_end(rig, 0);
    ahead_expect(rig, REPEAT_FULL);
    rig_end(rig, 0);
    rig_expect_done(call, 3, FINISH_LENGTH);
    ahead_over(rig, 0);
    rig_free(rig);
}
END_TEST

START_TEST(penalties_and_grammars_need_to_know_the_last_token) {
    struct rig *rig = ahead_rig(rig_config());
    struct call *call = rig_call(rig, 20, 9);
    call->sampling.presence = _i == 0 ? 0.5f : 0;
    call->sampling.frequency = _i == 1 ? -0.5f : 0;
    call->sampling.repetition = _i == 2 ? 1.1f : 1;
    call->sampling.min_new = 4;
    call->sampling.grammar = (const uint8_t *)"g";
    call->sampling.n_grammar = _i == 3;
    rig_both(rig, 0, call);
    ck_assert(rig_step(rig, 0));
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, _i < 4 ? REPEAT_HISTORY : REPEAT_GRANTED);
    rig_free(rig);
}
END_TEST

START_TEST(who_waits_behind_a_full_batch_does_not_hold_others_up) {
    struct engine_config config = rig_config();
    config.max_batch = 2;
    struct rig *rig = ahead_rig(config);
    for (uint32_t i = 0; i < 2; i++)
        rig_both(rig, 0, rig_call(rig, 5, 30));
    ck_assert(rig_step(rig, 0));
    ck_assert(rig_plan(rig, 0));
    rig_both(rig, 0, rig_call(rig, 5, 30));
    ahead_expect(rig, REPEAT_GRANTED);
    rig_free(rig);
}
END_TEST

/* More than a step has rows for: what was handed over decodes whether or not there is one. */
START_TEST(who_decodes_by_turns_waits_for_results) {
    struct rig *rig = rig_new(5);
    struct engine_config config = rig_config();
    rig_add(rig, config);
    config.max_batch = 1;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *calls[2];
    for (uint32_t i = 0; i < 2; i++)
        calls[i] = pair_hand_over(rig, 20, 9);
    rig_deliver_all(rig);
    rig_step(rig, P);
    rig_deliver_all(rig);
    ck_assert_uint_eq(worker->engine->schedule.n_decode, 2);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert(rig_plan(rig, D));
        ck_assert_int_eq(rig_repeat(rig, D), REPEAT_OTHERS);
        rig_end(rig, D);
    }
    ck_assert_uint_eq(calls[0]->n_got, 3);
    ck_assert_uint_eq(calls[1]->n_got, 3);
    ck_assert(
        rig_noted(worker, 0, "no step ahead router=router request=1f4.1.1 reason=others rows=1"));
    rig_free(rig);
}
END_TEST

START_TEST(one_that_is_handed_over_meanwhile_comes_into_the_next_plan) {
    struct rig *rig = pair_new(5, 64);
    struct worker *worker = &rig->workers[D];
    struct call *first = rig_call(rig, 20, 30);
    rig_both(rig, D, first);
    ck_assert(rig_step(rig, D));
    ck_assert(rig_plan(rig, D));
    ck_assert_int_eq(rig_repeat(rig, D), REPEAT_GRANTED);
    struct call *call = pair_hand_over(rig, 40, 9);
    rig_deliver_all(rig);
    rig_step(rig, P);
    rig_deliver_all(rig);
    rig_check(rig);
    ck_assert_uint_eq(worker->engine->schedule.n_decode, 2);
    rig_end(rig, D);
    ck_assert_int_eq(rig_repeat(rig, D), REPEAT_OTHERS);
    rig_end(rig, D);
    ck_assert(rig_plan(rig, D));
    ck_assert_uint_eq(worker->plan.n_rows, 2);
    ck_assert_int_eq(rig_repeat(rig, D), REPEAT_GRANTED);
    worker->repeats = true;
    rig_run(rig, 100);
    rig_expect_done(call, 9, FINISH_LENGTH);
    rig_expect_done(first, 30, FINISH_LENGTH);
    rig_forget(rig, P, call);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(who_may_come_in_is_not_kept_waiting) {
    struct rig *rig = ahead_rig(rig_config());
    struct call *call = rig_call(rig, 20, 5);
    ahead_decoding(rig, 5, 30);
    ck_assert(rig_plan(rig, 0));
    rig_both(rig, 0, call);
    ahead_expect(rig, REPEAT_WAITING);
    rig_end(rig, 0);
    ck_assert(rig_plan(rig, 0));
    ck_assert_uint_eq(rig->workers[0].plan.n_prompt, 20);
    rig_free(rig);
}
END_TEST

/* A pool that one sequence fills. Who does not fit waits as it would have; who is better has its way. */
START_TEST(who_cannot_come_in_does_not_hold_others_up) {
    struct engine_config config = rig_config();
    config.n_blocks = 4;
    struct rig *rig = ahead_rig(config);
    struct call *large = rig_call(rig, 40, 5);
    struct call *first = rig_call(rig, 20, 30);
    first->priority = 1;
    large->priority = _i == 0 ? 1 : 0;
    rig_both(rig, 0, first);
    ck_assert(rig_step(rig, 0));
    rig_both(rig, 0, large);
    ck_assert(rig_plan(rig, 0)); /* it is looked at and does not fit */
    ck_assert(ahead_sequence(rig, large)->blocked);
    ahead_expect(rig, _i == 0 ? REPEAT_GRANTED : REPEAT_WAITING);
    rig->workers[0].repeats = true;
    rig_end(rig, 0);
    rig_run(rig, 200);
    rig_expect_done(first, 30, FINISH_LENGTH);
    rig_expect_done(large, 5, FINISH_LENGTH);
    ahead_over(rig, 0);
    rig_free(rig);
}
END_TEST

/* Two that come to the end of a block in one step, and `_i` blocks for them. */
START_TEST(without_blocks_for_all_next_positions_there_is_no_step_ahead) {
    struct engine_config config = rig_config();
    config.n_blocks = 2 + (uint32_t)_i;
    struct rig *rig = ahead_rig(config);
    struct engine *engine = rig->workers[0].engine;
    struct call *calls[2];
    for (uint32_t i = 0; i < 2; i++) {
        calls[i] = rig_call(rig, 14, 10);
        rig_both(rig, 0, calls[i]);
    }
    while (calls[0]->n_got == 0 || calls[1]->n_got == 0)
        ck_assert(rig_step(rig, 0));
    ck_assert(rig_plan(rig, 0));
    while (ahead_sequence(rig, calls[0])->n_tokens < 16) {
        ahead_expect(rig, REPEAT_GRANTED);
        rig_end(rig, 0);
    }
    ck_assert_uint_eq(ahead_n_used(rig), 2);
    ahead_expect(rig, _i < 2 ? REPEAT_BLOCKS : REPEAT_GRANTED);
    ck_assert_uint_eq(ahead_n_used(rig), _i < 2 ? 2 : 4); /* all or nothing */
    ck_assert_uint_eq(engine->figures.n_preemptions, 0);
    rig->workers[0].repeats = true;
    rig_end(rig, 0);
    rig_run(rig, 200);
    for (uint32_t i = 0; i < 2; i++)
        rig_expect_done(calls[i], 10, FINISH_LENGTH);
    ck_assert_uint_eq(engine->figures.n_preemptions > 0, _i < 2);
    ahead_over(rig, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_prefix_that_nobody_uses_makes_room_for_a_next_position) {
    struct engine_config config = rig_config();
    config.n_blocks = 2;
    struct rig *rig = ahead_rig(config);
    struct call *gone = rig_call(rig, 16, 1);
    rig_both(rig, 0, gone);
    ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(rig->workers[0].engine->pool.counts[KV_CACHED], 1);
    ahead_decoding(rig, 14, 9);
    ck_assert(rig_plan(rig, 0));
    ahead_expect(rig, REPEAT_GRANTED);
    rig_end(rig, 0);
    ahead_expect(rig, REPEAT_GRANTED);
    ck_assert_uint_eq(ahead_n_used(rig), 2);
    rig_free(rig);
}
END_TEST

START_TEST(an_answer_is_noted_when_it_is_another_one) {
    struct rig *rig = ahead_rig(rig_config());
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 9);
    call->sampling.presence = 1;
    rig_both(rig, 0, call);
    ck_assert(rig_step(rig, 0));
    uint32_t n_notes = worker->n_notes;
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(rig_plan(rig, 0));
        ahead_expect(rig, REPEAT_HISTORY);
        rig_end(rig, 0);
    }
    ck_assert_uint_eq(worker->n_notes, n_notes + 1);
    ck_assert(rig_noted(worker, n_notes,
                        "no step ahead router=router request=1f4.1.1 reason=history rows=1"));
    ck_assert_uint_eq(engine_repeats(worker->engine)->n[REPEAT_HISTORY], 3);
    ck_assert_uint_eq(engine_repeats(worker->engine)->n[REPEAT_GRANTED], 0);
    ck_assert_str_eq(worker->note, ""); /* nothing above debug */
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, no_step_is_ahead_of_a_prompt);
    tcase_add_test(tests, no_step_is_ahead_of_a_token_that_is_the_last_by_count);
    tcase_add_test(tests, no_step_is_ahead_of_a_token_that_fills_the_context);
    tcase_add_loop_test(tests, penalties_and_grammars_need_to_know_the_last_token, 0, 5);
    tcase_add_test(tests, who_waits_behind_a_full_batch_does_not_hold_others_up);
    tcase_add_test(tests, who_decodes_by_turns_waits_for_results);
    tcase_add_test(tests, one_that_is_handed_over_meanwhile_comes_into_the_next_plan);
    tcase_add_test(tests, who_may_come_in_is_not_kept_waiting);
    tcase_add_loop_test(tests, who_cannot_come_in_does_not_hold_others_up, 0, 2);
    tcase_add_loop_test(tests, without_blocks_for_all_next_positions_there_is_no_step_ahead, 0, 3);
    tcase_add_test(tests, a_prefix_that_nobody_uses_makes_room_for_a_next_position);
    tcase_add_test(tests, an_answer_is_noted_when_it_is_another_one);
}
