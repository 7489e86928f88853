/* What ends with a worker's time aside, who is excused, and who waits meanwhile. */
#include "tests/unit/router/core/trust_rig.h"

const char *const suite_name = "router_trust_ends";
const double suite_timeout_s = 60;

START_TEST(failures_from_before_a_time_aside_do_not_count_after_it) {
    open_two();
    for (uint32_t user = 0; user < 3; user++)
        fail_one(user, a, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    pass_ms(1000);
    answer_one(10, a);
    fail_one(11, a, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

static void both_fail(uint32_t user) {
    ck_assert_uint_eq(ask_at(user, a), a);
    fails(a, REASON_NUMERICS);
    fails(b, REASON_NUMERICS);
    ck_assert_int_eq(fake.users[user].end.status, STATUS_CORRUPT);
}

START_TEST(excused_again_after_a_good_answer) {
    open_two();
    both_fail(0);
    answer_one(1, a);
    answer_one(2, b);
    both_fail(3);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    ck_assert_int_eq(standing_of(b), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

START_TEST(a_time_aside_that_was_excused_is_not_doubled) {
    open_two();
    both_fail(0);
    fail_one(1, a, REASON_NUMERICS);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=1000"));
    fake_close(&fake);
}
END_TEST

/* A record that is too old to double a time is not made young by an excuse. */
START_TEST(an_excuse_brings_no_old_times_aside_back) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    fail_one(1, a, REASON_NUMERICS);
    pass_ms(2000);
    answer_one(2, a);
    pass_ms(20000);
    both_fail(3);
    fail_one(4, a, REASON_NUMERICS);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=1000"));
    fake_close(&fake);
}
END_TEST

START_TEST(an_excuse_leaves_the_times_aside_before_it) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    both_fail(1);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fail_one(2, a, REASON_NUMERICS);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=2000"));
    fake_close(&fake);
}
END_TEST

/* The next request is for four tokens, and begins at a. */
static void ask_for_four(uint32_t user) {
    beat_with(a, (struct load){0});
    beat_with(b, (struct load){.n_running = 8});
    fake_forget_sent(&fake);
    ck_assert_int_eq(fake_ask(&fake, user, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, a);
}

/* A token says that the request is none that no worker can serve. */
START_TEST(a_failure_behind_a_token_excuses_nobody_before_it) {
    open_two();
    ask_for_four(0);
    fails(a, REASON_NUMERICS);
    struct submit submit = fake_submitted(&fake, b);
    fake_step(&fake, b, &submit, 0, 1, FINISH_NONE);
    fake_fails(&fake, b, &submit, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

/* What a failed of this request counts for nothing, so there is nothing to take back when b fails it. */
START_TEST(a_failure_from_before_a_time_aside_is_no_reason_for_an_excuse) {
    open_two();
    ask_for_four(0);
    struct submit before = fake_submitted(&fake, a);
    fail_one(1, a, REASON_NUMERICS);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_fails(&fake, a, &before, REASON_LEASE);
    struct submit submit = fake_submitted(&fake, b);
    ck_assert_uint_eq(submit.attempt, before.attempt + 1);
    fake_fails(&fake, b, &submit, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

/* An answer that the context of a worker on trial ended, and another worker goes on with. */
START_TEST(a_trial_that_a_context_ends_is_a_good_answer) {
    struct router_config config = fake_config();
    struct welcome small = fake_welcome("a", ROLE_MIXED);
    small.context = 15;
    fake_open(&fake, &config);
    a = fake_join(&fake, &small);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    beat_with(b, (struct load){.n_running = 8});
    ck_assert_int_eq(fake_ask(&fake, 1, 10, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 5, FINISH_LENGTH);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    submit = fake_submitted(&fake, b);
    fake_step(&fake, b, &submit, 5, 3, FINISH_LENGTH);
    ck_assert_int_eq(fake.users[1].end.kind, END_DONE);
    fake_close(&fake);
}
END_TEST

START_TEST(a_request_that_was_lost_elsewhere_tries_no_worker) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(1000);
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    ck_assert_uint_eq(ask_at(1, b), b);
    fails(b, REASON_LEASE);
    ck_assert_uint_eq(fake_submitted(&fake, b).attempt, 2);
    fake_close(&fake);
}
END_TEST

static void hangs(const struct welcome *welcome) {
    fake_forget_sent(&fake);
    uint32_t n_fenced = (uint32_t)fake_stats(&fake).n_fenced;
    fake_pass(&fake, 1150 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, n_fenced + 1);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = *welcome;
    fake_says(&fake, a, message);
}

START_TEST(silent_twice_puts_aside_unless_an_answer_came_between) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    a = fake_join(&fake, &welcome);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    hangs(&welcome);
    answer_one(0, a);
    hangs(&welcome);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    hangs(&welcome);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

START_TEST(an_excuse_ends_no_time_aside_that_another_thing_began) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    a = fake_join(&fake, &welcome);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    ck_assert_uint_eq(ask_at(0, a), a);
    fails(a, REASON_LEASE);
    struct submit submit = fake_submitted(&fake, b);
    hangs(&welcome);
    hangs(&welcome);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_fails(&fake, b, &submit, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

/* Each has a place for one sequence, or a for n. */
static void open_small(uint32_t n) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    welcome.max_seqs = n;
    a = fake_join(&fake, &welcome);
    welcome = fake_welcome("b", ROLE_MIXED);
    welcome.max_seqs = 1;
    b = fake_join(&fake, &welcome);
}

START_TEST(who_waits_for_a_worker_goes_elsewhere_at_once_when_it_is_put_aside) {
    open_small(1);
    beat_with(b, (struct load){.step_us_expected = UINT32_MAX});
    ck_assert_uint_eq(ask(0), a);
    fake_forget_sent(&fake);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 1), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 0);
    beat_with(a, (struct load){.step_us_expected = UINT32_MAX});
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(who_waits_goes_to_a_worker_at_once_when_it_is_trusted_again) {
    open_small(2);
    beat_with(a, (struct load){.step_us_expected = UINT32_MAX});
    pass_ms(1000);
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    beat_with(b, (struct load){.n_running = 1}); /* full */
    ck_assert_int_eq(fake_ask(&fake, 0, 5, TRUST_TRIAL_TOKENS + 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, TRUST_TRIAL_TOKENS - 1, FINISH_NONE);
    fake_forget_sent(&fake);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 1), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 0);
    fake_step(&fake, a, &submit, TRUST_TRIAL_TOKENS - 1, 1, FINISH_NONE);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(one_that_avoids_a_worker_does_not_hold_up_those_behind_it) {
    open_small(1);
    uint32_t first = ask(0), second = first == a ? b : a;
    struct submit submit = fake_submitted(&fake, first);
    ck_assert_uint_eq(ask(1), second);
    fake_fails(&fake, first, &submit, REASON_LEASE);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, first), 0); /* it waits for the other */
    ck_assert_uint_eq(ask(2), first);
    fake_close(&fake);
}
END_TEST

/* --- a restart -------------------------------------------------------------------------------- */

/* Its supervisor starts the worker again. */
static void restart(uint32_t *slot, const char *name) {
    fake_lose(&fake, *slot);
    *slot = fake_worker(&fake, name, ROLE_MIXED);
}

START_TEST(a_restarted_worker_is_put_aside_for_as_long_as_it_was) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    pass_ms(400);
    restart(&a, "a");
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    ck_assert_int_eq(standing_of(b), STANDING_GOOD);
    ck_assert_uint_eq(ask_at(1, a), b);
    answer(b);
    pass_ms(599);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    pass_ms(1);
    ck_assert_int_eq(standing_of(a), STANDING_TRIAL);
    fail_one(2, a, REASON_NUMERICS);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "worker put aside"), "for_ms=2000"));
    restart(&a, "a");
    pass_ms(2000);
    answer_one(3, a);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

START_TEST(failures_before_a_restart_count_with_those_behind_it) {
    open_two();
    fail_one(0, a, REASON_LEASE);
    restart(&a, "a");
    fail_one(1, a, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    restart(&a, "a");
    fail_one(2, a, REASON_LEASE);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

START_TEST(a_restarted_worker_is_excused_too) {
    open_two();
    ck_assert_uint_eq(ask_at(0, a), a);
    fails(a, REASON_NUMERICS);
    struct submit submit = fake_submitted(&fake, b);
    restart(&a, "a");
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_fails(&fake, b, &submit, REASON_NUMERICS);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_CORRUPT);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    ck_assert_int_eq(standing_of(b), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

START_TEST(a_restarted_worker_does_not_agree_with_itself) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    struct welcome narrow = fake_welcome("b", ROLE_MIXED);
    narrow.max_seqs = 1;
    b = fake_join(&fake, &narrow);
    beat_with(a, (struct load){.n_running = 8});
    ck_assert_uint_eq(ask(0), b); /* which is full now */
    ck_assert_uint_eq(ask(1), a);
    for (uint32_t i = 0; i < TRUST_FAILURES; i++) {
        ck_assert_uint_eq(fake_count_notes(&fake, "worker put aside"), 0);
        fails(a, REASON_LEASE);
        if (i + 1 < TRUST_FAILURES)
            restart(&a, "a");
    }
    ck_assert_uint_eq(fake_count_notes(&fake, "worker put aside"), 1);
    fake_close(&fake);
}
END_TEST

/* Names that come and go: as many as there are slots, and one more, beside the one with a record. */
START_TEST(a_record_outlasts_clean_names_and_the_oldest_goes_first) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    fake_lose(&fake, a);
    char name[3] = "n";
    for (uint32_t i = 0; i < 2 * FAKE_SLOTS; i++) {
        name[1] = (char)('A' + i);
        fake_forget_sent(&fake);
        fake.n_notes = 0;
        fake_lose(&fake, fake_worker(&fake, name, ROLE_MIXED));
    }
    a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_lose(&fake, a);
    for (uint32_t i = 0; i < FAKE_SLOTS - 1; i++) { /* b has the last record */
        name[1] = (char)('a' + i);
        pass_ms(100);
        fake.n_notes = 0;
        uint32_t slot = fake_worker(&fake, name, ROLE_MIXED);
        beat_with(slot, (struct load){.step_us_expected = UINT32_MAX});
        fake_lose(&fake, slot);
        if (i + 2 < FAKE_SLOTS - 1)
            continue;
        a = fake_worker(&fake, "a", ROLE_MIXED);
        ck_assert_int_eq(standing_of(a), i + 2 == FAKE_SLOTS - 1 ? STANDING_TRIAL : STANDING_GOOD);
        fake_lose(&fake, a);
    }
    fake_close(&fake);
}
END_TEST

/* Another name that takes the slot begins clean, and the record waits for its own name. */
START_TEST(a_record_is_the_names_and_not_the_slots) {
    open_two();
    fail_one(0, a, REASON_NUMERICS);
    fake_lose(&fake, a);
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED);
    ck_assert_int_eq(standing_of(c), STANDING_GOOD);
    fake_lose(&fake, c);
    c = fake_worker(&fake, "c", ROLE_MIXED);
    ck_assert_int_eq(standing_of(c), STANDING_GOOD);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

/* The next incarnation announces itself while the one before it still works. */
START_TEST(what_the_last_incarnation_did_at_its_end_counts) {
    open_two();
    struct welcome next = fake_welcome("a", ROLE_MIXED);
    struct announce announce = {.incarnation = next.incarnation, .loading = 1};
    memcpy(announce.name, "a", 2);
    router_announce(fake.router, fake.now_ns, &announce);
    fail_one(0, a, REASON_NUMERICS);
    fake_lose(&fake, a);
    a = fake_join(&fake, &next);
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, failures_from_before_a_time_aside_do_not_count_after_it);
    tcase_add_test(tests, excused_again_after_a_good_answer);
    tcase_add_test(tests, a_time_aside_that_was_excused_is_not_doubled);
    tcase_add_test(tests, an_excuse_brings_no_old_times_aside_back);
    tcase_add_test(tests, an_excuse_leaves_the_times_aside_before_it);
    tcase_add_test(tests, a_failure_behind_a_token_excuses_nobody_before_it);
    tcase_add_test(tests, a_failure_from_before_a_time_aside_is_no_reason_for_an_excuse);
    tcase_add_test(tests, a_trial_that_a_context_ends_is_a_good_answer);
    tcase_add_test(tests, a_request_that_was_lost_elsewhere_tries_no_worker);
    tcase_add_test(tests, silent_twice_puts_aside_unless_an_answer_came_between);
    tcase_add_test(tests, an_excuse_ends_no_time_aside_that_another_thing_began);
    tcase_add_test(tests, who_waits_for_a_worker_goes_elsewhere_at_once_when_it_is_put_aside);
    tcase_add_test(tests, who_waits_goes_to_a_worker_at_once_when_it_is_trusted_again);
    tcase_add_test(tests, one_that_avoids_a_worker_does_not_hold_up_those_behind_it);
    tcase_add_test(tests, a_restarted_worker_is_put_aside_for_as_long_as_it_was);
    tcase_add_test(tests, failures_before_a_restart_count_with_those_behind_it);
    tcase_add_test(tests, a_restarted_worker_is_excused_too);
    tcase_add_test(tests, a_restarted_worker_does_not_agree_with_itself);
    tcase_add_test(tests, a_record_outlasts_clean_names_and_the_oldest_goes_first);
    tcase_add_test(tests, a_record_is_the_names_and_not_the_slots);
    tcase_add_test(tests, what_the_last_incarnation_did_at_its_end_counts);
}
