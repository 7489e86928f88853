#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_core";
const double suite_timeout_s = 60;

static struct fake fake;

static const struct submit *submitted(uint32_t slot) {
    const struct fake_message *message = fake_last(&fake, MESSAGE_SUBMIT, slot);
    ck_assert_ptr_nonnull(message);
    return &message->message.u.submit;
}

/* Brings user 0's request to the point where both workers have it. */
static void hand_over(uint32_t p, uint32_t d) {
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    fake_reserved(&fake, d, 9, 16);
    ck_assert_uint_eq(submitted(p)->phase, PHASE_PREFILL);
    ck_assert_uint_eq(submitted(d)->phase, PHASE_DECODE);
}

START_TEST(announced_worker_gets_hello_and_is_ready_after_welcome) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    struct announce announce = {.incarnation = welcome.incarnation};
    memcpy(announce.name, welcome.name, sizeof announce.name);
    router_announce(fake.router, fake.now_ns, &announce);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, 0), 1);
    ck_assert(!router_ready(fake.router));
    router_announce(fake.router, fake.now_ns, &announce); /* every second: no second link */
    ck_assert_uint_eq(fake.n_opened, 1);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = welcome;
    fake_says(&fake, 0, message);
    ck_assert(router_ready(fake.router));
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_PEERS, 0), 1);
    fake_close(&fake);
}
END_TEST

/* A shell that sets its timer after each of these misses no deadline. */
START_TEST(each_event_tells_that_the_deadline_may_be_another) {
    fake_open_default(&fake);
    uint32_t n = fake.n_touched;
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_uint_gt(fake.n_touched, n);
    n = fake.n_touched;
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake.n_touched, n + 1);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    ck_assert_uint_eq(fake.n_touched, n + 2);
    router_tick(fake.router, fake.now_ns);
    ck_assert_uint_eq(fake.n_touched, n + 3);
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "w", false), STATUS_OK);
    ck_assert_uint_eq(fake.n_touched, n + 4);
    fake_lose(&fake, w);
    ck_assert_uint_eq(fake.n_touched, n + 5);
    fake_close(&fake);
}
END_TEST

START_TEST(words_of_another_session_are_dropped_and_counted) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
    struct message message = {.type = MESSAGE_FAILED, .session = fake.session[w] + 1};
    message.u.failed = (struct failed){.req = submitted(w)->req, .attempt = 1};
    fake_says(&fake, w, message);
    ck_assert_uint_eq(fake_stats(&fake).n_stale_dropped, 1);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(other_models_tokenizers_and_versions_are_refused) {
    fake_open_default(&fake);
    fake_worker(&fake, "good", ROLE_MIXED);
    struct welcome flawed[3];
    for (int i = 0; i < 3; i++)
        flawed[i] = fake_welcome("bad", ROLE_MIXED);
    flawed[0].model_fp[3] = 1;
    flawed[1].tokenizer_fp[0] = 1;
    flawed[2].major = PROTO_MAJOR + 1;
    for (int i = 0; i < 3; i++) {
        struct announce announce = {.incarnation = flawed[i].incarnation};
        router_announce(fake.router, fake.now_ns, &announce);
        flawed[i].name[0] = '\0';
        struct message message = {.type = MESSAGE_WELCOME};
        message.u.welcome = flawed[i];
        fake_says(&fake, (uint32_t)i + 1, message);
        struct worker_view view;
        ck_assert_int_eq(router_worker(fake.router, (uint32_t)i + 1, &view), STATUS_OK);
        ck_assert_int_eq(view.state, SLOT_REFUSED);
        /* It is told by what still speaks its language. */
        ck_assert_int_eq(fake.open[i + 1], i < 2);
    }
    for (uint32_t user = 0; user < 8; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 0), 8);
    fake_close(&fake);
}
END_TEST

static uint32_t join_other_model(const char *name) {
    struct welcome other = fake_welcome(name, ROLE_MIXED);
    other.model_fp[31] = 1;
    return fake_join(&fake, &other);
}

/* The router's model is its own, whoever comes first and however long nobody else comes. */
START_TEST(other_model_that_comes_first_serves_nothing_and_keeps_nobody_out) {
    fake_open_default(&fake);
    uint32_t wrong = join_other_model("w0");
    ck_assert(!router_ready(fake.router));
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    fake_pass(&fake, 30 * NS_PER_S, 0);
    wrong = join_other_model("w0"); /* announced again after it was forgotten */
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    uint32_t right = fake_worker(&fake, "w1", ROLE_MIXED);
    ck_assert(router_ready(fake.router));
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, right), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, wrong), 0);
    fake_close(&fake);
}
END_TEST

