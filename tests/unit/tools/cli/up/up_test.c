/* Where `tandem up` lets clients connect, and what it says while workers load. */
#include "tests/support/suite.h"

#include "tools/cli/up/front.h"
#include "tools/cli/up/progress.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "tools_up";
const double suite_timeout_s = 30;

#define S 1000000000ull

START_TEST(host_and_port_become_one_address) {
    static const struct {
        struct front_flags flags;
        const char *otherwise, *address; /* NULL: refused, */
        const char *words;               /* with these */
    } cases[] = {
        {{NULL, NULL, NULL}, "127.0.0.1:8000", "127.0.0.1:8000", ""},
        {{NULL, NULL, NULL}, "fd:3", "fd:3", ""},
        {{"0.0.0.0:1", NULL, NULL}, "127.0.0.1:8000", "0.0.0.0:1", ""},
        {{NULL, "0.0.0.0", NULL}, "127.0.0.1:8000", "0.0.0.0:8000", ""},
        {{NULL, NULL, "0"}, "127.0.0.1:8000", "127.0.0.1:0", ""},
        {{NULL, NULL, "9"}, "[::1]:8000", "[::1]:9", ""},
        {{NULL, "::1", "9"}, "127.0.0.1:8000", "[::1]:9", ""},
        {{NULL, "[::]", NULL}, "127.0.0.1:8000", "[::]:8000", ""},
        {{NULL, "*", NULL}, "10.0.0.1:81", "*:81", ""},
        {{NULL, "localhost", NULL}, "fd:3", "localhost:8000", ""},
        {{"localhost:9", "localhost", "9"}, "127.0.0.1:8000", "localhost:9", ""},
        {{"8000", NULL, NULL}, "127.0.0.1:8000", "8000", ""}, /* front_check() refuses it */
        {{"localhost:9", NULL, "8"}, "", NULL, "--listen localhost:9 and --port 8 contradict"},
        {{"localhost:9", "a", NULL}, "", NULL, "--listen localhost:9 and --host a contradict"},
        {{"fd:3", "a", NULL}, "", NULL, "--listen fd:3 and --host"},
        {{NULL, NULL, "65536"}, "a:1", NULL, "--port: \"65536\""},
        {{NULL, NULL, ""}, "a:1", NULL, "--port: \"\""},
        {{NULL, NULL, "-1"}, "a:1", NULL, "--port: \"-1\""},
        {{NULL, NULL, "80x"}, "a:1", NULL, "--port: \"80x\""},
        {{NULL, "", NULL}, "a:1", NULL, "--host: \"\""},
        {{NULL, "a:1", NULL}, "a:1", NULL, "--host: \"a:1\""},
        {{NULL, "http://a", NULL}, "a:1", NULL, "--host: \"http://a\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char address[FRONT_MAX] = "";
        struct error error = {0};
        enum status status = front_fold(&cases[i].flags, cases[i].otherwise, address, &error);
        ck_assert_msg(status == (cases[i].address ? STATUS_OK : STATUS_INVALID), "%zu: %s", i,
                      error.text);
        if (cases[i].address)
            ck_assert_str_eq(address, cases[i].address);
        else
            ck_assert_msg(strstr(error.text, cases[i].words) != NULL, "%s", error.text);
    }
}
END_TEST

START_TEST(an_address_that_cannot_be_had_is_refused_by_its_flag) {
    struct front_flags none = {0}, parts = {.host = "127.0.0.1", .port = "1"}, port = {.port = "1"};
    struct sockaddr_in taken = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct error error;
    socklen_t n = sizeof taken;
    char address[FRONT_MAX];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&taken, n), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&taken, &n), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(taken.sin_port));
    ck_assert_int_eq(front_check(&none, address, &error), STATUS_EXISTS);
    ck_assert_ptr_nonnull(strstr(error.text, "is in use by another process"));
    ck_assert_int_eq(strncmp(error.text, "--listen: ", 10), 0);
    ck_assert_int_eq(front_check(&parts, address, &error), STATUS_EXISTS);
    ck_assert_int_eq(strncmp(error.text, "--host, --port: ", 16), 0);
    ck_assert_int_eq(front_check(&port, address, &error), STATUS_EXISTS);
    ck_assert_int_eq(strncmp(error.text, "--port: ", 8), 0);
    close(fd);
    /* And it can be had again right after the look. */
    ck_assert_int_eq(front_check(&none, address, &error), STATUS_OK);
    ck_assert_int_eq(front_check(&none, address, &error), STATUS_OK);
    ck_assert_int_eq(front_check(&none, "fd:3", &error), STATUS_OK);
    ck_assert_int_eq(front_check(&none, "8000", &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "(a port alone: --port 8000)"));
}
END_TEST

