/* How spans come to a collector, whatever it does. */
#include "router/trace/tracer.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/net/loop.h"
#include "router/trace/trace_span.h"
#include "router/trace/traceparent.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"

#include "otlp.pb-c.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char *const suite_name = "router_tracer";
const double suite_timeout_s = 60;

#define OK      "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define STEP_NS (20 * NS_PER_MS) /* of what a tracer of these tests waits for */

static struct loop *loop;
static struct tracer *tracer;

/* A collector on this thread: it answers each request with `reply`, or not at all. */
static struct collector {
    int listener, fd;
    uint16_t port;
    const char *reply; /* NULL: none */
    struct buf in;
    uint32_t n_connections, n_requests, n_spans; /* spans: of the last request */
    char head[1024];                             /* the same */
} collector;

static void collector_listen(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(collector.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1;
    collector.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(collector.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    ck_assert_int_eq(bind(collector.listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(collector.listener, 4), 0);
    ck_assert_int_eq(getsockname(collector.listener, (struct sockaddr *)&address, &size), 0);
    collector.port = ntohs(address.sin_port);
}

static void collector_close(void) {
    close(collector.listener);
    if (collector.fd >= 0)
        close(collector.fd);
    collector.fd = collector.listener = -1;
}

static void collector_count(const char *body, size_t n) {
    Otlp__ExportTraceServiceRequest *request =
        otlp__export_trace_service_request__unpack(NULL, n, (const uint8_t *)body);
    ck_assert_ptr_nonnull(request);
    collector.n_spans = (uint32_t)request->resource_spans[0]->scope_spans[0]->n_spans;
    collector.n_requests++;
    otlp__export_trace_service_request__free_unpacked(request, NULL);
}

static void collector_read(void) {
    char bytes[65536];
    ssize_t n = recv(collector.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0) {
        close(collector.fd);
        collector.fd = -1;
    }
    if (n <= 0)
        return;
    buf_append(&collector.in, bytes, (size_t)n);
    const char *end = strstr(collector.in.data, "\r\n\r\n");
    const char *length = end ? strcasestr(collector.in.data, "content-length:") : NULL;
    size_t n_head = end ? (size_t)(end - collector.in.data) + 4 : 0;
    size_t n_body = length ? strtoul(length + 15, NULL, 10) : 0;
    if (!length || collector.in.n < n_head + n_body)
        return;
    snprintf(collector.head, sizeof collector.head, "%.*s", (int)n_head, collector.in.data);
    collector_count(collector.in.data + n_head, n_body);
    buf_clear(&collector.in);
    for (size_t at = 0, all = collector.reply ? strlen(collector.reply) : 0; at < all;) {
        ssize_t sent = send(collector.fd, collector.reply + at, all - at, MSG_NOSIGNAL);
        at += sent > 0 ? (size_t)sent : 0;
        loop_turn(loop, false); /* a long one is read meanwhile */
        if (sent < 0 && errno != EAGAIN)
            return;
    }
}

static void turn(void) {
    loop_turn(loop, false);
    int fd = collector.listener < 0 ? -1 : accept4(collector.listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd >= 0) {
        if (collector.fd >= 0)
            close(collector.fd);
        collector.fd = fd;
        collector.n_connections++;
        buf_clear(&collector.in);
    }
    if (collector.fd >= 0)
        collector_read();
}

#define UNTIL(condition)                                                                           \
    while (!(condition))                                                                           \
    turn()

/* Turns for as long as the machine's clock says: a timer of the loop sleeps by that one. */
static void turns_for(uint64_t ns) {
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        turn();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((uint64_t)(now.tv_sec - began.tv_sec) * NS_PER_S + (uint64_t)now.tv_nsec <
             ns + (uint64_t)began.tv_nsec);
}

static void open_named(const char *host, struct tracer_times times) {
    char url[64];
    struct error error = {.text = ""};
    snprintf(url, sizeof url, "http://%s:%u", host, collector.port);
    const struct tracer_config config = {.url = url,
                                         .header = "x-key: k",
                                         .ratio = 0.5,
                                         .resource = {"tandem-router", "1", "r", "h"},
                                         .times = times};
    enum status status = tracer_new(loop, &config, &tracer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
}

/* Short times, of which the caller may set some. */
static void open_all(struct tracer_times times) {
    collector = (struct collector){.fd = -1, .reply = OK};
    buf_init(&collector.in, 0);
    collector_listen();
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    times.gather_ns = times.gather_ns ? times.gather_ns : STEP_NS;
    times.backoff_ns_min = times.backoff_ns_min ? times.backoff_ns_min : STEP_NS;
    open_named("127.0.0.1", times);
}

static void close_all(void) {
    tracer_free(tracer);
    tracer = NULL;
    loop_turn(loop, false);
    loop_free(loop);
    collector_close();
    buf_fini(&collector.in);
    test_clock_run();
}

static void add(uint32_t n) {
    const struct trace_span span = {.trace = {.trace_id = {1}, .span_id = {1}}, .name = "x"};
    while (n-- > 0)
        tracer_add(tracer, &span);
}

static void expect(uint64_t n_sent, uint64_t n_dropped, uint64_t n_failed) {
    struct tracer_counts counts = tracer_counts(tracer);
    ck_assert_uint_eq(counts.n_sent, n_sent);
    ck_assert_uint_eq(counts.n_dropped, n_dropped);
    ck_assert_uint_eq(counts.n_failed, n_failed);
}

START_TEST(spans_go_together_over_one_connection) {
    open_all((struct tracer_times){0});
    add(3);
    UNTIL(tracer_counts(tracer).n_sent == 3);
    ck_assert_uint_eq(collector.n_requests, 1);
    ck_assert_uint_eq(collector.n_spans, 3);
    ck_assert_ptr_nonnull(strstr(collector.head, "POST /v1/traces HTTP/1.1\r\n"));
    ck_assert_ptr_nonnull(strstr(collector.head, "Content-Type: application/x-protobuf\r\n"));
    ck_assert_ptr_nonnull(strstr(collector.head, "\r\nx-key: k\r\n"));
    add(1);
    UNTIL(tracer_counts(tracer).n_sent == 4);
    ck_assert_uint_eq(collector.n_requests, 2);
    ck_assert_uint_eq(collector.n_connections, 1);
    expect(4, 0, 0);
    close_all();
}
END_TEST

START_TEST(a_batch_is_gathered_for_its_time) {
    open_all((struct tracer_times){0});
    test_clock_stop();
    add(1);
    test_clock_pass(STEP_NS - 1);
    turns_for(2 * STEP_NS);
    ck_assert_uint_eq(collector.n_requests, 0);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 1);
    close_all();
}
END_TEST

START_TEST(a_full_batch_goes_at_once) {
    open_all((struct tracer_times){0});
    test_clock_stop();
    add(TRACE_BATCH_SPANS - 1);
    turns_for(2 * STEP_NS);
    ck_assert_uint_eq(collector.n_requests, 0);
    add(1);
    UNTIL(collector.n_requests == 1);
    ck_assert_uint_eq(collector.n_spans, TRACE_BATCH_SPANS);
    close_all();
}
END_TEST

START_TEST(without_a_tracer_nothing_is_counted) {
    expect(0, 0, 0);
}
END_TEST

/* As a first one is: what came while the last batch was under way waits for company. */
START_TEST(a_batch_behind_another_is_gathered_too) {
    open_all((struct tracer_times){0});
    test_clock_stop();
    add(TRACE_BATCH_SPANS + 1);
    UNTIL(tracer_counts(tracer).n_sent == TRACE_BATCH_SPANS);
    test_clock_pass(STEP_NS - 1);
    turns_for(2 * STEP_NS);
    ck_assert_uint_eq(collector.n_requests, 1);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 2);
    close_all();
}
END_TEST

/* 512 are on their way to one that does not answer, 2048 wait, and the next is dropped. */
START_TEST(what_the_queue_does_not_hold_is_dropped) {
    open_all((struct tracer_times){0});
    collector.reply = NULL;
    add(TRACE_BATCH_SPANS);
    UNTIL(collector.n_requests == 1);
    add(TRACE_QUEUE_SPANS);
    expect(0, 0, 0);
    add(1);
    expect(0, 1, 0);
    close_all();
}
END_TEST

START_TEST(four_answers_are_for_now_and_all_others_for_good) {
    static const struct {
        const char *reply;
        bool again;
    } rows[] = {{"HTTP/1.1 429 -\r\nContent-Length: 0\r\n\r\n", true},
                {"HTTP/1.1 502 -\r\nContent-Length: 0\r\n\r\n", true},
                {"HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n", true},
                {"HTTP/1.1 504 -\r\nContent-Length: 0\r\n\r\n", true},
                {"nonsense\r\n\r\n", true},
                {"HTTP/1.1 500 -\r\nContent-Length: 0\r\n\r\n", false},
                {"HTTP/1.1 501 -\r\nContent-Length: 0\r\n\r\n", false},
                {"HTTP/1.1 400 -\r\nContent-Length: 0\r\n\r\n", false},
                {"HTTP/1.1 404 -\r\nContent-Length: 0\r\n\r\n", false},
                {"HTTP/1.1 301 -\r\nContent-Length: 0\r\n\r\n", false}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_all((struct tracer_times){0});
        collector.reply = rows[i].reply;
        add(2);
        UNTIL(collector.n_requests == 1);
        if (rows[i].again) {
            UNTIL(collector.n_requests == 2);
            ck_assert_uint_eq(collector.n_spans, 2);
            collector.reply = OK;
            UNTIL(tracer_counts(tracer).n_sent == 2);
            expect(2, 0, 0);
        } else {
            UNTIL(tracer_counts(tracer).n_failed == 2);
            collector.reply = OK;
            add(1);
            UNTIL(tracer_counts(tracer).n_sent == 1);
            ck_assert_uint_eq(collector.n_spans, 1);
            expect(1, 0, 2);
        }
        close_all();
    }
}
END_TEST

/* Between half of the time and all of it, and twice that after the next failure. */
START_TEST(a_failure_is_waited_after_for_ever_longer) {
    open_all((struct tracer_times){.gather_ns = 1, .backoff_ns_max = 2 * STEP_NS});
    collector.reply = "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n";
    test_clock_stop();
    add(1);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 1);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ns = i == 0 ? STEP_NS : 2 * STEP_NS;
        turns_for(2 * NS_PER_MS); /* the answer is read */
        test_clock_pass(ns / 2 - 1);
        turns_for(ns / 2 + 2 * NS_PER_MS);
        ck_assert_uint_eq(collector.n_requests, i + 1);
        test_clock_pass(ns - ns / 2 + 1);
        UNTIL(collector.n_requests == i + 2);
    }
    close_all();
}
END_TEST

