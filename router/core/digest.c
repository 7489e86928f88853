#include "router/core/digest.h"

#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"
#include "router/core/part.h"
#include "router/core/replay.h"
#include "router/core/stream.h"
#include "router/core/trust.h"

/* One digest may have overtaken its request's SUBMIT where cancels go first; two cannot. */
#define MISSING_DIGESTS 2

/* Not ours any more: an orphan. */
static void digest_disown(struct router *router, struct slot *slot, const struct request *req,
                          const struct digest_entry *entry) {
    struct attempt_id attempt = {.req = entry->req, .attempt = entry->attempt};
    bool its_share_is_done = req && req->attempt == entry->attempt && req->handoff &&
                             req->prefilled_by == slot->number && req->prefill.slot == SLOT_NONE;
    if (entry->state == SEQUENCE_ENDED || its_share_is_done)
        fleet_forget(router, slot, attempt);
    else
        fleet_cancel(router, slot, attempt, REASON_UNKNOWN);
}

/* What grows at its worker while an attempt in this state gets nearer to its next token. One that
 * is queued waits for others, whether they are computed or handed over there. */
static uint64_t digest_work_for(const struct load *load, enum sequence_state state) {
    switch (state) {
    case SEQUENCE_WAITING:
        return load->n_steps + load->handoff_bytes;
    case SEQUENCE_SENDING:
        return load->handoff_bytes;
    default:
        return load->n_prompt_tokens;
    }
}

/* Nothing can run there before a hand-over is over, which has bounds of its own. */
static bool digest_only_hands_over(const struct slot *slot, const struct digest *digest) {
    if (slot->load.n_running > 0)
        return false;
    bool hands_over = slot->load.blocks_reserved > 0;
    for (uint32_t i = 0; i < digest->n && !hands_over; i++) {
        enum sequence_state state = digest->entries[i].state;
        hands_over =
            state == SEQUENCE_RESERVED || state == SEQUENCE_FILLING || state == SEQUENCE_SENDING;
    }
    return hands_over;
}

/* Is this attempt getting somewhere, though no token has come? */
static bool digest_advances(const struct slot *slot, struct request *req, struct part *part,
                            const struct digest_entry *entry, bool waits_for_blocks) {
    bool changed = part->last_state != entry->state;
    part->last_state = (uint8_t)entry->state;
    uint64_t work = digest_work_for(&slot->load, entry->state);
    bool worked = work != part->work_seen;
    part->work_seen = work;
    switch (entry->state) {
    case SEQUENCE_WAITING:
        req->computing = true; /* after a preemption its tokens are computed again */
        return changed || worked || waits_for_blocks;
    case SEQUENCE_RUNNING:
        return changed || (req->computing && worked);
    case SEQUENCE_SENDING:
        return changed || worked;
    default:
        return changed;
    }
}

/* Is `other`, of which `theirs` is there too, computed out of its turn? Tenants take turns, so it says nothing of
 * another one's. */
static bool digest_overtakes(const struct request *other, const struct part *theirs,
                             const struct request *req, const struct part *part) {
    return other->spec.tenant == req->spec.tenant && other->spec.priority >= req->spec.priority &&
           theirs->last_state == SEQUENCE_RUNNING && theirs->sent_seq > part->sent_seq;
}

/* Is one of its tenant computed there that came later and is no more urgent? A worker's queue has that
 * order (worker/core/run_queue.h); what was handed over to it has no place in the queue. */
static bool digest_is_overtaken(const struct slot *slot, const struct request *req,
                                const struct part *part) {
    if (part == &req->decode && req->handoff)
        return false;
    list_each_entry(whole, &slot->decodes, const struct request, decode.link) {
        if (part == &req->decode && !whole->handoff &&
            digest_overtakes(whole, &whole->decode, req, part))
            return true;
    }
    list_each_entry(prompt, &slot->prefills, const struct request, prefill.link) {
        if (part == &req->prefill && digest_overtakes(prompt, &prompt->prefill, req, part))
            return true;
    }
    return false;
}

/* Queued for a minute, while others get what it waits for out of turn. Those that came before it may
 * take as long as they like. */
static bool digest_is_kept_back(const struct router *router, const struct slot *slot,
                                const struct request *req, struct part *part,
                                const struct digest_entry *entry) {
    if (entry->state != SEQUENCE_WAITING)
        return false;
    if (part->queued_own_ns == UINT64_MAX)
        part->queued_own_ns = router->own_ns;
    bool is_long = router->own_ns - part->queued_own_ns > REPLAY_QUEUED_NS;
    return is_long && digest_is_overtaken(slot, req, part);
}

static void digest_read_entry(struct router *router, struct slot *slot,
                              const struct digest_entry *entry, bool waits_for_blocks) {
    if (entry->req.hi != router->config.router_id)
        return;
    struct request *req = request_find(&router->requests, entry->req.lo);
    struct part *part = req ? request_part(req, slot->number) : NULL;
    if (!part || entry->attempt != req->attempt) {
        if (!req || entry->attempt <= req->attempt)
            digest_disown(router, slot, req, entry);
        return;
    }
    part->listed = true;
    part->n_missing = 0;
    part_reflected(router, slot, part);
    if (digest_is_kept_back(router, slot, req, part, entry) && trust_elsewhere(router, req, slot)) {
        note_request(router, NOTE_REQUEST_STILL, req, slot);
        trust_failed(router, req, slot, "kept_back", false);
        replay_lost(router, req, slot, LOSS_MOVED);
        return;
    }
    if (digest_advances(slot, req, part, entry, waits_for_blocks))
        part_advanced(router, req);
    if (part == &req->decode && entry->next_index > req->n_emitted &&
        req->state == REQUEST_RUNNING &&
        (entry->state == SEQUENCE_RUNNING || entry->state == SEQUENCE_ENDED))
        stream_resend(router, slot, req);
}

/* What a digest that covers the request's message should list and does not is lost. */
static void digest_check_listed(struct router *router, struct slot *slot, struct request *req,
                                struct part *part, uint64_t seen_seq) {
    bool listed = part->listed;
    part->listed = false;
    if (listed || part->sent_seq > seen_seq) /* UINT64_MAX: not sent yet */
        return;
    if (++part->n_missing < MISSING_DIGESTS)
        return;
    note_request(router, NOTE_REQUEST_MISSING, req, slot);
    trust_failed(router, req, slot, "lost_request", false);
    replay_lost(router, req, slot, LOSS_FAILED);
}

void digest_read(struct router *router, struct slot *slot, const struct digest *digest) {
    bool waits_for_blocks = digest_only_hands_over(slot, digest);
    for (uint32_t i = 0; i < digest->n; i++)
        digest_read_entry(router, slot, &digest->entries[i], waits_for_blocks);
    list_each_entry(to_decode, &slot->decodes, struct request, decode.link) {
        digest_check_listed(router, slot, to_decode, &to_decode->decode, digest->seen_seq);
    }
    list_each_entry(to_prefill, &slot->prefills, struct request, prefill.link) {
        digest_check_listed(router, slot, to_prefill, &to_prefill->prefill, digest->seen_seq);
    }
}
