/* One step ahead: the running step is followed by itself, one position further, before anybody knows
 * what it chooses. So the next one begins on the device while the host still reads and sends.
 *
 * That is done only where engine_plan() would answer the same rows as long as no answer ends: any
 * change of who runs, and any choice that the host has to know first, is a reason to wait. An end is
 * seen one step late then: what the step ahead computes for it is dropped, and blocks and slot stay
 * until that step's end, for it still writes them. No sequence is preempted while steps are in flight. */
#include "base/assert.h"
#include "worker/core/engine_state.h"
#include "worker/core/note.h"
#include "worker/core/prefix.h"
#include "worker/core/run_queue.h"
#include "worker/core/schedule.h"
#include "worker/core/settle.h"

static const char *const names[REPEAT_REASONS] = {
    [REPEAT_GRANTED] = "granted", [REPEAT_PROMPT] = "prompt", [REPEAT_LEFT] = "left",
    [REPEAT_OTHERS] = "others",   [REPEAT_FULL] = "full",     [REPEAT_HISTORY] = "history",
    [REPEAT_WAITING] = "waiting", [REPEAT_BLOCKS] = "blocks",
};

const char *engine_repeat_name(enum repeat repeat) {
    ASSERT(repeat < REPEAT_REASONS);
    return names[repeat];
}

/* Penalties are for the ids that were chosen before, the last one included; what a grammar allows follows from them. */
static bool repeat_needs_history(const struct sampling *sampling) {
    return sampling->presence != 0.0f || sampling->frequency != 0.0f ||
           sampling->repetition != 1.0f || sampling->n_grammar > 0;
}

/* Tokens of a sequence that is in the running step, with the one that is chosen there. */
static uint32_t repeat_n_after(const struct plan_row *row) {
    return row->begin + row->n_tokens + 1;
}

static enum repeat repeat_refuse_row(const struct engine *engine, const struct plan_row *row) {
    const struct sequence *sequence = &engine->sequences.slots[row->slot];
    const struct sampling *sampling = &sequence->sampling;
    if (sequence->queue != QUEUE_DECODE)
        return REPEAT_LEFT;
    if (repeat_n_after(row) - sequence->n_prompt >= sampling->max_new ||
        repeat_n_after(row) >= engine->context)
        return REPEAT_FULL;
    return repeat_needs_history(sampling) ? REPEAT_HISTORY : REPEAT_GRANTED;
}

/* Blocks that its next position needs: none, or one. */
static uint32_t repeat_n_missing(const struct engine *engine, const struct plan_row *row) {
    return engine_blocks_for(engine, repeat_n_after(row)) -
           engine->sequences.slots[row->slot].n_blocks;
}

static const struct sequence *repeat_first_of(const struct list *head) {
    return list_entry(head->next, struct sequence, at);
}

/* Why the step is not repeated, and one sequence for whose sake. */
static enum repeat repeat_refuse(struct engine *engine, const struct sequence **about) {
    const struct schedule *schedule = &engine->schedule;
    uint32_t n_room = prefix_cache_available(&engine->cache);
    if (schedule->n_prefill > 0) {
        *about = repeat_first_of(&schedule->prefill);
        return REPEAT_PROMPT;
    }
    for (uint32_t i = 0; i < engine->n_rows; i++) {
        enum repeat repeat = repeat_refuse_row(engine, &engine->rows[i]);
        *about = &engine->sequences.slots[engine->rows[i].slot];
        if (repeat != REPEAT_GRANTED)
            return repeat;
    }
    if (schedule->n_decode > engine->n_rows) {
        *about = list_entry(schedule->decode.prev, struct sequence, at);
        return REPEAT_OTHERS;
    }
    if (schedule_admits(engine)) {
        *about = run_queue_next(engine);
        return REPEAT_WAITING;
    }
    for (uint32_t i = 0; i < engine->n_rows; i++) {
        uint32_t n = repeat_n_missing(engine, &engine->rows[i]);
        *about = &engine->sequences.slots[engine->rows[i].slot];
        if (n > n_room)
            return REPEAT_BLOCKS;
        n_room -= n;
    }
    return REPEAT_GRANTED;
}

static void repeat_grow(struct engine *engine, struct sequence *sequence, uint32_t n) {
    enum status status =
        prefix_cache_take(&engine->cache, n, sequence->blocks[sequence->n_blocks - 1], KV_USED,
                          sequence->blocks + sequence->n_blocks);
    ASSERT(status == STATUS_OK);
    sequence->n_blocks += n;
}

static void repeat_add_rows(struct engine *engine) {
    for (uint32_t i = 0; i < engine->n_rows; i++) {
        const struct plan_row *row = &engine->rows[i];
        struct sequence *sequence = &engine->sequences.slots[row->slot];
        ASSERT(row->n_tokens == 1 && row->sample && sequence->n_steps == 1);
        repeat_grow(engine, sequence, repeat_n_missing(engine, row));
        engine->rows_ahead[i] = (struct plan_row){.slot = row->slot,
                                                  .begin = row->begin + 1,
                                                  .n_tokens = 1,
                                                  .blocks = row->blocks,
                                                  .variant = row->variant,
                                                  .sample = true};
        sequence->n_steps = 2;
    }
    engine->n_rows_ahead = engine->n_rows;
}

enum repeat engine_repeat(struct engine *engine, uint64_t now_ns, struct plan *plan) {
    const struct sequence *about;
    ASSERT(engine->in_flight && engine->n_rows_ahead == 0);
    engine->now_ns = now_ns;
    enum repeat repeat = repeat_refuse(engine, &about);
    engine->repeats.n[repeat]++;
    if (repeat == REPEAT_GRANTED)
        repeat_add_rows(engine);
    else if (repeat != engine->repeat_said) /* else every step would say the same */
        note_sequence(engine, NOTE_NOT_AHEAD, about, names[repeat], engine->n_rows, 0);
    engine->repeat_said = repeat;
    *plan = (struct plan){.n_rows = engine->n_rows_ahead,
                          .n_tokens = engine->n_rows_ahead,
                          .rows = engine->rows_ahead};
    settle_event(engine);
    return repeat;
}

const struct engine_repeats *engine_repeats(const struct engine *engine) {
    return &engine->repeats;
}
