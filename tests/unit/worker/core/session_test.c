#include "tests/support/suite.h"
#include "tests/unit/worker/core/rig.h"

#include <string.h>

const char *const suite_name = "worker_core_session";
const double suite_timeout_s = 60;

static struct rig *new_rig(uint64_t seed) {
    struct rig *rig = rig_new(seed);
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    return rig;
}

START_TEST(a_hello_is_welcomed_once) {
    struct rig *rig = new_rig(1);
    ck_assert_uint_eq(rig->workers[0].n_welcomes, 1);
    struct message message = {.type = MESSAGE_HELLO};
    message.u.hello =
        (struct hello){.major = PROTO_MAJOR, .router_id = 500, .session = rig->sessions[0][0]};
    rig_send(rig, 0, 0, &message);
    ck_assert_uint_eq(rig->workers[0].n_welcomes, 1);
    message.u.hello.major = PROTO_MAJOR + 1;
    message.u.hello.session++;
    rig_send(rig, 0, 0, &message);
    ck_assert_uint_eq(rig->workers[0].n_welcomes, 1);
    ck_assert_int_eq(rig->workers[0].reset_reason, REASON_MISMATCH);
    rig_free(rig);
}
END_TEST

START_TEST(a_busy_welcome_comes_later_and_first) {
    struct rig *rig = rig_new(2);
    struct worker *worker = rig_add(rig, rig_config());
    worker->busy = 1;
    rig_hello(rig, 0);
    ck_assert_uint_eq(worker->n_welcomes, 0);
    struct call *call = rig_call(rig, 5, 3);
    rig_reserve(rig, 0, call); /* answered after the introduction */
    ck_assert(!call->reserved);
    rig_tick(rig, 1);
    ck_assert_uint_eq(worker->n_welcomes, 1);
    ck_assert(call->reserved);
    rig_free(rig);
}
END_TEST

START_TEST(a_message_of_a_stale_session_is_answered_reset) {
    struct rig *rig = new_rig(3);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 5, 3);
    rig->sessions[0][0]++;
    rig_both(rig, 0, call);
    ck_assert_uint_eq(worker->n_resets, 1);
    ck_assert_int_eq(worker->reset_reason, REASON_STALE);
    ck_assert(engine_idle(worker->engine));
    struct message ping = {.type = MESSAGE_PING, .session = 77};
    engine_message(worker->engine, rig->now_ns, 2, &ping); /* a link without a session */
    ck_assert_uint_eq(worker->n_resets, 2);
    ck_assert_int_eq(worker->reset_reason, REASON_UNKNOWN);
    rig_free(rig);
}
END_TEST

START_TEST(a_new_hello_ends_only_that_routers_older_session) {
    struct rig *rig = new_rig(4);
    struct worker *worker = &rig->workers[0];
    rig_hello(rig, 1);
    struct call *mine = rig_call(rig, 20, 30);
    struct call *other = rig_call(rig, 20, 30);
    other->req.hi = 501; /* the second router's */
    rig_both(rig, 0, mine);
    rig_both(rig, 0, other);
    rig_step(rig, 0);
    rig_step(rig, 0);
    rig_hello(rig, 0);
    rig_check(rig);
    ck_assert_uint_eq(worker->engine->sequences.n_used, 1);
    rig_run(rig, 100);
    ck_assert_uint_eq(mine->n_got, 2);
    rig_expect_done(other, 30, FINISH_LENGTH);
    /* The same router on another link: the old link is closed. */
    uint32_t n_closed = worker->n_closed;
    struct message message = {.type = MESSAGE_HELLO};
    message.u.hello = (struct hello){.major = PROTO_MAJOR, .router_id = 501, .session = 5};
    engine_message(worker->engine, rig->now_ns, 3, &message);
    ck_assert_uint_eq(worker->n_closed, n_closed + 1);
    ck_assert(engine_idle(worker->engine));
    rig_check(rig);
    rig_free(rig);
}
END_TEST

static void refuse(struct rig *rig, uint32_t r, enum refusal refusal, uint64_t incarnation) {
    struct message message = {.type = MESSAGE_RESET};
    message.u.reset = (struct reset){.reason = REASON_MISMATCH,
                                     .refusal = refusal,
                                     .incarnation = incarnation,
                                     .endpoint = "ipc:///other"};
    rig_send(rig, 0, r, &message);
    rig_check(rig);
}

