/* What every protocol promises to a handler: each fact is shown over each of them. */
#include "tests/unit/base/http/client.h"

#include "base/clock.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "base_http_exchange";
const double suite_timeout_s = 240;

static struct client client;

static void begin(int protocol) {
    rig_start();
    client_open(&client, &client_protocols[protocol], 0);
}

/* Asks for it, and goes on until a handler has it. Answers what to wait for. */
static unsigned hold(const char *path) {
    unsigned id = client_get(&client, path);
    while (n_held == 0)
        client_turn(&client);
    return id;
}

static bool is_http2(int protocol) {
    return client_protocols[protocol].many;
}

START_TEST(a_reply_has_its_body_and_its_fields) {
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/x", "x-request-id: abc-1\n", 4, false);
    client_body(&client, id, "body", 4, true);
    struct reply reply = client_await(&client, id);
    ck_assert_uint_eq(reply.status, 200);
    ck_assert_str_eq(reply.body, "body");
    ck_assert_ptr_nonnull(strstr(reply.head, "date: "));
    ck_assert_ptr_nonnull(strstr(reply.head, "content-type: text/plain\n"));
    ck_assert_ptr_nonnull(strstr(reply.head, "content-length: 4\n"));
    ck_assert_ptr_nonnull(strstr(reply.head, "x-request-id: abc-1\nx-method: POST\n"));
    id = client_get(&client, "/again");
    reply = client_await(&client, id);
    ck_assert_str_eq(reply.body, "/again");
    ck_assert_ptr_nonnull(strstr(reply.head, "x-request-id: req-"));
    ck_assert_uint_eq(listener_counts(listener).n_accepted, 1);
    ck_assert_uint_eq(listener_counts(listener).n_requests, 2);
    client_close(&client);
}
END_TEST

START_TEST(head_gets_the_length_and_no_body) {
    begin(_i);
    unsigned id = client_ask(&client, "HEAD", "/hello", NULL, 0, true);
    while (client_look(&client, id).status == 0)
        client_turn(&client);
    struct reply reply = client_look(&client, id);
    ck_assert_ptr_nonnull(strstr(reply.head, "content-length: 6\n"));
    ck_assert_uint_eq(reply.n_body, 0);
    client_close(&client);
}
END_TEST

START_TEST(a_stream_goes_out_as_it_is_written_and_may_have_trailers) {
    begin(_i);
    unsigned id = hold("/stream");
    struct exchange_reply head = {.status = 200, .content_type = "text/event-stream"};
    struct header trailers[] = {{"Grpc-Status", "0"}, {"grpc-message", "a\r\nb"}};
    ck_assert_int_eq(exchange_write(exchanges, held[0], "x", 1), STATUS_CONFLICT);
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &head), STATUS_CONFLICT);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "one;", 4), STATUS_OK);
    client_await_text(&client, id, "one;");
    ck_assert(!client_look(&client, id).complete);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "two;", 4), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "three", 5), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], trailers, 2), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_NOT_FOUND);
    struct reply reply = client_await(&client, id);
    ck_assert(reply.complete);
    ck_assert_str_eq(reply.body, "one;two;three");
    ck_assert_ptr_null(strstr(reply.head, "content-length"));
    ck_assert_int_eq(strstr(reply.head, "\ngrpc-status: 0\ngrpc-message: ab\n") != NULL,
                     client.protocol->trailers);
    ck_assert_uint_eq(n_gone, 0);
    client_close(&client);
}
END_TEST

START_TEST(a_stream_without_a_byte_ends) {
    begin(_i);
    unsigned id = hold("/stream");
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    client_turn(&client);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    struct reply reply = client_await(&client, id);
    ck_assert(reply.complete && reply.status == 200 && reply.n_body == 0);
    client_close(&client);
}
END_TEST

START_TEST(the_gate_refuses_before_the_body_and_the_connection_goes_on) {
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/no", NULL, 5, false);
    struct reply reply = client_await(&client, id);
    ck_assert_uint_eq(reply.status, 401);
    ck_assert_str_eq(reply.body, "no");
    client_body(&client, id, "abcde", 5, true);
    id = client_get(&client, "/y");
    ck_assert_str_eq(client_await(&client, id).body, "/y");
    ck_assert_uint_eq(n_handled, 1);
    ck_assert_uint_eq(n_heads, 2);
    client_close(&client);
}
END_TEST

