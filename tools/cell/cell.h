/* tools/cell/cell.h: a whole cluster in one thread, on a virtual clock: routers and workers with their own decisions
 * (router/core, worker/core, the step's budget) and their own wire format, and a model of time in place of kernels.
 *
 * Nothing fails here; what can go wrong is what tests/sim adds to the same network. The same calls give the same
 * times. All sizes are given at the start. One owner thread. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct cell;

/* What a step has to compute. */
struct cell_step {
    uint32_t n_tokens; /* decode rows included */
    uint32_t n_prompt; /* of them of prompts */
    uint32_t n_seqs;
    uint32_t n_sampled;
    double n_keys;  /* positions that rows of one token look at, all together */
    double n_pairs; /* of a token and a position that it looks at, in rows of several tokens */
    bool is_trial;  /* timed before any request, as worker/step/calibrate.c does */
};

/* How long steps take. */
struct cell_model {
    void *context;
    uint64_t (*step_ns)(void *context, uint32_t worker, const struct cell_step *step);
};

/* How a request ended. */
struct cell_end {
    bool done; /* all its tokens came */
    bool busy; /* it was refused at once */
    uint32_t n_output;
    uint32_t n_cached; /* tokens of its prompt that were there already */
};

/* Who asks. Called while an event is handled: must not call the cell. */
struct cell_user {
    void *context;
    void (*tokens)(void *context, uint32_t request, uint64_t now_ns, uint32_t n_tokens);
    void (*end)(void *context, uint32_t request, uint64_t now_ns, const struct cell_end *end);
};

enum cell_role { CELL_MIXED, CELL_PREFILL, CELL_DECODE };
enum cell_roles {
    CELL_ROLES_LOAD,
    CELL_ROLES_FIXED
}; /* whether roles yield to load (router/core/roles.h) */

struct cell_worker {
    enum cell_role role;
    uint32_t n_blocks; /* of 16 tokens */
    uint32_t n_layers;
    uint32_t block_bytes;  /* of one layer of one block */
    uint32_t chunk_tokens; /* most tokens of prompts in a step */
    uint32_t max_batch;
    uint32_t context;
};

struct cell_spec {
    uint32_t n_routers;
    uint32_t n_workers;
    const struct cell_worker *workers; /* borrowed until cell_new() returns (n_workers) */
    const char *policy;
    enum cell_roles roles;
    uint32_t local_prefill_tokens;
    uint32_t max_requests; /* alive at a router at once */
    uint32_t max_prompt;
    uint64_t delay_ns; /* of a message */
    uint64_t look_ns;  /* how often a worker in a step looks for messages */
    double kv_bytes_s; /* of a link between two workers; 0: no limit */
    struct cell_model model;
    struct cell_user user;
};

/* Sums since the start. */
struct cell_counts {
    uint64_t n_events;
    uint64_t n_messages;
    uint64_t n_steps;
    uint64_t n_rows;   /* of all steps */
    uint64_t n_tokens; /* computed */
    uint64_t busy_ns;  /* steps' time, all workers together */
    uint64_t n_preemptions;
    uint64_t n_handoffs;
    uint64_t peers_bytes; /* of PEERS messages, encoded */
};

/* The cluster is up: every router knows every worker. STATUS_NOMEM; STATUS_INVALID: sizes that a core refuses, or
 * workers that did not come up. */
NODISCARD enum status cell_new(const struct cell_spec *spec, struct cell **cell);
void cell_free(struct cell *cell); /* NULL is fine */

uint64_t cell_now_ns(const struct cell *cell);

/* The time of the next event; UINT64_MAX: there is none. */
uint64_t cell_next_ns(const struct cell *cell);

/* Handles the events of one moment, up to until_ns, or moves the clock there when there are none before it. */
void cell_run(struct cell *cell, uint64_t until_ns);

/* A prompt of ids drawn from `serial`: equal ones are equal prompts. */
struct cell_ask {
    uint32_t n_prompt;
    uint32_t n_output; /* tokens that are generated */
    uint64_t serial;
};

/* Asks a router, now. `request` is the user's own number, from 0 on without gaps, each once. STATUS_NOMEM; whatever else
 * becomes of it, user.end says. */
NODISCARD enum status cell_request(struct cell *cell, uint32_t router, uint32_t request,
                                   const struct cell_ask *ask);
void cell_cancel(struct cell *cell, uint32_t request); /* nothing happens when it is over */

void cell_counts(const struct cell *cell, struct cell_counts *counts);
