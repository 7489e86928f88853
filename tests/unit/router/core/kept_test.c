/* The last places of a worker are kept for tenants that have none anywhere. */
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_kept";
const double suite_timeout_s = 60;

static struct fake fake;

static void ask_as(uint64_t tenant, uint32_t user, uint32_t n_prompt) {
    struct request_spec spec = fake_spec(&fake, user, n_prompt, 4);
    spec.tenant = tenant;
    ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
}

static uint32_t n_placed;

/* Asks as many times; n of them are to get a place at once. */
static void expect_placed(uint64_t tenant, uint32_t times, uint32_t n) {
    static uint32_t user;
    user = n_placed == 0 ? 0 : user;
    uint32_t before = fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX);
    for (uint32_t i = 0; i < times; i++)
        ask_as(tenant, user++, 10);
    uint32_t now = fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX);
    ck_assert_uint_eq(now - before, n);
    n_placed += n;
}

static void open_with_places(uint32_t max_seqs) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = max_seqs;
    fake_join(&fake, &welcome);
    n_placed = 0;
}

START_TEST(the_last_places_are_for_tenants_that_have_none) {
    open_with_places(16);
    expect_placed(7, 14, 12);
    expect_placed(8, 2, 1);
    for (uint64_t tenant = 9; tenant <= 11; tenant++)
        expect_placed(tenant, 1, 1);
    expect_placed(12, 1, 0); /* all 16 are taken */
    struct submit submit = fake_submitted(&fake, 0);
    fake_forget_sent(&fake);
    fake_step(&fake, 0, &submit, 0, 2, FINISH_STOP); /* the last one's, of tenant 11 */
    ck_assert_uint_eq(fake_submitted(&fake, 0).tenant, 12);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 0), 1);
    fake_close(&fake);
}
END_TEST

/* A quarter, and no more than 32. */
START_TEST(as_many_places_are_kept_as_a_batch_can_spare) {
    static const struct { uint32_t max_seqs, n; } rows[] = {{1, 1}, {3, 3}, {4, 3}, {7, 6}, {8, 6}};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_with_places(rows[i].max_seqs);
        expect_placed(7, rows[i].max_seqs, rows[i].n);
        fake_close(&fake);
    }
    static const uint32_t others[] = {127, 128, 132, 4096};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t n_kept = i == 0 ? 31 : 32;
        open_with_places(others[i]);
        struct message beat = {.type = MESSAGE_BEAT};
        beat.u.beat.state = WORKER_READY;
        beat.u.beat.load = (struct load){.n_running = others[i] - n_kept - 2, .progress = 1};
        fake_says(&fake, 0, beat);
        expect_placed(7, 3, 2); /* the first, still late, wherever it is; one more, and no third */
        expect_placed(8, 1, 1);
        fake_close(&fake);
    }
}
END_TEST

/* Where there are no keys all is one tenant's, and nothing is kept. */
START_TEST(nothing_is_kept_where_nobody_is_named) {
    open_with_places(16);
    expect_placed(0, 17, 16);
    fake_close(&fake);
}
END_TEST

START_TEST(no_kept_place_goes_past_a_better_priority) {
    open_with_places(8);
    expect_placed(7, 7, 6); /* the seventh waits */
    struct request_spec spec = fake_spec(&fake, 20, 10, 4);
    spec.tenant = 8;
    spec.priority = 1; /* those before have 0 */
    ck_assert_int_eq(fake_ask_spec(&fake, 20, spec), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 0), 6);
    spec = fake_spec(&fake, 21, 10, 4);
    spec.tenant = 9;
    ck_assert_int_eq(fake_ask_spec(&fake, 21, spec), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 0), 7);
    ck_assert_uint_eq(fake_submitted(&fake, 0).tenant, 9);
    fake_close(&fake);
}
END_TEST

/* What a worker counts already it counts once for a late tenant: the router learns that with the next digest. */
START_TEST(what_is_counted_twice_keeps_no_late_tenant_out) {
    open_with_places(8);
    expect_placed(7, 7, 6);
    struct message beat = {.type = MESSAGE_BEAT};
    beat.u.beat.state = WORKER_READY;
    beat.u.beat.load = (struct load){.n_running = 6, .progress = 1};
    fake_says(&fake, 0, beat);
    expect_placed(8, 1, 1);
    fake_close(&fake);
}
END_TEST

/* A call of several prompts is refused where fewer find a place than may wait. */
START_TEST(kept_places_are_no_room_for_many) {
    for (uint32_t n = 3; n <= 4; n++) {
        struct router_config config = fake_config();
        config.max_queue = 2;
        fake_open(&fake, &config);
        struct welcome welcome = fake_welcome("w", ROLE_MIXED);
        welcome.max_seqs = 8;
        fake_join(&fake, &welcome);
        n_placed = 0;
        expect_placed(7, 6, 6);
        struct request_spec specs[4];
        uint64_t names[4];
        for (uint32_t i = 0; i < n; i++) {
            specs[i] = fake_spec(&fake, 10 + i, 10, 4);
            specs[i].tenant = 8;
        }
        enum status status = router_request_all(fake.router, fake.now_ns, specs, n, names);
        ck_assert_int_eq(status, n == 3 ? STATUS_OK : STATUS_BUSY);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 0), n == 3 ? 7 : 6);
        fake_close(&fake);
    }
}
END_TEST

/* Whose hand-over was refused for blocks goes to the decode worker whole, at once: that one has a
 * queue, in which it is late. */
START_TEST(a_late_tenant_whose_hand_over_was_refused_goes_whole) {
    for (uint64_t tenant = 0; tenant < 2; tenant++) {
        fake_open_default(&fake);
        fake_worker(&fake, "p", ROLE_PREFILL);
        uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
        ask_as(tenant, 0, 20);
        struct submit asks = fake_reserving(&fake, d);
        fake_refuses(&fake, d, &asks, REASON_BUSY);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, d), tenant); /* nobody named: rests */
        if (tenant > 0)
            ck_assert_int_eq(fake_submitted(&fake, d).phase, PHASE_BOTH);
        fake_close(&fake);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_last_places_are_for_tenants_that_have_none);
    tcase_add_test(tests, as_many_places_are_kept_as_a_batch_can_spare);
    tcase_add_test(tests, nothing_is_kept_where_nobody_is_named);
    tcase_add_test(tests, no_kept_place_goes_past_a_better_priority);
    tcase_add_test(tests, what_is_counted_twice_keeps_no_late_tenant_out);
    tcase_add_test(tests, kept_places_are_no_room_for_many);
    tcase_add_test(tests, a_late_tenant_whose_hand_over_was_refused_goes_whole);
}