/* A model replaced and its workers restarted, while the router was forgotten. */
START_TEST(the_pin_outlives_the_last_worker) {
    fake_open_default(&fake);
    uint32_t right = fake_worker(&fake, "w0", ROLE_MIXED);
    fake_lose(&fake, right);
    join_other_model("w0");
    fake_pass(&fake, 30 * NS_PER_S, 0);
    join_other_model("w0");
    ck_assert(!router_ready(fake.router));
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 0);
    fake_close(&fake);
}
END_TEST

START_TEST(reserve_comes_first_and_its_answer_releases_submit_to_both) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 0);
    fake_reserved(&fake, d, 9, 16);
    const struct submit *prefill = submitted(p), *decode = submitted(d);
    ck_assert_uint_ne(prefill->xfer.transfer_id, 0);
    ck_assert_uint_eq(prefill->xfer.transfer_id, decode->xfer.transfer_id);
    ck_assert_uint_eq(prefill->xfer.gen, 9);
    ck_assert_uint_eq(prefill->xfer.cached_tokens, 16);
    ck_assert_str_eq(prefill->xfer.peer, "d");
    ck_assert_str_eq(decode->xfer.peer, "p");
    fake_close(&fake);
}
END_TEST

START_TEST(handed_over_stream_takes_token_0_once_and_ends_once) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    hand_over(p, d);
    struct submit submit = *submitted(d);
    fake_step(&fake, p, &submit, 0, 1, FINISH_NONE);
    fake_expect(&fake, 0, 1);
    fake_step(&fake, d, &submit, 0, 3, FINISH_NONE); /* repeats token 0 */
    fake_expect(&fake, 0, 3);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_FORGET, p), 1); /* its share is done */
    fake_step(&fake, d, &submit, 3, 5, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
    ck_assert_uint_eq(fake.users[0].end.cached_tokens, 16);
    ck_assert_str_eq(fake.users[0].end.prefill_worker, "p");
    ck_assert_str_eq(fake.users[0].end.decode_worker, "d");
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_FORGET, d), 1);
    fake_step(&fake, d, &submit, 8, 1, FINISH_NONE); /* after the end: dropped */
    fake_expect(&fake, 0, 8);
    fake_close(&fake);
}
END_TEST

START_TEST(end_with_token_0_ends_the_stream_and_cancels_decode) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    hand_over(p, d);
    struct submit submit = *submitted(d);
    fake_step(&fake, p, &submit, 0, 1, FINISH_STOP);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_FORGET, p), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_CANCEL, d), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(gap_is_asked_for_and_nothing_is_repeated) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 16), STATUS_OK);
    struct submit submit = *submitted(w);
    fake_step(&fake, w, &submit, 0, 2, FINISH_NONE);
    fake_step(&fake, w, &submit, 4, 2, FINISH_NONE);
    fake_expect(&fake, 0, 2);
    const struct fake_message *resend = fake_last(&fake, MESSAGE_RESEND, w);
    ck_assert_ptr_nonnull(resend);
    ck_assert_uint_eq(resend->message.u.resend.from, 2);
    fake_step(&fake, w, &submit, 5, 1, FINISH_NONE); /* asked a moment ago */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESEND, w), 1);
    fake_step(&fake, w, &submit, 2, 5, FINISH_NONE);
    fake_expect(&fake, 0, 7);
    fake_step(&fake, w, &submit, 3, 3, FINISH_NONE); /* all old */
    fake_expect(&fake, 0, 7);
    fake_close(&fake);
}
END_TEST

START_TEST(small_prompts_and_mixed_workers_are_served_by_one_worker) {
    struct router_config config = fake_config();
    config.local_prefill_tokens = 16;
    fake_open(&fake, &config);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 16, 4), STATUS_OK);
    ck_assert_uint_eq(submitted(d)->phase, PHASE_BOTH);
    ck_assert_int_eq(fake_ask(&fake, 1, 17, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 1);
    fake_close(&fake);
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t m = fake_worker(&fake, "m", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    ck_assert_uint_eq(submitted(m)->phase, PHASE_BOTH);
    fake_close(&fake);
}
END_TEST

START_TEST(roles_are_preferences) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    ck_assert_uint_eq(submitted(p)->phase, PHASE_BOTH);
    fake_close(&fake);
    fake_open_default(&fake);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    ck_assert_uint_eq(submitted(d)->phase, PHASE_BOTH);
    fake_close(&fake);
}
END_TEST

