#include "tests/support/suite.h"

#include "base/buf.h"
#include "base/client/http_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "tools";
const double suite_timeout_s = 60;

START_TEST(urls_are_taken_apart_or_refused) {
    struct http_url url;
    struct error error;
    ck_assert_int_eq(http_url_parse("http://localhost:8000/api/", &url, &error), STATUS_OK);
    ck_assert_str_eq(url.host, "localhost");
    ck_assert_str_eq(url.port, "8000");
    ck_assert_str_eq(url.base, "/api");
    ck_assert_int_eq(http_url_parse("[::1]:81", &url, &error), STATUS_OK);
    ck_assert_str_eq(url.host, "::1");
    ck_assert_str_eq(url.port, "81");
    ck_assert_int_eq(http_url_parse("host", &url, &error), STATUS_OK);
    ck_assert_str_eq(url.port, "80");
    ck_assert(!url.is_tls);
    ck_assert_int_eq(http_url_parse("https://host/v1", &url, &error), STATUS_OK);
    ck_assert_str_eq(url.host, "host");
    ck_assert_str_eq(url.port, "443");
    ck_assert_str_eq(url.base, ""); /* our routes begin so */
    ck_assert(url.is_tls);
    ck_assert_int_eq(http_url_parse("http://host/api/v1/", &url, &error), STATUS_OK);
    ck_assert_str_eq(url.base, "/api");
    ck_assert_int_eq(http_url_parse("http://host/av1", &url, &error), STATUS_OK);
    ck_assert_str_eq(url.base, "/av1");
    ck_assert_int_eq(http_url_parse("grpc://host:9", &url, &error), STATUS_OK);
    ck_assert(url.is_grpc && !url.is_tls);
    ck_assert_int_eq(http_url_parse("grpcs://host", &url, &error), STATUS_OK);
    ck_assert(url.is_grpc && url.is_tls);
    ck_assert_int_eq(http_url_parse("ftp://host", &url, &error), STATUS_INVALID);
    ck_assert_int_eq(http_url_parse("http://:80", &url, &error), STATUS_INVALID);
    ck_assert_int_eq(http_url_parse("[::1", &url, &error), STATUS_INVALID);
}
END_TEST

START_TEST(urls_of_ipv6_have_brackets_and_perhaps_a_zone) {
    static const struct {
        const char *text, *host, *port; /* NULL: refused */
    } rows[] = {
        {"http://[::1]:21030", "::1", "21030"},
        {"https://[2001:db8::2]/v1", "2001:db8::2", "443"},
        {"grpc://[::]:9", "::", "9"},
        {"[fe80::1%eth0]:8000", "fe80::1%eth0", "8000"},
        {"http://[fe80::1%25eth0]", "fe80::1%eth0", "80"},
        {"http://::1:8000", NULL, "must be in brackets"},
        {"::1", NULL, "must be in brackets"},
        {"http://fe80::1%eth0:80", NULL, "must be in brackets"},
        {"http://[fe80::1]:8000", NULL, "[fe80::1%eth0]"},
        {"http://[localhost]:8000", NULL, "not an IPv6 address"},
        {"http://[::1%]:8000", NULL, "not an IPv6 address"},
        {"http://[::1]8000", NULL, "not of the form"},
        {"http://[::1]:", NULL, "not of the form"},
        {"http://host:80x", NULL, "not of the form"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_url url = {.host = "before"};
        struct error error = {0};
        enum status status = http_url_parse(rows[i].text, &url, &error);
        ck_assert_msg((status == STATUS_OK) == (rows[i].host != NULL), "%s", rows[i].text);
        ck_assert_str_eq(url.host, rows[i].host ? rows[i].host : "before");
        if (rows[i].host)
            ck_assert_str_eq(url.port, rows[i].port);
        else
            ck_assert_msg(strstr(error.text, rows[i].port) != NULL, "%s", error.text);
    }
}
END_TEST

struct outcome {
    struct loop *loop;
    struct buf body;
    bool is_over;
    enum status status;
    int http_status;
    const char *host;   /* whom to ask; NULL: 127.0.0.1, where the server is */
    char request[4096]; /* the last one */
};

static void on_body(void *user, const char *bytes, size_t n) {
    buf_append(&((struct outcome *)user)->body, bytes, n);
}

static void on_end(void *user, enum status status, int http_status, const struct error *error) {
    struct outcome *outcome = user;
    (void)error;
    outcome->status = status;
    outcome->http_status = http_status;
    outcome->is_over = true;
}

/* Waits for a request, and sends `answer` in pieces of `step` bytes, each of which the client reads
 * before the next one comes: a turn of its loop lies between them. */
static void serve(int listener, int *fd, const char *answer, size_t step, struct outcome *outcome) {
    int one = 1;
    while (*fd < 0 && !outcome->is_over) {
        loop_turn(outcome->loop, false);
        *fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    }
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    memset(outcome->request, 0, sizeof outcome->request);
    while (recv(*fd, outcome->request, sizeof outcome->request - 1, 0) <= 0)
        loop_turn(outcome->loop, false);
    for (size_t at = 0, n = strlen(answer); at < n && !outcome->is_over; at += step) {
        (void)!send(*fd, answer + at, n - at < step ? n - at : step, MSG_NOSIGNAL);
        loop_turn(outcome->loop, false);
    }
    while (!outcome->is_over)
        loop_turn(outcome->loop, true);
}

/* Asks twice over one connection and leaves the second answer's outcome. */
static void ask_twice(const char *answer, size_t step, struct outcome *outcome) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), fd = -1;
    struct http_url url = {0};
    struct http_client *client;
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    snprintf(url.host, sizeof url.host, "%s", outcome->host ? outcome->host : "127.0.0.1");
    snprintf(url.port, sizeof url.port, "%u", ntohs(address.sin_port));
    ck_assert_int_eq(loop_new(&outcome->loop), STATUS_OK);
    ck_assert_int_eq(http_client_new(outcome->loop, &url, &client), STATUS_OK);
    struct http_events events = {on_body, on_end, outcome};
    for (int i = 0; i < 2; i++) {
        buf_init(&outcome->body, 0);
        outcome->is_over = false;
        http_client_start(client, &(struct http_ask){"POST", "/x", .body = "{}"}, &events);
        serve(listener, &fd, answer, step, outcome);
        if (outcome->status != STATUS_OK)
            break;
        if (i == 0)
            buf_fini(&outcome->body);
    }
    http_client_free(client);
    loop_turn(outcome->loop, false); /* closes its socket */
    loop_free(outcome->loop);
    close(fd);
    close(listener);
}

