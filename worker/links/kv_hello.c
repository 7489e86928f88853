#include "worker/links/kv_hello.h"

#include "base/log/log.h"
#include "proto/bus.h"
#include "worker/core/engine.h"
#include "worker/links/kv_link.h"
#include "worker/links/links.h"

#include <stdio.h>
#include <string.h>

static void kv_hello_say_open(const struct kv_link *peer, const struct transport *transport) {
    char name[2 * MESSAGE_NAME_MAX];
    log_info("kv link open", "peer=%s transport=%s accepted=%d",
             log_text(name, sizeof name, peer->name), transport->name, peer->accepted);
}

static struct message kv_hello_of(const struct kv_links *kv, enum message_type type,
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
static const char *kv_hello_mismatch(const struct kv_links *kv, const struct kv_hello *hello) {
    if (hello->major != PROTO_MAJOR)
        return "the peer speaks another version of the protocol";
    if (memcmp(hello->layout_fp, kv->self.layout_fp, sizeof hello->layout_fp) != 0)
        return "its model or KV layout is another";
    return NULL;
}

static void kv_hello_refuse(struct kv_links *kv, uint32_t link, const struct kv_hello *hello,
                            const char *why) {
    struct kv_link peer = {0};
    struct message message = {.type = MESSAGE_ABORT, .u.transfer_end = {.reason = REASON_MISMATCH}};
    memcpy(peer.name, hello->name, sizeof peer.name);
    kv_link_say(LOG_WARN, &peer, "kv link refused", why);
    enum status status = bus_send(kv->bus, link, &message); /* they close it then */
    if (status != STATUS_OK)
        bus_close(kv->bus, link);
}

/* What they offer, or the fallback where that does not reach and no side insists. */
static enum status kv_hello_open_receiver(struct kv_links *kv, const struct kv_hello *hello,
                                          struct kv_link *peer, struct error *error) {
    const struct transport *transport = transport_find(hello->transport);
    enum status status = STATUS_UNSUPPORTED;
    if (transport)
        status = transport->receiver_open(hello->opaque, hello->n_opaque, &peer->receiver, error);
    else
        error_set(error, status, "an unknown transport");
    if (status == STATUS_OK || !transport_is_free(kv->kv_transport))
        return status;
    kv_link_say(LOG_INFO, peer, "kv transport falls back", error->text);
    return transport_fallback()->receiver_open(NULL, 0, &peer->receiver, error);
}

void kv_hello_accept(struct kv_links *kv, uint64_t now_ns, uint32_t link,
                     const struct kv_hello *hello) {
    struct error error;
    const char *why = kv_hello_mismatch(kv, hello);
    struct kv_link *peer = kv_link_take(kv);
    if (why || !peer) {
        kv_hello_refuse(kv, link, hello, why ? why : "too many KV links");
        return;
    }
    *peer = (struct kv_link){.accepted = true,
                             .incarnation = hello->incarnation,
                             .until_ns = now_ns + KV_LINKS_ALIVE_NS};
    memcpy(peer->name, hello->name, sizeof peer->name);
    if (kv_hello_open_receiver(kv, hello, peer, &error) != STATUS_OK) {
        kv_link_forget(peer);
        kv_hello_refuse(kv, link, hello, error.text);
        return;
    }
    const char *transport = peer->receiver->transport->name;
    struct message message = kv_hello_of(kv, MESSAGE_KV_WELCOME, transport);
    peer->link = link;
    if (bus_send(kv->bus, link, &message) != STATUS_OK) {
        kv_link_drop(kv, now_ns, peer, "the welcome cannot be sent");
        return;
    }
    peer->ready = true;
    kv_hello_say_open(peer, peer->receiver->transport);
    engine_kv_open(kv->engine, now_ns, link_kv(link), peer->name, peer->incarnation,
                   KV_LINKS_CREDITS, true);
}

static enum status kv_hello_open_sender(struct kv_links *kv, struct kv_link *peer, const char *name,
                                        const struct transport_place *to, struct error *error) {
    const struct transport *transport = transport_choose(name, &kv->self.place, to);
    if (!transport)
        return error_set(error, STATUS_UNSUPPORTED, "transport %s cannot reach the peer", name);
    return transport->sender_open(&kv->options, &peer->sender, error);
}

void kv_hello_welcomed(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                       const struct kv_hello *welcome) {
    struct error error;
    const char *why = kv_hello_mismatch(kv, welcome);
    if (!why && welcome->incarnation != peer->incarnation)
        why = "another process listens there";
    if (!why && welcome->credits == 0)
        why = "the peer grants no credits";
    if (why) {
        kv_link_drop(kv, now_ns, peer, why);
        return;
    }
    if (strcmp(welcome->transport, peer->sender->transport->name) != 0) {
        struct transport_place there = {.host = welcome->host, .pid = welcome->pid};
        transport_sender_close(peer->sender);
        peer->sender = NULL;
        const char *fallback = transport_fallback()->name;
        if (strcmp(welcome->transport, fallback) != 0 ||
            kv_hello_open_sender(kv, peer, fallback, &there, &error) != STATUS_OK) {
            kv_link_drop(kv, now_ns, peer, "no transport for both");
            return;
        }
    }
    uint32_t credits = welcome->credits < KV_LINKS_CREDITS ? welcome->credits : KV_LINKS_CREDITS;
    peer->ready = true;
    peer->until_ns = UINT64_MAX;
    kv_hello_say_open(peer, peer->sender->transport);
    engine_kv_open(kv->engine, now_ns, link_kv(peer->link), peer->name, peer->incarnation, credits,
                   false);
}

enum status kv_hello_open(struct kv_links *kv, uint64_t now_ns, const struct peer *to,
                          uint32_t *link) {
    struct error error;
    struct transport_place there = {.host = to->host};
    const struct transport *named = transport_find(kv->kv_transport);
    if (named && named->is_inside)
        there.pid = kv->self.place.pid;
    struct kv_link *peer = kv_link_take(kv);
    if (!peer)
        return STATUS_LIMIT;
    *peer = (struct kv_link){.incarnation = to->incarnation,
                             .until_ns = now_ns + KV_LINKS_HANDSHAKE_NS};
    memcpy(peer->name, to->name, sizeof peer->name);
    enum status status = kv_hello_open_sender(kv, peer, kv->kv_transport, &there, &error);
    if (status == STATUS_OK)
        status = bus_connect(kv->bus, to->kv_endpoint, &peer->link, &error);
    if (status == STATUS_OK) {
        struct message message = kv_hello_of(kv, MESSAGE_KV_HELLO, peer->sender->transport->name);
        struct kv_hello *hello = &message.u.kv_hello;
        hello->n_opaque = peer->sender->transport->offer(peer->sender, hello->opaque);
        status = bus_send(kv->bus, peer->link, &message);
        error_set(&error, status, "the hello cannot be sent");
    }
    if (status != STATUS_OK) {
        kv_link_say(LOG_WARN, peer, "kv link cannot be opened", error.text);
        if (peer->link != BUS_NO_LINK)
            bus_close(kv->bus, peer->link);
        kv_link_forget(peer);
        return status;
    }
    *link = link_kv(peer->link);
    return STATUS_OK;
}
