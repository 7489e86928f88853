/* Who and what must not come in by a bound endpoint. */
#include "base/random.h"
#include "proto/bus_internal.h"
#include "tests/support/suite.h"
#include "tests/unit/proto/bus_rig.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

const char *const suite_name = "bus_strangers";
const double suite_timeout_s = 60;

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
    close_bus(stranger);

    /* A wrong server key, and no keys at all. */
    stranger = open_bus_as((struct bus_config){.keys = &foreign});
    link = connect_to(stranger, where);
    send_ping(stranger, link, 1);
    next_event(stranger, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    close_bus(stranger);
    stranger = open_bus();
    link = connect_to(stranger, where);
    send_ping(stranger, link, 1);
    next_event(stranger, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    close_bus(stranger);

    /* Whoever belongs here still comes in, and nothing of the others was delivered. */
    struct bus *router = open_bus_as((struct bus_config){.keys = &keys});
    send_ping(router, connect_to(router, where), 2);
    expect_ping(worker, 2, &event);
    bus_stats(worker, &stats);
    ck_assert_uint_ge(stats.n_key_refused, 1);
    ck_assert_uint_ge(stats.n_handshake_failed, 1);
    ck_assert_uint_eq(stats.n_received, 1);
    close_bus(router);
    close_bus(worker);
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
    close_bus(router);
    close_bus(worker);
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
    ck_assert_int_eq(recv(fd, greeting, sizeof greeting, MSG_WAITALL), sizeof greeting);
    ck_assert_int_eq(send(fd, ready, n, MSG_NOSIGNAL), n);
    uint8_t theirs[2 + 255];
    ck_assert_int_eq(recv(fd, theirs, 2, MSG_WAITALL), 2);
    ck_assert_int_eq(recv(fd, theirs + 2, theirs[1], MSG_WAITALL), theirs[1]);
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
    close_bus(worker);
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
    close_bus(router);
    close_bus(worker);
}
END_TEST

/* Another client key whose first byte is that of the cluster's own. */
START_TEST(a_key_that_begins_like_ours_is_refused) {
    make_keys("keys", &keys);
    uint8_t ours[32], theirs[32];
    ck_assert_ptr_nonnull(zmq_z85_decode(ours, keys.client_public));
    struct keys close_by = keys;
    do {
        ck_assert_int_eq(zmq_curve_keypair(close_by.client_public, close_by.client_secret), 0);
        ck_assert_ptr_nonnull(zmq_z85_decode(theirs, close_by.client_public));
    } while (theirs[0] != ours[0]);
    struct bus *worker = open_bus_as((struct bus_config){.keys = &keys});
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    struct bus *stranger = open_bus_as((struct bus_config){.keys = &close_by});
    struct bus_event event;
    send_ping(stranger, connect_to(stranger, where), 1);
    next_event(stranger, &event);
    ck_assert_int_eq(event.kind, BUS_LOST);
    close_bus(stranger);
    close_bus(worker);
}
END_TEST

/* A DEALER of our own, which sends what it likes. */
struct dealer {
    void *context;
    void *zmq;
    struct codec codec;
};

static void dealer_open(struct dealer *dealer, const char *where) {
    dealer->context = zmq_ctx_new();
    dealer->zmq = zmq_socket(dealer->context, ZMQ_DEALER);
    ck_assert_ptr_nonnull(dealer->zmq);
    ck_assert_int_eq(zmq_setsockopt(dealer->zmq, ZMQ_ROUTING_ID, "0123456789abcdef", 16), 0);
    ck_assert_int_eq(zmq_connect(dealer->zmq, where), 0);
    ck_assert_int_eq(codec_init(&dealer->codec), STATUS_OK);
}

static void dealer_close(struct dealer *dealer) {
    int now = 0;
    zmq_setsockopt(dealer->zmq, ZMQ_LINGER, &now, sizeof now);
    zmq_close(dealer->zmq);
    zmq_ctx_term(dealer->context);
    codec_fini(&dealer->codec);
}

static void dealer_ping(struct dealer *dealer, uint64_t t_ns) {
    struct message message = ping(t_ns);
    struct frames frames;
    ck_assert_int_eq(codec_encode(&dealer->codec, &message, &frames), STATUS_OK);
    ck_assert_int_eq(zmq_send(dealer->zmq, frames.head, frames.n_head, 0), (int)frames.n_head);
}

static void dealer_bad(struct dealer *dealer, int n_parts) {
    while (n_parts-- > 0)
        ck_assert_int_eq(zmq_send(dealer->zmq, "bad", 3, n_parts > 0 ? ZMQ_SNDMORE : 0), 3);
}

/* Round trips of somebody else, by the end of which what was sent before has come, or never will. */
static void expect_others_only(struct bus *worker, const char *where) {
    struct bus *router = open_bus();
    struct bus_event event;
    uint32_t link = connect_to(router, where);
    for (uint64_t i = 0; i < 50; i++) {
        send_ping(router, link, 1000 + i);
        expect_ping(worker, 1000 + i, &event);
        send_ping(worker, event.link, i);
        expect_ping(router, i, &event);
    }
    close_bus(router);
}

START_TEST(a_banned_peer_is_not_heard_again) {
    struct bus *worker = open_bus();
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    bool is_shown = _i == 1; /* the owner knows its link: it was heard before */
    struct bus_event event;
    struct bus_stats stats;
    struct dealer dealer;
    dealer_open(&dealer, where);
    if (is_shown) {
        dealer_ping(&dealer, 1);
        expect_ping(worker, 1, &event);
    }
    uint32_t link = is_shown ? event.link : BUS_NO_LINK;
    for (int i = 0; i < 3; i++)
        dealer_bad(&dealer, 1);
    if (is_shown) {
        next_event(worker, &event);
        ck_assert_int_eq(event.kind, BUS_LOST);
        ck_assert_uint_eq(event.link, link);
    }
    for (uint64_t i = 0; i < 20; i++)
        dealer_ping(&dealer, 2);
    expect_others_only(worker, where);
    bus_stats(worker, &stats);
    ck_assert_uint_eq(stats.n_banned, 1);
    ck_assert_uint_eq(stats.n_bad, 3);
    ck_assert_uint_eq(stats.n_received, 50u + is_shown);
    ck_assert_uint_eq(stats.n_links, 2);
    dealer_close(&dealer);
    close_bus(worker);
}
END_TEST

START_TEST(two_bad_messages_of_any_number_of_parts_are_forgiven) {
    struct bus *worker = open_bus();
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    struct bus_event event;
    struct bus_stats stats;
    struct dealer dealer;
    dealer_open(&dealer, where);
    dealer_bad(&dealer, 4);
    dealer_bad(&dealer, 7);
    dealer_ping(&dealer, 3);
    expect_ping(worker, 3, &event);
    bus_stats(worker, &stats);
    ck_assert_uint_eq(stats.n_bad, 2);
    ck_assert_uint_eq(stats.n_links, 1);
    dealer_close(&dealer);
    close_bus(worker);
}
END_TEST

static void raw_ping(int fd, uint64_t t_ns) {
    struct message message = ping(t_ns);
    struct codec codec;
    struct frames frames;
    uint8_t bytes[2 + 255] = {0};
    ck_assert_int_eq(codec_init(&codec), STATUS_OK);
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_OK);
    ck_assert_uint_le(frames.n_head, 255);
    bytes[1] = (uint8_t)frames.n_head;
    memcpy(bytes + 2, frames.head, frames.n_head);
    ssize_t n = (ssize_t)frames.n_head + 2;
    ck_assert_int_eq(send(fd, bytes, (size_t)n, MSG_NOSIGNAL), n);
    codec_fini(&codec);
}

