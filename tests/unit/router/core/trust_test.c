/* Workers that keep failing: what puts one aside, for how long, and what ends that. */
#include "tests/unit/router/core/trust_rig.h"

const char *const suite_name = "router_trust";
const double suite_timeout_s = 60;

START_TEST(a_replay_avoids_the_worker_that_failed_it) {
    open_two();
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    uint32_t first = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    uint32_t second = first == a ? b : a;
    for (uint32_t user = 1; user < 6; user++) /* the other one is not the emptier one */
        ck_assert_int_eq(fake_ask(&fake, user, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, first);
    submit.req.lo = fake.users[0].name;
    submit.attempt = 1;
    fake_forget_sent(&fake);
    fake_fails(&fake, first, &submit, REASON_LEASE);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, second), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, first), 0);
    fake_close(&fake);
}
END_TEST

START_TEST(a_replay_returns_to_the_only_worker) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    fails(a, REASON_LEASE);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, 2);
    fake_close(&fake);
}
END_TEST

/* --- put aside -------------------------------------------------------------------------------- */

START_TEST(three_failures_of_four_answers_put_a_worker_aside_and_two_do_not) {
    open_two();
    fail_one(0, a, REASON_LEASE);
    answer_one(10, a);
    fail_one(20, a, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fail_one(30, a, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    ck_assert_str_eq(
        fake_note(&fake, "worker put aside"),
        "worker put aside: it gets no requests name=a reason=lease failed=3 for_ms=1000");
    ck_assert_int_eq(standing_of(b), STANDING_GOOD);
    ck_assert_uint_eq(fake_stats(&fake).n_put_aside, 1);
    for (uint32_t user = 40; user < 44; user++)
        ck_assert_uint_eq(ask(user), b);
    fake_close(&fake);
}
END_TEST

START_TEST(the_fifth_answer_back_is_forgotten) {
    open_two();
    fail_one(0, a, REASON_LEASE);
    answer_one(10, a);
    answer_one(20, a);
    fail_one(30, a, REASON_LEASE);
    fail_one(40, a, REASON_LEASE); /* three of five, two of four */
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

START_TEST(unusable_numbers_put_a_worker_aside_at_once) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    ck_assert_str_eq(
        fake_note(&fake, "worker put aside"),
        "worker put aside: it gets no requests name=a reason=numerics failed=1 for_ms=1000");
    fake_close(&fake);
}
END_TEST

START_TEST(one_request_tries_a_worker_when_its_time_is_over_and_an_answer_ends_it) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(950);
    ck_assert_uint_eq(ask_at(10, a), b);
    pass_ms(50);
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    ck_assert_uint_eq(ask_at(11, a), a);
    for (uint32_t user = 12; user < 16; user++)
        ck_assert_uint_eq(ask_at(user, a), b);
    ck_assert_uint_eq(fake_count_notes(&fake, "worker no longer put aside"), 0);
    router_cancel(fake.router, fake.now_ns, fake.users[11].name); /* which says nothing */
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    ck_assert_uint_eq(ask_at(16, a), a);
    ck_assert_uint_eq(ask_at(17, a), b);
    fake_close(&fake);
}
END_TEST

START_TEST(an_attempt_from_before_does_not_hold_up_a_trial) {
    open_two();
    ck_assert_uint_eq(ask_at(0, a), a);
    fail_one(1, a, REASON_NUMERICS);
    pass_ms(1000);
    ck_assert_uint_eq(ask_at(2, a), a);
    ck_assert_uint_eq(ask_at(3, a), b);
    fake_close(&fake);
}
END_TEST

START_TEST(a_failed_trial_doubles_the_time_up_to_its_bound) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    static const uint64_t expected_s[] = {1, 2, 4, 8, 16, 32, 64, 120, 120};
    for (uint32_t i = 0; i < sizeof expected_s / sizeof *expected_s; i++) {
        pass_ms(expected_s[i] * 1000 - 50);
        ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
        pass_ms(50);
        ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
        fail_one(i + 1, a, REASON_LEASE); /* any failure of a trial */
        ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    }
    fake_close(&fake);
}
END_TEST

