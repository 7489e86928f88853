/* What a router does with requests and workers: exact where an equal worker is ready, the first in
 * the queue first, slow is not dead. */
#include "tests/sim/judge.h"

#include "router/core/core.h"
#include "router/core/pairs.h"
#include "router/core/trust.h"

#include <string.h>

#define STEP_US_BELIEVED 15000000u          /* a longer one cannot be */
#define SLACK_NS         (10 * NS_PER_US)   /* timers are rounded up, by nanoseconds */
#define OWN_NS           (100 * NS_PER_MS)  /* what a pause adds to a router's own time at most */
#define PATIENCE_NS      (1500 * NS_PER_MS) /* between a trouble and what a router makes of it */

static uint32_t numerics_of(const struct sim *sim, uint32_t node) {
    return sim->options.numerics[node - SIM_ROUTERS];
}

static bool is_ready(const struct sim *sim, uint32_t router, uint32_t slot,
                     struct worker_view *view) {
    return router_worker(sim->nodes[router].router, slot, view) == STATUS_OK &&
           view->state == SLOT_READY;
}

static uint32_t view_numerics(const struct worker_view *view) {
    return view->welcome.numerics_fp[FINGERPRINT_BYTES - 1];
}

/* Nobody who has never been placed, and would fit there too, stands before this one. While a worker
 * is kept for a request that runs alone, others may wait for that worker. */
static void judge_order(struct sim *sim, const struct client *client, uint32_t to) {
    if (sim->nodes[client->router].router->alone != SLOT_NONE)
        return;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        const struct client *other = &sim->clients[i];
        if (!other->used || !other->running || other->ended || other == client ||
            other->router != client->router || other->attempt.number != 0 ||
            other == sim->arriving || other->n_prompt >= sim->nodes[to].context)
            continue;
        bool is_equal = other->priority == client->priority &&
                        client_tenant(sim, other) == client_tenant(sim, client);
        bool first =
            other->priority < client->priority || (is_equal && other->serial < client->serial);
        if (first)
            sim_fail(sim, "client %llu (priority %u) is placed before client %llu (priority %u)",
                     (unsigned long long)client->serial, client->priority,
                     (unsigned long long)other->serial, other->priority);
    }
}

/* No more speaks against this worker than against any other that the request could go to. */
static bool is_least_bad(const struct router *router, const struct request *req,
                         const struct slot *at) {
    uint32_t badness = trust_badness(router, req, at);
    fleet_each(slot, &router->fleet) {
        if (trust_can_hold(slot, req) && trust_badness(router, req, slot) < badness)
            return false;
    }
    return true;
}

/* As the partner of the one at slot `but`, nothing speaks against the pair either. */
static bool is_trusted(const struct sim *sim, const struct client *client, uint32_t slot,
                       uint32_t but) {
    const struct router *router = sim->nodes[client->router].router;
    const struct request *req = request_find(&router->requests, client->request);
    const struct slot *at = &router->fleet.slots[slot];
    if (but != SIM_SLOTS && !pairs_may(router, at, &router->fleet.slots[but]))
        return false;
    return req && is_least_bad(router, req, at);
}

/* A worker of these numerics that could take so long a sequence, other than `but`. */
static bool equal_is_ready(const struct sim *sim, const struct client *client, uint32_t numerics,
                           bool prefills, uint32_t but) {
    for (uint32_t slot = 0; slot < SIM_SLOTS; slot++) {
        struct worker_view view;
        if (slot != but && is_ready(sim, client->router, slot, &view) &&
            (!prefills || view.welcome.role == ROLE_PREFILL) && view_numerics(&view) == numerics &&
            client->n_prompt + client->n_got < view.welcome.context &&
            is_trusted(sim, client, slot, but))
            return true;
    }
    return false;
}

static void see_role(struct sim *sim, uint32_t to, bool handoff) {
    if (handoff)
        return;
    switch (sim->options.roles[to - SIM_ROUTERS]) {
    case ROLE_MIXED:
        sim_saw(sim, SIGHT_MIXED);
        return;
    case ROLE_PREFILL:
        sim_saw(sim, SIGHT_PREFILL_DECODES);
        return;
    default:
        sim_saw(sim, SIGHT_LOCAL_PREFILL);
        return;
    }
}

static uint64_t waiting_tokens(const struct slot *slot, const struct part *own) {
    uint64_t n = slot->load.prefill_tokens_queued + slot->tokens_unreflected;
    return own->slot == slot->number && !own->reflected ? n - own->n_tokens : n;
}