/* A send handles what libzmq's thread told, whether it finds room or not: also that a message came, of
 * which the descriptor then tells nothing more. The peer reads nothing, so that nothing else comes. */
START_TEST(a_send_that_finds_no_room_does_not_hide_a_message) {
    static uint32_t tokens[32768];
    struct bus *worker = open_bus_as((struct bus_config){0}); /* no queue of ours for bulk */
    const char *where = bus_endpoint(worker, listen_at(worker, "tcp://127.0.0.1:0"));
    struct bus_event event;
    int fd = zmtp_socket(where, "0123456789abcdef", 16);
    raw_ping(fd, 1);
    expect_ping(worker, 1, &event);
    uint32_t back = event.link;
    struct pollfd zmq = {.fd = worker->listeners[0].socket.fd, .events = POLLIN};
    struct message submit = {.type = MESSAGE_SUBMIT, .u.submit.req = {7, 1}};
    submit.u.submit.n_prompt = submit.u.submit.n_tokens = 32768;
    submit.u.submit.tokens = tokens;
    sampling_init(&submit.u.submit.sampling);
    do { /* until libzmq's thread is stuck, too */
        while (bus_send(worker, back, &submit) == STATUS_OK)
            continue;
        ck_assert_int_eq(bus_receive(worker, &event), STATUS_BUSY);
    } while (poll(&zmq, 1, 50) == 1);
    raw_ping(fd, 2);
    ck_assert_int_eq(poll(&zmq, 1, -1), 1);
    (void)!bus_send(worker, back, &submit);
    expect_ping(worker, 2, &event);
    close(fd);
    close_bus(worker);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, bus_rig_setup, bus_rig_teardown);
    tcase_add_test(tests, another_clusters_key_is_refused_and_counted);
    tcase_add_loop_test(tests, raw_bytes_and_http_reach_nobody, 0, 2);
    tcase_add_test(tests, a_frame_over_the_cap_ends_the_connection);
    tcase_add_test(tests, three_bad_messages_end_a_link_and_no_one_elses);
    tcase_add_loop_test(tests, a_banned_peer_is_not_heard_again, 0, 2);
    tcase_add_test(tests, two_bad_messages_of_any_number_of_parts_are_forgiven);
    tcase_add_test(tests, a_send_that_finds_no_room_does_not_hide_a_message);
    tcase_add_test(tests, a_key_that_begins_like_ours_is_refused);
}
