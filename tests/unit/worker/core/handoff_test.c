#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"

#include <string.h>

const char *const suite_name = "worker_core_handoff";
const double suite_timeout_s = 120;

START_TEST(tokens_are_right_with_every_number_of_credits_and_chunk_size) {
    static const uint32_t credits[] = {1, 2, 8};
    static const uint32_t chunks[] = {1, 5, 16, 64};
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t k = 0; k < 4; k++) {
            struct rig *rig = rig_new(c * 10 + k);
            struct engine_config config = rig_config();
            rig->credits = credits[c];
            config.chunk_tokens = chunks[k];
            rig_add(rig, config);
            rig_add(rig, rig_config());
            rig_hello(rig, 0);
            for (uint32_t i = 0; i < 6; i++)
                pair_hand_over(rig, 1 + i * 19, 20);
            rig_run(rig, 2000);
            for (uint32_t i = 0; i < 6; i++)
                rig_expect_done(&rig->calls[i], 20, FINISH_LENGTH);
            ck_assert_uint_eq(rig->workers[P].engine->figures.n_handoffs_out, 6);
            ck_assert_uint_eq(rig->workers[D].engine->figures.n_handoffs_in, 6);
            pair_expect_quiet(rig);
            rig_free(rig);
        }
}
END_TEST

