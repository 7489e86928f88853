#include "tests/unit/worker/links/fake_engine.h"

#include "worker/core/engine.h"

#include <string.h>

void engine_message(struct engine *engine, uint64_t now_ns, uint32_t link,
                    const struct message *message) {
    (void)now_ns, (void)link;
    engine->n_messages++;
    engine->type = message->type;
}

void engine_kv_open(struct engine *engine, uint64_t now_ns, uint32_t link, const char *name,
                    uint64_t incarnation, uint32_t credits, bool accepted) {
    (void)now_ns, (void)name, (void)incarnation;
    engine->n_opened++;
    engine->opened_link = link;
    engine->credits = credits;
    engine->accepted = accepted;
}

uint32_t engine_link_lost(struct engine *engine, uint64_t now_ns, uint32_t link) {
    (void)now_ns;
    engine->n_lost++;
    engine->lost_link = link;
    return 0;
}

void engine_kv_room(struct engine *engine, uint64_t now_ns) {
    (void)now_ns;
    engine->n_rooms++;
}

void engine_tick(struct engine *engine, uint64_t now_ns) {
    (void)now_ns;
    engine->n_ticks++;
    engine->n_read_at_tick = engine->n_messages;
}

uint64_t engine_deadline(const struct engine *engine) {
    return engine->deadline_ns;
}

void engine_load(const struct engine *engine, struct load *load) {
    (void)engine;
    *load = (struct load){.n_running = 3, .n_waiting = 4, .blocks_total = 8, .blocks_used = 6};
}

const struct engine_repeats *engine_repeats(const struct engine *engine) {
    static const struct engine_repeats none;
    (void)engine;
    return &none;
}

uint32_t engine_chunk_tokens(const struct engine *engine) {
    (void)engine;
    return 40;
}

void engine_budget(struct engine *engine, uint32_t chunk_tokens) {
    (void)engine, (void)chunk_tokens;
}

void engine_step_begin(struct engine *engine, uint64_t now_ns, uint32_t us_expected) {
    (void)engine, (void)now_ns, (void)us_expected;
}

void engine_layers_done(struct engine *engine, uint64_t now_ns, uint32_t layer_begin,
                        uint32_t layer_end) {
    (void)now_ns;
    engine->n_layers_done += layer_end - layer_begin;
}

void engine_step_end(struct engine *engine, uint64_t now_ns, const struct sampled *sampled) {
    (void)engine, (void)now_ns, (void)sampled;
}
