#include "base/net/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/net/loop.h"
#include "base/net/tcp.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "base_stream";
const double suite_timeout_s = 60;

static struct loop *loop;
static struct tcp_listener *listener;
static struct stream *stream;
static struct buf got;
static unsigned n_gone, n_drained, n_accepted;
static enum status gone_status;

static void on_data(void *user, const char *bytes, size_t n) {
    (void)user;
    buf_append(&got, bytes, n);
}

static void on_drained(void *user) {
    (void)user;
    n_drained++;
}

static void on_gone(void *user, enum status status) {
    (void)user;
    n_gone++;
    gone_status = status;
}

static const struct stream_events events = {
    .data = on_data, .drained = on_drained, .gone = on_gone};

static void on_accept(void *user, int fd) {
    (void)user;
    n_accepted++;
    if (!stream)
        ck_assert_int_eq(stream_new(loop, fd, &events, NULL, &stream), STATUS_OK);
    else
        close(fd);
}

static void setup(void) {
    struct error error;
    stream = NULL;
    n_gone = n_drained = n_accepted = 0;
    buf_init(&got, 0);
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    ck_assert_int_eq(tcp_listen(loop, "127.0.0.1:0", on_accept, NULL, &listener, &error),
                     STATUS_OK);
}

static void teardown(void) {
    stream_close(stream);
    tcp_listener_free(listener);
    loop_free(loop);
    buf_fini(&got);
}

