/* Steps ahead, held against what a plan would be: the same rows one position further, while nobody else
 * may run and every choice can be made without knowing the one before; and refused for no less. */
#include "tests/sim/judge.h"

#include "worker/core/engine_state.h"

/* What the worker's books say, before it is asked. */
struct books {
    uint32_t n_rows;
    uint32_t n_left, n_full, n_penalised; /* of them */
    uint32_t n_grow;                      /* blocks that their next positions need */
    uint32_t n_used;                      /* blocks in use */
    bool enters;                          /* the next of the waiting, where it was not tried yet */
    bool makes_way;                       /* somebody runs who goes for it */
};

static bool is_penalised(const struct sampling *sampling) {
    return sampling->presence != 0 || sampling->frequency != 0 || sampling->repetition != 1 ||
           sampling->n_grammar > 0;
}

static void count_row(const struct engine *engine, const struct plan_row *row,
                      struct books *books) {
    const struct sequence *sequence = &engine->sequences.slots[row->slot];
    const struct sampling *sampling = &sequence->sampling;
    bool is_left = sequence->dead || sequence->state != SEQUENCE_RUNNING;
    books->n_left += is_left;
    if (is_left || sequence->queue != QUEUE_DECODE)
        return;
    uint32_t n = sequence->n_tokens + 1; /* when the running step is over */
    books->n_full += n == sequence->n_prompt + sampling->max_new || n == engine->context;
    books->n_penalised += is_penalised(sampling);
    books->n_grow += sequence->n_blocks * SIM_TOKENS < n;
}

static void look_at_waiting(const struct engine *engine, struct books *books) {
    const struct schedule *schedule = &engine->schedule;
    if (schedule->n_waiting == 0)
        return;
    const struct sequence *first = tenant_next(engine);
    bool tried = first->blocked && first->pool_version == engine->pool.version &&
                 (first->blocked_late || !tenant_is_late(engine, first));
    bool is_full = schedule->n_prefill + schedule->n_decode >= engine->config.max_batch;
    books->enters = !tried && (!is_full || tenant_is_late(engine, first));
    books->makes_way = tenant_makes_way(engine, first);
    for (uint32_t i = 0; i < engine->config.max_seqs && first->blocked; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        bool runs = sequence->queue == QUEUE_PREFILL || sequence->queue == QUEUE_DECODE;
        books->makes_way |= runs && sequence->priority > first->priority;
    }
}

static struct books read_books(const struct engine *engine) {
    struct books books = {.n_rows = engine->n_rows, .n_used = engine->pool.counts[KV_USED]};
    for (uint32_t i = 0; i < engine->n_rows; i++)
        count_row(engine, &engine->rows[i], &books);
    look_at_waiting(engine, &books);
    return books;
}

/* Does this reason hold? */
static bool holds(const struct engine *engine, const struct books *books, enum repeat repeat) {
    const struct schedule *schedule = &engine->schedule;
    switch (repeat) {
    case REPEAT_PROMPT:
        return schedule->n_prefill > 0;
    case REPEAT_LEFT:
        return books->n_left > 0;
    case REPEAT_FULL:
        return books->n_full > 0;
    case REPEAT_HISTORY:
        return books->n_penalised > 0;
    case REPEAT_OTHERS:
        return schedule->n_decode > books->n_rows - books->n_left;
    case REPEAT_WAITING:
        return books->enters || books->makes_way;
    case REPEAT_BLOCKS:
        return books->n_grow > prefix_cache_available(&engine->cache);
    default:
        return false;
    }
}

static void judge_rows(struct sim *sim, uint32_t i, const struct plan *plan) {
    const struct engine *engine = sim->nodes[i].engine;
    for (uint32_t k = 0; k < plan->n_rows; k++) {
        const struct plan_row *row = &plan->rows[k], *now = &engine->rows[k];
        const struct sequence *sequence = &engine->sequences.slots[row->slot];
        if (row->slot != now->slot || row->begin != sequence->n_tokens || row->n_tokens != 1 ||
            row->variant != sequence->variant || row->ids || !row->sample ||
            sequence->n_blocks * SIM_TOKENS <= row->begin)
            sim_fail(sim, "worker %u: row %u of a step ahead is another one", i, k);
    }
}

enum repeat judge_repeat(struct sim *sim, uint32_t i, struct plan *plan) {
    struct engine *engine = sim->nodes[i].engine;
    struct books books = read_books(engine);
    bool any = false, given = false;
    enum repeat first = REPEAT_GRANTED + 1;
    bool held[REPEAT_REASONS];
    for (enum repeat reason = first; reason < REPEAT_REASONS; reason++)
        any |= held[reason] = holds(engine, &books, reason);
    enum repeat repeat = engine_repeat(engine, sim_clock(sim, i), plan);
    given = repeat == REPEAT_GRANTED ? !any : held[repeat];
    if (!given)
        sim_fail(sim, "worker %u: a step ahead is answered with %s", i, engine_repeat_name(repeat));
    if ((repeat == REPEAT_GRANTED) != (plan->n_rows == books.n_rows) ||
        (repeat != REPEAT_GRANTED) != (plan->n_rows == 0))
        sim_fail(sim, "worker %u: a step ahead of %u rows has %u", i, books.n_rows, plan->n_rows);
    if (repeat != REPEAT_GRANTED) {
        sim_saw(sim, SIGHT_REPEAT_PROMPT + (repeat - first));
        return repeat;
    }
    if (engine->pool.counts[KV_USED] != books.n_used + books.n_grow)
        sim_fail(sim, "worker %u: a step ahead takes %u blocks, not %u", i,
                 engine->pool.counts[KV_USED] - books.n_used, books.n_grow);
    judge_rows(sim, i, plan);
    time_repeated(sim, i, plan);
    sim_saw(sim, SIGHT_AHEAD);
    if (books.n_grow > 0)
        sim_saw(sim, SIGHT_AHEAD_GREW);
    if (engine->schedule.n_waiting > 0)
        sim_saw(sim, SIGHT_AHEAD_STOOD);
    return repeat;
}

void judge_late(struct sim *sim, uint32_t i, uint64_t n_dropped) {
    const struct engine *engine = sim->nodes[i].engine;
    if (engine_repeats(engine)->n_dropped > n_dropped)
        sim_saw(sim, SIGHT_AHEAD_ENDED);
    for (uint32_t k = 0; k < engine->n_rows; k++) /* of the step that was ahead */
        if (engine->sequences.slots[engine->rows[k].slot].dead)
            sim_saw(sim, SIGHT_AHEAD_LEFT);
}
