/* KV links that others open to us: who is refused, and what they are told of the chunks that we read. */
#include "base/clock.h"
#include "proto/bus.h"
#include "tests/support/suite.h"
#include "tests/unit/worker/links/kv_rig.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "worker kv accept";
const double suite_timeout_s = 60;

static void some_offer(struct kv_hello *hello) {
    hello->n_opaque = 3;
}

static void (*const wrong_hellos[])(struct kv_hello *) = {
    other_layout, other_major, other_transport, unknown_transport, some_offer};

/* More in a row than there are rows, by one connection; then a good one. */
START_TEST(refused_hellos_cost_no_row) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.ours, &rig);
    they_connect(&rig);
    for (uint32_t n = 1; n <= KV_LINKS_MAX + 1; n++) {
        struct message message = good_hello(&rig, MESSAGE_KV_HELLO);
        wrong_hellos[_i](&message.u.kv_hello);
        they_send(&rig, &message);
        await(&rig, MESSAGE_ABORT, n);
        ck_assert_int_eq(rig.abort.reason, REASON_MISMATCH);
        ck_assert_uint_eq(rig.abort.transfer_id, 0);
    }
    ck_assert_uint_eq(n_rows(&rig), 0);
    struct bus_stats stats;
    bus_stats(rig.ours, &stats);
    ck_assert_uint_eq(stats.n_links, 1); /* they close it */
    struct message message = good_hello(&rig, MESSAGE_KV_HELLO);
    they_send(&rig, &message);
    await(&rig, MESSAGE_KV_WELCOME, 1);
    ck_assert_uint_eq(rig.hello.incarnation, 77);
    ck_assert_uint_gt(rig.hello.credits, 0);
    ck_assert_uint_eq(rig.engine.n_opened, 1);
    ck_assert(rig.engine.accepted);
    ck_assert_uint_eq(rig.engine.n_lost, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_full_table_refuses_the_next_and_takes_it_when_one_left) {
    struct rig rig;
    uint32_t links[KV_LINKS_MAX + 1];
    rig_open(&rig, "tcp");
    bind_to(rig.ours, &rig);
    struct message message = good_hello(&rig, MESSAGE_KV_HELLO);
    for (uint32_t n = 0; n <= KV_LINKS_MAX; n++) {
        they_connect(&rig);
        links[n] = rig.their_link;
        they_send(&rig, &message);
        await(&rig, n < KV_LINKS_MAX ? MESSAGE_KV_WELCOME : MESSAGE_ABORT,
              n < KV_LINKS_MAX ? n + 1 : 1);
    }
    ck_assert_uint_eq(n_rows(&rig), KV_LINKS_MAX);
    bus_close(rig.theirs, links[5]);
    while (n_rows(&rig) == KV_LINKS_MAX) {
        rig.now_ns += KV_LINKS_ALIVE_NS; /* signs of life find nobody there */
        kv_links_tick(&rig.kv, rig.now_ns);
        turn(&rig);
    }
    ck_assert_uint_eq(rig.engine.n_lost, 1);
    rig.their_link = links[KV_LINKS_MAX];
    they_send(&rig, &message);
    await(&rig, MESSAGE_KV_WELCOME, KV_LINKS_MAX + 1);
    rig_close(&rig);
}
END_TEST

START_TEST(an_ack_of_the_cores_says_what_was_read) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.ours, &rig);
    they_connect(&rig);
    struct message message = good_hello(&rig, MESSAGE_KV_HELLO);
    they_send(&rig, &message);
    await(&rig, MESSAGE_KV_WELCOME, 1);
    struct kv_link *row = &rig.kv.links[0];
    row->receiver->consumed = 3 * CHUNK_BYTES;
    message = (struct message){.type = MESSAGE_CHUNK_ACK,
                               .u.chunk_ack = {.transfer_id = 9, .n_done = 2, .where = 7}};
    ck_assert_int_eq(kv_links_send(&rig.kv, rig.engine.opened_link, &message), STATUS_OK);
    await(&rig, MESSAGE_CHUNK_ACK, 1);
    ck_assert_uint_eq(rig.ack.transfer_id, 9);
    ck_assert_uint_eq(rig.ack.n_done, 2);
    ck_assert_uint_eq(rig.ack.where, 3 * CHUNK_BYTES);
    ck_assert_uint_eq(row->acked, 3 * CHUNK_BYTES);
    kv_links_close(&rig.kv, rig.engine.opened_link);
    ck_assert_int_eq(kv_links_send(&rig.kv, rig.engine.opened_link, &message), STATUS_CLOSED);
    rig_close(&rig);
}
END_TEST

