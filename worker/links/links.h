/* worker/links/links.h: the control side of the wire: routers' sessions, and announcing ourselves.
 *
 * Two buses carry everything, control and KV, so that bulk messages never delay control messages.
 * The core knows links by one number for both: the bus's own, with a bit set on the KV bus. Engine
 * thread only. */
#pragma once

#include "base/error.h"
#include "base/patience.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct bus;
struct bus_event;
struct lookup;
struct names;

#define LINKS_ANNOUNCE_NS 1000000000ull
#define LINKS_ROUTERS_MAX 64

/* A bus's link numbers hold its slot, below 32768, in their low half: bit 15 is free there. */
#define LINK_KV_BIT 0x8000u

static inline uint32_t link_kv(uint32_t bus_link) {
    return bus_link | LINK_KV_BIT;
}
static inline bool link_is_kv(uint32_t link) {
    return (link & LINK_KV_BIT) != 0;
}
static inline uint32_t link_on_bus(uint32_t link) {
    return link & ~LINK_KV_BIT;
}

/* A router we tell of ourselves. */
struct announced {
    char endpoint[MESSAGE_ENDPOINT_MAX];
    uint32_t link;         /* on the control bus; BUS_NO_LINK while there is none */
    bool refused;          /* the last connect failed: said once */
    const char *why;       /* the last loss: constant text, or NULL */
    struct lookup *lookup; /* owned: of a name that is not reached by itself; NULL otherwise */
    bool by_lookup;        /* the last connect was to an address of that */
    struct patience patience;
};

/* What we say of ourselves. */
struct links_self {
    const char *name; /* borrowed */
    uint64_t incarnation;
    enum worker_role role;
    uint32_t loading; /* 0: ready; 1 + percent: the model is being loaded */
};

struct links {
    struct bus *control; /* owned */
    struct bus *kv;      /* owned */
    uint32_t listener;
    uint32_t kv_listener;
    const char *dns_server; /* borrowed */
    struct names *names;    /* owned; NULL where no router is told by name */
    uint32_t n_announced;
    struct announced announced[LINKS_ROUTERS_MAX];
    uint64_t announce_ns; /* when the next round is due */
    uint64_t prefix_key;  /* of the cluster; 0 without keys */
};

struct links_options {
    const char *endpoint;    /* routers connect to it */
    const char *kv_endpoint; /* prefill workers connect to it */
    const char *keys;        /* folder, or "" */
    /* (n_routers, at most LINKS_ROUTERS_MAX) announce endpoints, or dns://NAME:PORT for all behind a name; borrowed
     * while links are open */
    const char *const *routers;
    uint32_t n_routers;
    const char *dns_server; /* who is asked for names; "": those of resolv.conf */
};

/* Makes both buses and listens. Errors name the option. */
NODISCARD enum status links_open(struct links *links, const struct links_options *options,
                                 struct error *error);
void links_close(struct links *links); /* fine on a zeroed one */

/* Where others reach us, ports filled in. */
const char *links_endpoint(const struct links *links);
const char *links_kv_endpoint(const struct links *links);

/* Says ANNOUNCE to every router when it is due; connects again where that is lost, and says in the
 * log which router is waited for. */
void links_announce(struct links *links, uint64_t now_ns, const struct links_self *self);

/* Was this event about an announce link? Then it is done with. */
bool links_took(struct links *links, const struct bus_event *event);
