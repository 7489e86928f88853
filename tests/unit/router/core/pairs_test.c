/* Pairs of workers whose hand-overs fail: avoided for a time, then tried by one request. */
#include "router/core/pairs.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_pairs";
const double suite_timeout_s = 60;

static struct fake fake;
static uint32_t p, d, n_users;

static void open_pair(void) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    n_users = 0;
    p = fake_worker(&fake, "p", ROLE_PREFILL);
    d = fake_worker(&fake, "d", ROLE_DECODE);
}

static enum standing standing_of(uint32_t slot) {
    struct worker_view view;
    ck_assert_int_eq(router_worker(fake.router, slot, &view), STATUS_OK);
    return view.standing;
}

/* Asks for an answer after a prompt that is worth a hand-over; is one begun at `to`? */
static bool hands_over_to(uint32_t to) {
    fake_forget_sent(&fake);
    ck_assert_int_eq(fake_ask(&fake, n_users++, 33, 8), STATUS_OK);
    return fake_count(&fake, MESSAGE_RESERVE, to) == 1;
}

static bool hands_over(void) {
    return hands_over_to(d);
}

static void fails_at(uint32_t slot, uint32_t to) {
    fake_reserved(&fake, to, n_users, 0);
    struct submit submit = fake_submitted(&fake, slot);
    fake_fails(&fake, slot, &submit, REASON_TRANSFER);
}

static void end_all(void) {
    for (uint32_t user = 0; user < n_users; user++)
        router_cancel(fake.router, fake.now_ns, fake.users[user].name);
    n_users = 0;
}

static void pass_ms(uint64_t ms) {
    for (; ms > 0; ms -= ms < 1000 ? ms : 1000) {
        fake_forget_sent(&fake);
        fake_pass(&fake, (ms < 1000 ? ms : 1000) * NS_PER_MS, 0xfff);
    }
}

START_TEST(a_pair_whose_hand_over_failed_gets_whole_requests_for_a_second) {
    open_pair();
    ck_assert(hands_over());
    fails_at(d, d);
    ck_assert_int_eq(fake_submitted(&fake, d).phase, PHASE_BOTH); /* the replay */
    ck_assert_str_eq(fake_note(&fake, "hand-over failed"),
                     "hand-over failed: these two are not paired name=p to=d reason=transfer "
                     "for_ms=1000");
    ck_assert_ptr_nonnull(fake_note(&fake, "worker gets whole requests only name=d"));
    ck_assert_ptr_nonnull(fake_note(&fake, "worker gets whole requests only name=p"));
    ck_assert_int_eq(standing_of(d), STANDING_CUT_OFF);
    ck_assert_int_eq(standing_of(p), STANDING_CUT_OFF);
    ck_assert_uint_eq(fake_stats(&fake).n_pairs_failed, 1);
    ck_assert_uint_eq(fake_stats(&fake).n_put_aside, 0);
    end_all();
    pass_ms(950);
    ck_assert(!hands_over());
    end_all();
    pass_ms(50);
    ck_assert(hands_over());
    fake_close(&fake);
}
END_TEST

START_TEST(one_request_tries_the_pair_and_a_failure_doubles_the_time_up_to_its_bound) {
    open_pair();
    ck_assert(hands_over());
    fails_at(p, d);
    static const uint64_t expected_s[] = {1, 2, 4, 8, 16, 32, 64, 120, 120};
    for (uint32_t i = 0; i < sizeof expected_s / sizeof *expected_s; i++) {
        end_all();
        pass_ms(expected_s[i] * 1000 - 50);
        ck_assert(!hands_over());
        pass_ms(50);
        ck_assert(hands_over());
        fake_reserved(&fake, d, 100 + i, 0);
        struct submit tries = fake_submitted(&fake, d);
        ck_assert(!hands_over()); /* it tries alone */
        fake_fails(&fake, d, &tries, REASON_TRANSFER);
        ck_assert(!hands_over());
    }
    fake_close(&fake);
}
END_TEST

