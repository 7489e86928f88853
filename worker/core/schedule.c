#include "worker/core/schedule.h"

#include "base/assert.h"
#include "worker/core/block_hash.h"
#include "worker/core/note.h"
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

static struct sequence *schedule_newest_of(struct list *head, struct sequence *newest) {
    list_each_entry(sequence, head, struct sequence, at) {
        if (!newest || run_queue_before(newest, sequence))
            newest = sequence;
    }
    return newest;
}

/* The running sequence that would be missed least. A scan, but only when blocks are short. */
static struct sequence *schedule_newest_running(struct engine *engine) {
    return schedule_newest_of(&engine->schedule.decode,
                              schedule_newest_of(&engine->schedule.prefill, NULL));
}

static void schedule_preempt(struct engine *engine, struct sequence *sequence,
                             const struct sequence *other, const char *reason, uint32_t n_missing) {
    ASSERT(sequence->n_steps == 0);
    note_preempted(engine, sequence, other, reason, n_missing);
    run_queue_remove(engine, sequence);
    sequence_give_blocks(sequence, &engine->cache);
    engine->figures.n_preemptions++;
    run_queue_wait(engine, sequence);
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
        struct sequence *victim = schedule_newest_running(engine);
        schedule_preempt(engine, victim, sequence, "blocks",
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

/* All blocks of its tokens, cached ones where there are, or STATUS_BUSY. The last token is computed
 * in any case, so that there are logits to sample from. */
static enum status schedule_admit(struct engine *engine, struct sequence *sequence) {
    struct map_key last;
    uint32_t n_unused;
    uint32_t n_need = engine_blocks_for(engine, sequence->n_tokens);
    uint32_t n_max = (sequence->n_tokens - 1) / engine->config.block_tokens;
    uint32_t n_hits = schedule_match_prefix(engine, sequence, n_max, &last, &n_unused);
    uint32_t n_wanted = n_need - n_hits + n_unused + engine->schedule.n_decode;
    uint32_t n_available = prefix_cache_available(&engine->cache);
    if (n_wanted > n_available) {
        sequence->n_missing = n_wanted - n_available;
        if (!sequence->blocked)
            note_sequence(engine, NOTE_BLOCKED, sequence, NULL, sequence->n_missing, 0);
        sequence->blocked = true;
        sequence->pool_version = engine->pool.version;
        return STATUS_BUSY;
    }
    for (uint32_t i = 0; i < n_hits; i++)
        prefix_cache_hold(&engine->cache, sequence->blocks[i]);
    enum status status =
        prefix_cache_take(&engine->cache, n_need - n_hits,
                          n_hits > 0 ? sequence->blocks[n_hits - 1] : KV_POOL_NO_BLOCK, KV_USED,
                          sequence->blocks + n_hits);
    ASSERT(status == STATUS_OK);
    run_queue_remove(engine, sequence);
    sequence->n_blocks = n_need;
    sequence->n_hashed = n_hits;
    sequence->hashed = last;
    sequence->n_computed = n_hits * engine->config.block_tokens;
    schedule_count_prefix(engine, sequence, sequence->n_computed);
    if (n_hits > 0 && sequence->handoff.side == HANDOFF_OUT)
        engine->pump_due = true; /* what was computed before may leave now */
    run_queue_prefill(engine, sequence);
    return STATUS_OK;
}

/* The first of the waiting, unless nothing has changed since it did not fit. */
static struct sequence *schedule_next_waiting(struct engine *engine) {
    struct list *first = list_first(&engine->schedule.waiting);
    if (!first)
        return NULL;
    struct sequence *sequence = list_entry(first, struct sequence, at);
    bool unchanged = sequence->blocked && sequence->pool_version == engine->pool.version;
    bool alone = engine->schedule.n_prefill + engine->schedule.n_decode == 0;
    return unchanged && !alone ? NULL : sequence;
}

static void schedule_plan_waiting(struct engine *engine, struct room *room) {
    while (room->n_prompt > 0 && room->n_rows > 0 && !run_queue_is_full(engine)) {
        struct sequence *sequence = schedule_next_waiting(engine);
        if (!sequence)
            return;
        if (sequence->deadline_ns && sequence->deadline_ns <= engine->now_ns) {
            retire_fail(engine, sequence, REASON_CANCELLED);
            continue;
        }
        /* No sequence overtakes the first: a long prompt would wait for ever. */
        if (schedule_admit(engine, sequence) != STATUS_OK)
            return;
        schedule_add_row(engine, sequence, room);
    }
}

static void schedule_plan_prefill(struct engine *engine, struct room *room) {
    list_each(link, &engine->schedule.prefill) {
        if (room->n_prompt == 0 || room->n_rows == 0)
            return;
        schedule_add_row(engine, list_entry(link, struct sequence, at), room);
    }
}

/* A waiting sequence that did not fit takes the place of one whose priority is worse: that one, or
 * NULL. */
static struct sequence *schedule_find_victim(struct engine *engine) {
    struct list *first = list_first(&engine->schedule.waiting);
    if (!first)
        return NULL;
    const struct sequence *sequence = list_entry(first, struct sequence, at);
    struct sequence *victim = sequence->blocked ? schedule_newest_running(engine) : NULL;
    return victim && victim->priority > sequence->priority ? victim : NULL;
}

static void schedule_make_way(struct engine *engine) {
    struct sequence *victim = schedule_find_victim(engine);
    if (!victim)
        return;
    const struct sequence *first = list_entry(engine->schedule.waiting.next, struct sequence, at);
    schedule_preempt(engine, victim, first, "priority", first->n_missing);
}

bool schedule_admits(struct engine *engine) {
    return schedule_find_victim(engine) ||
           (!run_queue_is_full(engine) && schedule_next_waiting(engine));
}

/* How many rows decode may take: all, unless prompts would get nothing at all. */
static uint32_t schedule_decode_share(struct engine *engine, const struct room *room) {
    struct schedule *schedule = &engine->schedule;
    uint32_t n_max = room->n_rows;
    bool pending = !list_empty(&schedule->prefill) ||
                   (!run_queue_is_full(engine) && schedule_next_waiting(engine));
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
    schedule_plan_decode(engine, &room, schedule_decode_share(engine, &room));
    room.n_prompt = schedule_prompt_share(engine);
    schedule_plan_prefill(engine, &room);
    schedule_plan_waiting(engine, &room);
    /* Never an empty step while something could run: the next call might come with the next event alone. */
    if (engine->n_rows == 0)
        schedule_plan_decode(engine, &room, room.n_rows);
}
