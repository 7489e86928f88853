/* What a client may cost before anybody trusts it: output that waits, places, watches. Each fact is
 * shown over each protocol. */
#include "tests/unit/base/http/client.h"

#include "base/clock.h"

#include <string.h>
#include <unistd.h>

const char *const suite_name = "base_http_bounds";
const double suite_timeout_s = 120;

#define N           30
#define STREAM_WORD 1000u

static struct client client, other, third;

static bool is_http2(int protocol) {
    return client_protocols[protocol].many;
}

/* A client whose windows, and the socket's, hold little. */
static void open_blind(struct client *blind, int protocol) {
    client_open(blind, &client_protocols[protocol], 4096);
    if (is_http2(protocol))
        peer_setting(&blind->out, 4, 0);
}

static void open_windows(struct client *blind, int protocol) {
    if (is_http2(protocol))
        peer_setting(&blind->out, 4, 1 << 20);
}

static void turn_blind(struct client *blind, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        client_turn_blind(blind);
}

static unsigned status_of(struct client *asks, const char *path) {
    struct reply reply = client_await(asks, client_get(asks, path));
    return reply.status;
}

/* Another client asks; it leaves before this answers. */
static unsigned status_for_another(int protocol, const char *path) {
    client_open(&third, &client_protocols[protocol], 0);
    unsigned status = status_of(&third, path);
    client_close(&third);
    return status;
}

/* HTTP/1.1 goes on while less than a share waits, HTTP/2 while less than three. */
START_TEST(who_does_not_read_is_not_answered) {
    config.reply_bytes_share = PAGE_BYTES / 2;
    rig_start();
    open_blind(&client, _i);
    unsigned ids[N];
    for (unsigned i = 0; i < N; i++)
        ids[i] = client_get(&client, "/page");
    turn_blind(&client, 200);
    unsigned n_most = is_http2(_i) ? 3 : n_handled; /* the kernel takes some of HTTP/1.1's */
    ck_assert_uint_eq(n_handled, n_most);
    ck_assert_uint_lt(n_handled, N);
    ck_assert_uint_gt(n_handled, 0);
    size_t waits = listener_output_bytes(listener);
    ck_assert_uint_gt(waits, 0);
    ck_assert_uint_le(waits, is_http2(_i) ? 3 * (PAGE_BYTES + 500) : 3 * PAGE_BYTES / 2 + 1000);
    ck_assert_uint_eq(exchanges_count(exchanges), 0); /* who waits for himself has no place */
    open_windows(&client, _i);
    for (unsigned i = 0; i < N; i++) {
        struct reply reply = client_await(&client, ids[i]);
        ck_assert_uint_eq(reply.status, 200);
        ck_assert_uint_eq(reply.n_body, PAGE_BYTES);
    }
    ck_assert_uint_eq(n_handled, N);
    ck_assert_uint_eq(listener_output_bytes(listener), 0);
    client_close(&client);
}
END_TEST

/* While nothing of its answers is read, a connection's further requests may have 128 KiB of heads:
 * eight of 16 KiB less what stands beside the path, and not a ninth. */
START_TEST(heads_of_requests_that_wait_have_a_bound) {
    enum { TAKEN = 3, WAIT = 8, PATH_BYTES = (16 << 10) - 256 };
    static char path[PATH_BYTES + 1] = "/page?";
    memset(path + 6, 'x', PATH_BYTES - 6);
    config.reply_bytes_share = PAGE_BYTES / 2;
    rig_start();
    open_blind(&client, 1);
    unsigned ids[TAKEN + WAIT + 1];
    for (unsigned i = 0; i < TAKEN + WAIT + 1; i++) {
        ids[i] = client_get(&client, i < TAKEN ? "/page" : path);
        turn_blind(&client, 50);
    }
    ck_assert_uint_eq(n_handled, TAKEN);
    open_windows(&client, 1);
    for (unsigned i = 0; i < TAKEN + WAIT; i++)
        ck_assert_uint_eq(client_await(&client, ids[i]).status, 200);
    ck_assert(client_await(&client, ids[TAKEN + WAIT]).broken);
    ck_assert_uint_eq(client_await(&client, client_get(&client, path)).status, 200);
    client_close(&client);
}
END_TEST

/* Heads that wait beyond the bound are thrown away, and each costs what a frame without use costs: so
 * many are a flood. */