START_TEST(hand_overs_from_before_say_nothing_of_a_pair_that_is_avoided) {
    open_pair();
    struct submit before[3];
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(hands_over());
        fake_reserved(&fake, d, 10 + i, 0);
        before[i] = fake_submitted(&fake, d);
    }
    for (uint32_t i = 0; i < 3; i++)
        fake_fails(&fake, d, &before[i], REASON_TRANSFER);
    ck_assert_uint_eq(fake_stats(&fake).n_pairs_failed, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(nor_do_they_when_a_trial_has_failed_since) {
    open_pair();
    struct submit before[2];
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(hands_over());
        fake_reserved(&fake, d, 10 + i, 0);
        before[i] = fake_submitted(&fake, d);
    }
    fake_fails(&fake, d, &before[0], REASON_TRANSFER);
    pass_ms(1000);
    ck_assert(hands_over());
    fake_reserved(&fake, d, 20, 0);
    struct submit tries = fake_submitted(&fake, d);
    fake_fails(&fake, d, &tries, REASON_TRANSFER);
    fake_fails(&fake, d, &before[1], REASON_TRANSFER);
    ck_assert_uint_eq(fake_stats(&fake).n_pairs_failed, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(a_hand_over_that_works_forgets_the_failures) {
    open_pair();
    ck_assert(hands_over());
    fails_at(d, d);
    pass_ms(1000);
    ck_assert(hands_over());
    fake_reserved(&fake, d, 50, 0);
    struct submit submit = fake_submitted(&fake, d);
    fake_step(&fake, p, &submit, 0, 1, FINISH_NONE); /* token 0 is the prefill worker's */
    ck_assert(!hands_over());
    fake_step(&fake, d, &submit, 0, 2, FINISH_NONE);
    ck_assert_int_eq(standing_of(d), STANDING_GOOD);
    ck_assert(hands_over());
    fails_at(d, d);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "hand-over failed"), "for_ms=1000"));
    ck_assert_uint_eq(fake_count_notes(&fake, "worker gets whole requests only name=d"), 2);
    ck_assert_uint_eq(fake_count_notes(&fake, "worker gets whole requests only name=p"), 2);
    fake_close(&fake);
}
END_TEST

