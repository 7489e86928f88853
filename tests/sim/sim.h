/* tests/sim/sim.h: a whole cluster in one thread, on a virtual clock, driven by one seed.
 *
 * The routers' and workers' cores are the daemons' own; what surrounds them here is a network of
 * encoded frames (proto/codec.h), the `hash` model with its KV really stored,
 * clients, and faults. Events stand in a heap by (virtual time, serial number), so a seed replays
 * exactly. Every node reads a clock of its own; only the simulator and its judges know the true
 * time (now_ns). */
#pragma once

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "proto/codec.h"
#include "router/core/router.h"
#include "tests/sim/form.h"
#include "tests/sim/heavy.h"
#include "tests/sim/kind.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sick.h"
#include "tests/sim/sights.h"
#include "tools/cell/net.h"
#include "worker/core/engine.h"
#include "worker/step/budget.h"
#include "worker/transport/stage.h"

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
#define SIM_EATERS      4
#define SIM_SEQS        64  /* more than max_seqs */
#define SIM_BATCH       24  /* rows of a step, at most */
#define JUDGE_TOMBS     128 /* fewer than a worker remembers */
#define SIM_PREFIX_KEY  7
#define SIM_NO_NODE     CELL_NO_NODE
#define SIM_BLOCK_BYTES (SIM_TOKENS * 8)
#define SIM_RING_BYTES  (1u << 13)

/* Types of events, beside those of the network. Those of a paused node wait. */
enum event_type {
    EVENT_KV_READY = CELL_TYPES, /* a: connection, b: end, c: its generation */
    EVENT_ANNOUNCE,              /* node: router; a: worker, c: its incarnation when it spoke */
    EVENT_SPEAK,                 /* node: worker: its next announcement */
    EVENT_TICK,                  /* node, c: epoch */
    EVENT_LAYERS,                /* node: worker, a: layer group, c: epoch and step */
    EVENT_CLIENT,                /* a new client arrives */
    EVENT_CANCEL,                /* a: client, c: its serial */
    EVENT_FAULT,                 /* something breaks */
    EVENT_RESTART,               /* a: node */
    EVENT_RESUME,                /* node: it was paused; c: for how long */
    EVENT_PHASE,                 /* the next phase of the run */
    EVENT_RESULTS, /* node: worker, c: epoch and step: its host reads what was chosen */
    EVENT_FORM,    /* node: worker, c: epoch: a form is ready */
    EVENT_TYPES
};

/* What the simulator keeps of a connection beside the network: by its number. */
struct wire {
    uint32_t n_bad[2]; /* messages in a row that did not decode, by direction */
    /* of a KV link whose bytes go through a ring of the sender's memory */
    bool is_full; /* a chunk met BUSY, and no acknowledgement has come since */
    bool shm;
    uint8_t *ring; /* owned (SIM_RING_BYTES) */
    struct stage stage;
    uint64_t consumed;   /* the receiver's: what its acknowledgements say */
    uint64_t reminds_ns; /* when idle, the receiver repeats that */
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
    uint32_t max_requests;
    enum roles roles_by;
    uint32_t local_prefill_tokens;
    const char *policy;
    uint64_t step_ns;  /* of a step, */
    uint64_t token_ns; /* and of each of its tokens */
    uint64_t delay_ns; /* least; mean of the rest is the same again */
    uint64_t fault_ns; /* mean time between faults; 0: none */
    uint64_t client_ns;
    uint64_t lease_ns;
    uint32_t weights[KIND_COUNT];   /* of the kinds of fault */
    uint32_t numerics[SIM_WORKERS]; /* class of each worker: 0 but where other numerics are on */
    uint32_t other_model;           /* a worker that must never get a request, or SIM_NO_NODE */
    uint32_t long_prompt;           /* more tokens than this: another variant */
    bool overtake; /* routers let CANCEL and PING overtake, CANCEL removes what it cancels */
    bool messages_in_step; /* the shell hands messages over while a step runs */
    bool learns;           /* workers announce what worker/step/budget.c learnt */
    bool forms;            /* some requests have one (form.h) */
    bool late;             /* steps go ahead: results are read up to a step late (late.h) */
    uint32_t loss, duplicate, reorder, garble; /* of 1000 messages; 0: none */
    uint32_t cancel_percent, stop_percent, deadline_percent;
    uint32_t shm_percent;
    enum sick sick;       /* what is wrong with the last worker; then nothing else is */
    bool heavy;           /* steps have a large fixed part (heavy.h) */
    uint64_t sick_factor; /* how many times as long its steps take as it says, if it is slow */
};

/* A process's own clock: true time, times its rate, and an offset. */
struct sim_clock {
    uint64_t offset_ns;
    int32_t ppm; /* how much faster than true time it runs */
};

