/* A rig's device: one step after the other, one layer after the other. A step ahead begins when the one
 * before it has chosen, whether or not the engine heard of that. */
#include "tests/unit/worker/core/rig.h"

#include <string.h>

uint32_t rig_tokens(const struct engine_config *config) {
    return config->chunk_tokens > config->max_batch ? config->chunk_tokens : config->max_batch;
}

/* What nobody holds is overwritten, so that using it anyway shows in the tokens. */
static void poison_free(struct worker *worker) {
    for (uint32_t b = 0; b < worker->n_blocks; b++)
        if (worker->engine->pool.states[b] == KV_FREE)
            for (uint32_t l = 0; l < RIG_LAYERS; l++)
                memset(rig_cell(worker, l, b), 0xdb, RIG_BLOCK * 8);
}

static uint64_t read_entry(const struct worker *worker, const uint32_t *blocks, uint32_t at) {
    uint64_t e = 0;
    for (uint32_t l = 0; l < RIG_LAYERS; l++)
        e ^= rig_cell(worker, l, blocks[at / RIG_BLOCK])[at % RIG_BLOCK];
    return e;
}

/* The entries of the plan's tokens; `chosen`: those of a step ahead, a row each. */
static void begin_step(struct worker *worker, const uint32_t *chosen) {
    uint32_t n = 0;
    worker->n_layers_done = 0;
    for (uint32_t i = 0; i < worker->plan.n_rows; i++) {
        const struct plan_row *row = &worker->plan.rows[i];
        uint64_t e = row->begin > 0 ? read_entry(worker, row->blocks, row->begin - 1) : 0;
        ck_assert((row->ids == NULL) == (chosen != NULL));
        for (uint32_t t = 0; t < row->n_tokens; t++) {
            e = mix64(e ^ ((uint64_t)(chosen ? chosen[i] : row->ids[t]) + 1));
            worker->entries[n++] = e;
        }
    }
    worker->max_rows =
        worker->plan.n_rows > worker->max_rows ? worker->plan.n_rows : worker->max_rows;
}

bool rig_plan(struct rig *rig, uint32_t w) {
    struct worker *worker = &rig->workers[w];
    poison_free(worker);
    engine_plan(worker->engine, rig->now_ns, &worker->plan);
    worker->idle = worker->plan.n_rows == 0;
    worker->n_layers_done = 0;
    if (worker->idle)
        return false;
    ck_assert_uint_le(worker->plan.n_rows, worker->engine->config.max_batch);
    ck_assert_uint_le(worker->plan.n_tokens, rig_tokens(&worker->engine->config));
    ck_assert_uint_le(worker->plan.n_prompt, worker->engine->budget);
    begin_step(worker, NULL);
    engine_step_begin(worker->engine, rig->now_ns, 100);
    return true;
}

enum repeat rig_repeat(struct rig *rig, uint32_t w) {
    struct worker *worker = &rig->workers[w];
    enum repeat repeat = engine_repeat(worker->engine, rig->now_ns, &worker->ahead);
    poison_free(worker);
    ck_assert_int_eq(worker->ahead.n_rows > 0, repeat == REPEAT_GRANTED);
    if (repeat == REPEAT_GRANTED)
        engine_step_begin(worker->engine, rig->now_ns, 200);
    return repeat;
}

bool rig_layer(struct rig *rig, uint32_t w) {
    struct worker *worker = &rig->workers[w];
    uint32_t layer = worker->n_layers_done;
    if (layer == RIG_LAYERS)
        return false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < worker->plan.n_rows; i++) {
        const struct plan_row *row = &worker->plan.rows[i];
        for (uint32_t t = 0; t < row->n_tokens; t++) {
            uint64_t e = worker->entries[n++];
            uint64_t value = mix64(e + layer + 1);
            if (layer == RIG_LAYERS - 1)
                value = e ^ mix64(e + 1) ^ mix64(e + 2) ^ mix64(e + 3);
            uint32_t at = row->begin + t;
            rig_cell(worker, layer, row->blocks[at / RIG_BLOCK])[at % RIG_BLOCK] = value;
        }
    }
    worker->n_layers_done++;
    engine_layers_done(worker->engine, rig->now_ns, layer, layer + 1);
    return true;
}

static struct sampled choose(struct worker *worker, const struct plan_row *row) {
    uint64_t s = 0;
    for (uint32_t t = 0; t < row->begin + row->n_tokens; t++)
        s = mix64(s ^ read_entry(worker, row->blocks, t));
    uint32_t id = 256 + (uint32_t)(s % 65280);
    struct sampled sampled = {.id = id,
                              .valid = !worker->is_stuck,
                              .is_stuck = worker->is_stuck,
                              .logprobs = {.logprob = -(float)(id % 97)}};
    if (worker->n_spoilt == 0)
        return sampled;
    worker->n_spoilt--;
    return (struct sampled){.id = 7};
}

void rig_end(struct rig *rig, uint32_t w) {
    struct worker *worker = &rig->workers[w];
    struct sampled sampled[256] = {0};
    uint32_t chosen[256], n = 0;
    while (rig_layer(rig, w))
        ;
    for (uint32_t i = 0; i < worker->plan.n_rows; i++) {
        if (!worker->plan.rows[i].sample)
            continue;
        sampled[n] = choose(worker, &worker->plan.rows[i]);
        chosen[n] = sampled[n].id;
        n++;
    }
    if (worker->ahead.n_rows > 0) { /* it runs before anybody reads what was chosen */
        worker->plan = worker->ahead;
        worker->ahead.n_rows = 0;
        begin_step(worker, chosen);
    }
    rig->now_ns += 100000;
    worker->n_steps++;
    engine_step_end(worker->engine, rig->now_ns, sampled);
}

bool rig_step(struct rig *rig, uint32_t w) {
    struct worker *worker = &rig->workers[w];
    if (!worker->engine->in_flight && !rig_plan(rig, w))
        return false;
    if (worker->repeats && worker->ahead.n_rows == 0)
        (void)rig_repeat(rig, w);
    rig_end(rig, w);
    return true;
}
