#include "worker/core/handoff_link.h"

#include "worker/core/handoff.h"
#include "worker/core/handoff_in.h"
#include "worker/core/handoff_out.h"
#include "worker/core/post.h"
#include "worker/core/retire.h"

/* The other side ends a transfer. */
static void take_abort(struct engine *engine, struct outlet *outlet,
                       const struct transfer_end *end) {
    bool in = outlet->kind == OUTLET_KV_IN;
    struct sequence *sequence = in ? handoff_find(engine, HANDOFF_IN, end->gen)
                                   : handoff_find(engine, HANDOFF_OUT, end->transfer_id);
    enum reason reason =
        end->reason == REASON_NONE || end->reason >= REASON_COUNT ? REASON_TRANSFER : end->reason;
    post_transfer_end(engine, outlet, MESSAGE_FENCED, end->transfer_id, end->gen, REASON_NONE);
    if (!sequence)
        return;
    struct handoff *handoff = &sequence->handoff;
    /* Another's end, or one that comes too late: after the commit the sender is not needed. */
    bool other =
        in ? handoff->bound && handoff->transfer_id != end->transfer_id : handoff->gen != end->gen;
    bool foreign = handoff->outlet != OUTLET_NONE
                       ? handoff->outlet != outlet_index(&engine->outlets, outlet)
                       : (!in || handoff->submitted) && !handoff_is_peer(handoff, outlet);
    if (other || foreign || (in && handoff->complete)) {
        engine->figures.n_stale_dropped++;
        return;
    }
    handoff_note(engine, NOTE_TRANSFER_ENDED, sequence, reason_name(reason));
    handoff_end(engine, sequence, REASON_NONE);
    retire_fail(engine, sequence, reason);
}

void handoff_link_message(struct engine *engine, struct outlet *outlet,
                          const struct message *message) {
    bool in = outlet->kind == OUTLET_KV_IN;
    if (message->type == MESSAGE_CHUNK && in)
        handoff_in_chunk(engine, outlet, &message->u.chunk);
    else if (message->type == MESSAGE_COMMIT && in)
        handoff_in_commit(engine, outlet, &message->u.commit);
    else if (message->type == MESSAGE_CHUNK_ACK && !in)
        handoff_out_chunk_ack(engine, outlet, &message->u.chunk_ack);
    else if (message->type == MESSAGE_COMMIT_ACK && !in)
        handoff_out_commit_ack(engine, outlet, &message->u.transfer_end);
    else if (message->type == MESSAGE_ABORT)
        take_abort(engine, outlet, &message->u.transfer_end);
    else if (message->type != MESSAGE_FENCED) /* nobody waits for it: we execute our own copies */
        engine->figures.n_stale_dropped++;
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
            retire_end(engine, sequence, sequence->finish);
        else
            retire_fail(engine, sequence, REASON_TRANSFER);
    }
}
