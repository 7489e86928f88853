#include "tests/unit/base/http/rig.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "base_http_gate";
const double suite_timeout_s = 120;

#define POST(path, fields) "POST " path " HTTP/1.1\r\nHost: h\r\n" fields "\r\n"

static unsigned count(const char *text) {
    unsigned n = 0;
    for (const char *at = got.data; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* Sends n bytes of a body while the loop turns; a server that closes before is a failure. */
static void send_body(int fd, size_t n) {
    static char bytes[65536];
    for (size_t sent = 0; sent < n;) {
        size_t piece = n - sent < sizeof bytes ? n - sent : sizeof bytes;
        ssize_t more = send(fd, bytes, piece, MSG_NOSIGNAL);
        ck_assert(more > 0 || errno == EAGAIN);
        sent += more > 0 ? (size_t)more : 0;
        loop_turn(loop, false);
    }
}

static void wait_for_body_bytes(size_t n) {
    while (exchanges_body_bytes(exchanges) != n)
        loop_turn(loop, true);
}

START_TEST(a_refusal_does_not_wait_for_the_body) {
    rig_start();
    int fd = dial(POST("/no", "Content-Length: 5\r\n"));
    read_until_text(fd, "\r\n\r\nno");
    ck_assert_ptr_nonnull(strstr(got.data, "HTTP/1.1 401 "));
    ck_assert_ptr_null(strstr(got.data, "Connection: close"));
    ck_assert_int_eq(send(fd, "abcdeGET /y HTTP/1.1\r\nHost: h\r\n\r\n", 34, 0), 34);
    read_until_text(fd, "/y"); /* the body was skipped and the connection goes on */
    ck_assert_uint_eq(n_handled, 1);
    ck_assert_uint_eq(n_heads, 2);
    close(fd);
    int chunks =
        dial(POST("/no", "Transfer-Encoding: chunked\r\n") "1\r\na\r\n0\r\n\r\n" GET("/z"));
    read_until_text(chunks, "/z");
    ck_assert_uint_eq(n_handled, 2);
    close(chunks);
}
END_TEST

START_TEST(a_refused_client_with_a_long_body_reads_its_answer_and_is_closed) {
    test_clock_stop();
    rig_start();
    int fd = dial(POST("/no", "Content-Length: 4000000\r\n"));
    send_body(fd, 4000000); /* all of it, before it looks at the answer */
    read_until(fd, SIZE_MAX);
    ck_assert(ended);
    ck_assert_uint_eq(count("HTTP/1.1 401 "), 1);
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close"));
    ck_assert_uint_eq(n_handled, 0);
    close(fd);
    fd = dial(POST("/no", "Transfer-Encoding: chunked\r\n") "40000\r\n"); /* of 256 KiB */
    send_body(fd, 262144);
    read_until(fd, SIZE_MAX);
    ck_assert_uint_eq(count("HTTP/1.1 "), 1);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 0);
    close(fd);
}
END_TEST

START_TEST(a_refused_client_that_never_stops_sending_is_cut_off) {
    config.linger_ns = 20 * NS_PER_MS;
    config.limits.body_bytes = 1 << 20;
    rig_start();
    int fd = dial(POST("/no", "Content-Length: 1000000\r\n"));
    static char bytes[4096];
    while (listener_counts(listener).n_open > 0 || n_heads == 0) { /* each byte is in time */
        (void)!send(fd, bytes, 1, MSG_NOSIGNAL);
        loop_turn(loop, false);
    }
    close(fd);
    fd = dial(POST("/no", "Content-Length: 1000000\r\n"));
    turn_until(&n_heads, 2);
    while (listener_counts(listener).n_open > 0) {
        (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        loop_turn(loop, false);
    }
    close(fd);
}
END_TEST

START_TEST(who_waits_for_100_continue_gets_the_refusal_instead) {
    rig_start();
    int fd = dial(POST("/no", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_null(strstr(got.data, "100 Continue"));
    ck_assert_ptr_nonnull(strstr(got.data, "HTTP/1.1 401 "));
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close"));
    close(fd);
    fd = dial(POST("/small", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    read_until_text(fd, "100 Continue\r\n\r\n");
    ck_assert_int_eq(send(fd, "abcde", 5, 0), 5);
    read_until_text(fd, "abcde");
    close(fd);
}
END_TEST

START_TEST(a_route_bounds_its_bodies_at_the_head) {
    rig_start();
    int fd = dial(POST("/small", "Content-Length: 11\r\n"));
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "HTTP/1.1 413 "));
    close(fd);
    fd = dial(POST("/small", "Transfer-Encoding: chunked\r\n") "b\r\n01234567890\r\n0\r\n\r\n");
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "HTTP/1.1 413 "));
    close(fd);
    ck_assert_uint_eq(n_handled, 0);
    fd = dial(POST("/small", "Content-Length: 10\r\n") "0123456789");
    read_until_text(fd, "0123456789");
    ck_assert_uint_eq(n_handled, 1);
    close(fd);
}
END_TEST

START_TEST(all_bodies_together_have_a_bound) {
    config.body_memory = 800000;
    test_clock_stop();
    rig_start();
    int first = dial(POST("/take", "Content-Length: 500000\r\n"));
    send_body(first, 400000);
    wait_for_body_bytes(400000);
    int second = dial(POST("/x", "Content-Length: 500000\r\n"));
    send_body(second, 350000); /* 700,000 is seven eighths */
    read_until(second, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "HTTP/1.1 503 "));
    ck_assert_ptr_nonnull(strstr(got.data, "Retry-After: 1\r\n"));
    ck_assert_uint_eq(listener_counts(listener).n_crowded, 1);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 400000);
    send_body(first, 100000);
    turn_until(&n_handled, 1);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 500000); /* taken is not given back */
    close(first);
    while (listener_counts(listener).n_open > 1)
        loop_turn(loop, true);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 500000);
    exchanges_give_body(exchanges, taken.n);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 0);
    close(second);
}
END_TEST