START_TEST(heads_beyond_what_may_wait_are_a_flood) {
    enum { TAKEN = 3, WAIT = 8, PATH_BYTES = (16 << 10) - 256, FEW = 10, MANY = 26 };
    static char path[PATH_BYTES + 1] = "/page?";
    memset(path + 6, 'x', PATH_BYTES - 6);
    config.reply_bytes_share = PAGE_BYTES / 2;
    config.useless_frames_max = 10; /* beside three for each frame of the three answers */
    test_clock_stop();
    rig_start();
    open_blind(&client, 1);
    for (unsigned i = 0; i < TAKEN + WAIT + MANY; i++) {
        client_get(&client, i < TAKEN ? "/page" : path);
        turn_blind(&client, 50);
        if (i < TAKEN + WAIT + FEW)
            ck_assert_uint_eq(listener_counts(listener).n_floods, 0);
    }
    ck_assert_uint_eq(listener_counts(listener).n_floods, 1);
    client_close(&client);
}
END_TEST

START_TEST(all_output_together_has_a_bound) {
    config.output_memory = 1 << 20;
    test_clock_stop(); /* or the first would be given up */
    rig_start();
    open_blind(&client, _i);
    client_get(&client, "/big");
    turn_blind(&client, 50);
    ck_assert_uint_gt(listener_output_bytes(listener), 1 << 20);
    client_open(&other, &client_protocols[_i], 0);
    struct reply reply = client_await(&other, client_get(&other, "/page"));
    ck_assert_uint_eq(reply.status, 503);
    ck_assert_ptr_nonnull(strstr(reply.head, "retry-after: 1\n"));
    ck_assert_uint_eq(listener_counts(listener).n_unread, 1);
    ck_assert_uint_eq(status_of(&other, "/short"), 200);
    client_close(&client);
    while (listener_output_bytes(listener) > 0)
        loop_turn(loop, false);
    ck_assert_uint_eq(status_of(&other, "/page"), 200);
    client_close(&other);
}
END_TEST

/* A stream that is read goes on while the output of others leaves no room; one that is not read is
 * refused at the first word beyond what a turn may bring. */
START_TEST(a_stream_that_is_read_goes_on_while_others_fill_the_output) {
    config.output_memory = 1 << 20;
    test_clock_stop();
    rig_start();
    open_blind(&client, _i);
    client_get(&client, "/big");
    turn_blind(&client, 50);
    client_open(&other, &client_protocols[_i], 0);
    unsigned id = client_get(&other, "/stream");
    while (n_held == 0)
        client_turn(&other);
    struct exchange_reply head = {.status = 200};
    static char word[STREAM_WORD + 1];
    memset(word, 'w', STREAM_WORD);
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    for (unsigned i = 1; i <= 20; i++) {
        ck_assert_int_eq(exchange_write(exchanges, held[0], word, STREAM_WORD), STATUS_OK);
        ck_assert_int_eq(exchange_write(exchanges, held[0], word, STREAM_WORD), STATUS_OK);
        while (client_look(&other, id).n_body < 2 * i * STREAM_WORD)
            client_turn(&other);
    }
    unsigned n = 0;
    while (exchange_write(exchanges, held[0], word, STREAM_WORD) == STATUS_OK)
        n++;
    ck_assert_uint_ge(n, 2);
    ck_assert_uint_le(n, 6); /* 4 KiB and one word */
    while (n_drained == 0)
        client_turn(&other);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    ck_assert(client_await(&other, id).complete);
    client_close(&client);
    client_close(&other);
}
END_TEST

/* 8 MiB wait, which is three quarters of all output, or a byte less. */
START_TEST(output_is_scarce_from_three_quarters_on) {
    config.output_memory = 4 * ((8u << 20) / 3 + (size_t)_i);
    config.idle_ns = 2000 * NS_PER_MS;
    test_clock_stop();
    rig_start();
    open_blind(&client, 1);
    client_get(&client, "/big");
    turn_blind(&client, 50);
    ck_assert_uint_eq(listener_output_bytes(listener), 8 << 20);
    int idle = dial_until_read("");
    rig_pass(2001 * NS_PER_MS);
    read_until(idle, SIZE_MAX); /* the sweep that closes this one has looked at the other before */
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_output_bytes(listener), _i == 0 ? 0 : 8 << 20);
    close(idle);
    client_close(&client);
}
END_TEST

