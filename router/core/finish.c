#include "router/core/finish.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/part.h"
#include "router/core/queue.h"
#include "router/core/trust.h"

static void finish_release_part(struct router *router, struct request *req, struct part *part,
                                uint32_t ended_by) {
    if (part->slot == SLOT_NONE)
        return;
    struct slot *slot = &router->fleet.slots[part->slot];
    struct attempt_id attempt = {.req = req->id, .attempt = req->attempt};
    if (part->slot == ended_by)
        fleet_forget(router, slot, attempt);
    else if (part->sent_seq != UINT64_MAX)
        fleet_cancel(router, slot, attempt, REASON_CANCELLED);
    part_leave(router, part);
}

void finish_alone(struct router *router, const struct request *req) {
    if (router->alone != req->index)
        return;
    router->alone = SLOT_NONE;
    router->alone_slot = SLOT_NONE;
    router->queue_due = true;
}

void finish_release(struct router *router, struct request *req, uint32_t ended_by) {
    finish_alone(router, req);
    finish_release_part(router, req, &req->prefill, ended_by);
    finish_release_part(router, req, &req->decode, ended_by);
}

/* Its outcome is decided: the end of this event runs the last stage. */
static void finish_end_request(struct router *router, struct request *req, uint32_t ended_by) {
    ASSERT(req->state != REQUEST_ENDING);
    if (req->state == REQUEST_WAITING)
        queue_remove(router, req);
    req->state = REQUEST_ENDING;
    finish_release(router, req, ended_by);
    timers_set(&router->timers, req->index, TIMERS_NEVER);
    req->outcome.stage = req->stage;
    req->stage = STAGE_FINISH;
    list_push_back(&router->ending, &req->link);
}

void finish_error(struct router *router, struct request *req, enum status status,
                  enum reason reason) {
    req->outcome.kind = req->n_emitted > 0 ? END_FAILED : END_REFUSED;
    if (status == STATUS_TIMEOUT && req->state != REQUEST_WAITING)
        req->outcome.kind = END_FAILED; /* it had begun */
    req->outcome.status = status;
    req->outcome.reason = reason;
    finish_end_request(router, req, SLOT_NONE);
}

void finish_done(struct router *router, struct request *req, enum finish finish, uint32_t slot) {
    req->outcome.kind = END_DONE;
    req->outcome.finish = finish;
    /* With a prefill part left, its worker's token was all of the answer. */
    struct part *answered = req->prefill.slot != SLOT_NONE ? &req->prefill : &req->decode;
    if (answered->slot != SLOT_NONE)
        trust_answered(router, answered);
    finish_end_request(router, req, slot);
}

void finish_unplaced(struct router *router, struct request *req, enum status status,
                     enum reason reason) {
    if (req->outgrown)
        finish_done(router, req, FINISH_LENGTH, SLOT_NONE);
    else
        finish_error(router, req, status, reason);
}

void finish_cancelled(struct router *router, struct request *req) {
    req->outcome.kind = END_CANCELLED;
    req->outcome.reason = REASON_CANCELLED;
    finish_end_request(router, req, SLOT_NONE);
}

static void finish_count(struct router_stats *stats, enum end_kind kind) {
    uint64_t *const counts[] = {[END_DONE] = &stats->n_completed,
                                [END_CANCELLED] = &stats->n_cancelled,
                                [END_REFUSED] = &stats->n_refused,
                                [END_FAILED] = &stats->n_failed};
    ++*counts[kind];
}

enum turn finish_request(struct router *router, struct request *req) {
    ASSERT(req->state == REQUEST_ENDING);
    struct request_end end = req->outcome;
    end.n_emitted = req->n_emitted;
    end.cached_tokens = req->first_cached_tokens;
    end.n_replays = req->n_replays;
    uint64_t left_queue_ns = req->dispatched_ns != 0 ? req->dispatched_ns : router->now_ns;
    uint64_t submitted_ns = req->submitted_ns != 0 ? req->submitted_ns : router->now_ns;
    end.queued_ns = left_queue_ns - req->admitted_ns;
    end.dispatch_ns = submitted_ns - left_queue_ns;
    end.first_token_ns = req->first_token_ns != 0 ? req->first_token_ns - req->admitted_ns : 0;
    end.attempt = (struct attempt_id){.req = req->id, .attempt = req->attempt};
    finish_count(&router->stats, req->outcome.kind);
    uint64_t user = req->spec.user;
    turns_leave(&router->turns, req);
    request_give(&router->requests, req);
    router->queue_due = true;
    router->sink.end(router->sink.context, user, &end);
    return TURN_ENDED;
}