START_TEST(large_bodies_leave_room_for_small_ones) {
    config.body_memory = 800000;
    rig_start();
    int large = dial(POST("/x", "Content-Length: 750000\r\n"));
    send_body(large, 690000);
    wait_for_body_bytes(690000);
    int small = dial(POST("/wait", "Content-Length: 65536\r\n"));
    send_body(small, 65536);
    turn_until(&n_held, 1);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 755536);
    struct exchange_reply reply = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &reply), STATUS_OK);
    wait_for_body_bytes(690000); /* a stream has no use for its request */
    close(large);
    while (listener_counts(listener).n_open > 1)
        loop_turn(loop, true);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 0);
    close(small);
}
END_TEST

/* A byte in each turn, so that no pause is long: answers true for a 408. */
static bool drips_into_408(void) {
    int fd = dial(POST("/x", "Content-Length: 10000000\r\n"));
    uint64_t n_before = listener_counts(listener).n_timeouts;
    while (listener_counts(listener).n_timeouts == n_before) {
        ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL), 1);
        loop_turn(loop, false);
        ck_assert_uint_eq(n_handled, 0);
    }
    read_until_text(fd, "\r\n\r\n");
    close(fd);
    return strstr(got.data, "HTTP/1.1 408 ") != NULL;
}

START_TEST(a_body_that_drips_is_refused) {
    config.head_ns = 20 * NS_PER_MS; /* how often times are looked at */
    config.body_total_ns = 200 * NS_PER_MS;
    rig_start();
    ck_assert(drips_into_408());
    listener_free(listener);
    config.body_total_ns = 3600 * NS_PER_S;
    config.body_grace_ns = 50 * NS_PER_MS;
    config.body_rate = 1u << 30;
    rig_start();
    ck_assert(drips_into_408());
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 0);
    listener_free(listener);
    config.body_rate = 1; /* many more than that come */
    rig_start();
    int fd = dial(POST("/x", "Content-Length: 300\r\n"));
    uint64_t until_ns = clock_now_ns() + 150 * NS_PER_MS;
    for (unsigned i = 0; i < 300; i++) {
        ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL), 1);
        while (i == 100 && clock_now_ns() < until_ns)
            loop_turn(loop, true);
        loop_turn(loop, false);
    }
    read_until_text(fd, "HTTP/1.1 200 ");
    close(fd);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_test(tests, a_refusal_does_not_wait_for_the_body);
    tcase_add_test(tests, a_refused_client_with_a_long_body_reads_its_answer_and_is_closed);
    tcase_add_test(tests, a_refused_client_that_never_stops_sending_is_cut_off);
    tcase_add_test(tests, who_waits_for_100_continue_gets_the_refusal_instead);
    tcase_add_test(tests, a_route_bounds_its_bodies_at_the_head);
    tcase_add_test(tests, all_bodies_together_have_a_bound);
    tcase_add_test(tests, large_bodies_leave_room_for_small_ones);
    tcase_add_test(tests, a_body_that_drips_is_refused);
}
