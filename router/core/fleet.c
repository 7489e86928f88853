#include "router/core/fleet.h"

#include "base/assert.h"
#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/replay.h"

#include <stdlib.h>
#include <string.h>

#define HELLO_PATIENCE_NS (2 * NS_PER_S) /* then an announcing worker gets a fresh link */

enum status fleet_init(struct fleet *fleet, uint32_t n_slots) {
    *fleet = (struct fleet){.n_slots = n_slots};
    fleet->slots = calloc(n_slots, sizeof *fleet->slots);
    if (!fleet->slots)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < n_slots; i++) {
        fleet->slots[i].number = i;
        list_init(&fleet->slots[i].prefills);
        list_init(&fleet->slots[i].decodes);
    }
    return STATUS_OK;
}

void fleet_fini(struct fleet *fleet) {
    if (!fleet)
        return;
    free(fleet->slots);
    *fleet = (struct fleet){0};
}

static bool same_text(const char *a, const char *b, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (a[i] != b[i])
            return false;
        if (!a[i])
            return true;
    }
    return true;
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
    router->pump = true;
}

void fleet_send(struct router *router, struct slot *slot, struct message *message) {
    message->session = slot->session;
    message->seq = ++slot->n_sent;
    router->sink.send(router->sink.context, slot->number, message);
}

