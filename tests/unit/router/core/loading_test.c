#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_loading";
const double suite_timeout_s = 60;

static struct fake fake;

START_TEST(worker_that_loads_is_shown_without_a_link_until_it_is_ready) {
    fake_open_default(&fake);
    struct worker_view view;
    struct welcome welcome = fake_welcome("w", ROLE_DECODE);
    struct announce announce = {
        .incarnation = welcome.incarnation, .role = 1 + ROLE_DECODE, .loading = 1 + 42};
    memcpy(announce.name, welcome.name, sizeof announce.name);
    router_announce(fake.router, fake.now_ns, &announce);
    ck_assert_uint_eq(fake.n_opened, 0);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, 0), 0);
    ck_assert_int_eq(router_worker(fake.router, 0, &view), STATUS_OK);
    ck_assert_int_eq(view.state, SLOT_LOADING);
    ck_assert_uint_eq(view.loading, 42);
    ck_assert_int_eq(view.welcome.role, ROLE_DECODE);
    ck_assert_str_eq(view.welcome.name, "w");
    ck_assert(!router_ready(fake.router));
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    announce.loading = 1 + 99;
    router_announce(fake.router, fake.now_ns, &announce);
    ck_assert_int_eq(router_worker(fake.router, 0, &view), STATUS_OK);
    ck_assert_uint_eq(view.loading, 99);
    announce.loading = 0;
    router_announce(fake.router, fake.now_ns, &announce);
    ck_assert_uint_eq(fake.n_opened, 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, 0), 1);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = welcome;
    fake_says(&fake, 0, message);
    ck_assert(router_ready(fake.router));
    fake_close(&fake);
}
END_TEST

/* No link: nobody else says that it is gone. */
START_TEST(worker_that_loads_and_falls_silent_is_forgotten) {
    fake_open_default(&fake);
    struct worker_view view;
    struct announce announce = {.incarnation = 7, .name = "w", .loading = 1};
    router_announce(fake.router, fake.now_ns, &announce);
    fake_pass(&fake, 2 * NS_PER_S, 0);
    ck_assert_int_eq(router_worker(fake.router, 0, &view), STATUS_OK);
    fake_pass(&fake, 2 * NS_PER_S, 0);
    ck_assert_int_eq(router_worker(fake.router, 0, &view), STATUS_NOT_FOUND);
    ck_assert_uint_eq(fake.n_opened, 0);
    ck_assert_uint_eq(fake.n_closed, 0);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, worker_that_loads_is_shown_without_a_link_until_it_is_ready);
    tcase_add_test(tests, worker_that_loads_and_falls_silent_is_forgotten);
}
