/* worker/core/peer_link.h: a link's other end: a router's session or a KV peer, and what is still to
 * be sent there.
 *
 * Small messages that meet BUSY wait in a ring of fixed size; when it is full the other end has
 * stopped reading, and the link is given up (`broken`). Tokens and chunks never wait here: they are
 * read from their sequences when there is room. Engine thread only; allocates at start. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "proto/message.h"
#include "worker/core/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct sequence;

#define PEER_LINK_NONE UINT32_MAX

enum peer_link_kind { PEER_LINK_FREE, PEER_LINK_ROUTER, PEER_LINK_KV_IN, PEER_LINK_KV_OUT };

/* A message small enough to wait. */
struct post {
    enum message_type type;
    union {
        struct reserved reserved;
        struct refused refused;
        struct cancel cancel;
        struct failed failed;
        struct chunk_ack chunk_ack;
        struct transfer_end transfer_end;
    } u;
};

struct peer_link {
    enum peer_link_kind kind;
    uint32_t link;          /* the shell's number */
    bool broken;            /* to be dropped at the end of this event */
    const char *why_broken; /* a constant for the log; NULL: that has been said */
    struct post *posts;     /* owned by the table (n_posts_max): a ring */
    uint32_t posts_head;
    uint32_t n_posts;
    char name[MESSAGE_NAME_MAX];

    /* a router's */
    uint64_t session;
    uint64_t router_id;
    uint64_t heard_ns;  /* its last message */
    uint64_t seen_seq;  /* of it */
    uint64_t ping_t_ns; /* echoed */
    uint64_t beat_ns;   /* when the next sign of life is due */
    uint64_t digest_ns; /* when the next digest is due */
    bool welcome_due;
    uint32_t n_peers;
    struct peer *peers;    /* owned by the table (MESSAGE_PEERS_MAX) */
    struct list sequences; /* of this session, by arrival */
    struct list dirty;     /* of them, with tokens or an end to send */

    /* a KV peer's */
    uint64_t incarnation;
    bool ready;
    uint32_t credits;      /* chunks in flight allowed: grows to credits_max */
    uint32_t credits_max;  /* the peer's grant */
    uint32_t window_left;  /* chunks of the current window that are not acknowledged */
    uint64_t window_ns;    /* when it began */
    bool window_full;      /* something waited for credits in it */
    uint32_t n_in_flight;  /* pushed, not acknowledged */
    struct list transfers; /* of this link, oldest first */
};

struct peer_link_table {
    uint32_t n_links;
    uint32_t n_posts_max; /* of one link */
    uint32_t n_broken;
    struct map by_link;
    struct peer_link *links; /* owned (n_links) */
    struct post *posts;      /* owned (n_links, n_posts_max) */
    struct peer *peers;      /* owned (n_links, MESSAGE_PEERS_MAX) */
};

NODISCARD enum status peer_link_table_init(struct peer_link_table *table, uint32_t n_links,
                                           uint32_t n_posts_max, uint64_t seed);
void peer_link_table_fini(struct peer_link_table *table);

/* The peer link of this number, or NULL. */
struct peer_link *peer_link_find(struct peer_link_table *table, uint32_t link);

/* A free entry becomes that of this link, which has none. NULL when all are taken. */
struct peer_link *peer_link_take(struct peer_link_table *table, enum peer_link_kind kind,
                                 uint32_t link);
void peer_link_give(struct peer_link_table *table, struct peer_link *peer_link);

/* An open or opening KV link to this worker, or NULL. */
struct peer_link *peer_link_find_kv(struct peer_link_table *table, enum peer_link_kind kind,
                                    const char *name, uint64_t incarnation);

/* Sends a post now, or lets it wait behind those that wait already. */
void peer_link_post(struct peer_link_table *table, struct peer_link *peer_link,
                    const struct engine_sink *sink, const struct post *post);

/* Sends what waits. Answers false while something is left. */
bool peer_link_flush(struct peer_link_table *table, struct peer_link *peer_link,
                     const struct engine_sink *sink);

/* Marks a link as given up. `why` is a constant for the log, or NULL. */
void peer_link_break(struct peer_link_table *table, struct peer_link *peer_link, const char *why);

/* The sequence belongs to this router from now on. */
void peer_link_adopt(struct peer_link_table *table, struct peer_link *router,
                     struct sequence *sequence);

/* The sequence has tokens or an end that its router does not know. */
void peer_link_mark(struct peer_link_table *table, struct sequence *sequence);

static inline uint32_t peer_link_index(const struct peer_link_table *table,
                                       const struct peer_link *peer_link) {
    return (uint32_t)(peer_link - table->links);
}
