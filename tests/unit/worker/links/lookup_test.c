/* Which routers are looked for by name. What is found behind one: tests/e2e/names_test.py. */
#include "tests/support/suite.h"
#include "worker/links/lookup.h"

const char *const suite_name = "worker lookup";
const double suite_timeout_s = 60;

START_TEST(names_of_tcp_are_looked_for_and_nothing_else) {
    static const char *const names[] = {"tcp://router:5555", "tcp://a.b.test:1", "tcp://1.2.3:4"};
    static const char *const others[] = {"tcp://127.0.0.1:5555",
                                         "tcp://[::1]:5555",
                                         "tcp://::1:5555",
                                         "tcp://[fe80::1%eth0]:5555",
                                         "tcp://*:5555",
                                         "tcp://0.0.0.0:5555",
                                         "tcp://[::]:5555",
                                         "tcp://:5555",
                                         "tcp://router",
                                         "ipc:///tmp/router:5555",
                                         "dns://router:5555",
                                         "router:5555",
                                         ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(lookup_is_for(names[i]), "%s", names[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!lookup_is_for(others[i]), "%s", others[i]);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, names_of_tcp_are_looked_for_and_nothing_else);
}
