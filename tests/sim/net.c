/* The network: connections that keep order, hold back what a partition stops, and lose what is
 * under way when they break, as ZeroMQ's do. A hostile one also loses, repeats and reorders inside
 * a live connection. */
#include "tests/sim/sim.h"

#include "base/assert.h"
#include "tests/sim/judge.h"

#include <stdlib.h>
#include <string.h>

static void drop_list(struct packet **list) {
    while (*list) {
        struct packet *packet = *list;
        *list = packet->next;
        free(packet);
    }
}

static void drop_queue(struct conn *conn, uint32_t d) {
    drop_list(&conn->head[d]);
    conn->tail[d] = NULL;
    conn->n_queued[d] = 0;
}

static void drop_all(struct conn *conn) {
    drop_queue(conn, 0);
    drop_queue(conn, 1);
    drop_list(&conn->strays);
}

uint32_t net_open(struct sim *sim, uint32_t from, uint32_t from_link, uint32_t to, bool kv) {
    for (uint32_t i = 0; i < SIM_CONNS; i++) {
        struct conn *conn = &sim->conns[i];
        if (conn->generation && (conn->alive || !conn->closed[0] || !conn->closed[1]))
            continue;
        if (i >= sim->n_conns)
            sim->n_conns = i + 1;
        uint64_t generation = conn->generation + 1;
        uint8_t *ring = conn->ring;
        *conn = (struct conn){.alive = true,
                              .kv = kv,
                              .generation = generation,
                              .node = {from, to},
                              .link = {from_link, 0},
                              .last_ns = {sim->now_ns, sim->now_ns},
                              .ring = ring};
        conn->link[1] = sim->nodes[to].next_link++;
        conn->shm = kv && draw_chance(&sim->draws.net, sim->options.shm_percent);
        if (conn->shm && !conn->ring && !(conn->ring = malloc(SIM_RING_BYTES)))
            abort();
        if (conn->shm)
            stage_init(&conn->stage, SIM_RING_BYTES);
        return i;
    }
    sim_fail(sim, "out of connections");
    return 0;
}

void net_fini(struct sim *sim) {
    for (uint32_t i = 0; sim->conns && i < SIM_CONNS; i++) {
        drop_all(&sim->conns[i]);
        free(sim->conns[i].ring);
    }
    free(sim->conns);
}

uint32_t net_find(const struct sim *sim, uint32_t node, uint32_t link) {
    for (uint32_t i = 0; i < sim->n_conns; i++) {
        const struct conn *conn = &sim->conns[i];
        for (uint32_t end = 0; end < 2; end++) {
            if (conn->generation && !conn->closed[end] && conn->node[end] == node &&
                conn->link[end] == link)
                return i;
        }
    }
    return SIM_CONNS;
}

/* RESERVE, SUBMIT and CANCEL begin alike. */
static struct attempt_id subject(const struct message *message) {
    struct attempt_id about = {0};
    if (message->type == MESSAGE_RESERVE)
        about = (struct attempt_id){message->u.reserve.req, message->u.reserve.attempt};
    else if (message->type == MESSAGE_SUBMIT)
        about = (struct attempt_id){message->u.submit.req, message->u.submit.attempt};
    else if (message->type == MESSAGE_CANCEL)
        about = (struct attempt_id){message->u.cancel.req, message->u.cancel.attempt};
    return about;
}

static void append(struct conn *conn, uint32_t end, struct packet *packet) {
    if (conn->tail[end])
        conn->tail[end]->next = packet;
    else
        conn->head[end] = packet;
    conn->tail[end] = packet;
}

/* As the router's shell does: behind introductions, before work; what is cancelled
 * does not leave. */
static void overtake(struct conn *conn, struct packet *packet) {
    struct packet **at = &conn->head[0];
    while (*at && (*at)->type != MESSAGE_SUBMIT && (*at)->type != MESSAGE_RESERVE)
        at = &(*at)->next;
    packet->next = *at;
    *at = packet;
    while (*at) {
        struct packet *other = *at;
        bool work = other->type == MESSAGE_SUBMIT || other->type == MESSAGE_RESERVE;
        if (packet->type == MESSAGE_CANCEL && work && other->about.req.lo == packet->about.req.lo &&
            other->about.attempt <= packet->about.attempt)
            other->type = MESSAGE_NONE; /* its turn passes without it */
        at = &other->next;
    }
    conn->tail[0] = NULL;
    for (struct packet *last = conn->head[0]; last; last = last->next)
        conn->tail[0] = last;
}

