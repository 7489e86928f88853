/* The network: connections that keep order, hold back what a partition stops, and lose what is
 * under way when they break, as ZeroMQ's do. */
#include "tests/sim/sim.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

static void drop_queue(struct conn *conn, uint32_t d) {
    while (conn->head[d]) {
        struct packet *packet = conn->head[d];
        conn->head[d] = packet->next;
        free(packet);
    }
    conn->tail[d] = NULL;
    conn->n_queued[d] = 0;
}

uint32_t net_open(struct sim *sim, uint32_t from, uint32_t from_link, uint32_t to, bool kv) {
    for (uint32_t i = 0; i < SIM_CONNS; i++) {
        struct conn *conn = &sim->conns[i];
        if (conn->generation && (conn->alive || !conn->closed[0] || !conn->closed[1]))
            continue;
        if (i >= sim->n_conns)
            sim->n_conns = i + 1;
        uint64_t generation = conn->generation + 1;
        *conn = (struct conn){.alive = true,
                              .kv = kv,
                              .generation = generation,
                              .node = {from, to},
                              .link = {from_link, 0},
                              .last_ns = {sim->now_ns, sim->now_ns}};
        conn->link[1] = sim->nodes[to].next_link++;
        return i;
    }
    sim_fail(sim, "out of connections");
    return 0;
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

static void copy_frames(struct packet *packet, const struct frames *frames) {
    memcpy(packet->bytes, frames->head, frames->n_head);
    if (frames->n_raw > 0)
        memcpy(packet->bytes + frames->n_head, frames->raw, frames->n_raw);
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

/* As the router's shell does: behind introductions, before work; what is cancelled does not leave.
 */
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

enum status net_send(struct sim *sim, uint32_t i, uint32_t end, const struct message *message,
                     uint32_t hwm) {
    struct conn *conn = &sim->conns[i];
    if (!conn->alive)
        return conn->closed[end] ? STATUS_CLOSED : STATUS_OK; /* nobody knows yet: it is lost */
    if (conn->n_queued[end] >= hwm) {
        sim->counts.busy++;
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
    struct packet *packet = malloc(sizeof *packet + frames.n_head + frames.n_raw);
    if (!packet)
        abort();
    *packet = (struct packet){
        .n_head = frames.n_head, .n_raw = frames.raw ? frames.n_raw : 0, .type = message->type};
    copy_frames(packet, &frames);
    if (message->type == MESSAGE_CHUNK && packet->n_raw > 0 && sim->options.weights[15] > 0 &&
        sim->phase == RUN_SAFETY && sim_chance(sim, 1)) {
        packet->bytes[packet->n_head + random_below(&sim->random, packet->n_raw)] ^= 4;
        sim->counts.corrupted++;
        sim->counts.faults++;
    }
    if (!conn->kv && end == 0)
        packet->about = subject(message);
    if (!conn->kv && end == 0 && sim->options.overtake &&
        (message->type == MESSAGE_CANCEL || message->type == MESSAGE_PING))
        overtake(conn, packet);
    else
        append(conn, end, packet);
    conn->n_queued[end]++;
    uint64_t at = sim->now_ns + sim->options.delay_ns + sim_about(sim, sim->options.delay_ns);
    at = at > conn->last_ns[end] ? at : conn->last_ns[end];
    conn->last_ns[end] = at;
    sim_at(sim, at,
           (struct event){.type = EVENT_PACKET,
                          .node = conn->node[1 - end],
                          .a = i,
                          .b = end,
                          .c = conn->generation});
    return STATUS_OK;
}

static const char *summary(const struct sim *sim, const struct message *message, char *text,
                           size_t size) {
    text[0] = '\0';
    if (!sim->verbose)
        return text;
    size_t n = 0;
    switch (message->type) {
    case MESSAGE_STEP:
        for (uint32_t i = 0; i < message->u.step.n && n < size; i++) {
            const struct step_entry *entry = &message->u.step.entries[i];
            n += (size_t)snprintf(text + n, size - n, " %llx.%u[%u+%u]%s",
                                  (unsigned long long)entry->req.lo & 0xffffff, entry->attempt,
                                  entry->first_index, entry->n_tokens, entry->finish ? " end" : "");
        }
        break;
    case MESSAGE_DIGEST:
        for (uint32_t i = 0; i < message->u.digest.n && n < size; i++) {
            const struct digest_entry *entry = &message->u.digest.entries[i];
            n += (size_t)snprintf(text + n, size - n, " %llx.%u:%d@%u",
                                  (unsigned long long)entry->req.lo & 0xffffff, entry->attempt,
                                  (int)entry->state, entry->next_index);
        }
        break;
    case MESSAGE_SUBMIT:
        snprintf(text, size, " %llx.%u phase %d, %u tokens",
                 (unsigned long long)message->u.submit.req.lo & 0xffffff, message->u.submit.attempt,
                 (int)message->u.submit.phase, message->u.submit.n_tokens);
        break;
    case MESSAGE_RESERVE:
    case MESSAGE_RESERVED:
    case MESSAGE_REFUSED:
    case MESSAGE_CANCEL:
    case MESSAGE_FAILED: { /* they begin alike: request, attempt */
        const struct attempt_id *id = (const struct attempt_id *)(const void *)&message->u;
        n = (size_t)snprintf(text, size, " %llx.%u", (unsigned long long)id->req.lo & 0xffffff,
                             id->attempt);
        if (message->type == MESSAGE_FAILED)
            snprintf(text + n, size - n, " %s", reason_name(message->u.failed.reason));
        if (message->type == MESSAGE_REFUSED)
            snprintf(text + n, size - n, " %s", reason_name(message->u.refused.reason));
        break;
    }
    default:
        break;
    }
    return text;
}

static void deliver(struct sim *sim, struct conn *conn, uint32_t d, struct packet *packet) {
    uint32_t node = conn->node[1 - d], link = conn->link[1 - d];
    struct frames frames = {.head = packet->bytes,
                            .n_head = packet->n_head,
                            .raw = packet->n_raw ? packet->bytes + packet->n_head : NULL,
                            .n_raw = packet->n_raw};
    struct message message;
    struct error error = {0};
    enum status status = codec_decode(&sim->reader, &frames, &message, &error);
    if (status != STATUS_OK) {
        sim_fail(sim, "a %s cannot be decoded: %s", message_name(packet->type), error.text);
        return;
    }
    sim->counts.messages++;
    char text[100];
    sim_trace(sim, "%u>%u %s%s", conn->node[d], node, message_name(message.type),
              summary(sim, &message, text, sizeof text));
    if (node < SIM_ROUTERS)
        front_message(sim, node, link, &message);
    else if (sim->nodes[node].up)
        engine_message(sim->nodes[node].engine, sim->now_ns, link, &message);
}

void net_packet(struct sim *sim, const struct event *event) {
    struct conn *conn = &sim->conns[event->a];
    uint32_t d = event->b;
    if (!conn->alive || conn->generation != event->c)
        return;
    struct node *to = &sim->nodes[conn->node[1 - d]];
    uint64_t blocked = sim->blocked_until_ns[conn->node[d]][conn->node[1 - d]];
    if (blocked > sim->now_ns) {
        sim_at(sim, blocked, *event);
        return;
    }
    if (to->up && to->in_step && !sim->options.messages_in_step && to->n_inbox < SIM_INBOX) {
        to->inbox[to->n_inbox++] = *event;
        return;
    }
    struct packet *packet = conn->head[d];
    ASSERT(packet);
    conn->head[d] = packet->next;
    if (!packet->next)
        conn->tail[d] = NULL;
    conn->n_queued[d]--;
    if (!conn->kv && d == 0 && packet->type != MESSAGE_NONE && sim->options.overtake)
        codec_stamp(packet->bytes, ++conn->seq[d]); /* numbered as they leave */
    if (!conn->closed[1 - d] && packet->type != MESSAGE_NONE)
        deliver(sim, conn, d, packet);
    free(packet);
}

void net_inbox(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    for (uint32_t k = 0; k < node->n_inbox && !node->in_step; k++)
        net_packet(sim, &node->inbox[k]);
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
    drop_queue(conn, 0);
    drop_queue(conn, 1);
}

void net_break(struct sim *sim, uint32_t i, uint64_t delay_ns) {
    struct conn *conn = &sim->conns[i];
    if (!conn->alive)
        return;
    stop(conn);
    for (uint32_t end = 0; end < 2; end++) {
        if (!conn->closed[end])
            tell(sim, i, end, delay_ns + sim_about(sim, sim->options.delay_ns));
    }
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
        engine_link_lost(sim->nodes[node].engine, sim->now_ns, link);
}
