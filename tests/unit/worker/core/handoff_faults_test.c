#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"

#include <string.h>

const char *const suite_name = "worker_core_handoff_faults";
const double suite_timeout_s = 120;

START_TEST(duplicate_and_late_chunks_change_nothing) {
    struct rig *rig = pair_new(7, 8);
    struct call *call = pair_hand_over(rig, 70, 30);
    rig_deliver_all(rig);
    while (rig_step(rig, P))
        ;
    struct pipe *pipe = &rig->pipes[0];
    ck_assert_uint_ge(pipe->n_to_d, 2);
    struct parcel copy = pipe->to_d[0];
    uint8_t bytes[RIG_CHUNK_ROOM];
    memcpy(bytes, copy.bytes, copy.n_bytes);
    copy.message.u.chunk.bytes = bytes;
    struct engine *d = rig->workers[D].engine;
    rig_deliver(rig, pipe, true);
    engine_message(d, rig->now_ns, pipe->link_d, &copy.message);
    rig_check(rig);
    rig_run(rig, 5);
    ck_assert_uint_gt(call->n_got, 2);
    ck_assert_uint_lt(call->n_got, 30);
    memset(bytes, 0xee, copy.n_bytes); /* after the commit nothing may be written any more */
    engine_message(d, rig->now_ns, pipe->link_d, &copy.message);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    pair_expect_quiet(rig);
    /* Now nobody knows the transfer: the answer says so. */
    uint32_t n_stale = (uint32_t)d->figures.n_stale_dropped;
    engine_message(d, rig->now_ns, pipe->link_d, &copy.message);
    ck_assert_uint_eq(pipe->n_to_p, 2);
    ck_assert_int_eq(pipe->to_p[1].message.type, MESSAGE_ABORT);
    ck_assert_uint_eq(d->figures.n_stale_dropped, n_stale + 1);
    rig_free(rig);
}
END_TEST

