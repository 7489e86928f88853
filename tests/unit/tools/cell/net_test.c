#include "base/clock.h"
#include "tests/support/suite.h"
#include "tools/cell/net.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cell net";
const double suite_timeout_s = 60;

#define BEGIN_NS  (3600 * NS_PER_S)
#define DELAY_NS  (100 * NS_PER_US)
#define HANGUP_NS NS_PER_MS
#define SEEN_MAX  16

static struct net net;
static struct heap heap;
static uint64_t now_ns, serial;

/* What arrived where, and which links were said to be over. */
static struct {
    uint32_t n, n_broken;
    uint64_t at_ns[SEEN_MAX], broken_ns[SEEN_MAX], seq[SEEN_MAX];
    uint64_t t_ns[SEEN_MAX]; /* of the PING */
    enum message_type type[SEEN_MAX];
    uint32_t broken_node[SEEN_MAX];
    bool takes; /* survives() keeps the next one and sends it astray */
    const char *failure;
} seen;

static uint64_t on_delay(void *context) {
    (void)context;
    return DELAY_NS;
}

static void on_deliver(void *context, struct conn *conn, uint32_t d, const struct packet *packet) {
    struct codec *reader = context;
    struct frames frames = {.head = packet->bytes, .n_head = packet->n_head};
    struct message message;
    struct error error;
    (void)conn;
    (void)d;
    ck_assert_int_eq(codec_decode(reader, &frames, &message, &error), STATUS_OK);
    seen.at_ns[seen.n] = now_ns;
    seen.seq[seen.n] = message.seq;
    seen.t_ns[seen.n] = message.type == MESSAGE_PING ? message.u.ping.t_ns : 0;
    seen.type[seen.n++] = message.type;
}

static void on_broken(void *context, uint32_t node, uint32_t link) {
    (void)context;
    (void)link;
    seen.broken_node[seen.n_broken] = node;
    seen.broken_ns[seen.n_broken++] = now_ns;
}

static bool on_survive(void *context, uint32_t i, uint32_t d, struct packet *packet) {
    (void)context;
    if (!seen.takes)
        return true;
    seen.takes = false;
    net_astray(&net, i, d, packet, 5 * NS_PER_MS);
    return false;
}

static void on_failed(void *context, const char *what) {
    (void)context;
    seen.failure = what;
}

static void begin(struct codec *reader, bool overtake, double bytes_s) {
    struct net_spec spec = {.n_conns = 2,
                            .n_nodes = 3,
                            .hangup_ns = HANGUP_NS,
                            .bytes_s = bytes_s,
                            .overtake = overtake};
    struct net_hooks hooks = {.context = reader,
                              .delay_ns = on_delay,
                              .survives = on_survive,
                              .deliver = on_deliver,
                              .broken = on_broken,
                              .failed = on_failed};
    memset(&seen, 0, sizeof seen);
    now_ns = BEGIN_NS;
    ck_assert_int_eq(codec_init(reader), STATUS_OK);
    ck_assert_int_eq(net_init(&net, &spec, &hooks, &heap, &now_ns, &serial), STATUS_OK);
}

static void end(struct codec *reader) {
    net_fini(&net);
    heap_fini(&heap);
    codec_fini(reader);
}

static void run(void) {
    while (heap.n > 0) {
        struct cell_event event = heap_pop(&heap);
        now_ns = event.at_ns;
        net_event(&net, &event);
    }
}

static enum status ping(uint32_t conn, uint64_t number, uint32_t hwm, uint64_t n_bytes) {
    struct message message = {.type = MESSAGE_PING, .u.ping.t_ns = number};
    return net_send(&net, conn, 1, &message, hwm, n_bytes);
}

START_TEST(messages_keep_their_order_and_their_time) {
    struct codec reader;
    begin(&reader, false, 0);
    uint32_t conn = net_open(&net, 0, 7, 1, false);
    for (uint64_t i = 1; i <= 3; i++)
        ck_assert_int_eq(ping(conn, i, 3, 0), STATUS_OK);
    ck_assert_int_eq(ping(conn, 4, 3, 0), STATUS_BUSY); /* three wait */
    run();
    ck_assert_uint_eq(seen.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(seen.t_ns[i], i + 1);
        ck_assert_uint_eq(seen.seq[i], i + 1);
        ck_assert_uint_eq(seen.at_ns[i], BEGIN_NS + DELAY_NS);
    }
    ck_assert_int_eq(ping(conn, 4, 3, 0), STATUS_OK);
    end(&reader);
}
END_TEST

START_TEST(bytes_take_their_turn_on_the_line) {
    struct codec reader;
    begin(&reader, false, 1e9);
    uint32_t conn = net_open(&net, 0, 0, 1, true);
    ck_assert_int_eq(ping(conn, 1, 9, 1000000), STATUS_OK); /* a millisecond each */
    ck_assert_int_eq(ping(conn, 2, 9, 1000000), STATUS_OK);
    ck_assert_int_eq(ping(conn, 3, 9, 0), STATUS_OK); /* no bytes, but behind the others */
    run();
    ck_assert_uint_eq(seen.at_ns[0], BEGIN_NS + NS_PER_MS + DELAY_NS);
    ck_assert_uint_eq(seen.at_ns[1], BEGIN_NS + 2 * NS_PER_MS + DELAY_NS);
    ck_assert_uint_eq(seen.at_ns[2], seen.at_ns[1]);
    end(&reader);
}
END_TEST

