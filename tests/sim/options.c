/* What a seed allows: each draws its own cluster, its own load and its own kinds of fault. */
#include "tests/sim/sim.h"

#include "tests/sim/form.h"
#include "tests/sim/late.h"

#include <string.h>

static const char *const policies[] = {"round_robin", "least_load", "two_choices",
                                       "prefix_affinity"};

static void draw_workers(struct random *random, struct options *options) {
    static const uint32_t pools[] = {12, 20, 40, 120, 6};
    uint32_t pool = pools[random_below(random, 4)];
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        options->roles[w] = (enum worker_role)random_below(random, 3);
        options->n_blocks[w] = draw_chance(random, 15) ? pools[random_below(random, 5)] : pool;
    }
    if (draw_chance(random, 60)) { /* the usual shape */
        for (uint32_t w = 0; w < SIM_WORKERS; w++)
            options->roles[w] = w % 2 ? ROLE_DECODE : ROLE_PREFILL;
    }
}

/* Other numerics: the last worker alone, or two or three kinds among all. */
static void draw_numerics(struct random *random, struct options *options) {
    uint32_t n_classes = draw_chance(random, 50) ? 1 : (uint32_t)draw_between(random, 2, 3);
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        uint32_t class = (uint32_t)random_below(random, n_classes);
        options->numerics[w] = n_classes > 1 ? class : w + 1 == options->n_workers;
    }
}

static void draw_weights(struct random *random, struct options *options) {
    static const uint8_t percent[KIND_COUNT] = {
        [KIND_LOSS] = 15,     [KIND_DUPLICATE] = 15, [KIND_REORDER] = 15, [KIND_GARBLE] = 12,
        [KIND_NUMERICS] = 40, [KIND_MODEL] = 10,     [KIND_SPOIL] = 10,   [KIND_BUSY] = 30,
        [KIND_EAT] = 15,      [KIND_STEAL] = 40,
    };
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        bool on = draw_chance(random, percent[kind] > 0 ? percent[kind] : 40);
        uint32_t weight = (uint32_t)draw_between(random, 1, 10);
        options->weights[kind] = on ? weight : 0;
    }
}

static void draw_links(struct random *random, struct options *options) {
    uint32_t rates[4];
    for (uint32_t i = 0; i < 4; i++) /* a few in a thousand, or up to one in eight */
        rates[i] = (uint32_t)draw_between(random, 1, draw_chance(random, 30) ? 120 : 10);
    options->loss = options->weights[KIND_LOSS] ? rates[0] : 0;
    options->duplicate = options->weights[KIND_DUPLICATE] ? rates[1] : 0;
    options->reorder = options->weights[KIND_REORDER] ? rates[2] : 0;
    options->garble = options->weights[KIND_GARBLE] ? rates[3] : 0;
}

/* Hosts that started at different times, with crystals that differ: mostly by what real ones do, in
 * some seeds by far more. */
static void draw_clocks(struct sim *sim) {
    struct random *random = &sim->draws.options;
    bool on = sim->options.weights[KIND_CLOCKS] > 0;
    int64_t most_ppm = draw_chance(random, 70) ? 500 : 50000;
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        uint64_t offset_ns = random_below(random, 1000000 * NS_PER_S);
        int64_t ppm = (int64_t)random_below(random, 2 * (uint64_t)most_ppm + 1) - most_ppm;
        if (on)
            sim->nodes[i].clock = (struct sim_clock){offset_ns, (int32_t)ppm};
    }
}

/* What the command line, or shrinking, takes away. */
static void apply_limits(struct options *options, const struct limits *limits) {
    if (limits->n_routers > 0 && options->n_routers > limits->n_routers)
        options->n_routers = limits->n_routers;
    if (limits->n_workers > 0 && options->n_workers > limits->n_workers)
        options->n_workers = limits->n_workers;
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        if (limits->without >> kind & 1)
            options->weights[kind] = 0;
    }
}

static void draw_sizes(struct random *random, struct options *options) {
    static const uint64_t leases_ms[] = {300, 1500, 10000};
    *options = (struct options){
        .n_routers = draw_chance(random, 25) ? 2 : 1,
        .n_workers = (uint32_t)draw_between(random, draw_chance(random, 10) ? 1 : 2, SIM_WORKERS),
        .max_seqs = (uint32_t)draw_between(random, 2, 40),
        .max_batch = (uint32_t)draw_between(random, 1, SIM_BATCH),
        .chunk_tokens = (uint32_t)draw_between(random, 1, 4) * 24,
        .chunk_bytes = SIM_BLOCK_BYTES * (uint32_t)draw_between(random, 1, 24),
        .layer_groups = 1u << random_below(random, 3),
        .credits = (uint32_t)draw_between(random, 1, 8),
        .hwm = (uint32_t)draw_between(random, 16, 64),
        .max_queue = draw_chance(random, 25) ? (uint32_t)draw_between(random, 1, 8) : 128,
        .max_requests =
            draw_chance(random, 15) ? (uint32_t)draw_between(random, 4, 32) : SIM_CLIENTS,
        .local_prefill_tokens = draw_chance(random, 50) ? 0 : (uint32_t)draw_between(random, 1, 64),
        .policy = policies[random_below(random, 4)],
        .step_ns = draw_between(random, 1, 40) * 500 * NS_PER_US,
        .delay_ns = draw_between(random, 1, 200) * 20 * NS_PER_US,
        .fault_ns = draw_chance(random, 15) ? 0 : draw_between(random, 200, 5000) * NS_PER_MS,
        .client_ns = draw_between(random, 5, 200) * NS_PER_MS,
        .lease_ns = leases_ms[random_below(random, 3)] * NS_PER_MS,
        .long_prompt =
            draw_chance(random, 60) ? UINT32_MAX : (uint32_t)draw_between(random, 17, 80),
        .messages_in_step = draw_chance(random, 50),
        .overtake = draw_chance(random, 50),
        .learns = draw_chance(random, 40),
        .cancel_percent = (uint32_t)random_below(random, 30),
        .stop_percent = (uint32_t)random_below(random, 30),
        .deadline_percent = (uint32_t)random_below(random, 20),
        .shm_percent = 50 * (uint32_t)random_below(random, 3),
    };
}

void options_draw(struct sim *sim) {
    struct random *random = &sim->draws.options;
    struct options *options = &sim->options;
    draw_sizes(random, options);
    draw_workers(random, options);
    draw_weights(random, options);
    options->token_ns = options->step_ns / 16;
    apply_limits(options, &sim->limits);
    draw_numerics(random, options);
    draw_links(random, options);
    if (options->fault_ns == 0) {
        memset(options->weights, 0, sizeof options->weights);
        options->loss = options->duplicate = options->reorder = options->garble = 0;
        sim_saw(sim, SIGHT_CALM);
    }
    sick_draw(sim);
    heavy_draw(sim);
    late_draw(sim);
    form_draw(sim);
    draw_clocks(sim);
    if (options->weights[KIND_BUSY] == 0)
        options->hwm = 256;
    if (options->weights[KIND_NUMERICS] == 0 || options->n_workers < 2)
        memset(options->numerics, 0, sizeof options->numerics);
    options->other_model = options->weights[KIND_MODEL] > 0 && options->n_workers > 2
                               ? options->n_workers - 1
                               : SIM_NO_NODE;
    options->roles_by = draw_chance(random, 70) ? ROLES_LOAD : ROLES_FIXED;
}
