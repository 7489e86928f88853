/* The bus's bounds (links, queued bytes) and the tick that finds what a wake-up did not tell. */
#include "proto/bus_internal.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"
#include "tests/unit/proto/bus_rig.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

const char *const suite_name = "bus_bounds";
const double suite_timeout_s = 60;

static struct bus_link *link_at(struct bus *bus, uint32_t number) {
    struct bus_link *link = link_find(bus, number);
    ck_assert_ptr_nonnull(link);
    return link;
}

/* A link to nobody whose room inside libzmq is taken: what is sent from now on waits in our queues. */
static uint32_t full_link(struct bus *bus) {
    struct bus_stats stats;
    uint32_t link = connect_to(bus, endpoint);
    do {
        send_ping(bus, link, 1);
        bus_stats(bus, &stats);
    } while (stats.n_queued == 0);
    return link;
}

START_TEST(a_full_table_keeps_the_links_that_spoke_lately) {
    struct bus *worker = open_bus_as((struct bus_config){.max_links = 2});
    struct bus *routers[3];
    struct bus_event event;
    struct bus_stats stats;
    uint32_t links[2], ours[3];
    listen_at(worker, endpoint);
    for (uint32_t i = 0; i < 3; i++) {
        routers[i] = open_bus();
        ours[i] = connect_to(routers[i], endpoint);
        send_ping(routers[i], ours[i], i);
        if (i == 2)
            break;
        expect_ping(worker, i, &event);
        links[i] = event.link;
    }
    do { /* the third is not answered, and neither of the two is lost for it */
        ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY);
        (void)!bus_wait(worker, PATIENCE_NS);
        bus_stats(worker, &stats);
    } while (stats.n_unanswered == 0);
    ck_assert_uint_eq(stats.n_links, 2);
    for (uint32_t i = 0; i < 2; i++) {
        send_ping(routers[i], ours[i], 7 + i);
        expect_ping(worker, 7 + i, &event);
        ck_assert_uint_eq(event.link, links[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        close_bus(routers[i]);
    close_bus(worker);
}
END_TEST

START_TEST(a_full_table_gives_up_a_link_that_is_silent_for_a_minute_and_its_owner_hears_of_it) {
    struct bus *worker = open_bus_as((struct bus_config){.max_links = 1});
    struct bus *router = open_bus();
    struct bus_event event;
    uint32_t link;
    listen_at(worker, endpoint);
    send_ping(router, connect_to(router, endpoint), 1);
    expect_ping(worker, 1, &event);
    uint32_t silent = event.link;
    ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY);
    struct pollfd fd = {.fd = bus_fd(worker), .events = POLLIN};
    test_clock_stop();
    link_at(worker, silent)->heard_ns = clock_now_ns() - 60 * NS_PER_S + 1;
    ck_assert_int_eq(bus_connect(worker, endpoint, &link, &error), STATUS_LIMIT);
    ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY);
    test_clock_pass(1);
    ck_assert_int_eq(bus_connect(worker, endpoint, &link, &error), STATUS_LIMIT);
    test_clock_run();
    ck_assert_int_eq(poll(&fd, 1, 0), 1); /* at once, without an event of libzmq */
    next_event(worker, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    ck_assert_uint_eq(event.link, silent);
    ck_assert_int_eq(bus_connect(worker, endpoint, &link, &error), STATUS_OK);
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(what_waits_for_a_link_is_bounded_in_bytes) {
    struct bus *router = open_bus_as((struct bus_config){.queue_bytes = 1000});
    struct message message = ping(2);
    uint32_t link = full_link(router);
    size_t item = link_at(router, link)->queued_bytes;
    size_t n = 1;
    while (bus_send(router, link, &message) == STATUS_OK)
        n++;
    ck_assert_uint_eq(link_at(router, link)->queued_bytes, n * item);
    ck_assert_uint_eq(n, 1000 / item);
    close_bus(router);

    router = open_bus_as((struct bus_config){.queue_bytes = 3 * item});
    link = full_link(router);
    ck_assert_int_eq(bus_send(router, link, &message), STATUS_OK);
    ck_assert_int_eq(bus_send(router, link, &message), STATUS_OK);
    ck_assert_int_eq(bus_send(router, link, &message), STATUS_BUSY);
    close_bus(router);
}
END_TEST

START_TEST(a_cancel_takes_back_nothing_of_a_later_attempt) {
    struct bus *router = open_bus();
    struct bus_stats stats;
    uint32_t tokens[] = {4, 5};
    uint32_t link = full_link(router);
    struct message submit = {.type = MESSAGE_SUBMIT};
    submit.u.submit.req = (struct request_id){7, 1};
    submit.u.submit.attempt = 2;
    submit.u.submit.n_prompt = submit.u.submit.n_tokens = 2;
    submit.u.submit.tokens = tokens;
    sampling_init(&submit.u.submit.sampling);
    ck_assert_int_eq(bus_send(router, link, &submit), STATUS_OK);
    struct message cancel = {.type = MESSAGE_CANCEL};
    cancel.u.cancel.req = submit.u.submit.req;
    cancel.u.cancel.attempt = 1;
    ck_assert_int_eq(bus_send(router, link, &cancel), STATUS_OK);
    bus_stats(router, &stats);
    ck_assert_uint_eq(stats.n_queued, 3); /* a ping, the submit, the cancel */
    ck_assert_uint_eq(link_at(router, link)->bulk.n, 1);
    cancel.u.cancel.attempt = 2;
    ck_assert_int_eq(bus_send(router, link, &cancel), STATUS_OK);
    ck_assert_uint_eq(link_at(router, link)->bulk.n, 0);
    close_bus(router);
}
END_TEST

/* Room that libzmq told of while nobody listened, which no product code does. */
START_TEST(the_tick_sends_what_waits_although_no_wake_up_told_of_room) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus_as((struct bus_config){.queue_bulk = 1024, .connect_ms = 60000});
    struct bus_event event;
    struct bus_stats stats;
    uint64_t n_came = 0;
    uint32_t link = full_link(router);
    ck_assert_int_eq(bus_receive(router, &event), STATUS_BUSY);
    listen_at(worker, endpoint);
    while (!bus_is_up(router, link) || !list_empty(&router->ready)) {
        (void)!bus_wait(router, PATIENCE_NS);
        if (bus_receive(router, &event) == STATUS_OK)
            ck_abort_msg("nothing is sent that way");
    }
    static uint32_t tokens[32768];
    struct message submit = {.type = MESSAGE_SUBMIT};
    submit.u.submit.n_prompt = submit.u.submit.n_tokens = 32768;
    submit.u.submit.tokens = tokens;
    sampling_init(&submit.u.submit.sampling);
    for (uint64_t lo = 1; link_at(router, link)->bulk.n < 2; lo++) {
        submit.u.submit.req = (struct request_id){7, lo};
        ck_assert_int_eq(bus_send(router, link, &submit), STATUS_OK);
    }
    list_remove(
        &link_socket(router, link_at(router, link))->ready); /* as if it had been looked at */
    while (bus_stats(router, &stats), n_came < stats.n_sent) {
        next_event(worker, &event);
        n_came++;
    }
    int events = 0;
    size_t n = sizeof events;
    void *zmq = link_socket(router, link_at(router, link))->zmq;
    ck_assert_int_eq(zmq_getsockopt(zmq, ZMQ_EVENTS, &events, &n), 0);
    ck_assert_int_ne(events & ZMQ_POLLOUT, 0);
    ck_assert_uint_ge(stats.n_queued, 2);
    while (stats.n_queued > 0) {
        ck_assert_int_eq(bus_receive(router, &event), STATUS_BUSY);
        (void)!bus_wait(router, PATIENCE_NS);
        bus_stats(router, &stats);
    }
    close_bus(router);
    close_bus(worker);
}
END_TEST

int __real_zmq_getsockopt(void *zmq, int option, void *value, size_t *n);
int __wrap_zmq_getsockopt(void *zmq, int option, void *value, size_t *n);

static struct bus *reads_when_asked; /* the next time that any socket is asked what it has; NULL */

/* Takes what came, until the asked socket has room again. */
static void make_room(void *zmq) {
    struct bus *bus = reads_when_asked;
    struct bus_event event;
    reads_when_asked = NULL;
    for (int events = 0; !(events & ZMQ_POLLOUT); sched_yield()) {
        size_t n = sizeof events;
        while (bus_receive(bus, &event) == STATUS_OK)
            continue;
        ck_assert_int_eq(__real_zmq_getsockopt(zmq, ZMQ_EVENTS, &events, &n), 0);
    }
}

int __wrap_zmq_getsockopt(void *zmq, int option, void *value, size_t *n) {
    if (option == ZMQ_EVENTS && reads_when_asked)
        make_room(zmq);
    return __real_zmq_getsockopt(zmq, option, value, n);
}

/* libzmq tells of it by nothing else. */
START_TEST(room_that_comes_while_a_send_asks_for_messages_is_used) {
    struct bus *worker = open_bus(), *router = open_bus();
    struct bus_event event;
    struct bus_stats stats;
    listen_at(worker, endpoint);
    uint32_t link = connect_to(router, endpoint);
    send_ping(router, link, 1);
    expect_ping(worker, 1, &event);
    while (bus_receive(worker, &event) == STATUS_OK)
        continue;
    for (reads_when_asked = worker; reads_when_asked;)
        send_ping(router, link, 2);
    bus_stats(router, &stats);
    ck_assert_uint_eq(stats.n_queued, 0);
    send_ping(router, link, 3);
    do
        next_event(worker, &event);
    while (event.message->u.ping.t_ns != 3);
    close_bus(router);
    close_bus(worker);
}
END_TEST

/* A wake-up that was eaten at a listener, which no product code does. */
START_TEST(a_look_finds_what_came_to_a_listener_although_no_wake_up_told_of_it) {
    struct bus *worker = open_bus_as((struct bus_config){.queue_bulk = 1024, .connect_ms = 60000});
    struct bus *router = open_bus();
    struct bus_event event;
    listen_at(worker, endpoint);
    uint32_t link = connect_to(router, endpoint);
    send_ping(router, link, 1);
    expect_ping(worker, 1, &event);
    while (bus_receive(worker, &event) == STATUS_OK)
        ck_abort_msg("nothing else was sent");
    send_ping(router, link, 2);
    for (int events = 0; !(events & ZMQ_POLLIN); sched_yield()) {
        size_t n = sizeof events;
        void *zmq = worker->listeners[0].socket.zmq;
        ck_assert_int_eq(zmq_getsockopt(zmq, ZMQ_EVENTS, &events, &n), 0);
    }
    worker->n_ticks = 18; /* the look is in the second tick from here */
    expect_ping(worker, 2, &event);
    close_bus(router);
    close_bus(worker);
}
END_TEST

/* Each kind of lost wake-up, made by hand. */
START_TEST(a_lost_wake_up_is_counted) {
    struct bus *bus = open_bus();
    struct bus_event event;
    uint64_t n = 0;
    listen_at(bus, "tcp://127.0.0.1:0"); /* where nobody comes */
    uint32_t link = full_link(bus);      /* a queue that waits, at a socket of its own */
    struct bus_socket *socket = &link_at(bus, link)->socket;
    while (bus_receive(bus, &event) == STATUS_OK)
        continue;
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, n);
    ck_assert(list_empty(&socket->ready));

    bus->listeners[0].socket.is_unread = true;
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, ++n);
    socket->is_unread = true;
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, ++n);
    socket->is_unflushed = true;
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, ++n);
    bus->is_kicked = true;
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, ++n);
    bus->is_kicked = false;

    (void)!bus_fd(bus);
    bus_mark(bus, socket); /* and the kick is forgotten */
    uint64_t ignored;
    ck_assert_int_eq(read(bus->kick_fd, &ignored, sizeof ignored), sizeof ignored);
    bus->is_kicked = false;
    ck_assert_uint_eq(bus_dispatch(bus, 1, 0, NULL, NULL), 0);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, ++n);
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, n);
    bus_free(bus);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, bus_rig_setup, bus_rig_teardown);
    tcase_add_test(tests, a_full_table_keeps_the_links_that_spoke_lately);
    tcase_add_test(
        tests, a_full_table_gives_up_a_link_that_is_silent_for_a_minute_and_its_owner_hears_of_it);
    tcase_add_test(tests, what_waits_for_a_link_is_bounded_in_bytes);
    tcase_add_test(tests, a_cancel_takes_back_nothing_of_a_later_attempt);
    tcase_add_test(tests, the_tick_sends_what_waits_although_no_wake_up_told_of_room);
    tcase_add_test(tests, room_that_comes_while_a_send_asks_for_messages_is_used);
    tcase_add_test(tests, a_look_finds_what_came_to_a_listener_although_no_wake_up_told_of_it);
    tcase_add_test(tests, a_lost_wake_up_is_counted);
}