START_TEST(a_router_that_refuses_the_worker_ends_its_session_and_no_other) {
    struct rig *rig = new_rig(4);
    struct worker *worker = &rig->workers[0];
    rig_hello(rig, 1);
    struct call *other = rig_call(rig, 20, 30);
    other->req.hi = 501;
    rig_both(rig, 0, other);
    uint32_t n_closed = worker->n_closed;
    refuse(rig, 0, REFUSAL_MODEL, 0);
    ck_assert_uint_eq(worker->n_closed, n_closed + 1);
    ck_assert_str_eq(worker->note, "router refuses this worker router=router reason=other_model");
    ck_assert_ptr_null(engine_outlived(worker->engine));
    rig_run(rig, 100);
    rig_expect_done(other, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(the_later_one_of_a_name_ends_at_once) {
    for (uint32_t earlier = 0; earlier < 2; earlier++) { /* and one that is no earlier than it */
        struct rig *rig = new_rig(4);
        struct worker *worker = &rig->workers[0];
        rig_hello(rig, 1);
        refuse(rig, 0, REFUSAL_NAME, worker->incarnation - earlier);
        const struct reset *other = engine_outlived(worker->engine);
        ck_assert_ptr_nonnull(other);
        ck_assert_str_eq(other->endpoint, "ipc:///other");
        ck_assert_uint_eq(other->incarnation, worker->incarnation - earlier);
        rig_free(rig);
    }
}
END_TEST

/* Two routers may know different ones of the two: never may both end. */
START_TEST(the_earlier_one_of_a_name_goes_on_while_a_router_is_served) {
    struct rig *rig = new_rig(4);
    struct worker *worker = &rig->workers[0];
    rig_hello(rig, 1);
    refuse(rig, 0, REFUSAL_NAME, worker->incarnation + 1);
    ck_assert_ptr_null(engine_outlived(worker->engine));
    for (uint32_t i = 0; i < 12; i++) { /* router 1 falls silent: nobody is left */
        ck_assert_ptr_null(engine_outlived(worker->engine));
        rig_tick(rig, 450);
    }
    ck_assert_ptr_nonnull(engine_outlived(worker->engine));
    rig_hello(rig, 0); /* the other one is gone, says router 0 */
    ck_assert_ptr_null(engine_outlived(worker->engine));
    for (uint32_t i = 0; i < 12; i++) /* and then no more: that ends nobody */
        rig_tick(rig, 450);
    ck_assert_uint_eq(worker->engine->peer_links.n_broken, 0);
    ck_assert_ptr_null(engine_outlived(worker->engine));
    rig_free(rig);
}
END_TEST

START_TEST(a_silent_router_loses_its_requests_and_no_others) {
    struct rig *rig = new_rig(5);
    struct worker *worker = &rig->workers[0];
    rig_hello(rig, 1);
    struct call *silent = rig_call(rig, 20, 300);
    struct call *lively = rig_call(rig, 20, 30);
    lively->req.hi = 501;
    rig_both(rig, 0, silent);
    rig_both(rig, 0, lively);
    for (uint32_t i = 0; i < 11; i++) {
        struct message ping = {.type = MESSAGE_PING};
        rig_step(rig, 0);
        rig_tick(rig, 480);
        rig_send(rig, 0, 1, &ping);
        rig_check(rig);
        ck_assert_uint_eq(worker->engine->sequences.n_used, i < 10 ? 2 : 1);
    }
    rig_run(rig, 100);
    rig_expect_done(lively, 30, FINISH_LENGTH);
    ck_assert_uint_lt(silent->n_got, 20);
    rig_free(rig);
}
END_TEST

START_TEST(a_router_hears_something_every_100_ms_and_a_digest_each_second) {
    struct rig *rig = new_rig(6);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    rig_step(rig, 0);
    uint64_t end = rig->now_ns + 3050000000ull;
    while (rig->now_ns < end) {
        uint64_t at = engine_deadline(worker->engine);
        ck_assert_uint_gt(at, rig->now_ns);
        ck_assert_uint_le(at - rig->now_ns, 100000000);
        rig->now_ns = at;
        engine_tick(worker->engine, rig->now_ns);
    }
    ck_assert_uint_ge(worker->n_beats, 30);
    ck_assert_uint_le(worker->n_beats, 32);
    ck_assert_uint_eq(worker->n_digests, 3);
    ck_assert_uint_eq(worker->n_digest, 1);
    ck_assert_uint_eq(worker->digest[0].next_index, 2);
    ck_assert_int_eq(worker->digest[0].state, SEQUENCE_RUNNING);
    rig_free(rig);
}
END_TEST

START_TEST(tokens_that_met_busy_go_with_the_next_step) {
    struct rig *rig = new_rig(7);
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    rig->workers[0].busy = 8;
    for (uint32_t i = 0; i < 4; i++)
        rig_step(rig, 0);
    ck_assert_uint_eq(call->n_got, 1);
    rig->workers[0].busy = 0;
    rig_step(rig, 0);
    ck_assert_uint_eq(call->n_got, 6);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_lost_step_is_sent_again_on_request) {
    struct rig *rig = new_rig(8);
    struct call *call = rig_call(rig, 20, 200);
    call->sampling.want_logprobs = true;
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    rig->workers[0].lose_steps = 3;
    for (uint32_t i = 0; i < 4; i++)
        rig_step(rig, 0);
    ck_assert(call->gap);
    call->gap = false;
    rig_resend(rig, 0, call, call->n_got);
    ck_assert_uint_eq(call->n_got, 5);
    rig_run(rig, 300);
    rig_expect_done(call, 200, FINISH_LENGTH);
    ck_assert_uint_eq(call->n_logprobs, 200);
    /* The last one lost: only Resend brings the end, also long after. */
    uint32_t ids[RIG_IDS];
    memcpy(ids, call->ids, sizeof ids);
    call->n_got = 0;
    call->n_logprobs = 0;
    call->finish = FINISH_NONE;
    rig_resend(rig, 0, call, 0);
    rig_expect_done(call, 200, FINISH_LENGTH);
    ck_assert_uint_eq(call->n_logprobs, SEQUENCE_LOGPROBS_MAX); /* older ones are not kept */
    ck_assert_mem_eq(ids, call->ids, sizeof ids);
    rig_resend(rig, 0, call, UINT32_MAX);
    rig_forget(rig, 0, call);
    rig_resend(rig, 0, call, 0);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_UNKNOWN);
    rig_free(rig);
}
END_TEST

START_TEST(tokens_per_second_are_of_the_last_one) {
    struct rig *rig = new_rig(8);
    rig_tick(rig, 1000);
    struct call *call = rig_call(rig, 20, 50);
    rig_both(rig, 0, call);
    for (uint32_t i = 0; i < 50; i++)
        rig_step(rig, 0);
    rig_expect_done(call, 50, FINISH_LENGTH);
    rig_tick(rig, 1000);
    ck_assert_uint_gt(rig->workers[0].load.tokens_per_s, 0);
    ck_assert_uint_le(rig->workers[0].load.tokens_per_s, 50);
    rig_tick(rig, 1000);
    ck_assert_uint_eq(rig->workers[0].load.tokens_per_s, 0); /* nothing runs */
    rig_free(rig);
}
END_TEST

START_TEST(a_backlog_too_large_for_one_step_goes_in_several) {
    struct rig *rig = rig_new(14);
    struct engine_config config = rig_config();
    config.n_blocks = 512;
    config.max_batch = 48;
    config.context = 256;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t i = 0; i < 48; i++) {
        struct call *call = rig_call(rig, 1, 70);
        call->sampling.want_logprobs = true;
        rig_both(rig, 0, call);
    }
    worker->busy = UINT32_MAX;
    for (uint32_t i = 0; i < 60; i++)
        rig_step(rig, 0);
    worker->busy = 0;
    rig_step(rig, 0); /* 48 times 61 tokens with logprobs: more than a message takes */
    for (uint32_t i = 0; i < 48; i++)
        ck_assert_uint_eq(rig->calls[i].n_got, 61);
    rig_run(rig, 100);
    for (uint32_t i = 0; i < 48; i++) {
        rig_expect_done(&rig->calls[i], 70, FINISH_LENGTH);
        ck_assert_uint_eq(rig->calls[i].n_logprobs, 70);
    }
    rig_free(rig);
}
END_TEST

