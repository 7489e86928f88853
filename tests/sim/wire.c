/* What goes wrong on the way of the network (tools/cell/net.h): a partition holds messages back, and a hostile network also
 * loses, repeats and reorders them inside a live connection. */
#include "tests/sim/sim.h"

#include "tests/sim/judge.h"

#include <stdlib.h>

struct wire *wire_of(struct sim *sim, const struct conn *conn) {
    return &sim->wires[conn - sim->net.conns];
}

static uint64_t on_delay(void *context) {
    struct sim *sim = context;
    return sim->options.delay_ns + draw_about(&sim->draws.net, sim->options.delay_ns);
}

static void on_opened(void *context, uint32_t i) {
    struct sim *sim = context;
    struct wire *wire = &sim->wires[i];
    *wire = (struct wire){.ring = wire->ring};
    wire->shm = sim->net.conns[i].kv && draw_chance(&sim->draws.net, sim->options.shm_percent);
    if (wire->shm && !wire->ring && !(wire->ring = malloc(SIM_RING_BYTES)))
        abort();
    if (wire->shm)
        stage_init(&wire->stage, SIM_RING_BYTES);
}

/* KV's own bits, which a checksum guards. */
static void corrupt(struct sim *sim, struct packet *packet) {
    if (packet->type != MESSAGE_CHUNK || packet->n_raw == 0 ||
        sim->options.weights[KIND_CORRUPT] == 0 || sim->phase != RUN_SAFETY ||
        !draw_chance(&sim->draws.net, 1))
        return;
    uint64_t at = random_below(&sim->draws.net, packet->n_raw);
    packet->bytes[packet->n_head + at] ^= (uint8_t)draw_between(&sim->draws.net, 1, 255);
    sim->counts.corrupted++;
    sim->counts.faults++;
}

static void on_leaves(void *context, struct conn *conn, struct packet *packet) {
    (void)conn;
    corrupt(context, packet);
}

static void on_sent(void *context, const struct conn *conn, uint64_t delay_ns) {
    time_sent(context, delay_ns, conn->kv);
}

/* It comes later, out of order; or a copy of it does. */
static void astray(struct sim *sim, uint32_t i, uint32_t d, struct packet *packet) {
    const struct conn *conn = &sim->net.conns[i];
    sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
    uint64_t mean = draw_chance(&sim->draws.net, 80) ? 5 * NS_PER_MS : 500 * NS_PER_MS;
    net_astray(&sim->net, i, d, packet, 1 + draw_about(&sim->draws.net, mean));
}

static bool hits(struct sim *sim, uint32_t per_mille) {
    return per_mille > 0 && sim->phase == RUN_SAFETY &&
           random_below(&sim->draws.net, 1000) < per_mille;
}

static bool on_survive(void *context, uint32_t i, uint32_t d, struct packet *packet) {
    struct sim *sim = context;
    const struct conn *conn = &sim->net.conns[i];
    bool eaten = fault_eats(sim, conn, packet->type);
    if (eaten || hits(sim, sim->options.loss)) {
        sim_saw(sim, eaten ? SIGHT_EATEN : SIGHT_LOST);
        sim_trace(sim, "%u>%u %s is lost", conn->node[d], conn->node[1 - d],
                  message_name(packet->type));
        sim->counts.lost++;
        sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
        free(packet);
        return false;
    }
    if (hits(sim, sim->options.duplicate)) {
        sim->counts.duplicated++;
        sim_saw(sim, SIGHT_DUPLICATED);
        astray(sim, i, d, net_copy(packet));
    }
    if (hits(sim, sim->options.reorder)) {
        sim->counts.reordered++;
        sim_saw(sim, SIGHT_REORDERED);
        astray(sim, i, d, packet);
        return false;
    }
    return true;
}

static bool on_arrive(void *context, const struct cell_event *event, const struct conn *conn,
                      uint32_t d) {
    struct sim *sim = context;
    struct node *to = &sim->nodes[conn->node[1 - d]];
    uint64_t blocked = sim->blocked_until_ns[conn->node[d]][conn->node[1 - d]];
    if (blocked > sim->now_ns) {
        sim_at(sim, blocked, *event);
        return false;
    }
    if (to->up && to->in_step && !sim->options.messages_in_step && to->n_inbox < SIM_INBOX) {
        to->inbox[to->n_inbox++] = *event;
        return false;
    }
    return true;
}

static void on_deliver(void *context, struct conn *conn, uint32_t d, const struct packet *packet) {
    deliver_packet(context, conn, d, packet);
}

static void on_broken(void *context, uint32_t node, uint32_t link) {
    struct sim *sim = context;
    sim_trace(sim, "%u: link %u lost", node, link);
    if (!sim->nodes[node].up)
        return;
    if (node < SIM_ROUTERS)
        front_lost(sim, node, link);
    else
        engine_link_lost(sim->nodes[node].engine, sim_clock(sim, node), link);
}

static void on_trouble(void *context, uint32_t a, uint32_t b, uint64_t until_ns) {
    sim_trouble(context, a, b, until_ns);
}

static void on_failed(void *context, const char *what) {
    sim_fail(context, "%s", what);
}

void wire_init(struct sim *sim) {
    struct net_spec spec = {.n_conns = SIM_CONNS,
                            .n_nodes = SIM_NODES,
                            .hangup_ns = sim->options.delay_ns,
                            .overtake = sim->options.overtake};
    struct net_hooks hooks = {.context = sim,
                              .delay_ns = on_delay,
                              .opened = on_opened,
                              .leaves = on_leaves,
                              .sent = on_sent,
                              .arrives = on_arrive,
                              .survives = on_survive,
                              .deliver = on_deliver,
                              .broken = on_broken,
                              .trouble = on_trouble,
                              .failed = on_failed};
    sim->wires = calloc(SIM_CONNS, sizeof *sim->wires);
    if (!sim->wires ||
        net_init(&sim->net, &spec, &hooks, &sim->heap, &sim->now_ns, &sim->serial) != STATUS_OK)
        abort();
}

void wire_fini(struct sim *sim) {
    net_fini(&sim->net);
    for (uint32_t i = 0; sim->wires && i < SIM_CONNS; i++)
        free(sim->wires[i].ring);
    free(sim->wires);
}

enum status wire_send(struct sim *sim, uint32_t i, uint32_t end, const struct message *message,
                      uint32_t hwm) {
    const struct conn *conn = &sim->net.conns[i];
    enum status status = net_send(&sim->net, i, end, message, hwm, 0);
    if (status == STATUS_BUSY) {
        sim->counts.busy++;
        sim_saw(sim, SIGHT_BUSY);
        sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
    }
    return status;
}

static uint64_t more_delay(void *context) {
    struct sim *sim = context;
    return draw_about(&sim->draws.net, sim->options.delay_ns);
}

void wire_break(struct sim *sim, uint32_t i, uint64_t delay_ns) {
    net_break(&sim->net, i, delay_ns, more_delay);
}

void wire_inbox(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    for (uint32_t k = 0; k < node->n_inbox && !node->in_step; k++)
        net_event(&sim->net, &node->inbox[k]);
    node->n_inbox = 0;
}
