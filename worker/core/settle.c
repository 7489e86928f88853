#include "worker/core/settle.h"

#include "worker/core/figures.h"
#include "worker/core/flush.h"
#include "worker/core/handoff_link.h"
#include "worker/core/handoff_out.h"
#include "worker/core/note.h"
#include "worker/core/reserve.h"
#include "worker/core/retire.h"
#include "worker/core/session.h"

uint32_t settle_link_lost(struct engine *engine, struct peer_link *peer_link) {
    if (peer_link->kind == PEER_LINK_ROUTER) {
        session_drop(engine, peer_link);
        return 0;
    }
    uint32_t n_ended = handoff_link_lost(engine, peer_link);
    peer_link_give(&engine->peer_links, peer_link);
    return n_ended;
}

/* What is told of a broken link. A router that took its leave with all done loses no work. */
static enum engine_note settle_note_of_end(const struct engine *engine,
                                           const struct peer_link *peer_link) {
    if (peer_link->kind != PEER_LINK_ROUTER)
        return NOTE_PEER_DROPPED;
    bool is_silent = engine->now_ns - peer_link->heard_ns >= engine->config.router_lease_ns;
    return list_empty(&peer_link->sequences) && !is_silent ? NOTE_ROUTER_LEFT : NOTE_SESSION_OVER;
}

void settle_event(struct engine *engine) {
    if (engine->pump_due) {
        engine->pump_due = false;
        handoff_out_push_all(engine);
    }
    if (engine->flush_due)
        flush_all(engine);
    while (engine->peer_links.n_broken > 0) {
        for (uint32_t i = 0; i < engine->peer_links.n_links; i++) {
            struct peer_link *peer_link = &engine->peer_links.links[i];
            if (peer_link->kind == PEER_LINK_FREE || !peer_link->broken)
                continue;
            uint32_t link = peer_link->link;
            if (peer_link->why_broken)
                note_peer_link(engine, settle_note_of_end(engine, peer_link), peer_link,
                               peer_link->why_broken);
            settle_link_lost(engine, peer_link);
            engine->sink.close_link(engine->sink.context, link);
        }
    }
}

/* The drain's deadline has passed: routers replay elsewhere what is left. */
static void settle_end_drain(struct engine *engine) {
    for (uint32_t i = 0; i < engine->sequences.n_slots; i++) {
        struct sequence *sequence = &engine->sequences.slots[i];
        if (sequence->serial != 0 && !sequence->dead && sequence->state != SEQUENCE_ENDED)
            retire_fail(engine, sequence, REASON_DRAINING);
    }
    engine->drain_ns = 0;
}

void settle_step(struct engine *engine) {
    engine->retry_ns = 0;
    figures_rate(engine);
    handoff_out_open_links(engine);
    handoff_out_push_all(engine);
    flush_all(engine);
    settle_event(engine);
}

void settle_tick(struct engine *engine) {
    reserve_expire(engine);
    if (engine->drain_ns && engine->drain_ns <= engine->now_ns)
        settle_end_drain(engine);
    flush_end_silent(engine);
    settle_step(engine);
}