START_TEST(a_collector_says_how_long_to_wait) {
    open_all((struct tracer_times){.gather_ns = 1});
    collector.reply = "HTTP/1.1 429 -\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    test_clock_stop();
    add(1);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 1);
    turns_for(5 * NS_PER_MS);
    test_clock_pass(NS_PER_S - 1);
    turns_for(NS_PER_S + 50 * NS_PER_MS);
    ck_assert_uint_eq(collector.n_requests, 1);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 2);
    close_all();
}
END_TEST

START_TEST(one_that_does_not_answer_is_asked_again) {
    open_all((struct tracer_times){.answer_ns = STEP_NS});
    collector.reply = NULL;
    add(1);
    UNTIL(collector.n_requests == 2);
    ck_assert_uint_eq(collector.n_connections, 2);
    collector.reply = OK;
    UNTIL(tracer_counts(tracer).n_sent == 1);
    expect(1, 0, 0);
    close_all();
}
END_TEST

START_TEST(a_batch_is_given_up_after_its_time) {
    open_all(
        (struct tracer_times){.gather_ns = 1, .retry_ns = NS_PER_S, .backoff_ns_max = STEP_NS});
    collector.reply = NULL;
    test_clock_stop();
    add(1);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 1);
    test_clock_pass(NS_PER_S - 1);
    ck_assert_int_gt(send(collector.fd, "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n", 37, 0), 0);
    turns_for(STEP_NS); /* it is kept: the time is not over by a nanosecond */
    expect(0, 0, 0);
    test_clock_pass(STEP_NS);
    UNTIL(collector.n_requests == 2);
    ck_assert_int_gt(send(collector.fd, "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n", 37, 0), 0);
    UNTIL(tracer_counts(tracer).n_failed == 1);
    close_all();
}
END_TEST