START_TEST(cancel_is_answered_also_for_what_is_not_here) {
    struct rig *rig = new_rig(9);
    struct worker *worker = &rig->workers[0];
    struct call *unknown = rig_call(rig, 20, 5);
    rig_cancel(rig, 0, unknown);
    ck_assert(unknown->cancelled);
    struct call *queued = rig_call(rig, 20, 5);
    rig_both(rig, 0, queued);
    rig_cancel(rig, 0, queued);
    ck_assert(queued->cancelled);
    ck_assert(engine_idle(worker->engine));
    rig_step(rig, 0);
    ck_assert_uint_eq(queued->n_got, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_submit_that_its_cancel_overtook_is_refused) {
    struct rig *rig = new_rig(13);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 5);
    call->attempt = 3;
    rig_cancel(rig, 0, call);
    call->attempt = 2; /* lower ones are over, too */
    rig_both(rig, 0, call);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_CANCELLED);
    rig_reserve(rig, 0, call);
    ck_assert(call->refused);
    ck_assert(engine_idle(worker->engine));
    call->attempt = 4;
    call->failed = false;
    rig_both(rig, 0, call);
    rig_run(rig, 50);
    rig_expect_done(call, 5, FINISH_LENGTH);
    rig_forget(rig, 0, call);
    rig_both(rig, 0, call); /* comes twice, the second time after the end */
    ck_assert(call->failed);
    ck_assert(engine_idle(worker->engine));
    rig_free(rig);
}
END_TEST

