#include "tests/support/suite.h"
#include "tests/unit/proto/bus_rig.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "bus";
const double suite_timeout_s = 60;

static void talk(struct bus *worker, struct bus *router, const char *where) {
    struct bus_event event;
    uint32_t link = connect_to(router, where);
    send_ping(router, link, 1);
    expect_ping(worker, 1, &event);
    ck_assert_uint_eq(event.message->seq, 1);
    ck_assert_uint_eq(event.message->session, 9);
    ck_assert_uint_eq(event.listener, 0);
    uint32_t back = event.link;
    send_ping(worker, back, 2);
    send_ping(worker, back, 3);
    expect_ping(router, 2, &event);
    ck_assert_uint_eq(event.link, link);
    ck_assert_uint_eq(event.listener, UINT32_MAX);
    expect_ping(router, 3, &event);
    ck_assert_uint_eq(event.message->seq, 2);
    ck_assert_uint_eq(bus_seq(worker, back), 2);
    uint32_t tokens[] = {4, 5, 6};
    struct message submit = {.type = MESSAGE_SUBMIT};
    submit.u.submit.req = (struct request_id){1, 1};
    submit.u.submit.n_prompt = submit.u.submit.n_tokens = 3;
    submit.u.submit.tokens = tokens;
    sampling_init(&submit.u.submit.sampling);
    ck_assert_int_eq(bus_send(router, link, &submit), STATUS_OK);
    next_event(worker, &event);
    ck_assert_uint_eq(event.link, back);
    ck_assert_int_eq(event.message->type, MESSAGE_SUBMIT);
    ck_assert_mem_eq(event.message->u.submit.tokens, tokens, sizeof tokens);
}

START_TEST(messages_go_both_ways_over_ipc) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    listen_at(worker, endpoint);
    talk(worker, router, endpoint);
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(a_bus_that_is_freed_leaves_no_descriptor_open) {
    unsigned n_before = suite_count_files();
    struct bus *worker = open_bus(), *router = open_bus();
    struct bus_event event;
    listen_at(worker, endpoint);
    send_ping(router, connect_to(router, endpoint), 1);
    expect_ping(worker, 1, &event);
    ck_assert_uint_gt(suite_count_files(), n_before);
    close_bus(router);
    close_bus(worker);
    ck_assert_uint_eq(suite_count_files(), n_before);
}
END_TEST

START_TEST(messages_go_both_ways_over_tcp) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    uint32_t listener = listen_at(worker, "tcp://127.0.0.1:0");
    talk(worker, router, bus_endpoint(worker, listener));
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(messages_go_both_ways_over_ipv6_with_and_without_brackets) {
    static const char *const forms[] = {"tcp://[::1]:", "tcp://::1:", "tcp://0:0:0:0:0:0:0:1:"};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_ipv6 = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(fd);
    for (size_t i = 0; i < 3 && has_ipv6; i++) {
        char said[64];
        struct bus *worker = open_bus();
        struct bus *router = open_bus();
        snprintf(said, sizeof said, "%s0", forms[i]);
        const char *bound = bus_endpoint(worker, listen_at(worker, said));
        ck_assert_msg(strncmp(bound, "tcp://[::1]:", 12) == 0, "%s", bound);
        snprintf(said, sizeof said, "%s%s", forms[2 - i], bound + 12);
        talk(worker, router, said);
        close_bus(router);
        close_bus(worker);
    }
}
END_TEST