START_TEST(layers_leave_while_the_step_computes) {
    struct rig *rig = pair_new(2, 8);
    pair_hand_over(rig, 40, 5);
    rig_deliver_all(rig);
    struct pipe *pipe = &rig->pipes[0];
    ck_assert(rig_plan(rig, P));
    rig_layer(rig, P);
    ck_assert_uint_eq(pipe->n_to_d, 0); /* a group has two layers */
    rig_layer(rig, P);
    ck_assert_uint_gt(pipe->n_to_d, 0);
    rig_end(rig, P);
    rig_run(rig, 100);
    rig_expect_done(&rig->calls[0], 5, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(credits_bound_the_chunks_in_flight) {
    struct rig *rig = pair_new(3, 2);
    struct call *call = pair_hand_over(rig, 200, 5);
    rig_deliver_all(rig);
    struct pipe *pipe = &rig->pipes[0];
    while (rig_step(rig, P))
        ck_assert_uint_le(pipe->n_to_d, 2);
    ck_assert_uint_eq(pipe->n_to_d, 2);
    ck_assert_uint_eq(call->n_got, 1); /* token 0 did not wait for the transfer */
    ck_assert_uint_gt(pair_pool(rig, P)->counts[KV_USED], 0);
    rig_run(rig, 1000);
    rig_expect_done(call, 5, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* The first one waits for the receiver's word. */
START_TEST(a_transfer_that_waits_for_its_end_holds_no_other_up) {
    struct rig *rig = pair_new(5, 64);
    struct call *calls[3];
    for (int i = 0; i < 3; i++)
        calls[i] = pair_hand_over(rig, 20, 5);
    struct pipe *pipe = &rig->pipes[0];
    while (!pipe->announced)
        rig_deliver_all(rig);
    while (rig_step(rig, P))
        ;
    uint32_t n_commits = 0;
    for (uint32_t i = 0; i < pipe->n_to_d; i++)
        n_commits += pipe->to_d[i].message.type == MESSAGE_COMMIT;
    ck_assert_uint_eq(n_commits, 3); /* none of them was delivered */
    rig_run(rig, 1000);
    for (int i = 0; i < 3; i++)
        rig_expect_done(calls[i], 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Both sides say that it has ended, and the receiver computes nothing more. */
START_TEST(what_ends_with_its_first_token_is_not_gone_on_with) {
    struct rig *rig = pair_new(8, 64);
    struct call *call = pair_hand_over(rig, 20, 1);
    rig_run(rig, 100);
    rig_expect_done(call, 1, FINISH_LENGTH);
    const struct worker *worker = &rig->workers[D];
    const struct sequence *sequence = sequence_find(&worker->engine->sequences, call->req);
    ck_assert_ptr_nonnull(sequence);
    ck_assert_int_eq(sequence->state, SEQUENCE_ENDED);
    ck_assert_int_eq(sequence->finish, FINISH_LENGTH);
    ck_assert_uint_eq(worker->max_rows, 0);
    rig_free(rig);
}
END_TEST

/* It came whole before its Submit, which is the last word then: nothing is bound to the link any more. */
START_TEST(a_transfer_that_came_before_its_submit_is_over_with_it) {
    struct rig *rig = pair_new(6, 64);
    struct call *call = rig_call(rig, 20, 5);
    rig_reserve(rig, D, call);
    rig_prefill(rig, P, D, call);
    while (rig_deliver_all(rig) || rig_step(rig, P))
        ;
    ck_assert_uint_eq(rig->workers[D].engine->figures.n_handoffs_in, 1);
    rig_decode(rig, D, P, call);
    rig_check(rig);
    rig_cut(rig, &rig->pipes[0]); /* it is nothing to the sequence */
    rig_run(rig, 100);
    rig_expect_done(call, 5, FINISH_LENGTH);
    ck_assert(!call->failed);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* Nothing waits for a tick: what makes room wakes what needs it. */
START_TEST(credits_of_a_transfer_that_is_given_up_go_to_the_next_at_once) {
    struct rig *rig = pair_new(5, 1);
    struct call *first = pair_hand_over(rig, 40, 5);
    struct call *second = pair_hand_over(rig, 40, 5);
    while (!rig->pipes[0].announced)
        rig_deliver_all(rig);
    while (rig_step(rig, P))
        ;
    struct pipe *pipe = &rig->pipes[0];
    ck_assert_uint_eq(pipe->n_to_d, 1);
    rig_cancel(rig, P, first);
    ck_assert_uint_eq(pipe->n_to_d, 3); /* its chunk, its end, and the other one's first chunk */
    ck_assert_int_eq(pipe->to_d[2].message.type, MESSAGE_CHUNK);
    rig_run(rig, 1000);
    rig_expect_done(second, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(cached_blocks_leave_before_the_step_computes) {
    struct rig *rig = pair_new(6, 8);
    struct call *first = rig_call(rig, 100, 2);
    rig_both(rig, P, first);
    rig_run(rig, 100);
    struct call *again = rig_call(rig, 100, 5);
    memcpy(again->ids, first->ids, 100 * sizeof first->ids[0]);
    rig_reserve(rig, D, again);
    rig_prefill(rig, P, D, again);
    rig_decode(rig, D, P, again);
    rig_deliver_all(rig);
    ck_assert(rig_plan(rig, P));
    ck_assert_uint_gt(rig->pipes[0].n_to_d, 0);
    while (rig_layer(rig, P))
        ;
    rig_end(rig, P);
    rig_run(rig, 100);
    rig_expect_done(again, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(room_in_the_shell_is_used_at_once) {
    struct rig *rig = pair_new(7, 8);
    struct call *call = pair_hand_over(rig, 100, 5);
    rig_deliver_all(rig);
    rig->queue_max = 1;
    while (rig_step(rig, P))
        ;
    struct pipe *pipe = &rig->pipes[0];
    ck_assert_uint_eq(pipe->n_to_d, 1);
    ck_assert(rig_deliver(rig, pipe, true));
    engine_kv_room(rig->workers[P].engine, rig->now_ns);
    ck_assert_uint_eq(pipe->n_to_d, 1);
    rig->queue_max = RIG_QUEUE;
    rig_run(rig, 1000);
    rig_expect_done(call, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_commit_before_submit_waits_for_it) {
    struct rig *rig = pair_new(4, 8);
    struct call *call = rig_call(rig, 50, 10);
    rig_reserve(rig, D, call);
    rig_prefill(rig, P, D, call);
    rig_run(rig, 100);
    ck_assert_uint_eq(call->n_got, 1);
    ck_assert_uint_eq(rig->workers[D].n_steps, 0);
    rig_decode(rig, D, P, call);
    rig_run(rig, 100);
    rig_expect_done(call, 10, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_submit_without_reservation_is_refused) {
    struct rig *rig = pair_new(5, 8);
    struct call *call = rig_call(rig, 50, 10);
    call->gen = 9;
    call->n_at_reserve = 50;
    rig_decode(rig, D, P, call);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_UNKNOWN);
    /* And one with another generation. */
    call = rig_call(rig, 50, 10);
    rig_reserve(rig, D, call);
    call->gen++;
    rig_decode(rig, D, P, call);
    ck_assert_int_eq(call->reason, REASON_STALE);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(reserve_and_submit_said_twice_are_one) {
    struct rig *rig = pair_new(6, 8);
    struct call *call = rig_call(rig, 50, 10);
    rig_reserve(rig, D, call);
    uint32_t gen = call->gen;
    rig_reserve(rig, D, call);
    ck_assert_uint_eq(call->gen, gen);
    ck_assert_uint_eq(pair_pool(rig, D)->counts[KV_RESERVED], 4);
    rig_prefill(rig, P, D, call);
    rig_prefill(rig, P, D, call);
    rig_decode(rig, D, P, call);
    rig_decode(rig, D, P, call);
    rig_run(rig, 100);
    rig_expect_done(call, 10, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(reserve_and_submit_said_again_after_the_end_are_no_error) {
    struct rig *rig = pair_new(16, 8);
    struct call *call = pair_hand_over(rig, 50, 10);
    rig_run(rig, 100);
    rig_expect_done(call, 10, FINISH_LENGTH);
    call->reason = REASON_NONE;
    rig_reserve(rig, D, call);
    rig_decode(rig, D, P, call);
    rig_run(rig, 100);
    ck_assert_int_eq(call->reason, REASON_NONE);
    ck_assert(!call->failed);
    rig_expect_done(call, 10, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(cached_blocks_are_neither_reserved_nor_pushed) {
    struct rig *rig = pair_new(13, 8);
    struct call *first = pair_hand_over(rig, 100, 12);
    rig_run(rig, 200);
    rig_expect_done(first, 12, FINISH_LENGTH);
    uint64_t n_bytes = rig->workers[D].engine->figures.handoff_bytes;
    struct call *again = rig_call(rig, 100, 12);
    memcpy(again->ids, first->ids, 100 * sizeof first->ids[0]);
    rig_reserve(rig, D, again);
    ck_assert_uint_eq(again->reserved_cached, 96);
    ck_assert_uint_eq(pair_pool(rig, D)->counts[KV_RESERVED], 1);
    rig_prefill(rig, P, D, again);
    rig_decode(rig, D, P, again);
    rig_run(rig, 200);
    rig_expect_done(again, 12, FINISH_LENGTH);
    ck_assert_uint_eq(rig->workers[D].engine->figures.handoff_bytes - n_bytes,
                      RIG_LAYERS * RIG_BLOCK * 8);
    /* A prompt of whole blocks that are all there: nothing to push but the commit. */
    struct call *whole = rig_call(rig, 96, 12);
    memcpy(whole->ids, first->ids, 96 * sizeof first->ids[0]);
    rig_reserve(rig, D, whole);
    ck_assert_uint_eq(whole->reserved_cached, 96);
    rig_prefill(rig, P, D, whole);
    rig_decode(rig, D, P, whole);
    rig_run(rig, 200);
    rig_expect_done(whole, 12, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(an_end_at_token_zero_reaches_the_router_from_both) {
    struct rig *rig = pair_new(15, 8);
    struct call *call = pair_hand_over(rig, 50, 1);
    while (rig_deliver_all(rig) || rig_step(rig, P))
        ;
    rig_expect_done(call, 1, FINISH_LENGTH);
    call->finish = FINISH_NONE;
    rig_resend(rig, D, call, 0);
    rig_expect_done(call, 1, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(logprobs_of_token_zero_travel_with_the_commit) {
    struct rig *rig = pair_new(16, 8);
    struct call *call = rig_call(rig, 50, 80);
    call->sampling.want_logprobs = true;
    rig_reserve(rig, D, call);
    rig_prefill(rig, P, D, call);
    rig_decode(rig, D, P, call);
    rig->workers[P].lose_steps = 1; /* the router hears of token 0 from D alone */
    rig_run(rig, 200);
    rig_expect_done(call, 80, FINISH_LENGTH);
    ck_assert_uint_eq(call->n_logprobs, 80);
    rig_free(rig);
}
END_TEST

START_TEST(a_sender_that_preempts_still_hands_over_right) {
    struct rig *rig = rig_new(19);
    struct engine_config config = rig_config();
    config.n_blocks = 20;
    config.chunk_tokens = 16;
    rig_add(rig, config);
    config = rig_config();
    config.n_blocks = 256;
    rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t i = 0; i < 4; i++)
        rig_both(rig, P, rig_call(rig, 30, 60));
    for (uint32_t i = 0; i < 8; i++)
        pair_hand_over(rig, 60 + 5 * i, 20);
    rig_run(rig, 5000);
    for (uint32_t i = 0; i < 12; i++)
        rig_expect_done(&rig->calls[i], i < 4 ? 60 : 20, FINISH_LENGTH);
    ck_assert_uint_gt(rig->workers[P].engine->figures.n_preemptions, 0);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_full_receiver_refuses_and_takes_later) {
    struct rig *rig = rig_new(20);
    rig_add(rig, rig_config());
    struct engine_config config = rig_config();
    config.n_blocks = 16;
    rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *first = pair_hand_over(rig, 150, 12);
    struct call *second = rig_call(rig, 150, 12);
    rig_reserve(rig, D, second);
    ck_assert(second->refused);
    ck_assert_int_eq(second->reason, REASON_BUSY);
    rig_run(rig, 200);
    rig_expect_done(first, 12, FINISH_LENGTH);
    rig_reserve(rig, D, second);
    ck_assert(second->reserved);
    struct call *huge = rig_call(rig, 256, 12);
    rig_reserve(rig, D, huge);
    ck_assert_int_eq(huge->reason, REASON_TOO_LONG);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

START_TEST(those_that_wait_are_not_kept_out_by_newcomers) {
    struct rig *rig = rig_new(21);
    rig_add(rig, rig_config());
    struct engine_config config = rig_config();
    config.max_batch = 2;
    struct worker *d = rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t i = 0; i < 3; i++)
        rig_both(rig, D, rig_call(rig, 20, 30));
    rig_step(rig, D);
    rig_step(rig, D);
    ck_assert_uint_eq(d->plan.n_rows, 2); /* no row is kept free for one that cannot come in */
    struct call *late = rig_call(rig, 20, 30);
    rig_reserve(rig, D, late);
    ck_assert_int_eq(late->reason, REASON_BUSY);
    rig_cancel(rig, D, &rig->calls[2]);
    rig_reserve(rig, D, late);
    ck_assert(late->reserved);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, tokens_are_right_with_every_number_of_credits_and_chunk_size);
    tcase_add_test(tests, layers_leave_while_the_step_computes);
    tcase_add_test(tests, credits_bound_the_chunks_in_flight);
    tcase_add_test(tests, a_transfer_that_waits_for_its_end_holds_no_other_up);
    tcase_add_test(tests, what_ends_with_its_first_token_is_not_gone_on_with);
    tcase_add_test(tests, a_transfer_that_came_before_its_submit_is_over_with_it);
    tcase_add_test(tests, credits_of_a_transfer_that_is_given_up_go_to_the_next_at_once);
    tcase_add_test(tests, cached_blocks_leave_before_the_step_computes);
    tcase_add_test(tests, room_in_the_shell_is_used_at_once);
    tcase_add_test(tests, a_commit_before_submit_waits_for_it);
    tcase_add_test(tests, a_submit_without_reservation_is_refused);
    tcase_add_test(tests, reserve_and_submit_said_twice_are_one);
    tcase_add_test(tests, reserve_and_submit_said_again_after_the_end_are_no_error);
    tcase_add_test(tests, cached_blocks_are_neither_reserved_nor_pushed);
    tcase_add_test(tests, an_end_at_token_zero_reaches_the_router_from_both);
    tcase_add_test(tests, logprobs_of_token_zero_travel_with_the_commit);
    tcase_add_test(tests, a_sender_that_preempts_still_hands_over_right);
    tcase_add_test(tests, a_full_receiver_refuses_and_takes_later);
    tcase_add_test(tests, those_that_wait_are_not_kept_out_by_newcomers);
}
