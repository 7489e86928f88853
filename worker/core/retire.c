#include "worker/core/retire.h"

#include "worker/core/handoff.h"
#include "worker/core/note.h"
#include "worker/core/post.h"
#include "worker/core/run_queue.h"

void retire_drop(struct engine *engine, struct sequence *sequence, enum reason reason) {
    if (sequence->dead)
        return;
    handoff_end(engine, sequence, reason);
    if (sequence->state == SEQUENCE_ENDED)
        note_sequence(engine, NOTE_FORGOTTEN, sequence, NULL, sequence_n_output(sequence), 0);
    else if (reason != REASON_NONE) /* else it was never taken */
        note_sequence(engine, NOTE_GIVEN_UP, sequence, reason_name(reason),
                      sequence_n_output(sequence), 0);
    if (sequence->queue != QUEUE_NONE)
        run_queue_remove(engine, sequence);
    list_remove(&sequence->of_session);
    list_remove(&sequence->dirty);
    sequence_unname(&engine->sequences, sequence);
    sequence->peer_link = PEER_LINK_NONE;
    if (sequence->n_steps > 0) {
        /* The forward pass still reads its ids and writes its blocks. */
        sequence->dead = true;
        return;
    }
    sequence_give_blocks(sequence, &engine->cache);
    sequence_give(&engine->sequences, sequence);
}

void retire_fail(struct engine *engine, struct sequence *sequence, enum reason reason) {
    post_sequence_failed(engine, sequence, reason);
    retire_drop(engine, sequence, reason);
}

void retire_end(struct engine *engine, struct sequence *sequence, enum finish finish) {
    handoff_end(engine, sequence, REASON_NUMERICS);
    if (sequence->queue != QUEUE_NONE)
        run_queue_remove(engine, sequence);
    if (sequence->n_steps == 0) /* else the step ahead still writes them: they go at its end */
        sequence_give_blocks(sequence, &engine->cache);
    sequence->finish = finish;
    sequence->state = SEQUENCE_ENDED;
    note_sequence(engine, NOTE_ENDED, sequence, NULL, sequence_n_output(sequence), 0);
}

static bool retire_is_among(uint32_t id, const uint32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

enum finish retire_reason(const struct engine *engine, const struct sequence *sequence,
                          bool banned) {
    const struct sampling *sampling = &sequence->sampling;
    uint32_t id = sequence->ids[sequence->n_tokens - 1];
    bool is_end = retire_is_among(id, engine->config.ends, engine->config.n_ends);
    /* A grammar lets one come only where the answer is whole, and where it must; no other rule counts there. */
    if (is_end && sampling->n_grammar > 0)
        return FINISH_STOP;
    if (!banned && retire_is_among(id, sampling->stop_ids, sampling->n_stop_ids))
        return FINISH_STOP;
    if (!banned && !sampling->ignore_eos && is_end)
        return FINISH_STOP;
    if (sequence_n_output(sequence) >= sampling->max_new || sequence->n_tokens >= engine->context)
        return FINISH_LENGTH;
    return FINISH_NONE;
}
