/* Every ledger and bound of the core, from scratch: slow, for tests. */
#include "worker/core/engine_state.h"

#include <stdlib.h>

static const char *engine_check_blocks(const struct engine *engine, const struct sequence *sequence,
                                       uint32_t *holders) {
    const struct handoff *handoff = &sequence->handoff;
    bool filling = handoff->side == HANDOFF_IN && !handoff->complete;
    for (uint32_t i = 0; i < sequence->n_blocks; i++) {
        uint32_t block = sequence->blocks[i];
        if (block >= engine->pool.n_blocks)
            return "a block table names a block that does not exist";
        enum kv_state want = filling && i >= handoff->first_block ? KV_RESERVED : KV_USED;
        if (engine->pool.states[block] != want)
            return "a block in a table is in the wrong state";
        if (want == KV_RESERVED && holders[block] > 0)
            return "a block waits for two hand-offs";
        holders[block]++;
    }
    return NULL;
}

static const char *engine_check_sequence(const struct engine *engine,
                                         const struct sequence *sequence) {
    uint32_t slot;
    const struct handoff *handoff = &sequence->handoff;
    if (sequence->n_tokens > engine->context || sequence->n_sent > sequence->n_tokens ||
        sequence->n_computed > sequence->n_tokens)
        return "a sequence counts more tokens than it has";
    if (sequence->n_computed > sequence->n_blocks * engine->config.block_tokens)
        return "a sequence has computed more than its blocks hold";
    if (sequence->n_hashed > sequence->n_computed / engine->config.block_tokens)
        return "a block has a name before it is computed";
    struct map_key key = {sequence->req.hi, sequence->req.lo};
    bool found =
        map_get(&engine->sequences.by_request, key, &slot) == STATUS_OK && slot == sequence->slot;
    if (found == sequence->dead)
        return "a request does not lead to its sequence";
    if (sequence->dead != (sequence->peer_link == PEER_LINK_NONE))
        return "a sequence has no owner";
    if (sequence->dead && sequence->n_steps == 0)
        return "a sequence was given up and not emptied";
    if (sequence->state == SEQUENCE_ENDED && sequence->n_steps == 0 &&
        (sequence->n_blocks > 0 || handoff->side))
        return "a sequence that ended holds blocks";
    bool waits = sequence->queue == QUEUE_HELD || sequence->queue == QUEUE_WAITING;
    if ((sequence->state == SEQUENCE_WAITING) != waits && !sequence->dead)
        return "a sequence's state and queue differ";
    if (sequence->awaits_grammar ? sequence->queue > QUEUE_HELD : sequence->queue == QUEUE_HELD)
        return "a sequence is held without a reason, or runs without its grammar";
    if (sequence->queue == QUEUE_DECODE && sequence->n_tokens - sequence->n_computed != 1)
        return "a sequence decodes and has more than one token to compute";
    if (handoff->side != HANDOFF_NONE) {
        struct map_key id = {handoff->side,
                             handoff->side == HANDOFF_IN ? handoff->gen : handoff->transfer_id};
        if (map_get(&engine->handoffs, id, &slot) != STATUS_OK || slot != sequence->slot)
            return "a hand-off does not lead to its sequence";
    }
    return NULL;
}

/* Rows of a step that name this sequence; UINT32_MAX: it does not hold what one of them writes. */
static uint32_t engine_count_rows(const struct engine *engine, const struct sequence *sequence,
                                  const struct plan_row *rows, uint32_t n_rows) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        if (rows[i].slot != sequence->slot)
            continue;
        if (rows[i].blocks != sequence->blocks ||
            rows[i].begin + rows[i].n_tokens > sequence->n_blocks * engine->config.block_tokens)
            return UINT32_MAX;
        n++;
    }
    return n;
}

static const char *engine_check_steps(const struct engine *engine,
                                      const struct sequence *sequence) {
    uint32_t n = engine_count_rows(engine, sequence, engine->rows, engine->n_rows);
    uint32_t n_ahead =
        engine_count_rows(engine, sequence, engine->rows_ahead, engine->n_rows_ahead);
    if (n == UINT32_MAX || n_ahead == UINT32_MAX)
        return "a step writes to blocks that its sequence does not hold";
    if (n + n_ahead != sequence->n_steps)
        return "a sequence counts other steps than those that compute it";
    return NULL;
}

