#include "base/net/address.h"

#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "base_address";
const double suite_timeout_s = 60;

START_TEST(the_last_colon_is_the_ports) {
    static const struct {
        const char *text, *host, *port; /* NULL: refused */
    } rows[] = {
        {"127.0.0.1:8000", "127.0.0.1", "8000"},
        {"localhost:0", "localhost", "0"},
        {":65535", "", "65535"},
        {"*:*", "*", "*"},
        {"[::1]:80", "::1", "80"},
        {"::1:22360", "::1", "22360"},
        {"::1:80", "::1", "80"},
        {":::80", "::", "80"},
        {"2001:db8::5:7002", "2001:db8::5", "7002"},
        {"fd00:1:2:3:4:5:6:7:8", "fd00:1:2:3:4:5:6:7", "8"},
        {"::ffff:10.0.0.1:7", "::ffff:10.0.0.1", "7"},
        {"fe80::1%eth0:7", "fe80::1%eth0", "7"},
        {"[fe80::1%eth0.3]:7", "fe80::1%eth0.3", "7"},
        {"", NULL, NULL},
        {"localhost", NULL, NULL},
        {"localhost:", NULL, NULL},
        {":65536", NULL, NULL},
        {":123456", NULL, NULL},
        {":-1", NULL, NULL},
        {":+1", NULL, NULL},
        {"::1", NULL, NULL},
        {"fd00:1:2:3:4:5:6:7", NULL, NULL}, /* an address, and no port */
        {"a:1:2", NULL, NULL},
        {"[]:80", NULL, NULL},
        {"[::1:80", NULL, NULL},
        {"::1]:80", NULL, NULL},
        {"[localhost]:80", NULL, NULL},
        {"[::1%]:80", NULL, NULL},
        {"[[::1]]:80", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct address at = {.host = "before", .port = "7"};
        bool is_one = address_split(rows[i].text, &at);
        ck_assert_msg(is_one == (rows[i].host != NULL), "%s", rows[i].text);
        ck_assert_str_eq(at.host, rows[i].host ? rows[i].host : "before");
        ck_assert_str_eq(at.port, rows[i].port ? rows[i].port : "7");
    }
}
END_TEST

START_TEST(a_host_has_at_most_255_bytes) {
    char text[300];
    struct address at;
    memset(text, 'a', sizeof text);
    memcpy(text + 255, ":1", 3);
    ck_assert(address_split(text, &at));
    ck_assert_uint_eq(strlen(at.host), 255);
    memcpy(text + 255, "a:1", 4);
    ck_assert(!address_split(text, &at));
}
END_TEST

START_TEST(ipv6_is_written_in_brackets) {
    static const struct {
        const char *host, *port, *text, *outside;
    } rows[] = {
        {"::1", "8000", "[::1]:8000", "[::1]:8000"},
        {"[::1]", "8000", "[::1]:8000", "[::1]:8000"},
        {"::", "0", "[::]:0", "[::]:0"},
        {"fe80::1%eth0", "7", "[fe80::1%eth0]:7", "[fe80::1]:7"},
        {"10.0.0.1", "7", "10.0.0.1:7", "10.0.0.1:7"},
        {"name%7", "7", "name%7:7", "name%7:7"},
        {"", "*", ":*", ":*"},
    };
    char text[ADDRESS_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_str_eq(address_join(rows[i].host, rows[i].port, text), rows[i].text);
        ck_assert_str_eq(address_join_outside(rows[i].host, rows[i].port, text), rows[i].outside);
    }
}
END_TEST

START_TEST(hosts_are_known_by_their_kind) {
    static const struct {
        const char *host;
        bool is_v6, is_any, is_link_local, lacks_interface;
    } rows[] = {
        {"::1", true, false, false, false},
        {"::", true, true, false, false},
        {"0:0:0:0:0:0:0:0", true, true, false, false},
        {"fe80::1", true, false, true, true},
        {"febf::1%2", true, false, true, false},
        {"fec0::1", true, false, false, false},
        {"0.0.0.0", false, true, false, false},
        {"", false, true, false, false},
        {"*", false, true, false, false},
        {"0.0.0.1", false, false, false, false},
        {"[::]", false, false, false, false},
        {"eth0", false, false, false, false},
        {"1:2:3:4:5:6:7:8:9", false, false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *host = rows[i].host;
        ck_assert_msg(address_is_v6(host) == rows[i].is_v6, "%s", host);
        ck_assert_msg(address_is_any(host) == rows[i].is_any, "%s", host);
        ck_assert_msg(address_is_link_local(host) == rows[i].is_link_local, "%s", host);
        ck_assert_msg(address_lacks_interface(host) == rows[i].lacks_interface, "%s", host);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_last_colon_is_the_ports);
    tcase_add_test(tests, a_host_has_at_most_255_bytes);
    tcase_add_test(tests, ipv6_is_written_in_brackets);
    tcase_add_test(tests, hosts_are_known_by_their_kind);
}
