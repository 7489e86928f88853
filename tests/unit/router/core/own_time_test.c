/* Silence is counted on the router's own time, which stands still while the router does. */
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

const char *const suite_name = "router_own_time";
const double suite_timeout_s = 60;

static struct fake fake;

START_TEST(patience_with_an_attempt_is_of_the_routers_own_time) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    fake_stand_still(&fake, 5 * NS_PER_S); /* 100 ms of its own */
    fake_pass(&fake, 2850 * NS_PER_MS, 1u << a);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, first.attempt);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << a);
    ck_assert_uint_gt(fake_submitted(&fake, a).attempt, first.attempt);
    fake_close(&fake);
}
END_TEST

/* Its step was to take 5 s, and is over after 3.05 s, of which half a second counts: patience ends at
 * 5.55 s, and is looked at again every 200 ms. */
START_TEST(patience_with_a_long_step_ends_with_the_step) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.load = (struct load){.progress = 1, .step_us_expected = 5000000};
    fake_says(&fake, a, message);
    fake_pass(&fake, 3050 * NS_PER_MS, 0);
    fake_pass(&fake, 2450 * NS_PER_MS, 1u << a);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, first.attempt);
    fake_pass(&fake, 250 * NS_PER_MS, 1u << a);
    ck_assert_uint_gt(fake_submitted(&fake, a).attempt, first.attempt);
    fake_close(&fake);
}
END_TEST

/* It says each layer of a step that is to take 5 s: 4 s are believed, as for a hang. */
START_TEST(patience_with_a_worker_of_long_steps_is_what_a_hang_takes) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    struct message message = {.type = MESSAGE_BEAT};
    for (uint32_t i = 1; i <= 80; i++) {
        ck_assert_uint_eq(fake_submitted(&fake, a).attempt, first.attempt);
        message.u.beat.load = (struct load){.progress = i, .step_us_expected = 5000000};
        fake_says(&fake, a, message);
        fake_pass(&fake, 50 * NS_PER_MS, 0);
    }
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, first.attempt + 1);
    fake_close(&fake);
}
END_TEST

/* The request's attempt there is replaced at this time from now and not a millisecond before; `alive` as in fake_pass(). */
static void expect_replaced_after(uint32_t worker, const struct submit *attempt, uint64_t ms,
                                  uint32_t alive) {
    fake_pass(&fake, (ms - 1) * NS_PER_MS, alive);
    ck_assert_uint_eq(fake_submitted(&fake, worker).attempt, attempt->attempt);
    fake_pass(&fake, NS_PER_MS, alive);
    ck_assert_uint_eq(fake_submitted(&fake, worker).attempt, attempt->attempt + 1);
}

/* It ends steps all the while, or stops and comes back, and nothing comes of the request: of each
 * silence half a second counts, so six of them are its 3 s. */
START_TEST(patience_with_a_worker_that_goes_on_without_the_request_ends) {
    static const uint64_t gaps_ms[] = {500, 501, 900, 1000, 1001, 9000};
    for (unsigned i = 0; i < sizeof gaps_ms / sizeof *gaps_ms; i++) {
        fake_open_default(&fake);
        uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
        ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
        struct submit first = fake_submitted(&fake, a);
        for (int gap = 0; gap < 5; gap++) {
            fake_pass(&fake, gaps_ms[i] * NS_PER_MS, 0);
            fake_beat(&fake, a);
        }
        expect_replaced_after(a, &first, 500, 0);
        fake_close(&fake);
    }
}
END_TEST

/* What its worker was silent before is no excuse; the last 50 ms of this silence are. */
START_TEST(patience_counts_only_silence_since_the_attempt_advanced) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    fake_pass(&fake, 5 * NS_PER_S, 0);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    expect_replaced_after(a, &first, 3050, 1u << a);
    fake_close(&fake);
}
END_TEST

/* The same where it was asked for blocks. */
START_TEST(patience_with_a_reservation_counts_only_silence_since_it_was_asked) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    uint32_t both = 1u << p | 1u << d;
    fake_pass(&fake, 5 * NS_PER_S, 0);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    struct submit first = fake_reserving(&fake, d);
    fake_pass(&fake, 3049 * NS_PER_MS, both);
    ck_assert_uint_eq(fake_reserving(&fake, d).attempt, first.attempt);
    ck_assert_ptr_null(fake_note(&fake, "attempt makes no progress"));
    fake_pass(&fake, NS_PER_MS, both);
    ck_assert_ptr_nonnull(fake_note(&fake, "attempt makes no progress"));
    fake_close(&fake);
}
END_TEST

/* The silence that a token ended is no excuse for what follows the token. */
START_TEST(patience_behind_a_token_does_not_know_the_silence_before_it) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    fake_pass(&fake, 5 * NS_PER_S, 0);
    fake_beat(&fake, a);
    fake_step(&fake, a, &first, 0, 1, FINISH_NONE);
    expect_replaced_after(a, &first, 3000, 1u << a);
    fake_close(&fake);
}
END_TEST

/* The reservation has its 3 s, and so has what follows it. */
START_TEST(patience_begins_anew_with_what_is_asked_next) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    uint32_t both = 1u << p | 1u << d;
    fake_pass(&fake, 50 * NS_PER_MS, both);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    struct submit first = fake_reserving(&fake, d);
    fake_pass(&fake, 2500 * NS_PER_MS, both);
    fake_refuses(&fake, d, &first, REASON_BUSY);
    fake_pass(&fake, 100 * NS_PER_MS, both);
    struct submit second = fake_reserving(&fake, d);
    ck_assert_uint_gt(second.attempt, first.attempt);
    fake_pass(&fake, 2500 * NS_PER_MS, both);
    ck_assert_uint_eq(fake_reserving(&fake, d).attempt, second.attempt);
    fake_reserved(&fake, d, 9, 0);
    ck_assert_uint_eq(fake_submitted(&fake, p).attempt, second.attempt);
    fake_pass(&fake, 2900 * NS_PER_MS, both);
    ck_assert_ptr_null(fake_note(&fake, "attempt makes no progress"));
    fake_close(&fake);
}
END_TEST

