#include "router/front/listener.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/random.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "router_listener";
const double suite_timeout_s = 120;

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

static struct loop *loop;
static struct listener *listener;
static struct exchanges *exchanges;
static struct listener_config config;
static uint64_t held[64]; /* ids of /wait and /stream, in order of arrival */
static unsigned n_held, n_gone, n_drained, n_handled;
static uint64_t gone_tag;

static void on_gone(struct exchange *exchange) {
    n_gone++;
    gone_tag = exchange->tag;
    /* The id is dead already: late calls find nothing, and nothing happens. */
    ck_assert_int_eq(exchange_end(exchanges, exchange->id), STATUS_NOT_FOUND);
    ck_assert_int_eq(exchange_abort(exchanges, exchange->id), STATUS_NOT_FOUND);
}

static void on_drained(struct exchange *exchange) {
    (void)exchange;
    n_drained++;
}

/* /wait and /stream are held, /big answers 8 MiB, /abort breaks off, the rest is an echo. */
static void handle(void *user, struct exchange *exchange) {
    (void)user;
    n_handled++;
    exchange->gone = on_gone;
    exchange->drained = on_drained;
    exchange->tag = n_handled;
    if (strcmp(exchange->path, "/wait") == 0 || strcmp(exchange->path, "/stream") == 0) {
        held[n_held++ % 64] = exchange->id;
    } else if (strcmp(exchange->path, "/abort") == 0) {
        ck_assert_int_eq(exchange_abort(exchanges, exchange->id), STATUS_OK);
    } else if (strcmp(exchange->path, "/big") == 0) {
        char *big = malloc(8 << 20);
        memset(big, 'b', 8 << 20);
        struct exchange_reply reply = {.status = 200, .body = big, .n_body = 8 << 20};
        ck_assert_int_eq(exchange_reply(exchanges, exchange->id, &reply), STATUS_OK);
        free(big);
    } else {
        struct header extra = {"x-method", exchange->method};
        struct exchange_reply reply = {.status = 200,
                                       .content_type = "text/plain",
                                       .headers = &extra,
                                       .n_headers = 1,
                                       .body = exchange->n_body ? exchange->body : exchange->path};
        reply.n_body = exchange->n_body ? exchange->n_body : strlen(exchange->path);
        uint64_t id = exchange->id;
        ck_assert_int_eq(exchange_reply(exchanges, id, &reply), STATUS_OK);
        ck_assert_int_eq(exchange_reply(exchanges, id, &reply), STATUS_NOT_FOUND);
    }
}

static void start(void) {
    struct error error = {0};
    ck_assert_msg(listener_new(loop, "127.0.0.1:0", &config, handle, NULL, &listener, &error) ==
                      STATUS_OK,
                  "%s", error.text);
    exchanges = listener_exchanges(listener);
}

static void setup(void) {
    n_held = n_gone = n_drained = n_handled = 0;
    listener = NULL;
    config = listener_config_default;
    config.n_connections_max = 16;
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
}

static void teardown(void) {
    listener_free(listener);
    loop_free(loop);
}

