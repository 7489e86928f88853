/* KV links against peers that are confused or hostile, silent or slow: the peer is a bus of the test's,
 * the core a fake, the clock the test's own. */
#include "worker/links/kv_links.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "proto/bus.h"
#include "tests/support/suite.h"
#include "tests/unit/worker/links/fake_engine.h"
#include "worker/links/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker kv links";
const double suite_timeout_s = 60;

#define T0 (3600 * NS_PER_S)

enum { CHUNK_BYTES = 4096, A_WHILE = 10000000 };

struct rig {
    char folder[64];
    char endpoint[128];
    struct bus *ours;
    struct bus *theirs;
    struct kv_links kv;
    struct engine engine;
    uint64_t now_ns;
    uint32_t link;       /* the core's number of a link that we opened */
    uint32_t their_link; /* on their bus */
    bool deaf;           /* they read nothing */
    uint32_t n_came[MESSAGE_TYPES];
    struct kv_hello hello; /* the last of its kind */
    struct transfer_end abort;
    struct chunk_ack ack;
    struct chunk chunk;
    bool lost;
};

static unsigned char pool[CHUNK_BYTES];

static struct bus *open_bus(uint32_t max_links) {
    struct bus_config config = {.kind = BUS_KV, .queue_control = 1, .max_links = max_links};
    struct bus *bus;
    struct error error;
    ck_assert_int_eq(bus_new(&config, &bus, &error), STATUS_OK);
    return bus;
}

static void rig_open(struct rig *rig, const char *kv_transport) {
    struct kv_links_self self = {.name = "us", .incarnation = 77, .place = {.host = 5, .pid = 6}};
    struct transport_kv kv = {
        .block_bytes = CHUNK_BYTES,
        .n_layers = 1,
        .n_blocks = 1,
        .n_heads = 1,
        .n_ranks = 1,
        .ranks = {
            {.base = pool, .layer_bytes = CHUNK_BYTES, .block_bytes = CHUNK_BYTES, .n_heads = 1}}};
    memset(rig, 0, sizeof *rig);
    log_init("test", LOG_ERROR);
    snprintf(rig->folder, sizeof rig->folder, "/tmp/tandem-kv-links-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->folder));
    snprintf(rig->endpoint, sizeof rig->endpoint, "ipc://%s/run/kv", rig->folder);
    memset(self.layout_fp, 3, sizeof self.layout_fp);
    rig->ours = open_bus(0);
    rig->theirs = open_bus(0);
    rig->now_ns = T0;
    kv_links_init(&rig->kv, rig->ours, &self, kv_transport, 65536, &kv);
    rig->kv.engine = &rig->engine;
}

static void rig_close(struct rig *rig) {
    char command[128];
    kv_links_fini(&rig->kv);
    bus_free(rig->ours);
    bus_free(rig->theirs);
    snprintf(command, sizeof command, "rm -r %s", rig->folder);
    ck_assert_int_eq(system(command), 0);
}

static void bind_to(struct bus *bus, const struct rig *rig) {
    struct error error;
    uint32_t listener;
    ck_assert_int_eq(bus_bind(bus, rig->endpoint, &listener, &error), STATUS_OK);
}

static void they_hear(struct rig *rig, const struct bus_event *event) {
    if (event->kind == BUS_LOST) {
        rig->lost |= event->link == rig->their_link;
        return;
    }
    const struct message *message = event->message;
    rig->n_came[message->type]++;
    rig->their_link = event->link;
    if (message->type == MESSAGE_KV_HELLO || message->type == MESSAGE_KV_WELCOME)
        rig->hello = message->u.kv_hello;
    else if (message->type == MESSAGE_ABORT)
        rig->abort = message->u.transfer_end;
    else if (message->type == MESSAGE_CHUNK_ACK)
        rig->ack = message->u.chunk_ack;
    else if (message->type == MESSAGE_CHUNK)
        rig->chunk = message->u.chunk;
}

static void turn(struct rig *rig) {
    struct bus_event event;
    while (bus_receive(rig->ours, &event) == STATUS_OK)
        kv_links_event(&rig->kv, rig->now_ns, &event);
    while (!rig->deaf && bus_receive(rig->theirs, &event) == STATUS_OK)
        they_hear(rig, &event);
    (void)!bus_wait(rig->ours, 1000000);
}

static void await(struct rig *rig, enum message_type type, uint32_t n) {
    while (rig->n_came[type] < n)
        turn(rig);
}

static uint32_t n_rows(const struct rig *rig) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        n += rig->kv.links[i].link != BUS_NO_LINK;
    return n;
}