/* The last attempt of a request that a worker was told to end. */
struct judge_tomb {
    struct request_id req;
    uint32_t attempt;
};

/* A step that was planned and has not ended: its worker's device computes it now or later, or has. */
struct flight {
    struct plan plan;        /* without rows: there is none */
    uint64_t number;         /* of its worker's steps */
    uint64_t begin_ns;       /* it was its turn (true time) */
    uint64_t lasts_ns;       /* on the device */
    uint64_t said_ns;        /* what the worker says of it */
    bool slowed;             /* something else had the CPU when it was planned */
    bool computed;           /* its results can be read */
    uint32_t ids[SIM_BATCH]; /* of a step ahead: what the step before chose */
    struct sampled sampled[SIM_BATCH];
};

struct node {
    bool up;
    uint64_t epoch; /* rises with every start */
    uint64_t paused_until_ns;
    uint64_t slow; /* factor of its steps */
    uint64_t stolen_until_ns;
    uint64_t stolen_factor; /* until then steps last so many times as long, and turns come late */
    uint64_t tick_ns;
    uint64_t incarnation;
    struct sim_clock clock;
    struct router *router;
    struct engine *engine;
    struct form_kept forms[SIM_SEQS]; /* workers: by slot */
    uint32_t conn_of_slot[SIM_SLOTS]; /* routers: conn + 1; 0: none */
    uint64_t *kv;                     /* workers: owned (layers, blocks, tokens) */
    uint32_t n_blocks;
    uint32_t context;         /* workers: most tokens of a sequence */
    struct flight flights[2]; /* workers: the older one first */
    bool in_step;
    struct cell_event inbox[SIM_INBOX]; /* packets that came during a step */
    uint32_t n_inbox;
    uint64_t n_steps;
    uint64_t step_begin_ns; /* or the end of the one before, if that came later */
    bool measures;          /* that is when the device began with it */
    uint64_t
        long_until_ns; /* the end of its last step of over a second, or of a router's patience with that */
    struct budget budget;
    struct {             /* in runs with heavy steps (heavy.h) */
        uint32_t budget; /* of prompts, when the step was planned */
        bool slowed;     /* something else had the CPU when it began */
        uint32_t n_well;
        uint32_t n_small;
    } heavy;
    bool draining;
    struct judge_tomb tombs[JUDGE_TOMBS]; /* workers: a ring */
    uint32_t n_tombs;
    struct {                        /* workers: plans in a row */
        uint32_t n_prompts;         /* that left all prompts out */
        uint32_t decodes[SIM_SEQS]; /* that left out this slot, which decodes */
        uint32_t prompts[SIM_SEQS]; /* the same of a prompt that is computed */
        uint64_t late;       /* serial of a late tenant's sequence that might come in; 0: none */
        uint32_t n_late;     /* that left it out */
        uint64_t n_arrivals; /* before the last of them */
    } starved;
    struct {                    /* routers: what the judges keep of each */
        uint64_t down_since_ns; /* no worker was ready since; 0: there is one (its own clock) */
        uint64_t n_inexact;
        uint64_t n_fenced;
        uint32_t n_sick;              /* requests submitted to the sick worker, */
        uint64_t sick_ns;             /* and when the first one was */
        uint64_t moved_ns[SIM_SLOTS]; /* when the worker's progress last rose (its own clock) */
        uint64_t progress[SIM_SLOTS];
        uint64_t session[SIM_SLOTS];            /* 0: not in session, as after a fence */
        uint64_t peers[SIM_SLOTS];              /* whom it was told of: a sum over them */
        uint64_t stood_most_ns, stood_least_ns; /* how much less its own time is by its pauses */
        uint64_t moved_most_ns[SIM_SLOTS], moved_least_ns[SIM_SLOTS]; /* the same at moved_ns */
        bool ticking;
    } judged;
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
    uint32_t n_prompt, max_new, min_new;
    uint32_t n_got;
    uint32_t match_at;  /* the shell stops it after so many tokens; UINT32_MAX: never */
    uint32_t cancel_at; /* the client leaves after so many tokens; UINT32_MAX: never */
    bool stops;         /* stop_id holds */
    bool stopped;       /* it came */
    bool stop_due;
    bool want_logprobs;
    bool penalised; /* its choices depend on the ids before them: the worker has to know those */
    bool cancel_due;
    bool outgrew; /* a worker's context ended it once: where no longer one is left, it is over */
    uint32_t spoilt_by; /* bit per node: the model's numbers were unusable there once */
    bool probe;
    uint32_t priority;
    uint32_t salt;
    uint32_t choice;
    uint64_t seed;
    float temperature;
    uint64_t deadline_ns; /* by its router's clock */
    uint64_t still_ns;    /* its attempt began, or brought its last token */
    struct oracle oracle; /* after what it has got */
    struct form form;     /* the same, where it has one */
    bool has_form;
    uint8_t form_bytes[FORM_BYTES]; /* as the grammar travels */
    struct {                        /* what its router did for it so far */
        uint32_t number;            /* attempt; 0: none yet */
        uint32_t token;             /* the attempt that brought its last token */
        uint32_t gen;               /* of the reservation that answered this attempt */
        uint32_t begin;             /* tokens it had when the attempt began */
        uint32_t decode, prefill;   /* nodes; prefill SIM_NO_NODE: none */
        uint32_t slot;              /* of the decode worker */
        bool equal_ready;           /* when it was placed: a worker of its own numerics */
        bool partner_ready;         /* the same: one to prefill with the decode worker's numerics */
        bool submitted;
    } attempt;
    uint32_t numerics; /* of who sent the last token */
    struct {           /* of attempts, in a row without a token */
        uint32_t n;
        uint64_t rests_until_ns; /* by its router's clock */
    } losses;
};

