#include "worker/core/handoff.h"

#include "base/assert.h"

static struct map_key handoff_key(enum handoff_side side, uint64_t id) {
    return (struct map_key){.hi = side, .lo = id};
}

struct sequence *handoff_find(struct engine *engine, enum handoff_side side, uint64_t id) {
    uint32_t slot;
    if (map_get(&engine->handoffs, handoff_key(side, id), &slot) != STATUS_OK)
        return NULL;
    return &engine->sequences.slots[slot];
}

enum status handoff_register(struct engine *engine, enum handoff_side side, uint64_t id,
                             const struct sequence *sequence) {
    if (handoff_find(engine, side, id))
        return STATUS_CONFLICT;
    return map_put(&engine->handoffs, handoff_key(side, id), sequence->slot);
}

void handoff_post_end(struct engine *engine, struct outlet *outlet, enum message_type type,
                      uint64_t transfer_id, uint32_t gen, enum reason reason) {
    struct post post = {.type = type};
    post.u.transfer_end =
        (struct transfer_end){.transfer_id = transfer_id, .gen = gen, .reason = reason};
    outlet_post(&engine->outlets, outlet, &engine->sink, &post);
}

void handoff_settle(struct engine *engine) {
    if (engine->taking)
        return;
    while (engine->n_quarantine > 0)
        kv_pool_release(&engine->pool, engine->quarantine[--engine->n_quarantine]);
}

void handoff_note(const struct engine *engine, enum engine_note kind,
                  const struct sequence *sequence, const char *reason) {
    uint64_t begin_ns = sequence->handoff.begin_ns;
    uint64_t us = begin_ns ? (engine->now_ns - begin_ns) / 1000 : 0;
    bool out = sequence->handoff.side == HANDOFF_OUT;
    note_sequence(engine, kind, sequence, reason, out ? sequence->n_given : sequence->n_tokens, us);
}

void handoff_end(struct engine *engine, struct sequence *sequence, enum reason reason) {
    struct handoff *handoff = &sequence->handoff;
    if (handoff->side == HANDOFF_NONE)
        return;
    bool in = handoff->side == HANDOFF_IN;
    struct outlet *outlet = NULL;
    if (handoff->outlet != OUTLET_NONE)
        outlet = &engine->outlets.outlets[handoff->outlet];
    map_remove(&engine->handoffs,
               handoff_key(handoff->side, in ? handoff->gen : handoff->transfer_id));
    list_remove(&sequence->of_link);
    list_remove(&sequence->leased);
    bool open = in ? !handoff->complete : true;
    if (open && reason != REASON_NONE)
        handoff_note(engine, NOTE_TRANSFER_ENDED, sequence, reason_name(reason));
    if (!in && outlet)
        outlet->n_in_flight -= handoff->n_pushed - handoff->n_acked;
    if (in)
        handoff_end_in(engine, sequence);
    handoff->side = HANDOFF_NONE;
    handoff->outlet = OUTLET_NONE;
    if (open && outlet && outlet->ready && reason != REASON_NONE)
        handoff_post_end(engine, outlet, MESSAGE_ABORT, handoff->transfer_id, handoff->gen, reason);
}

void handoff_abort(struct engine *engine, struct outlet *outlet, const struct transfer_end *end) {
    bool in = outlet->kind == OUTLET_KV_IN;
    struct sequence *sequence = in ? handoff_find(engine, HANDOFF_IN, end->gen)
                                   : handoff_find(engine, HANDOFF_OUT, end->transfer_id);
    enum reason reason =
        end->reason == REASON_NONE || end->reason >= REASON_COUNT ? REASON_TRANSFER : end->reason;
    handoff_post_end(engine, outlet, MESSAGE_FENCED, end->transfer_id, end->gen, REASON_NONE);
    if (!sequence)
        return;
    struct handoff *handoff = &sequence->handoff;
    /* Another transfer's end, or one that came too late: after the commit the sender is not needed.
     */
    bool other =
        in ? handoff->bound && handoff->transfer_id != end->transfer_id : handoff->gen != end->gen;
    bool foreign =
        handoff->outlet != OUTLET_NONE && handoff->outlet != outlet_index(&engine->outlets, outlet);
    if (other || foreign || (in && handoff->complete)) {
        engine->figures.n_stale_dropped++;
        return;
    }
    handoff_note(engine, NOTE_TRANSFER_ENDED, sequence, reason_name(reason));
    handoff_end(engine, sequence, REASON_NONE);
    engine_fail(engine, sequence, reason);
}

void handoff_link_lost(struct engine *engine, struct outlet *outlet) {
    struct list *first;
    outlet->ready = false;
    while ((first = list_first(&outlet->transfers)) != NULL) {
        struct sequence *sequence = list_entry(first, struct sequence, of_link);
        bool committed = sequence->handoff.side == HANDOFF_OUT && sequence->handoff.commit_sent;
        handoff_note(engine, NOTE_TRANSFER_ENDED, sequence, "link_lost");
        handoff_end(engine, sequence, REASON_NONE);
        /* After the commit only the receiver knows whether it arrived: it tells the router. */
        if (committed)
            engine_end(engine, sequence, sequence->finish);
        else
            engine_fail(engine, sequence, REASON_TRANSFER);
    }
}
