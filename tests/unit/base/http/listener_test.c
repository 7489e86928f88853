#include "tests/unit/base/http/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "base_http_listener";
const double suite_timeout_s = 120;

START_TEST(a_reply_has_its_length_and_the_connection_goes_on) {
    rig_start();
    int fd =
        dial("POST /x HTTP/1.1\r\nHost: h\r\nX-Request-Id: abc-1\r\nContent-Length: 4\r\n\r\nbody");
    read_until_text(fd, "\r\n\r\nbody");
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 200 OK\r\nDate: ", 23), 0);
    ck_assert_ptr_nonnull(strstr(got.data, "\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"
                                           "x-request-id: abc-1\r\nx-method: POST\r\n\r\nbody"));
    ck_assert_ptr_null(strstr(got.data, "Connection"));
    ck_assert_int_eq(send(fd, GET("/again"), strlen(GET("/again")), 0), strlen(GET("/again")));
    read_until_text(fd, "\r\n\r\n/again");
    ck_assert_ptr_nonnull(strstr(got.data, "\r\nx-request-id: req-"));
    ck_assert_uint_eq(listener_counts(listener).n_accepted, 1);
    close(fd);
}
END_TEST

/* The rig's own bound is 16 connections. */
START_TEST(a_listener_as_it_is_by_default_serves_many_at_once) {
    int fds[40];
    config = listener_config_default;
    rig_start();
    for (int i = 0; i < 40; i++)
        fds[i] = dial(GET("/wait"));
    turn_until(&n_held, 40);
    ck_assert_uint_eq(listener_counts(listener).n_accepted, 40);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    turn_until(&n_gone, 40);
}
END_TEST

/* What cannot be echoed is replaced, and a refusal has one, too. */
START_TEST(every_reply_has_a_request_id_of_its_own) {
    static const char *const values[] = {"x-other: 1", "x-request-id: ", "x-request-id: a b",
                                         "x-request-id: \xc3\xa4", "bad line"};
    char made[5][21] = {{0}};
    rig_start();
    for (int i = 0; i < 5; i++) {
        char text[256];
        snprintf(text, sizeof text, "GET /x HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", values[i]);
        int fd = dial(text);
        read_until_text(fd, "\r\n\r\n");
        const char *at = strstr(got.data, "\r\nx-request-id: req-");
        ck_assert_ptr_nonnull(at);
        snprintf(made[i], sizeof made[i], "%s", at + strlen("\r\nx-request-id: "));
        ck_assert_uint_eq(strspn(made[i] + 4, "0123456789abcdef"), 16);
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(made[i], made[k]);
        close(fd);
    }
    char longest[EXCHANGE_ID_MAX + 2];
    memset(longest, 'z', sizeof longest);
    for (int extra = 0; extra < 2; extra++) {
        char text[512];
        longest[EXCHANGE_ID_MAX + extra] = 0;
        snprintf(text, sizeof text, "GET /x HTTP/1.1\r\nHost: h\r\nx-request-id: %s\r\n\r\n",
                 longest);
        int fd = dial(text);
        read_until_text(fd, "\r\n\r\n");
        ck_assert_int_eq(strstr(got.data, longest) != NULL, extra == 0);
        close(fd);
        longest[EXCHANGE_ID_MAX] = 'z';
    }
}
END_TEST

