/* HTTP/2 on the wire: what a client may do. Frames are written by tests/support/http2_peer. */
#include "tests/unit/base/http/wire.h"

#include "base/clock.h"

#include <string.h>
#include <unistd.h>

const char *const suite_name = "base_http2";
const double suite_timeout_s = 120;

START_TEST(settings_are_exchanged_and_pings_answered) {
    wire_begin();
    peer_frame(&out, PEER_PING, 0, 0, "12345678", 8);
    while (peer.n_ping_acks == 0 || peer.n_settings_acks == 0)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer.settings[3], config.n_streams_max);
    ck_assert_uint_eq(peer.settings[6], config.limits.head_bytes);
    wire_stop();
}
END_TEST

START_TEST(one_byte_at_a_time_is_the_same) {
    wire_begin();
    peer_request(&out, 1, "POST", "/x?q=1", "content-length: 4\n", false);
    peer_frame(&out, PEER_DATA, PEER_END_STREAM, 1, "body", 4);
    while (!peer_stream(&peer, 1)->ended)
        wire_turn(1);
    ck_assert_str_eq(peer_stream(&peer, 1)->body.data, "body");
    wire_stop();
}
END_TEST

/* A head in a HEADERS frame and two of CONTINUATION. */
START_TEST(a_head_may_come_in_parts) {
    struct buf head = {0};
    wire_begin();
    peer_head(&head, "GET", "/parts", NULL);
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM, 1, head.data, 5);
    peer_frame(&out, PEER_CONTINUATION, 0, 1, head.data + 5, 1);
    peer_frame(&out, PEER_CONTINUATION, PEER_END_HEADERS, 1, head.data + 6, head.n - 6);
    wire_await_reply(1);
    ck_assert_str_eq(peer_stream(&peer, 1)->body.data, "/parts");
    buf_fini(&head);
    wire_stop();
}
END_TEST

/* More of them than the memory of the head holds: who appended them would move it under its readers. */
START_TEST(trailers_of_a_request_are_dropped) {
    wire_begin();
    struct buf trailers = {0};
    peer_request(&out, 1, "POST", "/echo", NULL, false);
    peer_frame(&out, PEER_DATA, 0, 1, "body", 4);
    for (unsigned i = 0; i < 60; i++)
        peer_field(&trailers, "x-trailer", "a value of more than twenty bytes");
    peer_frame(&out, PEER_HEADERS, PEER_END_HEADERS | PEER_END_STREAM, 1, trailers.data,
               trailers.n);
    wire_await_reply(1);
    const struct peer_stream *stream = peer_stream(&peer, 1);
    ck_assert_uint_eq(stream->status, 200);
    ck_assert_str_eq(stream->body.data, "body");
    ck_assert_ptr_nonnull(strstr(stream->head.data, "x-method: POST\n"));
    buf_fini(&trailers);
    wire_stop();
}
END_TEST

START_TEST(replies_overtake_each_other) {
    wire_begin();
    wire_get(1, "/wait");
    wire_get(3, "/x");
    wire_await_reply(3);
    ck_assert(!peer_stream(&peer, 1)->ended);
    struct exchange_reply reply = {.status = 200, .body = "late", .n_body = 4};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    wire_await_reply(1);
    ck_assert_str_eq(peer_stream(&peer, 1)->body.data, "late");
    wire_stop();
}
END_TEST

/* gRPC's "trailers only". */
START_TEST(a_reply_without_a_body_is_one_frame) {
    wire_begin();
    wire_get(1, "/wait");
    while (n_held == 0)
        wire_turn(SIZE_MAX);
    struct header field = {"grpc-status", "12"};
    struct exchange_reply reply = {.status = 200, .headers = &field, .n_headers = 1};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    wire_await_reply(1);
    ck_assert_uint_eq(peer_stream(&peer, 1)->n_heads, 1);
    ck_assert_uint_eq(peer_stream(&peer, 1)->n_data, 0);
    ck_assert_ptr_null(strstr(peer_stream(&peer, 1)->head.data, "content-length"));
    wire_stop();
}
END_TEST

