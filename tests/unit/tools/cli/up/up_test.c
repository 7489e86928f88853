/* Where `tandem up` lets clients connect, what it says while workers load, and a log's lines in words. */
#include "tests/support/suite.h"

#include "tools/cli/up/front.h"
#include "tools/cli/up/progress.h"
#include "tools/cli/up/words.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "tools_up";
const double suite_timeout_s = 60;

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
        {{NULL, "fe80::1%eth0", NULL}, "127.0.0.1:8000", "[fe80::1%eth0]:8000", ""},
        {{"::1:9", NULL, NULL}, "127.0.0.1:8000", "[::1]:9", ""},
        {{"[2001:db8::2]:9", "2001:db8::2", NULL}, "", "[2001:db8::2]:9", ""},
        {{"[::1]:9", "::2", NULL}, "", NULL, "--listen [::1]:9 and --host ::2 contradict"},
        {{"8000", NULL, "8000"}, "", NULL, "--listen 8000 and --port 8000 contradict"},
        {{NULL, "[::1", NULL}, "a:1", NULL, "--host: \"[::1\""},
        {{NULL, "[a]", NULL}, "a:1", NULL, "--host: \"[a]\""},
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

#define FRAME(level) "ts=2026-11-25T20:09:07.193Z level=" level " prog=tandem-router "
#define DONE                                                                                       \
    FRAME("info")                                                                                  \
    "msg=\"request done\" id=chatcmpl-1 request=1.1.1 request_id=\"a \\\"b=c\" traceparent= "

START_TEST(lines_of_the_log_become_words) {
    static const struct {
        const char *line, *who;
        bool all;
        const char *words; /* NULL: it is none of logfmt */
    } cases[] = {
        {DONE "dialect=chat outcome=ok status=200 error= stage=finish choices=1 prompt_tokens=31 "
              "tokens=8 "
              "cached_tokens=0 replays=0 parse_us=323 tokenize_us=132 admit_us=166 place_us=0 "
              "dispatch_us=432 "
              "stream_us=108447 finish_us=0 first_token_us=38375 prefill=prefill0 decode=decode0",
         NULL, false, "chat 200  31+8 tok  110 ms  prefill0 > decode0"},
        {DONE "dialect=completions outcome=ok status=200 error= prompt_tokens=31 tokens=8 "
              "cached_tokens=16 replays=2 "
              "stream_us=9999499 prefill=mixed0 decode=mixed0",
         NULL, false, "completions 200  31+8 tok (16 cached)  9999 ms  mixed0  replayed 2 times"},
        {DONE "dialect=chat outcome=error status=404 error=not_found prompt_tokens=0 tokens=0 "
              "stream_us=0 "
              "finish_us=500 prefill=\"\" decode=\"\"",
         NULL, false, "chat 404  not_found  1 ms"},
        {DONE "dialect=chat outcome=gone status=200 error= prompt_tokens=5 tokens=3 replays=1 "
              "stream_us=10000000 "
              "prefill=\"\" decode=decode0",
         NULL, false, "chat 200  gone  5+3 tok  10.0 s  decode0  replayed"},
        {FRAME("warn") "msg=\"worker lost\" name=decode0 reason=link_lost after_ms=136 requests=0",
         NULL, false, "warning: worker lost: decode0, link lost, after 136 ms, requests 0"},
        {FRAME("error") "msg=\"kv link dropped\" peer=prefill0 why=\"connection \\\"lost\\\"\"",
         "decode0", false, "error: decode0: kv link dropped: prefill0, connection \"lost\""},
        {FRAME("info") "msg=\"worker joined\" name=decode0 pid=11031", NULL, false,
         "decode0 serves"},
        {FRAME("info") "msg=\"worker joined\" name=decode0 pid=11031", NULL, true,
         "worker joined: decode0, pid 11031"},
        {FRAME("info") "msg=\"router ends\" name=router0", NULL, false, ""},
        {FRAME("debug") "msg=submitted router=router0 waited_us=17 x=", "decode0", true,
         "decode0: submitted: router0, waited 17 us"},
        {"decode0 ended with code 137: starting it again", NULL, false, NULL},
        {"", NULL, false, NULL},
        {"level=", NULL, false, ""},
    };
    char words[WORDS_LINE_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_log = words_of(cases[i].line, cases[i].who, cases[i].all, words);
        ck_assert_msg(is_log == (cases[i].words != NULL), "%zu", i);
        ck_assert_str_eq(words, cases[i].words ? cases[i].words : "");
    }
}
END_TEST

/* Lines of any length and with any number of pairs, and the bounds of both. */
START_TEST(long_lines_are_cut) {
    static char line[8192], words[WORDS_LINE_MAX];
    for (size_t n = 0; n < sizeof line - 64; n += 501) {
        int at = snprintf(line, sizeof line, FRAME("warn") "msg=");
        memset(line + at, 'x', n);
        line[(size_t)at + n] = '\0';
        ck_assert(words_of(line, NULL, false, words));
        size_t n_words = strlen(words), most = WORDS_LINE_MAX - 1;
        ck_assert_uint_eq(n_words, n + strlen("warning: ") < most ? n + strlen("warning: ") : most);
    }
    size_t n = (size_t)snprintf(line, sizeof line, FRAME("warn") "msg=m");
    for (unsigned i = 0; i < 200; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, " k%u=%u", i, i);
    ck_assert(words_of(line, NULL, false, words));
    ck_assert_ptr_nonnull(strstr(words, "k43 43"));
    ck_assert_ptr_null(strstr(words, "k44"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, host_and_port_become_one_address);
    tcase_add_test(tests, an_address_that_cannot_be_had_is_refused_by_its_flag);
    tcase_add_test(tests, a_worker_that_loads_is_a_line_every_ten_percent);
    tcase_add_test(tests, all_that_load_are_one_line);
    tcase_add_test(tests, lines_of_the_log_become_words);
    tcase_add_test(tests, long_lines_are_cut);
}