START_TEST(a_trial_that_is_answered_ends_it) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    answer_one(10, a);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    ck_assert_str_eq(fake_note(&fake, "worker no longer"),
                     "worker no longer put aside name=a reason=answered after_ms=1000");
    fake_close(&fake);
}
END_TEST

START_TEST(behind_a_trial_that_was_answered_the_failures_before_it_count_no_more) {
    open_two();
    for (uint32_t user = 0; user < 3; user++)
        fail_one(user, a, REASON_TRANSFER);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    pass_ms(1001);
    answer_one(3, a);
    fail_one(4, a, REASON_TRANSFER);
    fail_one(5, a, REASON_TRANSFER);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fail_one(6, a, REASON_TRANSFER);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

START_TEST(so_many_tokens_make_a_trial_a_good_answer) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    beat_with(b, (struct load){.n_running = 8});
    ck_assert_int_eq(fake_ask(&fake, 10, 5, TRUST_TRIAL_TOKENS + 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, TRUST_TRIAL_TOKENS - 1, FINISH_NONE);
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    fake_step(&fake, a, &submit, TRUST_TRIAL_TOKENS - 1, 1, FINISH_NONE);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

START_TEST(put_aside_again_soon_goes_on_doubling_and_later_begins_anew) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    answer_one(10, a);
    pass_ms(9950);
    fail_one(20, a, REASON_NUMERICS);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=2000"));
    fake_forget_sent(&fake);
    pass_ms(2000);
    answer_one(30, a);
    pass_ms(20000);
    fail_one(40, a, REASON_NUMERICS);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=1000"));
    fake_close(&fake);
}
END_TEST

START_TEST(attempts_from_before_say_nothing_of_a_worker_put_aside) {
    open_two();
    struct submit before[3];
    for (uint32_t user = 0; user < 3; user++) {
        ck_assert_uint_eq(ask_at(user, a), a);
        before[user] = fake_submitted(&fake, a);
    }
    fake_fails(&fake, a, &before[0], REASON_NUMERICS);
    fake_step(&fake, a, &before[1], 0, 1, FINISH_LENGTH); /* neither ends it */
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_fails(&fake, a, &before[2], REASON_NUMERICS); /* nor doubles it */
    ck_assert_uint_eq(fake_count_notes(&fake, "worker put aside"), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(where_all_are_put_aside_the_least_bad_one_serves) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    fail_one(10, a, REASON_NUMERICS);                            /* 2 s now */
    beat_with(b, (struct load){.step_us_expected = UINT32_MAX}); /* 1 s */
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    ck_assert_int_eq(standing_of(b), STANDING_ASIDE);
    for (uint32_t user = 20; user < 24; user++)
        ck_assert_uint_eq(ask_at(user, a), b);
    answer(b);
    ck_assert_int_eq(standing_of(b), STANDING_GOOD); /* an answer is an answer */
    fake_close(&fake);
}
END_TEST

/* --- hung ------------------------------------------------------------------------------------- */

/* `slot` says nothing until it is fenced, and greets again. */
static void hang(uint32_t slot, const struct welcome *welcome) {
    uint64_t n_fenced = fake_stats(&fake).n_fenced;
    while (fake_stats(&fake).n_fenced == n_fenced) {
        fake_forget_sent(&fake);
        fake_pass(&fake, 50 * NS_PER_MS, (1u << a | 1u << b) & ~(1u << slot));
    }
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = *welcome;
    fake_says(&fake, slot, message);
}

static struct welcome open_two_that_hang(void) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    a = fake_join(&fake, &welcome);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    return welcome;
}

START_TEST(the_second_hang_without_an_answer_between_puts_a_worker_aside) {
    struct welcome welcome = open_two_that_hang();
    hang(a, &welcome);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    answer_one(0, a);
    hang(a, &welcome);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    hang(a, &welcome);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "name=a reason=hung"));
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=1000"));
    hang(a, &welcome);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=2000"));
    fake_close(&fake);
}
END_TEST

