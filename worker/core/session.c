#include "worker/core/session.h"

#include "worker/core/constrain.h"
#include "worker/core/flush.h"
#include "worker/core/handoff_in.h"
#include "worker/core/handoff_out.h"
#include "worker/core/note.h"
#include "worker/core/post.h"
#include "worker/core/reserve.h"
#include "worker/core/retire.h"

#include <string.h>

void session_drop(struct engine *engine, struct peer_link *peer_link) {
    struct list *first;
    while ((first = list_first(&peer_link->sequences)) != NULL)
        retire_drop(engine, list_entry(first, struct sequence, of_session), REASON_CANCELLED);
    peer_link_give(&engine->peer_links, peer_link);
}

/* The older session of the same router, if there is one on another link. */
static struct peer_link *session_older_session(struct engine *engine, uint64_t router_id) {
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++) {
        struct peer_link *peer_link = &engine->peer_links.links[i];
        if (peer_link->kind == PEER_LINK_ROUTER && peer_link->router_id == router_id)
            return peer_link;
    }
    return NULL;
}

void session_hello(struct engine *engine, uint32_t link, const struct message *message) {
    const struct hello *hello = &message->u.hello;
    struct peer_link *peer_link = peer_link_find(&engine->peer_links, link);
    if (peer_link && peer_link->kind == PEER_LINK_ROUTER && peer_link->session == hello->session)
        return; /* said before */
    if (peer_link && peer_link->kind != PEER_LINK_ROUTER) {
        post_reset(engine, link, hello->session, REASON_INVALID);
        return;
    }
    if (hello->major != PROTO_MAJOR) {
        post_reset(engine, link, hello->session, REASON_MISMATCH);
        return;
    }
    if (peer_link)
        session_drop(engine, peer_link);
    peer_link = session_older_session(engine, hello->router_id);
    if (peer_link) {
        uint32_t old_link = peer_link->link;
        session_drop(engine, peer_link);
        engine->sink.close_link(engine->sink.context, old_link);
    }
    peer_link = peer_link_take(&engine->peer_links, PEER_LINK_ROUTER, link);
    if (!peer_link) {
        post_reset(engine, link, hello->session, REASON_BUSY);
        return;
    }
    if (engine->contested_router == hello->router_id)
        engine->is_contested = false; /* it looks at us again: the other one is gone */
    peer_link->session = hello->session;
    peer_link->router_id = hello->router_id;
    memcpy(peer_link->name, hello->name, sizeof peer_link->name);
    peer_link->name[sizeof peer_link->name - 1] = 0;
    peer_link->heard_ns = engine->now_ns;
    peer_link->seen_seq = message->seq;
    peer_link->beat_ns = engine->now_ns;
    peer_link->digest_ns = engine->now_ns + 1000000000ull;
    peer_link->welcome_due = true;
    flush_all(engine);
}

/* This session's sequence of a request, or NULL. */
static struct sequence *session_find_own(struct engine *engine, const struct peer_link *peer_link,
                                         struct request_id req) {
    struct sequence *sequence = sequence_find(&engine->sequences, req);
    if (sequence && sequence->peer_link != peer_link_index(&engine->peer_links, peer_link))
        return NULL;
    return sequence;
}

/* A new sequence of this worker's own: PREFILL or BOTH. */
static enum reason session_submit_new(struct engine *engine, struct peer_link *peer_link,
                                      const struct submit *submit) {
    if (engine->draining)
        return REASON_DRAINING;
    if (submit->n_tokens >= engine->context)
        return REASON_TOO_LONG;
    if (sequence_find(&engine->sequences, submit->req))
        return REASON_INVALID; /* another session's */
    struct sequence *sequence = sequence_take(&engine->sequences, submit->req, submit->attempt);
    if (!sequence)
        return REASON_BUSY;
    sequence_fill(&engine->sequences, sequence, submit, engine_variant(engine, submit->n_prompt),
                  engine->now_ns);
    peer_link_adopt(&engine->peer_links, peer_link, sequence);
    if (submit->phase == PHASE_PREFILL) {
        enum status status = handoff_out_submit(engine, peer_link, sequence, submit);
        if (status != STATUS_OK) {
            retire_drop(engine, sequence, REASON_NONE);
            return status == STATUS_INVALID ? REASON_INVALID : REASON_TRANSFER;
        }
    }
    enum reason reason = constrain_begin(engine, sequence, submit);
    if (reason != REASON_NONE) {
        retire_drop(engine, sequence, REASON_NONE);
        return reason;
    }
    note_sequence(engine, NOTE_SUBMITTED, sequence, NULL, submit->n_prompt, submit->n_tokens);
    constrain_enter(engine, sequence);
    return REASON_NONE;
}

