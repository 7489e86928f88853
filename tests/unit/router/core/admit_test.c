/* The sequences of one call come in together, and what waits goes as soon as there is room. */
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

const char *const suite_name = "router_admit";
const double suite_timeout_s = 60;

static struct fake fake;

static enum status ask_all(uint32_t first_user, uint32_t n) {
    struct request_spec specs[FAKE_USERS];
    uint64_t names[FAKE_USERS];
    for (uint32_t i = 0; i < n; i++)
        specs[i] = fake_spec(&fake, first_user + i, 5, 4);
    enum status status = router_request_all(fake.router, fake.now_ns, specs, n, names);
    for (uint32_t i = 0; i < n && status == STATUS_OK; i++)
        fake.users[first_user + i].name = names[i];
    ck_assert_ptr_null(router_check(fake.router));
    return status;
}

/* Two of five places are taken, the queue holds three. */
START_TEST(a_call_s_sequences_are_all_let_in_or_leave_no_trace) {
    struct router_config config = fake_config();
    config.max_queue = 3;
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 5;
    uint32_t w = fake_join(&fake, &welcome);
    ck_assert_int_eq(ask_all(0, 2), STATUS_OK);
    fake_forget_sent(&fake);

    ck_assert_int_eq(ask_all(2, 7), STATUS_BUSY);
    ck_assert_uint_eq(fake.n_sent, 0); /* no worker heard of it */
    ck_assert_uint_eq(fake_stats(&fake).n_refused, 7);
    ck_assert_uint_eq(fake_stats(&fake).n_cancelled, 0);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 0);
    ck_assert_uint_eq(fake_stats(&fake).n_admitted, 2);

    ck_assert_int_eq(ask_all(2, 6), STATUS_OK);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 3);
    ck_assert_uint_eq(fake_stats(&fake).n_running, 5);
    ck_assert_int_eq(ask_all(8, 2), STATUS_BUSY); /* nothing is free, and the queue is full */
    ck_assert_int_eq(ask_all(8, 1), STATUS_BUSY);
    ck_assert_uint_eq(fake_stats(&fake).n_refused, 10);
    for (uint32_t user = 0; user < 8; user++)
        router_cancel(fake.router, fake.now_ns, fake.users[user].name);
    ck_assert_uint_eq(fake_stats(&fake).n_cancelled, 8);
    (void)w;
    fake_close(&fake);
}
END_TEST

START_TEST(the_longest_wait_is_told_and_ends_with_it) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 1;
    fake_join(&fake, &welcome);
    ck_assert_int_eq(ask_all(0, 1), STATUS_OK);
    ck_assert_uint_eq(router_waits_since_ns(fake.router), 0);
    uint64_t first_ns = fake.now_ns;
    ck_assert_int_eq(ask_all(1, 1), STATUS_OK);
    fake.now_ns += NS_PER_MS;
    ck_assert_int_eq(ask_all(2, 1), STATUS_OK);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 2);
    ck_assert_uint_eq(router_waits_since_ns(fake.router), first_ns);
    router_cancel(fake.router, fake.now_ns, fake.users[1].name);
    ck_assert_uint_eq(router_waits_since_ns(fake.router), first_ns + NS_PER_MS);
    router_cancel(fake.router, fake.now_ns, fake.users[2].name);
    ck_assert_uint_eq(router_waits_since_ns(fake.router), 0);
    router_cancel(fake.router, fake.now_ns, fake.users[0].name);
    fake_close(&fake);
}
END_TEST

START_TEST(one_bad_sequence_keeps_its_call_out) {
    struct request_spec specs[3];
    uint64_t names[3];
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    fake_worker(&fake, "w", ROLE_MIXED);
    fake_forget_sent(&fake);
    for (uint32_t i = 0; i < 3; i++)
        specs[i] = fake_spec(&fake, i, 5, 4);
    specs[2].n_prompt = 1u << 20;
    specs[2].capacity = specs[2].n_prompt + 4;
    ck_assert_int_eq(router_request_all(fake.router, fake.now_ns, specs, 3, names), STATUS_LIMIT);
    ck_assert_uint_eq(fake.n_sent, 0);
    ck_assert_uint_eq(fake_stats(&fake).n_refused, 3);
    fake_close(&fake);
}
END_TEST

/* A decode worker's places count only as far as somebody prefills for them. */
START_TEST(places_are_counted_in_pairs) {
    struct router_config config = fake_config();
    config.max_queue = 1;
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("p", ROLE_PREFILL);
    welcome.max_seqs = 2;
    fake_join(&fake, &welcome);
    ck_assert_int_eq(ask_all(0, 4), STATUS_BUSY); /* it would decode two of them, and one waits */
    struct welcome decode = fake_welcome("d", ROLE_DECODE);
    decode.max_seqs = 8;
    fake_join(&fake, &decode);
    ck_assert_int_eq(ask_all(0, 4), STATUS_BUSY);
    ck_assert_int_eq(ask_all(0, 3), STATUS_OK);
    for (uint32_t user = 0; user < 3; user++)
        router_cancel(fake.router, fake.now_ns, fake.users[user].name);
    fake_close(&fake);
}
END_TEST

START_TEST(who_waits_goes_when_a_submit_is_counted_by_the_worker_itself) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 2;
    welcome.load.n_running = 1; /* another router's */
    uint32_t w = fake_join(&fake, &welcome);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 1);
    struct submit submit = fake_submitted(&fake, w);
    uint32_t token = fake_token(0);
    struct step_entry entry = {.req = submit.req, .attempt = 1, .n_tokens = 1, .tokens = &token};
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 1, .entries = &entry, .load.n_running = 1};
    fake_says(&fake, w, message); /* the other one has ended: no figure has fallen */
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 0);
    fake_close(&fake);
}
END_TEST

/* The first needs the long context, whose worker is full; the next would fit beside it. */
START_TEST(who_waits_goes_when_the_one_before_it_is_cancelled) {
    fake_open_default(&fake);
    struct welcome small = fake_welcome("small", ROLE_MIXED),
                   large = fake_welcome("large", ROLE_MIXED);
    small.context = 10;
    large.max_seqs = 1;
    uint32_t s = fake_join(&fake, &small), l = fake_join(&fake, &large);
    for (uint32_t user = 0; user < 2; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 10, 4), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 2, 9, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, l), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, s), 0);
    router_cancel(fake.router, fake.now_ns, fake.users[1].name);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, s), 1);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_call_s_sequences_are_all_let_in_or_leave_no_trace);
    tcase_add_test(tests, the_longest_wait_is_told_and_ends_with_it);
    tcase_add_test(tests, one_bad_sequence_keeps_its_call_out);
    tcase_add_test(tests, places_are_counted_in_pairs);
    tcase_add_test(tests, who_waits_goes_when_a_submit_is_counted_by_the_worker_itself);
    tcase_add_test(tests, who_waits_goes_when_the_one_before_it_is_cancelled);
}
