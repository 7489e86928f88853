#include "router/core/fleet.h"

#include "base/assert.h"
#include "router/core/core.h"

#include <stdlib.h>
#include <string.h>

#define SILENCE_COUNTED_NS (500 * NS_PER_MS) /* five beats missed */

void fleet_empty(struct slot *slot, uint32_t number) {
    *slot = (struct slot){.number = number};
    list_init(&slot->prefills);
    list_init(&slot->decodes);
    list_init(&slot->lost);
}

enum status fleet_init(struct fleet *fleet, uint32_t n_slots) {
    *fleet = (struct fleet){.n_slots = n_slots};
    list_init(&fleet->lost);
    fleet->slots = calloc(n_slots, sizeof *fleet->slots);
    fleet->trusts = calloc(n_slots, sizeof *fleet->trusts);
    if (!fleet->slots || !fleet->trusts) {
        fleet_fini(fleet);
        return STATUS_NOMEM;
    }
    for (uint32_t i = 0; i < n_slots; i++)
        fleet_empty(&fleet->slots[i], i);
    return STATUS_OK;
}

void fleet_fini(struct fleet *fleet) {
    if (!fleet)
        return;
    free(fleet->slots);
    free(fleet->trusts);
    *fleet = (struct fleet){0};
}

const char *slot_state_name(enum slot_state state) {
    static const char *const names[SLOT_STATES] = {"free",     "opening", "ready",   "suspect",
                                                   "draining", "refused", "waiting", "loading"};
    return names[(unsigned)state < SLOT_STATES ? state : SLOT_FREE];
}

bool fleet_same_name(const char *a, const char *b) {
    return strncmp(a, b, MESSAGE_NAME_MAX) == 0;
}

void fleet_set_state(struct router *router, struct slot *slot, enum slot_state state) {
    struct fleet *fleet = &router->fleet;
    bool in_session = slot_in_session(slot);
    if (slot->state == SLOT_READY && --fleet->n_ready == 0)
        fleet->no_worker_since_ns = router->now_ns;
    slot->state = state;
    if (state == SLOT_READY)
        fleet->n_ready++;
    if (in_session != slot_in_session(slot))
        fleet->peers_changed = true;
    router->queue_due = true;
}

uint64_t fleet_step_ns(const struct slot *slot) {
    uint64_t step_us = slot->load.step_us_expected;
    return step_us <= MESSAGE_STEP_US_MAX ? step_us * NS_PER_US : 0;
}

void fleet_progress(const struct router *router, struct slot *slot, uint64_t progress) {
    if (progress == slot->load.progress && slot->moved_own_ns != 0)
        return;
    uint64_t silent_ns = router->own_ns - slot->moved_own_ns, said_ns = fleet_step_ns(slot);
    uint64_t shown_ns = silent_ns < said_ns ? silent_ns : said_ns;
    if (shown_ns > slot->trust->steps_ns)
        slot->trust->steps_ns = shown_ns;
    slot->moved_own_ns = router->own_ns;
}

uint64_t fleet_silent_own_ns(const struct router *router, const struct slot *slot) {
    uint64_t since_ns = router->own_ns - slot->progress_own_ns;
    return slot->silent_own_ns +
           (since_ns > SILENCE_COUNTED_NS ? since_ns - SILENCE_COUNTED_NS : 0);
}

void fleet_lose(struct router *router, struct slot *slot, enum loss loss) {
    ASSERT(loss != LOSS_NONE);
    if (slot->n_assigned == 0 || slot->loss != LOSS_NONE)
        return;
    slot->loss = loss;
    list_push_back(&router->fleet.lost, &slot->lost);
}

void fleet_send(struct router *router, struct slot *slot, struct message *message) {
    ASSERT(slot->linked);
    message->session = slot->session;
    message->seq = ++slot->n_sent;
    router->sink.send(router->sink.context, slot->number, message);
}

void fleet_ping(struct router *router, struct slot *slot) {
    struct message message = {.type = MESSAGE_PING};
    message.u.ping.t_ns = router->now_ns;
    fleet_send(router, slot, &message);
}

void fleet_unlink(struct router *router, struct slot *slot) {
    if (slot->linked)
        router->sink.close_link(router->sink.context, slot->number);
    slot->linked = false;
}

void fleet_cancel(struct router *router, struct slot *slot, struct attempt_id attempt,
                  enum reason reason) {
    if (!slot_in_session(slot))
        return;
    struct message message = {.type = MESSAGE_CANCEL};
    message.u.cancel =
        (struct cancel){.req = attempt.req, .attempt = attempt.attempt, .reason = reason};
    fleet_send(router, slot, &message);
}

static void fleet_flush_forgets(struct router *router, struct slot *slot) {
    if (slot->n_forgets == 0)
        return;
    struct message message = {.type = MESSAGE_FORGET};
    message.u.forget = (struct forget){.n = slot->n_forgets, .attempts = slot->forgets};
    if (slot_in_session(slot))
        fleet_send(router, slot, &message);
    slot->n_forgets = 0;
}

void fleet_forget(struct router *router, struct slot *slot, struct attempt_id attempt) {
    if (!slot_in_session(slot))
        return;
    if (slot->n_forgets == SLOT_FORGETS)
        fleet_flush_forgets(router, slot);
    slot->forgets[slot->n_forgets++] = attempt;
    router->fleet.forgets_due = true;
}

/* Every worker learns where the others take KV; the list is the whole set, not a change. */
static void fleet_send_peers(struct router *router) {
    struct fleet *fleet = &router->fleet;
    uint32_t n = 0;
    for (uint32_t i = 0; i < fleet->n_seen && n < MESSAGE_PEERS_MAX; i++) {
        const struct slot *slot = &fleet->slots[i];
        if (!slot_in_session(slot))
            continue;
        struct peer *peer = &fleet->peers[n++];
        memcpy(peer->name, slot->welcome.name, sizeof peer->name);
        memcpy(peer->kv_endpoint, slot->welcome.kv_endpoint, sizeof peer->kv_endpoint);
        peer->incarnation = slot->welcome.incarnation;
        peer->host = slot->welcome.host;
    }
    fleet_each(slot, fleet) {
        if (!slot_in_session(slot))
            continue;
        struct message message = {.type = MESSAGE_PEERS};
        message.u.peers = (struct peers){.n = n, .peers = fleet->peers};
        fleet_send(router, slot, &message);
    }
    fleet->peers_changed = false;
}

void fleet_flush(struct router *router) {
    if (router->fleet.forgets_due) {
        for (uint32_t i = 0; i < router->fleet.n_seen; i++)
            fleet_flush_forgets(router, &router->fleet.slots[i]);
        router->fleet.forgets_due = false;
    }
    if (router->fleet.peers_changed)
        fleet_send_peers(router);
}

bool fleet_pairs(const struct slot *a, const struct slot *b) {
    const struct welcome *x = &a->welcome, *y = &b->welcome;
    return x->kv.n_layers == y->kv.n_layers && x->kv.block_tokens == y->kv.block_tokens &&
           x->kv.block_bytes == y->kv.block_bytes;
}

bool fleet_equals(const struct slot *a, const struct slot *b) {
    return memcmp(a->welcome.numerics_fp, b->welcome.numerics_fp, FINGERPRINT_BYTES) == 0;
}
