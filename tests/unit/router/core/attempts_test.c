/* Times and numbers of a request's attempts: what is asked again and when, what a late word reaches. */
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <stdio.h>

const char *const suite_name = "router_attempts";
const double suite_timeout_s = 60;

static struct fake fake;

/* Both workers of a hand-over; and of a request without one, none. */
START_TEST(workers_are_told_the_trace_of_a_request) {
    static const struct trace trace = {.trace_id = {1, [15] = 2}, .span_id = {3}, .flags = 1};
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    struct request_spec spec = fake_spec(&fake, 0, 33, 8);
    struct submit submit;
    spec.has_trace = true;
    spec.trace = trace;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    fake_reserved(&fake, d, 9, 16);
    ck_assert(fake_submitted(&fake, p).has_trace && fake_submitted(&fake, d).has_trace);
    submit = fake_submitted(&fake, p);
    ck_assert_mem_eq(&submit.trace, &trace, sizeof trace);
    submit = fake_submitted(&fake, d);
    ck_assert_mem_eq(&submit.trace, &trace, sizeof trace);
    ck_assert_int_eq(fake_ask(&fake, 1, 33, 8), STATUS_OK);
    fake_reserved(&fake, d, 10, 16);
    ck_assert(!fake_submitted(&fake, p).has_trace && !fake_submitted(&fake, d).has_trace);
    fake_close(&fake);
}
END_TEST

START_TEST(a_name_that_is_over_reaches_no_later_request) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit old = fake_submitted(&fake, a);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    ck_assert_uint_ne(fake.users[0].name, fake.users[1].name);
    ck_assert_uint_eq(fake.users[0].name & 0xffffff, fake.users[1].name & 0xffffff);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    router_stop(fake.router, fake.now_ns, fake.users[0].name, 0);
    fake_step(&fake, a, &old, 0, 3, FINISH_STOP);
    ck_assert_uint_eq(fake.users[1].n_ends, 0);
    ck_assert_uint_eq(fake.users[1].n_got, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(a_stop_behind_what_was_emitted_adds_no_tokens) {
    static const uint32_t at[] = {2, 3, 4}, n_emitted[] = {2, 3, 3};
    for (int i = 0; i < 3; i++) {
        fake_open_default(&fake);
        uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
        ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
        struct submit submit = fake_submitted(&fake, a);
        fake_step(&fake, a, &submit, 0, 3, FINISH_NONE);
        router_stop(fake.router, fake.now_ns, fake.users[0].name, at[i]);
        ck_assert_uint_eq(fake.users[0].n_ends, 1);
        ck_assert_uint_eq(fake.users[0].end.n_emitted, n_emitted[i]);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(no_more_tokens_are_handed_over_as_cached_than_there_are) {
    static const uint32_t says[] = {32, 33, 34}, passed_on[] = {32, 33, 33};
    for (int i = 0; i < 3; i++) {
        fake_open_default(&fake);
        uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
        uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
        ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
        fake_reserved(&fake, d, 9, says[i]);
        ck_assert_uint_eq(fake_submitted(&fake, p).xfer.cached_tokens, passed_on[i]);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(a_worker_is_told_how_many_milliseconds_are_left) {
    static const struct {
        uint64_t left_ns;
        uint32_t ms;
    } rows[] = {{1, 1},
                {NS_PER_MS - 1, 1},
                {1500 * NS_PER_US, 2},
                {(UINT32_MAX - 1ull) * NS_PER_MS, UINT32_MAX},
                {UINT32_MAX * NS_PER_MS, UINT32_MAX},
                {(UINT32_MAX + 5ull) * NS_PER_MS, UINT32_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_open_default(&fake);
        uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
        struct request_spec spec = fake_spec(&fake, 0, 5, 8);
        spec.deadline_ns = fake.now_ns + rows[i].left_ns;
        ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
        ck_assert_uint_eq(fake_submitted(&fake, a).budget_ms, rows[i].ms);
        fake_close(&fake);
    }
}
END_TEST

/* A deadline between two looks at an attempt that lives. */
START_TEST(a_deadline_is_kept_whatever_else_woke_its_request) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), n_tokens = 0;
    struct request_spec spec = fake_spec(&fake, 0, 5, 64);
    spec.deadline_ns = fake.now_ns + 10 * NS_PER_S;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    while (fake.now_ns + NS_PER_S / 2 < spec.deadline_ns) {
        fake_step(&fake, a, &submit, n_tokens++, 1, FINISH_NONE);
        fake_pass(&fake, NS_PER_S / 2, 1u << a);
        fake_forget_sent(&fake);
    }
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    ck_assert_uint_le(router_deadline(fake.router), spec.deadline_ns);
    fake_pass(&fake, spec.deadline_ns - fake.now_ns, 1u << a);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_TIMEOUT);
    fake_close(&fake);
}
END_TEST

START_TEST(a_request_that_is_over_has_no_time_to_come) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    struct request_spec spec = fake_spec(&fake, 0, 5, 8);
    spec.deadline_ns = fake.now_ns + NS_PER_S;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    fake_pass(&fake, 5 * NS_PER_S, 1u << a);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_uint_eq(fake_stats(&fake).n_cancelled, 1);
    ck_assert_uint_eq(fake_stats(&fake).n_failed + fake_stats(&fake).n_refused, 0);
    fake_close(&fake);
}
END_TEST

/* 20, 40, 80 ms and never more; then at once again where it had room. */
START_TEST(a_worker_without_room_is_left_alone_for_twice_as_long_each_time) {
    static const uint32_t rests_ms[] = {20, 40, 80, 80};
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    fake_pass(&fake, 50 * NS_PER_MS, 3);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), i + 1);
        struct submit asked = fake_reserving(&fake, d);
        fake_refuses(&fake, d, &asked, REASON_BUSY);
        fake.now_ns += (rests_ms[i] - 1) * NS_PER_MS;
        fake_beat(&fake, d);
        router_tick(fake.router, fake.now_ns);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), i + 1);
        fake.now_ns += NS_PER_MS;
        router_tick(fake.router, fake.now_ns);
    }
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 5);
    fake_close(&fake);
}
END_TEST