static void say_hello(struct router *router, struct slot *slot) {
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

static void open_link(struct router *router, struct slot *slot) {
    slot->n_sent = 0;
    router->sink.open_link(router->sink.context, slot->number, &slot->announce);
    fleet_set_state(router, slot, SLOT_OPENING);
    say_hello(router, slot);
}

/* A worker of another model is looked at again only when the model may have changed. */
static bool model_is_free(const struct router *router) {
    if (router->config.has_model || router->requests.n_used > 0)
        return false;
    for (uint32_t i = 0; i < router->fleet.n_seen; i++) {
        const struct slot *slot = &router->fleet.slots[i];
        if (slot_in_session(slot) || slot->state == SLOT_SUSPECT)
            return false;
    }
    return true;
}

static void announced_again(struct router *router, struct slot *slot) {
    slot->announced_ns = router->now_ns;
    switch (slot->state) {
    case SLOT_OPENING:
    case SLOT_SUSPECT:
        /* It lives, yet the link brings no answer: perhaps a half-open connection. */
        if (router->now_ns - slot->hello_ns < HELLO_PATIENCE_NS)
            return;
        router->sink.close_link(router->sink.context, slot->number);
        open_link(router, slot);
        return;
    case SLOT_REFUSED:
        if (model_is_free(router))
            open_link(router, slot);
        return;
    default:
        return;
    }
}

static void slot_reset(struct slot *slot) {
    ASSERT(list_empty(&slot->prefills));
    ASSERT(list_empty(&slot->decodes));
    ASSERT(slot->n_assigned == 0);
    uint32_t number = slot->number;
    memset(slot, 0, sizeof *slot);
    slot->number = number;
    list_init(&slot->prefills);
    list_init(&slot->decodes);
}

void fleet_announced(struct router *router, const struct announce *announce) {
    struct fleet *fleet = &router->fleet;
    struct slot *spare = NULL;
    for (uint32_t i = 0; i < fleet->n_slots; i++) {
        struct slot *slot = &fleet->slots[i];
        if (slot->state == SLOT_FREE) {
            spare = spare ? spare : slot;
        } else if (slot->announce.incarnation == announce->incarnation &&
                   same_text(slot->announce.name, announce->name, MESSAGE_NAME_MAX)) {
            announced_again(router, slot);
            return;
        }
    }
    if (!spare) {
        note(router, "no slot for another worker", SLOT_NONE, fleet->n_slots);
        return;
    }
    slot_reset(spare);
    if (spare->number >= fleet->n_seen)
        fleet->n_seen = spare->number + 1;
    spare->announce = *announce;
    spare->announced_ns = spare->heard_ns = router->now_ns;
    for (uint32_t i = 0; i < router->requests.n_fresh; i++)
        router->requests.all[i].too_long[spare->number / 64] &= ~(1ull << (spare->number % 64));
    open_link(router, spare);
}

static const char *welcome_flaw(struct router *router, const struct slot *slot,
                                const struct welcome *welcome) {
    struct fleet *fleet = &router->fleet;
    if (welcome->major != PROTO_MAJOR)
        return "worker refused: another protocol version";
    if (welcome->incarnation != slot->announce.incarnation ||
        !same_text(welcome->name, slot->announce.name, MESSAGE_NAME_MAX))
        return "worker refused: not the one that was announced";
    if (welcome->kv.block_tokens == 0 || welcome->context == 0 || welcome->max_seqs == 0)
        return "worker refused: limits of zero";
    if (model_is_free(router))
        fleet->has_model = false;
    if (fleet->has_model && memcmp(fleet->model_fp, welcome->model_fp, FINGERPRINT_BYTES) != 0)
        return "worker refused: another model";
    if (fleet->has_model &&
        memcmp(fleet->tokenizer_fp, welcome->tokenizer_fp, FINGERPRINT_BYTES) != 0)
        return "worker refused: another tokenizer";
    return NULL;
}

/* The process that had this name before is gone, whatever its link still says. */
static void close_predecessors(struct router *router, const struct slot *slot) {
    for (uint32_t i = 0; i < router->fleet.n_seen; i++) {
        struct slot *other = &router->fleet.slots[i];
        if (other != slot && other->state != SLOT_FREE &&
            same_text(other->announce.name, slot->announce.name, MESSAGE_NAME_MAX))
            fleet_close(router, other);
    }
}

void fleet_welcomed(struct router *router, struct slot *slot, const struct welcome *welcome) {
    if (slot->state != SLOT_OPENING && slot->state != SLOT_SUSPECT)
        return;
    const char *flaw = welcome_flaw(router, slot, welcome);
    if (flaw) {
        note(router, flaw, slot->number, welcome->major);
        router->sink.close_link(router->sink.context, slot->number);
        fleet_set_state(router, slot, SLOT_REFUSED);
        return;
    }
    struct fleet *fleet = &router->fleet;
    if (!fleet->has_model) {
        fleet->has_model = true;
        memcpy(fleet->model_fp, welcome->model_fp, FINGERPRINT_BYTES);
        memcpy(fleet->tokenizer_fp, welcome->tokenizer_fp, FINGERPRINT_BYTES);
    }
    close_predecessors(router, slot);
    slot->welcome = *welcome;
    slot->load = welcome->load;
    slot->progress_ns = router->now_ns;
    slot->live_since_ns = router->now_ns;
    slot->busy_until_ns = slot->busy_ns = 0;
    slot->probing = false;
    fleet_set_state(router, slot, welcome->state == WORKER_DRAINING ? SLOT_DRAINING : SLOT_READY);
    note(router, "worker ready", slot->number, welcome->incarnation);
}

void fleet_fence(struct router *router, struct slot *slot, enum loss loss, const char *why) {
    note(router, why, slot->number, slot->n_assigned);
    router->stats.n_fenced++;
    fleet_set_state(router, slot, SLOT_SUSPECT);
    slot->n_forgets = 0;
    slot->drain_until_ns = 0;
    replay_all(router, slot, loss);
    say_hello(router, slot);
}

void fleet_lost(struct router *router, struct slot *slot) {
    if (slot->state == SLOT_FREE)
        return;
    note(router, "worker lost", slot->number, slot->n_assigned);
    fleet_set_state(router, slot, SLOT_SUSPECT);
    slot->n_forgets = 0;
    replay_all(router, slot, LOSS_DIED);
    if (router->policy->forget)
        router->policy->forget(router->policy_state, slot->number);
    fleet_set_state(router, slot, SLOT_FREE);
}

void fleet_close(struct router *router, struct slot *slot) {
    if (slot->state != SLOT_FREE && slot->state != SLOT_REFUSED)
        router->sink.close_link(router->sink.context, slot->number);
    fleet_lost(router, slot);
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

static void flush_forgets(struct router *router, struct slot *slot) {
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
        flush_forgets(router, slot);
    slot->forgets[slot->n_forgets++] = attempt;
    router->fleet.forgets_due = true;
}

/* Every worker learns where the others take KV; the list is the whole set, not a change. */
static void send_peers(struct router *router) {
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
    for (uint32_t i = 0; i < fleet->n_seen; i++) {
        struct slot *slot = &fleet->slots[i];
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
            flush_forgets(router, &router->fleet.slots[i]);
        router->fleet.forgets_due = false;
    }
    if (router->fleet.peers_changed)
        send_peers(router);
}

bool fleet_pairs(const struct slot *a, const struct slot *b) {
    const struct welcome *x = &a->welcome, *y = &b->welcome;
    return x->kv.n_layers == y->kv.n_layers && x->kv.block_tokens == y->kv.block_tokens &&
           x->kv.block_bytes == y->kv.block_bytes;
}

bool fleet_equals(const struct slot *a, const struct slot *b) {
    return memcmp(a->welcome.numerics_fp, b->welcome.numerics_fp, FINGERPRINT_BYTES) == 0;
}