/* Blocks for n tokens beside all that runs and waits there, and it does not say that it is full. */
static bool has_room(const struct router *router, const struct slot *slot, uint32_t n_tokens,
                     const struct part *own, uint64_t tenant) {
    uint64_t n_tokens_due = n_tokens + waiting_tokens(slot, own) + SIM_TOKENS;
    uint64_t n_sequences = (uint64_t)slot->load.n_running + slot->load.n_waiting;
    uint32_t n_most = tenant == 0 ? slot->welcome.max_seqs : tenant_n_places(slot);
    return slot->busy_until_ns <= router->now_ns &&
           n_tokens_due / SIM_TOKENS + slot->load.n_running <=
               (uint64_t)slot->load.blocks_free + slot->load.blocks_cached &&
           n_sequences + slot->n_assigned + slot->n_unreflected < n_most;
}

/* Roles yield to load, and to nothing else: see router/core/roles.h. */
static void judge_roles(struct sim *sim, const struct client *client, const struct router *router,
                        const struct request *req) {
    uint32_t n_tokens = client->n_prompt + client->n_got;
    const struct slot *to = &router->fleet.slots[req->to_decode];
    bool by_load = router->config.roles == ROLES_LOAD;
    if (strcmp(req->choice, "prefill_workers_busy") == 0) {
        bool busy = false;
        fleet_each(slot, &router->fleet) {
            busy |= slot->state == SLOT_READY && slot->welcome.role == ROLE_PREFILL &&
                    waiting_tokens(slot, &req->decode) > 0;
        }
        sim_saw(sim, SIGHT_PREFILL_YIELDED);
        if (!by_load || !busy || req->to_prefill != SLOT_NONE)
            sim_fail(sim, "client %llu: no prefill worker is busy",
                     (unsigned long long)client->serial);
    } else if (strcmp(req->choice, "decode_workers_full") == 0) {
        sim_saw(sim, SIGHT_DECODE_YIELDED);
        bool room = !by_load;
        fleet_each(slot, &router->fleet) {
            room |= slot->state == SLOT_READY && slot->welcome.role != ROLE_PREFILL &&
                    n_tokens < slot->welcome.context && !request_too_long(req, slot->number) &&
                    is_least_bad(router, req, slot) &&
                    (client->n_got == 0 ||
                     memcmp(slot->welcome.numerics_fp, req->numerics, FINGERPRINT_BYTES) == 0) &&
                    router->alone == SLOT_NONE &&
                    has_room(router, slot, n_tokens, &req->decode, req->spec.tenant);
        }
        if (room)
            sim_fail(sim, "client %llu: a decode worker has blocks",
                     (unsigned long long)client->serial);
    } else if (by_load && req->to_prefill != SLOT_NONE) {
        const struct slot *from = &router->fleet.slots[req->to_prefill];
        uint64_t from_us = from->load.step_us_typical, to_us = to->load.step_us_typical;
        from_us = from_us > from->load.step_us_expected ? from_us : from->load.step_us_expected;
        to_us = to_us > to->load.step_us_expected ? to_us : to->load.step_us_expected;
        bool known = from_us > 0 && to_us > 0;
        to_us = to_us > from_us ? to_us : from_us;
        uint64_t here = waiting_tokens(to, &req->decode) + 2 * (uint64_t)n_tokens;
        if (waiting_tokens(from, &req->prefill) * (known ? from_us : 1) >
            here * (known ? to_us : 1))
            sim_fail(sim, "client %llu: its prompt would have ended sooner where it decodes",
                     (unsigned long long)client->serial);
    }
}