START_TEST(refusals_of_requests_in_flight_count_as_one) {
    fake_open_default(&fake);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    fake_pass(&fake, 50 * NS_PER_MS, 3);
    struct submit asked[3];
    for (uint32_t user = 0; user < 3; user++) {
        ck_assert_int_eq(fake_ask(&fake, user, 33, 8), STATUS_OK);
        asked[user] = fake_reserving(&fake, d);
    }
    for (int i = 0; i < 3; i++)
        fake_refuses(&fake, d, &asked[i], REASON_BUSY);
    ck_assert_uint_eq(router_deadline(fake.router), fake.now_ns + 20 * NS_PER_MS);
    fake_close(&fake);
}
END_TEST

START_TEST(cached_tokens_are_those_of_the_first_attempt) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    fake_reserved(&fake, d, 9, 16);
    uint32_t q = fake_worker(&fake, "q", ROLE_PREFILL);
    fake_lose(&fake, p);
    fake_pass(&fake, 100 * NS_PER_MS, 1u << d | 1u << q);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 2);
    fake_reserved(&fake, d, 10, 32); /* its own first try filled the cache */
    struct submit submit = fake_submitted(&fake, d);
    ck_assert_uint_eq(submit.attempt, 2);
    struct step_entry entry = {.req = submit.req,
                               .attempt = submit.attempt,
                               .n_tokens = 1,
                               .tokens = (const uint32_t[]){fake_token(0)},
                               .finish = FINISH_STOP,
                               .cached_tokens = 32};
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 1, .entries = &entry};
    fake_says(&fake, d, message);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_uint_eq(fake.users[0].end.cached_tokens, 16);
    fake_close(&fake);
}
END_TEST

/* Whoever is hung himself can take nothing over. */
START_TEST(of_two_hung_workers_none_is_put_out) {
    fake_open_default(&fake);
    fake_worker(&fake, "a", ROLE_MIXED);
    fake_worker(&fake, "b", ROLE_MIXED);
    fake_pass(&fake, 5 * NS_PER_S, 0);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
    fake_close(&fake);
}
END_TEST

/* A call of three; decode workers are full, one that does both has one place, and one may wait. */
START_TEST(prefill_workers_are_no_places_while_decode_workers_are_full) {
    struct router_config config = fake_config();
    config.max_queue = 1;
    fake_open(&fake, &config);
    fake_worker(&fake, "p", ROLE_PREFILL);
    struct welcome welcome = fake_welcome("d", ROLE_DECODE);
    welcome.max_seqs = 2;
    welcome.load.n_running = 2;
    fake_join(&fake, &welcome);
    struct welcome mixed = fake_welcome("m", ROLE_MIXED);
    mixed.max_seqs = 1;
    fake_join(&fake, &mixed);
    struct request_spec specs[3];
    uint64_t names[3];
    for (uint32_t user = 0; user < 3; user++)
        specs[user] = fake_spec(&fake, user, 5, 4);
    ck_assert_int_eq(router_request_all(fake.router, fake.now_ns, specs, 3, names), STATUS_BUSY);
    ck_assert_int_eq(router_request_all(fake.router, fake.now_ns, specs, 2, names), STATUS_OK);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 1);
    fake_close(&fake);
}
END_TEST

/* By its slot the first one would be taken, which computes for two others. */
START_TEST(a_request_runs_alone_where_fewest_must_move_away) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    for (uint32_t user = 1; user < 3; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    struct welcome welcome = fake_welcome("b", ROLE_MIXED);
    welcome.load.n_running = 9; /* another router's */
    uint32_t b = fake_join(&fake, &welcome);
    uint32_t victim = fake_worker(&fake, "v0", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    for (int i = 1; i <= 3; i++) {
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, victim), 1);
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        uint32_t next = i < 3 ? fake_worker(&fake, name, ROLE_MIXED) : b;
        fake_forget_sent(&fake);
        fake_lose(&fake, victim);
        fake.now_ns += 50 * NS_PER_MS;
        router_tick(fake.router, fake.now_ns);
        victim = next;
    }
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 0);
    ck_assert_ptr_nonnull(fake_note(&fake, "request runs alone"));
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, workers_are_told_the_trace_of_a_request);
    tcase_add_test(tests, a_name_that_is_over_reaches_no_later_request);
    tcase_add_test(tests, a_stop_behind_what_was_emitted_adds_no_tokens);
    tcase_add_test(tests, no_more_tokens_are_handed_over_as_cached_than_there_are);
    tcase_add_test(tests, a_worker_is_told_how_many_milliseconds_are_left);
    tcase_add_test(tests, a_deadline_is_kept_whatever_else_woke_its_request);
    tcase_add_test(tests, a_request_that_is_over_has_no_time_to_come);
    tcase_add_test(tests, a_worker_without_room_is_left_alone_for_twice_as_long_each_time);
    tcase_add_test(tests, refusals_of_requests_in_flight_count_as_one);
    tcase_add_test(tests, cached_tokens_are_those_of_the_first_attempt);
    tcase_add_test(tests, of_two_hung_workers_none_is_put_out);
    tcase_add_test(tests, prefill_workers_are_no_places_while_decode_workers_are_full);
    tcase_add_test(tests, a_request_runs_alone_where_fewest_must_move_away);
}