static struct packet *wrap(const struct message *message, const struct frames *frames) {
    size_t n_raw = frames->raw ? frames->n_raw : 0;
    struct packet *packet = malloc(sizeof *packet + frames->n_head + n_raw);
    if (!packet)
        abort();
    *packet = (struct packet){.n_head = frames->n_head, .n_raw = n_raw, .type = message->type};
    memcpy(packet->bytes, frames->head, frames->n_head);
    if (n_raw > 0)
        memcpy(packet->bytes + frames->n_head, frames->raw, n_raw);
    return packet;
}

/* KV's own bits, which a checksum guards. */
static void corrupt(struct sim *sim, struct packet *packet) {
    if (packet->n_raw == 0 || sim->options.weights[KIND_CORRUPT] == 0 || sim->phase != RUN_SAFETY ||
        !draw_chance(&sim->draws.net, 1))
        return;
    uint64_t at = random_below(&sim->draws.net, packet->n_raw);
    packet->bytes[packet->n_head + at] ^= (uint8_t)draw_between(&sim->draws.net, 1, 255);
    sim->counts.corrupted++;
    sim->counts.faults++;
}

enum status net_send(struct sim *sim, uint32_t i, uint32_t end, const struct message *message,
                     uint32_t hwm) {
    struct conn *conn = &sim->conns[i];
    if (!conn->alive)
        return conn->closed[end] ? STATUS_CLOSED : STATUS_OK; /* nobody knows yet: it is lost */
    if (conn->n_queued[end] >= hwm) {
        sim->counts.busy++;
        sim_saw(sim, SIGHT_BUSY);
        sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
        return STATUS_BUSY;
    }
    struct message stamped = *message;
    if (conn->kv || end == 1)
        stamped.seq = ++conn->seq[end];
    struct frames frames;
    enum status status = codec_encode(&sim->codec, &stamped, &frames);
    if (status != STATUS_OK) {
        sim_fail(sim, "a %s cannot be encoded: %s", message_name(message->type),
                 status_name(status));
        return status;
    }
    struct packet *packet = wrap(message, &frames);
    if (message->type == MESSAGE_CHUNK)
        corrupt(sim, packet);
    if (!conn->kv && end == 0)
        packet->about = subject(message);
    if (!conn->kv && end == 0 && sim->options.overtake &&
        (message->type == MESSAGE_CANCEL || message->type == MESSAGE_PING))
        overtake(conn, packet);
    else
        append(conn, end, packet);
    conn->n_queued[end]++;
    uint64_t delay_ns = sim->options.delay_ns;
    uint64_t at = sim->now_ns + delay_ns + draw_about(&sim->draws.net, delay_ns);
    at = at > conn->last_ns[end] ? at : conn->last_ns[end];
    conn->last_ns[end] = at;
    time_sent(sim, at - sim->now_ns, conn->kv);
    sim_at(sim, at,
           (struct event){.type = EVENT_PACKET,
                          .node = conn->node[1 - end],
                          .a = i,
                          .b = end,
                          .c = conn->generation});
    return STATUS_OK;
}

/* It comes later, out of order; or a copy of it does. */
static void astray(struct sim *sim, uint32_t i, uint32_t d, struct packet *packet) {
    struct conn *conn = &sim->conns[i];
    packet->number = ++conn->n_strays;
    packet->next = conn->strays;
    conn->strays = packet;
    sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
    uint64_t mean = draw_chance(&sim->draws.net, 80) ? 5 * NS_PER_MS : 500 * NS_PER_MS;
    sim_at(sim, sim->now_ns + 1 + draw_about(&sim->draws.net, mean),
           (struct event){.type = EVENT_STRAY,
                          .node = conn->node[1 - d],
                          .a = i,
                          .b = d | packet->number << 1,
                          .c = conn->generation});
}

static struct packet *copy(const struct packet *packet) {
    size_t n = sizeof *packet + packet->n_head + packet->n_raw;
    struct packet *twin = malloc(n);
    if (!twin)
        abort();
    memcpy(twin, packet, n);
    return twin;
}

static bool hits(struct sim *sim, uint32_t per_mille) {
    return per_mille > 0 && sim->phase == RUN_SAFETY &&
           random_below(&sim->draws.net, 1000) < per_mille;
}

/* Answers whether the packet goes on to its receiver now; if not, it is taken. */
static bool survives(struct sim *sim, uint32_t i, uint32_t d, struct packet *packet) {
    struct conn *conn = &sim->conns[i];
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
        astray(sim, i, d, copy(packet));
    }
    if (hits(sim, sim->options.reorder)) {
        sim->counts.reordered++;
        sim_saw(sim, SIGHT_REORDERED);
        astray(sim, i, d, packet);
        return false;
    }
    return true;
}

