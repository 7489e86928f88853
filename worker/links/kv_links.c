#include "worker/links/kv_links.h"

#include "base/assert.h"
#include "base/log.h"
#include "proto/bus.h"
#include "worker/core/engine.h"
#include "worker/links/links.h"

#include <stdio.h>
#include <string.h>

void kv_links_init(struct kv_links *kv, struct bus *bus, const struct kv_links_self *self,
                   const char *kv_transport, uint32_t chunk_bytes,
                   const struct transport_kv *pool) {
    uint32_t aligned = (chunk_bytes + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
    *kv = (struct kv_links){
        .bus = bus,
        .self = *self,
        .kv_transport = kv_transport,
        .options = {.ring_bytes = (uint64_t)aligned * KV_LINKS_CREDITS, .chunk_bytes = aligned},
        .pool = *pool,
    };
}

static void forget(struct kv_link *peer) {
    transport_sender_close(peer->sender);
    transport_receiver_close(peer->receiver);
    memset(peer, 0, sizeof *peer);
}

void kv_links_fini(struct kv_links *kv) {
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        forget(&kv->links[i]);
}

static struct kv_link *find(struct kv_links *kv, uint32_t bus_link) {
    for (uint32_t i = 0; bus_link != BUS_NO_LINK && i < KV_LINKS_MAX; i++)
        if (kv->links[i].link == bus_link)
            return &kv->links[i];
    return NULL;
}

static struct kv_link *take(struct kv_links *kv) {
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        if (kv->links[i].link == BUS_NO_LINK)
            return &kv->links[i];
    return NULL;
}

static void say(enum log_level level, const struct kv_link *peer, const char *what,
                const char *why) {
    char name[2 * MESSAGE_NAME_MAX], text[ERROR_TEXT_MAX];
    log_line(level, what, "peer=%s why=%s", log_text(name, sizeof name, peer->name),
             log_text(text, sizeof text, why));
}

static void say_open(const struct kv_link *peer, const struct transport *transport) {
    char name[2 * MESSAGE_NAME_MAX];
    log_info("kv link open", "peer=%s transport=%s accepted=%d",
             log_text(name, sizeof name, peer->name), transport->name, peer->accepted);
}

/* Ends a link from our side; the core hears of it if it knows the number. */
static void drop(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer, const char *why) {
    uint32_t link = peer->link;
    bool known = peer->ready || !peer->accepted;
    say(LOG_WARN, peer, "kv link dropped", why);
    forget(peer);
    bus_close(kv->bus, link);
    if (known)
        engine_link_lost(kv->engine, now_ns, link_kv(link));
}

static struct message hello_of(const struct kv_links *kv, enum message_type type,
                               const char *transport) {
    struct message message = {.type = type,
                              .u.kv_hello = {.major = PROTO_MAJOR,
                                             .minor = PROTO_MINOR,
                                             .incarnation = kv->self.incarnation,
                                             .host = kv->self.place.host,
                                             .pid = kv->self.place.pid,
                                             .credits = KV_LINKS_CREDITS}};
    struct kv_hello *hello = &message.u.kv_hello;
    memcpy(hello->name, kv->self.name, sizeof hello->name);
    memcpy(hello->layout_fp, kv->self.layout_fp, sizeof hello->layout_fp);
    snprintf(hello->transport, sizeof hello->transport, "%s", transport);
    return message;
}

/* Answers NULL, or why we cannot work with them. */
static const char *mismatch(const struct kv_links *kv, const struct kv_hello *hello) {
    if (hello->major != PROTO_MAJOR)
        return "it speaks another protocol";
    if (memcmp(hello->layout_fp, kv->self.layout_fp, sizeof hello->layout_fp) != 0)
        return "its model or KV layout is another";
    return NULL;
}

/* The decode side. */

static void refuse(struct kv_links *kv, uint32_t link, const struct kv_hello *hello,
                   const char *why) {
    struct kv_link peer = {0};
    struct message message = {.type = MESSAGE_ABORT, .u.transfer_end = {.reason = REASON_MISMATCH}};
    memcpy(peer.name, hello->name, sizeof peer.name);
    say(LOG_WARN, &peer, "kv link refused", why);
    enum status status = bus_send(kv->bus, link, &message); /* they close it then */
    if (status != STATUS_OK)
        bus_close(kv->bus, link);
}

/* What they offer, or tcp where that does not reach and nobody insists. */
static enum status open_receiver(struct kv_links *kv, const struct kv_hello *hello,
                                 struct kv_link *peer, struct error *error) {
    const struct transport *transport = transport_find(hello->transport);
    enum status status = STATUS_UNSUPPORTED;
    if (transport)
        status = transport->receiver_open(hello->opaque, hello->n_opaque, &peer->receiver, error);
    else
        error_set(error, status, "an unknown transport");
    if (status == STATUS_OK || strcmp(kv->kv_transport, "auto") != 0)
        return status;
    say(LOG_INFO, peer, "kv transport falls back to tcp", error->text);
    return transport_find("tcp")->receiver_open(NULL, 0, &peer->receiver, error);
}

static void accept_hello(struct kv_links *kv, uint64_t now_ns, uint32_t link,
                         const struct kv_hello *hello) {
    struct error error;
    const char *why = mismatch(kv, hello);
    struct kv_link *peer = take(kv);
    if (why || !peer) {
        refuse(kv, link, hello, why ? why : "too many KV links");
        return;
    }
    *peer = (struct kv_link){.accepted = true,
                             .incarnation = hello->incarnation,
                             .until_ns = now_ns + KV_LINKS_ALIVE_NS};
    memcpy(peer->name, hello->name, sizeof peer->name);
    if (open_receiver(kv, hello, peer, &error) != STATUS_OK) {
        forget(peer);
        refuse(kv, link, hello, error.text);
        return;
    }
    const char *transport = peer->receiver->transport->name;
    struct message message = hello_of(kv, MESSAGE_KV_WELCOME, transport);
    peer->link = link;
    if (bus_send(kv->bus, link, &message) != STATUS_OK) {
        drop(kv, now_ns, peer, "the welcome cannot be sent");
        return;
    }
    peer->ready = true;
    say_open(peer, peer->receiver->transport);
    engine_kv_open(kv->engine, now_ns, link_kv(link), peer->name, peer->incarnation,
                   KV_LINKS_CREDITS, true);
}

/* Tells the sender what may be used again, if it has not been told. */
static enum status acknowledge(struct kv_links *kv, struct kv_link *peer) {
    struct message message = {.type = MESSAGE_CHUNK_ACK,
                              .u.chunk_ack = {.where = peer->receiver->consumed}};
    TRY(bus_send(kv->bus, peer->link, &message));
    peer->acked = peer->receiver->consumed;
    return STATUS_OK;
}

static void take_message(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                         const struct message *message) {
    uint32_t link = peer->link;
    engine_message(kv->engine, now_ns, link_kv(link), message);
    peer = find(kv, link); /* the core may have closed it */
    if (!peer || !peer->receiver || message->type != MESSAGE_CHUNK)
        return;
    transport_consumed(peer->receiver, &message->u.chunk);
    if (peer->acked != peer->receiver->consumed && acknowledge(kv, peer) != STATUS_OK)
        peer->until_ns = now_ns; /* at the next tick */
}

/* The prefill side. */

static enum status open_sender(struct kv_links *kv, struct kv_link *peer, const char *name,
                               const struct transport_place *to, struct error *error) {
    const struct transport *transport = transport_choose(name, &kv->self.place, to);
    if (!transport)
        return error_set(error, STATUS_UNSUPPORTED, "transport %s does not reach it", name);
    return transport->sender_open(&kv->options, &peer->sender, error);
}

static void take_welcome(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                         const struct kv_hello *welcome) {
    struct error error;
    const char *why = mismatch(kv, welcome);
    if (!why && welcome->incarnation != peer->incarnation)
        why = "another process listens there";
    if (!why && welcome->credits == 0)
        why = "it takes no chunks";
    if (why) {
        drop(kv, now_ns, peer, why);
        return;
    }
    if (strcmp(welcome->transport, peer->sender->transport->name) != 0) {
        struct transport_place there = {.host = welcome->host, .pid = welcome->pid};
        transport_sender_close(peer->sender);
        peer->sender = NULL;
        if (strcmp(welcome->transport, "tcp") != 0 ||
            open_sender(kv, peer, "tcp", &there, &error) != STATUS_OK) {
            drop(kv, now_ns, peer, "no transport for both");
            return;
        }
    }
    uint32_t credits = welcome->credits < KV_LINKS_CREDITS ? welcome->credits : KV_LINKS_CREDITS;
    peer->ready = true;
    peer->until_ns = UINT64_MAX;
    say_open(peer, peer->sender->transport);
    engine_kv_open(kv->engine, now_ns, link_kv(peer->link), peer->name, peer->incarnation, credits,
                   false);
}

static void take_answer(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                        const struct message *message) {
    switch (message->type) {
    case MESSAGE_KV_WELCOME:
        if (!peer->ready)
            take_welcome(kv, now_ns, peer, &message->u.kv_hello);
        return;
    case MESSAGE_CHUNK_ACK:
        if (transport_acked(peer->sender, message->u.chunk_ack.where) != STATUS_OK) {
            drop(kv, now_ns, peer, "it acknowledges what was never sent");
            return;
        }
        if (message->u.chunk_ack.transfer_id == 0)
            return;
        break;
    case MESSAGE_ABORT:
        if (message->u.transfer_end.transfer_id == 0) {
            drop(kv, now_ns, peer, reason_name(message->u.transfer_end.reason));
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
    struct kv_link *peer = find(kv, event->link);
    if (event->kind == BUS_LOST) {
        if (peer)
            drop(kv, now_ns, peer, event->why);
        return;
    }
    if (!peer && event->message->type == MESSAGE_KV_HELLO)
        accept_hello(kv, now_ns, event->link, &event->message->u.kv_hello);
    else if (!peer)
        kv->n_stale++;
    else if (peer->accepted)
        take_message(kv, now_ns, peer, event->message);
    else
        take_answer(kv, now_ns, peer, event->message);
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
            drop(kv, now_ns, peer, "no answer to the hello");
            continue;
        }
        /* Acknowledged again and again: the word is absolute, and a send that finds nobody is how
         * we hear that a prefill worker left. BUS_LOST follows then. */
        peer->until_ns = now_ns + KV_LINKS_ALIVE_NS;
        if (acknowledge(kv, peer) == STATUS_BUSY)
            peer->until_ns = now_ns;
    }
}

enum status kv_links_send(struct kv_links *kv, uint32_t link, const struct message *message) {
    struct kv_link *peer = find(kv, link_on_bus(link));
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
    struct error error;
    struct transport_place there = {.host = to->host};
    if (strcmp(kv->kv_transport, "local") == 0)
        there.pid = kv->self.place.pid; /* who asks for it knows that it is here */
    struct kv_link *peer = take(kv);
    if (!peer)
        return STATUS_LIMIT;
    *peer = (struct kv_link){.incarnation = to->incarnation,
                             .until_ns = now_ns + KV_LINKS_HANDSHAKE_NS};
    memcpy(peer->name, to->name, sizeof peer->name);
    enum status status = open_sender(kv, peer, kv->kv_transport, &there, &error);
    if (status == STATUS_OK)
        status = bus_connect(kv->bus, to->kv_endpoint, &peer->link, &error);
    if (status == STATUS_OK) {
        struct message message = hello_of(kv, MESSAGE_KV_HELLO, peer->sender->transport->name);
        struct kv_hello *hello = &message.u.kv_hello;
        hello->n_opaque = peer->sender->transport->offer(peer->sender, hello->opaque);
        status = bus_send(kv->bus, peer->link, &message);
        error_set(&error, status, "the hello cannot be sent");
    }
    if (status != STATUS_OK) {
        say(LOG_WARN, peer, "kv link cannot be opened", error.text);
        if (peer->link != BUS_NO_LINK)
            bus_close(kv->bus, peer->link);
        forget(peer);
        return status;
    }
    *link = link_kv(peer->link);
    return STATUS_OK;
}

void kv_links_close(struct kv_links *kv, uint32_t link) {
    struct kv_link *peer = find(kv, link_on_bus(link));
    if (!peer)
        return;
    bus_close(kv->bus, peer->link);
    forget(peer);
}

enum status kv_links_push(struct kv_links *kv, uint32_t link, struct chunk *chunk,
                          const uint32_t *blocks) {
    struct kv_link *peer = find(kv, link_on_bus(link));
    if (!peer || !peer->sender)
        return STATUS_CLOSED;
    struct message message = {.type = MESSAGE_CHUNK};
    TRY(transport_push(peer->sender, &kv->pool, chunk, blocks));
    message.u.chunk = *chunk;
    TRY(bus_send(kv->bus, peer->link, &message));
    transport_sent(peer->sender, chunk);
    chunk->bytes = NULL; /* the bus has its own copy */
    return STATUS_OK;
}

enum status kv_links_take(struct kv_links *kv, uint32_t link, const struct chunk *chunk,
                          const uint32_t *blocks) {
    struct kv_link *peer = find(kv, link_on_bus(link));
    if (!peer || !peer->receiver)
        return STATUS_CLOSED;
    enum status status = transport_take(peer->receiver, &kv->pool, chunk, blocks);
    transport_consumed(peer->receiver, chunk);
    if (status == STATUS_CORRUPT)
        say(LOG_WARN, peer, "kv chunk is corrupt", peer->receiver->transport->name);
    return status;
}
