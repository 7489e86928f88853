#include "worker/core/handoff_out.h"

#include "worker/core/handoff.h"
#include "worker/core/post.h"
#include "worker/core/retire.h"

#include <string.h>

static const struct peer *handoff_find_peer(const struct peer_link *router,
                                            const struct handoff *handoff) {
    for (uint32_t i = 0; i < router->n_peers; i++)
        if (router->peers[i].incarnation == handoff->peer_incarnation &&
            strcmp(router->peers[i].name, handoff->peer) == 0)
            return &router->peers[i];
    return NULL;
}

/* The link to the receiving worker, opened if there is none yet. STATUS_BUSY: later. */
static enum status handoff_find_link(struct engine *engine, const struct peer_link *router,
                                     const struct handoff *handoff, struct peer_link **peer_link) {
    *peer_link = peer_link_find_kv(&engine->peer_links, PEER_LINK_KV_OUT, handoff->peer,
                                   handoff->peer_incarnation);
    if (*peer_link)
        return STATUS_OK;
    const struct peer *peer = handoff_find_peer(router, handoff);
    if (!peer)
        return STATUS_NOT_FOUND;
    uint32_t link;
    TRY(engine->sink.open_kv(engine->sink.context, peer, &link));
    *peer_link = peer_link_take(&engine->peer_links, PEER_LINK_KV_OUT, link);
    if (!*peer_link) {
        engine->sink.close_link(engine->sink.context, link);
        return STATUS_LIMIT;
    }
    memcpy((*peer_link)->name, handoff->peer, sizeof(*peer_link)->name);
    (*peer_link)->incarnation = handoff->peer_incarnation;
    return STATUS_OK;
}

static enum status handoff_join_link(struct engine *engine, const struct peer_link *router,
                                     struct sequence *sequence) {
    struct peer_link *peer_link;
    enum status status = handoff_find_link(engine, router, &sequence->handoff, &peer_link);
    if (status != STATUS_OK)
        return status;
    sequence->handoff.peer_link = peer_link_index(&engine->peer_links, peer_link);
    list_remove(&sequence->of_link);
    list_push_back(&peer_link->transfers, &sequence->of_link);
    return STATUS_OK;
}

enum status handoff_out_submit(struct engine *engine, const struct peer_link *router,
                               struct sequence *sequence, const struct submit *submit) {
    const struct xfer *xfer = &submit->xfer;
    struct handoff *handoff = &sequence->handoff;
    if (xfer->cached_tokens % engine->config.block_tokens != 0 ||
        xfer->cached_tokens > submit->n_tokens)
        return STATUS_INVALID;
    TRY(handoff_register(engine, HANDOFF_OUT, xfer->transfer_id, sequence));
    handoff->side = HANDOFF_OUT;
    handoff->peer_link = PEER_LINK_NONE;
    handoff->transfer_id = xfer->transfer_id;
    handoff->gen = xfer->gen;
    handoff->first_block = xfer->cached_tokens / engine->config.block_tokens;
    handoff->n_blocks = engine_blocks_for(engine, submit->n_tokens);
    memcpy(handoff->peer, xfer->peer, sizeof handoff->peer);
    handoff->peer[sizeof handoff->peer - 1] = 0;
    handoff->peer_incarnation = xfer->peer_incarnation;
    for (uint32_t g = 0; g < engine->n_groups; g++)
        handoff->pushed[g] = handoff->first_block;
    /* The link is opened now, so that it is there when the first blocks are. */
    enum status status = handoff_join_link(engine, router, sequence);
    if (status == STATUS_BUSY) {
        list_push_back(&engine->linkless, &sequence->of_link);
        engine_retry(engine);
        status = STATUS_OK;
    }
    return status;
}

void handoff_out_open_links(struct engine *engine) {
    list_each_entry(sequence, &engine->linkless, struct sequence, of_link) {
        const struct peer_link *router = &engine->peer_links.links[sequence->peer_link];
        enum status status = handoff_join_link(engine, router, sequence);
        if (status == STATUS_BUSY)
            engine_retry(engine);
        else if (status != STATUS_OK)
            retire_fail(engine, sequence, REASON_TRANSFER);
    }
}

/* Blocks of the prompt, counted from the first, whose KV of group g's layers is in the pool. The
 * last block counts once the whole prompt is computed, so that it is pushed once. */
