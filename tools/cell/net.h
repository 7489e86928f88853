/* tools/cell/net.h: the network of a virtual cluster: connections that keep order, hold back what is put off, and lose
 * what is under way when they break, as ZeroMQ's do. Messages travel as the codec's frames.
 *
 * What goes wrong on the way is its user's: hooks see each message when it leaves and when it arrives, and may hold it
 * back, take it, or send it on again. Nodes are numbers; a node's links are the names that its core has for its
 * connections. All memory but the frames is taken at the start. One owner thread. */
#pragma once

#include "base/status.h"
#include "proto/codec.h"
#include "tools/cell/heap.h"

#include <stdbool.h>

struct packet {
    struct packet *next;
    size_t n_head;
    size_t n_raw; /* 0: no raw frame */
    uint32_t number;
    enum message_type type;
    struct attempt_id about; /* of RESERVE, SUBMIT and CANCEL */
    uint8_t bytes[];
};

/* A two-way connection: end 0 opened it. Order is kept (but for strays). */
struct conn {
    bool alive;
    bool kv;
    uint64_t generation; /* 0: never used; rises with each use */
    uint32_t node[2];
    uint32_t link[2]; /* the name each side's core has for it */
    bool closed[2];   /* that side knows it is over */
    struct packet *head[2];
    struct packet *tail[2]; /* by direction: from end d to end 1 - d */
    struct packet *strays;  /* delivered out of order: net_astray() */
    uint32_t n_strays;      /* ever */
    uint32_t n_queued[2];
    uint64_t last_ns[2]; /* when the last message of a direction arrives */
    uint64_t free_ns[2]; /* until then the direction's bytes are on the line */
    uint64_t seq[2];
};

struct net;

struct net_hooks {
    void *context;
    /* How long a message is under way that leaves now. */
    uint64_t (*delay_ns)(void *context);
    /* A connection was opened. May be NULL, as what follows but deliver and broken. */
    void (*opened)(void *context, uint32_t conn);
    /* A message's frames are made: they may be changed. */
    void (*leaves)(void *context, struct conn *conn, struct packet *packet);
    void (*sent)(void *context, const struct conn *conn, uint64_t delay_ns);
    /* false: the event cannot be handled now; the hook has kept it or put it off. */
    bool (*arrives)(void *context, const struct cell_event *event, const struct conn *conn,
                    uint32_t d);
    /* false: the packet is the hook's now and not delivered. */
    bool (*survives)(void *context, uint32_t conn, uint32_t d, struct packet *packet);
    void (*deliver)(void *context, struct conn *conn, uint32_t d, const struct packet *packet);
    /* The node learns that its link is over. */
    void (*broken)(void *context, uint32_t node, uint32_t link);
    /* It broke, or will: until then the two nodes have an excuse. */
    void (*trouble)(void *context, uint32_t a, uint32_t b, uint64_t until_ns);
    void (*failed)(void *context, const char *what);
};

struct net_spec {
    uint32_t n_conns; /* at a time */
    uint32_t n_nodes;
    uint64_t hangup_ns; /* a closed end is noticed by the other one after this */
    double bytes_s;     /* rate of a connection for what net_send() is told to carry; 0: no limit */
    bool overtake;      /* CANCEL and PING overtake work that waits, and CANCEL removes it */
};

struct net {
    struct net_spec spec;
    struct net_hooks hooks;
    struct heap *heap; /* borrowed, as the next two */
    uint64_t *now_ns;
    uint64_t *serial;
    struct conn *conns;  /* owned (spec.n_conns) */
    uint32_t n_conns;    /* that were ever used */
    uint32_t *next_link; /* owned (n_nodes): of nodes that others connect to */
    struct codec codec;  /* encodes */
    struct {
        uint32_t *conns; /* owned (n): conn + 1 of each link; 0: none */
        uint32_t n;
    } * links; /* owned (n_nodes) */
};

/* Bus ends take their place in `heap` with `serial` and read `now_ns`. STATUS_NOMEM. */
NODISCARD enum status net_init(struct net *net, const struct net_spec *spec,
                               const struct net_hooks *hooks, struct heap *heap, uint64_t *now_ns,
                               uint64_t *serial);
void net_fini(struct net *net); /* fine on a zeroed one */

/* A connection's number. The other end's link gets the next number of its node. */
uint32_t net_open(struct net *net, uint32_t from, uint32_t from_link, uint32_t to, bool kv);

/* The open connection that a node's core calls `link`; net->spec.n_conns: none. */
uint32_t net_find(const struct net *net, uint32_t node, uint32_t link);

/* Which end of it a node's link is. */
uint32_t net_end(const struct conn *conn, uint32_t node, uint32_t link);

/* hwm: messages queued in one direction before STATUS_BUSY. n_bytes: that go with it without being in its frames.
 * STATUS_CLOSED: the end knows that it is over. */
NODISCARD enum status net_send(struct net *net, uint32_t i, uint32_t end,
                               const struct message *message, uint32_t hwm, uint64_t n_bytes);

/* A packet comes later, out of order: a copy, or one that survives() took. */
void net_astray(struct net *net, uint32_t i, uint32_t d, struct packet *packet, uint64_t delay_ns);
struct packet *net_copy(const struct packet *packet);

/* Handles an event of a type below CELL_TYPES. */
void net_event(struct net *net, const struct cell_event *event);

/* Both ends learn of it after delays: delay_ns and what the hook adds for each. */
void net_break(struct net *net, uint32_t i, uint64_t delay_ns, uint64_t (*more_ns)(void *context));
void net_close(struct net *net, uint32_t i, uint32_t end);

/* All its connections close; the others learn of it after delay_ns. */
void net_node_died(struct net *net, uint32_t node, uint64_t delay_ns);
