#include "worker/core/engine.h"

#include "base/assert.h"
#include "worker/core/block_hash.h"
#include "worker/core/constrain.h"
#include "worker/core/engine_state.h"
#include "worker/core/figures.h"
#include "worker/core/flush.h"
#include "worker/core/handoff_link.h"
#include "worker/core/handoff_out.h"
#include "worker/core/post.h"
#include "worker/core/session.h"
#include "worker/core/settle.h"

#include <stdlib.h>
#include <string.h>

static bool engine_config_valid(const struct engine_config *config) {
    return config->n_blocks > 0 && config->n_blocks <= 1u << 30 &&
           config->block_tokens == BLOCK_HASH_TOKENS && config->n_layers > 0 &&
           config->n_layers <= 1024 && config->layer_groups > 0 &&
           config->layer_groups <= HANDOFF_GROUPS_MAX && config->block_bytes > 0 &&
           config->chunk_tokens > 0 && config->chunk_bytes >= config->block_bytes &&
           config->chunk_bytes <= MESSAGE_CHUNK_MAX && config->max_batch > 0 &&
           config->max_batch <= 65536 && config->max_seqs > 0 &&
           config->max_seqs <= MESSAGE_ENTRIES_MAX && config->context > 1 &&
           config->context <= 1u << 24 && config->max_links > 0 && config->max_links <= 4096 &&
           config->n_variants <= ENGINE_VARIANTS_MAX &&
           config->n_ends <= sizeof config->ends / sizeof config->ends[0];
}

/* Even groups of layers, at least as many as asked for, so small that one block of a group fits a
 * chunk. */
static enum status engine_split_layers(struct engine *engine) {
    uint32_t n_layers = engine->config.n_layers;
    uint32_t n_fit = engine->config.chunk_bytes / engine->config.block_bytes;
    uint32_t n_groups = engine->config.layer_groups;
    if (n_groups > n_layers)
        n_groups = n_layers;
    while ((n_layers + n_groups - 1) / n_groups > n_fit)
        n_groups++;
    if (n_groups > HANDOFF_GROUPS_MAX)
        return STATUS_INVALID;
    for (uint32_t g = 0; g <= n_groups; g++)
        engine->groups[g] = (uint32_t)((uint64_t)n_layers * g / n_groups);
    engine->n_groups = n_groups;
    return STATUS_OK;
}

static enum status engine_allocate(struct engine *engine) {
    const struct engine_config *config = &engine->config;
    uint64_t seed = config->seed;
    TRY(kv_pool_init(&engine->pool, config->n_blocks));
    TRY(prefix_cache_init(&engine->cache, &engine->pool, seed));
    TRY(sequence_table_init(&engine->sequences, config->max_seqs, engine->context, config->n_layers,
                            seed));
    TRY(peer_link_table_init(&engine->peer_links, config->max_links, 2 * config->max_seqs + 64,
                             seed));
    TRY(tombstones_init(&engine->tombstones, seed));
    TRY(map_init(&engine->handoffs, config->max_seqs, seed));
    TRY(shares_init(&engine->schedule.shares, config->max_seqs, seed));
    engine->schedule.picks = calloc(config->max_batch, sizeof *engine->schedule.picks);
    engine->quarantine = calloc(config->n_blocks, sizeof *engine->quarantine);
    engine->rows = calloc(config->max_batch, sizeof *engine->rows);
    engine->rows_ahead = calloc(config->max_batch, sizeof *engine->rows_ahead);
    engine->entries = calloc(MESSAGE_ENTRIES_MAX, sizeof *engine->entries);
    engine->entry_slots = calloc(MESSAGE_ENTRIES_MAX, sizeof *engine->entry_slots);
    engine->digest = calloc(config->max_seqs, sizeof *engine->digest);
    if (!engine->schedule.picks || !engine->quarantine || !engine->rows || !engine->rows_ahead ||
        !engine->entries || !engine->entry_slots || !engine->digest)
        return STATUS_NOMEM;
    return STATUS_OK;
}

enum status engine_new(const struct engine_config *config, const struct engine_sink *sink,
                       struct engine **result) {
    if (!engine_config_valid(config))
        return STATUS_INVALID;
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return STATUS_NOMEM;
    engine->config = *config;
    engine->budget = config->chunk_tokens;
    engine->sink = *sink;
    /* No sequence may need more than the whole pool: then the oldest can always go on. */
    uint64_t n_pool = (uint64_t)config->n_blocks * config->block_tokens;
    engine->context = n_pool < config->context ? (uint32_t)n_pool : config->context;
    list_init(&engine->schedule.held);
    list_init(&engine->schedule.waiting);
    list_init(&engine->schedule.prefill);
    list_init(&engine->schedule.decode);
    list_init(&engine->leases);
    list_init(&engine->linkless);
    enum status status = engine_split_layers(engine);
    if (status == STATUS_OK)
        status = engine_allocate(engine);
    if (status != STATUS_OK) {
        engine_free(engine);
        return status;
    }
    *result = engine;
    return STATUS_OK;
}