static uint32_t handoff_ready_blocks(const struct engine *engine, const struct sequence *sequence,
                                     uint32_t group) {
    const struct handoff *handoff = &sequence->handoff;
    if (sequence->state == SEQUENCE_SENDING)
        return handoff->n_blocks;
    uint32_t n_tokens = sequence->n_computed;
    if (sequence->n_steps > 0 && engine->groups[group + 1] <= engine->layers_ready)
        n_tokens = sequence->n_in_step;
    if (n_tokens == sequence->n_tokens)
        return handoff->n_blocks;
    return n_tokens / engine->config.block_tokens;
}

static void handoff_begin_window(const struct engine *engine, struct peer_link *peer_link) {
    peer_link->window_left = peer_link->credits;
    peer_link->window_ns = engine->now_ns;
    peer_link->window_full = false;
}

void handoff_out_open(struct peer_link *peer_link, uint32_t credits) {
    peer_link->credits_max = credits > 0 ? credits : 1;
    peer_link->credits = credits < ENGINE_CREDITS ? peer_link->credits_max : ENGINE_CREDITS;
}

/* n chunks more were acknowledged. */
static void handoff_grow_window(const struct engine *engine, struct peer_link *peer_link,
                                uint32_t n) {
    peer_link->window_left -= n < peer_link->window_left ? n : peer_link->window_left;
    if (peer_link->window_left > 0)
        return;
    bool quick = engine->now_ns - peer_link->window_ns <= ENGINE_WINDOW_NS;
    if (quick && peer_link->window_full)
        peer_link->credits = peer_link->credits < peer_link->credits_max / 2
                                 ? 2 * peer_link->credits
                                 : peer_link->credits_max;
    handoff_begin_window(engine, peer_link);
}

/* Pushes the next piece of a group, as large as fits a chunk. */
static enum status handoff_push_piece(struct engine *engine, struct peer_link *peer_link,
                                      struct sequence *sequence, uint32_t group, uint32_t n_ready) {
    struct handoff *handoff = &sequence->handoff;
    uint32_t n_layers = engine->groups[group + 1] - engine->groups[group];
    uint32_t n_max = engine->config.chunk_bytes / (engine->config.block_bytes * n_layers);
    uint32_t begin = handoff->pushed[group];
    uint32_t end = n_ready - begin > n_max ? begin + n_max : n_ready;
    struct chunk chunk = {
        .transfer_id = handoff->transfer_id,
        .gen = handoff->gen,
        .index = handoff->n_pushed,
        .layer_begin = engine->groups[group],
        .layer_end = engine->groups[group + 1],
        .block_begin = begin,
        .block_end = end,
    };
    enum status status = engine->sink.push_chunk(engine->sink.context, peer_link->link, &chunk,
                                                 sequence->blocks + begin);
    if (status != STATUS_OK)
        return status;
    if (handoff->begin_ns == 0)
        handoff->begin_ns = engine->now_ns;
    handoff->pushed[group] = end;
    handoff->n_pushed++;
    if (peer_link->n_in_flight++ == 0)
        handoff_begin_window(engine, peer_link);
    engine->figures.handoff_bytes +=
        (uint64_t)(end - begin) * n_layers * engine->config.block_bytes;
    return STATUS_OK;
}

static enum status handoff_send_commit(struct engine *engine, struct peer_link *peer_link,
                                       struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    uint32_t last = sequence->n_tokens - 1; /* token 0: the one sampled here */
    struct message message = {.type = MESSAGE_COMMIT};
    struct commit *commit = &message.u.commit;
    *commit = (struct commit){
        .transfer_id = handoff->transfer_id,
        .gen = handoff->gen,
        .req = sequence->req,
        .attempt = sequence->attempt,
        .n_tokens = last,
        .n_chunks = handoff->n_pushed,
        .first_index = last - sequence->n_prompt,
        .first_token = sequence->ids[last],
        .finish = sequence->finish,
        .has_logprobs = sequence->sampling.want_logprobs,
        .cached_tokens = sequence->cached_tokens,
    };
    if (commit->has_logprobs)
        commit->logprobs = sequence->logprobs[last % SEQUENCE_LOGPROBS_MAX];
    enum status status = engine->sink.send(engine->sink.context, peer_link->link, &message);
    if (status != STATUS_OK)
        return status;
    if (handoff->begin_ns == 0)
        handoff->begin_ns = engine->now_ns;
    handoff->commit_sent = true;
    return STATUS_OK;
}