START_TEST(a_hand_over_that_stands_still_is_the_pairs_failure) {
    open_pair();
    ck_assert(hands_over());
    fake_reserved(&fake, d, 9, 0);
    struct submit submit = fake_submitted(&fake, d);
    fake_step(&fake, p, &submit, 0, 1, FINISH_NONE);
    pass_ms(2950);
    ck_assert_uint_eq(fake_stats(&fake).n_pairs_failed, 0);
    pass_ms(100);
    ck_assert_uint_eq(fake_stats(&fake).n_pairs_failed, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(blocks_that_do_not_come_are_the_decode_workers_failure_alone) {
    open_pair();
    ck_assert(hands_over());
    pass_ms(3100);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    ck_assert_uint_eq(fake_stats(&fake).n_pairs_failed, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(another_prefill_worker_takes_over) {
    open_pair();
    ck_assert(hands_over());
    fails_at(d, d);
    end_all();
    uint32_t q = fake_worker(&fake, "q", ROLE_PREFILL);
    ck_assert_int_eq(standing_of(d), STANDING_GOOD);
    for (uint32_t i = 0; i < 3; i++) {
        while (!hands_over()) /* it went to p, whole */
            ck_assert_int_eq(fake_submitted(&fake, p).phase, PHASE_BOTH);
        fake_reserved(&fake, d, 60 + i, 0);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, q), 1);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 0);
    }
    fake_close(&fake);
}
END_TEST

START_TEST(a_prefill_worker_that_hands_over_to_none_takes_whole_requests) {
    open_pair();
    uint32_t q = fake_worker(&fake, "q", ROLE_PREFILL);
    while (!(hands_over() && (fake_reserved(&fake, d, 70 + n_users, 0), true) &&
             fake_count(&fake, MESSAGE_SUBMIT, p) == 1))
        ck_assert_uint_lt(n_users, 20);
    struct submit submit = fake_submitted(&fake, p);
    fake_fails(&fake, p, &submit, REASON_TRANSFER);
    ck_assert_int_eq(standing_of(p), STANDING_CUT_OFF);
    ck_assert_int_eq(standing_of(q), STANDING_GOOD);
    ck_assert_int_eq(standing_of(d), STANDING_GOOD);
    uint32_t n_whole = 0;
    for (uint32_t i = 0; i < 8; i++) {
        fake_forget_sent(&fake);
        ck_assert_int_eq(fake_ask(&fake, n_users++, 33, 8), STATUS_OK);
        n_whole += fake_count(&fake, MESSAGE_SUBMIT, p);
        if (fake_count(&fake, MESSAGE_SUBMIT, p) > 0)
            ck_assert_int_eq(fake_submitted(&fake, p).phase, PHASE_BOTH);
    }
    ck_assert_uint_gt(n_whole, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(a_new_worker_in_the_slot_of_an_old_one_is_paired) {
    open_pair();
    ck_assert(hands_over());
    fails_at(d, d);
    end_all();
    fake_lose(&fake, p);
    ck_assert_uint_eq(fake_worker(&fake, "p", ROLE_PREFILL), p);
    ck_assert(hands_over());
    fake_close(&fake);
}
END_TEST

START_TEST(a_record_more_than_there_is_room_for_displaces_the_one_that_ends_first) {
    struct router_config config = fake_config();
    config.max_workers = PAIRS_MAX + 2;
    ck_assert_uint_ge(FAKE_SLOTS, config.max_workers);
    fake_open(&fake, &config);
    n_users = 0;
    d = fake_worker(&fake, "d", ROLE_DECODE);
    for (uint32_t i = 0; i <= PAIRS_MAX; i++) {
        p = fake_worker(&fake, (char[]){'p', (char)('a' + i), 0}, ROLE_PREFILL);
        while (!hands_over()) /* others take whole requests */
            end_all();
        fake_reserved(&fake, d, 30 + i, 0);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 1);
        struct submit submit = fake_submitted(&fake, d);
        fake_fails(&fake, d, &submit, REASON_TRANSFER);
        end_all();
        pass_ms(50);
    }
    for (uint32_t i = 0; i < 60; i++) { /* the first one's own record is there still */
        ck_assert(!hands_over());
        end_all();
    }
    fake_close(&fake);
}
END_TEST

/* A partner that drains, and one that cannot take this KV, are none to wait for. */
START_TEST(a_prefill_worker_whose_only_good_partner_is_avoided_takes_whole_requests) {
    open_pair();
    struct welcome other = fake_welcome("e", ROLE_DECODE);
    other.kv.block_bytes *= 1 + (uint32_t)_i;
    uint32_t e = fake_join(&fake, &other);
    if (_i == 0) {
        struct message message = {.type = MESSAGE_BEAT, .u.beat.state = WORKER_DRAINING};
        message.u.beat.load.progress = ++fake.progress[e];
        fake_says(&fake, e, message);
        ck_assert_int_eq(fake_state(&fake, e), SLOT_DRAINING);
    }
    while (!hands_over())
        ck_assert_uint_lt(n_users, 20);
    fails_at(d, d);
    ck_assert_int_eq(standing_of(p), STANDING_CUT_OFF);
    ck_assert_ptr_nonnull(fake_note(&fake, "worker gets whole requests only name=p"));
    fake_close(&fake);
}
END_TEST

/* The same as above from the other end: it is the prefill worker that has no room for the record. */
START_TEST(a_pair_is_avoided_whichever_end_has_its_record) {
    struct router_config config = fake_config();
    config.max_workers = PAIRS_MAX + 2;
    fake_open(&fake, &config);
    n_users = 0;
    p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i <= PAIRS_MAX; i++) {
        d = fake_worker(&fake, (char[]){'d', (char)('a' + i), 0}, ROLE_DECODE);
        first = i == 0 ? d : first;
        while (!hands_over())
            end_all();
        fails_at(d, d);
        end_all();
        pass_ms(50);
    }
    for (uint32_t i = 0; i < 60; i++) {
        ck_assert(!hands_over_to(first));
        end_all();
    }
    fake_close(&fake);
}
END_TEST

/* One failed three times, eight others once: where there is room for eight, it is not the one to go. */
START_TEST(the_record_that_lasts_longest_stays) {
    struct router_config config = fake_config();
    config.max_workers = PAIRS_MAX + 2;
    fake_open(&fake, &config);
    n_users = 0;
    d = fake_worker(&fake, "d", ROLE_DECODE);
    p = fake_worker(&fake, "p", ROLE_PREFILL);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(hands_over());
        fails_at(d, d);
        end_all();
        if (i < 2)
            pass_ms(1000 << i);
    }
    uint32_t others[PAIRS_MAX];
    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        others[i] = fake_worker(&fake, (char[]){'p', (char)('a' + i), 0}, ROLE_PREFILL);
        while (!hands_over())
            end_all();
        fails_at(d, d);
        end_all();
        pass_ms(50);
    }
    for (uint32_t i = 0; i < PAIRS_MAX; i++)
        fake_lose(&fake, others[i]);
    fake.n_notes = 0;
    pass_ms(4000);
    ck_assert(hands_over());
    fails_at(d, d);
    ck_assert_ptr_nonnull(strstr(fake_note(&fake, "hand-over failed"), "for_ms=8000"));
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_pair_whose_hand_over_failed_gets_whole_requests_for_a_second);
    tcase_add_test(tests,
                   one_request_tries_the_pair_and_a_failure_doubles_the_time_up_to_its_bound);
    tcase_add_test(tests, hand_overs_from_before_say_nothing_of_a_pair_that_is_avoided);
    tcase_add_test(tests, nor_do_they_when_a_trial_has_failed_since);
    tcase_add_test(tests, a_hand_over_that_works_forgets_the_failures);
    tcase_add_test(tests, a_hand_over_that_stands_still_is_the_pairs_failure);
    tcase_add_test(tests, blocks_that_do_not_come_are_the_decode_workers_failure_alone);
    tcase_add_test(tests, another_prefill_worker_takes_over);
    tcase_add_test(tests, a_prefill_worker_that_hands_over_to_none_takes_whole_requests);
    tcase_add_test(tests, a_new_worker_in_the_slot_of_an_old_one_is_paired);
    tcase_add_test(tests, a_record_more_than_there_is_room_for_displaces_the_one_that_ends_first);
    tcase_add_test(tests, a_pair_is_avoided_whichever_end_has_its_record);
    tcase_add_test(tests, the_record_that_lasts_longest_stays);
    tcase_add_loop_test(
        tests, a_prefill_worker_whose_only_good_partner_is_avoided_takes_whole_requests, 0, 2);
}
