/* tools/cell/node.h: the inside of a virtual cluster: routers' and workers' shells. For the files of tools/cell. */
#pragma once

#include "router/core/router.h"
#include "tools/cell/cell.h"
#include "tools/cell/net.h"
#include "worker/core/engine.h"
#include "worker/step/budget.h"

#define CELL_VOCABULARY 65536u

enum {
    CELL_TICK = CELL_TYPES, /* node */
    CELL_ANNOUNCE,          /* node: worker */
    CELL_KV_READY,          /* node: worker; a: connection; b: end */
    CELL_LAYERS,            /* node: worker; a: layer group; b: of how many; c: step */
    CELL_LOOK,              /* node: worker; c: step */
};

struct node {
    struct cell *cell; /* borrowed */
    uint32_t number;
    uint64_t tick_ns;      /* of the tick that is in the heap; UINT64_MAX: none */
    struct router *router; /* owned; NULL: a worker */
    struct engine *engine; /* owned; NULL: a router */
    struct cell_worker spec;
    uint32_t layer_groups;
    struct plan plan;
    bool in_step;
    uint64_t n_steps, step_begin_ns;
    struct budget budget;
    struct sampled *sampled;  /* owned (spec.max_batch) */
    struct cell_event *inbox; /* owned (size): packets that came during a step */
    uint32_t n_inbox, size;
};

/* A request that a router has, or had. */
struct asked {
    uint32_t *tokens; /* owned, as the next: until it is over */
    struct map_key *hashes;
    uint64_t id; /* the router's */
    uint32_t router;
    bool over;
};

struct cell {
    struct cell_spec spec;
    struct heap heap;
    struct net net;
    uint64_t now_ns, serial;
    struct codec reader; /* decodes */
    struct node *nodes;  /* owned (n_nodes): routers, then workers */
    uint32_t n_nodes;
    bool hands_over;       /* workers of several roles: KV goes from one to another */
    struct asked *asked;   /* owned (size) */
    uint32_t size, n_over; /* n_over: those before it hold no memory any more */
    struct cell_counts counts;
    const char *failure; /* what the network could not do; NULL: nothing */
};

/* Puts an event off until then; never into the past. */
static inline void cell_at(struct cell *cell, uint64_t at_ns, struct cell_event event) {
    event.at_ns = at_ns > cell->now_ns ? at_ns : cell->now_ns;
    event.serial = ++cell->serial;
    heap_push(&cell->heap, &event);
}

/* asks.c */
void asks_fini(struct cell *cell);

/* router_node.c */
NODISCARD enum status router_node_start(struct cell *cell, uint32_t i);
void router_node_event(struct node *node, const struct cell_event *event);
void router_node_message(struct node *node, uint32_t slot, const struct message *message);
void router_node_after(struct node *node);

/* worker_node.c */
NODISCARD enum status worker_node_start(struct cell *cell, uint32_t i,
                                        const struct cell_worker *spec);
void worker_node_event(struct node *node, const struct cell_event *event);
void worker_node_message(struct node *node, const struct conn *conn, uint32_t link,
                         const struct message *message);
bool worker_node_holds(struct node *node,
                       const struct cell_event *event); /* it is in a step: later */
void worker_node_after(struct node *node);