START_TEST(a_batch_is_given_up_when_its_time_is_just_over) {
    open_all((struct tracer_times){.gather_ns = 1, .retry_ns = NS_PER_S});
    collector.reply = NULL;
    test_clock_stop();
    add(1);
    test_clock_pass(1);
    UNTIL(collector.n_requests == 1);
    test_clock_pass(NS_PER_S);
    ck_assert_int_gt(send(collector.fd, "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n", 37, 0), 0);
    UNTIL(tracer_counts(tracer).n_failed == 1);
    close_all();
}
END_TEST

START_TEST(what_a_collector_rejects_has_failed) {
    static const char two[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x02";
    static const char many[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x7f";
    open_all((struct tracer_times){0});
    collector.reply = two;
    add(3);
    UNTIL(tracer_counts(tracer).n_sent == 1);
    expect(1, 0, 2);
    collector.reply = many;
    add(3);
    UNTIL(tracer_counts(tracer).n_failed == 5);
    expect(1, 0, 5);
    collector.reply = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nnonsense";
    add(1);
    UNTIL(tracer_counts(tracer).n_sent == 2);
    close_all();
}
END_TEST

/* 64 KiB of an answer are read, and with a byte more its connection is closed. */
START_TEST(an_answer_is_bounded) {
    static char reply[TRACER_ANSWER_BYTES + 128];
    open_all((struct tracer_times){0});
    for (unsigned more = 0; more < 2; more++) {
        int n = snprintf(reply, sizeof reply, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n",
                         TRACER_ANSWER_BYTES + more);
        memset(reply + n, 'x', TRACER_ANSWER_BYTES + more);
        reply[(size_t)n + TRACER_ANSWER_BYTES + more] = 0;
        collector.reply = reply;
        add(1);
        UNTIL(tracer_counts(tracer).n_sent == 1 + 2 * more);
        collector.reply = OK;
        add(1);
        UNTIL(tracer_counts(tracer).n_sent == 2 + 2 * more);
        ck_assert_uint_eq(collector.n_connections, 1 + more);
    }
    close_all();
}
END_TEST

START_TEST(the_end_waits_for_nothing) {
    for (unsigned i = 0; i < 2; i++) {
        open_all((struct tracer_times){.backoff_ns_min = 1000 * NS_PER_S,
                                       .backoff_ns_max = 1000 * NS_PER_S});
        if (i == 1) { /* it waits after a failure */
            collector.reply = "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n";
            add(1);
            UNTIL(collector.n_requests == 1);
            turns_for(5 * NS_PER_MS);
            collector.reply = OK;
        }
        test_clock_stop();
        add(2);
        tracer_end(tracer);
        ck_assert(!tracer_has_ended(tracer));
        UNTIL(tracer_has_ended(tracer));
        expect(2 + i, 0, 0);
        close_all();
    }
}
END_TEST

START_TEST(the_end_has_its_time) {
    open_all((struct tracer_times){.end_ns = NS_PER_S});
    collector.reply = NULL;
    test_clock_stop();
    add(1);
    tracer_end(tracer);
    UNTIL(collector.n_requests == 1);
    test_clock_pass(NS_PER_S - 1);
    ck_assert(!tracer_has_ended(tracer));
    test_clock_pass(1);
    ck_assert(tracer_has_ended(tracer));
    close_all();
}
END_TEST

/* Each batch once: a collector that refuses does not keep a router. */
START_TEST(at_the_end_nothing_is_tried_again) {
    open_all((struct tracer_times){0});
    collector.reply = "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n";
    test_clock_stop();
    add(TRACE_BATCH_SPANS + 1);
    tracer_end(tracer);
    UNTIL(tracer_has_ended(tracer));
    ck_assert_uint_eq(collector.n_requests, 2);
    expect(0, 0, TRACE_BATCH_SPANS + 1);
    close_all();
}
END_TEST

START_TEST(a_collector_that_comes_late_is_found) {
    open_all((struct tracer_times){0});
    collector_close();
    add(2);
    turns_for(3 * STEP_NS);
    expect(0, 0, 0);
    collector_listen();
    UNTIL(tracer_counts(tracer).n_sent == 2);
    close_all();
}
END_TEST

/* The collector of open_all() moves to the other loopback address. False: there is no IPv6 here. */
static bool collector_moves_to_v6(void) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_port = htons(collector.port),
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    collector_close();
    collector.listener = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
    return collector.listener >= 0 &&
           bind(collector.listener, (struct sockaddr *)&address, sizeof address) == 0 &&
           listen(collector.listener, 4) == 0;
}

/* Of its two addresses one is served, whichever that is. */
START_TEST(localhost_is_this_host) {
    open_all((struct tracer_times){0});
    tracer_free(tracer);
    open_named("localhost", (struct tracer_times){.gather_ns = 1, .backoff_ns_min = STEP_NS});
    add(2);
    UNTIL(tracer_counts(tracer).n_sent == 2);
    ck_assert_ptr_nonnull(strstr(collector.head, "Host: localhost:"));
    if (collector_moves_to_v6()) {
        add(1);
        UNTIL(tracer_counts(tracer).n_sent == 3);
        ck_assert_uint_eq(collector.n_connections, 2);
    }
    close_all();
}
END_TEST

/* A name that nobody has: the loop goes on, and the spans are kept. */
START_TEST(a_name_is_asked_for_beside_the_loop) {
    open_all((struct tracer_times){0});
    tracer_free(tracer);
    open_named("nobody.invalid", (struct tracer_times){.gather_ns = 1, .backoff_ns_min = 1});
    add(2);
    turns_for(STEP_NS);
    expect(0, 0, 0);
    tracer_end(tracer);
    UNTIL(tracer_has_ended(tracer));
    expect(0, 0, 2);
    close_all();
}
END_TEST

START_TEST(a_share_of_the_traces_is_recorded) {
    open_all((struct tracer_times){0});
    ck_assert(tracer_records(tracer, &(struct trace){.trace_id = {[8] = 0x7f}}));
    ck_assert(!tracer_records(tracer, &(struct trace){.trace_id = {[8] = 0x80}}));
    close_all();
}
END_TEST

START_TEST(urls_are_read_or_refused) {
    static const struct {
        const char *text, *host, *port, *path;
    } good[] = {{"http://c:4318", "c", "4318", "/v1/traces"},
                {"http://c:4318/", "c", "4318", "/v1/traces"},
                {"http://c:4318/v1", "c", "4318", "/v1/traces"},
                {"http://c:4318/v1/traces", "c", "4318", "/v1/traces"},
                {"https://c/otlp/x?y=1", "c", "443", "/otlp/x?y=1"},
                {"http://[::1]:1", "::1", "1", "/v1/traces"}};
    static const char *const bad[] = {"",           "c:4318",      "grpc://c:4317", "ftp://c",
                                      "http://",    "http://c:x",  "http://a b",    "http://u@c",
                                      "http://c/#", "http://c/\n", "http://c/\xc3", "HTTP://c"};
    struct http_url url;
    struct error error;
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(tracer_read_url(good[i].text, &url, &error), STATUS_OK);
        ck_assert_str_eq(url.host, good[i].host);
        ck_assert_str_eq(url.port, good[i].port);
        ck_assert_str_eq(url.base, good[i].path);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(tracer_read_url(bad[i], &url, &error) == STATUS_INVALID, "%s", bad[i]);
}
END_TEST

START_TEST(headers_are_taken_or_refused) {
    static const char *const bad[] = {"",       "x", ": y", "x y: z", "x\n: y", "x: y\r\nz: a",
                                      "x: \xc3"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(tracer_header_fault(bad[i]) != NULL, "%s", bad[i]);
    ck_assert_ptr_null(tracer_header_fault("x-key: a b~"));
    ck_assert_ptr_null(tracer_header_fault("x:"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, spans_go_together_over_one_connection);
    tcase_add_test(tests, a_batch_is_gathered_for_its_time);
    tcase_add_test(tests, a_full_batch_goes_at_once);
    tcase_add_test(tests, a_batch_behind_another_is_gathered_too);
    tcase_add_test(tests, without_a_tracer_nothing_is_counted);
    tcase_add_test(tests, what_the_queue_does_not_hold_is_dropped);
    tcase_add_test(tests, four_answers_are_for_now_and_all_others_for_good);
    tcase_add_test(tests, a_failure_is_waited_after_for_ever_longer);
    tcase_add_test(tests, a_collector_says_how_long_to_wait);
    tcase_add_test(tests, one_that_does_not_answer_is_asked_again);
    tcase_add_test(tests, a_batch_is_given_up_after_its_time);
    tcase_add_test(tests, a_batch_is_given_up_when_its_time_is_just_over);
    tcase_add_test(tests, what_a_collector_rejects_has_failed);
    tcase_add_test(tests, an_answer_is_bounded);
    tcase_add_test(tests, the_end_waits_for_nothing);
    tcase_add_test(tests, the_end_has_its_time);
    tcase_add_test(tests, at_the_end_nothing_is_tried_again);
    tcase_add_test(tests, a_collector_that_comes_late_is_found);
    tcase_add_test(tests, localhost_is_this_host);
    tcase_add_test(tests, a_name_is_asked_for_beside_the_loop);
    tcase_add_test(tests, a_share_of_the_traces_is_recorded);
    tcase_add_test(tests, urls_are_read_or_refused);
    tcase_add_test(tests, headers_are_taken_or_refused);
}