START_TEST(a_body_that_nobody_wants_is_stopped) {
    wire_begin();
    peer_request(&out, 1, "POST", "/no", "content-length: 5\n", false);
    wire_await_reply(1);
    while (!peer_stream(&peer, 1)->reset)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer_stream(&peer, 1)->reset_code, 0);
    wire_stop();
}
END_TEST

/* A window of 10 bytes, then some more: what is sent never exceeds it. */
START_TEST(windows_are_kept) {
    wire_start();
    buf_puts(&out, PEER_PREFACE);
    peer_setting(&out, 4, 10);
    wire_get(1, "/a-path-that-is-longer-than-the-window");
    while (peer_stream(&peer, 1)->body.n < 10)
        wire_turn(SIZE_MAX);
    for (unsigned i = 0; i < 10; i++)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer_stream(&peer, 1)->body.n, 10);
    peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 1, 5);
    while (peer_stream(&peer, 1)->body.n < 15)
        wire_turn(SIZE_MAX);
    peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 1, 1000);
    wire_await_reply(1);
    ck_assert_str_eq(peer_stream(&peer, 1)->body.data, "/a-path-that-is-longer-than-the-window");
    wire_stop();
}
END_TEST

START_TEST(a_window_that_stays_shut_is_a_stall_of_its_stream_alone) {
    config.stall_ns = 60 * NS_PER_MS;
    wire_start();
    buf_puts(&out, PEER_PREFACE);
    peer_setting(&out, 4, 0);
    wire_get(1, "/stream");
    wire_get(3, "/wait");
    while (n_held < 2)
        wire_turn(SIZE_MAX);
    struct exchange_reply reply = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &reply), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "never", 5), STATUS_OK);
    while (!peer_stream(&peer, 1)->reset)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(n_gone, 1);
    ck_assert_uint_eq(gone_tag, 1);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    ck_assert_int_eq(exchange_reply(exchanges, held[1], &reply), STATUS_OK);
    wire_await_reply(3);
    wire_stop();
}
END_TEST

/* 40 streams whose windows are shut: each has its share, all together have a bound. */
START_TEST(output_is_bounded_for_all_streams_together) {
    config.output_bytes_max = 100000;
    config.n_streams_max = 40;
    wire_start();
    buf_puts(&out, PEER_PREFACE);
    peer_setting(&out, 4, 0);
    for (uint32_t i = 0; i < 40; i++)
        wire_get(2 * i + 1, "/stream");
    while (n_held < 40)
        wire_turn(SIZE_MAX);
    struct exchange_reply reply = {.status = 200};
    static char bytes[1000];
    size_t all = 0;
    for (unsigned i = 0; i < 40; i++) {
        size_t own = 0;
        ck_assert_int_eq(exchange_begin_stream(exchanges, held[i], &reply), STATUS_OK);
        while (exchange_write(exchanges, held[i], bytes, sizeof bytes) == STATUS_OK)
            own += sizeof bytes;
        ck_assert_uint_ge(own, 10000); /* a fortieth of the whole */
        ck_assert_uint_le(own, 100000);
        all += own;
        wire_turn(SIZE_MAX);
    }
    ck_assert_uint_le(all, 4 * 100000 + 40 * 11000);
    peer_setting(&out, 4, 100000);
    peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 0, 1 << 20);
    while (n_drained < 40)
        wire_turn(SIZE_MAX);
    wire_stop();
}
END_TEST

/* One stream of megabytes does not hold a short one up. */
START_TEST(streams_share_the_connection_fairly) {
    wire_start();
    buf_puts(&out, PEER_PREFACE);
    peer_setting(&out, 4, 1 << 30);
    peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 0, 1 << 30);
    wire_get(1, "/big");
    wire_get(3, "/short");
    wire_await_reply(3);
    ck_assert_uint_lt(peer_stream(&peer, 1)->body.n, 4 << 20);
    wire_await_reply(1);
    ck_assert_uint_eq(peer_stream(&peer, 1)->body.n, 8 << 20);
    wire_stop();
}
END_TEST

