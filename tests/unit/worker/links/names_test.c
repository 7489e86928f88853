/* Routers that are told by name: which names are asked for, how many, and what the list is then. Names
 * that change: tests/e2e/names_test.py. */
#include "worker/links/names.h"

#include "base/clock.h"
#include "base/net/dns.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "worker names";
const double suite_timeout_s = 60;

static bool has(const struct names_list *list, const char *endpoint) {
    for (uint32_t i = 0; i < list->n; i++) {
        if (strcmp(list->all[i], endpoint) == 0)
            return true;
    }
    return false;
}

/* An address as a name is its own answer, so nobody is asked. */
START_TEST(list_is_what_was_told_and_what_is_behind_the_names) {
    static const char *const routers[] = {"ipc:///tmp/r", "dns://127.0.0.1:5", "dns://127.0.0.2:6"};
    struct names *names;
    struct names_list list = {0};
    struct error error;
    for (uint32_t n_max = 2; n_max <= 3; n_max++) { /* one less than there are, and as many */
        ck_assert_int_eq(names_open(routers, 3, n_max, "", &names, &error), STATUS_OK);
        ck_assert_ptr_nonnull(names);
        const char *last = n_max == 3 ? "tcp://127.0.0.2:6" : "tcp://127.0.0.1:5";
        for (list.n = 0; list.n < n_max || !has(&list, last);) { /* answers come one by one */
            struct names_list now;
            if (names_look(names, clock_now_ns(), &now))
                list = now;
            poll(NULL, 0, 1);
        }
        ck_assert_uint_eq(list.n, n_max);
        ck_assert(has(&list, "ipc:///tmp/r"));
        ck_assert(has(&list, "tcp://127.0.0.1:5"));
        ck_assert_int_eq(has(&list, "tcp://127.0.0.2:6"), n_max == 3);
        names_close(names);
    }
}
END_TEST

START_TEST(where_none_is_a_name_nobody_is_asked) {
    static const char *const routers[] = {"ipc:///tmp/r", "tcp://router:5"};
    struct names *names;
    struct error error;
    ck_assert_int_eq(names_open(routers, 2, 8, "", &names, &error), STATUS_OK);
    ck_assert_ptr_null(names);
    names_close(names);
}
END_TEST

START_TEST(so_many_names_may_be_asked_for_and_no_more) {
    static char texts[DNS_NAMES_MAX + 2][32];
    const char *routers[DNS_NAMES_MAX + 2];
    struct names *names;
    struct error error;
    for (uint32_t i = 0; i < DNS_NAMES_MAX + 2; i++) {
        snprintf(texts[i], sizeof texts[i], "dns://127.0.0.1:%u", i + 1);
        routers[i] = texts[i];
    }
    routers[0] = "ipc:///tmp/r"; /* none of them */
    ck_assert_int_eq(names_open(routers, DNS_NAMES_MAX + 1, 8, "", &names, &error), STATUS_OK);
    names_close(names);
    ck_assert_int_eq(names_open(routers, DNS_NAMES_MAX + 2, 8, "", &names, &error), STATUS_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "dns://127.0.0.1:66: more than 64 names"));
    ck_assert_ptr_null(names);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, list_is_what_was_told_and_what_is_behind_the_names);
    tcase_add_test(tests, where_none_is_a_name_nobody_is_asked);
    tcase_add_test(tests, so_many_names_may_be_asked_for_and_no_more);
}
