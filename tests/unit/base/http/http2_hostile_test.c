/* HTTP/2 on the wire: what a client does who means harm, or makes mistakes. */
#include "tests/unit/base/http/wire.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "base_http2_hostile";
const double suite_timeout_s = 120;

enum {
    CALM = 11,
    PROTOCOL = 1,
    FRAME_SIZE = 6,
    FLOW_CONTROL = 3,
    COMPRESSION = 9,
};

static void many(unsigned n, unsigned type, unsigned flags, uint32_t id, const void *payload,
                 size_t size) {
    for (unsigned i = 0; i < n; i++)
        peer_frame(&out, type, flags, id, payload, size);
}

static void flood_pings(void) {
    many(300, PEER_PING, 0, 0, "12345678", 8);
}

static void flood_settings(void) {
    many(300, PEER_SETTINGS, 0, 0, "", 0);
}

static void flood_priorities(void) {
    many(300, PEER_PRIORITY, 0, 1, "\0\0\0\0\x10", 5);
}

static void flood_window_updates(void) {
    many(300, PEER_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
}

static void flood_empty_data(void) {
    peer_request(&out, 1, "POST", "/x", NULL, false);
    many(300, PEER_DATA, 0, 1, "", 0);
}

static void reset_rapidly(void) {
    for (uint32_t i = 0; i < 250; i++) {
        wire_get(2 * i + 1, "/wait");
        peer_frame_u32(&out, PEER_RST_STREAM, 0, 2 * i + 1, 8);
    }
}

/* The server is made to break its streams off itself. */
static void make_it_reset(void) {
    for (uint32_t i = 0; i < 250; i++) {
        wire_get(2 * i + 1, "/wait");
        peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 2 * i + 1, 0x7fffffff);
    }
}

static void too_many_streams(void) {
    for (uint32_t i = 0; i < 250; i++)
        wire_get(2 * i + 1, "/wait");
}

static void flood_continuations(void) {
    struct buf head = {0};
    peer_head(&head, "GET", "/x", NULL);
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM, 1, head.data, head.n);
    many(300, PEER_CONTINUATION, 0, 1, "", 0);
    buf_fini(&head);
}

/* A field of 4,000 bytes enters the table and is named 16,000 times, by a byte each. */
static void bomb(void) {
    struct buf head = {0};
    static char value[4001], names[16000];
    memset(value, 'v', 4000);
    memset(names, 0x80 | 62, sizeof names);
    peer_head(&head, "GET", "/x", NULL);
    size_t at = head.n;
    peer_field(&head, "b", value);
    head.data[at] = 0x40; /* with incremental indexing */
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM, 1, head.data, head.n);
    peer_frame(&out, PEER_CONTINUATION, PEER_END_HEADERS, 1, names, sizeof names);
    buf_fini(&head);
}

static void bad_hpack(void) {
    peer_frame(&out, PEER_HEADERS, PEER_END_HEADERS | PEER_END_STREAM, 1, "\xff\xff\xff\xff\x7f",
               5);
}

static void overflow_the_window(void) {
    wire_get(1, "/wait");
    peer_frame_u32(&out, PEER_WINDOW_UPDATE, 0, 0, 0x7fffffff);
}

static void a_window_of_too_much(void) {
    peer_setting(&out, 4, 0x80000000u);
}

static void a_frame_too_long(void) {
    static char bytes[20000];
    peer_request(&out, 1, "POST", "/x", NULL, false);
    peer_frame(&out, PEER_DATA, 0, 1, bytes, sizeof bytes);
}

static void settings_of_five_bytes(void) {
    peer_frame(&out, PEER_SETTINGS, 0, 0, "12345", 5);
}

static void an_even_stream(void) {
    wire_get(2, "/x");
}

static void data_on_stream_0(void) {
    peer_frame(&out, PEER_DATA, 0, 0, "x", 1);
}

static void push(void) {
    peer_frame(&out, PEER_PUSH_PROMISE, PEER_END_HEADERS, 1, "\0\0\0\2", 4);
}

static void data_between_headers(void) {
    struct buf head = {0};
    peer_head(&head, "GET", "/x", NULL);
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM, 1, head.data, 3);
    peer_frame(&out, PEER_PING, 0, 0, "12345678", 8);
    buf_fini(&head);
}