/* They came to us, and read nothing from now on. */
static void deafened(struct rig *rig) {
    rig_open(rig, "tcp");
    bind_to(rig->ours, rig);
    they_connect(rig);
    struct message message = good_hello(rig, MESSAGE_KV_HELLO);
    they_send(rig, &message);
    await(rig, MESSAGE_KV_WELCOME, 1);
    kv_links_tick(&rig->kv, rig->now_ns);
    rig->deaf = true;
}

/* Until the bus takes no more of what we say. libzmq's thread may make room again, so that callers
 * look whether their own word found none. */
static void fill(struct rig *rig) {
    const struct kv_link *row = &rig->kv.links[0];
    struct message word = {.type = MESSAGE_CHUNK_ACK, .u.chunk_ack.where = row->acked};
    enum status status;
    do
        status = bus_send(rig->ours, row->link, &word);
    while (status == STATUS_OK);
    ck_assert_int_eq(status, STATUS_BUSY);
}

static void they_read_all(struct rig *rig) {
    uint32_t n;
    rig->deaf = false;
    do {
        n = rig->n_came[MESSAGE_CHUNK_ACK];
        for (int i = 0; i < 20; i++)
            turn(rig);
    } while (n != rig->n_came[MESSAGE_CHUNK_ACK]);
}

START_TEST(an_ack_that_found_no_room_is_said_at_the_next_tick) {
    struct rig rig;
    static const unsigned char bytes[CHUNK_BYTES];
    deafened(&rig);
    const struct kv_link *row = &rig.kv.links[0];
    struct message chunk = {.type = MESSAGE_CHUNK,
                            .u.chunk = {.transfer_id = 1,
                                        .layer_end = 1,
                                        .block_end = 1,
                                        .n_bytes = CHUNK_BYTES,
                                        .bytes = bytes}};
    rig.now_ns += A_WHILE;
    for (uint32_t n = 0; row->acked == row->receiver->consumed; n++) {
        chunk.u.chunk.index = n;
        chunk.u.chunk.where = (uint64_t)n * CHUNK_BYTES;
        they_send(&rig, &chunk);
        fill(&rig);
        while (rig.engine.n_messages == n)
            turn(&rig);
        ck_assert_int_eq(rig.engine.type, MESSAGE_CHUNK);
    }
    they_read_all(&rig);
    ck_assert_uint_eq(rig.ack.where, row->acked);
    ck_assert_uint_lt(row->acked, row->receiver->consumed);
    rig.now_ns = rig.kv.next_ns;
    ck_assert_uint_lt(rig.now_ns, T0 + KV_LINKS_ALIVE_NS);
    kv_links_tick(&rig.kv, rig.now_ns);
    while (rig.ack.where != row->receiver->consumed)
        turn(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_sign_of_life_that_found_no_room_is_given_at_the_next_tick) {
    struct rig rig;
    deafened(&rig);
    const struct kv_link *row = &rig.kv.links[0];
    do {
        row->receiver->consumed += STAGE_ALIGNMENT; /* as if a chunk had been dropped */
        rig.now_ns += KV_LINKS_ALIVE_NS;
        fill(&rig);
        kv_links_tick(&rig.kv, rig.now_ns);
    } while (row->acked == row->receiver->consumed);
    they_read_all(&rig);
    ck_assert_uint_lt(rig.ack.where, row->receiver->consumed);
    uint64_t tried_ns = rig.now_ns;
    rig.now_ns = rig.kv.next_ns;
    ck_assert_uint_lt(rig.now_ns, tried_ns + KV_LINKS_ALIVE_NS);
    kv_links_tick(&rig.kv, rig.now_ns);
    while (rig.ack.where != row->receiver->consumed)
        turn(&rig);
    rig_close(&rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, refused_hellos_cost_no_row, 0,
                        sizeof wrong_hellos / sizeof *wrong_hellos);
    tcase_add_test(tests, a_full_table_refuses_the_next_and_takes_it_when_one_left);
    tcase_add_test(tests, an_ack_of_the_cores_says_what_was_read);
    tcase_add_test(tests, an_ack_that_found_no_room_is_said_at_the_next_tick);
    tcase_add_test(tests, a_sign_of_life_that_found_no_room_is_given_at_the_next_tick);
}
