/* What one client of HTTP/2, and all of them, may bring in a turn of the loop; and that who does not
 * read is not read. */
#include "tests/unit/base/http/wire.h"

#include "base/http/exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "base_http2_turn";
const double suite_timeout_s = 120;

#define FIELD_BYTES   32u /* that each field counts for beside its name and value: RFC 9113, 6.5.2 */
#define REQUEST_BYTES 2048u /* that each request counts for beside its head */
#define PAUSE_BYTES   (256u << 10)
#define CLIENTS       8u

static int fds[CLIENTS];

/* --- heads ----------------------------------------------------------------------------------- */

static size_t field_bytes(const char *name, const char *value) {
    return strlen(name) + strlen(value) + FIELD_BYTES;
}

/* What the first frame of a request names by an index. */
static size_t pseudo_bytes(const char *path) {
    return field_bytes(":method", "GET") + field_bytes(":scheme", "http") +
           field_bytes(":path", path) + field_bytes(":authority", "h");
}

/* A request that counts for n bytes. */
static void put_request(struct buf *to, uint32_t id, size_t n) {
    static char lines[8192];
    size_t n_value = n - REQUEST_BYTES - pseudo_bytes("/x") - field_bytes("x", "");
    ck_assert_uint_lt(n_value, sizeof lines - 8);
    memcpy(lines, "x: ", 3);
    memset(lines + 3, 'v', n_value);
    memcpy(lines + 3 + n_value, "\n", 2);
    peer_request(to, id, "GET", "/x", lines, true);
}

static void send_all(int to, struct buf *bytes) {
    ck_assert_int_eq(send(to, bytes->data, bytes->n, MSG_NOSIGNAL), (ssize_t)bytes->n);
    buf_fini(bytes);
}

/* Connections whose settings are exchanged; nothing else is under way. */
static void open_clients(unsigned n) {
    rig_start();
    for (unsigned i = 0; i < n; i++) {
        struct buf hello = {0};
        fds[i] = dial_with(0);
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        peer_begin(&hello);
        send_all(fds[i], &hello);
    }
    while (listener_counts(listener).n_http2 < n)
        loop_turn(loop, true);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
}

static void close_clients(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

/* Requests that the next turn in which any is served serves. */
static unsigned served_in_a_turn(void) {
    unsigned before = n_handled;
    while (n_handled == before)
        loop_turn(loop, false);
    return n_handled - before;
}

/* Three requests that come together: with one byte more than the share the third waits for a turn. */
START_TEST(heads_of_a_client_beyond_its_share_of_a_turn_wait_for_the_next) {
    enum { ONE = 3000, LAST = ONE - REQUEST_BYTES };
    config.turn_heads_share = 2 * ONE + LAST;
    open_clients(1);
    struct buf bytes = {0};
    for (uint32_t i = 0; i < 3; i++)
        put_request(&bytes, 2 * i + 1, ONE);
    send_all(fds[0], &bytes);
    ck_assert_uint_eq(served_in_a_turn(), 3);
    for (uint32_t i = 0; i < 3; i++)
        put_request(&bytes, 2 * i + 7, ONE + (i == 2));
    send_all(fds[0], &bytes);
    ck_assert_uint_eq(served_in_a_turn(), 2);
    ck_assert_uint_eq(served_in_a_turn(), 1);
    ck_assert_uint_eq(n_handled, 6);
    close_clients(1);
}
END_TEST

/* One request each. */
START_TEST(heads_of_all_clients_beyond_a_turn_wait_for_the_next) {
    enum { ONE = 3000, LAST = ONE - REQUEST_BYTES };
    config.turn_heads = 3 * ONE + LAST;
    open_clients(4);
    for (unsigned more = 0; more < 2; more++) {
        for (unsigned i = 0; i < 4; i++) {
            struct buf bytes = {0};
            put_request(&bytes, 2 * more + 1, ONE + (i == 3 ? more : 0));
            send_all(fds[i], &bytes);
        }
        ck_assert_uint_eq(served_in_a_turn(), more ? 3 : 4);
        if (more)
            ck_assert_uint_eq(served_in_a_turn(), 1);
    }
    close_clients(4);
}
END_TEST

/* Clients that each bring many turns' worth, and one among them, or before or behind them all, who asks
 * for one thing more than its share: it is served when each of them had its share once or twice, and they
 * are served to the last. */
START_TEST(who_asks_little_does_not_wait_for_what_others_brought) {
    enum { ONE = 3000, EACH = 20, FLOODS = CLIENTS - 1 };
    config.turn_heads_share = ONE; /* a request in a turn, and the next one's first field */
    config.turn_heads = 2 * ONE;
    unsigned n_most = 0, n_before = 0;
    open_clients(CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct buf bytes = {0};
        for (uint32_t k = 0; k < (i == (unsigned)_i ? 1 : EACH); k++)
            put_request(&bytes, 2 * k + 1, ONE);
        n_before = i == (unsigned)_i ? n_handled : n_before;
        if (i == (unsigned)_i)
            peer_request(&bytes, 3, "GET", "/wait", NULL, true);
        send_all(fds[i], &bytes);
        loop_turn(loop, false); /* in this order */
    }
    while (n_held == 0) {
        unsigned before = n_handled;
        loop_turn(loop, false);
        n_most = n_handled - before > n_most ? n_handled - before : n_most;
    }
    ck_assert_uint_le(n_most, 3);
    ck_assert_uint_le(n_handled - n_before, 3 * CLIENTS); /* of FLOODS * EACH */
    while (n_handled < FLOODS * EACH + 2)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_floods, 0);
    close_clients(CLIENTS);
}
END_TEST