static const struct attack {
    const char *name;
    void (*write)(void);
    uint32_t code; /* of the GOAWAY that ends the connection; UINT32_MAX: whatever it is */
    bool flood;    /* counted as one */
} attacks[] = {
    {"pings", flood_pings, CALM, true},
    {"settings", flood_settings, CALM, true},
    {"priorities", flood_priorities, CALM, true},
    {"window updates", flood_window_updates, CALM, true},
    {"empty data", flood_empty_data, CALM, true},
    {"rapid reset", reset_rapidly, CALM, true},
    {"made resets", make_it_reset, CALM, true},
    {"streams", too_many_streams, CALM, true},
    {"continuations", flood_continuations, UINT32_MAX, false},
    {"a bomb", bomb, CALM, false},
    {"bad HPACK", bad_hpack, COMPRESSION, false},
    {"window overflow", overflow_the_window, FLOW_CONTROL, false},
    {"window too large", a_window_of_too_much, FLOW_CONTROL, false},
    {"frame too long", a_frame_too_long, FRAME_SIZE, false},
    {"settings of 5", settings_of_five_bytes, FRAME_SIZE, false},
    {"even stream", an_even_stream, PROTOCOL, false},
    {"data on 0", data_on_stream_0, PROTOCOL, false},
    {"push", push, PROTOCOL, false},
    {"ping within a head", data_between_headers, PROTOCOL, false},
};
enum { N_ATTACKS = sizeof attacks / sizeof *attacks };

START_TEST(an_attack_ends_the_connection_and_nothing_else) {
    const struct attack *attack = &attacks[_i];
    config.linger_ns = 20 * NS_PER_MS;
    wire_begin();
    int other = dial(GET("/wait"));
    turn_until(&n_held, 1);
    uint64_t kept = held[0];
    attack->write();
    wire_await_close();
    ck_assert_msg(attack->code == UINT32_MAX || peer.goaway_code == attack->code, "%s: GOAWAY %u",
                  attack->name, peer.goaway_code);
    ck_assert_msg(listener_counts(listener).n_floods == attack->flood, "%s", attack->name);
    ck_assert_uint_le(n_handled, 1 + config.n_streams_max + 1);
    wire_stop();
    while (exchanges_count(exchanges) > 1)
        loop_turn(loop, false);
    struct exchange_reply reply = {.status = 200, .body = "fine", .n_body = 4};
    ck_assert_int_eq(exchange_reply(exchanges, kept, &reply), STATUS_OK);
    read_until_text(other, "fine");
    close(other);
}
END_TEST

/* A request that is wrong costs its stream, not the connection. */
static const struct mistake {
    const char *method, *path, *lines;
    unsigned status; /* 0: reset */
} mistakes[] = {
    {"GET", "relative", NULL, 0},
    {"GET", "", NULL, 0},
    {"GET", "*", NULL, 0},
    {"G T", "/", NULL, 0},
    {"GET", "/", "connection: close\n", 0},
    {"GET", "/", "transfer-encoding: chunked\n", 0},
    {"GET", "/", "te: gzip\n", 0},
    {"GET", "/", "content-length: 5\n", 0},
    {"GET", "/", "content-length: +5\n", 0},
    {"GET", "/", "host: other\n", 400},
    {"GET", "/", "Upper: case\n", 0},
    {"GET", "/", "x: a\x01z\n", 400},
    {"GET", "/", "te: trailers\n", 200},
    {"GET", "/", "host: h\n", 200},
    {"OPTIONS", "*", NULL, 200},
};
enum { N_MISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(a_wrong_request_costs_its_stream) {
    const struct mistake *mistake = &mistakes[_i];
    wire_begin();
    peer_request(&out, 1, mistake->method, mistake->path, mistake->lines, true);
    wire_get(3, "/next");
    wire_await_reply(3);
    const struct peer_stream *stream = peer_stream(&peer, 1);
    while (!stream->reset && !stream->ended)
        wire_turn(SIZE_MAX);
    ck_assert_msg(stream->status == mistake->status, "%s %s %s: %u", mistake->method, mistake->path,
                  mistake->lines, stream->status);
    wire_stop();
}
END_TEST

START_TEST(a_head_too_large_is_a_431) {
    wire_begin();
    struct buf lines = {0};
    static char value[1001];
    memset(value, 'v', 1000);
    for (unsigned i = 0; i < 40; i++)
        buf_printf(&lines, "x-%u: %s\n", i, value);
    struct buf head = {0};
    peer_head(&head, "GET", "/x", lines.data);
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM, 1, head.data, 16000);
    peer_frame(&out, PEER_CONTINUATION, 0, 1, head.data + 16000, 16000);
    peer_frame(&out, PEER_CONTINUATION, PEER_END_HEADERS, 1, head.data + 32000, head.n - 32000);
    wire_get(3, "/next");
    wire_await_reply(1);
    ck_assert_uint_eq(peer_stream(&peer, 1)->status, 431);
    wire_await_reply(3);
    buf_clear(&lines);
    for (unsigned i = 0; i < 101; i++)
        buf_printf(&lines, "x-%u: v\n", i);
    peer_request(&out, 5, "GET", "/x", lines.data, true);
    wire_await_reply(5);
    ck_assert_uint_eq(peer_stream(&peer, 5)->status, 431);
    buf_fini(&lines);
    buf_fini(&head);
    wire_stop();
}
END_TEST

