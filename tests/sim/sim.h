/* tests/sim/sim.h: a whole cluster in one thread, on a virtual clock, driven by one seed.
 *
 * The routers' and workers' cores are the daemons' own; what surrounds them here is a network of
 * encoded frames (proto/codec.h), the `hash` model (design.md section 7) with its KV really stored,
 * clients, and faults. Events stand in a heap by (virtual time, serial number), so a seed replays
 * exactly. */
#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "proto/codec.h"
#include "router/core/router.h"
#include "worker/core/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_ROUTERS     2
#define SIM_WORKERS     6
#define SIM_NODES       (SIM_ROUTERS + SIM_WORKERS)
#define SIM_CONNS       512 /* reused when over */
#define SIM_SLOTS       16  /* of a router */
#define SIM_LINKS       64  /* live ones of a worker */
#define SIM_CLIENTS     256 /* alive at once */
#define SIM_LAYERS      4
#define SIM_TOKENS      16 /* of a block */
#define SIM_PROMPT      160
#define SIM_NEW         96
#define SIM_TRACE       200
#define SIM_INBOX       1024
#define SIM_NO_NODE     UINT32_MAX
#define SIM_BLOCK_BYTES (SIM_TOKENS * 8)

enum event_type {
    EVENT_NONE,
    EVENT_PACKET,   /* a: connection, b: direction, c: its generation */
    EVENT_BROKEN,   /* a: connection, b: end that learns of it, c: its generation */
    EVENT_KV_READY, /* a: connection, c: its generation */
    EVENT_ANNOUNCE, /* node: router; a: worker, c: its epoch when it spoke */
    EVENT_SPEAK,    /* node: worker: its next announcement */
    EVENT_TICK,     /* node, c: epoch */
    EVENT_LAYERS,   /* node: worker, a: layer group, c: epoch and step */
    EVENT_CLIENT,   /* a new client arrives */
    EVENT_CANCEL,   /* a: client, c: its serial */
    EVENT_FAULT,    /* something breaks */
    EVENT_RESTART,  /* a: node */
    EVENT_RESUME,   /* node: it was paused; c: for how long */
    EVENT_PHASE,    /* the next phase of the run */
    EVENT_TYPES
};

struct event {
    uint64_t at_ns;
    uint64_t serial;
    enum event_type type;
    uint32_t node; /* paused nodes' events wait; SIM_NO_NODE: nobody's */
    uint32_t a;
    uint32_t b;
    uint64_t c;
};

struct heap {
    struct event *events; /* owned */
    uint32_t n;
    uint32_t capacity;
};

struct packet {
    struct packet *next;
    size_t n_head;
    size_t n_raw; /* 0: no raw frame */
    enum message_type type;
    struct attempt_id about; /* of RESERVE, SUBMIT and CANCEL */
    uint8_t bytes[];
};

/* A two-way connection: end 0 opened it. Order is kept; what is under way is lost when it breaks.
 */
struct conn {
    bool alive;
    bool kv;
    uint64_t generation;
    uint32_t node[2];
    uint32_t link[2]; /* the name each side's core has for it */
    bool closed[2];   /* that side knows it is over */
    struct packet *head[2];
    struct packet *tail[2]; /* by direction: from end d to end 1 - d */
    uint32_t n_queued[2];
    uint64_t last_ns[2];
    uint64_t seq[2];
};

/* What a seed allows at all: each seed draws its own (swarm testing). */
struct options {
    uint32_t n_routers;
    uint32_t n_workers;
    enum worker_role roles[SIM_WORKERS];
    uint32_t n_blocks[SIM_WORKERS];
    uint32_t max_seqs;
    uint32_t max_batch;
    uint32_t chunk_tokens;
    uint32_t chunk_bytes;
    uint32_t layer_groups;
    uint32_t credits;
    uint32_t hwm; /* messages queued in one direction before BUSY */
    uint32_t max_queue;
    uint32_t local_prefill_tokens;
    const char *policy;
    uint64_t step_ns;  /* of a step, and per token */
    uint64_t delay_ns; /* least; mean of the rest is the same again */
    uint64_t fault_ns; /* mean time between faults; 0: none */
    uint64_t client_ns;
    uint32_t weights[16];    /* of the kinds of fault */
    uint32_t other_numerics; /* a worker whose fingerprint differs, or SIM_NO_NODE */
    uint32_t other_model;    /* a worker that must never get a request, or SIM_NO_NODE */
    bool overtake; /* routers let CANCEL and PING overtake, CANCEL removes what it cancels */
    bool messages_in_step; /* the shell hands messages over while a step runs */
    uint32_t cancel_percent, stop_percent, deadline_percent;
};

struct node {
    bool up;
    uint64_t epoch; /* rises with every start */
    uint64_t paused_until_ns;
    uint64_t slow; /* factor of its steps */
    uint64_t tick_ns;
    uint64_t incarnation;
    struct router *router;
    struct engine *engine;
    uint32_t conn_of_slot[SIM_SLOTS]; /* routers: conn + 1; 0: none */
    uint32_t next_link;               /* workers */
    uint64_t *kv;                     /* workers: owned (layers, blocks, tokens) */
    uint32_t n_blocks;
    struct plan plan;
    bool in_step;
    struct event inbox[SIM_INBOX]; /* packets that came during a step */
    uint32_t n_inbox;
    uint64_t n_steps;
    uint32_t us_expected;
    bool draining;
};

/* The hash model's state after some tokens: what the next one must be. */
struct oracle {
    uint64_t entry;
    uint64_t fold;
    uint32_t n;
};

