#include "base/clock.h"
#include "tests/unit/base/http/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "base_http_drain";
const double suite_timeout_s = 60; /* less than an idle connection is kept */

static const struct exchange_reply bye = {.status = 200, .body = "bye", .n_body = 3};

static void turn_until_all_are_closed(void) {
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
}

static void put(int fd, const char *text) {
    ck_assert_int_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* A whole request in the kernel's queue, of a connection that was never looked at. */
START_TEST(who_waits_to_be_accepted_is_answered) {
    rig_start();
    int fds[16];
    for (unsigned i = 0; i < 16; i++)
        fds[i] = dial(GET("/x"));
    listener_drain(listener);
    for (unsigned i = 0; i < 16; i++) {
        read_until(fds[i], SIZE_MAX);
        ck_assert_ptr_nonnull(strstr(got.data, "Connection: close\r\n\r\n/x"));
        close(fds[i]);
    }
    turn_until_all_are_closed();
    ck_assert_uint_eq(listener_counts(listener).n_accepted, 16);
}
END_TEST

/* The pool has room for 16: they are answered, and nobody is closed to make room. */
START_TEST(who_finds_no_room_is_not_accepted) {
    rig_start();
    int fds[17];
    for (unsigned i = 0; i < 17; i++)
        fds[i] = dial(GET("/x"));
    listener_drain(listener);
    for (unsigned i = 0; i < 17; i++) {
        char byte;
        if (i < 16)
            read_until_text(fds[i], "/x");
        else
            ck_assert_int_lt(recv(fds[i], &byte, 1, 0), 1);
        close(fds[i]);
    }
    turn_until_all_are_closed();
    ck_assert_uint_eq(listener_counts(listener).n_evicted, 0);
}
END_TEST

/* Their socket is another process's, too, which will serve them. */
START_TEST(who_is_held_is_not_accepted) {
    rig_start();
    listener_hold(listener, true);
    int fd = dial(GET("/x"));
    listener_drain(listener);
    loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_accepted, 0);
    close(fd);
}
END_TEST

START_TEST(who_comes_after_a_drain_is_refused) {
    rig_start();
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(listener_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener_drain(listener);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    listener_hold(listener, false); /* there is nothing left to hold */
    ck_assert_uint_eq(listener_port(listener), ntohs(to.sin_port));
}
END_TEST

/* It was idle as far as we knew, but its next request had come. */
START_TEST(what_has_come_and_was_not_read_is_answered) {
    rig_start();
    int fd = dial(GET("/first"));
    read_until_text(fd, "/first");
    loop_turn(loop, false);
    put(fd, GET("/second"));
    listener_drain(listener);
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close\r\n\r\n/second"));
    close(fd);
    turn_until_all_are_closed();
}
END_TEST

/* Between accepting and a client's first byte lies its way to us. */
START_TEST(a_new_connection_has_time_for_its_request) {
    test_clock_stop();
    rig_start();
    int fd = dial_until_read("");
    listener_drain(listener);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_open, 1);
    put(fd, GET("/x"));
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close\r\n\r\n/x"));
    close(fd);
    turn_until_all_are_closed();
}
END_TEST

START_TEST(a_new_connection_without_a_request_is_closed_in_time) {
    config.first_ns = 100 * NS_PER_MS;
    test_clock_stop();
    rig_start();
    int fd = dial_until_read("");
    listener_drain(listener);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_open, 1);
    rig_pass(101 * NS_PER_MS); /* long before it is called idle */
    turn_until_all_are_closed();
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 0);
    close(fd);
}
END_TEST

/* One that has had its time when the drain begins gets no more. */
START_TEST(an_old_connection_without_a_request_is_closed_at_once) {
    config.first_ns = NS_PER_MS;
    test_clock_stop();
    rig_start();
    int fd = dial_until_read("");
    rig_pass(2 * NS_PER_MS);
    int other = dial(GET("/x")); /* the loop's clock goes with what happens */
    read_until_text(other, "/x");
    listener_drain(listener);
    for (unsigned i = 0; i < 3; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_open, 0);
    close(other);
    close(fd);
}
END_TEST

START_TEST(draining_ends_each_connection_with_its_reply) {
    rig_start();
    int busy = dial(GET("/wait"));
    int idle = dial(GET("/x"));
    read_until_text(idle, "/x");
    turn_until(&n_held, 1);
    listener_drain(listener);
    read_until(idle, SIZE_MAX);
    ck_assert_uint_eq(got.n, 0);
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &bye), STATUS_OK);
    read_until(busy, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close\r\n\r\nbye"));
    close(busy);
    close(idle);
    turn_until_all_are_closed();
}
END_TEST

/* Between a reply and the turn that reads on a connection is neither busy nor idle. */
START_TEST(a_drain_right_behind_a_reply_ends_the_connection) {
    rig_start();
    int fd = dial(GET("/wait"));
    turn_until(&n_held, 1);
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &bye), STATUS_OK);
    listener_drain(listener);
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "\r\n\r\nbye"));
    ck_assert_ptr_null(strstr(got.data, "Connection: close")); /* its head was made before */
    turn_until_all_are_closed();
    close(fd);
}
END_TEST