START_TEST(only_the_last_tombstones_are_kept) {
    static struct tombstones tombstones;
    ck_assert_int_eq(tombstones_init(&tombstones, 1), STATUS_OK);
    for (uint64_t i = 0; i < 3 * TOMBSTONES_MAX; i++) {
        tombstones_add(&tombstones, (struct request_id){1, i}, 2);
        tombstones_add(&tombstones, (struct request_id){1, i}, 1); /* never lower */
    }
    ck_assert_uint_eq(tombstones.attempts.n_used, TOMBSTONES_MAX);
    ck_assert(!tombstones_has(&tombstones, (struct request_id){1, 2 * TOMBSTONES_MAX - 1}, 1));
    ck_assert(tombstones_has(&tombstones, (struct request_id){1, 2 * TOMBSTONES_MAX}, 2));
    ck_assert(!tombstones_has(&tombstones, (struct request_id){1, 2 * TOMBSTONES_MAX}, 3));
    tombstones_fini(&tombstones);
}
END_TEST

START_TEST(a_router_that_never_reads_is_given_up) {
    struct rig *rig = new_rig(10);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 5);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    worker->busy = UINT32_MAX;
    for (uint32_t i = 0; i < 1000; i++)
        rig_cancel(rig, 0, call);
    rig_check(rig);
    ck_assert(engine_idle(worker->engine));
    ck_assert_uint_eq(worker->n_closed, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_draining_worker_takes_nothing_new_and_finishes_what_it_has) {
    struct rig *rig = new_rig(11);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    struct message message = {.type = MESSAGE_DRAIN};
    message.u.drain.deadline_ms = 2000;
    rig_send(rig, 0, 0, &message);
    struct call *late = rig_call(rig, 20, 30);
    rig_both(rig, 0, late);
    ck_assert_int_eq(late->reason, REASON_DRAINING);
    struct call *later = rig_call(rig, 20, 30);
    rig_reserve(rig, 0, later);
    ck_assert_int_eq(later->reason, REASON_DRAINING);
    rig_step(rig, 0);
    ck_assert_uint_eq(call->n_got, 2);
    rig_tick(rig, 2000); /* what is left goes elsewhere */
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_DRAINING);
    ck_assert(engine_idle(worker->engine));
    rig_check(rig);
    rig_free(rig);
}
END_TEST

static void order(struct rig *rig, enum drain_order what, uint32_t deadline_ms) {
    struct message message = {.type = MESSAGE_DRAIN};
    message.u.drain = (struct drain){deadline_ms, what};
    rig_send(rig, 0, 0, &message);
}

