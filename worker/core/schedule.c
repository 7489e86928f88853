#include "worker/core/schedule.h"

#include "base/assert.h"
#include "worker/core/block_hash.h"
#include "worker/core/note.h"
#include "worker/core/preempt.h"
#include "worker/core/retire.h"
#include "worker/core/run_queue.h"

/* What is left of the step that is planned. */
struct room {
    uint32_t n_prompt; /* tokens of prompts */
    uint32_t n_rows;
};

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* A block for the token that is computed next. Answers false when the sequence had to go itself. */
static bool schedule_grow(struct engine *engine, struct sequence *sequence) {
    uint32_t n_need = engine_blocks_for(engine, sequence->n_tokens);
    while (sequence->n_blocks < n_need) {
        uint32_t n = sequence->n_blocks;
        uint32_t after = n > 0 ? sequence->blocks[n - 1] : KV_POOL_NO_BLOCK;
        enum status status =
            prefix_cache_take(&engine->cache, n_need - n, after, KV_USED, sequence->blocks + n);
        if (status == STATUS_OK) {
            sequence->n_blocks = n_need;
            break;
        }
        struct sequence *victim = preempt_choose(engine);
        preempt_sequence(engine, victim, sequence, "blocks",
                         n_need - n - prefix_cache_available(&engine->cache));
        if (victim == sequence)
            return false;
    }
    return true;
}

static void schedule_add_row(struct engine *engine, struct sequence *sequence, struct room *room) {
    bool decodes = sequence->queue == QUEUE_DECODE;
    uint32_t n = decodes ? 1 : min_u32(sequence->n_tokens - sequence->n_computed, room->n_prompt);
    ASSERT(n > 0 && room->n_rows > 0);
    ASSERT(!decodes || sequence->n_tokens - sequence->n_computed == 1);
    if (!sequence->has_run)
        note_sequence(engine, NOTE_SCHEDULED, sequence, NULL,
                      (engine->now_ns - sequence->ready_ns) / 1000, sequence->cached_tokens);
    sequence->has_run = true;
    engine->rows[engine->n_rows++] = (struct plan_row){
        .slot = sequence->slot,
        .begin = sequence->n_computed,
        .n_tokens = n,
        .ids = sequence->ids + sequence->n_computed,
        .blocks = sequence->blocks,
        .variant = sequence->variant,
        .sample = sequence->n_computed + n == sequence->n_tokens,
    };
    sequence->n_steps = 1;
    sequence->n_in_step = sequence->n_computed + n;
    room->n_prompt -= decodes ? 0 : n;
    room->n_rows--;
}

/* Rows for the first n_max sequences that decode. Blocks come first and rows after, because growing
 * may preempt a sequence that was picked already. */
static void schedule_plan_decode(struct engine *engine, struct room *room, uint32_t n_max) {
    struct schedule *schedule = &engine->schedule;
    bool rotate = schedule->n_decode > n_max;
    uint32_t n_picks = 0;
    list_each(link, &schedule->decode) {
        if (n_picks == n_max)
            break;
        schedule->picks[n_picks++] = list_entry(link, struct sequence, at)->slot;
    }
    for (uint32_t i = 0; i < n_picks; i++) {
        struct sequence *sequence = &engine->sequences.slots[schedule->picks[i]];
        if (sequence->queue == QUEUE_DECODE && !schedule_grow(engine, sequence))
            continue;
    }
    for (uint32_t i = 0; i < n_picks; i++) {
        struct sequence *sequence = &engine->sequences.slots[schedule->picks[i]];
        if (sequence->queue != QUEUE_DECODE)
            continue;
        schedule_add_row(engine, sequence, room);
        if (rotate) {
            list_remove(&sequence->at);
            list_push_back(&schedule->decode, &sequence->at);
        }
    }
}

/* Finds the longest prefix of the ids in the cache, at most `n_max` blocks: writes the blocks and
 * the last one's name, counts those that no sequence holds now. Holds nothing. */
static uint32_t schedule_match_prefix(const struct engine *engine, const struct sequence *sequence,
                                      uint32_t n_max, struct map_key *last, uint32_t *n_unused) {
    struct map_key key = BLOCK_HASH_START;
    uint32_t n = 0;
    *last = key;
    *n_unused = 0;
    while (n < n_max) {
        uint32_t block;
        key = block_hash(engine->config.prefix_key, sequence->salt, key,
                         sequence->ids + (size_t)n * BLOCK_HASH_TOKENS);
        if (prefix_cache_find(&engine->cache, key, &block) != STATUS_OK)
            break;
        sequence->blocks[n++] = block;
        *last = key;
        *n_unused += engine->pool.states[block] == KV_CACHED;
    }
    return n;
}