/* Who takes nothing keeps others from their answers: such a client has two seconds then, not thirty. */
START_TEST(who_reads_nothing_makes_room_where_output_is_scarce) {
    config.output_memory = 1 << 20;
    config.idle_ns = 1900 * NS_PER_MS;
    test_clock_stop();
    rig_start();
    open_blind(&client, _i);
    client_get(&client, "/big");
    turn_blind(&client, 50);
    int idle = dial_until_read("");
    rig_pass(1950 * NS_PER_MS);
    read_until(idle, SIZE_MAX); /* the sweep that closes this one has looked at the other before */
    ck_assert_uint_gt(listener_output_bytes(listener), 0);
    rig_pass(500 * NS_PER_MS); /* one sweep */
    while (listener_output_bytes(listener) > 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    close(idle);
    client_close(&client);
}
END_TEST

START_TEST(watches_have_places_of_their_own) {
    struct client watchers[3];
    config.n_exchanges_max = 1;
    config.n_probes_max = 0;
    config.n_watches_max = 2;
    rig_start();
    unsigned id = 0;
    for (unsigned i = 0; i < 3; i++) {
        client_open(&watchers[i], &client_protocols[_i], 0);
        id = client_get(&watchers[i], "/watch");
        while (client_look(&watchers[i], id).status == 0)
            client_turn(&watchers[i]);
        ck_assert_uint_eq(client_look(&watchers[i], id).status, i < 2 ? 200 : 429);
        ck_assert_uint_eq(status_for_another(_i, "/x"), 200);
    }
    client_close(&watchers[0]);
    while (exchanges_count(exchanges) > 1)
        loop_turn(loop, false);
    ck_assert_uint_eq(client_await(&watchers[2], id).status, 429);
    id = client_get(&watchers[2], "/watch"); /* the place of the one that left */
    while (client_look(&watchers[2], id).status == 0)
        client_turn(&watchers[2]);
    ck_assert_uint_eq(client_look(&watchers[2], id).status, 200);
    client_close(&watchers[1]);
    client_close(&watchers[2]);
}
END_TEST

/* Four places, of which each watch leaves some to others: the k-th comes in where they are free. */
START_TEST(watches_leave_places_to_others) {
    static const struct {
        const char *path;
        unsigned status;
    } asked[] = {{"/watch3", 200}, {"/watch3", 429}, {"/watch4", 429}, {"/watch4294967295", 429},
                 {"/watch2", 200}, {"/watch2", 429}, {"/watch1", 200}, {"/watch1", 429},
                 {"/watch0", 200}, {"/watch0", 429}, {"/watch3", 429}};
    config.n_watches_max = 4;
    rig_start();
    client_open(&client, client_protocols + 1, 0);
    for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
        unsigned id = client_get(&client, asked[i].path);
        while (client_look(&client, id).status == 0)
            client_turn(&client);
        ck_assert_uint_eq(client_look(&client, id).status, asked[i].status);
    }
    client_close(&client);
}
END_TEST

START_TEST(watches_of_one_connection_have_a_bound) {
    config.n_watches_of_each = 2;
    rig_start();
    client_open(&client, client_protocols + 1, 0);
    unsigned ids[3];
    for (unsigned i = 0; i < 3; i++) {
        ids[i] = client_get(&client, "/watch");
        while (client_look(&client, ids[i]).status == 0)
            client_turn(&client);
        ck_assert_uint_eq(client_look(&client, ids[i]).status, i < 2 ? 200 : 429);
    }
    client.protocol->leave(&client, ids[0]);
    while (n_gone == 0)
        client_turn(&client);
    unsigned id = client_get(&client, "/watch");
    while (client_look(&client, id).status == 0)
        client_turn(&client);
    ck_assert_uint_eq(client_look(&client, id).status, 200);
    client_close(&client);
}
END_TEST

START_TEST(probes_are_answered_when_all_places_are_taken) {
    config.n_exchanges_max = 1;
    config.n_probes_max = 2;
    rig_start();
    client_open(&client, &client_protocols[_i], 0);
    client_get(&client, "/wait");
    while (n_held == 0)
        client_turn(&client);
    ck_assert_uint_eq(status_for_another(_i, "/probe"), 200);
    client_open(&other, &client_protocols[_i], 0);
    struct reply reply = client_await(&other, client_get(&other, "/x"));
    ck_assert(is_http2(_i) ? reply.broken : reply.status == 503);
    client_close(&other);
    ck_assert_uint_eq(status_for_another(_i, "/probe"), 200);
    client_close(&client);
}
END_TEST

