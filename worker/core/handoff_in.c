#include "worker/core/handoff_in.h"

#include "base/assert.h"
#include "worker/core/block_hash.h"
#include "worker/core/constrain.h"
#include "worker/core/handoff.h"
#include "worker/core/note.h"
#include "worker/core/post.h"
#include "worker/core/reserve.h"
#include "worker/core/retire.h"

#include <string.h>

static bool handoff_cell_is_set(const uint64_t *cells, uint32_t cell) {
    return (cells[cell / 64] >> (cell % 64) & 1) != 0;
}

/* Both Submit and all of the transfer are here. */
static void handoff_activate_sequence(struct engine *engine, struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    const struct commit *commit = &handoff->commit;
    bool banned = sequence_bans_ends(sequence, sequence->n_tokens);
    sequence->n_computed = sequence->n_tokens;
    sequence->cached_tokens = commit->cached_tokens;
    sequence_name_blocks(sequence, &engine->cache, engine->config.prefix_key);
    bool logprobs = sequence->sampling.want_logprobs && commit->has_logprobs;
    sequence_append(sequence, commit->first_token, logprobs ? &commit->logprobs : NULL);
    enum finish finish = commit->finish;
    if (finish == FINISH_NONE)
        finish = retire_reason(engine, sequence, banned);
    peer_link_mark(&engine->peer_links, sequence);
    if (finish == FINISH_NONE) {
        constrain_enter(engine, sequence);
        if (sequence->awaits_grammar)
            engine->flush_due = true; /* its first token waits for no step */
        return;
    }
    retire_end(engine, sequence, finish);
    engine->flush_due = true;
}