START_TEST(what_a_hang_cost_is_not_given_to_the_same_worker_again) {
    struct welcome welcome = open_two_that_hang();
    ck_assert_uint_eq(ask_at(0, a), a);
    for (uint32_t user = 1; user < 4; user++)
        ck_assert_uint_eq(ask_at(user, b), b);
    hang(a, &welcome);
    fake_forget_sent(&fake);
    pass_ms(100);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 0);
    fake_close(&fake);
}
END_TEST

/* --- where it goes ---------------------------------------------------------------------------- */

START_TEST(who_runs_alone_gets_a_worker_that_did_not_fail_it_though_it_is_the_fullest) {
    open_two();
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED), full = fake_worker(&fake, "d", ROLE_MIXED);
    const uint32_t others[] = {a, b, c};
    for (uint32_t i = 0; i < 3; i++)
        beat_with(others[i], (struct load){.n_running = 8});
    for (uint32_t user = 0; user < 3; user++)
        ck_assert_uint_eq(ask(user), full);
    beat_with(full, (struct load){.n_running = 9});
    uint32_t at = ask(10);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_ne(at, full);
        fake_forget_sent(&fake);
        struct submit submit = {.req = {.hi = 77, .lo = fake.users[10].name}, .attempt = i + 1};
        fake_fails(&fake, at, &submit, REASON_LEASE);
        at = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    }
    ck_assert_ptr_nonnull(fake_note(&fake, "request runs alone worker=d"));
    fake_close(&fake);
}
END_TEST

/* All three are as empty, none has failed it yet, and the last of them has answered before. */
START_TEST(who_runs_alone_gets_a_worker_that_has_answered) {
    open_two();
    uint32_t at = ask_at(0, a);
    for (uint32_t i = 0; i < 2; i++) {
        struct submit submit = fake_submitted(&fake, at);
        fake_forget_sent(&fake);
        fake_fails(&fake, at, &submit, REASON_LEASE);
        at = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    }
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED), proved = fake_worker(&fake, "d", ROLE_MIXED);
    beat_with(c, (struct load){.n_running = 8});
    struct submit submit = fake_submitted(&fake, at);
    ck_assert_uint_eq(ask(1), proved);
    answer(proved);
    beat_with(c, (struct load){0});
    fake_fails(&fake, at, &submit, REASON_LEASE);
    ck_assert_ptr_nonnull(fake_note(&fake, "request runs alone worker=d"));
    fake_close(&fake);
}
END_TEST

/* The third worker is the emptiest, nothing is known of it, and it gets request 1; a has answered,
 * and is busier. */
static uint32_t open_one_proved(void) {
    open_two();
    answer_one(0, a);
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED);
    beat_with(a, (struct load){.n_running = 4});
    beat_with(b, (struct load){.n_running = 1});
    fake_forget_sent(&fake);
    ck_assert_uint_eq(ask(1), c);
    beat_with(c, (struct load){.n_running = 1});
    return c;
}

START_TEST(what_brought_nothing_goes_to_a_worker_whose_last_answer_was_good) {
    uint32_t at = open_one_proved();
    fails(at, REASON_LEASE);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, a);
    ck_assert_uint_ne(ask(2), a); /* others go where the least is to do */
    fake_close(&fake);
}
END_TEST

START_TEST(a_restart_proves_nothing) {
    uint32_t at = open_one_proved();
    fake_lose(&fake, a);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    beat_with(a, (struct load){.n_running = 4});
    fails(at, REASON_LEASE);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, b);
    fake_close(&fake);
}
END_TEST