START_TEST(a_route_bounds_its_bodies) {
    static const struct {
        size_t announced, n;
        unsigned status;
    } cases[] = {{11, 0, 413}, {10, 10, 200}};
    rig_start();
    for (unsigned i = 0; i < 2; i++) {
        client_open(&client, &client_protocols[_i], 0);
        unsigned id = client_ask(&client, "POST", "/small", NULL, cases[i].announced, false);
        if (cases[i].n > 0)
            client_body(&client, id, "0123456789", cases[i].n, true);
        ck_assert_uint_eq(client_await(&client, id).status, cases[i].status);
        client_close(&client);
    }
    ck_assert_uint_eq(n_handled, 1);
}
END_TEST

START_TEST(a_body_without_a_length_is_bounded_where_it_gets_longer) {
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/small", NULL, SIZE_MAX, false);
    if (is_http2(_i)) {
        client_body(&client, id, "0123456", 7, false);
        client_body(&client, id, "7890", 4, false);
    } else {
        client_body(&client, id, "7\r\n0123456\r\n4\r\n7890\r\n", 21, false);
    }
    ck_assert_uint_eq(client_await(&client, id).status, 413);
    ck_assert_uint_eq(n_handled, 0);
    client_close(&client);
}
END_TEST

START_TEST(all_bodies_together_have_a_bound) {
    config.body_memory = 80000;
    static char bytes[60000];
    struct client other;
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/take", NULL, 50000, false);
    client_body(&client, id, bytes, 50000, true);
    while (n_handled == 0)
        client_turn(&client);
    client_open(&other, &client_protocols[_i], 0);
    id = client_ask(&other, "POST", "/x", NULL, 60000, false);
    client_body(&other, id, bytes, 60000, true);
    struct reply reply = client_await(&other, id);
    ck_assert_uint_eq(reply.status, 503);
    ck_assert_ptr_nonnull(strstr(reply.head, "retry-after: 1\n"));
    ck_assert_uint_eq(listener_counts(listener).n_crowded, 1);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 50000);
    client_close(&client);
    while (exchanges_count(exchanges) > 0)
        loop_turn(loop, false);
    exchanges_give_body(exchanges, taken.n);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 0);
    client_close(&other);
}
END_TEST

START_TEST(a_stream_forgets_its_request) {
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/wait", NULL, 1000, false);
    static char bytes[1000];
    client_body(&client, id, bytes, 1000, true);
    while (n_held == 0)
        client_turn(&client);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 1000);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    client_turn(&client);
    ck_assert_uint_eq(exchanges_body_bytes(exchanges), 0);
    ck_assert_uint_eq(exchange_find(exchanges, held[0])->n_headers, 0);
    client_close(&client);
}
END_TEST

START_TEST(a_client_that_gives_up_is_noticed) {
    begin(_i);
    for (unsigned i = 1; i <= (is_http2(_i) ? 5 : 1); i++) {
        unsigned id = client_get(&client, i % 2 ? "/wait" : "/stream");
        while (n_held < i)
            client_turn(&client);
        client.protocol->leave(&client, id);
        while (n_gone < i)
            client_turn_blind(&client);
        ck_assert_uint_eq(gone_tag, i);
        ck_assert_ptr_null(exchange_find(exchanges, held[i - 1]));
    }
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
    client_close(&client);
}
END_TEST

START_TEST(a_client_whose_socket_ends_has_left_all_its_requests) {
    begin(_i);
    unsigned n = client_protocols[_i].many ? 3 : 1;
    for (unsigned i = 0; i < n; i++)
        client_get(&client, "/wait");
    while (n_held < n)
        client_turn(&client);
    client_close(&client);
    turn_until(&n_gone, n);
    ck_assert_uint_eq(listener_counts(listener).n_gone, n);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
}
END_TEST

START_TEST(abort_breaks_off_without_a_gone_call) {
    begin(_i);
    unsigned id = hold("/stream");
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "abc", 3), STATUS_OK);
    client_await_text(&client, id, "abc");
    ck_assert_int_eq(exchange_abort(exchanges, held[0]), STATUS_OK);
    ck_assert(client_await(&client, id).broken);
    ck_assert_uint_eq(n_gone, 0);
    client_close(&client);
    client_open(&client, &client_protocols[_i], 0);
    id = client_get(&client, "/abort"); /* within the handler */
    ck_assert(client_await(&client, id).broken);
    client_close(&client);
}
END_TEST

