#include "base/clock.h"
#include "base/random.h"
#include "proto/bus.h"
#include "proto/keys.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
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

#define PATIENCE_NS (100 * NS_PER_MS)

static char folder[64];
static char endpoint[128];
static struct error error;
static struct keys keys;

static void setup(void) {
    snprintf(folder, sizeof folder, "/tmp/tandem-bus-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/run/worker.sock", folder);
}

static void teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void make_keys(const char *name, struct keys *made) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(keys_make(path, &error), STATUS_OK);
    ck_assert_int_eq(keys_load(path, made, &error), STATUS_OK);
}

static struct bus *open_bus_as(struct bus_config config) {
    struct bus *bus = NULL;
    enum status status = bus_new(&config, &bus, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return bus;
}

static struct bus *open_bus(void) {
    return open_bus_as((struct bus_config){.queue_bulk = 1024});
}

static uint32_t listen_at(struct bus *bus, const char *where) {
    uint32_t listener;
    enum status status = bus_bind(bus, where, &listener, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return listener;
}

static uint32_t connect_to(struct bus *bus, const char *where) {
    uint32_t link;
    enum status status = bus_connect(bus, where, &link, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return link;
}

/* Waits as long as it takes; the suite's time limit catches what never comes. */
static void next_event(struct bus *bus, struct bus_event *event) {
    while (bus_receive(bus, event) != STATUS_OK)
        (void)!bus_wait(bus, PATIENCE_NS);
}

static struct message ping(uint64_t t_ns) {
    struct message message = {.type = MESSAGE_PING, .session = 9};
    message.u.ping.t_ns = t_ns;
    return message;
}

static void send_ping(struct bus *bus, uint32_t link, uint64_t t_ns) {
    struct message message = ping(t_ns);
    ck_assert_int_eq(bus_send(bus, link, &message), STATUS_OK);
}

static void expect_ping(struct bus *bus, uint64_t t_ns, struct bus_event *event) {
    next_event(bus, event);
    ck_assert_int_eq(event->kind, BUS_MESSAGE);
    ck_assert_int_eq(event->message->type, MESSAGE_PING);
    ck_assert_uint_eq(event->message->u.ping.t_ns, t_ns);
}

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
    bus_free(router);
    bus_free(worker);
}
END_TEST

START_TEST(messages_go_both_ways_over_tcp) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    uint32_t listener = listen_at(worker, "tcp://127.0.0.1:0");
    talk(worker, router, bus_endpoint(worker, listener));
    bus_free(router);
    bus_free(worker);
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
    bus_free(router);
    bus_free(worker);
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
    bus_free(worker);
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
    bus_free(router);
    bus_free(thief);
    bus_free(worker);
    struct bus *next = open_bus();
    listen_at(next, endpoint);
    bus_free(next);
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
                                        "tcp://127.0.0.1:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_ne(bus_bind(bus, wrong[i], &made, &error), STATUS_OK);
    bus_free(bus);
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
    bus_free(router);
    bus_free(worker);
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
    bus_free(router);
    bus_free(worker);
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
    bus_free(router);
    bus_free(worker);
}
END_TEST

/* A worker in a process of its own, that greets and then waits to be killed. */
static pid_t fork_worker(void) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
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
    pid_t child = fork_worker();
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

    child = fork_worker();
    uint32_t again = connect_to(router, endpoint);
    ck_assert_uint_ne(again, link);
    send_ping(router, again, 1);
    expect_ping(router, (uint64_t)child, &event);
    ck_assert_uint_eq(event.link, again);
    ck_assert_uint_eq(event.message->seq, 1);
    ck_assert_int_eq(bus_send(router, link, &message), STATUS_CLOSED);
    kill_and_reap(child);
    bus_free(router);
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
    while (bus_send(worker, back, &message) == STATUS_OK)
        (void)!bus_wait(worker, PATIENCE_NS / 100);
    next_event(worker, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    ck_assert_uint_eq(event.link, back);
    ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY); /* once */
    bus_free(router);
    bus_free(worker);
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
    bus_free(router);
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
    bus_free(router);
    bus_free(worker);
}
END_TEST