/* Counts the prompt in the cache's figures, once for each sequence. */
static void schedule_count_prefix(struct engine *engine, struct sequence *sequence,
                                  uint32_t n_cached) {
    if (sequence->counted)
        return;
    sequence->counted = true;
    sequence->cached_tokens = min_u32(n_cached, sequence->n_prompt);
    engine->figures.prefix_queries += sequence->n_tokens;
    engine->figures.prefix_hits += n_cached;
}

/* What a sequence that waits would take; its blocks begin with those that it finds. */
struct fit {
    struct map_key last; /* name of the last block found */
    uint32_t n_need;     /* blocks of its tokens */
    uint32_t n_hits;     /* of them found */
    uint32_t n_missing;  /* blocks that are not free now; 0: it fits */
};

/* One block more for each sequence that decodes stays free, or the first of them would soon preempt;
 * but a late tenant's sequence is not the one that they take a block from (preempt.h). The last token
 * is computed in any case, so that there are logits to sample from. */
static struct fit schedule_find_fit(const struct engine *engine, const struct sequence *sequence) {
    struct fit fit = {.n_need = engine_blocks_for(engine, sequence->n_tokens)};
    uint32_t n_unused;
    uint32_t n_max = (sequence->n_tokens - 1) / engine->config.block_tokens;
    fit.n_hits = schedule_match_prefix(engine, sequence, n_max, &fit.last, &n_unused);
    uint32_t n_spare =
        shares_is_late(&engine->schedule.shares, sequence) ? 0 : engine->schedule.n_decode;
    uint32_t n_wanted = fit.n_need - fit.n_hits + n_unused + n_spare;
    uint32_t n_available = prefix_cache_available(&engine->cache);
    fit.n_missing = n_wanted > n_available ? n_wanted - n_available : 0;
    return fit;
}

/* All blocks of its tokens, cached ones where there are, or STATUS_BUSY. */
static enum status schedule_admit(struct engine *engine, struct sequence *sequence) {
    struct fit fit = schedule_find_fit(engine, sequence);
    uint32_t n_hits = fit.n_hits;
    if (fit.n_missing > 0) {
        sequence->n_missing = fit.n_missing;
        if (!sequence->blocked)
            note_sequence(engine, NOTE_BLOCKED, sequence, NULL, sequence->n_missing, 0);
        sequence->blocked = true;
        sequence->blocked_late = shares_is_late(&engine->schedule.shares, sequence);
        sequence->pool_version = engine->pool.version;
        return STATUS_BUSY;
    }
    for (uint32_t i = 0; i < n_hits; i++)
        prefix_cache_hold(&engine->cache, sequence->blocks[i]);
    enum status status =
        prefix_cache_take(&engine->cache, fit.n_need - n_hits,
                          n_hits > 0 ? sequence->blocks[n_hits - 1] : KV_POOL_NO_BLOCK, KV_USED,
                          sequence->blocks + n_hits);
    ASSERT(status == STATUS_OK);
    run_queue_remove(engine, sequence);
    sequence->n_blocks = fit.n_need;
    sequence->n_hashed = n_hits;
    sequence->hashed = fit.last;
    sequence->n_computed = n_hits * engine->config.block_tokens;
    schedule_count_prefix(engine, sequence, sequence->n_computed);
    if (n_hits > 0 && sequence->handoff.side == HANDOFF_OUT)
        engine->pump_due = true; /* what was computed before may leave now */
    run_queue_prefill(engine, sequence);
    return STATUS_OK;
}

/* The next of the waiting where it may run, unless nothing has changed since it did not fit. */
static struct sequence *schedule_next_waiting(struct engine *engine) {
    struct sequence *sequence = run_queue_next(engine);
    if (!sequence || !run_queue_lets_in(engine, sequence))
        return NULL;
    bool needs_less = shares_is_late(&engine->schedule.shares, sequence) && !sequence->blocked_late;
    bool unchanged =
        sequence->blocked && sequence->pool_version == engine->pool.version && !needs_less;
    bool alone = engine->schedule.n_prefill + engine->schedule.n_decode == 0;
    return unchanged && !alone ? NULL : sequence;
}

/* Its time may be over while it waits: then it is gone. */
static bool schedule_is_too_late(struct engine *engine, struct sequence *sequence) {
    bool is_over = sequence->deadline_ns && sequence->deadline_ns <= engine->now_ns;
    if (is_over)
        retire_fail(engine, sequence, REASON_CANCELLED);
    return is_over;
}

static void schedule_plan_waiting(struct engine *engine, struct room *room) {
    while (room->n_prompt > 0 && room->n_rows > 0) {
        struct sequence *sequence = schedule_next_waiting(engine);
        if (!sequence)
            return;
        if (schedule_is_too_late(engine, sequence))
            continue;
        /* No sequence overtakes the next one: a long prompt would wait for ever. */
        if (schedule_admit(engine, sequence) != STATUS_OK)
            return;
        schedule_add_row(engine, sequence, room);
    }
}