/* Answers whether the event can be handled now; if not, it was put off. */
static bool arrives(struct sim *sim, const struct event *event, const struct conn *conn,
                    uint32_t d) {
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

void net_packet(struct sim *sim, const struct event *event) {
    struct conn *conn = &sim->conns[event->a];
    uint32_t d = event->b;
    if (!conn->alive || conn->generation != event->c || !arrives(sim, event, conn, d))
        return;
    struct packet *packet = conn->head[d];
    ASSERT(packet);
    conn->head[d] = packet->next;
    if (!packet->next)
        conn->tail[d] = NULL;
    conn->n_queued[d]--;
    if (!conn->kv && d == 0 && packet->type != MESSAGE_NONE && sim->options.overtake)
        codec_stamp(packet->bytes, ++conn->seq[d]); /* numbered as they leave */
    if (packet->type == MESSAGE_NONE) {
        free(packet);
        return;
    }
    if (!survives(sim, event->a, d, packet))
        return;
    if (!conn->closed[1 - d])
        deliver_packet(sim, conn, d, packet);
    free(packet);
}

void net_stray(struct sim *sim, const struct event *event) {
    struct conn *conn = &sim->conns[event->a];
    uint32_t d = event->b & 1;
    if (!conn->alive || conn->generation != event->c || !arrives(sim, event, conn, d))
        return;
    struct packet **at = &conn->strays;
    while (*at && (*at)->number != event->b >> 1)
        at = &(*at)->next;
    struct packet *packet = *at;
    ASSERT(packet);
    *at = packet->next;
    if (!conn->closed[1 - d])
        deliver_packet(sim, conn, d, packet);
    free(packet);
}

void net_inbox(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    for (uint32_t k = 0; k < node->n_inbox && !node->in_step; k++) {
        if (node->inbox[k].type == EVENT_STRAY)
            net_stray(sim, &node->inbox[k]);
        else
            net_packet(sim, &node->inbox[k]);
    }
    node->n_inbox = 0;
}

static void tell(struct sim *sim, uint32_t i, uint32_t end, uint64_t delay_ns) {
    sim_at(sim, sim->now_ns + delay_ns,
           (struct event){.type = EVENT_BROKEN,
                          .node = sim->conns[i].node[end],
                          .a = i,
                          .b = end,
                          .c = sim->conns[i].generation});
}

static void stop(struct conn *conn) {
    conn->alive = false;
    drop_all(conn);
}

void net_break(struct sim *sim, uint32_t i, uint64_t delay_ns) {
    struct conn *conn = &sim->conns[i];
    if (!conn->alive)
        return;
    stop(conn);
    for (uint32_t end = 0; end < 2; end++) {
        if (!conn->closed[end])
            tell(sim, i, end, delay_ns + draw_about(&sim->draws.net, sim->options.delay_ns));
    }
    sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns + delay_ns);
}

void net_close(struct sim *sim, uint32_t i, uint32_t end) {
    struct conn *conn = &sim->conns[i];
    conn->closed[end] = true;
    if (!conn->alive)
        return;
    stop(conn);
    if (!conn->closed[1 - end])
        tell(sim, i, 1 - end, sim->options.delay_ns);
}

void net_node_died(struct sim *sim, uint32_t node) {
    for (uint32_t i = 0; i < sim->n_conns; i++) {
        struct conn *conn = &sim->conns[i];
        for (uint32_t end = 0; end < 2; end++) {
            if (!conn->generation || conn->node[end] != node || conn->closed[end])
                continue;
            conn->closed[end] = true;
            /* A dead host says nothing; a dead process's connections are closed by its kernel. */
            uint64_t delay = sim->mute_deaths ? 6 * NS_PER_S : sim->options.delay_ns;
            bool was_alive = conn->alive;
            if (was_alive)
                stop(conn);
            if (was_alive && !conn->closed[1 - end])
                tell(sim, i, 1 - end, delay);
        }
    }
}

void net_broken(struct sim *sim, const struct event *event) {
    struct conn *conn = &sim->conns[event->a];
    uint32_t end = event->b, node = conn->node[end], link = conn->link[end];
    if (conn->generation != event->c || conn->closed[end])
        return;
    conn->closed[end] = true;
    sim_trace(sim, "%u: link %u lost", node, link);
    if (!sim->nodes[node].up)
        return;
    if (node < SIM_ROUTERS)
        front_lost(sim, node, link);
    else
        engine_link_lost(sim->nodes[node].engine, sim_clock(sim, node), link);
}
