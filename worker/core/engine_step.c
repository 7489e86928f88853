/* A step's way through the engine: planned, begun, layers done, ended. */
#include "base/assert.h"
#include "worker/core/engine_state.h"
#include "worker/core/figures.h"
#include "worker/core/flush.h"
#include "worker/core/handoff_out.h"
#include "worker/core/note.h"
#include "worker/core/retire.h"
#include "worker/core/run_queue.h"
#include "worker/core/schedule.h"
#include "worker/core/settle.h"

#define LONG_STEP_US 20000 /* longer ones are announced before they begin */

void engine_budget(struct engine *engine, uint32_t n_prompt) {
    uint32_t most = engine->config.chunk_tokens;
    engine->budget = n_prompt < 1 ? 1 : n_prompt < most ? n_prompt : most;
}

uint32_t engine_chunk_tokens(const struct engine *engine) {
    return engine->budget;
}

void engine_plan(struct engine *engine, uint64_t now_ns, struct plan *plan) {
    ASSERT(!engine->in_flight);
    engine->now_ns = now_ns;
    schedule_plan(engine);
    engine->in_flight = engine->n_rows > 0;
    if (!engine->in_flight && engine->schedule.n_waiting > 0)
        engine->flush_due = true; /* no step's end takes the tokens along of what made way */
    engine->layers_ready = 0;
    engine->step_begin_ns = now_ns;
    *plan = (struct plan){.n_rows = engine->n_rows, .rows = engine->rows};
    for (uint32_t i = 0; i < engine->n_rows; i++) {
        const struct plan_row *row = &engine->rows[i];
        bool decodes = engine->sequences.slots[row->slot].queue == QUEUE_DECODE;
        plan->n_tokens += row->n_tokens;
        plan->n_prompt += decodes ? 0 : row->n_tokens;
    }
    settle_event(engine);
}

/* Routers hear how long the step will take that nothing stands before any more. What a moment in which the machine stood still
 * makes of a guess is no figure: the most that there may be is. */
static void engine_announce_step(struct engine *engine, uint32_t us_expected) {
    engine->step_begin_ns = engine->now_ns;
    engine->figures.step_us_expected =
        us_expected < MESSAGE_STEP_US_MAX ? us_expected : MESSAGE_STEP_US_MAX;
    if (us_expected >= LONG_STEP_US)
        flush_beats(engine);
}

void engine_step_begin(struct engine *engine, uint64_t now_ns, uint32_t us_expected) {
    engine->now_ns = now_ns;
    if (engine->n_rows_ahead > 0)
        engine->us_ahead = us_expected; /* said when it is its turn */
    else
        engine_announce_step(engine, us_expected);
    settle_event(engine);
}

void engine_layers_done(struct engine *engine, uint64_t now_ns, uint32_t layer_begin,
                        uint32_t layer_end) {
    engine->now_ns = now_ns;
    (void)layer_begin; /* the calls rise, so the end says it all */
    if (layer_end <= engine->layers_ready || !engine->in_flight)
        return;
    engine->layers_ready = layer_end;
    engine->figures.progress++; /* slow is not dead: a step that gets on is alive */
    handoff_out_push_all(engine);
    settle_event(engine);
}

/* The next token of a sequence whose tokens are all computed. */
static void engine_take_token(struct engine *engine, struct sequence *sequence,
                              const struct sampled *sampled) {
    peer_link_mark(&engine->peer_links, sequence);
    if (!sampled->valid && sampled->is_stuck) { /* the request's own fault */
        retire_fail(engine, sequence, REASON_GRAMMAR);
        return;
    }
    if (!sampled->valid) {
        retire_end(engine, sequence, FINISH_ERROR);
        return;
    }
    bool banned = sequence_bans_ends(sequence, sequence->n_tokens);
    sequence_append(sequence, sampled->id,
                    sequence->sampling.want_logprobs ? &sampled->logprobs : NULL);
    engine->figures.n_tokens++;
    engine->rate_tokens++;
    if (sequence->n_tokens == sequence->n_given + 1)
        note_sequence(engine, NOTE_FIRST_TOKEN, sequence, NULL, sequence_n_output(sequence) - 1,
                      (engine->now_ns - sequence->submit_ns) / 1000);
    enum finish finish = retire_reason(engine, sequence, banned);
    if (sequence->phase == PHASE_PREFILL) {
        /* Even a sequence that ends here is handed over: the receiver says so too. */
        run_queue_remove(engine, sequence);
        sequence->state = SEQUENCE_SENDING;
        sequence->finish = finish;
    } else if (finish != FINISH_NONE) {
        retire_end(engine, sequence, finish);
    } else if (sequence->queue == QUEUE_PREFILL) {
        run_queue_remove(engine, sequence);
        run_queue_decode(engine, sequence);
    }
}

/* A step is over that still computed a sequence which had ended, or was given up. */
static void engine_let_sequence_go(struct engine *engine, struct sequence *sequence) {
    engine->repeats.n_dropped += sequence->state == SEQUENCE_ENDED;
    if (sequence->n_steps > 0)
        return; /* the step ahead computes it too */
    sequence_give_blocks(sequence, &engine->cache);
    if (!sequence->dead)
        return;
    sequence->dead = false;
    sequence_give(&engine->sequences, sequence);
}

/* The row's tokens are in the KV pool. Answers NULL where the next one is not wanted: the sequence
 * was given up meanwhile, or ended with the step before. */
static struct sequence *engine_finish_row(struct engine *engine, const struct plan_row *row) {
    struct sequence *sequence = &engine->sequences.slots[row->slot];
    ASSERT(sequence->n_steps > 0);
    sequence->n_steps--;
    if (sequence->dead || sequence->state == SEQUENCE_ENDED) {
        engine_let_sequence_go(engine, sequence);
        return NULL;
    }
    sequence->n_computed = row->begin + row->n_tokens;
    if (sequence->queue == QUEUE_PREFILL)
        engine->figures.n_prompt_tokens += row->n_tokens;
    sequence_name_blocks(sequence, &engine->cache, engine->config.prefix_key);
    run_queue_account(engine, sequence);
    return sequence;
}

/* The step is over; one that is ahead is the next. */
static void engine_turn_steps(struct engine *engine) {
    struct plan_row *rows = engine->rows;
    engine->rows = engine->rows_ahead;
    engine->n_rows = engine->n_rows_ahead;
    engine->rows_ahead = rows;
    engine->n_rows_ahead = 0;
    engine->in_flight = engine->n_rows > 0;
    engine->layers_ready = 0;
}

void engine_step_end(struct engine *engine, uint64_t now_ns, const struct sampled *sampled) {
    ASSERT(engine->in_flight);
    engine->now_ns = now_ns;
    uint32_t n_sampled = 0;
    for (uint32_t i = 0; i < engine->n_rows; i++) {
        const struct plan_row *row = &engine->rows[i];
        struct sequence *sequence = engine_finish_row(engine, row);
        const struct sampled *token = row->sample ? &sampled[n_sampled++] : NULL;
        if (sequence && token)
            engine_take_token(engine, sequence, token);
    }
    figures_step(engine);
    engine_turn_steps(engine);
    if (engine->in_flight)
        engine_announce_step(engine, engine->us_ahead);
    settle_step(engine);
}
