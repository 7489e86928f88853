/* worker/core/outlet.h: a link's other end: a router's session or a KV peer, and what is still to
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

#define OUTLET_NONE UINT32_MAX

enum outlet_kind { OUTLET_FREE, OUTLET_ROUTER, OUTLET_KV_IN, OUTLET_KV_OUT };

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

struct outlet {
    enum outlet_kind kind;
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

struct outlet_table {
    uint32_t n_outlets;
    uint32_t n_posts_max; /* of one outlet */
    uint32_t n_broken;
    struct map by_link;
    struct outlet *outlets; /* owned (n_outlets) */
    struct post *posts;     /* owned (n_outlets, n_posts_max) */
    struct peer *peers;     /* owned (n_outlets, MESSAGE_PEERS_MAX) */
};

NODISCARD enum status outlet_table_init(struct outlet_table *table, uint32_t n_outlets,
                                        uint32_t n_posts_max, uint64_t seed);
void outlet_table_fini(struct outlet_table *table);

/* The link's outlet, or NULL. */
struct outlet *outlet_find(struct outlet_table *table, uint32_t link);

/* An outlet for a link that has none. NULL when all are taken. */
struct outlet *outlet_take(struct outlet_table *table, enum outlet_kind kind, uint32_t link);
void outlet_give(struct outlet_table *table, struct outlet *outlet);

/* An open or opening KV link to this worker, or NULL. */
struct outlet *outlet_find_peer(struct outlet_table *table, enum outlet_kind kind, const char *name,
                                uint64_t incarnation);

/* Sends a post now, or lets it wait behind those that wait already. */
void outlet_post(struct outlet_table *table, struct outlet *outlet, const struct engine_sink *sink,
                 const struct post *post);

/* Sends what waits. Answers false while something is left. */
bool outlet_flush(struct outlet_table *table, struct outlet *outlet,
                  const struct engine_sink *sink);

/* Marks a link as given up. `why` is a constant for the log, or NULL. */
void outlet_break(struct outlet_table *table, struct outlet *outlet, const char *why);

/* The sequence belongs to this router from now on. */
void outlet_adopt(struct outlet_table *table, struct outlet *router, struct sequence *sequence);

/* The sequence has tokens or an end that its router does not know. */
void outlet_mark(struct outlet_table *table, struct sequence *sequence);

static inline uint32_t outlet_index(const struct outlet_table *table, const struct outlet *outlet) {
    return (uint32_t)(outlet - table->outlets);
}