START_TEST(messages_go_both_ways_with_keys) {
    make_keys("keys", &keys);
    struct bus *worker = open_bus_as((struct bus_config){.keys = &keys});
    struct bus *router = open_bus_as((struct bus_config){.keys = &keys});
    uint32_t listener = listen_at(worker, "tcp://127.0.0.1:0");
    talk(worker, router, bus_endpoint(worker, listener));
    struct bus_stats stats;
    bus_stats(worker, &stats);
    ck_assert_uint_eq(stats.n_key_refused, 0);
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(the_ipc_socket_is_private_whatever_the_umask) {
    struct bus *worker = open_bus();
    struct stat there;
    mode_t before = umask(0);
    listen_at(worker, endpoint);
    ck_assert_uint_eq(umask(before), 0);
    ck_assert_int_eq(stat(endpoint + 6, &there), 0);
    ck_assert_uint_eq(there.st_mode & 0777, 0600);
    char run[128];
    snprintf(run, sizeof run, "%s/run", folder);
    ck_assert_int_eq(stat(run, &there), 0);
    ck_assert_uint_eq(there.st_mode & 0777, 0700);
    close_bus(worker);
}
END_TEST

START_TEST(a_second_listener_does_not_take_the_place_of_a_living_one) {
    struct bus *worker = open_bus();
    struct bus *thief = open_bus();
    uint32_t listener;
    listen_at(worker, endpoint);
    ck_assert_int_eq(bus_bind(thief, endpoint, &listener, &error), STATUS_EXISTS);
    struct bus *router = open_bus();
    talk(worker, router, endpoint);
    close_bus(router);
    close_bus(thief);
    close_bus(worker);
    struct bus *next = open_bus();
    listen_at(next, endpoint);
    close_bus(next);
}
END_TEST

START_TEST(addresses_beyond_loopback_want_keys_and_say_how) {
    struct bus *bus = open_bus();
    uint32_t made;
    static const char *const refused[] = {"tcp://0.0.0.0:0", "tcp://*:0", "tcp://10.0.0.1:7000",
                                          "tcp://[::]:0", "tcp://example:1"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ck_assert_int_eq(bus_bind(bus, refused[i], &made, &error), STATUS_DENIED);
        ck_assert_ptr_nonnull(strstr(error.text, "tandem keys"));
        ck_assert_int_eq(bus_connect(bus, refused[i], &made, &error), STATUS_DENIED);
    }
    static const char *const wrong[] = {"",
                                        "tcp://",
                                        "tcp://127.0.0.1",
                                        "tcp://:5",
                                        "udp://a:1",
                                        "ipc://rel/a",
                                        "ipc://",
                                        "inproc://a",
                                        "tcp://127.0.0.1:99999999",
                                        "tcp://127.0.0.1:65536",
                                        "tcp://[::1:7",
                                        "tcp://::1",
                                        "tcp://[fe80::1]:7",
                                        "tcp://127.0.0.1:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_ne(bus_bind(bus, wrong[i], &made, &error), STATUS_OK);
    close_bus(bus);
}
END_TEST

static struct message big_submit(uint32_t n, uint32_t *tokens) {
    struct message submit = {.type = MESSAGE_SUBMIT};
    submit.u.submit.req = (struct request_id){7, 1};
    submit.u.submit.n_prompt = submit.u.submit.n_tokens = n;
    submit.u.submit.tokens = tokens;
    sampling_init(&submit.u.submit.sampling);
    return submit;
}

/* The peer reads nothing until the sender was told to stop; then everything taken arrives. */
static void stop_and_go(struct bus *from, uint32_t link, struct bus *to) {
    static uint32_t tokens[32768];
    struct bus_event event;
    uint64_t n_taken = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        struct message submit = big_submit(32768, tokens);
        submit.u.submit.req.lo = n_taken + 1;
        status = bus_send(from, link, &submit);
        n_taken += status == STATUS_OK;
    }
    ck_assert_int_eq(status, STATUS_BUSY);
    send_ping(from, link, 5); /* control has its own room */
    uint64_t n_came = 0;
    bool came_ping = false;
    while (n_came < n_taken || !came_ping) {
        if (bus_receive(from, &event) == STATUS_OK)
            ck_abort_msg("nothing is sent that way");
        if (bus_receive(to, &event) != STATUS_OK)
            continue;
        ck_assert_int_eq(event.kind, BUS_MESSAGE);
        if (event.message->type == MESSAGE_PING) {
            came_ping = true;
            ck_assert_uint_eq(event.message->seq, 0);
            ck_assert_uint_lt(n_came, n_taken); /* it overtook */
        } else {
            ck_assert_uint_eq(event.message->u.submit.req.lo, ++n_came);
            ck_assert_uint_eq(event.message->seq, n_came);
        }
    }
}

START_TEST(a_reader_that_stops_makes_the_connecting_side_busy_and_loses_nothing) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus_as((struct bus_config){.queue_bulk = 10});
    listen_at(worker, endpoint);
    stop_and_go(router, connect_to(router, endpoint), worker);
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(a_reader_that_stops_makes_the_bound_side_busy_and_loses_nothing) {
    struct bus *worker = open_bus_as((struct bus_config){.queue_bulk = 10});
    struct bus *router = open_bus();
    struct bus_event event;
    listen_at(worker, endpoint);
    send_ping(router, connect_to(router, endpoint), 1);
    expect_ping(worker, 1, &event);
    stop_and_go(worker, event.link, router);
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(a_cancel_takes_back_what_still_waits) {
    static uint32_t tokens[32768];
    struct bus *worker = open_bus();
    struct bus *router = open_bus_as((struct bus_config){.queue_bulk = 10});
    struct bus_event event;
    struct bus_stats stats;
    listen_at(worker, endpoint);
    uint32_t link = connect_to(router, endpoint);
    uint64_t n = 0;
    struct message submit = big_submit(32768, tokens);
    do {
        submit.u.submit.req.lo = ++n;
    } while (bus_send(router, link, &submit) == STATUS_OK);
    uint64_t last = n - 1;
    struct message cancel = {.type = MESSAGE_CANCEL};
    cancel.u.cancel.req = (struct request_id){7, last};
    bus_stats(router, &stats);
    uint32_t n_queued = stats.n_queued;
    ck_assert_int_eq(bus_send(router, link, &cancel), STATUS_OK);
    bus_stats(router, &stats);
    ck_assert_uint_le(stats.n_queued, n_queued); /* one less, and the cancel unless it went */
    uint64_t n_submits = 0;
    bool came_cancel = false;
    while (n_submits < last - 1 || !came_cancel) {
        ck_assert_int_eq(bus_receive(router, &event), STATUS_BUSY);
        if (bus_receive(worker, &event) != STATUS_OK)
            continue;
        came_cancel |= event.message->type == MESSAGE_CANCEL;
        if (event.message->type == MESSAGE_SUBMIT) {
            n_submits++;
            ck_assert_uint_ne(event.message->u.submit.req.lo, last);
        }
    }
    close_bus(router);
    close_bus(worker);
}
END_TEST

/* A worker in a process of its own: it starts when told, greets, and waits to be killed. Forked
 * before this process has a bus, since a ZeroMQ context does not survive a fork. */
static pid_t fork_worker(int *start) {
    int ends[2];
    char told;
    ck_assert_int_eq(pipe(ends), 0);
    *start = ends[1];
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0) {
        close(ends[0]);
        return child;
    }
    ck_assert_int_eq(read(ends[0], &told, 1), 1);
    struct bus *worker = open_bus();
    struct bus_event event;
    listen_at(worker, endpoint);
    for (;;) {
        next_event(worker, &event);
        if (event.kind == BUS_MESSAGE)
            send_ping(worker, event.link, (uint64_t)getpid());
    }
}

static void kill_and_reap(pid_t child) {
    int ignored;
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &ignored, 0), child);
}

