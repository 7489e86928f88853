#include "router/core/stream.h"

#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/finish.h"
#include "router/core/fleet.h"
#include "router/core/liveness.h"
#include "router/core/note.h"
#include "router/core/pairs.h"
#include "router/core/part.h"
#include "router/core/replay.h"
#include "router/core/trust.h"

#include <string.h>

#define RESEND_NS (200 * NS_PER_MS)

enum turn stream_request(struct router *router, struct request *req) {
    (void)router;
    return req->state == REQUEST_ENDING ? TURN_NEXT : TURN_WAIT;
}

void stream_resend(struct router *router, struct slot *slot, struct request *req) {
    if (req->resend_ns != 0 && router->now_ns - req->resend_ns < RESEND_NS)
        return;
    req->resend_ns = router->now_ns;
    router->stats.n_resends++;
    struct message message = {.type = MESSAGE_RESEND};
    message.u.resend =
        (struct resend){.req = req->id, .attempt = req->attempt, .from = req->n_emitted};
    fleet_send(router, slot, &message);
}

/* The decode worker speaks: it has the Commit, so the prefill worker's part is over. */
static void stream_decode_began(struct router *router, struct request *req) {
    req->verdict_ns = 0;
    if (req->prefill.slot == SLOT_NONE)
        return;
    pairs_worked(router, req);
    trust_answered(router, &req->prefill);
    fleet_forget(router, &router->fleet.slots[req->prefill.slot],
                 (struct attempt_id){.req = req->id, .attempt = req->attempt});
    part_leave(router, &req->prefill);
}

/* Hands tokens [n_emitted, ...) to the client; the replay log is the spec's own token array. */
static void stream_emit(struct router *router, struct slot *slot, struct request *req,
                        const struct step_entry *entry, uint32_t skip, uint32_t n) {
    memcpy(req->spec.tokens + request_n_tokens(req), entry->tokens + skip,
           n * sizeof *entry->tokens);
    if (req->n_emitted == 0)
        req->first_token_ns = router->now_ns;
    if (req->attempt == 1 && entry->cached_tokens > req->first_cached_tokens)
        req->first_cached_tokens =
            entry->cached_tokens < req->spec.n_prompt ? entry->cached_tokens : req->spec.n_prompt;
    struct token_run run = {
        .first_index = req->n_emitted,
        .n_tokens = n,
        .tokens = entry->tokens + skip,
        .logprobs = entry->logprobs ? entry->logprobs + skip : NULL,
    };
    req->n_emitted += n;
    router->stats.n_tokens += n;
    turns_charge(&router->turns, req, n);
    part_advanced(router, req);
    req->computing = false;
    req->resend_ns = 0;
    req->has_numerics = true;
    memcpy(req->numerics, slot->welcome.numerics_fp, FINGERPRINT_BYTES);
    replay_reset_losses(router, req);
    router->sink.tokens(router->sink.context, req->spec.user, &run);
}

static bool stream_has_logprobs_beyond(const struct step_entry *entry, uint32_t n_vocab) {
    for (uint32_t i = 0; i < entry->n_tokens; i++) {
        const struct token_logprobs *of = &entry->logprobs[i];
        for (uint32_t k = 0; k < of->n_top; k++) {
            if (of->top_ids[k] >= n_vocab)
                return true;
        }
    }
    return false;
}

/* Ids that the vocabulary has, no more of them than were asked for, and an end that has a reason. */
static bool stream_is_possible(const struct router *router, const struct slot *slot,
                               const struct request *req, const struct step_entry *entry) {
    uint32_t n_vocab = router->config.n_vocab, max_new = req->spec.sampling.max_new;
    if (entry->first_index > max_new || entry->n_tokens > max_new - entry->first_index)
        return false;
    for (uint32_t i = 0; i < entry->n_tokens; i++) {
        if (entry->tokens[i] >= n_vocab)
            return false;
    }
    if (entry->logprobs && stream_has_logprobs_beyond(entry, n_vocab))
        return false;
    uint32_t n_after = entry->first_index + entry->n_tokens;
    if (entry->finish == FINISH_STOP)
        return n_after > 0;
    return entry->finish != FINISH_LENGTH || n_after == max_new ||
           req->spec.n_prompt + n_after >= slot->welcome.context;
}

static void stream_take_entry(struct router *router, struct slot *slot,
                              const struct step_entry *entry) {
    struct request *req = request_find(&router->requests, entry->req.lo);
    struct part *part = req ? request_part(req, slot->number) : NULL;
    if (!part || entry->req.hi != router->config.router_id || entry->attempt != req->attempt ||
        req->state != REQUEST_RUNNING) {
        router->stats.n_stale_dropped++;
        return;
    }
    part_reflected(router, slot, part);
    if (part == &req->decode)
        stream_decode_began(router, req);
    if (!stream_is_possible(router, slot, req, entry)) {
        trust_failed(router, req, slot, "impossible_tokens", true);
        replay_lost(router, req, slot, LOSS_FAILED);
        return;
    }
    if (entry->first_index > req->n_emitted) {
        stream_resend(router, slot, req);
        return;
    }
    uint32_t skip = req->n_emitted - entry->first_index;
    enum finish finish = entry->finish;
    if (skip < entry->n_tokens) {
        uint32_t n = entry->n_tokens - skip;
        if (req->spec.sampling.want_logprobs && !entry->logprobs) {
            note_request(router, NOTE_NO_LOGPROBS, req, slot);
            trust_failed(router, req, slot, "no_logprobs", false);
            replay_lost(router, req, slot, LOSS_FAILED);
            return;
        }
        stream_emit(router, slot, req, entry, skip, n);
        trust_tokens(router, part, n);
        if (finish == FINISH_NONE && req->n_emitted == req->spec.sampling.max_new)
            finish = FINISH_LENGTH;
    } else if (skip > entry->n_tokens) {
        return; /* all of it is old, its end too */
    }
    bool by_context = finish == FINISH_LENGTH && req->n_emitted < req->spec.sampling.max_new;
    if (finish == FINISH_ERROR)
        replay_unusable(router, req, slot);
    else if (by_context && trust_another(router, req))
        replay_outgrown(router, req, slot);
    else if (finish != FINISH_NONE)
        finish_done(router, req, finish, slot->number);
}

void stream_step(struct router *router, struct slot *slot, const struct step *step) {
    liveness_load(router, slot, &step->load);
    for (uint32_t i = 0; i < step->n; i++)
        stream_take_entry(router, slot, &step->entries[i]);
}