START_TEST(a_drain_loses_nothing_that_is_on_its_way) {
    wire_begin();
    wire_get(1, "/wait");
    while (n_held == 0)
        wire_turn(SIZE_MAX);
    listener_drain(listener);
    while (peer.n_goaways == 0)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer.goaway_last, 0x7fffffff);
    wire_get(3, "/on-its-way"); /* sent before the client has read it */
    wire_await_reply(3);
    ck_assert_uint_eq(peer.n_pings, 1);
    peer_frame(&out, PEER_PING, PEER_ACK, 0, "tandemGO", 8);
    while (peer.n_goaways < 2)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer.goaway_last, 3);
    wire_get(5, "/too-late");
    struct exchange_reply reply = {.status = 200, .body = "bye", .n_body = 3};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    wire_await_reply(1);
    wire_await_close();
    ck_assert_uint_eq(peer_stream(&peer, 5)->n_heads, 0);
    ck_assert_uint_eq(peer.goaway_code, 0);
    ck_assert_uint_eq(n_handled, 2);
    wire_stop();
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
}
END_TEST

START_TEST(an_idle_connection_is_ended_politely) {
    config.idle_ns = 60 * NS_PER_MS;
    test_clock_stop();
    wire_begin();
    wire_get(1, "/x");
    wire_await_reply(1);
    rig_pass(61 * NS_PER_MS);
    wire_await_close();
    ck_assert_uint_eq(peer.n_goaways, 1);
    ck_assert_uint_eq(peer.goaway_last, 1);
    ck_assert_uint_eq(peer.goaway_code, 0);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 0);
    wire_stop();
}
END_TEST

START_TEST(a_silent_client_is_asked_and_closed) {
    config.ping_ns = 60 * NS_PER_MS;
    test_clock_stop();
    wire_begin();
    wire_get(1, "/wait");
    while (n_held == 0)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer.n_pings, 0);
    rig_pass(61 * NS_PER_MS);
    while (peer.n_pings == 0)
        wire_turn(SIZE_MAX);
    peer_frame(&out, PEER_PING, PEER_ACK, 0, "tandemUP", 8);
    wire_let_out();
    rig_pass(61 * NS_PER_MS);
    while (peer.n_pings == 1)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(n_gone, 0);
    rig_pass(61 * NS_PER_MS);
    wire_await_close(); /* the second question has no answer */
    ck_assert_uint_eq(n_gone, 1);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    wire_stop();
}
END_TEST

/* Who earns its frames may send them: thousands of requests, each with a ping and window updates. */
START_TEST(a_busy_client_is_not_a_flood) {
    wire_begin();
    uint32_t id = 1;
    for (; id < 400; id += 2) {
        wire_get(id, "/x");
        wire_await_reply(id);
        peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 0, 2);
        peer_frame(&out, PEER_PING, 0, 0, "12345678", 8);
    }
    ck_assert_uint_eq(peer.n_goaways, 0);
    ck_assert_uint_eq(n_handled, 200);
    wire_stop();
}
END_TEST

/* What streams had waiting when they were reset is room for others again. */
START_TEST(the_output_of_a_reset_stream_is_room_for_others) {
    config.output_bytes_max = 1000;
    wire_begin();
    peer_setting(&out, 4, 0);
    static char bytes[1000];
    struct exchange_reply reply = {.status = 200};
    for (uint32_t i = 0; i < 5; i++) {
        wire_get(2 * i + 1, "/stream");
        while (n_held <= i)
            wire_turn(SIZE_MAX);
        ck_assert_int_eq(exchange_begin_stream(exchanges, held[i], &reply), STATUS_OK);
        ck_assert_int_eq(exchange_write(exchanges, held[i], bytes, i < 4 ? 1000 : 100), STATUS_OK);
    }
    ck_assert_int_eq(exchange_write(exchanges, held[4], bytes, 800), STATUS_BUSY);
    for (uint32_t i = 0; i < 4; i++)
        peer_frame_u32(&out, PEER_RST_STREAM, 0, 2 * i + 1, 8);
    while (n_gone < 4)
        wire_turn(SIZE_MAX);
    ck_assert_int_eq(exchange_write(exchanges, held[4], bytes, 800), STATUS_OK);
    wire_stop();
}
END_TEST