START_TEST(what_is_under_way_is_lost_when_it_breaks) {
    struct codec reader;
    begin(&reader, false, 0);
    uint32_t conn = net_open(&net, 0, 0, 1, false);
    ck_assert_int_eq(ping(conn, 1, 9, 0), STATUS_OK);
    net_break(&net, conn, 3 * NS_PER_MS, NULL);
    net_break(&net, conn, 3 * NS_PER_MS, NULL);       /* once */
    ck_assert_int_eq(ping(conn, 2, 9, 0), STATUS_OK); /* lost: nobody knows yet */
    run();
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_uint_eq(seen.n_broken, 2);
    ck_assert_uint_eq(seen.broken_ns[0], BEGIN_NS + 3 * NS_PER_MS);
    ck_assert_uint_eq(seen.broken_node[0] + seen.broken_node[1], 1);
    ck_assert_int_eq(ping(conn, 3, 9, 0), STATUS_CLOSED);
    end(&reader);
}
END_TEST

START_TEST(the_other_end_learns_of_a_close_and_of_a_death) {
    struct codec reader;
    begin(&reader, false, 0);
    uint32_t first = net_open(&net, 0, 0, 1, false), second = net_open(&net, 2, 5, 1, false);
    net_close(&net, first, 0);
    run();
    ck_assert_uint_eq(seen.n_broken, 1);
    ck_assert_uint_eq(seen.broken_node[0], 1);
    ck_assert_uint_eq(seen.broken_ns[0], BEGIN_NS + HANGUP_NS);
    net_node_died(&net, 1, 2 * NS_PER_MS);
    run();
    ck_assert_uint_eq(seen.n_broken, 2);
    ck_assert_uint_eq(seen.broken_node[1], 2);
    ck_assert_uint_eq(seen.broken_ns[1], BEGIN_NS + HANGUP_NS + 2 * NS_PER_MS);
    ck_assert_uint_eq(net_find(&net, 2, 5), 2); /* none: spec.n_conns */
    uint32_t third = net_open(&net, 0, 1, 1, false);
    net_close(&net, third, 0);
    net_node_died(&net, 1, 0); /* before it could learn of the close: the dead learn nothing */
    run();
    ck_assert_uint_eq(seen.n_broken, 2);
    (void)second;
    end(&reader);
}
END_TEST

START_TEST(links_are_found_by_the_name_that_their_node_has_for_them) {
    struct codec reader;
    begin(&reader, false, 0);
    uint32_t first = net_open(&net, 0, 40, 1, false), second = net_open(&net, 2, 0, 1, false);
    ck_assert_uint_eq(net_find(&net, 0, 40), first);
    ck_assert_uint_eq(net_find(&net, 1, 0), first);
    ck_assert_uint_eq(net_find(&net, 1, 1), second);
    ck_assert_uint_eq(net_end(&net.conns[first], 1, 0), 1);
    ck_assert_uint_eq(net_end(&net.conns[first], 0, 40), 0);
    ck_assert_uint_eq(net_find(&net, 0, 39), 2);
    ck_assert_uint_eq(net_find(&net, 0, 4000), 2);
    ck_assert_ptr_null(seen.failure);
    net_open(&net, 0, 41, 1, false); /* a third of two */
    ck_assert_str_eq(seen.failure, "out of connections");
    end(&reader);
}
END_TEST

START_TEST(what_goes_astray_comes_later_and_out_of_order) {
    struct codec reader;
    begin(&reader, false, 0);
    uint32_t conn = net_open(&net, 0, 0, 1, false);
    seen.takes = true;
    ck_assert_int_eq(ping(conn, 1, 9, 0), STATUS_OK);
    ck_assert_int_eq(ping(conn, 2, 9, 0), STATUS_OK);
    run();
    ck_assert_uint_eq(seen.n, 2);
    ck_assert_uint_eq(seen.t_ns[0], 2);
    ck_assert_uint_eq(seen.t_ns[1], 1);
    ck_assert_uint_eq(seen.at_ns[1], BEGIN_NS + DELAY_NS + 5 * NS_PER_MS);
    end(&reader);
}
END_TEST

START_TEST(a_cancel_takes_the_work_that_waits_with_it) {
    struct codec reader;
    struct message submit = {.type = MESSAGE_RESERVE};
    struct message cancel = {.type = MESSAGE_CANCEL};
    begin(&reader, true, 0);
    uint32_t conn = net_open(&net, 0, 0, 1, false);
    for (uint64_t i = 1; i <= 2; i++) {
        submit.u.reserve.req.lo = i;
        submit.u.reserve.attempt = 1;
        ck_assert_int_eq(net_send(&net, conn, 0, &submit, 9, 0), STATUS_OK);
    }
    cancel.u.cancel.req.lo = 1;
    cancel.u.cancel.attempt = 1;
    ck_assert_int_eq(net_send(&net, conn, 0, &cancel, 9, 0), STATUS_OK);
    run();
    ck_assert_uint_eq(seen.n, 2);
    ck_assert_int_eq(seen.type[0], MESSAGE_CANCEL); /* before the work, whose first is gone */
    ck_assert_int_eq(seen.type[1], MESSAGE_RESERVE);
    end(&reader);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, messages_keep_their_order_and_their_time);
    tcase_add_test(tests, bytes_take_their_turn_on_the_line);
    tcase_add_test(tests, what_is_under_way_is_lost_when_it_breaks);
    tcase_add_test(tests, the_other_end_learns_of_a_close_and_of_a_death);
    tcase_add_test(tests, links_are_found_by_the_name_that_their_node_has_for_them);
    tcase_add_test(tests, what_goes_astray_comes_later_and_out_of_order);
    tcase_add_test(tests, a_cancel_takes_the_work_that_waits_with_it);
}
