/* A router's shell: what the daemon's link.c and front/ do with bytes, done with events. */
#include "tests/sim/sim.h"

#include "base/assert.h"
#include "base/log/note.h"
#include "router/core/note.h"
#include "tests/sim/judge.h"

#include <stdlib.h>
#include <string.h>

/* One per router, so that sink calls know whose they are. */
struct front {
    struct sim *sim;
    uint32_t node;
};
static struct front fronts[SIM_ROUTERS];

static void on_open_link(void *context, uint32_t slot, const struct announce *announce) {
    struct front *front = context;
    struct sim *sim = front->sim;
    uint32_t to = (uint32_t)strtoul(announce->endpoint, NULL, 10);
    ASSERT(slot < SIM_SLOTS && to >= SIM_ROUTERS && to < SIM_NODES);
    uint32_t conn = net_open(&sim->net, front->node, slot, to, false);
    sim->nodes[front->node].conn_of_slot[slot] = conn + 1;
    const struct node *worker = &sim->nodes[to];
    if (!worker->up || worker->incarnation != announce->incarnation) {
        sim->net.conns[conn].closed[1] = true; /* nobody listens there */
        wire_break(sim, conn, sim->options.delay_ns);
    }
}

static void on_close_link(void *context, uint32_t slot) {
    struct front *front = context;
    struct node *node = &front->sim->nodes[front->node];
    ASSERT(node->conn_of_slot[slot] != 0);
    judge_router_closes(front->sim, front->node, slot);
    net_close(&front->sim->net, node->conn_of_slot[slot] - 1, 0);
    node->conn_of_slot[slot] = 0;
}

static void on_send(void *context, uint32_t slot, const struct message *message) {
    struct front *front = context;
    struct sim *sim = front->sim;
    uint32_t conn = sim->nodes[front->node].conn_of_slot[slot];
    ASSERT(conn != 0);
    judge_router_sends(sim, front->node, slot, message);
    calm_router_sends(sim, front->node, slot, message);
    /* A shell that cannot get rid of its queue gives the link up. */
    if (wire_send(sim, conn - 1, 0, message, 4096) == STATUS_BUSY)
        wire_break(sim, conn - 1, 0);
}

static void on_tokens(void *context, uint64_t user, const struct token_run *run) {
    struct front *front = context;
    answer_tokens(front->sim, front->node, user, run);
}

static void on_end(void *context, uint64_t user, const struct request_end *end) {
    struct front *front = context;
    answer_end(front->sim, front->node, user, end);
}

/* What may cost a client its answer in the end (judge_quiet). */
static void count_losses(struct counts *counts, const struct note *note) {
    switch (note->event) {
    case NOTE_LOST:
        counts->worker_losses++;
        counts->request_losses += note->values[1];
        return;
    case NOTE_REQUEST_MISSING:
    case NOTE_REQUEST_STILL:
    case NOTE_NO_VERDICT:
        counts->request_losses++;
        return;
    default:
        return;
    }
}

static void on_note(void *context, const struct note *note) {
    struct front *front = context;
    char text[300];
    count_losses(&front->sim->counts, note);
    judge_replaced(front->sim, front->node, note);
    if (!front->sim->verbose)
        return;
    sim_trace(front->sim, "router %u: %s %s", front->node, note->kind->message,
              note_text(text, sizeof text, note, NULL));
}

void front_start(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    struct front *front = &fronts[i];
    *front = (struct front){.sim = sim, .node = i};
    node->up = true;
    node->epoch++;
    node->incarnation = random_next(&sim->draws.nodes) | 1;
    memset(node->conn_of_slot, 0, sizeof node->conn_of_slot);
    memset(&node->judged, 0, sizeof node->judged);
    struct router_config config = {
        .router_id = node->incarnation,
        .seed = random_next(&sim->draws.nodes),
        .max_requests = sim->options.max_requests,
        .max_queue = sim->options.max_queue,
        .max_workers = SIM_SLOTS,
        .max_prompt = SIM_PROMPT,
        .n_vocab = 65536,
        .policy = sim->options.policy,
        .roles = sim->options.roles_by,
        .local_prefill_tokens = sim->options.local_prefill_tokens,
        .no_worker_wait_ns = 5 * NS_PER_S,
        .hang_ns_min = NS_PER_S,
        .prefix_key = SIM_PREFIX_KEY,
        /* the model's fingerprints are all zero here, as the workers' (back.c) */
    };
    snprintf(config.name, sizeof config.name, "router%u", i);
    struct router_sink sink = {.context = front,
                               .open_link = on_open_link,
                               .close_link = on_close_link,
                               .send = on_send,
                               .tokens = on_tokens,
                               .end = on_end,
                               .note = on_note};
    if (router_new(&config, &sink, &node->router) != STATUS_OK)
        abort();
    node->tick_ns = UINT64_MAX;
    sim_trouble(sim, i, i, sim->now_ns);
    front_after(sim, i);
}

void front_message(struct sim *sim, uint32_t i, uint32_t slot, const struct message *message) {
    struct node *node = &sim->nodes[i];
    if (!node->up)
        return;
    judge_router_hears(sim, i, message);
    calm_reads(sim, i, message->type);
    sim->step = message->type == MESSAGE_STEP ? &message->u.step : NULL;
    struct judge_ear ear = judge_session_before(sim, i, slot, message);
    router_message(node->router, sim_clock(sim, i), slot, message);
    judge_session_after(sim, i, slot, &ear);
    sim->step = NULL;
    calm_reads(sim, i, MESSAGE_NONE);
}

void front_lost(struct sim *sim, uint32_t i, uint32_t slot) {
    struct node *node = &sim->nodes[i];
    node->conn_of_slot[slot] = 0;
    router_link_lost(node->router, sim_clock(sim, i), slot);
}

void front_tick(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    node->judged.ticking = true;
    calm_ticks(sim, i, true);
    router_tick(node->router, sim_clock(sim, i));
    calm_ticks(sim, i, false);
    judge_router_after(sim, i);
    node->judged.ticking = false;
}

/* What clients decided inside a sink call is done after it: the core must not be called back. */
static void due(struct sim *sim, uint32_t i) {
    if (!(sim->due >> i & 1))
        return;
    sim->due &= ~(1u << i);
    uint64_t now_ns = sim_clock(sim, i);
    for (uint32_t c = 0; c < SIM_CLIENTS; c++) {
        struct client *client = &sim->clients[c];
        if (!client->used || client->router != i || client->ended ||
            !(client->stop_due || client->cancel_due))
            continue;
        sim->due |= 1u << i; /* until it has ended */
        if (!client->running)
            continue;
        if (client->stop_due)
            router_stop(sim->nodes[i].router, now_ns, client->request, client->match_at);
        else
            router_cancel(sim->nodes[i].router, now_ns, client->request);
    }
}

void front_after(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    if (!node->up)
        return;
    due(sim, i);
    judge_router_after(sim, i);
    calm_router_after(sim, i);
    uint64_t deadline = router_deadline(node->router);
    if (deadline != UINT64_MAX)
        deadline = sim_true_ns(sim, i, deadline);
    if (deadline < sim->now_ns)
        deadline = sim->now_ns;
    if (deadline == node->tick_ns)
        return;
    node->tick_ns =
        deadline; /* as the shell does: the last word of the core counts, not its first */
    if (deadline != UINT64_MAX)
        sim_at(sim, deadline, (struct cell_event){.type = EVENT_TICK, .node = i, .c = node->epoch});
}
