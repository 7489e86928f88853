/* KV links that we open to peers that are confused or hostile, silent or slow. */
#include "base/clock.h"
#include "proto/bus.h"
#include "tests/support/suite.h"
#include "tests/unit/worker/links/kv_rig.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "worker kv links";
const double suite_timeout_s = 60;

static void other_incarnation(struct kv_hello *welcome) {
    welcome->incarnation++;
}
static void last_incarnation(struct kv_hello *welcome) {
    welcome->incarnation--;
}
static void no_credits(struct kv_hello *welcome) {
    welcome->credits = 0;
}

static void (*const wrong_welcomes[])(struct kv_hello *) = {
    other_incarnation, last_incarnation, no_credits,       other_layout,
    other_major,       other_transport,  unknown_transport};

START_TEST(a_wrong_welcome_ends_the_link_and_the_core_hears_of_it) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    await(&rig, MESSAGE_KV_HELLO, 1);
    struct message message = good_hello(&rig, MESSAGE_KV_WELCOME);
    wrong_welcomes[_i](&message.u.kv_hello);
    they_send(&rig, &message);
    check_dropped(&rig);
    ck_assert_uint_eq(rig.engine.n_opened, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_second_welcome_changes_nothing) {
    struct rig rig;
    welcomed(&rig);
    struct message message = good_hello(&rig, MESSAGE_KV_WELCOME);
    message.u.kv_hello.incarnation++;
    they_send(&rig, &message);
    message = (struct message){.type = MESSAGE_COMMIT_ACK, .u.transfer_end.transfer_id = 9};
    they_send(&rig, &message);
    while (rig.engine.n_messages == 0)
        turn(&rig);
    ck_assert_int_eq(rig.engine.type, MESSAGE_COMMIT_ACK);
    ck_assert_uint_eq(rig.engine.n_opened, 1);
    ck_assert_uint_eq(rig.engine.n_lost, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(who_refuses_our_hello_is_lost_to_the_core) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    await(&rig, MESSAGE_KV_HELLO, 1);
    struct message message = {.type = MESSAGE_ABORT, .u.transfer_end.reason = REASON_MISMATCH};
    they_send(&rig, &message);
    check_dropped(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_hello_that_is_never_answered_ends_after_its_time) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    await(&rig, MESSAGE_KV_HELLO, 1);
    rig.now_ns = T0 + KV_LINKS_HANDSHAKE_NS - 1;
    kv_links_tick(&rig.kv, rig.now_ns);
    ck_assert_uint_eq(rig.engine.n_lost, 0);
    rig.now_ns = rig.kv.next_ns;
    kv_links_tick(&rig.kv, rig.now_ns);
    check_dropped(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_message_before_the_welcome_is_not_the_cores) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    await(&rig, MESSAGE_KV_HELLO, 1);
    struct message message = {.type = MESSAGE_COMMIT_ACK, .u.transfer_end.transfer_id = 9};
    they_send(&rig, &message);
    while (rig.kv.n_stale == 0)
        turn(&rig);
    ck_assert_uint_eq(rig.engine.n_messages, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(an_ack_beyond_what_was_sent_ends_the_link_and_the_core_hears_of_it) {
    struct rig rig;
    uint32_t block = 0;
    welcomed(&rig);
    struct chunk chunk = {.transfer_id = 1, .layer_end = 1, .block_end = 1};
    ck_assert_int_eq(kv_links_push(&rig.kv, rig.link, &chunk, &block), STATUS_OK);
    struct message ack = {.type = MESSAGE_CHUNK_ACK,
                          .u.chunk_ack = {.transfer_id = 1, .n_done = 1, .where = CHUNK_BYTES}};
    they_send(&rig, &ack); /* all of it, exactly */
    while (rig.engine.n_messages == 0)
        turn(&rig);
    ck_assert_uint_eq(rig.engine.n_lost, 0);
    ack.u.chunk_ack.where = CHUNK_BYTES + 1;
    they_send(&rig, &ack);
    check_dropped(&rig);
    ck_assert_uint_eq(rig.engine.n_messages, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(what_ends_a_link_says_nothing_else) {
    struct rig rig;
    welcomed(&rig);
    struct message ack = {.type = MESSAGE_CHUNK_ACK, .u.chunk_ack.where = 1}; /* and not 0 */
    they_send(&rig, &ack);
    check_dropped(&rig);
    ck_assert_uint_eq(rig.engine.n_rooms, 0);
    ck_assert_uint_eq(rig.kv.n_stale, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(an_ack_between_shells_is_not_the_cores) {
    struct rig rig;
    uint32_t block = 0;
    welcomed(&rig);
    struct chunk chunk = {.transfer_id = 1, .layer_end = 1, .block_end = 1};
    ck_assert_int_eq(kv_links_push(&rig.kv, rig.link, &chunk, &block), STATUS_OK);
    struct message ack = {.type = MESSAGE_CHUNK_ACK, .u.chunk_ack.where = CHUNK_BYTES};
    they_send(&rig, &ack);
    const struct kv_link *row = &rig.kv.links[0];
    while (row->sender->stage.tail < CHUNK_BYTES)
        turn(&rig);
    ck_assert_uint_eq(rig.engine.n_messages, 0);
    ck_assert_uint_eq(rig.engine.n_rooms, 1); /* but that there is room is */
    rig_close(&rig);
}
END_TEST

START_TEST(a_push_into_a_full_bus_costs_no_room_and_is_done_again) {
    struct rig rig;
    uint32_t block = 0, n_sent = 0;
    struct chunk chunk = {.transfer_id = 1, .layer_end = 1, .block_end = 1};
    rig_open(&rig, "tcp"); /* nobody listens yet: libzmq holds the hello and a few chunks */
    open_link(&rig);
    const struct stage *stage = &rig.kv.links[0].sender->stage;
    ck_assert_uint_gt(stage->n_bytes, 8 * CHUNK_BYTES);
    while (chunk.index = n_sent, kv_links_push(&rig.kv, rig.link, &chunk, &block) == STATUS_OK)
        n_sent++;
    ck_assert_uint_le(n_sent, 4);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(kv_links_push(&rig.kv, rig.link, &chunk, &block), STATUS_BUSY);
        ck_assert_uint_eq(stage->head, (uint64_t)n_sent * CHUNK_BYTES);
    }
    bind_to(rig.theirs, &rig);
    await(&rig, MESSAGE_CHUNK, n_sent);
    while (kv_links_push(&rig.kv, rig.link, &chunk, &block) == STATUS_BUSY)
        turn(&rig);
    await(&rig, MESSAGE_CHUNK, n_sent + 1);
    ck_assert_uint_eq(rig.chunk.index, n_sent);
    ck_assert_uint_eq(rig.chunk.where, (uint64_t)n_sent * CHUNK_BYTES);
    rig_close(&rig);
}
END_TEST

/* Room for one chunk at first and for four at most, beside a link whose ring takes `others`. */
static void open_small(struct rig *rig, struct transport_sender *other, uint64_t others) {
    rig_open(rig, "tcp");
    rig->kv.options = (struct transport_options){
        .ring_bytes = 4 * CHUNK_BYTES, .first_bytes = CHUNK_BYTES, .chunk_bytes = CHUNK_BYTES};
    bind_to(rig->theirs, rig);
    open_link(rig);
    await(rig, MESSAGE_KV_HELLO, 1);
    *other = (struct transport_sender){.stage.n_used = others};
    rig->kv.links[1].sender = other;
}

/* Pushes until it is told to wait, and not by the bus. */
static uint32_t push_all(struct rig *rig) {
    struct chunk chunk = {.transfer_id = 1, .layer_end = 1, .block_end = 1};
    const struct stage *stage = &rig->kv.links[0].sender->stage;
    uint32_t block = 0, n = 0;
    for (int i = 0; i < 100; i++) {
        n += kv_links_push(&rig->kv, rig->link, &chunk, &block) == STATUS_OK;
        await(rig, MESSAGE_CHUNK, n);
    }
    ck_assert_uint_eq(stage->head, (uint64_t)n * CHUNK_BYTES);
    return n;
}

START_TEST(a_ring_grows_with_what_is_pushed_up_to_the_bound_of_all_rings) {
    static const struct {
        uint64_t others;
        uint32_t n_chunks;
    } cases[] = {{0, 4},
                 {KV_LINKS_BYTES_MAX - 4 * CHUNK_BYTES, 4},
                 {KV_LINKS_BYTES_MAX - 4 * CHUNK_BYTES + STAGE_ALIGNMENT, 2},
                 {KV_LINKS_BYTES_MAX - 2 * CHUNK_BYTES, 2},
                 {KV_LINKS_BYTES_MAX - 2 * CHUNK_BYTES + STAGE_ALIGNMENT, 1},
                 {2 * KV_LINKS_BYTES_MAX, 1}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        struct transport_sender other;
        open_small(&rig, &other, cases[i].others);
        ck_assert_uint_eq(rig.kv.links[0].sender->stage.n_used, CHUNK_BYTES);
        ck_assert_uint_eq(push_all(&rig), cases[i].n_chunks);
        ck_assert_uint_eq(rig.kv.links[0].sender->stage.n_used,
                          (uint64_t)cases[i].n_chunks * CHUNK_BYTES);
        rig.kv.links[1].sender = NULL;
        rig_close(&rig);
    }
}
END_TEST

START_TEST(a_link_that_cannot_be_opened_costs_no_row) {
    struct rig rig;
    struct peer peer = {.name = "them", .incarnation = 88, .host = 5, .kv_endpoint = "nonsense"};
    uint32_t link;
    rig_open(&rig, "tcp");
    for (uint32_t n = 0; n <= KV_LINKS_MAX; n++) {
        ck_assert_int_eq(kv_links_open(&rig.kv, rig.now_ns, &peer, &link), STATUS_INVALID);
        ck_assert_ptr_null(rig.kv.links[0].sender);
    }
    ck_assert_uint_eq(n_rows(&rig), 0);
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    rig_close(&rig);
}
END_TEST

/* Of one that was refused, say. */
START_TEST(a_link_without_a_row_may_be_lost) {
    struct rig rig;
    welcomed(&rig);
    struct bus_event lost = {.kind = BUS_LOST, .link = rig.kv.links[0].link + 1, .why = "gone"};
    kv_links_event(&rig.kv, rig.now_ns, &lost);
    ck_assert_uint_eq(rig.engine.n_lost, 0);
    ck_assert_uint_eq(n_rows(&rig), 1);
    rig_close(&rig);
}
END_TEST

static void check_says_who_we_are(const struct rig *rig) {
    ck_assert_uint_eq(rig->hello.major, PROTO_MAJOR);
    ck_assert_uint_eq(rig->hello.minor, PROTO_MINOR);
    ck_assert_str_eq(rig->hello.name, "us");
    ck_assert_uint_eq(rig->hello.incarnation, 77);
    ck_assert_uint_eq(rig->hello.host, 5);
    ck_assert_uint_eq(rig->hello.pid, 6);
    ck_assert_uint_eq(rig->hello.credits, KV_LINKS_CREDITS);
    ck_assert_mem_eq(rig->hello.layout_fp, rig->kv.self.layout_fp, FINGERPRINT_BYTES);
}

START_TEST(a_hello_and_a_welcome_say_who_we_are) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    await(&rig, MESSAGE_KV_HELLO, 1);
    check_says_who_we_are(&rig);
    rig_close(&rig);
    rig_open(&rig, "tcp");
    bind_to(rig.ours, &rig);
    they_connect(&rig);
    struct message message = good_hello(&rig, MESSAGE_KV_HELLO);
    they_send(&rig, &message);
    await(&rig, MESSAGE_KV_WELCOME, 1);
    check_says_who_we_are(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(who_cannot_take_our_transport_is_sent_by_the_one_that_all_know) {
    struct rig rig;
    rig_open(&rig, "shm");
    bind_to(rig.theirs, &rig);
    open_link(&rig);
    await(&rig, MESSAGE_KV_HELLO, 1);
    ck_assert_str_eq(rig.hello.transport, "shm");
    struct message message = good_hello(&rig, MESSAGE_KV_WELCOME);
    they_send(&rig, &message);
    while (rig.engine.n_opened == 0)
        turn(&rig);
    ck_assert_str_eq(rig.kv.links[0].sender->transport->name, "tcp");
    rig_close(&rig);
}
END_TEST

START_TEST(a_full_table_opens_no_link) {
    struct rig rig;
    struct peer peer = {.name = "them", .incarnation = 88, .host = 5};
    uint32_t link;
    rig_open(&rig, "tcp");
    snprintf(peer.kv_endpoint, sizeof peer.kv_endpoint, "%s", rig.endpoint);
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        rig.kv.links[i].link = 1000 + i;
    ck_assert_int_eq(kv_links_open(&rig.kv, rig.now_ns, &peer, &link), STATUS_LIMIT);
    rig.kv.links[KV_LINKS_MAX - 1].link = BUS_NO_LINK;
    ck_assert_int_eq(kv_links_open(&rig.kv, rig.now_ns, &peer, &link), STATUS_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(who_said_no_hello_is_not_answered) {
    struct rig rig;
    rig_open(&rig, "tcp");
    bind_to(rig.ours, &rig);
    they_connect(&rig);
    struct message message = {.type = MESSAGE_COMMIT_ACK, .u.transfer_end.transfer_id = 9};
    they_send(&rig, &message);
    while (rig.kv.n_stale == 0)
        turn(&rig);
    ck_assert_uint_eq(n_rows(&rig), 0);
    ck_assert_uint_eq(rig.engine.n_messages, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(chunks_go_one_way) {
    struct rig rig;
    struct chunk chunk = {.transfer_id = 1, .layer_end = 1, .block_end = 1};
    uint32_t block = 0;
    welcomed(&rig);
    ck_assert_int_eq(kv_links_take(&rig.kv, rig.link, &chunk, &block), STATUS_CLOSED);
    rig_close(&rig);
    rig_open(&rig, "tcp");
    bind_to(rig.ours, &rig);
    they_connect(&rig);
    struct message message = good_hello(&rig, MESSAGE_KV_HELLO);
    they_send(&rig, &message);
    await(&rig, MESSAGE_KV_WELCOME, 1);
    ck_assert_int_eq(kv_links_push(&rig.kv, rig.engine.opened_link, &chunk, &block), STATUS_CLOSED);
    rig_close(&rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_wrong_welcome_ends_the_link_and_the_core_hears_of_it, 0,
                        sizeof wrong_welcomes / sizeof *wrong_welcomes);
    tcase_add_test(tests, a_second_welcome_changes_nothing);
    tcase_add_test(tests, who_refuses_our_hello_is_lost_to_the_core);
    tcase_add_test(tests, a_hello_that_is_never_answered_ends_after_its_time);
    tcase_add_test(tests, a_message_before_the_welcome_is_not_the_cores);
    tcase_add_test(tests, an_ack_beyond_what_was_sent_ends_the_link_and_the_core_hears_of_it);
    tcase_add_test(tests, what_ends_a_link_says_nothing_else);
    tcase_add_test(tests, an_ack_between_shells_is_not_the_cores);
    tcase_add_test(tests, a_push_into_a_full_bus_costs_no_room_and_is_done_again);
    tcase_add_test(tests, a_ring_grows_with_what_is_pushed_up_to_the_bound_of_all_rings);
    tcase_add_test(tests, a_link_that_cannot_be_opened_costs_no_row);
    tcase_add_test(tests, a_link_without_a_row_may_be_lost);
    tcase_add_test(tests, a_hello_and_a_welcome_say_who_we_are);
    tcase_add_test(tests, who_cannot_take_our_transport_is_sent_by_the_one_that_all_know);
    tcase_add_test(tests, a_full_table_opens_no_link);
    tcase_add_test(tests, who_said_no_hello_is_not_answered);
    tcase_add_test(tests, chunks_go_one_way);
}