START_TEST(head_gets_the_length_and_no_body) {
    rig_start();
    int fd = dial("HEAD /hello HTTP/1.1\r\nHost: h\r\nx-request-id: 1\r\n\r\n" GET("/next"));
    read_until_text(fd, "/next");
    ck_assert_ptr_nonnull(strstr(
        got.data, "Content-Length: 6\r\nx-request-id: 1\r\nx-method: HEAD\r\n\r\nHTTP/1.1 200"));
    close(fd);
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order) {
    rig_start();
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
    rig_start();
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
    rig_start();
    int fd = dial("GET /stream HTTP/1.1\r\nHost: h\r\nx-request-id: 1\r\n\r\n");
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200, .content_type = "text/event-stream"};
    ck_assert_int_eq(exchange_write(exchanges, held[0], "x", 1), STATUS_CONFLICT);
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &head), STATUS_CONFLICT);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "data: 1\n\n", 9), STATUS_OK);
    read_until_text(fd, "data: 1");
    ck_assert_ptr_nonnull(strstr(
        got.data, "Transfer-Encoding: chunked\r\nx-request-id: 1\r\n\r\n9\r\ndata: 1\n\n\r\n"));
    ck_assert_int_eq(exchange_write(exchanges, held[0], "a", 1), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "0123456789abcdef", 16), STATUS_OK);
    struct header trailer = {"grpc-status", "0"}; /* dropped */
    ck_assert_int_eq(exchange_end(exchanges, held[0], &trailer, 1), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_NOT_FOUND);
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
    rig_start();
    int fd = dial("GET /stream HTTP/1.0\r\n\r\n");
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "abc", 3), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    read_until(fd, SIZE_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "\r\nConnection: close\r\n\r\nabc"));
    ck_assert_ptr_null(strstr(got.data, "chunked"));
    close(fd);
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
    rig_start();
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
    rig_start();
    int fd =
        dial("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    read_until_text(fd, "\r\n\r\n");
    ck_assert_str_eq(got.data, "HTTP/1.1 100 Continue\r\n\r\n");
    ck_assert_int_eq(send(fd, "ok", 2, 0), 2);
    read_until_text(fd, "\r\n\r\nok");
    close(fd);
}
END_TEST

START_TEST(the_http2_preface_is_answered_in_http2) {
    rig_start();
    int fd = dial("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    read_until(fd, 9);
    ck_assert_int_eq(got.data[3], 4); /* a settings frame */
    ck_assert_uint_eq(listener_counts(listener).n_http2, 1);
    close(fd);
}
END_TEST

/* Who has spoken HTTP/1.1 does not begin anew, nor does anybody where one request is served. */
START_TEST(the_http2_preface_comes_first_or_closes) {
    rig_start();
    int fd = dial(GET("/x"));
    read_until_text(fd, "/x");
    ck_assert_int_eq(send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 0), 24);
    read_until(fd, SIZE_MAX);
    ck_assert_uint_eq(got.n, 0);
    close(fd);
    ck_assert_uint_eq(listener_counts(listener).n_http2, 0);
}
END_TEST

START_TEST(a_listener_of_one_request_speaks_no_http2) {
    config.one_request = true;
    rig_start();
    int fd = dial("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    read_until(fd, SIZE_MAX);
    ck_assert_uint_eq(got.n, 0);
    close(fd);
}
END_TEST

START_TEST(a_large_reply_arrives_whole) {
    rig_start();
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
    rig_start();
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

START_TEST(a_header_of_ours_cannot_be_split) {
    rig_start();
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

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_test(tests, a_reply_has_its_length_and_the_connection_goes_on);
    tcase_add_test(tests, a_listener_as_it_is_by_default_serves_many_at_once);
    tcase_add_test(tests, every_reply_has_a_request_id_of_its_own);
    tcase_add_test(tests, head_gets_the_length_and_no_body);
    tcase_add_test(tests, pipelined_requests_are_answered_in_order);
    tcase_add_test(tests, thousands_sent_ahead_are_all_answered);
    tcase_add_test(tests, a_stream_is_chunked_and_one_turn_is_one_read);
    tcase_add_test(tests, http10_streams_until_the_connection_closes);
    tcase_add_test(tests, a_refused_request_gets_its_status_and_a_close);
    tcase_add_test(tests, continue_is_sent_before_the_body);
    tcase_add_test(tests, the_http2_preface_is_answered_in_http2);
    tcase_add_test(tests, the_http2_preface_comes_first_or_closes);
    tcase_add_test(tests, a_listener_of_one_request_speaks_no_http2);
    tcase_add_test(tests, a_large_reply_arrives_whole);
    tcase_add_test(tests, abort_breaks_off_without_a_gone_call);
    tcase_add_test(tests, a_header_of_ours_cannot_be_split);
}