START_TEST(what_is_not_read_is_bounded_and_drains) {
    config.output_bytes_max = 100000;
    rig_start();
    client_open(&client, &client_protocols[_i], 4096);
    unsigned id = hold("/stream");
    static char event[10000];
    memset(event, 'e', sizeof event);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    enum status status = STATUS_OK;
    size_t n_written = 0;
    for (unsigned i = 0; i < 10000 && status == STATUS_OK; i++) {
        status = exchange_write(exchanges, held[0], event, sizeof event);
        n_written += status == STATUS_OK ? sizeof event : 0;
        if (i % 5 == 4)
            client_turn_blind(&client);
    }
    ck_assert_int_eq(status, STATUS_BUSY);
    ck_assert_uint_eq(n_drained, 0);
    size_t pending = exchange_pending(exchanges, held[0]);
    ck_assert_uint_le(pending, 100000 + 100);
    ck_assert_uint_ge(listener_output_bytes(listener), pending);
    ck_assert_uint_le(listener_output_bytes(listener), 2 * 100000);
    while (n_drained == 0)
        client_turn(&client);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "end", 3), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    struct reply reply = client_await(&client, id);
    ck_assert(reply.complete);
    ck_assert_uint_eq(reply.n_body, n_written + 3);
    ck_assert_uint_eq(n_drained, 1);
    ck_assert_uint_eq(listener_output_bytes(listener), 0);
    client_close(&client);
}
END_TEST

START_TEST(who_never_reads_is_given_up) {
    config.stall_ns = 50 * NS_PER_MS;
    config.output_bytes_max = 1000;
    rig_start();
    client_open(&client, &client_protocols[_i], 4096);
    client_get(&client, "/stream");
    while (n_held == 0)
        client_turn_blind(&client);
    struct exchange_reply head = {.status = 200};
    static char event[65536];
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    client_turn_blind(&client);
    while (exchange_write(exchanges, held[0], event, sizeof event) == STATUS_OK)
        client_turn_blind(&client);
    while (n_gone == 0)
        client_turn_blind(&client);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    client_close(&client);
}
END_TEST

START_TEST(a_slow_body_gets_a_408) {
    config.body_ns = 60 * NS_PER_MS;
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/x", NULL, 9, false);
    client_body(&client, id, "abc", 3, false);
    ck_assert_uint_eq(client_await(&client, id).status, 408);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    ck_assert_uint_eq(n_handled, 0);
    client_close(&client);
}
END_TEST

START_TEST(who_waits_for_a_reply_has_time) {
    config.head_ns = config.body_ns = config.idle_ns = config.stall_ns = 20 * NS_PER_MS;
    test_clock_stop();
    begin(_i);
    struct client idle;
    unsigned id = hold("/wait");
    client_open(&idle, &client_protocols[_i], 0);
    client_await(&idle, client_get(&idle, "/x"));
    rig_pass(21 * NS_PER_MS);
    while (!idle.closed) /* the sweep that closes this one has looked at the other before */
        client_turn(&idle);
    ck_assert_ptr_nonnull(exchange_find(exchanges, held[0]));
    struct exchange_reply reply = {.status = 204};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    ck_assert_uint_eq(client_await(&client, id).status, 204);
    client_close(&idle);
    client_close(&client);
}
END_TEST

START_TEST(a_whole_reply_may_have_trailers) {
    begin(_i);
    unsigned id = hold("/wait");
    struct header trailer = {"grpc-status", "0"};
    struct exchange_reply answer = {
        .status = 200, .body = "abc", .n_body = 3, .trailers = &trailer, .n_trailers = 1};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &answer), STATUS_OK);
    struct reply reply = client_await(&client, id);
    ck_assert(reply.complete);
    ck_assert_str_eq(reply.body, "abc");
    ck_assert_int_eq(strstr(reply.head, "\ngrpc-status: 0\n") != NULL, client.protocol->trailers);
    client_close(&client);
}
END_TEST

START_TEST(a_large_reply_arrives_whole) {
    begin(_i);
    unsigned id = client_get(&client, "/big");
    struct reply reply = client_await(&client, id);
    ck_assert(reply.complete);
    ck_assert_uint_eq(reply.n_body, 8 << 20);
    ck_assert_uint_eq(strspn(reply.body, "b"), 8 << 20);
    client_close(&client);
}
END_TEST

START_TEST(a_field_of_ours_cannot_be_split) {
    begin(_i);
    unsigned id = hold("/wait");
    struct header evil = {"X-Evil", "a\r\nSet-Cookie: b"};
    struct exchange_reply reply = {.status = 200, .headers = &evil, .n_headers = 1};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    ck_assert_ptr_nonnull(strstr(client_await(&client, id).head, "x-evil: aSet-Cookie: b\n"));
    client_close(&client);
}
END_TEST

