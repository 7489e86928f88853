/* Conditions of the worker's core that only a narrow case shows: who is preempted, stale words,
 * what a receiver checks. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"
#include "worker/core/run_queue.h"

#include <string.h>

const char *const suite_name = "worker_core_edges";
const double suite_timeout_s = 120;

static struct rig *small_rig(uint64_t seed, uint32_t n_blocks) {
    struct rig *rig = rig_new(seed);
    struct engine_config config = rig_config();
    config.n_blocks = n_blocks;
    rig_add(rig, config);
    rig_hello(rig, 0);
    return rig;
}

static enum sequence_state state_of(const struct rig *rig, const struct call *call) {
    struct sequence *sequence = sequence_find(&rig->workers[0].engine->sequences, call->req);
    ck_assert_ptr_nonnull(sequence);
    return sequence->state;
}

static void step_until_preempted(struct rig *rig) {
    while (rig->workers[0].engine->figures.n_preemptions == 0)
        ck_assert(rig_step(rig, 0));
}

START_TEST(the_youngest_goes_when_blocks_are_short) {
    struct rig *rig = small_rig(1, 9);
    struct call *calls[3];
    for (int i = 0; i < 3; i++) {
        calls[i] = rig_call(rig, 30, 40);
        rig_both(rig, 0, calls[i]);
    }
    step_until_preempted(rig);
    ck_assert_int_eq(state_of(rig, calls[0]), SEQUENCE_RUNNING);
    ck_assert_int_eq(state_of(rig, calls[1]), SEQUENCE_RUNNING);
    ck_assert_int_eq(state_of(rig, calls[2]), SEQUENCE_WAITING);
    rig_run(rig, 1000);
    for (int i = 0; i < 3; i++)
        rig_expect_done(calls[i], 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Their age counts from when they came to decode here. */