static int dial_with(int receive_bytes) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(listener_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int dial(const char *text) {
    int fd = dial_with(0);
    ck_assert_int_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

/* Turns the loop until the client has read `n` bytes or the end; keeps the text, NUL-terminated.
 * *ended: the server closed. */
static struct buf got;
static bool ended;

static void read_until(int fd, size_t n) {
    static char piece[65536];
    buf_fini(&got);
    buf_puts(&got, "");
    ended = false;
    for (bool wait = true; got.n < n && !ended;) {
        loop_turn(loop, wait);
        ssize_t more = recv(fd, piece, sizeof piece, 0);
        if (more > 0)
            buf_append(&got, piece, (size_t)more);
        ended = more == 0 || (more < 0 && errno != EAGAIN);
        wait = more < 0; /* there may be more for the client while the server has nothing to do */
    }
}

static void read_until_text(int fd, const char *text) {
    static char piece[65536];
    buf_fini(&got);
    buf_puts(&got, "");
    ended = false;
    while (!strstr(got.data, text)) {
        ck_assert_msg(!ended, "closed after: %s", got.data);
        loop_turn(loop, true);
        ssize_t more = recv(fd, piece, sizeof piece, 0);
        if (more > 0)
            buf_append(&got, piece, (size_t)more);
        ended = more == 0;
    }
}

static void turn_until(const unsigned *counter, unsigned n) {
    while (*counter < n)
        loop_turn(loop, true);
}

START_TEST(a_reply_has_its_length_and_the_connection_goes_on) {
    start();
    int fd =
        dial("POST /x HTTP/1.1\r\nHost: h\r\nX-Request-Id: abc-1\r\nContent-Length: 4\r\n\r\nbody");
    read_until_text(fd, "\r\n\r\nbody");
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 200 OK\r\nDate: ", 23), 0);
    ck_assert_ptr_nonnull(strstr(got.data, "\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"
                                           "x-request-id: abc-1\r\nx-method: POST\r\n\r\nbody"));
    ck_assert_ptr_null(strstr(got.data, "Connection"));
    ck_assert_int_eq(send(fd, GET("/again"), strlen(GET("/again")), 0), strlen(GET("/again")));
    read_until_text(fd, "\r\n\r\n/again");
    ck_assert_ptr_null(strstr(got.data, "x-request-id"));
    ck_assert_uint_eq(listener_counts(listener).n_accepted, 1);
    close(fd);
}
END_TEST

START_TEST(head_gets_the_length_and_no_body) {
    start();
    int fd = dial("HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n" GET("/next"));
    read_until_text(fd, "/next");
    ck_assert_ptr_nonnull(
        strstr(got.data, "Content-Length: 6\r\nx-method: HEAD\r\n\r\nHTTP/1.1 200"));
    close(fd);
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order) {
    start();
    int fd = dial(GET("/one") GET("/wait") GET("/three"));
    read_until_text(fd, "/one");
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(n_handled, 2); /* the third waits for the second's reply */
    struct exchange_reply reply = {.status = 503, .body = "two", .n_body = 3};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    read_until_text(fd, "/three");
    ck_assert_ptr_nonnull(strstr(got.data, "\r\n\r\ntwoHTTP/1.1 200 OK"));
    close(fd);
}
END_TEST

START_TEST(thousands_sent_ahead_are_all_answered) {
    enum { N = 3000 };
    start();
    int fd = dial_with(0);
    struct buf out;
    buf_init(&out, 0);
    for (unsigned i = 0; i < N; i++)
        buf_printf(&out, "GET /%05u HTTP/1.1\r\nHost: h\r\n\r\n", i);
    buf_fini(&got);
    buf_puts(&got, "");
    static char piece[65536];
    size_t sent = 0;
    while (n_handled < N || !strstr(got.data + (got.n > 200 ? got.n - 200 : 0), "/02999")) {
        ssize_t n = sent < out.n ? send(fd, out.data + sent, out.n - sent, 0) : 0;
        sent += n > 0 ? (size_t)n : 0;
        loop_turn(loop, false);
        while ((n = recv(fd, piece, sizeof piece, 0)) > 0)
            buf_append(&got, piece, (size_t)n);
    }
    const char *at = got.data;
    for (unsigned i = 0; i < N; i++) {
        char path[16];
        snprintf(path, sizeof path, "\r\n\r\n/%05u", i);
        at = strstr(at, path);
        ck_assert_ptr_nonnull(at);
    }
    buf_fini(&out);
    close(fd);
}
END_TEST

START_TEST(a_stream_is_chunked_and_one_turn_is_one_read) {
    start();
    int fd = dial(GET("/stream"));
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200, .content_type = "text/event-stream"};
    ck_assert_int_eq(exchange_write(exchanges, held[0], "x", 1), STATUS_CONFLICT);
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &head), STATUS_CONFLICT);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "data: 1\n\n", 9), STATUS_OK);
    read_until_text(fd, "data: 1");
    ck_assert_ptr_nonnull(
        strstr(got.data, "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"));
    ck_assert_int_eq(exchange_write(exchanges, held[0], "a", 1), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "0123456789abcdef", 16), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0]), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0]), STATUS_NOT_FOUND);
    loop_turn(loop, false);
    char text[64] = "";
    ck_assert_int_gt(recv(fd, text, sizeof text - 1, 0), 0);
    ck_assert_str_eq(text, "1\r\na\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n");
    ck_assert_int_eq(send(fd, GET("/next"), strlen(GET("/next")), 0), strlen(GET("/next")));
    read_until_text(fd, "/next");
    close(fd);
}
END_TEST

START_TEST(http10_streams_until_the_connection_closes) {
    start();
    int fd = dial("GET /stream HTTP/1.0\r\n\r\n");
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "abc", 3), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0]), STATUS_OK);
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "\r\nConnection: close\r\n\r\nabc"));
    ck_assert_ptr_null(strstr(got.data, "chunked"));
    close(fd);
}
END_TEST