START_TEST(draining_ends_the_connection_with_its_reply) {
    /* The client of HTTP/2, who answers no ping, is given up after this. */
    config.head_ns = 300 * NS_PER_MS;
    test_clock_stop();
    begin(_i);
    unsigned id = hold("/wait");
    listener_drain(listener);
    for (unsigned i = 0; i < 5; i++)
        client_turn(&client);
    struct exchange_reply reply = {.status = 200, .body = "bye", .n_body = 3};
    ck_assert_int_eq(exchange_reply(exchanges, held[0], &reply), STATUS_OK);
    ck_assert_str_eq(client_await(&client, id).body, "bye");
    rig_pass(301 * NS_PER_MS);
    while (!client.closed)
        client_turn(&client);
    client_close(&client);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
}
END_TEST

START_TEST(draining_ends_the_connection_with_a_stream_that_ran) {
    begin(_i);
    unsigned id = hold("/wait");
    struct exchange_reply head = {.status = 200, .content_type = "text/plain"};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], "bye", 3), STATUS_OK);
    listener_drain(listener);
    for (unsigned i = 0; i < 5; i++)
        client_turn(&client);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    ck_assert_str_eq(client_await(&client, id).body, "bye");
    while (!client.closed && !is_http2(_i)) /* whose client answers no ping */
        client_turn(&client);
    client_close(&client);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
}
END_TEST

START_TEST(freeing_the_listener_tells_those_that_wait) {
    begin(_i);
    hold("/wait");
    listener_free(listener);
    listener = NULL;
    ck_assert_uint_eq(n_gone, 1);
    client_close(&client);
}
END_TEST

/* On HTTP/2 each comes when it was sent; on HTTP/1.1 as one. */
START_TEST(a_body_may_come_in_pieces) {
    begin(_i);
    unsigned id = client_ask(&client, "POST", "/talk", NULL, 8, false);
    if (is_http2(_i)) {
        while (client_look(&client, id).status == 0)
            client_turn(&client); /* the handler has it before its body */
        client_body(&client, id, "ping", 4, false);
        client_await_text(&client, id, "ping");
        client_body(&client, id, "pong", 4, true);
    } else {
        client_body(&client, id, "pingpong", 8, true);
    }
    struct reply reply = client_await(&client, id);
    ck_assert(reply.complete);
    ck_assert_str_eq(reply.body, "pingpong");
    ck_assert_uint_eq(n_handled, 1);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
    client_close(&client);
}
END_TEST

