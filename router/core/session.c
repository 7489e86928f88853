#include "router/core/session.h"

#include "base/assert.h"
#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"
#include "router/core/pairs.h"
#include "router/core/refuse.h"
#include "router/core/rival.h"
#include "router/core/trust.h"

#include <string.h>

#define HELLO_PATIENCE_NS (2 * NS_PER_S)  /* then an announcing worker gets a fresh link */
#define SPARE_PATIENCE_NS (2 * NS_PER_S)  /* then one that is not served may lose its slot */
#define IDENTITY_RETRY_NS (10 * NS_PER_S) /* then one that gave another name is asked again */
#define NO_SLOT_NOTE_NS   (10 * NS_PER_S) /* at most so often the log hears of a full table */

static void session_send_hello(struct router *router, struct slot *slot) {
    do {
        slot->session = random_next(&router->random);
    } while (slot->session == 0);
    slot->hello_ns = router->now_ns;
    struct message message = {.type = MESSAGE_HELLO};
    message.u.hello = (struct hello){
        .major = PROTO_MAJOR,
        .minor = PROTO_MINOR,
        .router_id = router->config.router_id,
        .session = slot->session,
    };
    memcpy(message.u.hello.name, router->config.name, MESSAGE_NAME_MAX);
    fleet_send(router, slot, &message);
}

static void session_open_link(struct router *router, struct slot *slot) {
    fleet_unlink(router, slot);
    slot->n_sent = 0;
    slot->linked = true;
    router->sink.open_link(router->sink.context, slot->number, &slot->announce);
    fleet_set_state(router, slot, SLOT_OPENING);
    session_send_hello(router, slot);
}

/* It announces itself again: may the reason have gone? */
static bool session_refusal_may_end(const struct router *router, const struct slot *slot) {
    switch (slot->refusal) {
    case REFUSAL_NAME:
        return !rival_holder(router, slot);
    case REFUSAL_IDENTITY:
        return router->now_ns - slot->hello_ns >= IDENTITY_RETRY_NS;
    default:
        return false; /* an incarnation does not change */
    }
}

static void session_announced_again(struct router *router, struct slot *slot,
                                    const struct announce *announce) {
    slot->announced_ns = router->now_ns;
    switch (slot->state) {
    case SLOT_LOADING:
        slot->announce = *announce;
        if (announce->loading == 0)
            session_open_link(router, slot);
        return;
    case SLOT_OPENING:
    case SLOT_SUSPECT:
        /* It lives, yet the link brings no answer: perhaps a half-open connection. */
        if (router->now_ns - slot->hello_ns >= HELLO_PATIENCE_NS)
            session_open_link(router, slot);
        return;
    case SLOT_REFUSED:
        if (session_refusal_may_end(router, slot))
            session_open_link(router, slot);
        return;
    default:
        return;
    }
}

static void session_slot_reset(struct slot *slot) {
    ASSERT(list_empty(&slot->prefills));
    ASSERT(list_empty(&slot->decodes));
    ASSERT(list_empty(&slot->lost));
    ASSERT(slot->n_assigned == 0);
    fleet_empty(slot, slot->number);
}

/* A full table: who was never welcomed, or is refused, has had its time. The one that came last
 * gets the slot, so that names which answer nothing cannot keep a worker out for long. */
static struct slot *session_free_one(struct router *router) {
    struct slot *oldest = NULL;
    for (uint32_t i = 0; i < router->fleet.n_slots; i++) {
        struct slot *slot = &router->fleet.slots[i];
        bool may_go = slot->state == SLOT_OPENING || slot->state == SLOT_REFUSED;
        may_go = may_go || slot->state == SLOT_LOADING;
        if (may_go && router->now_ns - slot->since_ns >= SPARE_PATIENCE_NS &&
            (!oldest || slot->since_ns < oldest->since_ns))
            oldest = slot;
    }
    if (oldest)
        session_close(router, oldest, "slot_needed");
    return oldest;
}

static void session_no_slot(struct router *router, const struct announce *announce) {
    struct fleet *fleet = &router->fleet;
    if (fleet->no_slot_noted_ns != 0 && router->now_ns - fleet->no_slot_noted_ns < NO_SLOT_NOTE_NS)
        return;
    fleet->no_slot_noted_ns = router->now_ns;
    note_name(router, NOTE_NO_SLOT, announce->name, NULL, fleet->n_slots, 0);
}