/* More than one read has comes of one client, whose share is a request in a turn. */
START_TEST(who_rests_is_not_read) {
    enum { ONE = 3000, EACH = 70 };
    config.turn_heads_share = ONE;
    open_clients(1);
    struct buf bytes = {0};
    for (uint32_t k = 0; k < EACH; k++)
        put_request(&bytes, 2 * k + 1, ONE);
    size_t n_one = bytes.n / EACH, n_begin = listener_counts(listener).bytes_in;
    ck_assert_uint_gt(bytes.n, 3 * LOOP_SCRATCH_BYTES);
    send_all(fds[0], &bytes);
    while (n_handled < EACH) {
        loop_turn(loop, false);
        ck_assert_uint_le(listener_counts(listener).bytes_in - n_begin,
                          (n_handled + 1) * n_one + LOOP_SCRATCH_BYTES);
    }
    close_clients(1);
}
END_TEST

/* A client that leaves while its heads wait leaves nothing behind; nor does one that is broken off. */
START_TEST(heads_that_wait_go_with_their_client) {
    enum { ONE = 3000, EACH = 20 };
    config.turn_heads_share = ONE;
    open_clients(2);
    for (unsigned i = 0; i < 2; i++) {
        struct buf bytes = {0};
        for (uint32_t k = 0; k < EACH; k++)
            put_request(&bytes, 2 * k + 1, ONE);
        if (i == 1) /* and what ends the connection */
            peer_frame(&bytes, PEER_DATA, 0, 0, "x", 1);
        send_all(fds[i], &bytes);
    }
    ck_assert_uint_le(served_in_a_turn(), 4);
    close(fds[0]);
    read_until(fds[1], SIZE_MAX);
    ck_assert(ended);
    while (listener_counts(listener).n_open > 0) {
        close(fds[1]);
        loop_turn(loop, true);
    }
    ck_assert_uint_gt(n_handled, EACH);
    ck_assert_uint_le(n_handled, 2 * EACH);
}
END_TEST

/* --- who does not read ------------------------------------------------------------------------ */

/* Asks for a head alone, whose answer says `n_id` bytes after the client: as they have no code that
 * is shorter in HPACK, each makes it a byte longer. Turns until it was answered, or could not be. */
static void ask_head(uint32_t *id, size_t n_id) {
    char lines[EXCHANGE_ID_MAX + 32] = "x-request-id: ";
    size_t n = strlen(lines);
    ck_assert_uint_le(n_id, EXCHANGE_ID_MAX);
    memset(lines + n, 'X', n_id);
    memcpy(lines + n + n_id, "\n", 2);
    struct buf bytes = {0};
    peer_request(&bytes, *id += 2, "HEAD", "/x", lines, true);
    send_all(fds[0], &bytes);
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
}