START_TEST(a_killed_peer_is_noticed_and_its_next_incarnation_is_a_new_link) {
    int starts[2];
    pid_t child = fork_worker(&starts[0]);
    pid_t next_child = fork_worker(&starts[1]);
    ck_assert_int_eq(write(starts[0], "", 1), 1);
    struct bus *router = open_bus();
    struct bus_event event;
    uint32_t link = connect_to(router, endpoint);
    send_ping(router, link, 1);
    expect_ping(router, (uint64_t)child, &event);
    kill_and_reap(child);
    uint64_t killed_ns = clock_now_ns();
    next_event(router, &event);
    printf("peer death noticed after %.1f ms\n", (double)(clock_now_ns() - killed_ns) / 1e6);
    ck_assert_int_eq(event.kind, BUS_LOST);
    ck_assert_uint_eq(event.link, link);
    struct message message = ping(1);
    ck_assert_int_eq(bus_send(router, link, &message), STATUS_CLOSED);
    bus_close(router, link); /* over: harmless */

    child = next_child;
    ck_assert_int_eq(write(starts[1], "", 1), 1);
    uint32_t again = connect_to(router, endpoint);
    ck_assert_uint_ne(again, link);
    send_ping(router, again, 1);
    expect_ping(router, (uint64_t)child, &event);
    ck_assert_uint_eq(event.link, again);
    ck_assert_uint_eq(event.message->seq, 1);
    ck_assert_int_eq(bus_send(router, link, &message), STATUS_CLOSED);
    kill_and_reap(child);
    close(starts[0]);
    close(starts[1]);
    close_bus(router);
}
END_TEST

