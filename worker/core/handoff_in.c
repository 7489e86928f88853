/* The receiving side of a hand-off. */
#include "worker/core/handoff.h"

#include "base/assert.h"
#include "worker/core/block_hash.h"
#include "worker/core/schedule.h"
#include "worker/core/session.h"

#include <string.h>

static bool cell_is_set(const uint64_t *cells, uint32_t cell) {
    return (cells[cell / 64] >> (cell % 64) & 1) != 0;
}

static void post_refused(struct engine *engine, struct outlet *router,
                         const struct reserve *reserve, enum reason reason) {
    struct post post = {.type = MESSAGE_REFUSED};
    post.u.refused = (struct refused){reserve->req, reserve->attempt, reason};
    outlet_post(&engine->outlets, router, &engine->sink, &post);
}

static void post_reserved(struct engine *engine, struct outlet *router,
                          const struct sequence *sequence) {
    struct post post = {.type = MESSAGE_RESERVED};
    post.u.reserved = (struct reserved){
        .req = sequence->req,
        .attempt = sequence->attempt,
        .gen = sequence->handoff.gen,
        .cached_tokens = sequence->handoff.first_block * engine->config.block_tokens,
        .lease_ms = (uint32_t)(engine->config.lease_ns / 1000000),
    };
    outlet_post(&engine->outlets, router, &engine->sink, &post);
}

static void renew_lease(struct engine *engine, struct sequence *sequence) {
    sequence->handoff.lease_ns = engine->now_ns + engine->config.lease_ns;
    list_remove(&sequence->leased);
    list_push_back(&engine->leases, &sequence->leased);
}