START_TEST(another_clusters_key_is_refused_and_counted) {
    struct keys foreign;
    make_keys("keys", &keys);
    make_keys("foreign", &foreign);
    struct bus *worker = open_bus_as((struct bus_config){.keys = &keys});
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    struct bus_event event;
    struct bus_stats stats;

    /* The right server key with a client key that the cluster does not know. */
    struct keys half = foreign;
    memcpy(half.server_public, keys.server_public, sizeof half.server_public);
    struct bus *stranger = open_bus_as((struct bus_config){.keys = &half});
    uint32_t link = connect_to(stranger, where);
    send_ping(stranger, link, 1);
    next_event(stranger, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    bus_free(stranger);

    /* A wrong server key, and no keys at all. */
    stranger = open_bus_as((struct bus_config){.keys = &foreign});
    link = connect_to(stranger, where);
    send_ping(stranger, link, 1);
    next_event(stranger, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    bus_free(stranger);
    stranger = open_bus();
    link = connect_to(stranger, where);
    send_ping(stranger, link, 1);
    next_event(stranger, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    bus_free(stranger);

    /* Whoever belongs here still comes in, and nothing of the others was delivered. */
    struct bus *router = open_bus_as((struct bus_config){.keys = &keys});
    send_ping(router, connect_to(router, where), 2);
    expect_ping(worker, 2, &event);
    bus_stats(worker, &stats);
    ck_assert_uint_ge(stats.n_key_refused, 1);
    ck_assert_uint_ge(stats.n_handshake_failed, 1);
    ck_assert_uint_eq(stats.n_received, 1);
    bus_free(router);
    bus_free(worker);
}
END_TEST

static int raw_socket(const char *where) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port =
                                      htons((uint16_t)strtoul(strrchr(where, ':') + 1, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Waits until the other side hangs up. */
static void wait_hangup(int fd) {
    char bytes[256];
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        continue;
    close(fd);
}

START_TEST(raw_bytes_and_http_reach_nobody) {
    make_keys("keys", &keys);
    struct bus *worker = open_bus_as((struct bus_config){.keys = &keys});
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    static const char http[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
                               "0123456789012345678901234567890123456789";
    uint8_t zeros[512] = {0};
    uint8_t noise[4096];
    struct random random = {.state = (uint64_t)_i};
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)random_next(&random);
    int fds[3] = {raw_socket(where), raw_socket(where), raw_socket(where)};
    ck_assert_int_gt(send(fds[0], http, sizeof http - 1, MSG_NOSIGNAL), 0);
    ck_assert_int_gt(send(fds[1], noise, sizeof noise, MSG_NOSIGNAL), 0);
    ck_assert_int_gt(send(fds[2], zeros, sizeof zeros, MSG_NOSIGNAL), 0);
    for (int i = 0; i < 3; i++) {
        shutdown(fds[i], SHUT_WR);
        wait_hangup(fds[i]);
    }
    struct bus *router = open_bus_as((struct bus_config){.keys = &keys});
    struct bus_event event;
    struct bus_stats stats;
    send_ping(router, connect_to(router, where), 2);
    expect_ping(worker, 2, &event);
    bus_stats(worker, &stats);
    ck_assert_uint_eq(stats.n_received, 1);
    ck_assert_uint_eq(stats.n_bad, 0);
    bus_free(router);
    bus_free(worker);
}
END_TEST

/* What a ZMTP 3 peer without keys sends before its first message (RFC 23). */
static int zmtp_socket(const char *where, const void *routing_id, uint8_t n_id) {
    uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    uint8_t ready[128] = {4, 0, 5, 'R', 'E', 'A', 'D', 'Y'};
    uint8_t n = 8;
    static const uint8_t type[] = {11,  'S', 'o', 'c', 'k', 'e', 't', '-', 'T', 'y', 'p',
                                   'e', 0,   0,   0,   6,   'D', 'E', 'A', 'L', 'E', 'R'};
    memcpy(ready + n, type, sizeof type);
    n = (uint8_t)(n + sizeof type);
    if (n_id > 0) {
        static const uint8_t identity[] = {8, 'I', 'd', 'e', 'n', 't', 'i', 't', 'y', 0, 0, 0};
        memcpy(ready + n, identity, sizeof identity);
        n = (uint8_t)(n + sizeof identity);
        ready[n++] = n_id;
        memcpy(ready + n, routing_id, n_id);
        n = (uint8_t)(n + n_id);
    }
    ready[1] = (uint8_t)(n - 2);
    int fd = raw_socket(where);
    ck_assert_int_eq(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    ck_assert_int_eq(send(fd, ready, n, MSG_NOSIGNAL), n);
    return fd;
}

START_TEST(a_frame_over_the_cap_ends_the_connection) {
    struct bus *worker = open_bus();
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    int fd = zmtp_socket(where, "0123456789abcdef", 16);
    static const uint8_t claim[] = {2, 0, 0, 0, 0, 0x80, 0, 0, 0}; /* 2 GiB */
    ck_assert_int_eq(send(fd, claim, sizeof claim, MSG_NOSIGNAL), sizeof claim);
    wait_hangup(fd);
    struct bus_event event;
    struct bus_stats stats;
    ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY);
    bus_stats(worker, &stats);
    ck_assert_uint_eq(stats.n_received + stats.n_bad, 0);
    bus_free(worker);
}
END_TEST

START_TEST(three_bad_messages_end_a_link_and_no_one_elses) {
    struct bus *worker = open_bus();
    struct bus *router = open_bus();
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    struct bus_event event;
    struct bus_stats stats;
    uint32_t link = connect_to(router, where);
    send_ping(router, link, 1);
    expect_ping(worker, 1, &event);
    int fd = zmtp_socket(where, "0123456789abcdef", 16);
    static const uint8_t bad[] = {0, 3, 'b', 'a', 'd', 1, 1, 'x', 1, 1, 'y', 0, 1, 'z'};
    int nameless = zmtp_socket(where, "", 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_gt(send(fd, bad, sizeof bad, MSG_NOSIGNAL), 0);
        ck_assert_int_gt(send(nameless, bad, sizeof bad, MSG_NOSIGNAL), 0);
    }
    do { /* nothing comes of it */
        ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY);
        (void)!bus_wait(worker, PATIENCE_NS);
        bus_stats(worker, &stats);
    } while (stats.n_banned == 0 || stats.n_bad < 8);
    send_ping(router, link, 2);
    expect_ping(worker, 2, &event);
    close(fd);
    close(nameless);
    bus_free(router);
    bus_free(worker);
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
            bus_dispatch(worker, 1 + n_sent % 7, answer_event, &answer);
        if (fds[1].revents)
            bus_dispatch(router, 1 + n_sent % 5, count_event, &n_back);
    }
    struct bus_stats stats;
    bus_stats(worker, &stats);
    ck_assert_uint_eq(stats.n_missed_wakeups, 0);
    bus_stats(router, &stats);
    ck_assert_uint_eq(stats.n_missed_wakeups, 0);
    bus_free(router);
    bus_free(worker);
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
    bus_free(from);
    bus_free(to);
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
    bus_free(router);
    bus_free(worker);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, messages_go_both_ways_over_ipc);
    tcase_add_test(tests, messages_go_both_ways_over_tcp);
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
    tcase_add_test(tests, another_clusters_key_is_refused_and_counted);
    tcase_add_loop_test(tests, raw_bytes_and_http_reach_nobody, 0, 2);
    tcase_add_test(tests, a_frame_over_the_cap_ends_the_connection);
    tcase_add_test(tests, three_bad_messages_end_a_link_and_no_one_elses);
    tcase_add_test(tests, the_descriptor_tells_of_everything);
    tcase_add_test(tests, chunks_travel_on_a_kv_bus);
    tcase_add_loop_test(tests, two_threads_talk, 0, 3);
}