START_TEST(who_lost_its_worker_waits_since_its_last_token) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_pass(&fake, 300 * NS_PER_MS, 1);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    uint64_t token_ns = fake.now_ns;
    fake_pass(&fake, 400 * NS_PER_MS, 1);
    fake_lose(&fake, a);
    ck_assert_uint_eq(router_waits_since_ns(fake.router), token_ns);
    fake_close(&fake);
}
END_TEST

START_TEST(pause_of_the_router_makes_no_worker_look_hung) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_pass(&fake, 200 * NS_PER_MS, 1u << b);
    for (int i = 0; i < 3; i++)
        fake_stand_still(&fake, 60 * NS_PER_S); /* 100 ms of its own each */
    fake_pass(&fake, 500 * NS_PER_MS, 1u << b);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_READY);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << b); /* the hang is noticed no later than without */
    ck_assert_int_eq(fake_state(&fake, a), SLOT_SUSPECT);
    ck_assert_int_eq(fake_state(&fake, b), SLOT_READY);
    fake_close(&fake);
}
END_TEST

/* Own time stands still from 100 ms on: while somebody is waited for, the next tick comes before. */
START_TEST(tick_is_wanted_within_what_counts_of_a_pause) {
    fake_open_default(&fake);
    fake_worker(&fake, "a", ROLE_MIXED);
    fake_pass(&fake, 10 * NS_PER_MS, 1);
    ck_assert_uint_le(router_deadline(fake.router), fake.now_ns + 100 * NS_PER_MS);
    fake.now_ns += 99 * NS_PER_MS;
    fake_beat(&fake, 0);
    ck_assert_uint_le(router_deadline(fake.router), fake.now_ns + 100 * NS_PER_MS);
    fake_close(&fake);
}
END_TEST

START_TEST(requests_without_a_worker_wait_as_long_as_the_option_says) {
    static const uint64_t waits[] = {0, 1, 7 * NS_PER_S};
    for (unsigned i = 0; i < 3; i++) {
        struct router_config config = fake_config();
        config.no_worker_wait_ns = waits[i];
        fake_open(&fake, &config);
        uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
        ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
        fake_lose(&fake, a);
        if (waits[i] > 0) {
            fake_pass(&fake, waits[i] - 1, 0);
            ck_assert_uint_eq(fake.users[0].n_ends, 0);
            ck_assert_uint_eq(router_deadline(fake.router), ++fake.now_ns);
        }
        router_tick(fake.router, fake.now_ns);
        ck_assert_uint_eq(fake.users[0].n_ends, 1);
        ck_assert_int_eq(fake.users[0].end.status, STATUS_CLOSED);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(silence_past_the_timeout_is_a_hang) {
    static const uint64_t timeouts[] = {100 * NS_PER_MS, 2 * NS_PER_S};
    for (unsigned i = 0; i < 2; i++) {
        struct router_config config = fake_config();
        config.hang_ns_min = timeouts[i];
        fake_open(&fake, &config);
        uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), b = fake_worker(&fake, "b", ROLE_MIXED);
        fake_stand_still(&fake, 5 * NS_PER_S); /* own time is not the time of day */
        fake_beat(&fake, a);
        uint64_t heard_ns = fake.now_ns;
        while (fake.now_ns + 50 * NS_PER_MS < heard_ns + timeouts[i])
            fake_pass(&fake, 50 * NS_PER_MS, 1u << b);
        fake.now_ns = heard_ns + timeouts[i];
        fake_beat(&fake, b);
        router_tick(fake.router, fake.now_ns);
        ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
        ck_assert_uint_eq(router_deadline(fake.router), ++fake.now_ns);
        router_tick(fake.router, fake.now_ns);
        ck_assert_uint_eq(fake_stats(&fake).n_fenced, 1);
        ck_assert_int_ne(fake_state(&fake, a), SLOT_READY);
        fake_close(&fake);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, patience_with_an_attempt_is_of_the_routers_own_time);
    tcase_add_test(tests, patience_with_a_long_step_ends_with_the_step);
    tcase_add_test(tests, patience_with_a_worker_of_long_steps_is_what_a_hang_takes);
    tcase_add_test(tests, patience_with_a_worker_that_goes_on_without_the_request_ends);
    tcase_add_test(tests, patience_counts_only_silence_since_the_attempt_advanced);
    tcase_add_test(tests, patience_with_a_reservation_counts_only_silence_since_it_was_asked);
    tcase_add_test(tests, patience_behind_a_token_does_not_know_the_silence_before_it);
    tcase_add_test(tests, patience_begins_anew_with_what_is_asked_next);
    tcase_add_test(tests, who_lost_its_worker_waits_since_its_last_token);
    tcase_add_test(tests, pause_of_the_router_makes_no_worker_look_hung);
    tcase_add_test(tests, requests_without_a_worker_wait_as_long_as_the_option_says);
    tcase_add_test(tests, silence_past_the_timeout_is_a_hang);
    tcase_add_test(tests, tick_is_wanted_within_what_counts_of_a_pause);
}