void engine_free(struct engine *engine) {
    if (!engine)
        return;
    kv_pool_fini(&engine->pool);
    prefix_cache_fini(&engine->cache);
    sequence_table_fini(&engine->sequences);
    peer_link_table_fini(&engine->peer_links);
    tombstones_fini(&engine->tombstones);
    map_fini(&engine->handoffs);
    shares_fini(&engine->schedule.shares);
    free(engine->schedule.picks);
    free(engine->quarantine);
    free(engine->rows);
    free(engine->rows_ahead);
    free(engine->entries);
    free(engine->entry_slots);
    free(engine->digest);
    free(engine);
}

void engine_message(struct engine *engine, uint64_t now_ns, uint32_t link,
                    const struct message *message) {
    engine->now_ns = now_ns;
    struct peer_link *peer_link = peer_link_find(&engine->peer_links, link);
    if (message->type == MESSAGE_HELLO)
        session_hello(engine, link, message);
    else if (!peer_link)
        post_reset(engine, link, message->session, REASON_UNKNOWN);
    else if (peer_link->kind == PEER_LINK_ROUTER)
        session_message(engine, peer_link, message);
    else if (!peer_link->broken)
        handoff_link_message(engine, peer_link, message);
    settle_event(engine);
}

void engine_kv_open(struct engine *engine, uint64_t now_ns, uint32_t link, const char *name,
                    uint64_t incarnation, uint32_t credits, bool accepted) {
    engine->now_ns = now_ns;
    struct peer_link *peer_link = peer_link_find(&engine->peer_links, link);
    if (accepted && !peer_link) {
        peer_link = peer_link_take(&engine->peer_links, PEER_LINK_KV_IN, link);
        if (!peer_link) {
            engine->sink.close_link(engine->sink.context, link);
            return;
        }
        size_t n = strlen(name);
        n = n < MESSAGE_NAME_MAX ? n : MESSAGE_NAME_MAX - 1;
        memcpy(peer_link->name, name, n);
        peer_link->name[n] = 0;
        peer_link->incarnation = incarnation;
        peer_link->ready = true;
    } else if (!accepted && peer_link && peer_link->kind == PEER_LINK_KV_OUT) {
        handoff_out_open(peer_link, credits);
        peer_link->ready = true;
        handoff_out_push(engine, peer_link);
    }
    settle_event(engine);
}

void engine_kv_room(struct engine *engine, uint64_t now_ns) {
    engine->now_ns = now_ns;
    engine->pump_due = true;
    settle_event(engine);
}

void engine_constrained(struct engine *engine, uint64_t now_ns, uint32_t slot, uint64_t serial,
                        enum status status) {
    ASSERT(slot < engine->sequences.n_slots);
    struct sequence *sequence = &engine->sequences.slots[slot];
    engine->now_ns = now_ns;
    if (sequence->serial != serial || !sequence->awaits_grammar)
        return; /* given up meanwhile */
    constrain_end(engine, sequence, status);
    settle_event(engine);
}

uint32_t engine_link_lost(struct engine *engine, uint64_t now_ns, uint32_t link) {
    engine->now_ns = now_ns;
    struct peer_link *peer_link = peer_link_find(&engine->peer_links, link);
    if (!peer_link)
        return 0;
    uint32_t n_ended = settle_link_lost(engine, peer_link);
    settle_event(engine);
    return n_ended;
}

void engine_tick(struct engine *engine, uint64_t now_ns) {
    engine->now_ns = now_ns;
    settle_tick(engine);
}

uint64_t engine_deadline(const struct engine *engine) {
    uint64_t deadline = flush_deadline(engine);
    struct list *lease = list_first(&engine->leases);
    if (lease) {
        uint64_t at = list_entry(lease, struct sequence, leased)->handoff.lease_ns;
        deadline = at < deadline ? at : deadline;
    }
    if (engine->retry_ns && engine->retry_ns < deadline)
        deadline = engine->retry_ns;
    if (engine->drain_ns && engine->drain_ns < deadline)
        deadline = engine->drain_ns;
    return deadline;
}

void engine_drain(struct engine *engine, uint64_t now_ns) {
    engine->now_ns = now_ns;
    engine->ending = true;
    if (engine->draining)
        return;
    engine->draining = true;
    flush_beats(engine);
    settle_event(engine);
}

const struct reset *engine_outlived(const struct engine *engine) {
    if (!engine->is_contested)
        return NULL;
    bool is_served = false;
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++)
        is_served = is_served || engine->peer_links.links[i].kind == PEER_LINK_ROUTER;
    bool is_older = engine->config.incarnation < engine->contested.incarnation;
    return is_older && is_served ? NULL : &engine->contested;
}

bool engine_is_ending(const struct engine *engine) {
    return engine->ending;
}

bool engine_idle(const struct engine *engine) {
    return engine->sequences.n_used == 0;
}

void engine_turn(struct engine *engine) {
    engine->figures.progress++;
}

void engine_sequence(const struct engine *engine, uint32_t slot, uint32_t n_tokens,
                     struct sequence_view *view) {
    ASSERT(slot < engine->sequences.n_slots);
    const struct sequence *sequence = &engine->sequences.slots[slot];
    *view = (struct sequence_view){
        .ids = sequence->ids,
        .n_tokens = n_tokens,
        .n_prompt = sequence->n_prompt,
        .sampling = &sequence->sampling,
        .ban_ends = sequence_bans_ends(sequence, n_tokens),
        .serial = sequence->serial,
    };
}

void engine_load(const struct engine *engine, struct load *load) {
    figures_load(engine, load);
}