START_TEST(a_failure_takes_the_proof_away) {
    uint32_t at = open_one_proved();
    ck_assert_uint_eq(ask_at(2, a), a);
    fails(a, REASON_LEASE);
    beat_with(a, (struct load){.n_running = 4});
    beat_with(b, (struct load){.n_running = 1});
    struct submit first = {.req = {.hi = 77, .lo = fake.users[1].name}, .attempt = 1};
    fake_forget_sent(&fake);
    fake_fails(&fake, at, &first, REASON_LEASE);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, b);
    fake_close(&fake);
}
END_TEST

START_TEST(a_replay_that_waits_for_another_worker_keeps_nobody_back) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome narrow = fake_welcome("b", ROLE_MIXED);
    narrow.max_seqs = 1;
    b = fake_join(&fake, &narrow);
    ck_assert_uint_eq(ask(0), b);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_uint_eq(ask(1), a);
    fails(a, REASON_LEASE); /* it waits for b, which is full */
    ck_assert_uint_eq(ask(2), a);
    fake_close(&fake);
}
END_TEST

START_TEST(room_at_a_worker_that_is_put_aside_counts_only_where_all_are) {
    struct router_config config = fake_config();
    config.max_queue = 0;
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    struct welcome narrow = fake_welcome("b", ROLE_MIXED);
    narrow.max_seqs = 1;
    b = fake_join(&fake, &narrow);
    beat_with(a, (struct load){.step_us_expected = UINT32_MAX});
    uint64_t names[2];
    struct request_spec specs[2] = {fake_spec(&fake, 0, 5, 4), fake_spec(&fake, 1, 5, 4)};
    ck_assert_int_eq(router_request_all(fake.router, fake.now_ns, specs, 2, names), STATUS_BUSY);
    beat_with(b, (struct load){.step_us_expected = UINT32_MAX});
    ck_assert_int_eq(router_request_all(fake.router, fake.now_ns, specs, 2, names), STATUS_OK);
    fake_close(&fake);
}
END_TEST

/* One that loads cannot take anything, so it is no reason to wait. */
START_TEST(room_does_not_count_on_a_worker_that_is_not_ready) {
    struct router_config config = fake_config();
    config.max_queue = 0;
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    beat_with(a, (struct load){.step_us_expected = UINT32_MAX});
    struct announce announce = {.name = "z", .incarnation = 1, .loading = 1};
    router_announce(fake.router, fake.now_ns, &announce);
    uint64_t names[2];
    struct request_spec specs[2] = {fake_spec(&fake, 0, 5, 4), fake_spec(&fake, 1, 5, 4)};
    ck_assert_int_eq(router_request_all(fake.router, fake.now_ns, specs, 2, names), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    fake_close(&fake);
}
END_TEST

/* The one is put aside for 8 s, the other for one: it is the other that has failed this request. */
START_TEST(of_workers_that_are_all_aside_one_that_did_not_fail_the_request_serves) {
    open_two();
    for (uint32_t i = 0; i < 4; i++) {
        fail_one(i, a, REASON_NUMERICS);
        if (i < 3)
            pass_ms(1000 << i);
    }
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=8000"));
    ck_assert_uint_eq(ask(10), b);
    fails(b, REASON_NUMERICS);
    ck_assert_int_eq(standing_of(b), STANDING_ASIDE);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, a);
    fake_close(&fake);
}
END_TEST

