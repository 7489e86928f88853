#include "tests/unit/base/http/rig.h"

#include "base/clock.h"
#include "base/net/stream.h"
#include "base/random.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "base_http_limits";
const double suite_timeout_s = 120;

START_TEST(a_client_that_leaves_while_it_waits_is_noticed) {
    rig_start();
    struct exchange_reply reply = {.status = 200};
    for (unsigned i = 1; i <= 40; i++) { /* more than there are slots: they are used again */
        int fd = dial(GET("/wait"));
        turn_until(&n_held, i);
        uint64_t id = held[(i - 1) % 64];
        ck_assert_ptr_nonnull(exchange_find(exchanges, id));
        if (i % 2) {
            struct linger linger = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        close(fd);
        turn_until(&n_gone, i);
        ck_assert_uint_eq(gone_tag, i);
        ck_assert_ptr_null(exchange_find(exchanges, id));
        ck_assert_int_eq(exchange_reply(exchanges, id, &reply), STATUS_NOT_FOUND);
        for (unsigned k = 0; k + 1 < i; k++)
            ck_assert(held[k] != id);
    }
    ck_assert_uint_eq(listener_counts(listener).n_gone, 40);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
}
END_TEST

START_TEST(a_taken_body_outlives_its_client) {
    rig_start();
    int fd = dial("POST /take HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nprompt");
    turn_until(&n_handled, 1);
    close(fd);
    turn_until(&n_gone, 1);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
    ck_assert_str_eq(taken.data, "prompt");
}
END_TEST

START_TEST(a_client_that_leaves_is_noticed_behind_what_it_sent_ahead) {
    rig_start();
    int fd = dial(GET("/wait"));
    turn_until(&n_held, 1);
    static char ahead[100000]; /* enough to pause reading, little enough to leave the client */
    memset(ahead, 'x', sizeof ahead);
    for (size_t sent = 0; sent < sizeof ahead;) {
        ssize_t n = send(fd, ahead + sent, sizeof ahead - sent, 0);
        sent += n > 0 ? (size_t)n : 0;
        loop_turn(loop, false);
    }
    close(fd);
    turn_until(&n_gone, 1);
}
END_TEST

START_TEST(a_listener_of_one_request_closes_after_each_reply) {
    config.one_request = true;
    rig_start();
    int fd = dial(GET("/x") GET("/y")); /* a client that would send more */
    read_until(fd, SIZE_MAX);
    ck_assert(ended);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 200 ", 13), 0);
    ck_assert_ptr_nonnull(strstr(got.data, "Connection: close\r\n"));
    ck_assert_uint_eq(n_handled, 1);
    close(fd);
}
END_TEST

START_TEST(slow_heads_and_bodies_get_408_and_idle_ones_a_close) {
    config.head_ns = config.body_ns = config.idle_ns = 60 * NS_PER_MS;
    test_clock_stop();
    rig_start();
    int head = dial_until_read("GET / HTTP/1.1\r\n");
    rig_pass(61 * NS_PER_MS);
    read_until(head, SIZE_MAX);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 408 ", 13), 0);
    close(head);
    int body = dial_until_read("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
    rig_pass(61 * NS_PER_MS);
    read_until(body, SIZE_MAX);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 408 ", 13), 0);
    close(body);
    int idle = dial(GET("/x"));
    read_until_text(idle, "HTTP/1.1 200 ");
    rig_pass(61 * NS_PER_MS);
    read_until(idle, SIZE_MAX);
    ck_assert_ptr_null(strstr(got.data, "HTTP/1.1 408"));
    close(idle);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 2);
}
END_TEST

START_TEST(waiting_for_a_reply_has_no_time_limit_of_the_front) {
    config.head_ns = config.body_ns = config.idle_ns = config.stall_ns = 20 * NS_PER_MS;
    test_clock_stop();
    rig_start();
    int waiting = dial(GET("/wait"));
    turn_until(&n_held, 1);
    int idle = dial_until_read("");
    rig_pass(21 * NS_PER_MS);
    read_until(idle, SIZE_MAX); /* the sweep that closes this one has looked at the other before */
    ck_assert_ptr_nonnull(exchange_find(exchanges, held[0]));
    close(idle);
    close(waiting);
}
END_TEST

START_TEST(a_stream_that_is_not_read_is_bounded_and_drains) {
    config.output_bytes_max = 100000;
    rig_start();
    int fd = dial_with(4096);
    ck_assert_int_gt(send(fd, GET("/stream"), strlen(GET("/stream")), 0), 0);
    turn_until(&n_held, 1);
    static char event[10000];
    memset(event, 'e', sizeof event);
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    enum status status = STATUS_OK;
    size_t n_written = 0;
    for (unsigned i = 0; i < 10000 && status == STATUS_OK; i++) {
        status = exchange_write(exchanges, held[0], event, sizeof event);
        n_written += status == STATUS_OK;
        if (i % 5 == 4)
            loop_turn(loop, false);
    }
    ck_assert_int_eq(status, STATUS_BUSY);
    ck_assert_uint_le(exchange_pending(exchanges, held[0]), 100000 + 100);
    static char piece[65536];
    size_t n_read = 0;
    while (n_drained == 0) {
        loop_turn(loop, false);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        n_read += n > 0 ? (size_t)n : 0;
    }
    ck_assert_int_eq(exchange_write(exchanges, held[0], "end", 3), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    while (n_read < n_written * sizeof event || !memmem(piece, sizeof piece, "end\r\n0\r\n", 8)) {
        loop_turn(loop, false);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        n_read += n > 0 ? (size_t)n : 0;
    }
    close(fd);
}
END_TEST

START_TEST(who_was_refused_within_a_turn_is_called_again) {
    config.output_bytes_max = 1000;
    rig_start();
    int fd = dial(GET("/stream"));
    turn_until(&n_held, 1);
    static char event[2000];
    struct exchange_reply head = {.status = 200};
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    loop_turn(loop, false);
    ck_assert_uint_eq(n_drained, 0); /* nobody was refused */
    ck_assert_int_eq(exchange_write(exchanges, held[0], "a", 1), STATUS_OK);
    ck_assert_int_eq(exchange_write(exchanges, held[0], event, sizeof event), STATUS_BUSY);
    turn_until(&n_drained, 1); /* though the kernel took all of it at once */
    ck_assert_int_eq(exchange_write(exchanges, held[0], event, sizeof event), STATUS_OK);
    ck_assert_int_eq(exchange_end(exchanges, held[0], NULL, 0), STATUS_OK);
    loop_turn(loop, false);
    ck_assert_uint_eq(n_drained, 1);
    close(fd);
}
END_TEST

START_TEST(a_stream_that_is_never_read_is_closed) {
    config.stall_ns = 50 * NS_PER_MS;
    config.output_bytes_max = 1000;
    rig_start();
    int fd = dial_with(4096);
    ck_assert_int_gt(send(fd, GET("/stream"), strlen(GET("/stream")), 0), 0);
    turn_until(&n_held, 1);
    struct exchange_reply head = {.status = 200};
    static char event[65536];
    ck_assert_int_eq(exchange_begin_stream(exchanges, held[0], &head), STATUS_OK);
    loop_turn(loop, false); /* the head leaves alone: the bound is smaller than an event */
    while (exchange_write(exchanges, held[0], event, sizeof event) == STATUS_OK)
        loop_turn(loop, false);
    turn_until(&n_gone, 1);
    ck_assert_uint_eq(listener_counts(listener).n_timeouts, 1);
    close(fd);
}
END_TEST

START_TEST(a_full_pool_gives_up_idle_clients_and_lets_others_wait) {
    config.n_connections_max = 3;
    rig_start();
    int idle = dial(GET("/x"));
    read_until_text(idle, "/x");
    int a = dial(GET("/wait"));
    int b = dial(GET("/wait"));
    turn_until(&n_held, 2);
    read_until(idle, SIZE_MAX); /* closed to make room */
    ck_assert_uint_eq(listener_counts(listener).n_evicted, 1);
    int c = dial(GET("/wait"));
    turn_until(&n_held, 3);
    int d = dial(GET("/wait"));
    for (unsigned i = 0; i < 20; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(n_held, 3);
    ck_assert_uint_eq(listener_counts(listener).n_open, 3);
    close(a);
    turn_until(&n_held, 4);
    close(idle);
    close(b);
    close(c);
    close(d);
}
END_TEST

START_TEST(requests_have_a_bound_of_their_own) {
    config.n_exchanges_max = 2;
    rig_start();
    int a = dial(GET("/wait"));
    int b = dial(GET("/wait"));
    turn_until(&n_held, 2);
    int c = dial(GET("/x"));
    read_until(c, SIZE_MAX);
    ck_assert_int_eq(strncmp(got.data, "HTTP/1.1 503 ", 13), 0);
    ck_assert_ptr_nonnull(strstr(got.data, "Retry-After: 1\r\n"));
    close(a);
    turn_until(&n_gone, 1);
    int d = dial(GET("/wait"));
    turn_until(&n_held, 3);
    close(b);
    close(c);
    close(d);
}
END_TEST

/* Random clients do random things; the sanitizers and the counts say whether all was given back. */
START_TEST(a_storm_of_rude_clients_leaves_nothing_behind) {
    static const char *const texts[] = {
        GET("/x"),
        GET("/wait"),
        GET("/stream"),
        GET("/abort"),
        GET("/big"),
        GET("/x") GET("/wait"),
        "GET / HT",
        "junk\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab",
        "PRI * HTTP/2.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"};
    config.n_connections_max = 8;
    config.linger_ns = 20 * NS_PER_MS;
    rig_start();
    int fds[12];
    struct random random = {.state = 11};
    struct exchange_reply reply = {.status = 200, .body = "r", .n_body = 1};
    for (unsigned i = 0; i < 12; i++)
        fds[i] = -1;
    for (unsigned round = 0; round < 4000; round++) {
        unsigned at = (unsigned)random_below(&random, 12);
        uint64_t id = held[random_below(&random, 64)];
        static char piece[4096];
        switch (random_below(&random, 7)) {
        case 0:
        case 1:
            if (fds[at] < 0)
                fds[at] = dial_with(0);
            const char *text = texts[random_below(&random, sizeof texts / sizeof *texts)];
            send(fds[at], text, strlen(text), MSG_NOSIGNAL);
            break;
        case 2:
            if (fds[at] >= 0)
                close(fds[at]);
            fds[at] = -1;
            break;
        case 3:
            exchange_reply(exchanges, id, &reply);
            break;
        case 4:
            exchange_begin_stream(exchanges, id, &reply);
            (void)!exchange_write(exchanges, id, "abc", 3);
            break;
        case 5:
            (void)!exchange_write(exchanges, id, "abc", 3);
            exchange_end(exchanges, id, NULL, 0);
            break;
        default:
            if (fds[at] >= 0)
                (void)!recv(fds[at], piece, sizeof piece, 0);
        }
        loop_turn(loop, false);
    }
    for (unsigned i = 0; i < 12; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    while (listener_counts(listener).n_open > 0)
        loop_turn(loop, true);
    ck_assert_uint_eq(exchanges_count(exchanges), 0);
    ck_assert_uint_gt(n_handled, 100);
}
END_TEST

START_TEST(freeing_the_listener_tells_those_that_wait) {
    rig_start();
    int fd = dial(GET("/wait"));
    turn_until(&n_held, 1);
    listener_free(listener);
    listener = NULL;
    ck_assert_uint_eq(n_gone, 1);
    close(fd);
}
END_TEST

/* Descriptors run out before connections do: who waits for nothing makes room all the same. */
START_TEST(idle_clients_make_room_when_descriptors_run_out) {
    struct rlimit before, limit;
    rig_start();
    int idle = dial(GET("/x"));
    read_until_text(idle, "/x");
    int next = dup(idle); /* the number that the next client's socket gets */
    ck_assert_int_ge(next, 0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd = dial(GET("/served"));
    read_until_text(fd, "/served");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_uint_eq(listener_counts(listener).n_evicted, 1);
    close(fd);
    close(idle);
}
END_TEST

static unsigned n_to_fail;

static enum status fail_some(struct loop *on, int with, struct tls_context *tls,
                             const struct stream_events *events, void *user,
                             struct stream **stream) {
    (void)tls;
    if (n_to_fail == 0)
        return stream_new(on, with, events, user, stream);
    n_to_fail--;
    return STATUS_NOMEM;
}

START_TEST(a_connection_that_cannot_begin_leaves_its_slot) {
    static char some_context;
    config.n_connections_max = 3;
    config.tls = (struct tls_context *)(void *)&some_context;
    config.tls_stream = fail_some;
    n_to_fail = 5;
    rig_start();
    for (unsigned i = 0; i < 5; i++) {
        int fd = dial("");
        read_until(fd, SIZE_MAX);
        ck_assert(ended);
        close(fd);
    }
    ck_assert_uint_eq(n_to_fail, 0);
    int a = dial(GET("/wait")), b = dial(GET("/wait"));
    turn_until(&n_held, 2);
    close(a);
    close(b);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_test(tests, a_client_that_leaves_while_it_waits_is_noticed);
    tcase_add_test(tests, a_taken_body_outlives_its_client);
    tcase_add_test(tests, a_client_that_leaves_is_noticed_behind_what_it_sent_ahead);
    tcase_add_test(tests, a_listener_of_one_request_closes_after_each_reply);
    tcase_add_test(tests, slow_heads_and_bodies_get_408_and_idle_ones_a_close);
    tcase_add_test(tests, waiting_for_a_reply_has_no_time_limit_of_the_front);
    tcase_add_test(tests, a_stream_that_is_not_read_is_bounded_and_drains);
    tcase_add_test(tests, who_was_refused_within_a_turn_is_called_again);
    tcase_add_test(tests, a_stream_that_is_never_read_is_closed);
    tcase_add_test(tests, idle_clients_make_room_when_descriptors_run_out);
    tcase_add_test(tests, a_connection_that_cannot_begin_leaves_its_slot);
    tcase_add_test(tests, a_full_pool_gives_up_idle_clients_and_lets_others_wait);
    tcase_add_test(tests, requests_have_a_bound_of_their_own);
    tcase_add_test(tests, a_storm_of_rude_clients_leaves_nothing_behind);
    tcase_add_test(tests, freeing_the_listener_tells_those_that_wait);
}
