#include "worker/core/handoff_link.h"

#include "worker/core/handoff.h"
#include "worker/core/handoff_in.h"
#include "worker/core/handoff_out.h"
#include "worker/core/post.h"
#include "worker/core/retire.h"

/* The other side ends a transfer. */
static void handoff_take_abort(struct engine *engine, struct peer_link *peer_link,
                               const struct transfer_end *end) {
    bool in = peer_link->kind == PEER_LINK_KV_IN;
    struct sequence *sequence = in ? handoff_find(engine, HANDOFF_IN, end->gen)
                                   : handoff_find(engine, HANDOFF_OUT, end->transfer_id);
    enum reason reason =
        end->reason == REASON_NONE || end->reason >= REASON_COUNT ? REASON_TRANSFER : end->reason;
    post_transfer_end(engine, peer_link, MESSAGE_FENCED, end->transfer_id, end->gen, REASON_NONE);
    if (!sequence)
        return;
    struct handoff *handoff = &sequence->handoff;
    /* Another's end, or one that comes too late: after the commit the sender is not needed. */
    bool other =
        in ? handoff->bound && handoff->transfer_id != end->transfer_id : handoff->gen != end->gen;
    bool foreign = handoff->peer_link != PEER_LINK_NONE
                       ? handoff->peer_link != peer_link_index(&engine->peer_links, peer_link)
                       : (!in || handoff->submitted) && !handoff_is_peer(handoff, peer_link);
    if (other || foreign || (in && handoff->complete)) {
        engine->figures.n_stale_dropped++;
        return;
    }
    handoff_note(engine, NOTE_TRANSFER_ENDED, sequence, reason_name(reason));
    handoff_end(engine, sequence, REASON_NONE);
    retire_fail(engine, sequence, reason);
}

void handoff_link_message(struct engine *engine, struct peer_link *peer_link,
                          const struct message *message) {
    bool in = peer_link->kind == PEER_LINK_KV_IN;
    if (message->type == MESSAGE_CHUNK && in)
        handoff_in_chunk(engine, peer_link, &message->u.chunk);
    else if (message->type == MESSAGE_COMMIT && in)
        handoff_in_commit(engine, peer_link, &message->u.commit);
    else if (message->type == MESSAGE_CHUNK_ACK && !in)
        handoff_out_chunk_ack(engine, peer_link, &message->u.chunk_ack);
    else if (message->type == MESSAGE_COMMIT_ACK && !in)
        handoff_out_commit_ack(engine, peer_link, &message->u.transfer_end);
    else if (message->type == MESSAGE_ABORT)
        handoff_take_abort(engine, peer_link, &message->u.transfer_end);
    else if (message->type != MESSAGE_FENCED) /* nothing waits for it: we execute our own copies */
        engine->figures.n_stale_dropped++;
}

uint32_t handoff_link_lost(struct engine *engine, struct peer_link *peer_link) {
    struct list *first;
    uint32_t n_ended = 0;
    peer_link->ready = false;
    for (; (first = list_first(&peer_link->transfers)) != NULL; n_ended++) {
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
    return n_ended;
}