START_TEST(an_idle_client_is_not_asked_whether_it_is_there) {
    config.ping_ns = config.head_ns = 20 * NS_PER_MS;
    test_clock_stop();
    wire_begin();
    wire_get(1, "/x");
    wire_await_reply(1);
    int late = dial_until_read("GET /");
    rig_pass(21 * NS_PER_MS);
    read_until(late, SIZE_MAX); /* the sweep that refuses this one has looked at the other before */
    for (unsigned i = 0; i < 5; i++)
        wire_turn(SIZE_MAX);
    ck_assert(!closed);
    ck_assert_uint_eq(peer.n_pings, 0);
    close(late);
    wire_stop();
}
END_TEST

START_TEST(idleness_begins_with_the_end_of_the_last_stream) {
    config.idle_ns = 300 * NS_PER_MS;
    test_clock_stop();
    wire_begin();
    wire_get(1, "/wait");
    while (n_held == 0)
        wire_turn(SIZE_MAX);
    int idle = dial_until_read(GET("/x"));
    rig_pass(250 * NS_PER_MS);
    struct exchange_reply reply = {.status = 200, .body = "r", .n_body = 1};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    wire_await_reply(1);
    rig_pass(51 * NS_PER_MS);
    read_until(idle, SIZE_MAX); /* the sweep that closes this one has looked at the other before */
    for (unsigned i = 0; i < 5; i++)
        wire_turn(SIZE_MAX);
    ck_assert_uint_eq(peer.n_goaways, 0);
    rig_pass(250 * NS_PER_MS);
    wire_await_close();
    close(idle);
    wire_stop();
}
END_TEST

START_TEST(a_body_that_has_ended_is_not_asked_for) {
    wire_begin();
    peer_request(&out, 1, "POST", "/x", "expect: 100-continue\n", true);
    wire_await_reply(1);
    ck_assert_uint_eq(peer_stream(&peer, 1)->n_heads, 1);
    ck_assert_uint_eq(peer_stream(&peer, 1)->status, 200);
    wire_stop();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_test(tests, settings_are_exchanged_and_pings_answered);
    tcase_add_test(tests, one_byte_at_a_time_is_the_same);
    tcase_add_test(tests, a_head_may_come_in_parts);
    tcase_add_test(tests, trailers_of_a_request_are_dropped);
    tcase_add_test(tests, replies_overtake_each_other);
    tcase_add_test(tests, a_reply_without_a_body_is_one_frame);
    tcase_add_test(tests, a_body_that_nobody_wants_is_stopped);
    tcase_add_test(tests, windows_are_kept);
    tcase_add_test(tests, a_window_that_stays_shut_is_a_stall_of_its_stream_alone);
    tcase_add_test(tests, output_is_bounded_for_all_streams_together);
    tcase_add_test(tests, streams_share_the_connection_fairly);
    tcase_add_test(tests, the_output_of_a_reset_stream_is_room_for_others);
    tcase_add_test(tests, an_idle_client_is_not_asked_whether_it_is_there);
    tcase_add_test(tests, idleness_begins_with_the_end_of_the_last_stream);
    tcase_add_test(tests, a_body_that_has_ended_is_not_asked_for);
    tcase_add_test(tests, a_drain_loses_nothing_that_is_on_its_way);
    tcase_add_test(tests, an_idle_connection_is_ended_politely);
    tcase_add_test(tests, a_silent_client_is_asked_and_closed);
    tcase_add_test(tests, a_busy_client_is_not_a_flood);
}