START_TEST(of_those_that_were_handed_over_the_youngest_goes) {
    struct rig *rig = rig_new(18);
    struct engine_config config = rig_config();
    rig->credits = 64;
    rig_add(rig, config);
    config.n_blocks = 12;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *calls[3];
    for (int i = 0; i < 3; i++) {
        calls[i] = pair_hand_over(rig, 30, 40);
        rig_deliver_all(rig);
        while (rig_step(rig, P))
            ;
        rig_deliver_all(rig);
    }
    while (worker->engine->figures.n_preemptions == 0)
        ck_assert(rig_step(rig, D));
    for (int i = 0; i < 3; i++) {
        const struct sequence *sequence = sequence_find(&worker->engine->sequences, calls[i]->req);
        ck_assert_ptr_nonnull(sequence);
        ck_assert_int_eq(sequence->state, i < 2 ? SEQUENCE_RUNNING : SEQUENCE_WAITING);
    }
    rig_run(rig, 1000);
    for (int i = 0; i < 3; i++)
        rig_expect_done(calls[i], 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(the_least_important_goes_however_old_it_is) {
    struct rig *rig = small_rig(2, 9);
    struct call *calls[3];
    for (uint32_t i = 0; i < 3; i++) {
        calls[i] = rig_call(rig, 30, 40);
        calls[i]->priority = i == 0 ? 7 : 2; /* the oldest matters least */
        rig_both(rig, 0, calls[i]);
    }
    step_until_preempted(rig);
    ck_assert_int_eq(state_of(rig, calls[0]), SEQUENCE_WAITING);
    ck_assert_int_eq(state_of(rig, calls[1]), SEQUENCE_RUNNING);
    ck_assert_int_eq(state_of(rig, calls[2]), SEQUENCE_RUNNING);
    rig_run(rig, 1000);
    for (int i = 0; i < 3; i++)
        rig_expect_done(calls[i], 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(an_equal_priority_throws_nobody_out) {
    struct rig *rig = small_rig(3, 8);
    struct call *first = rig_call(rig, 100, 20), *second = rig_call(rig, 100, 20);
    first->priority = second->priority = 3;
    rig_both(rig, 0, first);
    rig_step(rig, 0);
    rig_step(rig, 0);
    rig_both(rig, 0, second);
    while (first->finish == FINISH_NONE)
        ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(rig->workers[0].engine->figures.n_preemptions, 0);
    ck_assert_uint_eq(second->n_got, 0);
    rig_run(rig, 1000);
    rig_expect_done(second, 20, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Two that decode in turns want more blocks than there are, and one that matters more comes after so
 * many steps: whoever makes way, something runs in each step until all have ended. */
START_TEST(no_step_is_empty_while_somebody_waits) {
    for (uint32_t n_steps = 2; n_steps < 60; n_steps++) {
        struct rig *rig = small_rig(n_steps, 4 + (uint32_t)_i);
        struct call *calls[3];
        rig->workers[0].engine->config.max_batch = 1;
        for (uint32_t i = 0; i < 3; i++) {
            calls[i] = rig_call(rig, 20, i < 2 ? 40 : 10);
            calls[i]->priority = i < 2 ? 3 : 1;
        }
        rig_both(rig, 0, calls[0]);
        rig_both(rig, 0, calls[1]);
        for (uint32_t i = 0; i < n_steps; i++)
            ck_assert(rig_step(rig, 0));
        rig_both(rig, 0, calls[2]);
        for (uint32_t i = 0; i < 3; i++) {
            while (calls[i]->finish == FINISH_NONE)
                ck_assert_msg(rig_step(rig, 0), "after %u steps", n_steps);
        }
        rig_run(rig, 1000);
        for (uint32_t i = 0; i < 3; i++)
            rig_expect_done(calls[i], i < 2 ? 40 : 10, FINISH_LENGTH);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_sequence_that_waited_past_its_deadline_is_not_begun) {
    struct rig *rig = small_rig(4, 8);
    struct call *first = rig_call(rig, 100, 20), *late = rig_call(rig, 100, 20);
    rig_both(rig, 0, first);
    rig_step(rig, 0);
    struct message message = {.type = MESSAGE_SUBMIT};
    message.u.submit = (struct submit){.req = late->req,
                                       .attempt = 1,
                                       .phase = PHASE_BOTH,
                                       .n_prompt = late->n_prompt,
                                       .n_tokens = late->n_prompt,
                                       .tokens = late->ids,
                                       .budget_ms = 50,
                                       .sampling = late->sampling};
    rig_send(rig, 0, 0, &message);
    rig_step(rig, 0);
    rig->now_ns += 51 * 1000000ull;
    rig_run(rig, 1000);
    rig_expect_done(first, 20, FINISH_LENGTH);
    ck_assert(late->failed);
    ck_assert_int_eq(late->reason, REASON_CANCELLED);
    ck_assert_uint_eq(late->n_got, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_submit_of_an_older_attempt_is_stale_and_harms_nothing) {
    struct rig *rig = small_rig(5, 64);
    struct call *call = rig_call(rig, 20, 30);
    call->attempt = 2;
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    call->attempt = 1;
    rig_both(rig, 0, call);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_STALE);
    call->failed = false;
    call->attempt = 2;
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_router_cannot_forget_another_routers_request) {
    struct rig *rig = small_rig(6, 64);
    rig_hello(rig, 1);
    struct call *call = rig_call(rig, 20, 30);
    struct message message = {.type = MESSAGE_CANCEL};
    message.u.cancel = (struct cancel){call->req, 1, REASON_CANCELLED};
    rig_send(rig, 0, 1, &message); /* before its own router has submitted it */
    rig_both(rig, 0, call);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_lost_end_is_repeated_where_no_token_is_missing) {
    struct rig *rig = small_rig(7, 64);
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    call->finish = FINISH_NONE;
    rig_resend(rig, 0, call, call->n_got);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(an_answer_that_meets_busy_again_and_again_comes_at_last) {
    struct rig *rig = small_rig(8, 64);
    struct call *first = rig_call(rig, 20, 30), *second = rig_call(rig, 20, 30);
    rig->workers[0].busy = 3;
    rig_reserve(rig, 0, first);
    rig_reserve(rig, 0, second);
    ck_assert(!first->reserved && !second->reserved);
    for (int i = 0; i < 5; i++)
        rig_tick(rig, 1);
    ck_assert_uint_eq(rig->workers[0].busy, 0);
    ck_assert_uint_eq(first->n_reserved, 1);
    ck_assert_uint_eq(second->n_reserved, 1);
    rig_free(rig);
}
END_TEST

/* The receiver knows the prefix, under the names that a prompt without variants would give it. */
START_TEST(blocks_of_another_variant_are_not_promised) {
    struct rig *rig = rig_new(9);
    struct engine_config config = rig_config();
    config.n_variants = 2;
    config.variant_limits[0] = 48;
    rig_add(rig, config);
    rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *brief = rig_call(rig, 40, 2), *grown = rig_call(rig, 90, 12);
    rig_both(rig, D, brief);
    rig_run(rig, 100);
    rig_expect_done(brief, 2, FINISH_LENGTH);
    memcpy(grown->ids, brief->ids, 40 * sizeof *grown->ids);
    rig_reserve(rig, D, grown);
    ck_assert(grown->reserved);
    ck_assert_uint_eq(grown->reserved_cached, 0);
    rig_prefill(rig, P, D, grown);
    rig_decode(rig, D, P, grown);
    rig_run(rig, 200);
    rig_expect_done(grown, 12, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Everything of a transfer waits in the pipe; its first parcel is a chunk. */
static struct pipe *pushed(struct rig *rig) {
    rig_deliver_all(rig);
    while (rig_step(rig, P))
        ;
    struct pipe *pipe = &rig->pipes[0];
    ck_assert_uint_gt(pipe->n_to_d, 0);
    ck_assert_int_eq(pipe->to_d[0].message.type, MESSAGE_CHUNK);
    return pipe;
}

START_TEST(a_predecessor_of_the_peer_moves_nothing) {
    struct rig *rig = pair_new(10, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig);
    struct engine *d = rig->workers[D].engine;
    struct message forged = pipe->to_d[0].message;
    forged.u.chunk.bytes = pipe->to_d[0].bytes;
    engine_kv_open(d, rig->now_ns, 900, "worker0", rig->workers[P].incarnation - 1, 0, true);
    uint64_t n_stale = d->figures.n_stale_dropped;
    engine_message(d, rig->now_ns, 900, &forged);
    ck_assert_uint_eq(d->figures.n_stale_dropped, n_stale + 1);
    rig_run(rig, 100);
    rig_expect_done(call, 12, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

static void acknowledge(struct rig *rig, const struct pipe *pipe, const struct chunk *chunk,
                        uint32_t gen, uint32_t n_done) {
    struct message message = {.type = MESSAGE_CHUNK_ACK};
    message.u.chunk_ack = (struct chunk_ack){
        .transfer_id = chunk->transfer_id, .gen = gen, .n_done = n_done, .where = chunk->where};
    engine_message(rig->workers[P].engine, rig->now_ns, pipe->link_p, &message);
}

START_TEST(an_acknowledgement_of_another_generation_counts_for_nothing) {
    struct rig *rig = pair_new(12, 4);
    struct call *call = pair_hand_over(rig, 200, 12);
    struct pipe *pipe = pushed(rig);
    struct engine *p = rig->workers[P].engine;
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    uint32_t n_waiting = pipe->n_to_d;
    uint64_t n_stale = p->figures.n_stale_dropped;
    acknowledge(rig, pipe, &chunk, chunk.gen + 1, 2);
    ck_assert_uint_eq(p->figures.n_stale_dropped, n_stale + 1);
    ck_assert_uint_eq(pipe->to_d[pipe->n_to_d - 1].message.type, MESSAGE_ABORT);
    ck_assert_uint_eq(pipe->n_to_d, n_waiting + 1); /* the abort, and no further chunk */
    rig_check(rig);
    (void)call;
    rig_free(rig);
}
END_TEST

START_TEST(an_acknowledgement_of_what_was_never_sent_ends_the_transfer) {
    struct rig *rig = pair_new(13, 4);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig);
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    acknowledge(rig, pipe, &chunk, chunk.gen, 1000);
    rig_check(rig);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    rig_run(rig, 100);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_commit_that_ends_with_no_known_reason_is_not_decoded) {
    struct rig *rig = pair_new(14, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig);
    struct message *last = &pipe->to_d[pipe->n_to_d - 1].message;
    ck_assert_int_eq(last->type, MESSAGE_COMMIT);
    last->u.commit.finish = FINISH_LENGTH + 1;
    rig_run(rig, 100);
    ck_assert(call->failed);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_chunk_that_begins_in_shared_blocks_is_not_written) {
    struct rig *rig = pair_new(15, 64);
    struct call *known = rig_call(rig, 40, 2), *call = rig_call(rig, 90, 12);
    rig_both(rig, D, known);
    rig_run(rig, 100);
    memcpy(call->ids, known->ids, 40 * sizeof *call->ids);
    rig_reserve(rig, D, call);
    ck_assert_uint_eq(call->reserved_cached, 32);
    rig_prefill(rig, P, D, call);
    rig_decode(rig, D, P, call);
    struct pipe *pipe = pushed(rig);
    struct chunk *chunk = &pipe->to_d[0].message.u.chunk;
    ck_assert_uint_eq(chunk->block_begin, 2);
    chunk->block_begin = 1;
    chunk->n_bytes += (chunk->layer_end - chunk->layer_begin) * RIG_BLOCK * 8;
    rig_run(rig, 100);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* As large as it says, and where no block is reserved. */
START_TEST(a_chunk_behind_the_reservation_is_not_written) {
    struct rig *rig = pair_new(16, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig);
    struct chunk *chunk = &pipe->to_d[0].message.u.chunk;
    uint32_t n = chunk->block_end - chunk->block_begin;
    chunk->block_begin = 5;
    chunk->block_end = 5 + n;
    rig_run(rig, 100);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_receiver_keeps_a_block_for_each_that_it_decodes) {
    struct rig *rig = small_rig(17, 16);
    for (int i = 0; i < 2; i++)
        rig_both(rig, 0, rig_call(rig, 20, 30)); /* two blocks each, and soon a third */
    rig_step(rig, 0);
    rig_step(rig, 0);
    struct call *call = rig_call(rig, 12 * RIG_BLOCK, 5);
    rig_reserve(rig, 0, call);
    ck_assert(!call->reserved);
    ck_assert_int_eq(call->reason, REASON_BUSY);
    call = rig_call(rig, 10 * RIG_BLOCK, 5);
    rig_reserve(rig, 0, call);
    ck_assert(call->reserved);
    rig_free(rig);
}
END_TEST

/* Cached blocks that a reservation takes are no room for those that decode. */
START_TEST(a_reservation_counts_the_cached_blocks_that_it_takes) {
    struct rig *rig = small_rig(19, 16);
    struct call *known = rig_call(rig, 4 * RIG_BLOCK, 2);
    rig_both(rig, 0, known);
    rig_run(rig, 100);
    ck_assert_uint_eq(pair_pool(rig, 0)->counts[KV_CACHED], 4);
    for (int i = 0; i < 2; i++)
        rig_both(rig, 0, rig_call(rig, 20, 30)); /* two blocks each, and soon a third */
    rig_step(rig, 0);
    rig_step(rig, 0);
    static const uint32_t n_blocks[] = {11, 10}; /* of 12 that nobody holds, two are kept */
    for (int i = 0; i < 2; i++) {
        struct call *call = rig_call(rig, n_blocks[i] * RIG_BLOCK, 5);
        memcpy(call->ids, known->ids, 4 * RIG_BLOCK * sizeof *call->ids);
        rig_reserve(rig, 0, call);
        ck_assert(call->reserved == (i == 1));
        ck_assert_uint_eq(call->reserved_cached, i == 1 ? 4 * RIG_BLOCK : 0);
    }
    rig_check(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_reservation_may_take_all_blocks_of_an_idle_worker) {
    struct rig *rig = small_rig(20, 4);
    struct call *known = rig_call(rig, 2 * RIG_BLOCK, 2);
    rig_both(rig, 0, known);
    rig_run(rig, 100);
    struct call *call = rig_call(rig, 4 * RIG_BLOCK - 1, 1);
    memcpy(call->ids, known->ids, 2 * RIG_BLOCK * sizeof *call->ids);
    rig_reserve(rig, 0, call);
    ck_assert(call->reserved);
    ck_assert_uint_eq(call->reserved_cached, 2 * RIG_BLOCK);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_cancel_of_an_older_attempt_ends_nothing) {
    struct rig *rig = small_rig(18, 64);
    struct call *call = rig_call(rig, 20, 30);
    call->attempt = 2;
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    call->attempt = 1;
    rig_cancel(rig, 0, call);
    call->attempt = 2;
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_router_cannot_submit_under_another_routers_request) {
    struct rig *rig = rig_new(12);
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    rig_hello(rig, 1);
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    struct message message = {.type = MESSAGE_SUBMIT};
    message.u.submit = (struct submit){.req = call->req,
                                       .attempt = call->attempt,
                                       .phase = PHASE_BOTH,
                                       .n_prompt = call->n_prompt,
                                       .n_tokens = call->n_prompt,
                                       .tokens = call->ids,
                                       .sampling = call->sampling};
    rig_send(rig, 0, 1, &message);
    ck_assert_uint_eq(call->n_failed, 1);
    ck_assert_int_eq(call->reason, REASON_INVALID);
    call->failed = false; /* it was the other's */
    rig_check(rig);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(who_reserves_twice_hears_the_same_twice) {
    struct rig *rig = rig_new(13);
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 20, 30);
    rig_reserve(rig, 0, call);
    ck_assert_uint_eq(call->n_reserved, 1);
    uint32_t gen = call->gen;
    rig_reserve(rig, 0, call);
    ck_assert_uint_eq(call->n_reserved, 2);
    ck_assert_uint_eq(call->gen, gen);
    ck_assert_uint_eq(rig->workers[0].engine->sequences.n_used, 1);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_submit_for_another_reservation_is_stale) {
    for (uint32_t later = 0; later <= 1; later++) {
        struct rig *rig = rig_new(14);
        rig_add(rig, rig_config());
        rig_add(rig, rig_config());
        rig_hello(rig, 0);
        struct call *call = rig_call(rig, 20, 30);
        rig_reserve(rig, 0, call);
        ck_assert_uint_eq(call->n_reserved, 1);
        call->gen = later ? call->gen + 1 : call->gen - 1;
        call->n_at_reserve = call->n_prompt;
        rig_decode(rig, 0, 1, call);
        ck_assert_uint_eq(call->n_failed, 1);
        ck_assert_int_eq(call->reason, REASON_STALE);
        rig_check(rig);
        rig_free(rig);
    }
}
END_TEST

/* For whoever decodes a block, and for the first that waits for blocks all of its own. */
START_TEST(room_is_kept_for_the_first_that_waits_for_blocks) {
    struct rig *rig = small_rig(41, 8);
    for (int i = 0; i < 2; i++)
        rig_both(rig, 0, rig_call(rig, 30, 10));
    const struct engine *engine = rig->workers[0].engine;
    while (engine->schedule.n_decode < 2)
        ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(run_queue_headroom(engine), 2);
    rig_both(rig, 0, rig_call(rig, 70, 5));
    ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(engine->schedule.n_waiting, 1);
    ck_assert_uint_eq(run_queue_headroom(engine), 2 + 5);
    rig_run(rig, 100);
    rig_expect_done(&rig->calls[2], 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_youngest_goes_when_blocks_are_short);
    tcase_add_test(tests, of_those_that_were_handed_over_the_youngest_goes);
    tcase_add_test(tests, the_least_important_goes_however_old_it_is);
    tcase_add_test(tests, an_equal_priority_throws_nobody_out);
    tcase_add_loop_test(tests, no_step_is_empty_while_somebody_waits, 0, 5);
    tcase_add_test(tests, a_sequence_that_waited_past_its_deadline_is_not_begun);
    tcase_add_test(tests, a_submit_of_an_older_attempt_is_stale_and_harms_nothing);
    tcase_add_test(tests, a_router_cannot_forget_another_routers_request);
    tcase_add_test(tests, a_lost_end_is_repeated_where_no_token_is_missing);
    tcase_add_test(tests, an_answer_that_meets_busy_again_and_again_comes_at_last);
    tcase_add_test(tests, blocks_of_another_variant_are_not_promised);
    tcase_add_test(tests, a_predecessor_of_the_peer_moves_nothing);
    tcase_add_test(tests, an_acknowledgement_of_another_generation_counts_for_nothing);
    tcase_add_test(tests, an_acknowledgement_of_what_was_never_sent_ends_the_transfer);
    tcase_add_test(tests, a_commit_that_ends_with_no_known_reason_is_not_decoded);
    tcase_add_test(tests, a_chunk_that_begins_in_shared_blocks_is_not_written);
    tcase_add_test(tests, a_chunk_behind_the_reservation_is_not_written);
    tcase_add_test(tests, a_receiver_keeps_a_block_for_each_that_it_decodes);
    tcase_add_test(tests, a_cancel_of_an_older_attempt_ends_nothing);
    tcase_add_test(tests, a_reservation_counts_the_cached_blocks_that_it_takes);
    tcase_add_test(tests, a_reservation_may_take_all_blocks_of_an_idle_worker);
    tcase_add_test(tests, a_router_cannot_submit_under_another_routers_request);
    tcase_add_test(tests, who_reserves_twice_hears_the_same_twice);
    tcase_add_test(tests, a_submit_for_another_reservation_is_stale);
    tcase_add_test(tests, room_is_kept_for_the_first_that_waits_for_blocks);
}