static const char *engine_check_sequences(const struct engine *engine, uint32_t *holders) {
    uint32_t n_used = 0;
    uint32_t n_handoffs = 0;
    uint32_t n_queue[QUEUE_DECODE + 1] = {0};
    uint32_t n_queued = 0;
    for (uint32_t i = 0; i < engine->sequences.n_slots; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        if (sequence->serial == 0) {
            if (sequence->n_blocks > 0)
                return "a free slot holds blocks";
            if (engine_check_steps(engine, sequence))
                return "a step computes a free slot";
            continue;
        }
        n_used++;
        n_handoffs += sequence->handoff.side != HANDOFF_NONE;
        n_queue[sequence->queue]++;
        n_queued += sequence->n_queued;
        if (sequence->queue != QUEUE_NONE &&
            engine->schedule.shares.all[sequence->share].tenant != sequence->tenant)
            return "a sequence counts as another tenant's";
        const char *wrong = engine_check_sequence(engine, sequence);
        if (!wrong)
            wrong = engine_check_steps(engine, sequence);
        if (!wrong)
            wrong = engine_check_blocks(engine, sequence, holders);
        if (wrong)
            return wrong;
    }
    const struct schedule *schedule = &engine->schedule;
    if (n_used != engine->sequences.n_used)
        return "the count of slots is wrong";
    if (n_handoffs != engine->handoffs.n_used)
        return "a hand-off belongs to no sequence";
    if (n_queue[QUEUE_HELD] != schedule->n_held || n_queue[QUEUE_WAITING] != schedule->n_waiting ||
        n_queue[QUEUE_PREFILL] != schedule->n_prefill ||
        n_queue[QUEUE_DECODE] != schedule->n_decode || n_queued != schedule->n_queued)
        return "the scheduler's counts are wrong";
    return shares_check(&schedule->shares, schedule->n_held, schedule->n_waiting,
                        schedule->n_prefill + schedule->n_decode);
}

static uint32_t engine_list_length(const struct list *head) {
    uint32_t n = 0;
    list_each(link, head) n++;
    return n;
}

static const char *engine_check_peer_links(const struct engine *engine) {
    uint32_t n_live = 0;
    uint32_t n_owned = 0;
    for (uint32_t i = 0; i < engine->sequences.n_slots; i++)
        n_live += engine->sequences.slots[i].serial != 0 && !engine->sequences.slots[i].dead;
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++) {
        const struct peer_link *peer_link = &engine->peer_links.links[i];
        uint32_t n_in_flight = 0;
        if (peer_link->kind == PEER_LINK_FREE)
            continue;
        if (peer_link->broken)
            return "a broken link was not let go";
        n_owned += engine_list_length(&peer_link->sequences);
        list_each_entry(sequence, &peer_link->dirty, const struct sequence, dirty) {
            if (sequence->peer_link != i)
                return "a sequence sends to another's router";
        }
        list_each(link, &peer_link->transfers) {
            const struct sequence *sequence = list_entry(link, struct sequence, of_link);
            if (sequence->handoff.peer_link != i || sequence->handoff.side == HANDOFF_NONE)
                return "a transfer is listed under another link";
            n_in_flight += sequence->handoff.n_pushed - sequence->handoff.n_acked;
        }
        if (peer_link->kind == PEER_LINK_KV_OUT && n_in_flight != peer_link->n_in_flight)
            return "a link's chunks in flight are counted wrong";
        if (peer_link->kind == PEER_LINK_KV_OUT && peer_link->n_in_flight > peer_link->credits)
            return "more chunks are in flight than allowed";
    }
    return n_owned == n_live ? NULL : "a sequence is not in its router's list";
}

const char *engine_check(const struct engine *engine) {
    const struct schedule *schedule = &engine->schedule;
    const char *wrong = kv_pool_check(&engine->pool);
    if (!wrong)
        wrong = prefix_cache_check(&engine->cache);
    if (!wrong && (engine_list_length(&schedule->held) != schedule->n_held ||
                   engine_list_length(&schedule->waiting) != schedule->n_waiting ||
                   engine_list_length(&schedule->prefill) != schedule->n_prefill ||
                   engine_list_length(&schedule->decode) != schedule->n_decode))
        wrong = "the scheduler's lists and counts differ";
    if (wrong)
        return wrong;
    uint32_t *holders = calloc(engine->pool.n_blocks, sizeof *holders);
    if (!holders)
        return "no memory to check";
    wrong = engine_check_sequences(engine, holders);
    for (uint32_t i = 0; i < engine->pool.n_blocks && !wrong; i++) {
        enum kv_state state = engine->pool.states[i];
        bool held = state == KV_USED || state == KV_RESERVED;
        if (held && holders[i] != engine->pool.holders[i])
            wrong = "a block's holders differ from the tables that name it";
    }
    free(holders);
    if (!wrong && engine->pool.counts[KV_QUARANTINED] != engine->n_quarantine)
        wrong = "a quarantined block is not on the list";
    return wrong ? wrong : engine_check_peer_links(engine);
}