struct client {
    bool used;
    bool running; /* the router knows it */
    bool ended;
    uint64_t serial;
    uint32_t router;
    uint64_t request;
    uint32_t tokens[SIM_PROMPT + SIM_NEW];
    struct map_key hashes[SIM_PROMPT / SIM_TOKENS];
    uint32_t stop_id;
    uint32_t n_prompt, max_new;
    uint32_t n_got;
    uint32_t stop_at;   /* index after which a stop id ends it; UINT32_MAX: never */
    uint32_t match_at;  /* the shell stops it after so many tokens; UINT32_MAX: never */
    uint32_t cancel_at; /* the client leaves after so many tokens; UINT32_MAX: never */
    bool stop_due;
    bool want_logprobs;
    bool cancel_due;
    uint64_t deadline_ns;
    uint64_t born_ns;
    uint32_t expected[SIM_NEW]; /* what the hash model answers */
};

/* How often each thing that the cores find worth a note happened: what a campaign really reached.
 */
struct sights {
    uint32_t n;
    struct {
        const char *what;
        uint64_t times;
    } all[64];
};

struct counts {
    uint64_t events, timers, faults, crashes, pauses, partitions, breaks, tokens, messages;
    uint64_t asked, done, failed, refused, cancelled, turned_away, turned_closed, lost_with_router;
    uint64_t replays, handoffs, corrupted, busy, fenced, resends, poisoned, inexact, preemptions;
};

enum phase_of_run { RUN_SAFETY, RUN_HEALED, RUN_PROBE, RUN_QUIET, RUN_OVER };

struct sim {
    uint64_t seed;
    struct options options;
    struct random random;
    uint64_t now_ns;
    uint64_t serial;
    uint64_t until; /* events */
    bool verbose;
    enum phase_of_run phase;
    struct heap heap;
    struct node nodes[SIM_NODES];
    struct conn *conns;                              /* owned (SIM_CONNS) */
    uint32_t n_conns;                                /* that were ever used */
    struct client *clients;                          /* owned (SIM_CLIENTS) */
    uint64_t blocked_until_ns[SIM_NODES][SIM_NODES]; /* from, to: nothing arrives before */
    bool mute_deaths;    /* a crash is not seen as a closed connection for a while */
    struct codec codec;  /* encodes */
    struct codec reader; /* decodes */
    struct counts counts;
    uint64_t trace_hash;
    struct sights sights;
    struct {
        uint64_t at_ns;
        uint64_t n;
        char text[120];
    } trace[SIM_TRACE];
    uint64_t n_trace;
    char failure[256]; /* "" while all is well */
    uint32_t n_probe_ok;
    uint64_t phase_ns;
    uint64_t tokens_seen, moved_ns; /* the last progress after everything was healed */
    uint64_t n_clients;             /* so far */
    bool due;                       /* a client decided something inside a sink call */
};

/* heap.c */
void heap_push(struct heap *heap, const struct event *event);
struct event heap_pop(struct heap *heap);
void heap_fini(struct heap *heap);

/* sim.c */
void sim_at(struct sim *sim, uint64_t at_ns, struct event event);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_saw(struct sim *sim, const char *what);
bool sim_chance(struct sim *sim, uint64_t percent);
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high); /* both included */
uint64_t sim_about(struct sim *sim, uint64_t mean); /* exponential-like, at most 8 means */
bool sim_run(struct sim *sim, uint64_t seed, uint64_t n_events, uint64_t until, bool verbose);
void sim_fini(struct sim *sim);

/* net.c */
uint32_t net_open(struct sim *sim, uint32_t from, uint32_t from_link, uint32_t to, bool kv);
enum status net_send(struct sim *sim, uint32_t conn, uint32_t end, const struct message *message,
                     uint32_t hwm);
void net_close(struct sim *sim, uint32_t conn, uint32_t end);      /* by that end's own wish */
void net_break(struct sim *sim, uint32_t conn, uint64_t delay_ns); /* both ends learn of it */
void net_node_died(struct sim *sim, uint32_t node);
void net_packet(struct sim *sim, const struct event *event);
void net_inbox(struct sim *sim, uint32_t node); /* what came during a step */
void net_broken(struct sim *sim, const struct event *event);
uint32_t net_find(const struct sim *sim, uint32_t node, uint32_t link); /* SIM_CONNS: none */

/* front.c: a router and its shell */
void front_start(struct sim *sim, uint32_t node);
void front_message(struct sim *sim, uint32_t node, uint32_t slot, const struct message *message);
void front_lost(struct sim *sim, uint32_t node, uint32_t slot);
void front_after(struct sim *sim, uint32_t node); /* after every event: timer, due cancels */

/* back.c: a worker and its shell */
void back_start(struct sim *sim, uint32_t node);
void back_kv_ready(struct sim *sim, const struct event *event);
void back_layers(struct sim *sim, const struct event *event);
void back_after(struct sim *sim, uint32_t node);

/* client.c */
void client_arrive(struct sim *sim, bool probe);
void client_tokens(struct sim *sim, uint64_t user, const struct token_run *run);
void client_end(struct sim *sim, uint64_t user, const struct request_end *end);
void client_router_died(struct sim *sim, uint32_t node);
uint32_t client_alive(const struct sim *sim);
void oracle_push(struct oracle *oracle, uint32_t token);
float oracle_logprob(uint32_t token); /* what the simulated model says of a token */
uint32_t oracle_next(const struct oracle *oracle);

/* fault.c */
void fault_options(struct sim *sim); /* what this seed allows */
void fault_resume(struct sim *sim, const struct event *event);
void fault_strike(struct sim *sim);
void fault_heal(struct sim *sim);
void fault_crash(struct sim *sim, uint32_t node, uint64_t down_ns);

/* judge.c */
void judge_node(struct sim *sim, uint32_t node); /* ledgers of one core */
void judge_quiet(struct sim *sim);               /* after quiet everything is zero */