static int dial(void) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(tcp_listener_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int dial_and_accept(void) {
    int fd = dial();
    while (!stream)
        loop_turn(loop, true);
    return fd;
}

START_TEST(accepted_sockets_have_nodelay_and_bounded_buffers) {
    int fd = dial_and_accept();
    int value = 0;
    socklen_t n = sizeof value;
    getsockopt(stream_fd(stream), IPPROTO_TCP, TCP_NODELAY, &value, &n);
    ck_assert_int_ne(value, 0);
    n = sizeof value;
    ck_assert_int_eq(getsockopt(stream_fd(stream), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &n), 0);
    ck_assert_int_eq(value, 64 * 1024);
    ck_assert_int_ne(fcntl(stream_fd(stream), F_GETFL) & O_NONBLOCK, 0);
    close(fd);
}
END_TEST

START_TEST(writes_of_one_turn_arrive_as_one_read) {
    int fd = dial_and_accept();
    ck_assert_int_eq(stream_write(stream, "one ", 4), STATUS_OK);
    ck_assert_int_eq(stream_write(stream, "two ", 4), STATUS_OK);
    ck_assert_int_eq(stream_write(stream, "three", 5), STATUS_OK);
    ck_assert_uint_eq(stream_pending(stream), 13);
    loop_turn(loop, false);
    ck_assert_uint_eq(stream_pending(stream), 0);
    char text[64] = "";
    ck_assert_int_eq(recv(fd, text, sizeof text, 0), 13);
    ck_assert_str_eq(text, "one two three");
    close(fd);
}
END_TEST

START_TEST(bytes_come_in_and_the_end_comes_once) {
    int fd = dial_and_accept();
    ck_assert_int_eq(send(fd, "hello", 5, 0), 5);
    while (got.n < 5)
        loop_turn(loop, true);
    ck_assert_str_eq(got.data, "hello");
    close(fd);
    while (n_gone == 0)
        loop_turn(loop, true);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(n_gone, 1);
    ck_assert_int_eq(gone_status, STATUS_CLOSED);
    ck_assert_int_eq(stream_write(stream, "x", 1), STATUS_CLOSED);
}
END_TEST

/* However much lies in a socket, nothing is left behind, nor the end. */
START_TEST(what_came_at_once_is_read_to_its_end) {
    static char bytes[3 * LOOP_SCRATCH_BYTES];
    int fd = dial_and_accept(), room = 2 * sizeof bytes;
    setsockopt(stream_fd(stream), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    ssize_t n = send(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    ck_assert_int_gt(n, LOOP_SCRATCH_BYTES);
    loop_turn(loop, true);
    size_t n_first = got.n;
    ck_assert_uint_ge(n_first, 1);
    stream_pause(stream, true);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(got.n, n_first);
    stream_pause(stream, false);
    while (got.n < (size_t)n)
        loop_turn(loop, true);
    ck_assert_uint_eq(n_gone, 0);
    n_first = got.n;
    n = send(fd, bytes, LOOP_SCRATCH_BYTES + 1, MSG_DONTWAIT); /* and the end behind it */
    close(fd);
    while (n_gone == 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(got.n, n_first + (size_t)n);
}
END_TEST

START_TEST(few_bytes_and_the_end_may_come_together) {
    int fd = dial_and_accept();
    ck_assert_int_eq(send(fd, "bye", 3, 0), 3);
    close(fd);
    while (n_gone == 0)
        loop_turn(loop, true);
    ck_assert_str_eq(got.data, "bye");
    ck_assert_int_eq(gone_status, STATUS_CLOSED);
}
END_TEST

START_TEST(paused_stream_reads_nothing_but_notices_a_close) {
    int fd = dial_and_accept();
    stream_pause(stream, true);
    ck_assert_int_eq(send(fd, "hello", 5, 0), 5);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(got.n, 0);
    close(fd);
    while (n_gone == 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(got.n, 0);
}
END_TEST

START_TEST(reset_is_noticed) {
    int fd = dial_and_accept();
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
    while (n_gone == 0)
        loop_turn(loop, true);
    ck_assert_int_eq(gone_status, STATUS_IO);
}
END_TEST

/* The send hears of it before anything is read. */
START_TEST(a_send_to_a_peer_that_reset_ends_the_stream_as_broken) {
    int fd = dial_and_accept();
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
    ck_assert_int_eq(stream_write(stream, "x", 1), STATUS_OK);
    while (n_gone == 0)
        loop_turn(loop, false); /* nothing wakes it behind the send */
    ck_assert_int_eq(gone_status, STATUS_IO);
    ck_assert_uint_eq(n_drained, 0);
    ck_assert_int_eq(stream_write(stream, "y", 1), STATUS_CLOSED);
}
END_TEST

START_TEST(large_output_waits_for_a_slow_reader_and_drains) {
    enum { N = 16 << 20 };
    int fd = dial_and_accept();
    char *block = malloc(N);
    for (size_t i = 0; i < N; i++)
        block[i] = (char)(i * 2654435761u >> 13);
    ck_assert_int_eq(stream_write(stream, block, N), STATUS_OK);
    loop_turn(loop, false);
    ck_assert_uint_gt(stream_pending(stream), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    size_t n_read = 0;
    static char piece[1 << 16];
    while (n_read < N) {
        loop_turn(loop, false);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n > 0) {
            ck_assert_mem_eq(piece, block + n_read, (size_t)n);
            n_read += (size_t)n;
        }
    }
    loop_turn(loop, false);
    ck_assert_uint_eq(stream_pending(stream), 0);
    ck_assert_uint_eq(n_drained, 1);
    free(block);
    close(fd);
}
END_TEST

START_TEST(large_runs_are_taken_over_and_keep_their_place) {
    enum { N = 4 << 20 };
    int fd = dial_and_accept();
    struct buf want, bytes[2];
    buf_init(&want, 0);
    for (unsigned k = 0; k < 2; k++) {
        buf_init(&bytes[k],
                 N); /* full: the bound of a run is not that of what is written behind it */
        for (unsigned i = 0; i < N / 8; i++)
            buf_printf(&bytes[k], "%u%07u", k, i);
    }
    buf_puts(&want, "head");
    buf_append(&want, bytes[0].data, bytes[0].n);
    buf_puts(&want, "between");
    buf_append(&want, bytes[1].data, bytes[1].n);
    buf_puts(&want, "end");
    ck_assert_int_eq(stream_write(stream, "head", 4), STATUS_OK);
    ck_assert_int_eq(stream_write_buf(stream, &bytes[0]), STATUS_OK);
    ck_assert_ptr_null(bytes[0].data); /* taken over */
    ck_assert_int_eq(stream_write(stream, "between", 7), STATUS_OK);
    ck_assert_int_eq(stream_write_buf(stream, &bytes[1]), STATUS_OK); /* one at a time: copied */
    ck_assert_int_eq(stream_write(stream, "end", 3), STATUS_OK);
    ck_assert_uint_eq(stream_pending(stream), want.n);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    size_t n_read = 0;
    static char piece[1 << 16];
    while (n_read < want.n) {
        loop_turn(loop, false);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n <= 0)
            continue;
        ck_assert_mem_eq(piece, want.data + n_read, (size_t)n);
        n_read += (size_t)n;
    }
    loop_turn(loop, false);
    ck_assert_uint_eq(stream_pending(stream), 0);
    buf_fini(&want);
    buf_fini(&bytes[0]);
    buf_fini(&bytes[1]);
    close(fd);
}
END_TEST

START_TEST(shutdown_sends_what_is_queued_first) {
    int fd = dial_and_accept();
    ck_assert_int_eq(stream_write(stream, "bye", 3), STATUS_OK);
    stream_shutdown(stream);
    loop_turn(loop, false);
    char text[8] = "";
    ck_assert_int_eq(recv(fd, text, sizeof text, 0), 3);
    ck_assert_int_eq(recv(fd, text, sizeof text, 0), 0);
    close(fd);
}
END_TEST

START_TEST(a_port_in_use_is_said_in_one_line) {
    char address[64];
    struct error error;
    struct tcp_listener *second = NULL;
    snprintf(address, sizeof address, "127.0.0.1:%u", tcp_listener_port(listener));
    ck_assert_int_eq(tcp_listen(loop, address, on_accept, NULL, &second, &error), STATUS_EXISTS);
    ck_assert_ptr_nonnull(strstr(error.text, "in use"));
    ck_assert_ptr_nonnull(strstr(error.text, address));
}
END_TEST

/* Is ::1 an address of this host, and does it take connections at this port? */
static bool dials_v6(uint16_t port) {
    struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool is_there = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
    if (fd >= 0)
        close(fd);
    return is_there;
}

static bool has_v6(void) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool is_there = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    return is_there;
}

START_TEST(every_address_is_that_of_both_kinds) {
    static const struct {
        const char *address;
        bool is_four, is_six;
    } rows[] = {
        {"127.0.0.1:0", true, false}, {"0.0.0.0:0", true, false}, {":0", true, true},
        {"[::]:0", true, true},       {"[::1]:0", false, true},
    };
    bool six = has_v6();
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error error = {0};
        if (!rows[i].is_four && !six)
            continue; /* this host has nothing to listen at */
        tcp_listener_free(listener);
        listener = NULL;
        ck_assert_msg(tcp_listen(loop, rows[i].address, on_accept, NULL, &listener, &error) ==
                          STATUS_OK,
                      "%s", error.text);
        if (rows[i].is_four)
            close(dial());
        if (six)
            ck_assert_int_eq(dials_v6(tcp_listener_port(listener)), rows[i].is_six);
        ck_assert_int_eq(tcp_listener_is_loopback(listener), i == 0 || i == 4);
    }
}
END_TEST

START_TEST(an_inherited_socket_is_listened_on) {
    char address[32];
    struct error error = {0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(listen(fd, 5), 0); /* binds to a free port of every address */
    tcp_listener_free(listener);
    snprintf(address, sizeof address, "fd:%d", fd);
    ck_assert_msg(tcp_listen(loop, address, on_accept, NULL, &listener, &error) == STATUS_OK, "%s",
                  error.text);
    int client = dial_and_accept();
    close(client);
    struct tcp_listener *other = NULL;
    static const char *const bad[] = {"fd:", "fd:x", "fd:0x3", "fd:9999999", "fd:999999"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(tcp_listen(loop, bad[i], on_accept, NULL, &other, &error), STATUS_INVALID);
        ck_assert_int_eq(error.may_pass, i == 4); /* a number that a descriptor may have, later */
    }
    snprintf(address, sizeof address, "fd:%d", client = dup(STDERR_FILENO));
    ck_assert_int_eq(tcp_listen(loop, address, on_accept, NULL, &other, &error), STATUS_INVALID);
    close(client);
}
END_TEST

START_TEST(addresses_are_read_strictly) {
    static const char *const bad[] = {"",        "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                                      "::1",     "[::1]",     "[]:80",      "127.0.0.1:65536",
                                      "[::1:80", "a:1:2",     "*:*",        "[fe80::1]:80"};
    struct error error;
    struct tcp_listener *other = NULL;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(tcp_listen(loop, bad[i], on_accept, NULL, &other, &error) == STATUS_INVALID,
                      "%s", bad[i]);
    ck_assert(tcp_is_loopback("127.0.0.1"));
    ck_assert(tcp_is_loopback("127.8.9.1"));
    ck_assert(tcp_is_loopback("::1"));
    ck_assert(tcp_is_loopback("localhost"));
    ck_assert(!tcp_is_loopback("0.0.0.0"));
    ck_assert(!tcp_is_loopback("::"));
    ck_assert(!tcp_is_loopback(""));
    ck_assert(!tcp_is_loopback("192.0.2.1"));
    ck_assert(!tcp_is_loopback("nonsense"));
}
END_TEST

static void on_time(void *user) {
    *(bool *)user = true;
}

/* What waits at a listener that is paused wakes nobody, however long it waits. */
START_TEST(a_paused_listener_accepts_nothing_and_lets_the_loop_sleep) {
    struct loop_timer *timer;
    bool is_time = false;
    ck_assert_int_eq(loop_timer_new(loop, on_time, &is_time, &timer), STATUS_OK);
    tcp_listener_pause(listener, true);
    int fd = dial();
    uint64_t n_before = loop_turns(loop);
    loop_timer_after(timer, 30 * NS_PER_MS);
    while (!is_time)
        loop_turn(loop, true);
    ck_assert_uint_eq(n_accepted, 0);
    ck_assert_uint_le(loop_turns(loop) - n_before, 5); /* the coarse clock may wake it twice */
    tcp_listener_pause(listener, false);
    while (n_accepted == 0)
        loop_turn(loop, true);
    loop_timer_free(timer);
    close(fd);
}
END_TEST

START_TEST(running_out_of_descriptors_pauses_and_recovers) {
    struct rlimit limit, tight;
    getrlimit(RLIMIT_NOFILE, &limit);
    int waiting = dial();
    tight = limit;
    int next = dup(waiting);
    tight.rlim_cur = (rlim_t)next; /* every number below it is taken */
    close(next);
    setrlimit(RLIMIT_NOFILE, &tight);
    while (tcp_listener_n_exhausted(listener) == 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(n_accepted, 0);
    setrlimit(RLIMIT_NOFILE, &limit);
    while (n_accepted == 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(n_accepted, 1);
    close(waiting);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, accepted_sockets_have_nodelay_and_bounded_buffers);
    tcase_add_test(tests, writes_of_one_turn_arrive_as_one_read);
    tcase_add_test(tests, bytes_come_in_and_the_end_comes_once);
    tcase_add_test(tests, what_came_at_once_is_read_to_its_end);
    tcase_add_test(tests, few_bytes_and_the_end_may_come_together);
    tcase_add_test(tests, paused_stream_reads_nothing_but_notices_a_close);
    tcase_add_test(tests, reset_is_noticed);
    tcase_add_test(tests, a_send_to_a_peer_that_reset_ends_the_stream_as_broken);
    tcase_add_test(tests, large_output_waits_for_a_slow_reader_and_drains);
    tcase_add_test(tests, large_runs_are_taken_over_and_keep_their_place);
    tcase_add_test(tests, shutdown_sends_what_is_queued_first);
    tcase_add_test(tests, a_port_in_use_is_said_in_one_line);
    tcase_add_test(tests, every_address_is_that_of_both_kinds);
    tcase_add_test(tests, an_inherited_socket_is_listened_on);
    tcase_add_test(tests, addresses_are_read_strictly);
    tcase_add_test(tests, a_paused_listener_accepts_nothing_and_lets_the_loop_sleep);
    tcase_add_test(tests, running_out_of_descriptors_pauses_and_recovers);
}
