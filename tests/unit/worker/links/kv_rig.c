#include "tests/unit/worker/links/kv_rig.h"

#include "base/log/log.h"
#include "proto/bus.h"
#include "worker/links/links.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char pool[CHUNK_BYTES];

static struct bus *open_bus(uint32_t max_links) {
    struct bus_config config = {.kind = BUS_KV, .queue_control = 1, .max_links = max_links};
    struct bus *bus;
    struct error error;
    ck_assert_int_eq(bus_new(&config, &bus, &error), STATUS_OK);
    return bus;
}

void rig_open(struct rig *rig, const char *kv_transport) {
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

void rig_close(struct rig *rig) {
    char command[128];
    kv_links_fini(&rig->kv);
    bus_free(rig->ours);
    bus_free(rig->theirs);
    snprintf(command, sizeof command, "rm -r %s", rig->folder);
    ck_assert_int_eq(system(command), 0);
}

void bind_to(struct bus *bus, const struct rig *rig) {
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

void turn(struct rig *rig) {
    struct bus_event event;
    while (bus_receive(rig->ours, &event) == STATUS_OK)
        kv_links_event(&rig->kv, rig->now_ns, &event);
    while (!rig->deaf && bus_receive(rig->theirs, &event) == STATUS_OK)
        they_hear(rig, &event);
    (void)!bus_wait(rig->ours, 1000000);
}

void await(struct rig *rig, enum message_type type, uint32_t n) {
    while (rig->n_came[type] < n)
        turn(rig);
}

uint32_t n_rows(const struct rig *rig) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        n += rig->kv.links[i].link != BUS_NO_LINK;
    return n;
}

struct message good_hello(const struct rig *rig, enum message_type type) {
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

void they_send(struct rig *rig, const struct message *message) {
    ck_assert_int_eq(bus_send(rig->theirs, rig->their_link, message), STATUS_OK);
}

void open_link(struct rig *rig) {
    struct peer peer = {.name = "them", .incarnation = 88, .host = 5};
    snprintf(peer.kv_endpoint, sizeof peer.kv_endpoint, "%s", rig->endpoint);
    ck_assert_int_eq(kv_links_open(&rig->kv, rig->now_ns, &peer, &rig->link), STATUS_OK);
    ck_assert_uint_eq(n_rows(rig), 1);
}

/* A link that we opened, and they welcomed. */
void welcomed(struct rig *rig) {
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

void check_dropped(struct rig *rig) {
    while (rig->engine.n_lost == 0)
        turn(rig);
    ck_assert_uint_eq(rig->engine.n_lost, 1);
    ck_assert_uint_eq(rig->engine.lost_link, rig->link);
    ck_assert_uint_eq(n_rows(rig), 0);
    struct chunk chunk = {.layer_end = 1, .block_end = 1};
    uint32_t block = 0;
    ck_assert_int_eq(kv_links_push(&rig->kv, rig->link, &chunk, &block), STATUS_CLOSED);
}

void other_layout(struct kv_hello *hello) {
    hello->layout_fp[FINGERPRINT_BYTES - 1] ^= 1;
}

void other_major(struct kv_hello *hello) {
    hello->major++;
}

void other_transport(struct kv_hello *hello) {
    snprintf(hello->transport, sizeof hello->transport, "shm");
}

void unknown_transport(struct kv_hello *hello) {
    snprintf(hello->transport, sizeof hello->transport, "pigeon");
}

void they_connect(struct rig *rig) {
    struct error error;
    ck_assert_int_eq(bus_connect(rig->theirs, rig->endpoint, &rig->their_link, &error), STATUS_OK);
}
