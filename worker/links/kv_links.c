#include "worker/links/kv_links.h"

#include "base/log/log.h"
#include "proto/bus.h"
#include "worker/core/engine.h"
#include "worker/links/kv_hello.h"
#include "worker/links/kv_link.h"
#include "worker/links/links.h"

#include <string.h>

void kv_links_init(struct kv_links *kv, struct bus *bus, const struct kv_links_self *self,
                   const char *kv_transport, uint32_t chunk_bytes,
                   const struct transport_kv *pool) {
    uint32_t aligned = (chunk_bytes + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
    *kv = (struct kv_links){
        .bus = bus,
        .self = *self,
        .kv_transport = kv_transport,
        .options = {.ring_bytes = (uint64_t)aligned * KV_LINKS_CREDITS,
                    .first_bytes = (uint64_t)aligned * ENGINE_CREDITS,
                    .chunk_bytes = aligned},
        .pool = *pool,
    };
}

void kv_links_fini(struct kv_links *kv) {
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        kv_link_forget(&kv->links[i]);
}

/* Tells the sender what may be used again, if it has not been told. */
static enum status kv_links_acknowledge(struct kv_links *kv, struct kv_link *peer) {
    struct message message = {.type = MESSAGE_CHUNK_ACK,
                              .u.chunk_ack = {.where = peer->receiver->consumed}};
    TRY(bus_send(kv->bus, peer->link, &message));
    peer->acked = peer->receiver->consumed;
    return STATUS_OK;
}

static void kv_links_take_message(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                                  const struct message *message) {
    uint32_t link = peer->link;
    engine_message(kv->engine, now_ns, link_kv(link), message);
    peer = kv_link_find(kv, link); /* the core may have closed it */
    if (!peer || !peer->receiver || message->type != MESSAGE_CHUNK)
        return;
    transport_consumed(peer->receiver, &message->u.chunk);
    if (peer->acked != peer->receiver->consumed && kv_links_acknowledge(kv, peer) != STATUS_OK)
        peer->until_ns = now_ns; /* at the next tick */
}

static void kv_links_take_answer(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                                 const struct message *message) {
    switch (message->type) {
    case MESSAGE_KV_WELCOME:
        if (!peer->ready)
            kv_hello_welcomed(kv, now_ns, peer, &message->u.kv_hello);
        return;
    case MESSAGE_CHUNK_ACK:
        if (transport_acked(peer->sender, message->u.chunk_ack.where) != STATUS_OK) {
            kv_link_drop(kv, now_ns, peer, "the peer acknowledges bytes that were never sent");
            return;
        }
        if (message->u.chunk_ack.transfer_id == 0) {
            engine_kv_room(kv->engine, now_ns);
            return;
        }
        break;
    case MESSAGE_ABORT:
        if (message->u.transfer_end.transfer_id == 0) {
            kv_link_drop(kv, now_ns, peer, reason_name(message->u.transfer_end.reason));
            return;
        }
        break;
    default:
        break;
    }
    if (peer->ready)
        engine_message(kv->engine, now_ns, link_kv(peer->link), message);
    else
        kv->n_stale++;
}

void kv_links_event(struct kv_links *kv, uint64_t now_ns, const struct bus_event *event) {
    struct kv_link *peer = kv_link_find(kv, event->link);
    if (event->kind == BUS_LOST) {
        if (peer)
            kv_link_lost(kv, now_ns, peer, event->why);
        return;
    }
    if (!peer && event->message->type == MESSAGE_KV_HELLO)
        kv_hello_accept(kv, now_ns, event->link, &event->message->u.kv_hello);
    else if (!peer)
        kv->n_stale++;
    else if (peer->accepted)
        kv_links_take_message(kv, now_ns, peer, event->message);
    else
        kv_links_take_answer(kv, now_ns, peer, event->message);
}

void kv_links_tick(struct kv_links *kv, uint64_t now_ns) {
    if (now_ns < kv->next_ns)
        return;
    kv->next_ns = now_ns + KV_LINKS_ALIVE_NS / 4;
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++) {
        struct kv_link *peer = &kv->links[i];
        if (peer->link == BUS_NO_LINK || now_ns < peer->until_ns)
            continue;
        if (!peer->ready) {
            kv_link_drop(kv, now_ns, peer, "no answer to the hello");
            continue;
        }
        /* Acknowledged again and again: the word is absolute, and a send that finds no peer is how
         * we hear that a prefill worker left. BUS_LOST follows then. */
        peer->until_ns = now_ns + KV_LINKS_ALIVE_NS;
        if (kv_links_acknowledge(kv, peer) == STATUS_BUSY)
            peer->until_ns = now_ns;
    }
}