static void session_submit_request(struct engine *engine, struct peer_link *peer_link,
                                   const struct submit *submit) {
    struct sequence *sequence = session_find_own(engine, peer_link, submit->req);
    enum reason reason = REASON_NONE;
    if (sequence && submit->attempt < sequence->attempt)
        reason = REASON_STALE;
    else if (tombstones_has(&engine->tombstones, submit->req, submit->attempt))
        reason = REASON_CANCELLED;
    if (reason == REASON_NONE && sequence && submit->attempt > sequence->attempt) {
        retire_drop(engine, sequence, REASON_STALE);
        sequence = NULL;
    }
    if (reason == REASON_NONE && sequence && submit->phase == PHASE_DECODE) {
        handoff_in_submit(engine, peer_link, submit);
        return;
    }
    if (reason == REASON_NONE && sequence)
        return; /* said before */
    if (reason == REASON_NONE && sequence_check_submit(submit, engine->config.n_vocab) != STATUS_OK)
        reason = REASON_INVALID;
    if (reason == REASON_NONE && submit->phase == PHASE_DECODE)
        reason = REASON_UNKNOWN;
    if (reason == REASON_NONE)
        reason = session_submit_new(engine, peer_link, submit);
    if (reason != REASON_NONE) {
        note_submit_refused(engine, peer_link, submit, reason);
        post_failed(engine, peer_link, submit->req, submit->attempt, submit->phase, reason);
    }
}

/* What comes late of this attempt is refused. Ids carry their router's number, so none can end
 * another's requests. */
static void session_leave_tombstone(struct engine *engine, const struct peer_link *peer_link,
                                    struct request_id req, uint32_t attempt) {
    if (req.hi == peer_link->router_id)
        tombstones_add(&engine->tombstones, req, attempt);
}

static void session_forget(struct engine *engine, struct peer_link *peer_link,
                           const struct forget *message) {
    for (uint32_t i = 0; i < message->n && i < MESSAGE_ENTRIES_MAX; i++) {
        struct sequence *sequence = session_find_own(engine, peer_link, message->attempts[i].req);
        bool found = sequence && sequence->attempt == message->attempts[i].attempt;
        /* The router has heard the receiver decode: as good as its acknowledgement. */
        if (found && sequence->handoff.side == HANDOFF_OUT && sequence->handoff.commit_sent)
            handoff_out_done(engine, sequence);
        if (found)
            retire_drop(engine, sequence, REASON_CANCELLED);
        session_leave_tombstone(engine, peer_link, message->attempts[i].req,
                                message->attempts[i].attempt);
    }
}

static void session_resend(struct engine *engine, struct peer_link *peer_link,
                           const struct resend *message) {
    struct sequence *sequence = session_find_own(engine, peer_link, message->req);
    if (!sequence || sequence->attempt != message->attempt) {
        post_failed(engine, peer_link, message->req, message->attempt, PHASE_DECODE,
                    REASON_UNKNOWN);
        return;
    }
    /* Not decoding yet: there is nothing to repeat. */
    if (sequence->state == SEQUENCE_RESERVED || sequence->state == SEQUENCE_FILLING)
        return;
    uint32_t from = message->from > sequence->n_tokens - sequence->n_prompt
                        ? sequence->n_tokens
                        : sequence->n_prompt + message->from;
    if (from < sequence->n_sent)
        sequence->n_sent = from;
    sequence->finish_sent = false;
    if (sequence->n_sent < sequence->n_tokens || sequence->finish != FINISH_NONE)
        peer_link_mark(&engine->peer_links, sequence);
    engine->flush_due = true;
}