START_TEST(a_worker_that_loads_is_a_line_every_ten_percent) {
    static struct progress progress;
    char line[PROGRESS_LINE_MAX] = "";
    memset(&progress, 0, sizeof progress);
    ck_assert(!progress_note(&progress, S, "a", 0, 2000000000, line));
    ck_assert(
        !progress_note(&progress, 3 * S / 2, "a", 500000000, 2000000000, line)); /* too early */
    ck_assert(progress_note(&progress, 3 * S, "a", 590000000, 2000000000, line));
    ck_assert_str_eq(line, "a: loading, 29 % of 2.0 GB after 2 s");
    ck_assert(!progress_note(&progress, 4 * S, "a", 590000001, 2000000000, line));
    ck_assert(progress_note(&progress, 5 * S, "a", 600000000, 2000000000, line));
    ck_assert_str_eq(line, "a: loading, 30 % of 2.0 GB after 4 s");
    ck_assert(!progress_note(&progress, 5 * S, "a", 680000000, 2000000000, line));
    ck_assert(progress_note(&progress, 6 * S, "a", 2000000000, 2000000000, line));
    ck_assert_str_eq(line, "a: loading, 100 % of 2.0 GB after 5 s");
    ck_assert(
        !progress_note(&progress, 7 * S, "a", 2000000001, 2000000000, line)); /* no such thing */
    ck_assert(progress_end(&progress, 9 * S, "a", line));
    ck_assert_str_eq(line, "a: loaded 2.0 GB in 8 s");
    /* Started again, it begins anew; what nobody was told of ends in silence. */
    ck_assert(!progress_note(&progress, 20 * S, "a", 98000000, 98000000, line));
    ck_assert(!progress_end(&progress, 21 * S, "a", line));
    ck_assert(!progress_end(&progress, 21 * S, "never", line));
    ck_assert(!progress_note(&progress, 30 * S, "b", 0, 0, line));
}
END_TEST

START_TEST(all_that_load_are_one_line) {
    static struct progress progress;
    char line[PROGRESS_LINE_MAX], text[200];
    memset(&progress, 0, sizeof progress);
    progress_note(&progress, S, "prefill0", 0, 2600000000, line);
    progress_note(&progress, S, "decode0", 0, 98000000, line);
    ck_assert_str_eq(progress_line(&progress, 3 * S / 2, text, sizeof text), "");
    progress_note(&progress, 2 * S, "prefill0", 1200000000, 2600000000, line);
    progress_note(&progress, 2 * S, "decode0", 49000000, 98000000, line);
    ck_assert_str_eq(progress_line(&progress, 13 * S, text, sizeof text),
                     "loading: prefill0 46 % of 2.6 GB, 12 s | decode0 50 % of 98 MB, 12 s");
    ck_assert_str_eq(progress_line(&progress, 13 * S, text, 60),
                     "loading: prefill0 46 % of 2.6 GB, 12 s ...");
    ck_assert_str_eq(progress_line(&progress, 13 * S, text, 20), "loading: prefill0 4");
    for (size_t width = 1; width < sizeof text; width++)
        ck_assert_uint_lt(strlen(progress_line(&progress, 13 * S, text, width)), width);
    ck_assert(progress_end(&progress, 14 * S, "prefill0", line));
    ck_assert_str_eq(progress_line(&progress, 14 * S, text, sizeof text),
                     "loading: decode0 50 % of 98 MB, 13 s");
    ck_assert(progress_end(&progress, 14 * S, "decode0", line));
    ck_assert_str_eq(progress_line(&progress, 14 * S, text, sizeof text), "");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, host_and_port_become_one_address);
    tcase_add_test(tests, an_address_that_cannot_be_had_is_refused_by_its_flag);
    tcase_add_test(tests, a_worker_that_loads_is_a_line_every_ten_percent);
    tcase_add_test(tests, all_that_load_are_one_line);
}