struct counts {
    uint64_t events, timers, faults, crashes, pauses, partitions, breaks, tokens, messages;
    uint64_t asked, done, failed, refused, cancelled, turned_away, turned_closed, lost_with_router;
    uint64_t lost, duplicated, reordered, garbled, stolen;
    uint64_t replays, handoffs, corrupted, busy, fenced, resends, poisoned, inexact, preemptions;
    uint64_t given_up; /* errors that a client saw though it did nothing for them */
    uint64_t worker_losses, request_losses; /* that routers noted */
};

enum phase_of_run { RUN_SAFETY, RUN_HEALED, RUN_PROBE, RUN_QUIET, RUN_OVER };

/* How much of a seed is run: what shrinking takes away. */
struct limits {
    uint64_t n_events;
    uint32_t n_routers; /* at most */
    uint32_t n_workers;
    uint64_t n_clients;
    uint64_t n_tenants; /* whose clients take turns; 0: all are one's */
    uint64_t without;   /* bit per enum kind */
};

/* Each part of a run draws its own numbers, so that taking one away changes the others little. */
struct draws {
    struct random options, faults, clients, net, nodes, late, forms;
};

/* The request that is alone in a calm cluster; serial 0: there is none (judge_time.c). */
struct lonely {
    uint64_t serial;
    uint64_t since_ns;   /* it came, or its last tokens did */
    uint64_t stepped_ns; /* by steps that ended since */
    uint64_t longest_ns; /* step since it came */
    uint64_t slowest_ns; /* message since it came */
    uint32_t n_kv;       /* messages between workers since its last tokens */
};

struct eater {
    uint64_t until_ns;
    enum message_type type;
    uint32_t node; /* of messages to or from this one */
};

struct sim {
    uint64_t seed;
    struct limits limits;
    struct options options;
    struct draws draws;
    uint64_t now_ns;
    uint64_t serial;
    uint64_t until; /* events */
    bool verbose;
    enum phase_of_run phase;
    struct heap heap;
    struct node nodes[SIM_NODES];
    struct net net;
    struct wire *wires;                              /* owned (SIM_CONNS): of net.conns */
    struct client *clients;                          /* owned (SIM_CLIENTS) */
    uint64_t blocked_until_ns[SIM_NODES][SIM_NODES]; /* from, to: nothing arrives before */
    uint64_t trouble_ns[SIM_NODES][SIM_NODES];       /* sim_trouble() */
    struct eater eaters[SIM_EATERS];
    bool mute_deaths;    /* a crash is not seen as a closed connection for a while */
    struct codec reader; /* decodes */
    struct counts counts;
    uint64_t trace_hash;
    struct sights *sights; /* borrowed: of all seeds together */
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
    uint64_t still_ns, n_still;     /* events at one moment */
    uint64_t n_clients;             /* so far */
    uint32_t due; /* bit per router: a client of it decided something inside a sink call */
    struct client *arriving; /* inside router_request() */
    struct request_id asked; /* by the RESEND in hand */
    uint32_t asked_from;
    bool resent;      /* a STEP has answered it */
    uint32_t speaker; /* the worker whose message a router is reading */
    struct lonely lonely;
    const struct step *step; /* that a router is reading */
    struct calm *calm;       /* owned: of a run without faults; NULL in any other (judge_calm.c) */
    const uint8_t *raw;      /* of the message being read */
    size_t n_raw;
};

/* draw.c */
bool draw_chance(struct random *random, uint64_t percent);
uint64_t draw_between(struct random *random, uint64_t low, uint64_t high); /* both included */
uint64_t draw_about(struct random *random, uint64_t mean); /* exponential-like, at most 8 means */