START_TEST(who_waits_is_looked_at_when_a_worker_may_be_tried_again) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    struct welcome narrow = fake_welcome("b", ROLE_MIXED);
    narrow.max_seqs = 1;
    b = fake_join(&fake, &narrow);
    beat_with(a, (struct load){.step_us_expected = UINT32_MAX});
    beat_with(a, (struct load){0});
    uint64_t until_ns = fake.now_ns + TRUST_ASIDE_NS;
    ck_assert_uint_eq(ask(0), b);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 4), STATUS_OK);
    pass_ms(900);
    ck_assert_uint_le(router_deadline(fake.router), until_ns);
    fake_forget_sent(&fake);
    fake.now_ns = until_ns;
    router_tick(fake.router, fake.now_ns);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(a_view_says_what_became_of_a_worker) {
    open_two();
    struct worker_view view;
    fail_one(0, a, REASON_NUMERICS);
    ck_assert_int_eq(router_worker(fake.router, a, &view), STATUS_OK);
    ck_assert_str_eq(router_worker_state(&view), "aside");
    ck_assert_str_eq(router_worker_reason(&view), "numerics");
    ck_assert_uint_eq(view.aside_ns, TRUST_ASIDE_NS);
    pass_ms(1000);
    ck_assert_int_eq(router_worker(fake.router, a, &view), STATUS_OK);
    ck_assert_str_eq(router_worker_state(&view), "trial");
    ck_assert_uint_eq(view.aside_ns, 0);
    ck_assert_int_eq(router_worker(fake.router, b, &view), STATUS_OK);
    ck_assert_str_eq(router_worker_state(&view), "ready");
    ck_assert_ptr_null(router_worker_reason(&view));
    fake_close(&fake);
}
END_TEST

/* --- verdicts --------------------------------------------------------------------------------- */

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_replay_avoids_the_worker_that_failed_it);
    tcase_add_test(tests, a_replay_returns_to_the_only_worker);
    tcase_add_test(tests, three_failures_of_four_answers_put_a_worker_aside_and_two_do_not);
    tcase_add_test(tests, the_fifth_answer_back_is_forgotten);
    tcase_add_test(tests, unusable_numbers_put_a_worker_aside_at_once);
    tcase_add_test(tests, one_request_tries_a_worker_when_its_time_is_over_and_an_answer_ends_it);
    tcase_add_test(tests, an_attempt_from_before_does_not_hold_up_a_trial);
    tcase_add_test(tests, a_failed_trial_doubles_the_time_up_to_its_bound);
    tcase_add_test(tests, a_trial_that_is_answered_ends_it);
    tcase_add_test(tests, behind_a_trial_that_was_answered_the_failures_before_it_count_no_more);
    tcase_add_test(tests, so_many_tokens_make_a_trial_a_good_answer);
    tcase_add_test(tests, put_aside_again_soon_goes_on_doubling_and_later_begins_anew);
    tcase_add_test(tests, attempts_from_before_say_nothing_of_a_worker_put_aside);
    tcase_add_test(tests, where_all_are_put_aside_the_least_bad_one_serves);
    tcase_add_test(tests, the_second_hang_without_an_answer_between_puts_a_worker_aside);
    tcase_add_test(tests, what_a_hang_cost_is_not_given_to_the_same_worker_again);
    tcase_add_test(tests,
                   who_runs_alone_gets_a_worker_that_did_not_fail_it_though_it_is_the_fullest);
    tcase_add_test(tests, what_brought_nothing_goes_to_a_worker_whose_last_answer_was_good);
    tcase_add_test(tests, a_restart_proves_nothing);
    tcase_add_test(tests, a_failure_takes_the_proof_away);
    tcase_add_test(tests, a_replay_that_waits_for_another_worker_keeps_nobody_back);
    tcase_add_test(tests, room_at_a_worker_that_is_put_aside_counts_only_where_all_are);
    tcase_add_test(tests, room_does_not_count_on_a_worker_that_is_not_ready);
    tcase_add_test(tests, of_workers_that_are_all_aside_one_that_did_not_fail_the_request_serves);
    tcase_add_test(tests, who_runs_alone_gets_a_worker_that_has_answered);
    tcase_add_test(tests, who_waits_is_looked_at_when_a_worker_may_be_tried_again);
    tcase_add_test(tests, a_view_says_what_became_of_a_worker);
}