/* STATUS_BUSY: nothing more goes to this link now. */
static enum status handoff_pump_sequence(struct engine *engine, struct peer_link *peer_link,
                                         struct sequence *sequence) {
    struct handoff *handoff = &sequence->handoff;
    bool all = true;
    if (handoff->commit_sent || sequence->dead)
        return STATUS_OK;
    for (uint32_t g = 0; g < engine->n_groups; g++) {
        uint32_t n_ready = handoff_ready_blocks(engine, sequence, g);
        while (handoff->pushed[g] < n_ready) {
            if (peer_link->n_in_flight >= peer_link->credits) {
                peer_link->window_full = true;
                return STATUS_BUSY; /* an acknowledgement will come */
            }
            enum status status = handoff_push_piece(engine, peer_link, sequence, g, n_ready);
            if (status == STATUS_BUSY)
                engine_retry(engine);
            if (status != STATUS_OK)
                return status;
        }
        all = all && handoff->pushed[g] == handoff->n_blocks;
    }
    if (!all || sequence->state != SEQUENCE_SENDING)
        return STATUS_OK;
    enum status status = handoff_send_commit(engine, peer_link, sequence);
    if (status == STATUS_BUSY)
        engine_retry(engine);
    return status;
}

void handoff_out_push(struct engine *engine, struct peer_link *peer_link) {
    if (!peer_link->ready || peer_link->broken || peer_link->kind != PEER_LINK_KV_OUT)
        return;
    list_each_entry(sequence, &peer_link->transfers, struct sequence, of_link) {
        enum status status = handoff_pump_sequence(engine, peer_link, sequence);
        if (status == STATUS_BUSY)
            return;
        if (status != STATUS_OK) {
            peer_link_break(&engine->peer_links, peer_link, "cannot_send");
            return;
        }
    }
}

void handoff_out_push_all(struct engine *engine) {
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++)
        if (engine->peer_links.links[i].kind == PEER_LINK_KV_OUT)
            handoff_out_push(engine, &engine->peer_links.links[i]);
}

/* The transfer that the receiver speaks of; otherwise it is told that there is none. */
static struct sequence *handoff_find_outgoing(struct engine *engine, struct peer_link *peer_link,
                                              uint64_t transfer_id, uint32_t gen) {
    struct sequence *sequence = handoff_find(engine, HANDOFF_OUT, transfer_id);
    if (sequence && sequence->handoff.gen == gen &&
        sequence->handoff.peer_link == peer_link_index(&engine->peer_links, peer_link))
        return sequence;
    engine->figures.n_stale_dropped++;
    post_transfer_end(engine, peer_link, MESSAGE_ABORT, transfer_id, gen, REASON_UNKNOWN);
    return NULL;
}

void handoff_out_chunk_ack(struct engine *engine, struct peer_link *peer_link,
                           const struct chunk_ack *ack) {
    struct sequence *sequence =
        handoff_find_outgoing(engine, peer_link, ack->transfer_id, ack->gen);
    if (!sequence) {
        engine->pump_due = true; /* for any sequence: the shell has room for what waits */
        return;
    }
    struct handoff *handoff = &sequence->handoff;
    if (ack->n_done > handoff->n_pushed) {
        retire_fail(engine, sequence, REASON_TRANSFER); /* acknowledges what was never sent */
        return;
    }
    /* Absolute counts: an old or repeated acknowledgement changes nothing. */
    if (ack->n_done > handoff->n_acked) {
        uint32_t n = ack->n_done - handoff->n_acked;
        peer_link->n_in_flight -= n;
        handoff->n_acked = ack->n_done;
        handoff_grow_window(engine, peer_link, n);
    }
    handoff_out_push(engine, peer_link);
}

void handoff_out_done(struct engine *engine, struct sequence *sequence) {
    engine->figures.n_handoffs_out++;
    handoff_note(engine, NOTE_HANDED_OVER, sequence, NULL);
    handoff_end(engine, sequence, REASON_NONE);
    retire_end(engine, sequence, sequence->finish);
}

void handoff_out_commit_ack(struct engine *engine, struct peer_link *peer_link,
                            const struct transfer_end *end) {
    /* Forgotten meanwhile by the router, who heard of it first: both sides are done. */
    if (!handoff_find(engine, HANDOFF_OUT, end->transfer_id))
        return;
    struct sequence *sequence =
        handoff_find_outgoing(engine, peer_link, end->transfer_id, end->gen);
    if (!sequence)
        return;
    if (!sequence->handoff.commit_sent) {
        retire_fail(engine, sequence, REASON_TRANSFER);
        return;
    }
    handoff_out_done(engine, sequence);
    handoff_out_push(engine, peer_link);
}