START_TEST(unequal_layouts_never_pair) {
    fake_open_default(&fake);
    struct welcome p = fake_welcome("p", ROLE_PREFILL);
    p.kv.n_layers = 5;
    fake_join(&fake, &p);
    struct welcome q = fake_welcome("q", ROLE_PREFILL);
    q.kv.block_bytes = 256;
    fake_join(&fake, &q);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, UINT32_MAX), 0);
    ck_assert_uint_eq(submitted(d)->phase, PHASE_BOTH);
    fake_close(&fake);
}
END_TEST

START_TEST(unequal_tensor_parallel_sizes_pair_where_there_is_no_equal_one_and_are_counted) {
    fake_open_default(&fake);
    struct welcome other = fake_welcome("p", ROLE_PREFILL);
    other.kv.tp = 2;
    other.numerics_fp[0] = 1;
    uint32_t p = fake_join(&fake, &other);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 1);
    fake_reserved(&fake, d, 9, 0);
    ck_assert_uint_eq(submitted(p)->phase, PHASE_PREFILL);
    ck_assert_uint_eq(submitted(d)->phase, PHASE_DECODE);
    ck_assert_uint_eq(fake_stats(&fake).n_inexact, 1);
    uint32_t q = fake_worker(&fake, "q", ROLE_PREFILL); /* equal: from now on it is this one */
    ck_assert_int_eq(fake_ask(&fake, 1, 33, 4), STATUS_OK);
    fake_reserved(&fake, d, 10, 0);
    ck_assert_uint_eq(submitted(q)->phase, PHASE_PREFILL);
    ck_assert_uint_eq(fake_stats(&fake).n_inexact, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(without_workers_new_requests_are_refused_at_once) {
    fake_open_default(&fake);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, FAKE_PROMPT + 1, 4), STATUS_LIMIT);
    struct request_spec spec = fake_spec(&fake, 0, 5, 4);
    spec.capacity = 8;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_INVALID);
    fake_lose(&fake, w);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    ck_assert_uint_eq(fake_stats(&fake).n_refused, 4);
    fake_close(&fake);
}
END_TEST

START_TEST(queue_is_bounded_and_fair) {
    struct router_config config = fake_config();
    config.max_queue = 3;
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 1;
    uint32_t w = fake_join(&fake, &welcome);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 4), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 2, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 2);
    ck_assert_int_eq(fake_ask(&fake, 3, 5, 4), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 4, 5, 4), STATUS_BUSY);
    for (uint32_t user = 0; user < 4; user++) {
        struct submit submit = *submitted(w);
        fake_forget_sent(&fake);
        fake_step(&fake, w, &submit, 0, 4, FINISH_LENGTH);
        fake_expect(&fake, user, 4);
        ck_assert_uint_eq(fake.users[user].n_ends, 1);
    }
    fake_close(&fake);
}
END_TEST

START_TEST(lower_priority_numbers_go_first) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 1;
    uint32_t w = fake_join(&fake, &welcome);
    for (uint32_t user = 0; user < 3; user++) {
        struct request_spec spec = fake_spec(&fake, user, 5, 4);
        spec.priority = 9 - user;
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
    }
    struct submit submit = *submitted(w);
    fake_step(&fake, w, &submit, 0, 4, FINISH_LENGTH);
    submit = *submitted(w);
    fake_step(&fake, w, &submit, 0, 4, FINISH_LENGTH);
    ck_assert_uint_eq(fake.users[2].n_ends, 1);
    ck_assert_uint_eq(fake.users[1].n_ends, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(deadline_refuses_in_the_queue_and_fails_a_running_one) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 1;
    uint32_t w = fake_join(&fake, &welcome);
    for (uint32_t user = 0; user < 2; user++) {
        struct request_spec spec = fake_spec(&fake, user, 5, 4);
        spec.deadline_ns = fake.now_ns + NS_PER_S;
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
    }
    ck_assert_uint_gt(submitted(w)->budget_ms, 0);
    ck_assert_uint_le(router_deadline(fake.router), fake.now_ns + NS_PER_S);
    fake_pass(&fake, NS_PER_S + NS_PER_MS, 1u << w);
    ck_assert_int_eq(fake.users[0].end.kind, END_FAILED);
    ck_assert_int_eq(fake.users[1].end.kind, END_REFUSED);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_TIMEOUT);
    ck_assert_int_eq(fake.users[1].end.status, STATUS_TIMEOUT);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_CANCEL, w), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(refused_reservation_tries_elsewhere_or_waits) {
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE), e = fake_worker(&fake, "e", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    const struct fake_message *asked = fake_last(&fake, MESSAGE_RESERVE, UINT32_MAX);
    uint32_t first = asked->slot, second = first == d ? e : d;
    struct submit name = {.req = asked->message.u.reserve.req, .attempt = 1};
    fake_refuses(&fake, first, &name, REASON_BUSY);
    asked = fake_last(&fake, MESSAGE_RESERVE, UINT32_MAX);
    ck_assert_uint_eq(asked->slot, second);
    name.attempt = 2;
    fake_refuses(&fake, second, &name, REASON_TOO_LONG);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 1);
    fake_pass(&fake, 100 * NS_PER_MS, 7);
    asked = fake_last(&fake, MESSAGE_RESERVE, UINT32_MAX);
    ck_assert_uint_eq(asked->slot, first); /* the other one never fits */
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(nobody_slips_past_a_refused_reservation) {
    struct router_config config = fake_config();
    config.local_prefill_tokens = 16;
    fake_open(&fake, &config);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    struct submit name = {.req = {.hi = 77, .lo = fake.users[0].name}, .attempt = 1};
    fake_refuses(&fake, d, &name, REASON_BUSY);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 4), STATUS_OK); /* small: would stay at d */
    fake_pass(&fake, 50 * NS_PER_MS, 3);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 2);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, d), 0);
    fake_reserved(&fake, d, 4, 0);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, d), 2); /* first it, then the small one */
    fake_close(&fake);
}
END_TEST