void session_announced(struct router *router, const struct announce *announce) {
    struct fleet *fleet = &router->fleet;
    struct slot *spare = NULL;
    for (uint32_t i = 0; i < fleet->n_slots; i++) {
        struct slot *slot = &fleet->slots[i];
        if (slot->state == SLOT_FREE) {
            spare = spare ? spare : slot;
        } else if (slot->announce.incarnation == announce->incarnation &&
                   fleet_same_name(slot->announce.name, announce->name)) {
            session_announced_again(router, slot, announce);
            return;
        }
    }
    if (!spare)
        spare = session_free_one(router);
    if (!spare) {
        session_no_slot(router, announce);
        return;
    }
    session_slot_reset(spare);
    spare->trust = trust_of(fleet, announce->name);
    if (spare->number >= fleet->n_seen)
        fleet->n_seen = spare->number + 1;
    spare->announce = *announce;
    spare->since_ns = spare->announced_ns = spare->heard_ns = router->now_ns;
    for (uint32_t i = 0; i < router->requests.n_fresh; i++)
        request_forget_slot(&router->requests.all[i], spare->number);
    pairs_forget(router, spare);
    if (announce->loading > 0) {
        fleet_set_state(router, spare, SLOT_LOADING);
    } else {
        session_open_link(router, spare);
    }
}

void session_join(struct router *router, struct slot *slot) {
    const struct welcome *welcome = &slot->welcome;
    slot->refusal = REFUSAL_NONE;
    fleet_progress(router, slot, welcome->load.progress); /* a step may outlast its session */
    slot->load = welcome->load;
    slot->progress_own_ns = router->own_ns;
    slot->busy_until_ns = slot->busy_ns = 0;
    slot->probing = false;
    fleet_set_state(router, slot, welcome->state == WORKER_DRAINING ? SLOT_DRAINING : SLOT_READY);
    note_worker(router, NOTE_JOINED, slot, NULL, welcome->pid, 0);
    trust_figures(router, slot, &welcome->load);
}

void session_welcomed(struct router *router, struct slot *slot, const struct welcome *welcome) {
    if (slot->state != SLOT_OPENING && slot->state != SLOT_SUSPECT)
        return;
    slot->welcome = *welcome;
    enum refusal refusal = refuse_why(router, slot);
    if (refusal != REFUSAL_NONE)
        refuse_worker(router, slot, refusal, NULL);
    else if (!rival_contests(router, slot))
        session_join(router, slot);
}

void session_fence(struct router *router, struct slot *slot, enum loss loss, const char *why) {
    uint64_t silent_ns = router->own_ns - slot->progress_own_ns;
    note_worker(router, NOTE_LOST, slot, why, silent_ns / NS_PER_MS, slot->n_assigned);
    router->stats.n_fenced++;
    fleet_set_state(router, slot, SLOT_SUSPECT);
    slot->n_forgets = 0;
    slot->drain_until_ns = 0;
    fleet_lose(router, slot, loss);
    session_send_hello(router, slot);
}

static void session_note_lost(struct router *router, const struct slot *slot, const char *why) {
    uint64_t after_ms = (router->now_ns - slot->heard_ns) / NS_PER_MS;
    if (slot->state == SLOT_READY || slot->n_assigned > 0)
        note_worker(router, NOTE_LOST, slot, why, after_ms, slot->n_assigned);
    else
        note_worker(router, slot->state == SLOT_DRAINING ? NOTE_LEFT : NOTE_FORGOTTEN, slot, why,
                    after_ms, 0);
}

void session_lost(struct router *router, struct slot *slot, const char *why) {
    if (slot->state == SLOT_FREE)
        return;
    session_note_lost(router, slot, why);
    if (slot_in_session(slot) || slot->state == SLOT_SUSPECT)
        trust_left(slot);
    fleet_set_state(router, slot, SLOT_SUSPECT);
    slot->n_forgets = 0;
    fleet_lose(router, slot, LOSS_DIED);
    if (router->policy->forget)
        router->policy->forget(router->policy_state, slot->number);
    fleet_set_state(router, slot, SLOT_FREE);
    struct slot *heir = rival_heir(router, slot->announce.name);
    if (heir)
        session_join(router, heir);
}

void session_close(struct router *router, struct slot *slot, const char *why) {
    fleet_unlink(router, slot);
    session_lost(router, slot, why);
}
