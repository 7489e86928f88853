/* Workers that drain, have no room, die or come back: what the router does at once, and what later. */
#include "router/core/liveness.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <stdio.h>

const char *const suite_name = "router_leaving";
const double suite_timeout_s = 60;

static struct fake fake;

static void welcome_again(uint32_t slot, const struct welcome *welcome) {
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = *welcome;
    fake_says(&fake, slot, message);
}

static void reset(uint32_t slot) {
    struct message message = {.type = MESSAGE_RESET};
    message.u.reset.reason = REASON_STALE;
    fake_says(&fake, slot, message);
}

START_TEST(a_worker_that_refuses_because_it_drains_gets_nothing_more) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), b = fake_worker(&fake, "b", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    uint32_t drains = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    uint32_t other = drains == a ? b : a;
    struct submit submit = fake_submitted(&fake, drains);
    fake_refuses(&fake, drains, &submit, REASON_DRAINING);
    ck_assert_int_eq(fake_state(&fake, drains), SLOT_DRAINING);
    for (uint32_t user = 1; user < 4; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, other), 4);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_close(&fake);
}
END_TEST

/* A stream at worker `a` that drains; it brings a token every two seconds. */
static void pass_with_tokens(const struct submit *submit, uint32_t slot, uint32_t alive,
                             uint32_t n_seconds, uint32_t *n_tokens) {
    for (uint32_t i = 0; i < n_seconds; i += 2) {
        fake_step(&fake, slot, submit, (*n_tokens)++, 1, FINISH_NONE);
        fake_pass(&fake, 2 * NS_PER_S, alive);
        fake_forget_sent(&fake);
    }
}

START_TEST(asking_again_does_not_lengthen_a_drain) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), n_tokens = 0;
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 64), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED), alive = 1u << a | 1u << b;
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", false), STATUS_OK);
    pass_with_tokens(&submit, a, alive, 20, &n_tokens);
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", false), STATUS_OK);
    pass_with_tokens(&submit, a, alive, 8, &n_tokens);
    fake_step(&fake, a, &submit, n_tokens++, 1, FINISH_NONE);
    fake_pass(&fake, 1900 * NS_PER_MS, alive);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 0);
    fake_pass(&fake, 200 * NS_PER_MS, alive); /* 30 s after the first order */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    ck_assert_uint_eq(fake_submitted(&fake, b).n_tokens, 5 + n_tokens);
    fake_close(&fake);
}
END_TEST

START_TEST(a_drain_that_found_no_other_worker_moves_its_streams_when_one_has_come) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), n_tokens = 0;
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 64), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", false), STATUS_OK);
    pass_with_tokens(&submit, a, 1u << a, 34, &n_tokens);
    ck_assert_int_eq(fake_state(&fake, a),
                     SLOT_DRAINING); /* though its beats say that it is ready */
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_step(&fake, a, &submit, n_tokens++, 1, FINISH_NONE);
    fake_pass(&fake, 1050 * NS_PER_MS, 1u << a | 1u << b);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(a_request_that_was_refused_for_room_is_looked_at_when_the_rest_is_over) {
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    fake_pass(&fake, 50 * NS_PER_MS, 3);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    struct submit asked = fake_reserving(&fake, d);
    fake_refuses(&fake, d, &asked, REASON_BUSY);
    ck_assert_uint_eq(router_deadline(fake.router), fake.now_ns + 20 * NS_PER_MS);
    fake.now_ns += 20 * NS_PER_MS;
    router_tick(fake.router, fake.now_ns);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 2);
    fake_close(&fake);
}
END_TEST

START_TEST(nobody_is_woken_for_a_worker_without_room_when_nobody_waits) {
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    fake_pass(&fake, 50 * NS_PER_MS, 3);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    struct submit asked = fake_reserving(&fake, d);
    fake_refuses(&fake, d, &asked, REASON_BUSY);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    ck_assert_uint_gt(router_deadline(fake.router), fake.now_ns + 80 * NS_PER_MS);
    fake_close(&fake);
}
END_TEST

START_TEST(a_new_session_does_not_inherit_that_the_worker_had_no_room) {
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    struct welcome welcome = fake_welcome("d", ROLE_DECODE);
    uint32_t d = fake_join(&fake, &welcome);
    fake_pass(&fake, 50 * NS_PER_MS, 3);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    struct submit asked = fake_reserving(&fake, d);
    fake_refuses(&fake, d, &asked, REASON_BUSY);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 1);
    reset(d); /* the prefill worker takes it whole */
    welcome_again(d, &welcome);
    ck_assert_int_eq(fake_ask(&fake, 1, 33, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 2); /* no 20 ms later */
    asked = fake_reserving(&fake, d);
    fake_refuses(&fake, d, &asked, REASON_BUSY); /* the first refusal again: 20 ms, not 40 */
    ck_assert_uint_eq(router_deadline(fake.router), fake.now_ns + 20 * NS_PER_MS);
    fake_close(&fake);
}
END_TEST

START_TEST(the_others_are_told_who_left) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), b = fake_worker(&fake, "b", ROLE_MIXED);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_PEERS, a)->message.u.peers.n, 2);
    fake_forget_sent(&fake);
    fake_lose(&fake, b);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_PEERS, a), 1);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_PEERS, a)->message.u.peers.n, 1);
    fake_forget_sent(&fake);
    struct message drains = {.type = MESSAGE_BEAT};
    drains.u.beat.state = WORKER_DRAINING;
    fake_says(&fake, a, drains); /* it still takes part in hand-offs */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_PEERS, a), 0);
    fake_close(&fake);
}
END_TEST