START_TEST(too_long_for_all_is_refused) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    fake_refuses(&fake, w, submitted(w), REASON_TOO_LONG);
    ck_assert_int_eq(fake.users[0].end.kind, END_REFUSED);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_LIMIT);
    fake_close(&fake);
}
END_TEST

START_TEST(client_cancel_and_stop_end_at_once_and_cancel_the_work) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    struct submit submit = *submitted(w);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    ck_assert_int_eq(fake.users[0].end.kind, END_CANCELLED);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name); /* again: nothing */
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    fake_step(&fake, w, &submit, 0, 5, FINISH_NONE);
    router_stop(fake.router, fake.now_ns, fake.users[1].name, 3);
    ck_assert_int_eq(fake.users[1].end.kind, END_DONE);
    ck_assert_int_eq(fake.users[1].end.finish, FINISH_STOP);
    ck_assert_uint_eq(fake.users[1].end.n_emitted, 3);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_CANCEL, w), 2);
    fake_close(&fake);
}
END_TEST

START_TEST(own_submits_count_as_load_until_the_worker_reports_them) {
    fake_open_default(&fake);
    fake_worker(&fake, "a", ROLE_MIXED);
    fake_worker(&fake, "b", ROLE_MIXED);
    for (uint32_t user = 0; user < 16; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 0), 8);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 1), 8);
    fake_close(&fake);
}
END_TEST

START_TEST(draining_worker_gets_no_work_and_its_streams_finish_or_move) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    struct submit last = *submitted(a);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "nobody", false),
                     STATUS_NOT_FOUND);
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", false), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_DRAIN, a), 1);
    fake_step(&fake, a, &last, 0, 8, FINISH_LENGTH);
    ck_assert_int_eq(fake.users[1].end.kind, END_DONE);
    ck_assert_int_eq(fake_ask(&fake, 2, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    struct request_id stuck = {.hi = 77, .lo = fake.users[0].name};
    for (uint32_t i = 0; i < 31; i++) { /* alive and waiting, past the deadline */
        struct digest_entry entry = {.req = stuck, .attempt = 1, .state = SEQUENCE_WAITING};
        struct message message = {.type = MESSAGE_DIGEST};
        message.u.digest = (struct digest){.seen_seq = 0, .n = 1, .entries = &entry};
        fake_says(&fake, a, message);
        struct digest_entry other = {
            .req = {.hi = 77, .lo = fake.users[2].name}, .attempt = 1, .state = SEQUENCE_WAITING};
        message.u.digest = (struct digest){.seen_seq = 0, .n = 1, .entries = &other};
        fake_says(&fake, b, message);
        fake_pass(&fake, NS_PER_S, 1u << a | 1u << b);
        fake.n_sent = fake.n_sent > 400 ? 0 : fake.n_sent;
    }
    ck_assert_uint_eq(submitted(b)->req.lo, fake.users[0].name);
    ck_assert_uint_eq(submitted(b)->attempt, 2);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(choices_of_one_call_are_sequences_of_their_own) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    for (uint32_t choice = 0; choice < 3; choice++) {
        struct request_spec spec = fake_spec(&fake, choice, 5, 4);
        spec.sampling.choice = choice;
        spec.sampling.seed = 5;
        ck_assert_int_eq(fake_ask_spec(&fake, choice, spec), STATUS_OK);
        ck_assert_uint_eq(submitted(w)->sampling.choice, choice);
        ck_assert_uint_eq(submitted(w)->req.lo, fake.users[choice].name);
    }
    ck_assert_uint_ne(fake.users[0].name, fake.users[1].name);
    fake_close(&fake);
}
END_TEST

START_TEST(hostile_worker_messages_change_nothing) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
    struct submit submit = *submitted(w);
    fake_step(&fake, w, &submit, 0, 40, FINISH_NONE); /* more than was asked for */
    fake_expect(&fake, 0, 0);
    submit = *submitted(w);
    ck_assert_uint_eq(submit.attempt, 2);
    fake_step(&fake, w, &submit, 0, 4, FINISH_NONE);
    fake_expect(&fake, 0, 4);
    ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
    struct submit unknown = {.req = {.hi = 77, .lo = 0xffffffffffffffff}, .attempt = 1};
    fake_step(&fake, w, &unknown, 0, 1, FINISH_NONE);
    fake_fails(&fake, w, &unknown, REASON_INVALID);
    fake_refuses(&fake, w, &unknown, REASON_TOO_LONG);
    struct message message = {.type = MESSAGE_SUBMIT};
    fake_says(&fake, w, message);
    fake_says(&fake, FAKE_SLOTS - 1, message);
    router_message(fake.router, fake.now_ns, 12345, &message);
    ck_assert_uint_ge(fake_stats(&fake).n_stale_dropped, 4);
    fake_close(&fake);
}
END_TEST