/* A request got a place: for a hand-off when blocks are asked for, else when it is submitted. */
static void placed(struct sim *sim, struct client *client, uint32_t number, uint32_t slot,
                   uint32_t to, bool handoff) {
    if (client->attempt.number != 0 && number <= client->attempt.number) {
        sim_fail(sim, "client %llu: attempt %u after %u", (unsigned long long)client->serial,
                 number, client->attempt.number);
        return;
    }
    client->still_ns = sim->now_ns;
    judge_order(sim, client, to);
    judge_replacement(sim, client, slot);
    uint32_t numerics = numerics_of(sim, to);
    bool equal = equal_is_ready(sim, client, client->numerics, false, SIM_SLOTS);
    if (client->n_got > 0 && numerics != client->numerics && equal)
        sim_fail(sim, "client %llu goes on with other numerics though an equal worker is ready",
                 (unsigned long long)client->serial);
    if (client->attempt.number != 0)
        sim_saw(sim, SIGHT_REPLAY);
    const struct router *router = sim->nodes[client->router].router;
    const struct request *req = request_find(&router->requests, client->request);
    if (req && req->hold_ns > 0)
        sim_saw(sim, SIGHT_HELD_BACK);
    if (req) {
        judge_roles(sim, client, router, req);
        tenant_placed(sim, router, &router->fleet.slots[slot], req);
    }
    if (client->attempt.number != 0 && client->n_got > 0) {
        if (answer_fills_context(sim, client)) {
            client->outgrew = true;
            sim_saw(sim, SIGHT_OUTGROWN);
        }
        sim_saw(sim, SIGHT_REPLAY_TOKENS);
        if (client->temperature > 0)
            sim_saw(sim, SIGHT_REPLAY_DRAWN);
    }
    see_role(sim, to, handoff);
    client->attempt.number = number;
    client->attempt.gen = 0;
    client->attempt.begin = client->n_got;
    client->attempt.slot = slot;
    client->attempt.decode = to;
    client->attempt.prefill = SIM_NO_NODE;
    client->attempt.submitted = false;
    client->attempt.equal_ready = client->n_got > 0 && equal;
    client->attempt.partner_ready = handoff && equal_is_ready(sim, client, numerics, true, slot);
}

static void judge_pair(struct sim *sim, struct client *client, uint32_t prefill) {
    client->attempt.prefill = prefill;
    bool equal = numerics_of(sim, prefill) == numerics_of(sim, client->attempt.decode);
    if (!equal && (client->attempt.partner_ready || client->attempt.equal_ready))
        sim_fail(sim, "client %llu: a pair of other numerics though there is an equal one",
                 (unsigned long long)client->serial);
}

/* The decode worker, or the only one, has it: now the router knows whether this is exact. */
static void submitted(struct sim *sim, struct client *client) {
    if (client->attempt.submitted) {
        sim_fail(sim, "client %llu: submitted twice", (unsigned long long)client->serial);
        return;
    }
    client->attempt.submitted = true;
    uint32_t numerics = numerics_of(sim, client->attempt.decode);
    uint32_t prefill = client->attempt.prefill;
    bool others = client->n_got > 0 && numerics != client->numerics;
    bool pair = prefill != SIM_NO_NODE && numerics_of(sim, prefill) != numerics;
    sim->nodes[client->router].judged.n_inexact += others || pair;
    if (others)
        sim_saw(sim, SIGHT_INEXACT);
    else if (client->n_got > 0 && sim->options.weights[KIND_NUMERICS] > 0)
        sim_saw(sim, SIGHT_EXACT_KEPT);
    if (pair)
        sim_saw(sim, SIGHT_INEXACT_PAIR);
}

static void judge_submit(struct sim *sim, uint32_t router, uint32_t slot, uint32_t to,
                         const struct submit *submit) {
    struct client *client = client_of_request(sim, router, submit->req.lo);
    sick_submitted(sim, router, to, submit->phase);
    if (to - SIM_ROUTERS == sim->options.other_model)
        sim_fail(sim, "a request went to a worker of another model");
    if (!client) {
        sim_fail(sim, "a request that nobody asked is submitted");
        return;
    }
    if (submit->phase == PHASE_BOTH)
        placed(sim, client, submit->attempt, slot, to, false);
    else if (submit->phase == PHASE_PREFILL)
        judge_pair(sim, client, to);
    if (submit->phase != PHASE_PREFILL)
        submitted(sim, client);
    if (submit->has_xfer && submit->xfer.gen != client->attempt.gen)
        sim_fail(sim, "client %llu: submitted under reservation %u, not %u",
                 (unsigned long long)client->serial, submit->xfer.gen, client->attempt.gen);
    if (submit->n_prompt != client->n_prompt ||
        submit->n_tokens != client->n_prompt + client->n_got ||
        submit->priority != client->priority || submit->salt != client->salt ||
        submit->tenant != client_tenant(sim, client) || submit->sampling.seed != client->seed ||
        submit->sampling.choice != client->choice ||
        (submit->budget_ms != 0) != (client->deadline_ns != 0))
        sim_fail(sim, "client %llu: submitted is not what was asked",
                 (unsigned long long)client->serial);
}

void judge_router_paused(struct sim *sim, uint32_t router, uint64_t ns) {
    struct node *node = &sim->nodes[router];
    uint64_t own_ns = (uint64_t)((__int128)ns * (1000000 + node->clock.ppm) / 1000000);
    node->judged.stood_most_ns += own_ns + SLACK_NS;
    node->judged.stood_least_ns += own_ns > OWN_NS + SLACK_NS ? own_ns - OWN_NS - SLACK_NS : 0;
}