/* Blocks for a reservation: those in the cache by the router's word for now, the rest reserved. */
static enum status take_blocks(struct engine *engine, struct sequence *sequence,
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
    uint32_t n_wanted = n_need - n_hits + n_unused + schedule_headroom(engine);
    bool idle = engine->sequences.n_used == 1; /* this one: no headroom to keep */
    if (n_wanted > prefix_cache_available(&engine->cache) && !idle)
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

static enum reason reserve_new(struct engine *engine, struct outlet *router,
                               const struct reserve *reserve) {
    if (engine->draining)
        return REASON_DRAINING;
    if (reserve->n_tokens == 0 || (reserve->n_hashes > 0 && !reserve->hashes))
        return REASON_INVALID;
    if (reserve->n_tokens >= engine->context)
        return REASON_TOO_LONG;
    if (!schedule_takes_more(engine))
        return REASON_BUSY;
    struct sequence *sequence = sequence_take(&engine->sequences, reserve->req, reserve->attempt);
    if (!sequence)
        return REASON_BUSY;
    if (take_blocks(engine, sequence, reserve) != STATUS_OK) {
        sequence_give(&engine->sequences, sequence);
        return REASON_BUSY;
    }
    struct handoff *handoff = &sequence->handoff;
    handoff->side = HANDOFF_IN;
    handoff->outlet = OUTLET_NONE;
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
    session_adopt(engine, router, sequence);
    renew_lease(engine, sequence);
    note_sequence(engine, NOTE_RESERVED, sequence, NULL, reserve->n_tokens,
                  handoff->first_block * engine->config.block_tokens);
    post_reserved(engine, router, sequence);
    return REASON_NONE;
}

/* Also where the hand-off is over because the answer is complete. */
static bool came_by_handoff(const struct sequence *sequence) {
    return sequence->handoff.side == HANDOFF_IN ||
           (sequence->phase == PHASE_DECODE && sequence->state == SEQUENCE_ENDED);
}

void handoff_reserve(struct engine *engine, struct outlet *router, const struct reserve *reserve) {
    struct sequence *sequence = sequence_find(&engine->sequences, reserve->req);
    enum reason reason = REASON_NONE;
    if (sequence && sequence->outlet != outlet_index(&engine->outlets, router))
        reason = REASON_INVALID;
    else if (sequence && reserve->attempt < sequence->attempt)
        reason = REASON_STALE;
    else if (tombstones_has(&engine->tombstones, reserve->req, reserve->attempt))
        reason = REASON_CANCELLED;
    else if (sequence && reserve->attempt == sequence->attempt && !came_by_handoff(sequence))
        reason = REASON_INVALID;
    if (reason == REASON_NONE && sequence && reserve->attempt == sequence->attempt) {
        /* Said before: the same answer. One that has ended meanwhile has said more than that. */
        if (sequence->handoff.side == HANDOFF_IN)
            post_reserved(engine, router, sequence);
        return;
    }
    if (reason == REASON_NONE && sequence)
        engine_drop(engine, sequence, REASON_STALE);
    if (reason == REASON_NONE)
        reason = reserve_new(engine, router, reserve);
    if (reason != REASON_NONE) {
        note_reserve_refused(engine, router, reserve, reason);
        post_refused(engine, router, reserve, reason);
    }
}

void handoff_end_in(struct engine *engine, struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    if (handoff->complete)
        return;
    while (sequence->n_blocks > handoff->first_block) {
        uint32_t block = sequence->blocks[--sequence->n_blocks];
        kv_pool_quarantine(&engine->pool, block);
        engine->quarantine[engine->n_quarantine++] = block;
    }
    handoff_settle(engine);
}

void handoff_expire(struct engine *engine) {
    struct list *first;
    while ((first = list_first(&engine->leases)) != NULL) {
        struct sequence *sequence = list_entry(first, struct sequence, leased);
        if (sequence->handoff.lease_ns > engine->now_ns)
            return;
        engine_fail(engine, sequence, REASON_LEASE);
    }
}

/* Both Submit and all of the transfer are here. */
static void activate(struct engine *engine, struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    const struct commit *commit = &handoff->commit;
    bool banned = sequence_bans_ends(sequence);
    sequence->n_computed = sequence->n_tokens;
    sequence->cached_tokens = commit->cached_tokens;
    sequence_name_blocks(sequence, &engine->cache, engine->config.prefix_key);
    bool logprobs = sequence->sampling.want_logprobs && commit->has_logprobs;
    sequence_append(sequence, commit->first_token, logprobs ? &commit->logprobs : NULL);
    enum finish finish = commit->finish;
    if (finish == FINISH_NONE)
        finish = engine_finish_reason(engine, sequence, banned);
    session_mark(engine, sequence);
    if (finish == FINISH_NONE) {
        schedule_decode(engine, sequence);
        return;
    }
    engine_end(engine, sequence, finish);
    engine->flush_due = true;
}

/* All chunks and the commit are here: the blocks are the sequence's own. */
static void try_complete(struct engine *engine, struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    uint32_t n_cells = (handoff->n_blocks - handoff->first_block) * engine->config.n_layers;
    if (!handoff->commit_seen || handoff->n_cells < n_cells)
        return;
    if (handoff->n_done != handoff->commit.n_chunks) {
        engine_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    for (uint32_t i = handoff->first_block; i < handoff->n_blocks; i++)
        kv_pool_commit(&engine->pool, sequence->blocks[i]);
    handoff->complete = true;
    list_remove(&sequence->of_link);
    engine->figures.n_handoffs_in++;
    handoff_note(engine, NOTE_HANDED_OVER, sequence, NULL);
    struct outlet *outlet = &engine->outlets.outlets[handoff->outlet];
    handoff->outlet = OUTLET_NONE;
    handoff_post_end(engine, outlet, MESSAGE_COMMIT_ACK, handoff->transfer_id, handoff->gen,
                     REASON_NONE);
    if (handoff->submitted)
        activate(engine, sequence);
}

/* The router's hashes chose the blocks; the ids decide whether they were right. */
static bool hits_are_right(const struct engine *engine, struct sequence *sequence) {
    struct map_key key = BLOCK_HASH_START;
    for (uint32_t i = 0; i < sequence->handoff.first_block; i++) {
        key = block_hash(engine->config.prefix_key, sequence->salt, key,
                         sequence->ids + (size_t)i * BLOCK_HASH_TOKENS);
        if (!prefix_cache_is(&engine->cache, sequence->blocks[i], key))
            return false;
    }
    return true;
}

static bool is_peer(const struct outlet *outlet, const struct handoff *handoff) {
    return outlet->incarnation == handoff->peer_incarnation &&
           strcmp(outlet->name, handoff->peer) == 0;
}

/* The link this transfer comes by is known from here on, so its loss ends the transfer. */
static void bind_link(struct engine *engine, struct sequence *sequence, struct outlet *outlet) {
    sequence->handoff.outlet = outlet_index(&engine->outlets, outlet);
    list_remove(&sequence->of_link);
    list_push_back(&outlet->transfers, &sequence->of_link);
}

/* Does this Submit fit what was reserved and what has come since? */
static enum reason submit_fits(struct engine *engine, const struct sequence *sequence,
                               const struct submit *submit) {
    const struct handoff *handoff = &sequence->handoff;
    if (handoff->side != HANDOFF_IN)
        return REASON_INVALID;
    if (handoff->gen != submit->xfer.gen)
        return REASON_STALE;
    if (sequence_check_submit(submit, engine->config.n_vocab) != STATUS_OK ||
        submit->n_tokens != sequence->n_tokens)
        return REASON_INVALID;
    if (handoff->bound && handoff->transfer_id != submit->xfer.transfer_id)
        return REASON_TRANSFER;
    return REASON_NONE;
}

void handoff_submit_in(struct engine *engine, struct outlet *router, const struct submit *submit) {
    struct sequence *sequence = sequence_find(&engine->sequences, submit->req);
    ASSERT(sequence && sequence->attempt == submit->attempt);
    struct handoff *handoff = &sequence->handoff;
    if (came_by_handoff(sequence) && handoff->submitted)
        return; /* said before */
    enum reason reason = submit_fits(engine, sequence, submit);
    if (reason == REASON_NONE) {
        sequence_fill(&engine->sequences, sequence, submit,
                      engine_variant(engine, submit->n_prompt), engine->now_ns);
        handoff->submitted = true;
        handoff->bound = true;
        handoff->transfer_id = submit->xfer.transfer_id;
        memcpy(handoff->peer, submit->xfer.peer, sizeof handoff->peer);
        handoff->peer[sizeof handoff->peer - 1] = 0;
        handoff->peer_incarnation = submit->xfer.peer_incarnation;
        if (!hits_are_right(engine, sequence))
            reason = REASON_INVALID;
        else if (handoff->outlet != OUTLET_NONE &&
                 !is_peer(&engine->outlets.outlets[handoff->outlet], handoff))
            reason = REASON_TRANSFER;
    }
    if (reason != REASON_NONE) {
        note_submit_refused(engine, router, submit, reason);
        engine_fail(engine, sequence, reason);
        return;
    }
    note_sequence(engine, NOTE_SUBMITTED, sequence, NULL, submit->n_prompt, submit->n_tokens);
    list_remove(&sequence->leased);
    sequence->state = SEQUENCE_FILLING;
    if (handoff->complete) {
        activate(engine, sequence);
        return;
    }
    struct outlet *outlet =
        outlet_find_peer(&engine->outlets, OUTLET_KV_IN, handoff->peer, handoff->peer_incarnation);
    if (outlet && handoff->outlet == OUTLET_NONE)
        bind_link(engine, sequence, outlet);
}

/* The sequence that a CHUNK or COMMIT on this link speaks of, bound to both; NULL: none. */
static struct sequence *find_transfer(struct engine *engine, struct outlet *outlet, uint32_t gen,
                                      uint64_t transfer_id) {
    struct sequence *sequence = handoff_find(engine, HANDOFF_IN, gen);
    if (!sequence)
        return NULL;
    struct handoff *handoff = &sequence->handoff;
    if (handoff->bound && handoff->transfer_id != transfer_id)
        return NULL;
    if (handoff->complete)
        return sequence;
    if (handoff->outlet == outlet_index(&engine->outlets, outlet))
        return sequence;
    /* Submit may have bound it to an older link of the same peer, whose loss is not known yet. */
    bool begun = handoff->n_done > 0 || handoff->commit_seen;
    if ((handoff->outlet != OUTLET_NONE && begun) ||
        (handoff->submitted && !is_peer(outlet, handoff)) ||
        (handoff->outlet != OUTLET_NONE && !handoff->submitted))
        return NULL;
    handoff->bound = true;
    handoff->transfer_id = transfer_id;
    bind_link(engine, sequence, outlet);
    return sequence;
}

static void post_chunk_ack(struct engine *engine, struct outlet *outlet, const struct chunk *chunk,
                           uint32_t n_done) {
    struct post post = {.type = MESSAGE_CHUNK_ACK};
    post.u.chunk_ack = (struct chunk_ack){.transfer_id = chunk->transfer_id,
                                          .gen = chunk->gen,
                                          .n_done = n_done,
                                          .where = chunk->where};
    outlet_post(&engine->outlets, outlet, &engine->sink, &post);
}

static bool chunk_valid(const struct engine *engine, const struct handoff *handoff,
                        const struct chunk *chunk) {
    if (chunk->layer_begin >= chunk->layer_end || chunk->layer_end > engine->config.n_layers ||
        chunk->block_begin >= chunk->block_end || chunk->block_begin < handoff->first_block ||
        chunk->block_end > handoff->n_blocks)
        return false;
    uint64_t n_runs =
        (uint64_t)(chunk->layer_end - chunk->layer_begin) * (chunk->block_end - chunk->block_begin);
    return n_runs * engine->config.block_bytes == chunk->n_bytes;
}

/* How many of the chunk's cells are set; sets the others where `set`. */
static uint32_t chunk_cells(struct engine *engine, struct handoff *handoff,
                            const struct chunk *chunk, bool set) {
    uint32_t n = 0;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t block = chunk->block_begin; block < chunk->block_end; block++) {
            uint32_t cell = layer * engine->sequences.n_blocks_max + block;
            n += cell_is_set(handoff->cells, cell);
            if (set)
                handoff->cells[cell / 64] |= 1ull << (cell % 64);
        }
    return n;
}

/* Copies a chunk into its blocks. The shell must not call back in, but if a link's loss came from
 * inside the copy after all, the blocks would still wait for its return. */
static enum status copy_chunk(struct engine *engine, struct outlet *outlet,
                              const struct chunk *chunk, const uint32_t *blocks) {
    engine->taking = true;
    enum status status = engine->sink.take_chunk(engine->sink.context, outlet->link, chunk, blocks);
    engine->taking = false;
    handoff_settle(engine);
    return status;
}

void handoff_chunk(struct engine *engine, struct outlet *outlet, const struct chunk *chunk) {
    struct sequence *sequence = find_transfer(engine, outlet, chunk->gen, chunk->transfer_id);
    if (!sequence) {
        engine->figures.n_stale_dropped++;
        post_chunk_ack(engine, outlet, chunk, 0); /* its place in a ring may be used again */
        handoff_post_end(engine, outlet, MESSAGE_ABORT, chunk->transfer_id, chunk->gen,
                         REASON_UNKNOWN);
        return;
    }
    struct handoff *handoff = &sequence->handoff;
    if (handoff->begin_ns == 0)
        handoff->begin_ns = engine->now_ns;
    bool valid = handoff->complete || chunk_valid(engine, handoff, chunk);
    uint32_t n_cells =
        (chunk->layer_end - chunk->layer_begin) * (chunk->block_end - chunk->block_begin);
    uint32_t n_known = valid && !handoff->complete ? chunk_cells(engine, handoff, chunk, false) : 0;
    if (handoff->complete || (valid && n_known == n_cells)) {
        post_chunk_ack(engine, outlet, chunk, handoff->n_done); /* a duplicate: never written */
        return;
    }
    if (!valid || n_known > 0) {
        post_chunk_ack(engine, outlet, chunk, handoff->n_done);
        engine_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    uint64_t serial = sequence->serial;
    enum status status = copy_chunk(engine, outlet, chunk, sequence->blocks + chunk->block_begin);
    bool gone = sequence->serial != serial || handoff->side != HANDOFF_IN;
    if (!gone && status == STATUS_OK) {
        (void)chunk_cells(engine, handoff, chunk, true);
        handoff->n_cells += n_cells;
        handoff->n_done++;
        engine->figures.handoff_bytes += chunk->n_bytes;
        if (!handoff->submitted)
            renew_lease(engine, sequence);
    }
    if (outlet->kind == OUTLET_KV_IN)
        post_chunk_ack(engine, outlet, chunk, gone ? 0 : handoff->n_done);
    if (gone)
        return;
    if (status != STATUS_OK)
        engine_fail(engine, sequence, REASON_TRANSFER);
    else
        try_complete(engine, sequence);
}

static bool commit_valid(const struct engine *engine, const struct sequence *sequence,
                         const struct commit *commit) {
    return request_id_equal(commit->req, sequence->req) && commit->attempt == sequence->attempt &&
           commit->n_tokens == sequence->n_tokens && commit->finish <= FINISH_LENGTH &&
           (engine->config.n_vocab == 0 || commit->first_token < engine->config.n_vocab);
}

void handoff_commit(struct engine *engine, struct outlet *outlet, const struct commit *commit) {
    struct sequence *sequence = find_transfer(engine, outlet, commit->gen, commit->transfer_id);
    if (!sequence) {
        engine->figures.n_stale_dropped++;
        handoff_post_end(engine, outlet, MESSAGE_ABORT, commit->transfer_id, commit->gen,
                         REASON_UNKNOWN);
        return;
    }
    struct handoff *handoff = &sequence->handoff;
    if (handoff->complete) {
        handoff_post_end(engine, outlet, MESSAGE_COMMIT_ACK, commit->transfer_id, commit->gen,
                         REASON_NONE);
        return;
    }
    if (!commit_valid(engine, sequence, commit)) {
        engine_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    if (handoff->begin_ns == 0)
        handoff->begin_ns = engine->now_ns;
    handoff->commit = *commit;
    handoff->commit_seen = true;
    if (!handoff->submitted)
        renew_lease(engine, sequence);
    try_complete(engine, sequence);
}
