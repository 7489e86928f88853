/* worker/links/kv_links.h: the KV side of the wire: links to and from other workers, and what
 * carries their chunks.
 *
 * A prefill worker opens a link to a decode worker's KV endpoint and says KV_HELLO with its layout
 * and its transport's offer; the decode worker answers KV_WELCOME with the transport that both can
 * use and how many chunks may be on the way, or ABORT. Only then does the core hear of the link.
 * An ABORT or CHUNK_ACK with transfer_id 0 is between the two shells: it is about the link.
 * Engine thread only; the table is fixed. A link's ring has room for ENGINE_CREDITS chunks when it
 * is made, and for twice as many each time that the core's window has grown past it. */
#pragma once

#include "base/status.h"
#include "proto/message.h"
#include "worker/transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

struct bus;
struct bus_event;
struct engine;

#define KV_LINKS_MAX          128
#define KV_LINKS_CREDITS      64 /* chunks on the way on one link, ENGINE_CREDITS of them at first */
#define KV_LINKS_BYTES_MAX    (1ull << 30) /* of all rings: up to here they grow beyond the first */
#define KV_LINKS_HANDSHAKE_NS 3000000000ull
#define KV_LINKS_ALIVE_NS     1000000000ull

/* What this worker says of itself on a KV link. */
struct kv_links_self {
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    struct transport_place place;
    uint8_t layout_fp[FINGERPRINT_BYTES];
};

struct kv_link {
    uint32_t link; /* on the KV bus; 0: this entry is free */
    bool accepted; /* they came to us: we are the decode worker */
    bool ready;
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    uint64_t until_ns;                   /* of the handshake; then: when the next ack is due */
    struct transport_sender *sender;     /* owned; the prefill side's */
    struct transport_receiver *receiver; /* owned; the decode side's */
    uint64_t acked;                      /* what the last CHUNK_ACK said was read */
};

struct kv_links {
    struct bus *bus;       /* borrowed: the KV bus */
    struct engine *engine; /* borrowed: set once it is made */
    struct kv_links_self self;
    const char *kv_transport; /* borrowed: "auto" or a name */
    struct transport_options options;
    struct transport_kv pool;
    struct kv_link links[KV_LINKS_MAX];
    uint64_t next_ns; /* when kv_links_tick() has something to do */
    uint64_t n_stale; /* messages on links that are not open */
};

void kv_links_init(struct kv_links *kv, struct bus *bus, const struct kv_links_self *self,
                   const char *kv_transport, uint32_t chunk_bytes, const struct transport_kv *pool);
void kv_links_fini(struct kv_links *kv); /* fine on a zeroed one */

/* An event of the KV bus. */
void kv_links_event(struct kv_links *kv, uint64_t now_ns, const struct bus_event *event);

/* Handshakes that take too long; signs of life, by which a peer that left in silence is noticed. */
void kv_links_tick(struct kv_links *kv, uint64_t now_ns);

/* The sink's functions (worker/core/engine.h). `link` is the core's number. */
enum status kv_links_send(struct kv_links *kv, uint32_t link, const struct message *message);
enum status kv_links_open(struct kv_links *kv, uint64_t now_ns, const struct peer *peer,
                          uint32_t *link);
void kv_links_close(struct kv_links *kv, uint32_t link);
enum status kv_links_push(struct kv_links *kv, uint32_t link, struct chunk *chunk,
                          const uint32_t *blocks);
enum status kv_links_take(struct kv_links *kv, uint32_t link, const struct chunk *chunk,
                          const uint32_t *blocks);