/* How long a worker has made no progress in the router's own time: at most, and at least. */
static uint64_t silent_most_ns(const struct sim *sim, uint32_t router, uint32_t slot) {
    const struct node *node = &sim->nodes[router];
    return sim_clock(sim, router) - node->judged.moved_ns[slot] -
           (node->judged.stood_least_ns - node->judged.moved_least_ns[slot]);
}

static uint64_t silent_least_ns(const struct sim *sim, uint32_t router, uint32_t slot) {
    const struct node *node = &sim->nodes[router];
    uint64_t silent_ns = sim_clock(sim, router) - node->judged.moved_ns[slot];
    uint64_t stood_ns = node->judged.stood_most_ns - node->judged.moved_most_ns[slot];
    return silent_ns > stood_ns ? silent_ns - stood_ns : 0;
}

/* A step that it announces is believed up to a second, or twice what steps there have taken. */
static uint64_t believed_ns(const struct sim *sim, uint32_t router, uint32_t slot) {
    uint64_t shown_ns = sim->nodes[router].router->fleet.slots[slot].trust->steps_ns;
    return 2 * shown_ns > NS_PER_S ? 2 * shown_ns : NS_PER_S;
}

/* The bound for "hung": a second, or four steps as far as they are believed. */
static uint64_t bound_ns(const struct sim *sim, uint32_t router, uint32_t slot,
                         const struct worker_view *view) {
    uint64_t step = (uint64_t)view->load.step_us_expected * NS_PER_US;
    uint64_t most = believed_ns(sim, router, slot);
    if (view->load.step_us_expected > STEP_US_BELIEVED)
        step = 0;
    step = step < most ? step : most;
    return 4 * step > NS_PER_S ? 4 * step : NS_PER_S;
}

/* Given up for its silence: that was long enough, and it did not only look so. */
static void judge_silence(struct sim *sim, uint32_t router, uint32_t slot, uint32_t to,
                          uint64_t bound, const char *how) {
    uint64_t silent_ns = silent_most_ns(sim, router, slot);
    if (silent_ns <= bound)
        sim_fail(sim, "router %u %s worker %u after %llu ms, within its bound of %llu ms", router,
                 how, to, (unsigned long long)(silent_ns / NS_PER_MS),
                 (unsigned long long)(bound / NS_PER_MS));
    uint64_t trouble_ns = sim_trouble_ns(sim, router, to);
    bool lives =
        sim->nodes[to].up && sim->nodes[router].router->fleet.slots[slot].announce.incarnation ==
                                 sim->nodes[to].incarnation;
    struct worker_view view;
    bool unproved = router_worker(sim->nodes[router].router, slot, &view) == STATUS_OK &&
                    view.load.step_us_expected * NS_PER_US > believed_ns(sim, router, slot);
    if (lives && !unproved && trouble_ns + silent_ns + PATIENCE_NS < sim->now_ns)
        sim_fail(sim,
                 "router %u %s worker %u, which is slow and said so (trouble ended %llu ms "
                 "ago, silent for %llu ms)",
                 router, how, to, (unsigned long long)((sim->now_ns - trouble_ns) / NS_PER_MS),
                 (unsigned long long)(silent_ns / NS_PER_MS));
}

/* Its name goes to the next incarnation: it must count as lost. */
void judge_router_closes(struct sim *sim, uint32_t router, uint32_t slot) {
    const struct node *node = &sim->nodes[router];
    struct worker_view view;
    if (router_worker(node->router, slot, &view) != STATUS_OK ||
        (view.state != SLOT_READY && view.state != SLOT_DRAINING))
        return;
    sim_saw(sim, SIGHT_SUPERSEDED);
    judge_silence(sim, router, slot, sim->net.conns[node->conn_of_slot[slot] - 1].node[1], NS_PER_S,
                  "supersedes");
}

/* Taken for hung, and not because it said so itself. */
static void judge_fence(struct sim *sim, uint32_t router, uint32_t slot, uint32_t to) {
    const struct node *node = &sim->nodes[router];
    struct worker_view view;
    if (router_worker(node->router, slot, &view) != STATUS_OK)
        return;
    sim_saw(sim, SIGHT_HUNG);
    judge_silence(sim, router, slot, to, bound_ns(sim, router, slot, &view), "fences");
    for (uint32_t other = 0; other < SIM_SLOTS; other++) {
        struct worker_view alive;
        if (other == slot || !is_ready(sim, router, other, &alive))
            continue;
        /* One that joined in this very tick lives as far as anybody can know. */
        bool joined = node->router->fleet.slots[other].session != node->judged.session[other];
        if (joined || silent_least_ns(sim, router, other) <= bound_ns(sim, router, other, &alive))
            return;
    }
    sim_fail(sim, "router %u fences worker %u, the last that lives", router, to);
}