static void session_cancel(struct engine *engine, struct peer_link *peer_link,
                           const struct cancel *message) {
    struct sequence *sequence = session_find_own(engine, peer_link, message->req);
    if (sequence && sequence->attempt <= message->attempt)
        retire_drop(engine, sequence, REASON_CANCELLED);
    session_leave_tombstone(engine, peer_link, message->req, message->attempt);
    /* Also where there is nothing: the router wants to know that nothing is left. */
    struct post post = {.type = MESSAGE_CANCELLED};
    post.u.cancel = *message;
    peer_link_post(&engine->peer_links, peer_link, &engine->sink, &post);
}

/* The router serves others, not this worker. */
static void session_take_reset(struct engine *engine, struct peer_link *peer_link,
                               const struct reset *reset) {
    if (reset->refusal != REFUSAL_NONE)
        note_peer_link(engine, NOTE_SESSION_REFUSED, peer_link, refusal_name(reset->refusal));
    if (reset->refusal == REFUSAL_NAME) {
        engine->is_contested = true;
        engine->contested_router = peer_link->router_id;
        engine->contested = *reset;
    }
    peer_link_break(&engine->peer_links, peer_link,
                    reset->refusal == REFUSAL_NONE ? "reset" : NULL);
}

static void session_take_peers(struct peer_link *peer_link, const struct peers *message) {
    peer_link->n_peers = message->n < MESSAGE_PEERS_MAX ? message->n : MESSAGE_PEERS_MAX;
    for (uint32_t i = 0; i < peer_link->n_peers; i++) {
        peer_link->peers[i] = message->peers[i];
        peer_link->peers[i].name[MESSAGE_NAME_MAX - 1] = 0;
    }
}

static void session_drain(struct engine *engine, const struct drain *message) {
    if (message->order == DRAIN_UNDO) {
        if (!engine->draining || engine->ending)
            return;
        engine->draining = false;
        engine->drain_ns = 0;
        flush_beats(engine); /* routers look for READY */
        return;
    }
    if (message->order == DRAIN_EXIT)
        engine->ending = true;
    if (message->deadline_ms > 0) {
        uint64_t at = engine->now_ns + message->deadline_ms * 1000000ull;
        if (engine->drain_ns == 0 || at < engine->drain_ns)
            engine->drain_ns = at;
    }
    if (engine->draining)
        return;
    engine->draining = true;
    flush_beats(engine);
}

void session_message(struct engine *engine, struct peer_link *peer_link,
                     const struct message *message) {
    if (message->session != peer_link->session) {
        post_reset(engine, peer_link->link, message->session, REASON_STALE);
        return;
    }
    peer_link->heard_ns = engine->now_ns;
    peer_link->seen_seq = message->seq;
    switch (message->type) {
    case MESSAGE_PEERS:
        session_take_peers(peer_link, &message->u.peers);
        break;
    case MESSAGE_PING:
        peer_link->ping_t_ns = message->u.ping.t_ns;
        peer_link->beat_ns = engine->now_ns; /* answered at once: the router measures the way */
        engine->flush_due = true;
        break;
    case MESSAGE_RESERVE:
        reserve_request(engine, peer_link, &message->u.reserve);
        break;
    case MESSAGE_SUBMIT:
        session_submit_request(engine, peer_link, &message->u.submit);
        break;
    case MESSAGE_FORGET:
        session_forget(engine, peer_link, &message->u.forget);
        break;
    case MESSAGE_RESEND:
        session_resend(engine, peer_link, &message->u.resend);
        break;
    case MESSAGE_CANCEL:
        session_cancel(engine, peer_link, &message->u.cancel);
        break;
    case MESSAGE_DRAIN:
        session_drain(engine, &message->u.drain);
        break;
    case MESSAGE_RESET:
        session_take_reset(engine, peer_link, &message->u.reset);
        break;
    default: /* not a router's to send */
        engine->figures.n_stale_dropped++;
        break;
    }
}