#define GRPC "content-type: application/grpc\n"

/* A field whose name and value have n bytes together, and the content type before or behind it. */
static void put_line(struct buf *lines, size_t n, bool is_last, const char *type) {
    buf_clear(lines);
    buf_puts(lines, is_last ? "" : type);
    buf_puts(lines, "x: ");
    for (size_t i = 1; i < n; i++)
        buf_putc(lines, 'v');
    buf_putc(lines, '\n');
    buf_puts(lines, is_last ? type : "");
}

static void ask_in_pieces(uint32_t id, const char *lines) {
    struct buf head = {0};
    peer_head(&head, "POST", "/x", lines);
    size_t n = head.n < 16000 ? head.n : 16000;
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM | (n == head.n ? PEER_END_HEADERS : 0), id,
               head.data, n);
    for (size_t at = n; at < head.n; at += n) {
        n = head.n - at < 16000 ? head.n - at : 16000;
        peer_frame(&out, PEER_CONTINUATION, at + n == head.n ? PEER_END_HEADERS : 0, id,
                   head.data + at, n);
    }
    buf_fini(&head);
    wire_await_reply(id);
}

START_TEST(a_call_is_refused_with_a_status_of_grpc) {
    static const struct {
        size_t n;
        bool is_last;
        const char *type;
        unsigned status;
        bool is_call;
    } rows[] = {
        {900, false, GRPC, 200, false},
        {901, false, GRPC, 200, true},
        {901, true, GRPC, 200, true},
        {1000, true, "content-type: application/grpc+proto\n", 200, true},
        {901, true, "", 431, false},
        {901, true, "content-type: application/grpcs\n", 431, false},
        {901, true, "content-types: application/grpc\n", 431, false},
    };
    config.limits.line_bytes = 900;
    wire_begin();
    struct buf lines = {0};
    uint32_t id = 1;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++, id += 2) {
        put_line(&lines, rows[i].n, rows[i].is_last, rows[i].type);
        ask_in_pieces(id, lines.data);
        const struct peer_stream *stream = peer_stream(&peer, id);
        ck_assert_msg(stream->status == rows[i].status, "%u: %u", i, stream->status);
        ck_assert_msg((strstr(stream->head.data, "grpc-status: 8\n") != NULL) == rows[i].is_call,
                      "%u: %s", i, stream->head.data);
        if (!rows[i].is_call)
            continue;
        ck_assert_uint_eq(stream->n_heads, 1);
        ck_assert_uint_eq(stream->body.n, 0);
        ck_assert_ptr_nonnull(strstr(stream->head.data, "content-type: application/grpc"));
        ck_assert_ptr_nonnull(strstr(stream->head.data, "grpc-message: "));
    }
    put_line(&lines, 900, false, "");
    const size_t n_line = lines.n;
    for (unsigned i = 0; i < 36; i++) { /* more than a head may have; the content type behind it */
        char *line = strndup(lines.data, n_line);
        buf_puts(&lines, line);
        free(line);
    }
    buf_puts(&lines, GRPC);
    ask_in_pieces(id, lines.data);
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, id)->head.data, "grpc-status: 8\n"));
    id += 2;
    buf_clear(&lines);
    for (unsigned i = 0; i < 100; i++) /* the content type is the last of them */
        buf_printf(&lines, "x-%u: v\n", i);
    buf_puts(&lines, GRPC);
    ask_in_pieces(id, lines.data);
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, id)->head.data, "grpc-status: 8\n"));
    id += 2;
    ask_in_pieces(id, GRPC "host: other\n"); /* beside the authority */
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, id)->head.data, "grpc-status: 3\n"));
    id += 2;
    ask_in_pieces(id, GRPC "expect: wonders\n");
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, id)->head.data, "grpc-status: 3\n"));
    id += 2;
    peer_request(&out, id, "POST", "/x", GRPC "content-length: 99999999\n", false);
    wire_await_reply(id);
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, id)->head.data, "grpc-status: 8\n"));
    buf_fini(&lines);
    wire_stop();
}
END_TEST