START_TEST(bad_configurations_are_refused) {
    struct router *router = NULL;
    struct router_sink sink = {0};
    struct router_config config = fake_config();
    config.policy = "no such policy";
    ck_assert_int_eq(router_new(&config, &sink, &router), STATUS_NOT_FOUND);
    config = fake_config();
    config.max_requests = 0;
    ck_assert_int_eq(router_new(&config, &sink, &router), STATUS_INVALID);
    config = fake_config();
    config.max_workers = 0;
    ck_assert_int_eq(router_new(&config, &sink, &router), STATUS_INVALID);
    ck_assert_ptr_null(router);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, announced_worker_gets_hello_and_is_ready_after_welcome);
    tcase_add_test(tests, words_of_another_session_are_dropped_and_counted);
    tcase_add_test(tests, other_models_tokenizers_and_versions_are_refused);
    tcase_add_test(tests, other_model_that_comes_first_serves_nothing_and_keeps_nobody_out);
    tcase_add_test(tests, the_pin_outlives_the_last_worker);
    tcase_add_test(tests, reserve_comes_first_and_its_answer_releases_submit_to_both);
    tcase_add_test(tests, handed_over_stream_takes_token_0_once_and_ends_once);
    tcase_add_test(tests, end_with_token_0_ends_the_stream_and_cancels_decode);
    tcase_add_test(tests, gap_is_asked_for_and_nothing_is_repeated);
    tcase_add_test(tests, small_prompts_and_mixed_workers_are_served_by_one_worker);
    tcase_add_test(tests, roles_are_preferences);
    tcase_add_test(tests, unequal_layouts_never_pair);
    tcase_add_test(tests,
                   unequal_tensor_parallel_sizes_pair_where_there_is_no_equal_one_and_are_counted);
    tcase_add_test(tests, without_workers_new_requests_are_refused_at_once);
    tcase_add_test(tests, queue_is_bounded_and_fair);
    tcase_add_test(tests, lower_priority_numbers_go_first);
    tcase_add_test(tests, deadline_refuses_in_the_queue_and_fails_a_running_one);
    tcase_add_test(tests, refused_reservation_tries_elsewhere_or_waits);
    tcase_add_test(tests, nobody_slips_past_a_refused_reservation);
    tcase_add_test(tests, too_long_for_all_is_refused);
    tcase_add_test(tests, client_cancel_and_stop_end_at_once_and_cancel_the_work);
    tcase_add_test(tests, own_submits_count_as_load_until_the_worker_reports_them);
    tcase_add_test(tests, each_event_tells_that_the_deadline_may_be_another);
    tcase_add_test(tests, draining_worker_gets_no_work_and_its_streams_finish_or_move);
    tcase_add_test(tests, choices_of_one_call_are_sequences_of_their_own);
    tcase_add_test(tests, hostile_worker_messages_change_nothing);
    tcase_add_test(tests, bad_configurations_are_refused);
}