static struct message good_hello(const struct rig *rig, enum message_type type) {
    struct message message = {.type = type,
                              .u.kv_hello = {.major = PROTO_MAJOR,
                                             .minor = PROTO_MINOR,
                                             .name = "them",
                                             .incarnation = 88,
                                             .host = 5,
                                             .pid = 9,
                                             .transport = "tcp",
                                             .credits = 4}};
    memcpy(message.u.kv_hello.layout_fp, rig->kv.self.layout_fp, FINGERPRINT_BYTES);
    return message;
}

static void they_send(struct rig *rig, const struct message *message) {
    ck_assert_int_eq(bus_send(rig->theirs, rig->their_link, message), STATUS_OK);
}

static void open_link(struct rig *rig) {
    struct peer peer = {.name = "them", .incarnation = 88, .host = 5};
    snprintf(peer.kv_endpoint, sizeof peer.kv_endpoint, "%s", rig->endpoint);
    ck_assert_int_eq(kv_links_open(&rig->kv, rig->now_ns, &peer, &rig->link), STATUS_OK);
    ck_assert_uint_eq(n_rows(rig), 1);
}

/* A link that we opened, and they welcomed. */
static void welcomed(struct rig *rig) {
    rig_open(rig, "tcp");
    bind_to(rig->theirs, rig);
    open_link(rig);
    await(rig, MESSAGE_KV_HELLO, 1);
    struct message message = good_hello(rig, MESSAGE_KV_WELCOME);
    they_send(rig, &message);
    while (rig->engine.n_opened == 0)
        turn(rig);
    ck_assert_uint_eq(rig->engine.opened_link, rig->link);
    ck_assert_uint_eq(rig->engine.credits, 4);
    ck_assert(!rig->engine.accepted);
}

static void check_dropped(struct rig *rig) {
    while (rig->engine.n_lost == 0)
        turn(rig);
    ck_assert_uint_eq(rig->engine.n_lost, 1);
    ck_assert_uint_eq(rig->engine.lost_link, rig->link);
    ck_assert_uint_eq(n_rows(rig), 0);
    struct chunk chunk = {.layer_end = 1, .block_end = 1};
    uint32_t block = 0;
    ck_assert_int_eq(kv_links_push(&rig->kv, rig->link, &chunk, &block), STATUS_CLOSED);
}

static void other_incarnation(struct kv_hello *welcome) {
    welcome->incarnation++;
}
static void last_incarnation(struct kv_hello *welcome) {
    welcome->incarnation--;
}
static void no_credits(struct kv_hello *welcome) {
    welcome->credits = 0;
}
static void other_layout(struct kv_hello *welcome) {
    welcome->layout_fp[FINGERPRINT_BYTES - 1] ^= 1;
}
static void other_major(struct kv_hello *welcome) {
    welcome->major++;
}
static void other_transport(struct kv_hello *welcome) {
    snprintf(welcome->transport, sizeof welcome->transport, "shm");
}
static void unknown_transport(struct kv_hello *welcome) {
    snprintf(welcome->transport, sizeof welcome->transport, "pigeon");
}
static void some_offer(struct kv_hello *hello) {
    hello->n_opaque = 3;
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

static void they_connect(struct rig *rig) {
    struct error error;
    ck_assert_int_eq(bus_connect(rig->theirs, rig->endpoint, &rig->their_link, &error), STATUS_OK);
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
    tcase_add_loop_test(tests, a_wrong_welcome_ends_the_link_and_the_core_hears_of_it, 0,
                        sizeof wrong_welcomes / sizeof *wrong_welcomes);
    tcase_add_test(tests, a_second_welcome_changes_nothing);
    tcase_add_test(tests, who_refuses_our_hello_is_lost_to_the_core);
    tcase_add_test(tests, a_hello_that_is_never_answered_ends_after_its_time);
    tcase_add_test(tests, a_message_before_the_welcome_is_not_the_cores);
    tcase_add_test(tests, an_ack_beyond_what_was_sent_ends_the_link_and_the_core_hears_of_it);
    tcase_add_test(tests, an_ack_between_shells_is_not_the_cores);
    tcase_add_test(tests, a_push_into_a_full_bus_costs_no_room_and_is_done_again);
    tcase_add_test(tests, a_ring_grows_with_what_is_pushed_up_to_the_bound_of_all_rings);
    tcase_add_test(tests, a_link_that_cannot_be_opened_costs_no_row);
    tcase_add_test(tests, a_link_without_a_row_may_be_lost);
    tcase_add_loop_test(tests, refused_hellos_cost_no_row, 0,
                        sizeof wrong_hellos / sizeof *wrong_hellos);
    tcase_add_test(tests, a_full_table_refuses_the_next_and_takes_it_when_one_left);
    tcase_add_test(tests, an_ack_that_found_no_room_is_said_at_the_next_tick);
    tcase_add_test(tests, a_sign_of_life_that_found_no_room_is_given_at_the_next_tick);
}