START_TEST(a_request_that_may_not_be_is_refused_alike) {
    static const struct {
        const char *method, *path, *lines;
        unsigned status;
        const char *reason;
    } cases[] = {
        {"GET", "/%zz", NULL, 400, "the path has a broken percent escape"},
        {"GET", "/%00", NULL, 400, "the path holds a control byte"},
        {"GET", "/a/%2e%2e/b", NULL, 400, "the path has a '.' or '..' segment"},
        {"GET", "/%ff", NULL, 400, "the path is not UTF-8"},
        {"POST", "/x", "expect: miracles\n", 417, "no expectation but 100-continue is met"},
        {"POST", "/x", "content-length: 99999999\n", 413, "the body is too large"},
    };
    rig_start();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        client_open(&client, &client_protocols[_i], 0);
        unsigned id = client_ask(&client, cases[i].method, cases[i].path, cases[i].lines, SIZE_MAX,
                                 !strstr(cases[i].path, "x"));
        struct reply reply = client_await(&client, id);
        if (i < 5 || is_http2(_i)) { /* HTTP/1.1 has both lengths there */
            ck_assert_uint_eq(reply.status, cases[i].status);
            ck_assert_ptr_nonnull(strstr(reply.body, cases[i].reason));
        }
        ck_assert_ptr_nonnull(strstr(reply.head, "content-type: application/json\n"));
        client_close(&client);
    }
    ck_assert_uint_eq(n_handled, 0);
    ck_assert_uint_eq(listener_counts(listener).n_refused, sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(requests_have_a_bound_of_their_own) {
    config.n_exchanges_max = 2;
    struct client clients[3];
    unsigned id = 0;
    rig_start();
    for (unsigned i = 0; i < 3; i++) {
        client_open(&clients[i], &client_protocols[_i], 0);
        id = client_get(&clients[i], i < 2 ? "/wait" : "/x");
        while (i < 2 && n_held <= i)
            client_turn(&clients[i]);
    }
    struct reply reply = client_await(&clients[2], id);
    if (is_http2(_i)) /* "send it again": nothing was looked at */
        ck_assert_uint_eq(peer_stream(&clients[2].peer, 1)->reset_code, 7);
    else
        ck_assert_uint_eq(reply.status, 503);
    for (unsigned i = 0; i < 3; i++)
        client_close(&clients[i]);
}
END_TEST

/* Random clients do random things; the sanitizers and the counts say whether all was given back. */
START_TEST(a_storm_of_rude_clients_leaves_nothing_behind) {
    static const char *const paths[] = {"/x", "/wait", "/stream", "/abort", "/big", "/talk", "/no"};
    enum { N = 10 };
    static struct client clients[N];
    bool open[N] = {false};
    config.n_connections_max = 8;
    config.linger_ns = 20 * NS_PER_MS;
    config.output_bytes_max = 2000;
    rig_start();
    struct random random = {.state = 11};
    struct exchange_reply reply = {.status = 200, .body = "r", .n_body = 1};
    struct header trailer = {"t", "1"};
    static char bytes[1500];
    for (unsigned round = 0; round < 4000; round++) {
        unsigned at = (unsigned)random_below(&random, N);
        struct client *c = &clients[at];
        uint64_t id = held[random_below(&random, 64)];
        switch (random_below(&random, 8)) {
        case 0:
        case 1:
        case 2:
            if (!open[at])
                client_open(c, &client_protocols[_i], 0);
            open[at] = true;
            if (c->n_sent < REQUESTS_MAX - 1) {
                bool whole = random_below(&random, 3) > 0;
                unsigned k =
                    client_ask(c, "POST", paths[random_below(&random, 7)], NULL, 1500, whole);
                if (!whole)
                    client_body(c, k, bytes, 1500, true);
            }
            break;
        case 3:
            if (open[at])
                client_close(c);
            open[at] = false;
            break;
        case 4:
            exchange_reply(exchanges, id, &reply);
            break;
        case 5:
            exchange_begin_stream(exchanges, id, &reply);
            (void)!exchange_write(exchanges, id, bytes, sizeof bytes);
            break;
        case 6:
            (void)!exchange_write(exchanges, id, "abc", 3);
            exchange_end(exchanges, id, &trailer, 1);
            break;
        default:
            if (open[at] && c->n_sent > 0 && random_below(&random, 2))
                c->protocol->leave(c, 1 + (unsigned)random_below(&random, c->n_sent));
            else if (open[at])
                client_turn(c);
        }
        loop_turn(loop, false);
    }
    for (unsigned i = 0; i < N; i++)
        if (open[i])
            client_close(&clients[i]);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
    ck_assert_uint_gt(n_handled, 100);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
#define EACH(test) tcase_add_loop_test(tests, test, 0, N_CLIENT_PROTOCOLS)
    EACH(a_reply_has_its_body_and_its_fields);
    EACH(head_gets_the_length_and_no_body);
    EACH(a_stream_goes_out_as_it_is_written_and_may_have_trailers);
    EACH(a_stream_without_a_byte_ends);
    EACH(the_gate_refuses_before_the_body_and_the_connection_goes_on);
    EACH(a_route_bounds_its_bodies);
    EACH(a_body_without_a_length_is_bounded_where_it_gets_longer);
    EACH(all_bodies_together_have_a_bound);
    EACH(a_stream_forgets_its_request);
    EACH(a_client_that_gives_up_is_noticed);
    EACH(a_client_whose_socket_ends_has_left_all_its_requests);
    EACH(abort_breaks_off_without_a_gone_call);
    EACH(what_is_not_read_is_bounded_and_drains);
    EACH(who_never_reads_is_given_up);
    EACH(a_slow_body_gets_a_408);
    EACH(who_waits_for_a_reply_has_time);
    EACH(a_whole_reply_may_have_trailers);
    EACH(a_large_reply_arrives_whole);
    EACH(a_field_of_ours_cannot_be_split);
    EACH(draining_ends_the_connection_with_its_reply);
    EACH(draining_ends_the_connection_with_a_stream_that_ran);
    EACH(freeing_the_listener_tells_those_that_wait);
    EACH(a_body_may_come_in_pieces);
    EACH(a_request_that_may_not_be_is_refused_alike);
    EACH(requests_have_a_bound_of_their_own);
    EACH(a_storm_of_rude_clients_leaves_nothing_behind);
#undef EACH
}