/* One to a proxy, one whose body does not come, and one whose body finds no room beside another's. */
START_TEST(a_call_that_cannot_be_taken_has_a_status_of_grpc) {
    static char bytes[16000];
    config.body_ns = 60 * NS_PER_MS;
    config.body_memory = 20000;
    test_clock_stop();
    wire_begin();
    struct buf head = {0};
    peer_field(&head, ":method", "CONNECT");
    peer_field(&head, ":authority", "h:80");
    peer_field(&head, "content-type", "application/grpc");
    peer_frame(&out, PEER_HEADERS, PEER_END_HEADERS, 1, head.data, head.n);
    wire_await_reply(1);
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, 1)->head.data, "grpc-status: 12\n"));
    peer_request(&out, 3, "POST", "/x", GRPC, false);
    peer_frame(&out, PEER_DATA, 0, 3, bytes, sizeof bytes);
    peer_request(&out, 5, "POST", "/x", GRPC, false);
    peer_frame(&out, PEER_DATA, 0, 5, bytes, sizeof bytes);
    wire_await_reply(5);
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, 5)->head.data, "grpc-status: 14\n"));
    rig_pass(61 * NS_PER_MS);
    wire_await_reply(3);
    ck_assert_ptr_nonnull(strstr(peer_stream(&peer, 3)->head.data, "grpc-status: 4\n"));
    buf_fini(&head);
    wire_stop();
}
END_TEST

START_TEST(a_head_that_does_not_end_in_time_ends_the_connection) {
    config.head_ns = 60 * NS_PER_MS;
    test_clock_stop();
    wire_begin();
    struct buf head = {0};
    peer_head(&head, "GET", "/x", NULL);
    peer_frame(&out, PEER_HEADERS, PEER_END_STREAM, 1, head.data, head.n);
    wire_let_out();
    rig_pass(61 * NS_PER_MS);
    wire_await_close();
    ck_assert_uint_eq(peer.goaway_code, CALM);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    ck_assert_uint_eq(n_handled, 0);
    buf_fini(&head);
    wire_stop();
}
END_TEST

START_TEST(a_client_without_settings_is_closed) {
    config.head_ns = 60 * NS_PER_MS;
    test_clock_stop();
    wire_start();
    buf_puts(&out, PEER_PREFACE);
    wire_let_out();
    rig_pass(61 * NS_PER_MS);
    wire_await_close();
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    wire_stop();
}
END_TEST

START_TEST(half_a_preface_is_no_http2) {
    wire_start();
    buf_puts(&out, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    wire_await_close();
    ck_assert_uint_eq(n_handled, 0);
    wire_stop();
}
END_TEST

/* One ping of a flood counts as any other, however long the connection was quiet before. */
START_TEST(a_quiet_time_saves_up_no_flood) {
    config.useless_frame_rate = 1e6;
    test_clock_stop();
    wire_begin();
    peer_frame(&out, PEER_PING, 0, 0, "12345678", 8);
    while (peer.n_ping_acks == 0)
        wire_turn(SIZE_MAX);
    rig_pass(50 * NS_PER_MS); /* 50,000 frames' worth */
    many(800, PEER_PING, 0, 0, "12345678", 8);
    wire_await_close();
    ck_assert_uint_eq(peer.goaway_code, CALM);
    wire_stop();
}
END_TEST

/* Fields behind a body are counted and dropped; too many end the connection. */
START_TEST(trailers_of_a_request_have_a_bound) {
    config.limits.head_bytes = config.limits.line_bytes = 1024;
    for (unsigned i = 0; i < 2; i++) {
        struct buf lines = {0};
        static char value[801];
        memset(value, 'v', 800);
        if (i == 0)
            wire_begin();
        uint32_t id = 2 * i + 1;
        peer_request(&out, id, "POST", "/x", NULL, false);
        peer_frame(&out, PEER_DATA, 0, id, "body", 4);
        for (unsigned k = 0; k < (i == 0 ? 5 : 12); k++)
            peer_field(&lines, "x-trailer", value);
        peer_frame(&out, PEER_HEADERS, PEER_END_HEADERS | PEER_END_STREAM, id, lines.data, lines.n);
        buf_fini(&lines);
        if (i == 0)
            wire_await_reply(id);
    }
    wire_await_close();
    ck_assert_uint_eq(peer.goaway_code, CALM);
    ck_assert_uint_eq(n_handled, 1);
    wire_stop();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_loop_test(tests, an_attack_ends_the_connection_and_nothing_else, 0, N_ATTACKS);
    tcase_add_loop_test(tests, a_wrong_request_costs_its_stream, 0, N_MISTAKES);
    tcase_add_test(tests, a_quiet_time_saves_up_no_flood);
    tcase_add_test(tests, trailers_of_a_request_have_a_bound);
    tcase_add_test(tests, a_head_too_large_is_a_431);
    tcase_add_test(tests, a_call_is_refused_with_a_status_of_grpc);
    tcase_add_test(tests, a_call_that_cannot_be_taken_has_a_status_of_grpc);
    tcase_add_test(tests, a_head_that_does_not_end_in_time_ends_the_connection);
    tcase_add_test(tests, a_client_without_settings_is_closed);
    tcase_add_test(tests, half_a_preface_is_no_http2);
}