START_TEST(chunks_and_commit_may_come_in_any_order) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct rig *rig = pair_new(100 + seed, 64);
        struct call *call = pair_hand_over(rig, 150, 12);
        rig_deliver_all(rig);
        while (rig_step(rig, P))
            ;
        struct pipe *pipe = &rig->pipes[0];
        ck_assert_uint_gt(pipe->n_to_d, 4);
        for (uint32_t i = pipe->n_to_d - 1; i > 0; i--) {
            uint32_t j = (uint32_t)random_below(&rig->random, i + 1);
            struct parcel parcel = pipe->to_d[i];
            pipe->to_d[i] = pipe->to_d[j];
            pipe->to_d[j] = parcel;
        }
        rig_run(rig, 200);
        rig_expect_done(call, 12, FINISH_LENGTH);
        pair_expect_quiet(rig);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_corrupt_chunk_fails_the_attempt_and_frees_both_sides) {
    struct rig *rig = pair_new(8, 2);
    rig->corrupt = 3;
    struct call *call = pair_hand_over(rig, 120, 12);
    rig_run(rig, 200);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    pair_expect_quiet(rig);
    /* Again, and well this time. */
    call->attempt++;
    call->failed = false;
    rig_reserve(rig, D, call);
    rig_prefill(rig, P, D, call);
    rig_decode(rig, D, P, call);
    rig_run(rig, 200);
    rig_expect_done(call, 12, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_forged_chunk_outside_the_reservation_is_not_written) {
    for (uint32_t kind = 0; kind < 6; kind++) {
        struct rig *rig = pair_new(9, 8);
        struct call *call = pair_hand_over(rig, 70, 12);
        rig_deliver_all(rig);
        while (rig_step(rig, P))
            ;
        struct chunk *chunk = &rig->pipes[0].to_d[0].message.u.chunk;
        if (kind == 0)
            chunk->block_end = 6;
        else if (kind == 1)
            chunk->layer_end = 5;
        else if (kind == 2)
            chunk->block_begin = chunk->block_end;
        else if (kind == 3)
            chunk->n_bytes -= 8;
        else if (kind == 4)
            chunk->layer_begin = UINT32_MAX;
        else
            chunk->block_begin = UINT32_MAX;
        rig_run(rig, 100);
        ck_assert(call->failed);
        pair_expect_quiet(rig);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_commit_that_does_not_fit_is_not_decoded) {
    for (uint32_t kind = 0; kind < 6; kind++) {
        struct rig *rig = pair_new(22, 64);
        struct call *call = pair_hand_over(rig, 70, 12);
        rig_deliver_all(rig);
        while (rig_step(rig, P))
            ;
        struct pipe *pipe = &rig->pipes[0];
        struct commit *commit = &pipe->to_d[pipe->n_to_d - 1].message.u.commit;
        ck_assert_int_eq(pipe->to_d[pipe->n_to_d - 1].message.type, MESSAGE_COMMIT);
        if (kind == 0)
            commit->n_chunks++;
        else if (kind == 1)
            commit->n_tokens--;
        else if (kind == 2)
            commit->attempt++;
        else if (kind == 3)
            commit->req.lo++;
        else if (kind == 4)
            commit->first_token = 65536;
        else
            commit->n_chunks = 0;
        rig_run(rig, 100);
        ck_assert(call->failed);
        ck_assert_uint_eq(call->n_got, 1);
        pair_expect_quiet(rig);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_new_link_of_the_same_peer_is_taken_before_the_old_ones_loss_is_known) {
    struct rig *rig = pair_new(23, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    rig_deliver_all(rig);
    rig_run(rig, 100); /* the link stays open */
    rig_expect_done(call, 12, FINISH_LENGTH);
    struct pipe *old = &rig->pipes[0];
    old->open = false; /* only the sender hears of the loss */
    ck_assert_uint_eq(engine_link_lost(rig->workers[P].engine, rig->now_ns, old->link_p), 0);
    call = pair_hand_over(rig, 75, 12);
    rig_run(rig, 100);
    rig_expect_done(call, 12, FINISH_LENGTH);
    ck_assert_uint_eq(engine_link_lost(rig->workers[D].engine, rig->now_ns, old->link_d), 0);
    ck_assert(!call->failed);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_lost_link_tells_how_many_hand_offs_it_ends) {
    for (uint32_t n_calls = 1; n_calls <= 2; n_calls++) {
        struct rig *rig = pair_new(10, 64);
        struct call *calls[2];
        for (uint32_t i = 0; i < n_calls; i++)
            calls[i] = pair_hand_over(rig, 90, 12);
        while (rig->n_pipes == 0)
            ck_assert(rig_step(rig, P));
        struct pipe *pipe = &rig->pipes[0];
        pipe->open = false;
        ck_assert_uint_eq(engine_link_lost(rig->workers[P].engine, rig->now_ns, pipe->link_p),
                          n_calls);
        rig_run(rig, 100);
        for (uint32_t i = 0; i < n_calls; i++)
            ck_assert(calls[i]->failed);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_lost_link_fails_what_is_under_way_in_every_state) {
    /* Cut after n movements of any kind, for every n until the hand-off is through. */
    for (uint32_t n = 0; n < 120; n++) {
        struct rig *rig = pair_new(10, 2);
        struct call *call = pair_hand_over(rig, 90, 12);
        for (uint32_t i = 0; i < n; i++) {
            struct pipe *pipe = &rig->pipes[0];
            if (rig_deliver(rig, pipe, i % 2 == 0) || rig_deliver(rig, pipe, i % 2 == 1))
                continue;
            if (rig->workers[P].idle || !rig_step(rig, P))
                rig_step(rig, D);
        }
        rig_cut(rig, &rig->pipes[0]);
        rig_check(rig);
        rig_run(rig, 100);
        if (call->failed) {
            ck_assert_int_eq(call->reason, REASON_TRANSFER);
            /* Both sides may have told; the router replays with what it has. */
            rig_cancel(rig, P, call);
            rig_cancel(rig, D, call);
            call->attempt++;
            call->failed = false;
            rig_reserve(rig, D, call);
            rig_prefill(rig, P, D, call);
            rig_decode(rig, D, P, call);
            rig_run(rig, 200);
        }
        rig_expect_done(call, 12, FINISH_LENGTH);
        pair_expect_quiet(rig);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_cancel_in_every_state_frees_both_sides) {
    for (uint32_t n = 0; n < 60; n++)
        for (uint32_t order = 0; order < 2; order++) {
            struct rig *rig = pair_new(11, 2);
            struct call *call = pair_hand_over(rig, 90, 12);
            for (uint32_t i = 0; i < n; i++) {
                struct pipe *pipe = &rig->pipes[0];
                if (rig_deliver(rig, pipe, i % 2 == 0) || rig_deliver(rig, pipe, i % 2 == 1))
                    continue;
                if (rig->workers[P].idle || !rig_step(rig, P))
                    rig_step(rig, D);
            }
            rig_cancel(rig, order, call);
            rig_check(rig);
            rig_run(rig, 3);
            rig_cancel(rig, 1 - order, call);
            ck_assert(call->cancelled);
            rig_run(rig, 100);
            pair_expect_quiet(rig);
            ck_assert(engine_idle(rig->workers[P].engine));
            ck_assert(engine_idle(rig->workers[D].engine));
            rig_free(rig);
        }
}
END_TEST

START_TEST(an_unused_reservation_is_given_back_with_its_lease) {
    struct rig *rig = pair_new(12, 2);
    struct call *call = rig_call(rig, 90, 12);
    rig_reserve(rig, D, call);
    for (uint32_t i = 0; i < 9; i++) { /* the router lives, but never submits */
        struct message ping = {.type = MESSAGE_PING};
        rig_tick(rig, 1000);
        rig_send(rig, D, 0, &ping);
        ck_assert_uint_eq(pair_pool(rig, D)->counts[KV_RESERVED], 6);
    }
    ck_assert_uint_le(engine_deadline(rig->workers[D].engine), rig->now_ns + 1000000000);
    rig_tick(rig, 1000);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_LEASE);
    pair_expect_quiet(rig);
    /* Chunks that come now are told so, and the sender gives up. */
    rig_hello(rig, 0);
    call->failed = false;
    call->attempt++;
    rig_prefill(rig, P, D, call);
    rig_run(rig, 100);
    ck_assert(call->failed);
    ck_assert_int_eq(call->failed_phase, PHASE_PREFILL);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(hashes_that_do_not_fit_the_ids_fail_at_submit) {
    struct rig *rig = pair_new(14, 8);
    struct call *first = pair_hand_over(rig, 100, 12);
    rig_run(rig, 200);
    struct call *liar = rig_call(rig, 100, 12);
    uint32_t own[100];
    memcpy(own, liar->ids, sizeof own);
    memcpy(liar->ids, first->ids, sizeof own); /* the hashes of another prompt */
    rig_reserve(rig, D, liar);
    ck_assert_uint_eq(liar->reserved_cached, 96);
    memcpy(liar->ids, own, sizeof own);
    rig_decode(rig, D, P, liar);
    ck_assert(liar->failed);
    ck_assert_int_eq(liar->reason, REASON_INVALID);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_link_lost_inside_a_copy_leaves_its_blocks_quarantined_till_the_end) {
    struct rig *rig = pair_new(17, 8);
    struct call *call = pair_hand_over(rig, 90, 12);
    rig->lose_in_take = true; /* the sink looks at the blocks' state */
    rig_run(rig, 200);
    ck_assert(!rig->lose_in_take);
    ck_assert(call->failed);
    rig_cancel(rig, P, call);
    rig_check(rig);
    ck_assert_uint_eq(pair_pool(rig, D)->counts[KV_QUARANTINED], 0);
    ck_assert_uint_eq(pair_pool(rig, D)->counts[KV_RESERVED], 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_higher_attempt_replaces_the_lower_one) {
    struct rig *rig = pair_new(18, 1);
    struct call *call = pair_hand_over(rig, 90, 12);
    rig_step(rig, P);
    call->attempt++;
    rig_reserve(rig, D, call);
    rig_prefill(rig, P, D, call);
    rig_decode(rig, D, P, call);
    rig_run(rig, 200);
    rig_expect_done(call, 12, FINISH_LENGTH);
    /* And a lower one is refused afterwards. */
    call->attempt--;
    call->refused = false;
    rig_reserve(rig, D, call);
    ck_assert(call->refused);
    ck_assert_int_eq(call->reason, REASON_STALE);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* What D fails for the lost link cannot be said to the router, which is gone, too. */
START_TEST(a_router_that_is_gone_when_a_link_is_lost_is_let_go) {
    struct rig *rig = pair_new(31, 8);
    pair_hand_over(rig, 40, 5);
    while (!rig->pipes[0].announced)
        rig_deliver_all(rig);
    ck_assert(rig_step(rig, P));
    ck_assert(rig_deliver(rig, &rig->pipes[0], true));
    struct worker *worker = &rig->workers[D];
    uint32_t n_closed = worker->n_closed;
    worker->routers_gone = true;
    rig_cut(rig, &rig->pipes[0]);
    ck_assert_uint_eq(worker->n_closed, n_closed + 1);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, duplicate_and_late_chunks_change_nothing);
    tcase_add_test(tests, chunks_and_commit_may_come_in_any_order);
    tcase_add_test(tests, a_corrupt_chunk_fails_the_attempt_and_frees_both_sides);
    tcase_add_test(tests, a_forged_chunk_outside_the_reservation_is_not_written);
    tcase_add_test(tests, a_commit_that_does_not_fit_is_not_decoded);
    tcase_add_test(tests, a_new_link_of_the_same_peer_is_taken_before_the_old_ones_loss_is_known);
    tcase_add_test(tests, a_lost_link_tells_how_many_hand_offs_it_ends);
    tcase_add_test(tests, a_lost_link_fails_what_is_under_way_in_every_state);
    tcase_add_test(tests, a_cancel_in_every_state_frees_both_sides);
    tcase_add_test(tests, an_unused_reservation_is_given_back_with_its_lease);
    tcase_add_test(tests, hashes_that_do_not_fit_the_ids_fail_at_submit);
    tcase_add_test(tests, a_link_lost_inside_a_copy_leaves_its_blocks_quarantined_till_the_end);
    tcase_add_test(tests, a_higher_attempt_replaces_the_lower_one);
    tcase_add_test(tests, a_router_that_is_gone_when_a_link_is_lost_is_let_go);
}