START_TEST(a_client_that_leaves_while_it_waits_is_noticed) {
    start();
    struct exchange_reply reply = {.status = 200};
    for (unsigned i = 1; i <= 40; i++) { /* more than there are slots: they are used again */
        int fd = dial(GET("/wait"));
        turn_until(&n_held, i);
        uint64_t id = held[(i - 1) % 64];
        ck_assert_ptr_nonnull(exchange_find(exchanges, id));
        if (i % 2) {
            struct linger linger = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        close(fd);
        turn_until(&n_gone, i);
        ck_assert_uint_eq(gone_tag, i);
        ck_assert_ptr_null(exchange_find(exchanges, id));
        ck_assert_int_eq(exchange_reply(exchanges, id, &reply), STATUS_NOT_FOUND);
        for (unsigned k = 0; k + 1 < i; k++)
            ck_assert(held[k] != id);
    }
    ck_assert_uint_eq(listener_counts(listener).n_gone, 40);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
}
END_TEST

START_TEST(a_client_that_leaves_is_noticed_behind_what_it_sent_ahead) {
    start();
    int fd = dial(GET("/wait"));
    turn_until(&n_held, 1);
    static char ahead[100000]; /* enough to pause reading, little enough to leave the client */
    memset(ahead, 'x', sizeof ahead);
    for (size_t sent = 0; sent < sizeof ahead;) {
        ssize_t n = send(fd, ahead + sent, sizeof ahead - sent, 0);
        sent += n > 0 ? (size_t)n : 0;
        loop_turn(loop, false);
    }
    close(fd);
    turn_until(&n_gone, 1);
}
END_TEST

START_TEST(a_refused_request_gets_its_status_and_a_close) {
    static const struct {
        const char *text;
        const char *status;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", "HTTP/1.1 413 "},
        {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", "HTTP/1.1 505 "},
        {"POST / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n", "HTTP/1.1 417 "},
    };
    start();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = dial(cases[i].text);
        send(fd, GET("/smuggled"), strlen(GET("/smuggled")), 0);
        read_until(fd, SIZE_MAX);
        ck_assert_int_eq(strncmp(got.data, cases[i].status, strlen(cases[i].status)), 0);
        ck_assert_ptr_nonnull(strstr(got.data, "\r\nConnection: close\r\n"));
        ck_assert_ptr_nonnull(strstr(got.data, "{\"error\":{\"message\":\""));
        ck_assert_ptr_nonnull(strstr(got.data, "\",\"type\":\""));
        ck_assert_ptr_nonnull(strstr(got.data, "_error\",\"param\":null,\"code\":null}}"));
        close(fd);
    }
    ck_assert_uint_eq(n_handled, 0);
    ck_assert_uint_eq(listener_counts(listener).n_refused, 4);
}
END_TEST

START_TEST(continue_is_sent_before_the_body) {
    start();
    int fd =
        dial("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    read_until_text(fd, "\r\n\r\n");
    ck_assert_str_eq(got.data, "HTTP/1.1 100 Continue\r\n\r\n");
    ck_assert_int_eq(send(fd, "ok", 2, 0), 2);
    read_until_text(fd, "\r\n\r\nok");
    close(fd);
}
END_TEST

START_TEST(the_http2_preface_is_answered_by_closing) {
    start();
    int fd = dial("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    read_until(fd, SIZE_MAX);
    ck_assert_uint_eq(got.n, 0);
    ck_assert_uint_eq(listener_counts(listener).n_http2, 1);
    close(fd);
}
END_TEST

START_TEST(slow_heads_and_bodies_get_408_and_idle_ones_a_close) {
    config.head_ns = config.body_ns = config.idle_ns = 60 * NS_PER_MS;
    start();
    int head = dial("GET / HTTP/1.1\r\n");
    read_until(head, SIZE_MAX);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 408 ", 13), 0);
    close(head);
    int body = dial("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
    read_until(body, SIZE_MAX);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 408 ", 13), 0);
    close(body);
    int idle = dial(GET("/x"));
    read_until(idle, SIZE_MAX);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 200 ", 13), 0);
    ck_assert_ptr_null(strstr(got.data, "408"));
    close(idle);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 2);
}
END_TEST

START_TEST(waiting_for_a_reply_has_no_time_limit_of_the_front) {
    config.head_ns = config.body_ns = config.idle_ns = config.stall_ns = 20 * NS_PER_MS;
    start();
    int waiting = dial(GET("/wait"));
    turn_until(&n_held, 1);
    int idle = dial_with(0);
    read_until(idle, SIZE_MAX); /* several sweeps have passed when this one is closed */
    ck_assert_ptr_nonnull(exchange_find(exchanges, held[0]));
    close(idle);
    close(waiting);
}
END_TEST

START_TEST(a_stream_that_is_not_read_is_bounded_and_drains) {
    config.output_bytes_max = 100000;
    start();
    int fd = dial_with(4096);
    ck_assert_int_gt(send(fd, GET("/stream"), strlen(GET("/stream")), 0), 0);
    turn_until(&n_held, 1);
    static char event[10000];
    memset(event, 'e', sizeof event);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    enum status status = STATUS_OK;
    size_t n_written = 0;
    for (unsigned i = 0; i < 10000 && status == STATUS_OK; i++) {
        status = exchange_write(exchanges, held[0], event, sizeof event);
        n_written += status == STATUS_OK;
        if (i % 5 == 4)
            loop_turn(loop, false);
    }
    ck_assert_int_eq(status, STATUS_BUSY);
    ck_assert_uint_le(exchange_pending(exchanges, held[0]), 100000 + 100);
    static char piece[65536];
    size_t n_read = 0;
    while (n_drained == 0) {
        loop_turn(loop, false);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        n_read += n > 0 ? (size_t)n : 0;
    }
    ck_assert_int_eq(exchange_write(exchanges, held[0], "end", 3), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0]), STATUS_OK);
    while (n_read < n_written * sizeof event || !memmem(piece, sizeof piece, "end\r\n0\r\n", 8)) {
        loop_turn(loop, false);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        n_read += n > 0 ? (size_t)n : 0;
    }
    close(fd);
}
END_TEST

START_TEST(a_stream_that_is_never_read_is_closed) {
    config.stall_ns = 50 * NS_PER_MS;
    config.output_bytes_max = 1000;
    start();
    int fd = dial_with(4096);
    ck_assert_int_gt(send(fd, GET("/stream"), strlen(GET("/stream")), 0), 0);
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200};
    static char event[65536];
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    loop_turn(loop, false); /* the head leaves alone: the bound is smaller than an event */
    while (exchange_write(exchanges, held[0], event, sizeof event) == STATUS_OK)
        loop_turn(loop, false);
    turn_until(&n_gone, 1);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    close(fd);
}
END_TEST