/* sim.c */
void sim_at(struct sim *sim, uint64_t at_ns, struct cell_event event);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_saw(struct sim *sim, enum sight sight);
void sim_run(struct sim *sim, uint64_t seed, const struct limits *limits, uint64_t until,
             bool verbose);
void sim_fini(struct sim *sim);

/* What this node's clock says now, and at what true time it will say `local_ns`. */
uint64_t sim_clock(const struct sim *sim, uint32_t node);
uint64_t sim_true_ns(const struct sim *sim, uint32_t node, uint64_t local_ns);

/* Whatever may excuse a router for thinking ill of a worker: between these two (or in one, a == b)
 * something was wrong, up to this true time. */
void sim_trouble(struct sim *sim, uint32_t a, uint32_t b, uint64_t until_ns);
uint64_t sim_trouble_ns(const struct sim *sim, uint32_t router, uint32_t worker);

/* wire.c: what goes wrong on the network's way, and what else belongs to a connection */
void wire_init(struct sim *sim); /* once the options are drawn */
void wire_fini(struct sim *sim);
struct wire *wire_of(struct sim *sim, const struct conn *conn);
enum status wire_send(struct sim *sim, uint32_t conn, uint32_t end, const struct message *message,
                      uint32_t hwm);
void wire_break(struct sim *sim, uint32_t conn, uint64_t delay_ns); /* both ends learn of it */
void wire_inbox(struct sim *sim, uint32_t node);                    /* what came during a step */

/* deliver.c: what happens to a packet on its last inch */
void deliver_packet(struct sim *sim, struct conn *conn, uint32_t d, const struct packet *packet);

/* front.c: a router and its shell */
void front_start(struct sim *sim, uint32_t node);
void front_message(struct sim *sim, uint32_t node, uint32_t slot, const struct message *message);
void front_lost(struct sim *sim, uint32_t node, uint32_t slot);
void front_tick(struct sim *sim, uint32_t node);
void front_after(struct sim *sim, uint32_t node); /* after every event: timer, due cancels */

/* back.c: a worker and its shell */
void back_start(struct sim *sim, uint32_t node);
void back_message(struct sim *sim, uint32_t node, uint32_t conn, uint32_t link,
                  const struct message *message);
void back_kv_ready(struct sim *sim, const struct cell_event *event);
void back_tick(struct sim *sim, uint32_t node);
void back_look(struct sim *sim, uint32_t node); /* as the shell: it reads, then the clock counts */
void back_turn_late(struct sim *sim, struct node *node); /* perhaps: where a CPU is stolen */
void back_after(struct sim *sim, uint32_t node);

/* device.c: a worker's steps: what is computed, and when its host knows */
void device_step(struct sim *sim, uint32_t node); /* plans one, when none is in flight */
void device_layers(struct sim *sim, const struct cell_event *event);
void device_results(struct sim *sim, const struct cell_event *event);

/* chunk.c: KV bytes, riding along or through a ring */
enum status chunk_push(struct sim *sim, uint32_t node, uint32_t conn, uint32_t end,
                       struct chunk *chunk, const uint32_t *blocks);
enum status chunk_take(struct sim *sim, uint32_t node, uint32_t conn, const struct chunk *chunk,
                       const uint32_t *blocks);
void chunk_consumed(struct sim *sim, uint32_t conn, const struct chunk *chunk);
static inline uint64_t *chunk_entry(const struct node *node, uint32_t layer, uint32_t block,
                                    uint32_t at) {
    ASSERT(layer < SIM_LAYERS);
    ASSERT(block < node->n_blocks);
    return node->kv + ((size_t)layer * node->n_blocks + block) * SIM_TOKENS + at;
}

/* client.c */
void client_arrive(struct sim *sim, bool probe);
uint64_t client_tenant(const struct sim *sim, const struct client *client);
void client_router_died(struct sim *sim, uint32_t node);
uint32_t client_alive(const struct sim *sim);
struct client *client_of_seed(struct sim *sim, uint64_t seed); /* NULL: gone */
struct client *client_of_request(struct sim *sim, uint32_t router, uint64_t lo);

/* answer.c: what clients get, held against the oracle */
void answer_tokens(struct sim *sim, uint32_t router, uint64_t user, const struct token_run *run);
void answer_end(struct sim *sim, uint32_t router, uint64_t user, const struct request_end *end);
/* Is the context of one of its workers full after so many tokens? */
bool answer_fills_context(const struct sim *sim, const struct client *client);

/* options.c: what this seed allows */
void options_draw(struct sim *sim);

/* fault.c */
void fault_resume(struct sim *sim, const struct cell_event *event);
void fault_strike(struct sim *sim);
void fault_heal(struct sim *sim);
void fault_crash(struct sim *sim, uint32_t node, uint64_t down_ns);
bool fault_eats(struct sim *sim, const struct conn *conn, enum message_type type);