/* The first n_late are those that schedule_let_late_in() put there. One that is not done with this step
 * goes to the back: prompts of several tenants take turns. A tenant alone has no more than one such. */
static void schedule_plan_prefill(struct engine *engine, struct room *room, uint32_t n_late) {
    list_each_entry(sequence, &engine->schedule.prefill, struct sequence, at) {
        if (room->n_prompt == 0 || room->n_rows == 0)
            return;
        schedule_add_row(engine, sequence, room);
        if (n_late > 0)
            n_late--;
        else if (engine->schedule.n_passed > 0)
            engine->schedule.n_passed--;
        if (sequence->n_in_step < sequence->n_tokens) {
            list_remove(&sequence->at);
            list_push_back(&engine->schedule.prefill, &sequence->at);
        }
    }
}

/* A waiting sequence that did not fit takes the place of one whose priority is worse. */
static void schedule_make_way(struct engine *engine) {
    const struct sequence *next = run_queue_next(engine);
    struct sequence *victim = next ? preempt_find_worse(engine, next) : NULL;
    if (victim)
        preempt_sequence(engine, victim, next, "priority", next->n_missing);
}

/* Another tenant's sequences make way for one of a late tenant. */
static void schedule_make_way_for_late(struct engine *engine, const struct sequence *late) {
    struct sequence *victim;
    while ((victim = preempt_find_for_late(engine, late)) != NULL) {
        uint32_t n_missing = schedule_find_fit(engine, late).n_missing;
        if (n_missing == 0)
            return;
        preempt_sequence(engine, victim, late, "late_tenant", n_missing);
    }
}

/* Sequences of late tenants get their blocks before those that decode take what is free. Their prompts
 * go before those that are being computed, but not again before each of these had a turn: many tenants,
 * each late again and again, would keep them out for ever. Answers how many went first. */
static uint32_t schedule_let_late_in(struct engine *engine) {
    struct schedule *schedule = &engine->schedule;
    struct list *last =
        &schedule->prefill; /* that went first: no victim, for it is its tenant's only one */
    uint32_t n_first = 0;
    uint32_t n_before = schedule->n_prefill;
    schedule->n_passed = min_u32(schedule->n_passed, n_before); /* some may have left */
    bool go_first = schedule->n_passed == 0 && n_before > 0;
    while (schedule->shares.n_late > 0) {
        struct sequence *sequence = run_queue_next(engine);
        if (!shares_is_late(&schedule->shares, sequence))
            break;
        if (schedule_is_too_late(engine, sequence))
            continue;
        schedule_make_way_for_late(engine, sequence);
        if (schedule_admit(engine, sequence) != STATUS_OK)
            break;
        if (!go_first)
            continue;
        list_remove(&sequence->at);
        list_insert_before(last->next, &sequence->at);
        last = &sequence->at;
        schedule->n_passed = n_before;
        n_first++;
    }
    return n_first;
}

bool schedule_admits(struct engine *engine) {
    const struct sequence *next = run_queue_next(engine);
    return next && (preempt_find_worse(engine, next) || schedule_next_waiting(engine) ||
                    preempt_find_for_late(engine, next));
}

/* How many rows decode may take: all, unless prompts would get nothing at all. */
static uint32_t schedule_decode_share(struct engine *engine, const struct room *room) {
    struct schedule *schedule = &engine->schedule;
    uint32_t n_max = room->n_rows;
    bool pending = !list_empty(&schedule->prefill) || schedule_next_waiting(engine);
    if (!pending || schedule->n_decode < n_max)
        return n_max;
    if (n_max > 1)
        return n_max - 1;
    schedule->prefill_turn = !schedule->prefill_turn;
    return schedule->prefill_turn ? 0 : 1;
}

/* The prompts' share: the budget, as far as the step's arrays hold it beside the rows that decode. */
static uint32_t schedule_prompt_share(const struct engine *engine) {
    const struct engine_config *config = &engine->config;
    uint32_t most =
        config->chunk_tokens > config->max_batch ? config->chunk_tokens : config->max_batch;
    return min_u32(engine->budget, most - engine->n_rows);
}

void schedule_plan(struct engine *engine) {
    struct room room = {.n_rows = engine->config.max_batch};
    engine->n_rows = 0;
    schedule_make_way(engine);
    uint32_t n_late = schedule_let_late_in(engine);
    schedule_plan_decode(engine, &room, schedule_decode_share(engine, &room));
    room.n_prompt = schedule_prompt_share(engine);
    schedule_plan_prefill(engine, &room, n_late);
    schedule_plan_waiting(engine, &room);
    /* Never an empty step while something could run: the next call might come with the next event alone. */
    if (engine->n_rows == 0)
        schedule_plan_decode(engine, &room, room.n_rows);
}