void judge_router_sends(struct sim *sim, uint32_t router, uint32_t slot,
                        const struct message *message) {
    const struct node *node = &sim->nodes[router];
    uint32_t to = sim->net.conns[node->conn_of_slot[slot] - 1].node[1];
    struct worker_view view;
    switch (message->type) {
    case MESSAGE_RESERVE: {
        struct client *client = client_of_request(sim, router, message->u.reserve.req.lo);
        if (client)
            placed(sim, client, message->u.reserve.attempt, slot, to, true);
        return;
    }
    case MESSAGE_SUBMIT:
        judge_submit(sim, router, slot, to, &message->u.submit);
        return;
    case MESSAGE_PEERS:
        judge_peers_told(sim, router, slot, &message->u.peers);
        return;
    case MESSAGE_RESEND:
        sim_saw(sim, SIGHT_RESEND);
        return;
    case MESSAGE_RESET: /* each name stands for one process here, one after the other */
        if (message->u.reset.refusal == REFUSAL_NAME)
            sim_fail(sim, "router %u takes the restart of worker %u for a second one of its name",
                     router, to);
        return;
    case MESSAGE_HELLO:
        if (node->judged.ticking && router_worker(node->router, slot, &view) == STATUS_OK &&
            view.state == SLOT_SUSPECT)
            judge_fence(sim, router, slot, to);
        return;
    default:
        return;
    }
}

void judge_router_hears(struct sim *sim, uint32_t router, const struct message *message) {
    if (message->type != MESSAGE_RESERVED)
        return;
    const struct reserved *reserved = &message->u.reserved;
    struct client *client = client_of_request(sim, router, reserved->req.lo);
    if (client && client->attempt.number == reserved->attempt && client->attempt.gen == 0)
        client->attempt.gen = reserved->gen;
}

/* After a tick nobody is kept who is silent for longer than his bound, while another one lives:
 * whatever pauses the router had. */
static void judge_kept(struct sim *sim, uint32_t router, uint32_t slot) {
    struct worker_view view, alive;
    if (!is_ready(sim, router, slot, &view) ||
        silent_least_ns(sim, router, slot) <=
            bound_ns(sim, router, slot, &view) + NS_PER_MS) /* timers are rounded */
        return;
    for (uint32_t other = 0; other < SIM_SLOTS; other++) {
        if (other != slot && is_ready(sim, router, other, &alive) &&
            silent_most_ns(sim, router, other) <= bound_ns(sim, router, other, &alive))
            sim_fail(sim, "router %u keeps slot %u, silent for %llu ms, though slot %u lives",
                     router, slot,
                     (unsigned long long)(silent_least_ns(sim, router, slot) / NS_PER_MS), other);
    }
}

void judge_router_after(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    const struct router *router = node->router;
    uint64_t now_ns = sim_clock(sim, i);
    if (router_ready(router))
        node->judged.down_since_ns = 0;
    else if (node->judged.down_since_ns == 0)
        node->judged.down_since_ns = now_ns;
    if (router->alone != SLOT_NONE)
        sim_saw(sim, SIGHT_ALONE);
    judge_alone(sim, i);
    judge_fleet(sim, i);
    sick_judge(sim, i);
    for (uint32_t slot = 0; slot < router->fleet.n_seen; slot++) {
        const struct slot *at = &router->fleet.slots[slot];
        if (slot_in_session(at) && (node->judged.progress[slot] != at->load.progress ||
                                    node->judged.session[slot] != at->session)) {
            node->judged.progress[slot] = at->load.progress;
            node->judged.session[slot] = at->session;
            node->judged.moved_ns[slot] = now_ns;
            node->judged.moved_most_ns[slot] = node->judged.stood_most_ns;
            node->judged.moved_least_ns[slot] = node->judged.stood_least_ns;
        }
        if (!slot_in_session(at))
            node->judged.session[slot] = 0;
        if (node->judged.ticking)
            judge_kept(sim, i, slot);
        if (at->state == SLOT_REFUSED)
            sim_saw(sim, SIGHT_MODEL_REFUSED);
        if (at->state == SLOT_RIVAL)
            sim_saw(sim, SIGHT_RIVAL);
        if (node->judged.ticking && at->state == SLOT_READY && router->fleet.n_ready == 1 &&
            now_ns - node->judged.moved_ns[slot] > 2 * NS_PER_S)
            sim_saw(sim, SIGHT_LAST_KEPT);
    }
}
