#include "worker/core/figures.h"

#define RATE_NS 1000000000ull /* tokens per second are counted over this */

void figures_rate(struct engine *engine) {
    uint64_t window = engine->now_ns - engine->rate_ns;
    if (window < RATE_NS)
        return;
    engine->figures.tokens_per_s = (uint32_t)(engine->rate_tokens * 1000000000ull / window);
    engine->rate_tokens = 0;
    engine->rate_ns = engine->now_ns;
}

void figures_step(struct engine *engine) {
    struct load *figures = &engine->figures;
    uint64_t us = (engine->now_ns - engine->step_begin_ns) / 1000;
    uint32_t step_us = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
    uint32_t *typical = &figures->step_us_typical;
    /* A running median: moves towards each step by a sixteenth of itself, at least one. */
    if (*typical == 0)
        *typical = step_us;
    else if (step_us > *typical)
        *typical += 1 + *typical / 16;
    else if (step_us < *typical)
        *typical -= *typical > 16 ? *typical / 16 : 1;
    figures->step_us_expected = 0;
    figures->progress++;
    figures->n_steps++;
    figures_rate(engine);
}

void figures_load(const struct engine *engine, struct load *load) {
    const struct kv_pool *pool = &engine->pool;
    *load = engine->figures;
    load->blocks_total = pool->n_blocks;
    load->blocks_free = pool->counts[KV_FREE];
    load->blocks_used = pool->counts[KV_USED];
    load->blocks_reserved = pool->counts[KV_RESERVED];
    load->blocks_quarantined = pool->counts[KV_QUARANTINED];
    load->blocks_cached = pool->counts[KV_CACHED];
    load->n_running = engine->schedule.n_prefill + engine->schedule.n_decode;
    load->n_waiting = engine->schedule.n_waiting + engine->schedule.n_held;
    load->prefill_tokens_queued = engine->schedule.n_queued;
}