START_TEST(a_large_reply_arrives_whole) {
    start();
    int fd = dial_with(65536);
    ck_assert_int_gt(send(fd, GET("/big"), strlen(GET("/big")), 0), 0);
    read_until(fd, 8 << 20);
    const char *body = strstr(got.data, "\r\n\r\n") + 4;
    read_until(fd, (size_t)(8 << 20) - (got.n - (size_t)(body - got.data)));
    ck_assert(!ended);
    close(fd);
}
END_TEST

START_TEST(abort_breaks_off_without_a_gone_call) {
    start();
    int at_once = dial(GET("/abort"));
    read_until(at_once, SIZE_MAX);
    ck_assert_uint_eq(got.n, 0);
    close(at_once);
    int later = dial(GET("/stream"));
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "abc", 3), STATUS_OK);
    read_until_text(later, "abc");
    ck_assert_int_eq(exchange_abort(exchanges, held[0]), STATUS_OK);
    read_until(later, SIZE_MAX);
    ck_assert_ptr_null(strstr(got.data, "0\r\n\r\n"));
    ck_assert_uint_eq(n_gone, 0);
    close(later);
}
END_TEST

START_TEST(a_full_pool_gives_up_idle_clients_and_lets_others_wait) {
    config.n_connections_max = 3;
    start();
    int idle = dial(GET("/x"));
    read_until_text(idle, "/x");
    int a = dial(GET("/wait"));
    int b = dial(GET("/wait"));
    turn_until(&n_held, 2);
    read_until(idle, SIZE_MAX); /* closed to make room */
    ck_assert_uint_eq(listener_counts(listener).n_evicted, 1);
    int c = dial(GET("/wait"));
    turn_until(&n_held, 3);
    int d = dial(GET("/wait"));
    for (unsigned i = 0; i < 20; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(n_held, 3);
    ck_assert_uint_eq(listener_counts(listener).n_open, 3);
    close(a);
    turn_until(&n_held, 4);
    close(idle);
    close(b);
    close(c);
    close(d);
}
END_TEST

START_TEST(draining_ends_each_connection_with_its_reply) {
    start();
    int busy = dial(GET("/wait"));
    int idle = dial(GET("/x"));
    read_until_text(idle, "/x");
    turn_until(&n_held, 1);
    listener_drain(listener);
    read_until(idle, SIZE_MAX);
    ck_assert_uint_eq(got.n, 0);
    struct exchange_reply reply = {.status = 200, .body = "bye", .n_body = 3};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    read_until(busy, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close\r\n\r\nbye"));
    close(busy);
    close(idle);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
}
END_TEST

START_TEST(a_header_of_ours_cannot_be_split) {
    start();
    int fd = dial(GET("/wait"));
    turn_until(&n_held, 1);
    struct header evil = {"x-evil", "a\r\nSet-Cookie: b"};
    struct exchange_reply reply = {.status = 200, .headers = &evil, .n_headers = 1};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    read_until_text(fd, "\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(got.data, "x-evil: aSet-Cookie: b\r\n"));
    close(fd);
}
END_TEST

/* Random clients do random things; the sanitizers and the counts say whether all was given back. */
START_TEST(a_storm_of_rude_clients_leaves_nothing_behind) {
    static const char *const texts[] = {
        GET("/x"),
        GET("/wait"),
        GET("/stream"),
        GET("/abort"),
        GET("/big"),
        GET("/x") GET("/wait"),
        "GET / HT",
        "junk\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab",
        "PRI * HTTP/2.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"};
    config.n_connections_max = 8;
    config.linger_ns = 20 * NS_PER_MS;
    start();
    int fds[12];
    struct random random = {.state = 11};
    struct exchange_reply reply = {.status = 200, .body = "r", .n_body = 1};
    for (unsigned i = 0; i < 12; i++)
        fds[i] = -1;
    for (unsigned round = 0; round < 4000; round++) {
        unsigned at = (unsigned)random_below(&random, 12);
        uint64_t id = held[random_below(&random, 64)];
        static char piece[4096];
        switch (random_below(&random, 7)) {
        case 0:
        case 1:
            if (fds[at] < 0)
                fds[at] = dial_with(0);
            const char *text = texts[random_below(&random, sizeof texts / sizeof *texts)];
            send(fds[at], text, strlen(text), MSG_NOSIGNAL);
            break;
        case 2:
            if (fds[at] >= 0)
                close(fds[at]);
            fds[at] = -1;
            break;
        case 3:
            exchange_reply(exchanges, id, &reply);
            break;
        case 4:
            exchange_begin_stream(exchanges, id, &reply);
            (void)!exchange_write(exchanges, id, "abc", 3);
            break;
        case 5:
            (void)!exchange_write(exchanges, id, "abc", 3);
            exchange_end(exchanges, id);
            break;
        default:
            if (fds[at] >= 0)
                (void)!recv(fds[at], piece, sizeof piece, 0);
        }
        loop_turn(loop, false);
    }
    for (unsigned i = 0; i < 12; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
    ck_assert_uint_gt(n_handled, 100);
}
END_TEST

START_TEST(freeing_the_listener_tells_those_that_wait) {
    start();
    int fd = dial(GET("/wait"));
    turn_until(&n_held, 1);
    listener_free(listener);
    listener = NULL;
    ck_assert_uint_eq(n_gone, 1);
    close(fd);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_reply_has_its_length_and_the_connection_goes_on);
    tcase_add_test(tests, head_gets_the_length_and_no_body);
    tcase_add_test(tests, pipelined_requests_are_answered_in_order);
    tcase_add_test(tests, thousands_sent_ahead_are_all_answered);
    tcase_add_test(tests, a_stream_is_chunked_and_one_turn_is_one_read);
    tcase_add_test(tests, http10_streams_until_the_connection_closes);
    tcase_add_test(tests, a_client_that_leaves_while_it_waits_is_noticed);
    tcase_add_test(tests, a_client_that_leaves_is_noticed_behind_what_it_sent_ahead);
    tcase_add_test(tests, a_refused_request_gets_its_status_and_a_close);
    tcase_add_test(tests, continue_is_sent_before_the_body);
    tcase_add_test(tests, the_http2_preface_is_answered_by_closing);
    tcase_add_test(tests, slow_heads_and_bodies_get_408_and_idle_ones_a_close);
    tcase_add_test(tests, waiting_for_a_reply_has_no_time_limit_of_the_front);
    tcase_add_test(tests, a_stream_that_is_not_read_is_bounded_and_drains);
    tcase_add_test(tests, a_stream_that_is_never_read_is_closed);
    tcase_add_test(tests, a_large_reply_arrives_whole);
    tcase_add_test(tests, abort_breaks_off_without_a_gone_call);
    tcase_add_test(tests, a_full_pool_gives_up_idle_clients_and_lets_others_wait);
    tcase_add_test(tests, draining_ends_each_connection_with_its_reply);
    tcase_add_test(tests, a_header_of_ours_cannot_be_split);
    tcase_add_test(tests, a_storm_of_rude_clients_leaves_nothing_behind);
    tcase_add_test(tests, freeing_the_listener_tells_those_that_wait);
}
