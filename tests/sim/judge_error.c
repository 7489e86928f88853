/* Who may be told no. Every error has its rule; "something was broken at the time" is no excuse. */
#include "tests/sim/judge.h"

#include "router/core/core.h"

#define NO_WORKER_NS  (5 * NS_PER_S)
#define LOSSES_POISON 4 /* three in a row, then the one that ran alone */
#define LOSSES_MAX    8
/* A worker that nothing was wrong with for so long is in session: it announces itself every second,
 * and a link that answers nothing is opened anew after two. */
#define WELL_NS (4500 * NS_PER_MS)

/* A worker that this router must have had at hand, with a context for so many tokens; SIM_NODES:
 * none. */
static uint32_t well_worker(const struct sim *sim, uint32_t router, uint32_t n_tokens) {
    for (uint32_t w = 0; w < sim->options.n_workers; w++) {
        uint32_t i = SIM_ROUTERS + w;
        const struct node *node = &sim->nodes[i];
        if (node->up && !node->draining && n_tokens < node->context &&
            w != sim->options.other_model &&
            sim_trouble_ns(sim, router, i) + WELL_NS < sim->now_ns &&
            node->long_until_ns + WELL_NS < sim->now_ns)
            return i;
    }
    return SIM_NODES;
}

static void judge_closed(struct sim *sim, const struct client *client, const char *what) {
    uint32_t n_tokens = client->n_prompt + client->n_got;
    uint32_t worker = well_worker(sim, client->router, n_tokens);
    if (worker != SIM_NODES)
        sim_fail(sim, "client %llu is %s for want of a worker, but worker %u is well (for %llu ms)",
                 (unsigned long long)client->serial, what, worker,
                 (unsigned long long)((sim->now_ns - sim_trouble_ns(sim, client->router, worker)) /
                                      NS_PER_MS));
}

/* No worker that is ready could hold so many tokens, and there is one. */
static bool too_long(const struct sim *sim, const struct client *client) {
    const struct fleet *fleet = &sim->nodes[client->router].router->fleet;
    for (uint32_t slot = 0; slot < fleet->n_seen; slot++) {
        if (fleet->slots[slot].state == SLOT_READY &&
            client->n_prompt + client->n_got < fleet->slots[slot].welcome.context)
            return false;
    }
    return fleet->n_ready > 0;
}

void judge_turned_away(struct sim *sim, const struct client *client, enum status status) {
    const struct router *router = sim->nodes[client->router].router;
    bool right = false;
    switch (status) {
    case STATUS_BUSY:
        sim_saw(sim, SIGHT_TURNED_BUSY);
        right = router->n_waiting >= sim->options.max_queue ||
                router->requests.n_used == router->requests.capacity;
        break;
    case STATUS_CLOSED:
        sim_saw(sim, SIGHT_TURNED_CLOSED);
        right = !router_ready(router);
        judge_closed(sim, client, "turned away");
        break;
    case STATUS_LIMIT:
        sim_saw(sim, SIGHT_TURNED_LIMIT);
        right = too_long(sim, client);
        judge_closed(sim, client, "too long");
        break;
    default:
        break;
    }
    if (!right)
        sim_fail(sim, "client %llu is turned away: %s, against the rules",
                 (unsigned long long)client->serial, status_name(status));
}

static bool timeout_is_right(struct sim *sim, const struct client *client,
                             const struct request_end *end) {
    sim_saw(sim, end->kind == END_REFUSED ? SIGHT_END_TIMEOUT_WAITING : SIGHT_END_TIMEOUT_RUNNING);
    return client->deadline_ns != 0 && sim_clock(sim, client->router) >= client->deadline_ns;
}

static bool closed_is_right(struct sim *sim, const struct client *client) {
    sim_saw(sim, SIGHT_END_CLOSED);
    judge_closed(sim, client, "given up");
    uint64_t since_ns = sim->nodes[client->router].judged.down_since_ns;
    return since_ns != 0 && sim_clock(sim, client->router) >= since_ns + NO_WORKER_NS;
}

/* Its workers kept dying: so many attempts in a row brought nothing. */
static bool io_is_right(struct sim *sim, const struct client *client,
                        const struct request_end *end) {
    uint32_t n_losses = client->attempt.number - client->attempt.token;
    sim->counts.given_up++;
    if (n_losses >= LOSSES_MAX && end->n_replays >= LOSSES_MAX) {
        sim_saw(sim, SIGHT_USED_UP);
        return true;
    }
    const struct router *router = sim->nodes[client->router].router;
    const struct slot *slot = &router->fleet.slots[client->attempt.slot];
    sim_saw(sim, SIGHT_POISONED);
    return n_losses >= LOSSES_POISON && end->n_replays >= LOSSES_POISON &&
           client->attempt.prefill == SIM_NO_NODE && !slot_in_session(slot);
}

/* Two workers agree that the numbers are unusable, or none was left that had not failed it. */
static bool corrupt_is_right(struct sim *sim, const struct client *client,
                             const struct request_end *end) {
    sim_saw(sim, SIGHT_END_SPOILT);
    const struct router *router = sim->nodes[client->router].router;
    const struct request *req = &router->requests.all[end->attempt.req.lo & 0xffffff]; /* as left */
    bool another = false;
    for (uint32_t slot = 0; slot < router->fleet.n_seen; slot++) {
        const struct slot *at = &router->fleet.slots[slot];
        another |= at->state == SLOT_READY && !request_too_long(req, slot) &&
                   !request_failed_at(req, slot) &&
                   client->n_prompt + client->n_got < at->welcome.context;
    }
    bool two = (client->spoilt_by & (client->spoilt_by - 1)) != 0;
    return end->reason == REASON_NUMERICS && client->spoilt_by != 0 && (two || !another);
}

void judge_error(struct sim *sim, const struct client *client, const struct request_end *end) {
    bool right = false;
    switch (end->status) {
    case STATUS_TIMEOUT:
        right = timeout_is_right(sim, client, end);
        break;
    case STATUS_LIMIT:
        sim_saw(sim, SIGHT_END_LIMIT);
        right = end->reason == REASON_TOO_LONG && too_long(sim, client);
        judge_closed(sim, client, "too long");
        break;
    case STATUS_CLOSED:
        right = closed_is_right(sim, client);
        break;
    case STATUS_IO:
        right = io_is_right(sim, client, end);
        break;
    case STATUS_CORRUPT:
        right = corrupt_is_right(sim, client, end);
        break;
    default:
        break;
    }
    bool workers_fault = end->status == STATUS_IO || end->status == STATUS_CORRUPT;
    if (sim->options.sick != SICK_NONE && workers_fault) /* two are healthy */
        right = false;
    if (sim->phase >= RUN_PROBE && end->status != STATUS_LIMIT)
        right = false;
    if ((end->kind == END_REFUSED) != (client->n_got == 0) && end->status != STATUS_TIMEOUT)
        right = false;
    if (!right)
        sim_fail(sim,
                 "client %llu: %s with %s after %u tokens, attempt %u (%u brought the last), "
                 "%u replays: against the rules",
                 (unsigned long long)client->serial,
                 end->kind == END_REFUSED ? "refused" : "failed", status_name(end->status),
                 client->n_got, client->attempt.number, client->attempt.token, end->n_replays);
}