START_TEST(the_bound_side_hears_of_a_closed_peer_with_its_next_send) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    struct bus_event event;
    listen_at(worker, endpoint);
    uint32_t link = connect_to(router, endpoint);
    send_ping(router, link, 1);
    expect_ping(worker, 1, &event);
    uint32_t back = event.link;
    bus_close(router, link);
    struct message message = ping(2);
    /* Read too: a sender alone fills its queues and is then told nothing. */
    while (bus_receive(worker, &event) != STATUS_OK) {
        (void)!bus_send(worker, back, &message);
        (void)!bus_wait(worker, PATIENCE_NS / 100);
    }
    ck_assert_int_eq(event.kind, BUS_LOST);
    ck_assert_uint_eq(event.link, back);
    ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY); /* once */
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(a_connect_to_nobody_is_lost_in_the_end) {
    struct bus *router = open_bus_as((struct bus_config){.connect_ms = 100});
    struct bus_event event;
    uint32_t link = connect_to(router, endpoint);
    send_ping(router, link, 1);
    next_event(router, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    ck_assert_uint_eq(event.link, link);
    close_bus(router);
}
END_TEST

START_TEST(links_may_be_made_before_their_listener) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    struct bus_event event;
    uint32_t link = connect_to(router, endpoint);
    send_ping(router, link, 1);
    ck_assert_int_eq(bus_receive(router, &event), STATUS_BUSY);
    listen_at(worker, endpoint);
    expect_ping(worker, 1, &event);
    close_bus(router);
    close_bus(worker);
}
END_TEST

static void count_event(void *context, const struct bus_event *event) {
    uint64_t *n = context;
    ck_assert_int_eq(event->kind, BUS_MESSAGE);
    (*n)++;
}

struct answer {
    struct bus *bus;
    uint64_t n;
};

static void answer_event(void *context, const struct bus_event *event) {
    struct answer *answer = context;
    if (event->kind != BUS_MESSAGE)
        return;
    answer->n++;
    struct message message = *event->message;
    (void)!bus_send(answer->bus, event->link, &message);
}

START_TEST(the_descriptor_tells_of_everything) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    struct answer answer = {.bus = worker};
    uint64_t n_back = 0;
    uint32_t n_sent = 0;
    listen_at(worker, endpoint);
    uint32_t link = connect_to(router, endpoint);
    struct pollfd fds[2] = {{.fd = bus_fd(worker), .events = POLLIN},
                            {.fd = bus_fd(router), .events = POLLIN}};
    while (n_back < 3000) {
        if (n_sent < 3000 && n_sent < n_back + 40)
            send_ping(router, link, ++n_sent);
        ck_assert_int_ge(poll(fds, 2, n_sent < 3000 && n_sent < n_back + 40 ? 0 : -1), 0);
        if (fds[0].revents)
            bus_dispatch(worker, 1 + n_sent % 7, 0, answer_event, &answer);
        if (fds[1].revents)
            bus_dispatch(router, 1 + n_sent % 5, 0, count_event, &n_back);
    }
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(after_its_time_one_event_is_handed_over_and_the_rest_later) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    struct answer answer = {.bus = worker};
    uint64_t n_back = 0;
    listen_at(worker, endpoint);
    uint32_t link = connect_to(router, endpoint);
    struct pollfd fds[2] = {{.fd = bus_fd(worker), .events = POLLIN},
                            {.fd = bus_fd(router), .events = POLLIN}};
    for (uint32_t i = 1; i <= 100; i++)
        send_ping(router, link, i);
    while (n_back < 100) {
        ck_assert_int_gt(poll(fds, 2, -1), 0); /* readable until all is handed over */
        if (fds[0].revents)
            ck_assert_uint_le(bus_dispatch(worker, 1000, 1, answer_event, &answer), 1);
        if (fds[1].revents)
            ck_assert_uint_le(bus_dispatch(router, 1000, 1, count_event, &n_back), 1);
    }
    close_bus(router);
    close_bus(worker);
}
END_TEST

START_TEST(chunks_travel_on_a_kv_bus) {
    struct bus *from = open_bus_as((struct bus_config){.kind = BUS_KV});
    struct bus *to = open_bus_as((struct bus_config){.kind = BUS_KV});
    struct bus_event event;
    listen_at(to, endpoint);
    uint32_t link = connect_to(from, endpoint);
    uint8_t *bytes = malloc(MESSAGE_CHUNK_MAX);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0x5a, MESSAGE_CHUNK_MAX);
    struct message chunk = {.type = MESSAGE_CHUNK};
    chunk.u.chunk = (struct chunk){.transfer_id = 3,
                                   .layer_end = 1,
                                   .block_end = 1,
                                   .n_bytes = MESSAGE_CHUNK_MAX,
                                   .bytes = bytes};
    uint32_t n_sent = 0;
    uint32_t n_came = 0;
    while (n_came < 20) {
        chunk.u.chunk.index = n_sent;
        if (n_sent < 20 && bus_send(from, link, &chunk) == STATUS_OK)
            n_sent++;
        (void)!bus_receive(from, &event);
        if (bus_receive(to, &event) == STATUS_OK) {
            ck_assert_uint_eq(event.message->u.chunk.index, n_came);
            ck_assert_mem_eq(event.message->u.chunk.bytes, bytes, MESSAGE_CHUNK_MAX);
            n_came++;
        }
    }
    free(bytes);
    close_bus(from);
    close_bus(to);
}
END_TEST