START_TEST(what_was_sent_ahead_is_answered_before_the_end) {
    rig_start();
    int fd = dial(GET("/wait") GET("/second"));
    turn_until(&n_held, 1);
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &bye), STATUS_OK);
    listener_drain(listener);
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "/second"));
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close"));
    turn_until_all_are_closed();
    close(fd);
}
END_TEST

/* The rest of a refused body is skipped; then there is nothing left to wait for. */
START_TEST(a_body_that_is_skipped_ends_the_connection_with_its_last_byte) {
    rig_start();
    int fd = dial("POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    read_until_text(fd, "401");
    listener_drain(listener);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_open, 1);
    put(fd, "cd");
    turn_until_all_are_closed();
    close(fd);
}
END_TEST

/* Whose reply is still on its way keeps its connection until the last byte is out, and no longer. */
START_TEST(a_reply_that_is_not_read_yet_ends_the_connection_when_it_is) {
    rig_start();
    int fd = dial_with(4096);
    put(fd, GET("/big"));
    turn_until(&n_handled, 1);
    listener_drain(listener);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_open, 1);
    read_until(fd, SIZE_MAX);
    ck_assert_uint_gt(got.n, 8u << 20);
    turn_until_all_are_closed();
    close(fd);
}
END_TEST

/* A small reply that the kernel has no room for keeps no client from its next request; behind it the connection reads on. */
START_TEST(a_small_reply_that_is_not_read_yet_ends_the_connection_when_it_is) {
    rig_start();
    int fd = dial_with(4096);
    char request[4200];
    int n_head = snprintf(request, sizeof request,
                          "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4096\r\n\r\n");
    memset(request + n_head, 'x', 4096);
    request[n_head + 4096] = '\0';
    for (unsigned i = 1; listener_output_bytes(listener) == 0; i++) {
        put(fd, request);
        turn_until(&n_handled, i);
        for (unsigned k = 0; k < 3; k++) /* the kernel is asked, and we read on */
            loop_turn(loop, false);
    }
    listener_drain(listener);
    read_until(fd, SIZE_MAX);
    turn_until_all_are_closed();
    close(fd);
}
END_TEST

static void put_settings(int fd) {
    static const char settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    ck_assert_int_eq(send(fd, settings, sizeof settings, 0), (ssize_t)sizeof settings);
}

static void read_goaway(int fd) {
    static const char goaway[] = {0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f}; /* RFC 9113, 6.8 */
    char seen[256];
    size_t n = 0;
    while (!memmem(seen, n, goaway, sizeof goaway)) {
        loop_turn(loop, true);
        ssize_t more = recv(fd, seen + n, sizeof seen - n, 0);
        ck_assert_int_ne(more, 0);
        n += more > 0 ? (size_t)more : 0;
    }
}

/* Who had sent the first bytes of HTTP/2's preface is told, as everybody else who speaks it. */
START_TEST(a_connection_that_becomes_http2_while_all_drains_is_told) {
    rig_start();
    int fd = dial("PRI * HT");
    while (listener_counts(listener).bytes_in < 8)
        loop_turn(loop, true);
    listener_drain(listener);
    put(fd, "TP/2.0\r\n\r\nSM\r\n\r\n");
    put_settings(fd);
    read_goaway(fd);
    close(fd);
    turn_until_all_are_closed();
}
END_TEST

/* And so is who had sent all of it, to a socket that nobody had accepted yet. */
START_TEST(a_connection_over_http2_that_waits_to_be_accepted_is_told) {
    rig_start();
    int fd = dial("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_settings(fd);
    listener_drain(listener);
    read_goaway(fd);
    close(fd);
    turn_until_all_are_closed();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_test(tests, who_waits_to_be_accepted_is_answered);
    tcase_add_test(tests, who_finds_no_room_is_not_accepted);
    tcase_add_test(tests, who_is_held_is_not_accepted);
    tcase_add_test(tests, who_comes_after_a_drain_is_refused);
    tcase_add_test(tests, what_has_come_and_was_not_read_is_answered);
    tcase_add_test(tests, a_new_connection_has_time_for_its_request);
    tcase_add_test(tests, a_new_connection_without_a_request_is_closed_in_time);
    tcase_add_test(tests, an_old_connection_without_a_request_is_closed_at_once);
    tcase_add_test(tests, a_connection_over_http2_that_waits_to_be_accepted_is_told);
    tcase_add_test(tests, draining_ends_each_connection_with_its_reply);
    tcase_add_test(tests, a_drain_right_behind_a_reply_ends_the_connection);
    tcase_add_test(tests, what_was_sent_ahead_is_answered_before_the_end);
    tcase_add_test(tests, a_body_that_is_skipped_ends_the_connection_with_its_last_byte);
    tcase_add_test(tests, a_reply_that_is_not_read_yet_ends_the_connection_when_it_is);
    tcase_add_test(tests, a_small_reply_that_is_not_read_yet_ends_the_connection_when_it_is);
    tcase_add_test(tests, a_connection_that_becomes_http2_while_all_drains_is_told);
}