/* It did not run there: however many die while they are asked for blocks, it is not suspect. */
START_TEST(deaths_of_workers_that_were_only_asked_for_blocks_are_no_losses) {
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    for (uint32_t i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%u", i);
        fake_worker(&fake, name, ROLE_DECODE);
    }
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    for (uint32_t i = 1; i <= 5; i++) {
        uint32_t d = fake_last(&fake, MESSAGE_RESERVE, UINT32_MAX)->slot;
        fake_lose(&fake, d);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, UINT32_MAX), i + 1); /* at once */
    }
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    ck_assert_ptr_null(fake_note(&fake, "request runs alone"));
    fake_close(&fake);
}
END_TEST

/* The worker is found hung in the tick in which the request's time is over: it had been lost. */
START_TEST(a_death_comes_before_a_deadline_of_the_same_tick) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    struct request_spec spec = fake_spec(&fake, 0, 5, 8);
    spec.deadline_ns = fake.now_ns + 1020 * NS_PER_MS;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_pass(&fake, NS_PER_S, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 1);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_TIMEOUT);
    ck_assert_uint_eq(fake.users[0].end.n_replays, 1);
    fake_close(&fake);
}
END_TEST

static void beat_with(uint32_t slot, uint32_t n_running, uint64_t t_ns) {
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.t_ns = t_ns;
    message.u.beat.load.progress = ++fake.progress[slot];
    message.u.beat.load.n_running = n_running;
    fake_says(&fake, slot, message);
}

/* A worker of three sequences. */
START_TEST(what_a_worker_counts_already_is_not_counted_again) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    welcome.max_seqs = 3;
    uint32_t a = fake_join(&fake, &welcome);
    fake_pass(&fake, PING_NS, 1u << a);
    uint64_t before_ns = fake_last(&fake, MESSAGE_PING, a)->message.u.ping.t_ns;
    fake.now_ns += 10 * NS_PER_MS;
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    beat_with(a, 2, before_ns); /* two of another router: ours is the third */
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    fake_pass(&fake, PING_NS, 0);
    uint64_t after_ns = fake_last(&fake, MESSAGE_PING, a)->message.u.ping.t_ns;
    ck_assert_uint_gt(after_ns, before_ns);
    beat_with(a, 3, after_ns); /* ours is among the three */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    beat_with(a, 2, after_ns); /* one of the other router's has ended */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    fake_close(&fake);
}
END_TEST

/* By its prefix the request would go to the new worker of the dead one's slot. */
START_TEST(a_dead_workers_cache_is_not_its_successors) {
    struct router_config config = fake_config();
    config.policy = "prefix_affinity";
    fake_open(&fake, &config);
    static const struct map_key hashes[] = {{1, 2}, {3, 4}};
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    for (uint32_t user = 0; user < 2; user++) {
        struct request_spec spec = fake_spec(&fake, user, 35, 1);
        spec.hashes = hashes;
        spec.n_hashes = 2;
        if (user == 0) {
            ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
            struct submit submit = fake_submitted(&fake, a);
            fake_step(&fake, a, &submit, 0, 1, FINISH_LENGTH);
            uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
            ck_assert_uint_ne(a, b);
            fake_lose(&fake, a);
            ck_assert_uint_eq(fake_worker(&fake, "c", ROLE_MIXED), a);
            beat_with(a, 3, 0);
            beat_with(b, 0, 0);
            fake_forget_sent(&fake);
            continue;
        }
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 0);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 1);
    }
    fake_close(&fake);
}
END_TEST

/* The process that was told to drain has another session: it begins anew. */
START_TEST(a_drain_ends_with_its_session) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    uint32_t a = fake_join(&fake, &welcome), b = fake_worker(&fake, "b", ROLE_MIXED), n_tokens = 0;
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", false), STATUS_OK);
    reset(a);
    welcome_again(a, &welcome);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_READY);
    fake_lose(&fake, b);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 64), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    pass_with_tokens(&submit, a, 1u << a | 1u << b, 34, &n_tokens);
    ck_assert_uint_eq(fake_stats(&fake).n_running, 1);
    ck_assert_uint_eq(fake.users[0].n_got, n_tokens);
    fake_step(&fake, a, &submit, n_tokens, 1, FINISH_STOP);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_worker_that_refuses_because_it_drains_gets_nothing_more);
    tcase_add_test(tests, asking_again_does_not_lengthen_a_drain);
    tcase_add_test(tests, a_drain_that_found_no_other_worker_moves_its_streams_when_one_has_come);
    tcase_add_test(tests, a_request_that_was_refused_for_room_is_looked_at_when_the_rest_is_over);
    tcase_add_test(tests, nobody_is_woken_for_a_worker_without_room_when_nobody_waits);
    tcase_add_test(tests, a_new_session_does_not_inherit_that_the_worker_had_no_room);
    tcase_add_test(tests, the_others_are_told_who_left);
    tcase_add_test(tests, deaths_of_workers_that_were_only_asked_for_blocks_are_no_losses);
    tcase_add_test(tests, a_death_comes_before_a_deadline_of_the_same_tick);
    tcase_add_test(tests, what_a_worker_counts_already_is_not_counted_again);
    tcase_add_test(tests, a_dead_workers_cache_is_not_its_successors);
    tcase_add_test(tests, a_drain_ends_with_its_session);
}