/* The kernel takes no more of what one client is sent who reads nothing; answers the last stream. */
static uint32_t fill_the_kernel(void) {
    struct buf bytes = {0};
    config.reply_bytes_share = 16 << 20; /* it is asked on beside what waits */
    config.output_memory = 64 << 20;
    test_clock_stop();
    rig_start();
    fds[0] = dial_with(4096);
    setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    peer_begin(&bytes);
    peer_setting(&bytes, 4, 1 << 24);
    peer_frame_u32(&bytes, PEER_WINDOW_UPDATE, 0, 0, 1 << 24);
    peer_request(&bytes, 1, "GET", "/big", NULL, true);
    send_all(fds[0], &bytes);
    size_t before = SIZE_MAX;
    for (unsigned n_same = 0; n_same < 20; n_same++) {
        loop_turn(loop, false);
        if (listener_output_bytes(listener) != before)
            n_same = 0;
        before = listener_output_bytes(listener);
    }
    peer_frame_u32(&bytes, PEER_RST_STREAM, 0, 1, 8); /* the rest of it is dropped */
    send_all(fds[0], &bytes);
    while (listener_output_bytes(listener) > 128 << 10)
        loop_turn(loop, false);
    return 1;
}

/* Answers without a body wait for no window and no share: what bounds them is that their client is
 * not read any more, from one byte beyond the bound on. */
START_TEST(who_does_not_read_is_not_read) {
    uint32_t id = fill_the_kernel();
    size_t waits, n_answer = 0;
    for (unsigned i = 0; i < 3; i++) { /* HPACK's table knows their fields then */
        waits = listener_output_bytes(listener);
        ask_head(&id, 1);
        n_answer = listener_output_bytes(listener) - waits - 1; /* beside the id */
    }
    ck_assert_uint_gt(n_answer, 0);
    size_t goal = PAUSE_BYTES + (_i > 0);
    while ((waits = listener_output_bytes(listener)) < goal) {
        size_t left = goal - waits - n_answer;
        if (left > EXCHANGE_ID_MAX) /* enough is left for one more */
            left = left - n_answer - 1 < EXCHANGE_ID_MAX ? left / 2 - n_answer / 2 : 64;
        ask_head(&id, left);
    }
    ck_assert_uint_eq(waits, goal);
    unsigned n_before = n_handled;
    ask_head(&id, 1);
    ck_assert_uint_eq(n_handled - n_before, _i == 0);
    if (_i > 0) { /* and is again once it reads */
        static char bytes[65536];
        while (n_handled == n_before) {
            (void)!recv(fds[0], bytes, sizeof bytes, 0);
            loop_turn(loop, false);
        }
    }
    close(fds[0]);
}
END_TEST

/* Pages of this process's memory: an answer of 8 MiB is a mapping of its own. */
static size_t n_pages(void) {
    unsigned long n = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &n), 1);
    fclose(file);
    return n;
}

/* While the connection is kept for what the client still sends, its answers are not. */
START_TEST(answers_go_with_the_last_frame_of_a_connection) {
    struct buf bytes = {0};
    test_clock_stop(); /* else the wait for the client's end would be over */
    rig_start();
    fds[0] = dial_with(0);
    peer_begin(&bytes);
    peer_setting(&bytes, 4, 0);
    peer_request(&bytes, 1, "GET", "/big", NULL, true);
    send_all(fds[0], &bytes);
    turn_until(&n_handled, 1);
    size_t before = n_pages();
    peer_frame(&bytes, PEER_DATA, 0, 0, "x", 1);
    send_all(fds[0], &bytes);
    for (unsigned i = 0; i < 20; i++)
        loop_turn(loop, false);
    ck_assert_uint_eq(listener_counts(listener).n_open, 1);
    ck_assert_uint_lt(n_pages() + (4 << 20) / (size_t)sysconf(_SC_PAGESIZE), before);
    close_clients(1);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_setup, rig_teardown);
    tcase_add_test(tests, heads_of_a_client_beyond_its_share_of_a_turn_wait_for_the_next);
    tcase_add_test(tests, heads_of_all_clients_beyond_a_turn_wait_for_the_next);
    tcase_add_loop_test(tests, who_asks_little_does_not_wait_for_what_others_brought, 0, CLIENTS);
    tcase_add_test(tests, who_rests_is_not_read);
    tcase_add_test(tests, heads_that_wait_go_with_their_client);
    tcase_add_loop_test(tests, who_does_not_read_is_not_read, 0, 2);
    tcase_add_test(tests, answers_go_with_the_last_frame_of_a_connection);
}