START_TEST(answers_are_read_whatever_their_framing_and_cuts) {
    static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n";
    static const char long_chunk[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                     "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n"
                                     "01B\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ!\r\n0\r\n\r\n";
    static const char interim[] =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world";
    static const char length[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\nhello, world";
    for (size_t step = 1; step < 100; step += 7) {
        struct outcome outcome = {0};
        ask_twice(chunked, step, &outcome);
        ck_assert_int_eq(outcome.status, STATUS_OK);
        ck_assert_int_eq(outcome.http_status, 200);
        ck_assert_str_eq(outcome.body.data, "hello, world");
        buf_fini(&outcome.body);
        ask_twice(long_chunk, step, &outcome);
        ck_assert_int_eq(outcome.status, STATUS_OK);
        ck_assert_str_eq(outcome.body.data,
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!");
        buf_fini(&outcome.body);
        ask_twice(interim, step, &outcome);
        ck_assert_int_eq(outcome.http_status, 200);
        ck_assert_str_eq(outcome.body.data, "hello, world");
        buf_fini(&outcome.body);
        ask_twice(length, step, &outcome);
        ck_assert_int_eq(outcome.status, STATUS_OK);
        ck_assert_int_eq(outcome.http_status, 404);
        ck_assert_str_eq(outcome.body.data, "hello, world");
        buf_fini(&outcome.body);
    }
}
END_TEST

START_TEST(a_chunk_without_a_size_or_with_one_that_fits_nowhere_is_an_error) {
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;x=y\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
        "chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"};
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct outcome outcome = {0};
        ask_twice(answers[i], 1000, &outcome);
        ck_assert_int_eq(outcome.status, STATUS_CORRUPT);
        buf_fini(&outcome.body);
    }
}
END_TEST

START_TEST(an_answer_that_is_none_is_an_error) {
    static const struct {
        const char *answer;
        enum status status;
    } rows[] = {{"SSH-2.0-nonsense\r\n\r\n", STATUS_CORRUPT},
                {"HTTP/1.1 99 x\r\nContent-Length: 0\r\n\r\n", STATUS_CORRUPT},
                {"HTTP/1.1 1000 x\r\nContent-Length: 0\r\n\r\n", STATUS_CORRUPT},
                {"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", STATUS_OK}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct outcome outcome = {0};
        ask_twice(rows[i].answer, 100, &outcome);
        ck_assert_int_eq(outcome.status, rows[i].status);
        buf_fini(&outcome.body);
    }
}
END_TEST

/* The server listens on one of the two loopback addresses, the one that is tried last. */
START_TEST(whoever_asks_every_address_finds_this_host) {
    static const char *const hosts[] = {"::", "0.0.0.0", "::ffff:127.0.0.1"};
    static const char *const sent[] = {
        "Host: [::]:", "Host: 0.0.0.0:", "Host: [::ffff:127.0.0.1]:"};
    for (unsigned i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct outcome outcome = {.host = hosts[i]};
        ask_twice("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 100, &outcome);
        ck_assert_int_eq(outcome.http_status, 200);
        ck_assert_msg(strstr(outcome.request, sent[i]) != NULL, "%s", outcome.request);
        buf_fini(&outcome.body);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, urls_are_taken_apart_or_refused);
    tcase_add_test(tests, urls_of_ipv6_have_brackets_and_perhaps_a_zone);
    tcase_add_test(tests, answers_are_read_whatever_their_framing_and_cuts);
    tcase_add_test(tests, a_chunk_without_a_size_or_with_one_that_fits_nowhere_is_an_error);
    tcase_add_test(tests, an_answer_that_is_none_is_an_error);
    tcase_add_test(tests, whoever_asks_every_address_finds_this_host);
}