static void *echo(void *argument) {
    struct bus *worker = argument;
    struct bus_event event;
    for (;;) {
        next_event(worker, &event);
        struct message message = *event.message;
        if (message.type == MESSAGE_DRAIN)
            return NULL;
        while (bus_send(worker, event.link, &message) == STATUS_BUSY)
            (void)!bus_wait(worker, PATIENCE_NS);
    }
}

static void stop_echo(struct bus *router, uint32_t link, pthread_t thread) {
    struct message drain = {.type = MESSAGE_DRAIN};
    ck_assert_int_eq(bus_send(router, link, &drain), STATUS_OK);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A bus in each of two threads; with TANDEM_BENCH=1 also what a round trip costs. */
START_TEST(two_threads_talk) {
    static const char *const names[] = {"ipc", "tcp", "tcp+curve"};
    uint32_t n = getenv("TANDEM_BENCH") ? 20000 : 500;
    make_keys("keys", &keys);
    struct bus_config config = {.keys = _i == 2 ? &keys : NULL, .queue_bulk = 64};
    struct bus *worker = open_bus_as(config);
    struct bus *router = open_bus_as(config);
    uint32_t listener = listen_at(worker, _i == 0 ? endpoint : "tcp://127.0.0.1:0");
    uint32_t link = connect_to(router, bus_endpoint(worker, listener));
    uint64_t *rounds_ns = calloc(n, sizeof *rounds_ns);
    pthread_t thread;
    struct bus_event event;
    ck_assert_ptr_nonnull(rounds_ns);
    ck_assert_int_eq(pthread_create(&thread, NULL, echo, worker), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t begin_ns = clock_now_ns();
        send_ping(router, link, i);
        expect_ping(router, i, &event);
        rounds_ns[i] = clock_now_ns() - begin_ns;
    }
    stop_echo(router, link, thread);
    if (getenv("TANDEM_BENCH")) {
        qsort(rounds_ns, n, sizeof *rounds_ns, compare_u64);
        printf("round trip %s: p50 %.1f us, p99 %.1f us\n", names[_i],
               (double)rounds_ns[n / 2] / 1e3, (double)rounds_ns[n - n / 100] / 1e3);
    }
    free(rounds_ns);
    close_bus(router);
    close_bus(worker);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, bus_rig_setup, bus_rig_teardown);
    tcase_add_test(tests, after_its_time_one_event_is_handed_over_and_the_rest_later);
    tcase_add_test(tests, messages_go_both_ways_over_ipc);
    tcase_add_test(tests, a_bus_that_is_freed_leaves_no_descriptor_open);
    tcase_add_test(tests, messages_go_both_ways_over_tcp);
    tcase_add_test(tests, messages_go_both_ways_over_ipv6_with_and_without_brackets);
    tcase_add_test(tests, messages_go_both_ways_with_keys);
    tcase_add_test(tests, the_ipc_socket_is_private_whatever_the_umask);
    tcase_add_test(tests, a_second_listener_does_not_take_the_place_of_a_living_one);
    tcase_add_test(tests, addresses_beyond_loopback_want_keys_and_say_how);
    tcase_add_test(tests, a_reader_that_stops_makes_the_connecting_side_busy_and_loses_nothing);
    tcase_add_test(tests, a_reader_that_stops_makes_the_bound_side_busy_and_loses_nothing);
    tcase_add_test(tests, a_cancel_takes_back_what_still_waits);
    tcase_add_test(tests, a_killed_peer_is_noticed_and_its_next_incarnation_is_a_new_link);
    tcase_add_test(tests, the_bound_side_hears_of_a_closed_peer_with_its_next_send);
    tcase_add_test(tests, a_connect_to_nobody_is_lost_in_the_end);
    tcase_add_test(tests, links_may_be_made_before_their_listener);
    tcase_add_test(tests, the_descriptor_tells_of_everything);
    tcase_add_test(tests, chunks_travel_on_a_kv_bus);
    tcase_add_loop_test(tests, two_threads_talk, 0, 3);
}