/* Each kind has as many as there may be. */
START_TEST(all_kinds_of_places_are_taken_at_once) {
    struct client probe;
    config.n_exchanges_max = config.n_probes_max = config.n_watches_max = 1;
    rig_start();
    client_open(&other, &client_protocols[_i], 0);
    unsigned watch = client_get(&other, "/watch");
    while (client_look(&other, watch).status == 0)
        client_turn(&other);
    client_open(&client, &client_protocols[_i], 0);
    client_get(&client, "/wait");
    while (n_held == 0)
        client_turn(&client);
    client_open(&probe, &client_protocols[_i], 0);
    client_ask(&probe, "POST", "/probe", NULL, 10, false);
    while (n_heads < 3)
        client_turn(&probe);
    ck_assert_uint_eq(exchanges_count(exchanges), 3);
    client_body(&probe, 1, "0123456789", 10, true);
    ck_assert_uint_eq(client_await(&probe, 1).status, 200);
    client_close(&probe);
    client_close(&client);
    client_close(&other);
}
END_TEST

/* It is answered before its place is looked at. */
START_TEST(who_is_answered_at_the_gate_hears_nothing_of_places) {
    config.n_exchanges_max = config.n_probes_max = 1;
    rig_start();
    client_open(&client, &client_protocols[_i], 0);
    client_get(&client, "/wait");
    while (n_held == 0)
        client_turn(&client);
    client_open(&other, &client_protocols[_i], 0);
    ck_assert_uint_eq(status_of(&other, "/no"), 401);
    for (unsigned i = 0; i < 10; i++)
        client_turn(&other);
    if (!is_http2(_i))
        ck_assert_ptr_null(strstr(other.in.data + 1, "HTTP/1.1"));
    ck_assert_uint_eq(status_of(&other, "/no"), 401);
    client_close(&other);
    client_close(&client);
}
END_TEST

/* Probes whose bodies never come hold no place that another one needs. */
START_TEST(a_probe_that_does_not_end_makes_room_for_the_next) {
    struct client slow[3];
    config.n_exchanges_max = 1;
    config.n_probes_max = 2;
    rig_start();
    client_open(&client, &client_protocols[_i], 0);
    client_get(&client, "/wait");
    while (n_held == 0)
        client_turn(&client);
    for (unsigned i = 0; i < 3; i++) {
        client_open(&slow[i], &client_protocols[_i], 0);
        client_ask(&slow[i], "POST", "/probe", NULL, 10, false);
        while (n_heads < 2 + i)
            client_turn(&slow[i]);
    }
    ck_assert_uint_eq(exchanges_count(exchanges), 3);
    ck_assert(client_await(&slow[0], 1).broken);
    ck_assert_uint_eq(status_for_another(_i, "/probe"), 200);
    ck_assert(client_await(&slow[1], 1).broken);
    client_body(&slow[2], 1, "0123456789", 10, true);
    ck_assert_uint_eq(client_await(&slow[2], 1).status, 200);
    for (unsigned i = 0; i < 3; i++)
        client_close(&slow[i]);
    client_close(&client);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
#define EACH(test) tcase_add_loop_test(tests, test, 0, N_CLIENT_PROTOCOLS)
    EACH(who_does_not_read_is_not_answered);
    EACH(all_output_together_has_a_bound);
    EACH(a_stream_that_is_read_goes_on_while_others_fill_the_output);
    EACH(who_reads_nothing_makes_room_where_output_is_scarce);
    EACH(watches_have_places_of_their_own);
    EACH(probes_are_answered_when_all_places_are_taken);
    EACH(a_probe_that_does_not_end_makes_room_for_the_next);
    EACH(all_kinds_of_places_are_taken_at_once);
    EACH(who_is_answered_at_the_gate_hears_nothing_of_places);
#undef EACH
    tcase_add_test(tests, watches_leave_places_to_others);
    tcase_add_test(tests, watches_of_one_connection_have_a_bound);
    tcase_add_test(tests, heads_of_requests_that_wait_have_a_bound);
    tcase_add_test(tests, heads_beyond_what_may_wait_are_a_flood);
    tcase_add_loop_test(tests, output_is_scarce_from_three_quarters_on, 0, 2);
}