START_TEST(a_drain_is_taken_back_unless_the_process_ends) {
    struct rig *rig = new_rig(14);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    order(rig, DRAIN_UNDO, 0); /* there is nothing to take back */
    order(rig, DRAIN_STOP, 2000);
    order(rig, DRAIN_UNDO, 0);
    ck_assert(!engine_is_ending(worker->engine));
    struct call *next = rig_call(rig, 20, 5);
    rig_both(rig, 0, next);
    ck_assert(!next->failed);
    rig_tick(rig, 2000); /* the deadline went with the drain */
    ck_assert(!call->failed);
    order(rig, DRAIN_EXIT, 2000);
    ck_assert(engine_is_ending(worker->engine));
    order(rig, DRAIN_UNDO, 0);
    ck_assert(engine_is_ending(worker->engine));
    struct call *late = rig_call(rig, 20, 5);
    rig_both(rig, 0, late);
    ck_assert_int_eq(late->reason, REASON_DRAINING);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

START_TEST(another_routers_request_cannot_be_touched) {
    struct rig *rig = new_rig(12);
    rig_hello(rig, 1);
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    struct message message = {.type = MESSAGE_CANCEL};
    message.u.cancel = (struct cancel){call->req, 9, REASON_CANCELLED};
    rig_send(rig, 0, 1, &message);
    struct attempt_id id = {call->req, 1};
    message = (struct message){.type = MESSAGE_FORGET};
    message.u.forget = (struct forget){.n = 1, .attempts = &id};
    rig_send(rig, 0, 1, &message);
    rig_check(rig);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* The ids of an ended one stay for Resend, until the router has forgotten it or the process ends. */
START_TEST(a_drain_that_is_over_fails_nothing_that_has_ended) {
    struct rig *rig = new_rig(15);
    struct worker *worker = &rig->workers[0];
    struct call *ended = rig_call(rig, 20, 3), *running = rig_call(rig, 20, 30);
    rig_both(rig, 0, ended);
    rig_both(rig, 0, running);
    for (int i = 0; i < 3; i++)
        rig_step(rig, 0);
    rig_expect_done(ended, 3, FINISH_LENGTH);
    order(rig, DRAIN_STOP, 1000);
    rig_tick(rig, 1000);
    ck_assert(running->failed);
    ck_assert_int_eq(running->reason, REASON_DRAINING);
    ck_assert_uint_eq(worker->engine->sequences.n_used, 1);
    ended->finish = FINISH_NONE;
    rig_resend(rig, 0, ended, 0);
    rig_expect_done(ended, 3, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(the_shortest_deadline_of_a_drain_counts) {
    static const uint32_t ms[][2] = {{1000, 3000}, {3000, 1000}};
    for (int i = 0; i < 2; i++) {
        struct rig *rig = new_rig(16);
        struct call *call = rig_call(rig, 20, 300);
        rig_both(rig, 0, call);
        rig_step(rig, 0);
        order(rig, DRAIN_STOP, ms[i][0]);
        order(rig, DRAIN_STOP, ms[i][1]);
        rig_tick(rig, 999);
        ck_assert(!call->failed);
        rig_tick(rig, 1);
        ck_assert(call->failed);
        rig_free(rig);
    }
}
END_TEST

START_TEST(forgetting_an_older_attempt_ends_nothing) {
    struct rig *rig = new_rig(17);
    struct call *call = rig_call(rig, 20, 30);
    call->attempt = 2;
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    call->attempt = 1;
    rig_forget(rig, 0, call);
    call->attempt = 2;
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_second_hello_of_a_link_ends_what_the_first_one_began) {
    struct rig *rig = new_rig(18);
    struct worker *worker = &rig->workers[0];
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    struct message message = {.type = MESSAGE_HELLO, .session = 77};
    message.u.hello = (struct hello){.major = PROTO_MAJOR, .router_id = 900, .session = 77};
    engine_message(worker->engine, rig->now_ns, rig_link(0), &message);
    rig_check(rig);
    ck_assert_uint_eq(worker->n_welcomes, 2);
    ck_assert_uint_eq(worker->n_closed, 0);
    ck_assert(engine_idle(worker->engine));
    ck_assert_uint_eq(worker->engine->pool.counts[KV_USED], 0);
    ck_assert(!rig_step(rig, 0));
    ck_assert_uint_eq(call->n_got, 1);
    rig_tick(rig, 6000); /* one session is left, and its lease is the second router's */
    ck_assert_uint_eq(worker->n_closed, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_tombstone_remembers_the_highest_attempt) {
    static struct tombstones tombstones;
    struct request_id req = {1, 5};
    ck_assert_int_eq(tombstones_init(&tombstones, 1), STATUS_OK);
    tombstones_add(&tombstones, req, 1);
    ck_assert(!tombstones_has(&tombstones, req, 2));
    tombstones_add(&tombstones, req, 3);
    ck_assert(tombstones_has(&tombstones, req, 2));
    ck_assert(tombstones_has(&tombstones, req, 3));
    ck_assert(!tombstones_has(&tombstones, req, 4));
    tombstones_add(&tombstones, req, 2);
    ck_assert(tombstones_has(&tombstones, req, 3));
    ck_assert_uint_eq(tombstones.attempts.n_used, 1);
    tombstones_fini(&tombstones);
}
END_TEST

/* Requests that are remembered again take no second place of the ring. */
START_TEST(a_tombstone_goes_when_1024_younger_ones_have_come) {
    static struct tombstones tombstones;
    ck_assert_int_eq(tombstones_init(&tombstones, 1), STATUS_OK);
    tombstones_add(&tombstones, (struct request_id){1, 0}, 1);
    for (uint64_t i = 1; i < TOMBSTONES_MAX; i++) {
        tombstones_add(&tombstones, (struct request_id){1, i}, 1);
        tombstones_add(&tombstones, (struct request_id){1, i}, 2);
    }
    ck_assert(tombstones_has(&tombstones, (struct request_id){1, 0}, 1));
    tombstones_add(&tombstones, (struct request_id){1, TOMBSTONES_MAX}, 1);
    ck_assert(!tombstones_has(&tombstones, (struct request_id){1, 0}, 1));
    ck_assert(tombstones_has(&tombstones, (struct request_id){1, 1}, 2));
    tombstones_fini(&tombstones);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_hello_is_welcomed_once);
    tcase_add_test(tests, a_busy_welcome_comes_later_and_first);
    tcase_add_test(tests, a_message_of_a_stale_session_is_answered_reset);
    tcase_add_test(tests, a_new_hello_ends_only_that_routers_older_session);
    tcase_add_test(tests, a_router_that_refuses_the_worker_ends_its_session_and_no_other);
    tcase_add_test(tests, the_later_one_of_a_name_ends_at_once);
    tcase_add_test(tests, the_earlier_one_of_a_name_goes_on_while_a_router_is_served);
    tcase_add_test(tests, a_silent_router_loses_its_requests_and_no_others);
    tcase_add_test(tests, a_router_hears_something_every_100_ms_and_a_digest_each_second);
    tcase_add_test(tests, tokens_that_met_busy_go_with_the_next_step);
    tcase_add_test(tests, a_lost_step_is_sent_again_on_request);
    tcase_add_test(tests, tokens_per_second_are_of_the_last_one);
    tcase_add_test(tests, a_backlog_too_large_for_one_step_goes_in_several);
    tcase_add_test(tests, cancel_is_answered_also_for_what_is_not_here);
    tcase_add_test(tests, a_submit_that_its_cancel_overtook_is_refused);
    tcase_add_test(tests, only_the_last_tombstones_are_kept);
    tcase_add_test(tests, a_router_that_never_reads_is_given_up);
    tcase_add_test(tests, a_draining_worker_takes_nothing_new_and_finishes_what_it_has);
    tcase_add_test(tests, a_drain_is_taken_back_unless_the_process_ends);
    tcase_add_test(tests, another_routers_request_cannot_be_touched);
    tcase_add_test(tests, a_drain_that_is_over_fails_nothing_that_has_ended);
    tcase_add_test(tests, the_shortest_deadline_of_a_drain_counts);
    tcase_add_test(tests, forgetting_an_older_attempt_ends_nothing);
    tcase_add_test(tests, a_second_hello_of_a_link_ends_what_the_first_one_began);
    tcase_add_test(tests, a_tombstone_remembers_the_highest_attempt);
    tcase_add_test(tests, a_tombstone_goes_when_1024_younger_ones_have_come);
}
