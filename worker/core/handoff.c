#include "worker/core/handoff.h"

#include "worker/core/post.h"

#include <string.h>

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

bool handoff_is_peer(const struct handoff *handoff, const struct peer_link *peer_link) {
    return peer_link->incarnation == handoff->peer_incarnation &&
           strcmp(peer_link->name, handoff->peer) == 0;
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

/* Of a transfer that is not complete: the blocks that it would have filled. */
static void handoff_give_reserved(struct engine *engine, struct sequence *sequence) {
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

void handoff_end(struct engine *engine, struct sequence *sequence, enum reason reason) {
    struct handoff *handoff = &sequence->handoff;
    if (handoff->side == HANDOFF_NONE)
        return;
    bool in = handoff->side == HANDOFF_IN;
    struct peer_link *peer_link = NULL;
    if (handoff->peer_link != PEER_LINK_NONE)
        peer_link = &engine->peer_links.links[handoff->peer_link];
    map_remove(&engine->handoffs,
               handoff_key(handoff->side, in ? handoff->gen : handoff->transfer_id));
    list_remove(&sequence->of_link);
    list_remove(&sequence->leased);
    bool open = in ? !handoff->complete : true;
    if (open && reason != REASON_NONE)
        handoff_note(engine, NOTE_TRANSFER_ENDED, sequence, reason_name(reason));
    if (!in && peer_link && handoff->n_pushed > handoff->n_acked) {
        peer_link->n_in_flight -= handoff->n_pushed - handoff->n_acked;
        engine->pump_due = true; /* its acknowledgements will find no sequence: others go on now */
    }
    if (in)
        handoff_give_reserved(engine, sequence);
    handoff->side = HANDOFF_NONE;
    handoff->peer_link = PEER_LINK_NONE;
    if (open && peer_link && peer_link->ready && reason != REASON_NONE)
        post_transfer_end(engine, peer_link, MESSAGE_ABORT, handoff->transfer_id, handoff->gen,
                          reason);
}