/* All chunks and the commit are here: the blocks are the sequence's own. */
static void handoff_try_complete(struct engine *engine, struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    uint32_t n_cells = (handoff->n_blocks - handoff->first_block) * engine->config.n_layers;
    if (!handoff->commit_seen || handoff->n_cells < n_cells)
        return;
    if (handoff->n_done != handoff->commit.n_chunks) {
        retire_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    for (uint32_t i = handoff->first_block; i < handoff->n_blocks; i++)
        kv_pool_commit(&engine->pool, sequence->blocks[i]);
    handoff->complete = true;
    list_remove(&sequence->of_link);
    engine->figures.n_handoffs_in++;
    handoff_note(engine, NOTE_HANDED_OVER, sequence, NULL);
    struct peer_link *peer_link = &engine->peer_links.links[handoff->peer_link];
    handoff->peer_link = PEER_LINK_NONE;
    post_transfer_end(engine, peer_link, MESSAGE_COMMIT_ACK, handoff->transfer_id, handoff->gen,
                      REASON_NONE);
    if (handoff->submitted)
        handoff_activate_sequence(engine, sequence);
}

/* The router's hashes chose the blocks; the ids decide whether they were right. */
static bool handoff_hits_are_right(const struct engine *engine, struct sequence *sequence) {
    struct map_key key = BLOCK_HASH_START;
    for (uint32_t i = 0; i < sequence->handoff.first_block; i++) {
        key = block_hash(engine->config.prefix_key, sequence->salt, key,
                         sequence->ids + (size_t)i * BLOCK_HASH_TOKENS);
        if (!prefix_cache_is(&engine->cache, sequence->blocks[i], key))
            return false;
    }
    return true;
}

/* The link this transfer comes by is known from here on, so its loss ends the transfer. */
static void handoff_bind_link(struct engine *engine, struct sequence *sequence,
                              struct peer_link *peer_link) {
    sequence->handoff.peer_link = peer_link_index(&engine->peer_links, peer_link);
    list_remove(&sequence->of_link);
    list_push_back(&peer_link->transfers, &sequence->of_link);
}

/* Does this Submit fit what was reserved and what has come since? */
static enum reason handoff_submit_fits(struct engine *engine, const struct sequence *sequence,
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

void handoff_in_submit(struct engine *engine, struct peer_link *router,
                       const struct submit *submit) {
    struct sequence *sequence = sequence_find(&engine->sequences, submit->req);
    ASSERT(sequence && sequence->attempt == submit->attempt);
    struct handoff *handoff = &sequence->handoff;
    if (reserve_was_made(sequence) && handoff->submitted)
        return; /* said before */
    enum reason reason = handoff_submit_fits(engine, sequence, submit);
    if (reason == REASON_NONE) {
        sequence_fill(&engine->sequences, sequence, submit,
                      engine_variant(engine, submit->n_prompt), engine->now_ns);
        handoff->submitted = true;
        handoff->bound = true;
        handoff->transfer_id = submit->xfer.transfer_id;
        memcpy(handoff->peer, submit->xfer.peer, sizeof handoff->peer);
        handoff->peer[sizeof handoff->peer - 1] = 0;
        handoff->peer_incarnation = submit->xfer.peer_incarnation;
        if (!handoff_hits_are_right(engine, sequence))
            reason = REASON_INVALID;
        else if (handoff->peer_link != PEER_LINK_NONE &&
                 !handoff_is_peer(handoff, &engine->peer_links.links[handoff->peer_link]))
            reason = REASON_TRANSFER;
        else
            reason = constrain_begin(engine, sequence, submit);
    }
    if (reason != REASON_NONE) {
        note_submit_refused(engine, router, submit, reason);
        retire_fail(engine, sequence, reason);
        return;
    }
    note_sequence(engine, NOTE_SUBMITTED, sequence, NULL, submit->n_prompt, submit->n_tokens);
    list_remove(&sequence->leased);
    sequence->state = SEQUENCE_FILLING;
    if (handoff->complete) {
        handoff_activate_sequence(engine, sequence);
        return;
    }
    struct peer_link *peer_link = peer_link_find_kv(&engine->peer_links, PEER_LINK_KV_IN,
                                                    handoff->peer, handoff->peer_incarnation);
    if (peer_link && handoff->peer_link == PEER_LINK_NONE)
        handoff_bind_link(engine, sequence, peer_link);
}

/* The sequence that a CHUNK or COMMIT on this link speaks of, bound to both; NULL: none. */
static struct sequence *handoff_find_incoming(struct engine *engine, struct peer_link *peer_link,
                                              uint32_t gen, uint64_t transfer_id) {
    struct sequence *sequence = handoff_find(engine, HANDOFF_IN, gen);
    if (!sequence)
        return NULL;
    struct handoff *handoff = &sequence->handoff;
    if (handoff->bound && handoff->transfer_id != transfer_id)
        return NULL;
    if (handoff->complete)
        return sequence;
    if (handoff->peer_link == peer_link_index(&engine->peer_links, peer_link))
        return sequence;
    /* Submit may have bound it to an older link of the same peer, whose loss is not known yet. */
    bool begun = handoff->n_done > 0 || handoff->commit_seen;
    if ((handoff->peer_link != PEER_LINK_NONE && begun) ||
        (handoff->submitted && !handoff_is_peer(handoff, peer_link)) ||
        (handoff->peer_link != PEER_LINK_NONE && !handoff->submitted))
        return NULL;
    handoff->bound = true;
    handoff->transfer_id = transfer_id;
    handoff_bind_link(engine, sequence, peer_link);
    return sequence;
}

static bool handoff_chunk_valid(const struct engine *engine, const struct handoff *handoff,
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
static uint32_t handoff_chunk_cells(struct engine *engine, struct handoff *handoff,
                                    const struct chunk *chunk, bool set) {
    uint32_t n = 0;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t block = chunk->block_begin; block < chunk->block_end; block++) {
            uint32_t cell = layer * engine->sequences.n_blocks_max + block;
            n += handoff_cell_is_set(handoff->cells, cell);
            if (set)
                handoff->cells[cell / 64] |= 1ull << (cell % 64);
        }
    return n;
}

/* Copies a chunk into its blocks. The shell must not call back in, but if a link's loss came from
 * inside the copy after all, the blocks would still wait for its return. */
static enum status handoff_copy_chunk(struct engine *engine, struct peer_link *peer_link,
                                      const struct chunk *chunk, const uint32_t *blocks) {
    engine->taking = true;
    enum status status =
        engine->sink.take_chunk(engine->sink.context, peer_link->link, chunk, blocks);
    engine->taking = false;
    handoff_settle(engine);
    return status;
}

void handoff_in_chunk(struct engine *engine, struct peer_link *peer_link,
                      const struct chunk *chunk) {
    struct sequence *sequence =
        handoff_find_incoming(engine, peer_link, chunk->gen, chunk->transfer_id);
    if (!sequence) {
        engine->figures.n_stale_dropped++;
        post_chunk_ack(engine, peer_link, chunk, 0); /* its place in a ring may be used again */
        post_transfer_end(engine, peer_link, MESSAGE_ABORT, chunk->transfer_id, chunk->gen,
                          REASON_UNKNOWN);
        return;
    }
    struct handoff *handoff = &sequence->handoff;
    if (handoff->begin_ns == 0)
        handoff->begin_ns = engine->now_ns;
    bool valid = handoff->complete || handoff_chunk_valid(engine, handoff, chunk);
    uint32_t n_cells =
        (chunk->layer_end - chunk->layer_begin) * (chunk->block_end - chunk->block_begin);
    uint32_t n_known =
        valid && !handoff->complete ? handoff_chunk_cells(engine, handoff, chunk, false) : 0;
    if (handoff->complete || (valid && n_known == n_cells)) {
        post_chunk_ack(engine, peer_link, chunk, handoff->n_done); /* a duplicate: never written */
        return;
    }
    if (!valid || n_known > 0) {
        post_chunk_ack(engine, peer_link, chunk, handoff->n_done);
        retire_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    uint64_t serial = sequence->serial;
    enum status status =
        handoff_copy_chunk(engine, peer_link, chunk, sequence->blocks + chunk->block_begin);
    bool gone = sequence->serial != serial || handoff->side != HANDOFF_IN;
    if (!gone && status == STATUS_OK) {
        (void)handoff_chunk_cells(engine, handoff, chunk, true);
        handoff->n_cells += n_cells;
        handoff->n_done++;
        engine->figures.handoff_bytes += chunk->n_bytes;
        if (!handoff->submitted)
            reserve_renew(engine, sequence);
    }
    if (peer_link->kind == PEER_LINK_KV_IN)
        post_chunk_ack(engine, peer_link, chunk, gone ? 0 : handoff->n_done);
    if (gone)
        return;
    if (status != STATUS_OK)
        retire_fail(engine, sequence, REASON_TRANSFER);
    else
        handoff_try_complete(engine, sequence);
}

static bool handoff_commit_valid(const struct engine *engine, const struct sequence *sequence,
                                 const struct commit *commit) {
    return request_id_equal(commit->req, sequence->req) && commit->attempt == sequence->attempt &&
           commit->n_tokens == sequence->n_tokens && commit->finish <= FINISH_LENGTH &&
           (engine->config.n_vocab == 0 || commit->first_token < engine->config.n_vocab);
}

void handoff_in_commit(struct engine *engine, struct peer_link *peer_link,
                       const struct commit *commit) {
    struct sequence *sequence =
        handoff_find_incoming(engine, peer_link, commit->gen, commit->transfer_id);
    if (!sequence) {
        engine->figures.n_stale_dropped++;
        post_transfer_end(engine, peer_link, MESSAGE_ABORT, commit->transfer_id, commit->gen,
                          REASON_UNKNOWN);
        return;
    }
    struct handoff *handoff = &sequence->handoff;
    if (handoff->complete) {
        post_transfer_end(engine, peer_link, MESSAGE_COMMIT_ACK, commit->transfer_id, commit->gen,
                          REASON_NONE);
        return;
    }
    if (!handoff_commit_valid(engine, sequence, commit)) {
        retire_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    if (handoff->begin_ns == 0)
        handoff->begin_ns = engine->now_ns;
    handoff->commit = *commit;
    handoff->commit_seen = true;
    if (!handoff->submitted)
        reserve_renew(engine, sequence);
    handoff_try_complete(engine, sequence);
}
