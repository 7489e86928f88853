#include "worker/core/reserve.h"

#include "worker/core/handoff.h"
#include "worker/core/note.h"
#include "worker/core/post.h"
#include "worker/core/retire.h"
#include "worker/core/run_queue.h"

#include <string.h>

void reserve_renew(struct engine *engine, struct sequence *sequence) {
    sequence->handoff.lease_ns = engine->now_ns + engine->config.lease_ns;
    list_remove(&sequence->leased);
    list_push_back(&engine->leases, &sequence->leased);
}

/* Blocks for a reservation: those in the cache by the router's word for now, the rest reserved. */
static enum status reserve_take_blocks(struct engine *engine, struct sequence *sequence,
                                       const struct reserve *reserve) {
    uint32_t n_need = engine_blocks_for(engine, reserve->n_tokens);
    uint32_t n_full = reserve->n_tokens / engine->config.block_tokens;
    uint32_t n_max = reserve->n_hashes < n_full ? reserve->n_hashes : n_full;
    uint32_t n_hits = 0;
    uint32_t n_unused = 0;
    if (engine_variant(engine, reserve->n_tokens) > 0)
        n_max = 0; /* the router's names know of no variants */
    while (n_hits < n_max) {
        struct map_key key = {reserve->hashes[n_hits].hi, reserve->hashes[n_hits].lo};
        uint32_t block;
        if (prefix_cache_find(&engine->cache, key, &block) != STATUS_OK)
            break;
        n_unused += engine->pool.states[block] == KV_CACHED;
        sequence->blocks[n_hits++] = block;
    }
    uint32_t n_wanted = n_need - n_hits + n_unused + run_queue_headroom(engine);
    if (n_wanted > prefix_cache_available(&engine->cache))
        return STATUS_BUSY;
    for (uint32_t i = 0; i < n_hits; i++)
        prefix_cache_hold(&engine->cache, sequence->blocks[i]);
    uint32_t after = n_hits > 0 ? sequence->blocks[n_hits - 1] : KV_POOL_NO_BLOCK;
    enum status status = prefix_cache_take(&engine->cache, n_need - n_hits, after, KV_RESERVED,
                                           sequence->blocks + n_hits);
    sequence->n_blocks = n_hits;
    if (status != STATUS_OK) {
        sequence_give_blocks(sequence, &engine->cache);
        return status;
    }
    sequence->n_blocks = n_need;
    sequence->handoff.first_block = n_hits;
    sequence->handoff.n_blocks = n_need;
    return STATUS_OK;
}

static enum reason reserve_new(struct engine *engine, struct peer_link *router,
                               const struct reserve *reserve) {
    if (engine->draining)
        return REASON_DRAINING;
    if (reserve->n_tokens == 0 || (reserve->n_hashes > 0 && !reserve->hashes))
        return REASON_INVALID;
    if (reserve->n_tokens >= engine->context)
        return REASON_TOO_LONG;
    if (!run_queue_takes_more(engine))
        return REASON_BUSY;
    struct sequence *sequence = sequence_take(&engine->sequences, reserve->req, reserve->attempt);
    if (!sequence)
        return REASON_BUSY;
    if (reserve_take_blocks(engine, sequence, reserve) != STATUS_OK) {
        sequence_give(&engine->sequences, sequence);
        return REASON_BUSY;
    }
    struct handoff *handoff = &sequence->handoff;
    handoff->side = HANDOFF_IN;
    handoff->peer_link = PEER_LINK_NONE;
    do
        handoff->gen = ++engine->next_gen;
    while (handoff->gen == 0 ||
           handoff_register(engine, HANDOFF_IN, handoff->gen, sequence) != STATUS_OK);
    memset(handoff->cells, 0, engine->sequences.n_cell_words * sizeof *handoff->cells);
    sequence->n_tokens = reserve->n_tokens;
    sequence->n_prompt = reserve->n_tokens;
    sequence->n_sent = reserve->n_tokens;
    sequence->phase = PHASE_DECODE;
    sequence->state = SEQUENCE_RESERVED;
    peer_link_adopt(&engine->peer_links, router, sequence);
    reserve_renew(engine, sequence);
    note_sequence(engine, NOTE_RESERVED, sequence, NULL, reserve->n_tokens,
                  handoff->first_block * engine->config.block_tokens);
    post_reserved(engine, router, sequence);
    return REASON_NONE;
}

bool reserve_was_made(const struct sequence *sequence) {
    return sequence->handoff.side == HANDOFF_IN ||
           (sequence->phase == PHASE_DECODE && sequence->state == SEQUENCE_ENDED);
}

void reserve_request(struct engine *engine, struct peer_link *router,
                     const struct reserve *reserve) {
    struct sequence *sequence = sequence_find(&engine->sequences, reserve->req);
    enum reason reason = REASON_NONE;
    if (sequence && sequence->peer_link != peer_link_index(&engine->peer_links, router))
        reason = REASON_INVALID;
    else if (sequence && reserve->attempt < sequence->attempt)
        reason = REASON_STALE;
    else if (tombstones_has(&engine->tombstones, reserve->req, reserve->attempt))
        reason = REASON_CANCELLED;
    else if (sequence && reserve->attempt == sequence->attempt && !reserve_was_made(sequence))
        reason = REASON_INVALID;
    if (reason == REASON_NONE && sequence && reserve->attempt == sequence->attempt) {
        /* Said before: the same answer. One that has ended meanwhile has said more than that. */
        if (sequence->handoff.side == HANDOFF_IN)
            post_reserved(engine, router, sequence);
        return;
    }
    if (reason == REASON_NONE && sequence)
        retire_drop(engine, sequence, REASON_STALE);
    if (reason == REASON_NONE)
        reason = reserve_new(engine, router, reserve);
    if (reason != REASON_NONE) {
        note_reserve_refused(engine, router, reserve, reason);
        post_refused(engine, router, reserve, reason);
    }
}

void reserve_expire(struct engine *engine) {
    struct list *first;
    while ((first = list_first(&engine->leases)) != NULL) {
        struct sequence *sequence = list_entry(first, struct sequence, leased);
        if (sequence->handoff.lease_ns > engine->now_ns)
            return;
        retire_fail(engine, sequence, REASON_LEASE);
    }
}