enum status kv_links_send(struct kv_links *kv, uint32_t link, const struct message *message) {
    struct kv_link *peer = kv_link_find(kv, link_on_bus(link));
    if (!peer)
        return STATUS_CLOSED;
    if (message->type != MESSAGE_CHUNK_ACK || !peer->receiver)
        return bus_send(kv->bus, peer->link, message);
    struct message ack = *message;
    ack.u.chunk_ack.where = peer->receiver->consumed;
    TRY(bus_send(kv->bus, peer->link, &ack));
    peer->acked = peer->receiver->consumed;
    return STATUS_OK;
}

enum status kv_links_open(struct kv_links *kv, uint64_t now_ns, const struct peer *to,
                          uint32_t *link) {
    return kv_hello_open(kv, now_ns, to, link);
}

void kv_links_close(struct kv_links *kv, uint32_t link) {
    struct kv_link *peer = kv_link_find(kv, link_on_bus(link));
    if (!peer)
        return;
    bus_close(kv->bus, peer->link);
    kv_link_forget(peer);
}

/* Twice the ring, where the core's window is larger than it and memory is left. */
static bool kv_links_grow_ring(const struct kv_links *kv, struct kv_link *peer) {
    const struct stage *stage = &peer->sender->stage;
    uint64_t n_used = 2 * stage->n_used < stage->n_bytes ? 2 * stage->n_used : stage->n_bytes;
    uint64_t n_all = n_used - stage->n_used;
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        n_all += kv->links[i].sender ? kv->links[i].sender->stage.n_used : 0;
    return n_used > stage->n_used && n_all <= KV_LINKS_BYTES_MAX &&
           transport_grow(peer->sender, n_used) == STATUS_OK;
}

enum status kv_links_push(struct kv_links *kv, uint32_t link, struct chunk *chunk,
                          const uint32_t *blocks) {
    struct kv_link *peer = kv_link_find(kv, link_on_bus(link));
    if (!peer || !peer->sender)
        return STATUS_CLOSED;
    struct message message = {.type = MESSAGE_CHUNK};
    enum status status = transport_push(peer->sender, &kv->pool, chunk, blocks);
    if (status == STATUS_BUSY && kv_links_grow_ring(kv, peer))
        status = transport_push(peer->sender, &kv->pool, chunk, blocks);
    TRY(status);
    message.u.chunk = *chunk;
    TRY(bus_send(kv->bus, peer->link, &message));
    transport_sent(peer->sender, chunk);
    chunk->bytes = NULL; /* the bus has its own copy */
    return STATUS_OK;
}

enum status kv_links_take(struct kv_links *kv, uint32_t link, const struct chunk *chunk,
                          const uint32_t *blocks) {
    struct kv_link *peer = kv_link_find(kv, link_on_bus(link));
    if (!peer || !peer->receiver)
        return STATUS_CLOSED;
    enum status status = transport_take(peer->receiver, &kv->pool, chunk, blocks);
    transport_consumed(peer->receiver, chunk);
    if (status == STATUS_CORRUPT)
        kv_link_say(LOG_WARN, peer, "kv chunk is corrupt", peer->receiver->transport->name);
    return status;
}
