#include "router/core/fleet.h"

#include "base/assert.h"
#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/note.h"
#include "router/core/refuse.h"
#include "router/core/replay.h"
#include "router/core/rival.h"

#include <stdlib.h>
#include <string.h>

#define HELLO_PATIENCE_NS (2 * NS_PER_S)  /* then an announcing worker gets a fresh link */
#define SPARE_PATIENCE_NS (2 * NS_PER_S)  /* then one that is not served may lose its slot */
#define NO_SLOT_NOTE_NS   (10 * NS_PER_S) /* at most so often the log hears of a full table */

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
    router->pump = true;
}

void fleet_send(struct router *router, struct slot *slot, struct message *message) {
    ASSERT(slot->linked);
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
    fleet_unlink(router, slot);
    slot->n_sent = 0;
    slot->linked = true;
    router->sink.open_link(router->sink.context, slot->number, &slot->announce);
    fleet_set_state(router, slot, SLOT_OPENING);
    say_hello(router, slot);
}

void fleet_unlink(struct router *router, struct slot *slot) {
    if (slot->linked)
        router->sink.close_link(router->sink.context, slot->number);
    slot->linked = false;
}

static void announced_again(struct router *router, struct slot *slot,
                            const struct announce *announce) {
    slot->announced_ns = router->now_ns;
    switch (slot->state) {
    case SLOT_LOADING:
        slot->announce = *announce;
        if (announce->loading == 0)
            open_link(router, slot);
        return;
    case SLOT_OPENING:
    case SLOT_SUSPECT:
        /* It lives, yet the link brings no answer: perhaps a half-open connection. */
        if (router->now_ns - slot->hello_ns >= HELLO_PATIENCE_NS)
            open_link(router, slot);
        return;
    case SLOT_REFUSED:
        if (refuse_may_end(router, slot))
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

/* A full table: who was never welcomed, or is refused, has had its time. The one that came last
 * gets the slot, so that names which answer nothing cannot keep a worker out for long. */
static struct slot *free_one(struct router *router) {
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
        fleet_close(router, oldest, "slot_needed");
    return oldest;
}

static void no_slot(struct router *router, const struct announce *announce) {
    struct fleet *fleet = &router->fleet;
    if (fleet->no_slot_noted_ns != 0 && router->now_ns - fleet->no_slot_noted_ns < NO_SLOT_NOTE_NS)
        return;
    fleet->no_slot_noted_ns = router->now_ns;
    note_stranger(router, NOTE_NO_SLOT, announce->name, fleet->n_slots);
}

void fleet_announced(struct router *router, const struct announce *announce) {
    struct fleet *fleet = &router->fleet;
    struct slot *spare = NULL;
    for (uint32_t i = 0; i < fleet->n_slots; i++) {
        struct slot *slot = &fleet->slots[i];
        if (slot->state == SLOT_FREE) {
            spare = spare ? spare : slot;
        } else if (slot->announce.incarnation == announce->incarnation &&
                   fleet_same_name(slot->announce.name, announce->name)) {
            announced_again(router, slot, announce);
            return;
        }
    }
    if (!spare)
        spare = free_one(router);
    if (!spare) {
        no_slot(router, announce);
        return;
    }
    slot_reset(spare);
    if (spare->number >= fleet->n_seen)
        fleet->n_seen = spare->number + 1;
    spare->announce = *announce;
    spare->since_ns = spare->announced_ns = spare->heard_ns = router->now_ns;
    for (uint32_t i = 0; i < router->requests.n_fresh; i++)
        router->requests.all[i].too_long[spare->number / 64] &= ~(1ull << (spare->number % 64));
    if (announce->loading > 0) {
        fleet_set_state(router, spare, SLOT_LOADING);
    } else {
        open_link(router, spare);
    }
}

void fleet_join(struct router *router, struct slot *slot) {
    const struct welcome *welcome = &slot->welcome;
    slot->refusal = REFUSAL_NONE;
    slot->load = welcome->load;
    slot->progress_ns = router->now_ns;
    slot->live_since_ns = router->now_ns;
    slot->busy_until_ns = slot->busy_ns = 0;
    slot->probing = false;
    fleet_set_state(router, slot, welcome->state == WORKER_DRAINING ? SLOT_DRAINING : SLOT_READY);
    note_worker(router, NOTE_JOINED, slot, NULL, welcome->pid, 0);
}

void fleet_welcomed(struct router *router, struct slot *slot, const struct welcome *welcome) {
    if (slot->state != SLOT_OPENING && slot->state != SLOT_SUSPECT)
        return;
    slot->welcome = *welcome;
    enum refusal refusal = refuse_why(router, slot);
    if (refusal != REFUSAL_NONE)
        refuse_worker(router, slot, refusal, NULL);
    else if (!rival_contests(router, slot))
        fleet_join(router, slot);
}

static uint64_t silent_ms(const struct router *router, uint64_t since_ns) {
    return (router->now_ns - since_ns) / NS_PER_MS;
}

void fleet_fence(struct router *router, struct slot *slot, enum loss loss, const char *why) {
    note_worker(router, NOTE_LOST, slot, why, silent_ms(router, slot->progress_ns),
                slot->n_assigned);
    router->stats.n_fenced++;
    fleet_set_state(router, slot, SLOT_SUSPECT);
    slot->n_forgets = 0;
    slot->drain_until_ns = 0;
    replay_all(router, slot, loss);
    say_hello(router, slot);
}

static void note_lost(struct router *router, const struct slot *slot, const char *why) {
    uint64_t after_ms = silent_ms(router, slot->heard_ns);
    if (slot->state == SLOT_READY || slot->n_assigned > 0)
        note_worker(router, NOTE_LOST, slot, why, after_ms, slot->n_assigned);
    else
        note_worker(router, slot->state == SLOT_DRAINING ? NOTE_LEFT : NOTE_FORGOTTEN, slot, why,
                    after_ms, 0);
}

void fleet_lost(struct router *router, struct slot *slot, const char *why) {
    if (slot->state == SLOT_FREE)
        return;
    note_lost(router, slot, why);
    fleet_set_state(router, slot, SLOT_SUSPECT);
    slot->n_forgets = 0;
    replay_all(router, slot, LOSS_DIED);
    if (router->policy->forget)
        router->policy->forget(router->policy_state, slot->number);
    fleet_set_state(router, slot, SLOT_FREE);
    rival_freed(router, slot->announce.name);
}

void fleet_close(struct router *router, struct slot *slot, const char *why) {
    fleet_unlink(router, slot);
    fleet_lost(router, slot, why);
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
