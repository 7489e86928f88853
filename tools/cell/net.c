#include "tools/cell/net.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status net_init(struct net *net, const struct net_spec *spec, const struct net_hooks *hooks,
                     struct heap *heap, uint64_t *now_ns, uint64_t *serial) {
    *net = (struct net){
        .spec = *spec, .hooks = *hooks, .heap = heap, .now_ns = now_ns, .serial = serial};
    net->conns = calloc(spec->n_conns, sizeof *net->conns);
    net->next_link = calloc(spec->n_nodes, sizeof *net->next_link);
    net->links = calloc(spec->n_nodes, sizeof *net->links);
    if (net->conns && net->next_link && net->links && codec_init(&net->codec) == STATUS_OK)
        return STATUS_OK;
    net_fini(net);
    return STATUS_NOMEM;
}

static void cell_net_drop_list(struct packet **list) {
    while (*list) {
        struct packet *packet = *list;
        *list = packet->next;
        free(packet);
    }
}

static void cell_net_drop_queue(struct conn *conn, uint32_t d) {
    cell_net_drop_list(&conn->head[d]);
    conn->tail[d] = NULL;
    conn->n_queued[d] = 0;
}

static void cell_net_drop_all(struct conn *conn) {
    cell_net_drop_queue(conn, 0);
    cell_net_drop_queue(conn, 1);
    cell_net_drop_list(&conn->strays);
}

void net_fini(struct net *net) {
    for (uint32_t i = 0; net->conns && i < net->n_conns; i++)
        cell_net_drop_all(&net->conns[i]);
    for (uint32_t i = 0; net->links && i < net->spec.n_nodes; i++)
        free(net->links[i].conns);
    free(net->links);
    free(net->conns);
    free(net->next_link);
    codec_fini(&net->codec);
    *net = (struct net){0};
}

static void cell_net_push(struct net *net, uint64_t at_ns, struct cell_event event) {
    event.at_ns = at_ns > *net->now_ns ? at_ns : *net->now_ns;
    event.serial = ++*net->serial;
    heap_push(net->heap, &event);
}

static void cell_net_name_link(struct net *net, uint32_t node, uint32_t link, uint32_t conn) {
    if (link >= net->links[node].n) {
        uint32_t n = 2 * link + 16;
        uint32_t *conns = realloc(net->links[node].conns, n * sizeof *conns);
        if (!conns)
            abort();
        memset(conns + net->links[node].n, 0, (n - net->links[node].n) * sizeof *conns);
        net->links[node].conns = conns;
        net->links[node].n = n;
    }
    net->links[node].conns[link] = conn + 1;
}

uint32_t net_open(struct net *net, uint32_t from, uint32_t from_link, uint32_t to, bool kv) {
    for (uint32_t i = 0; i < net->spec.n_conns; i++) {
        struct conn *conn = &net->conns[i];
        if (conn->generation && (conn->alive || !conn->closed[0] || !conn->closed[1]))
            continue;
        if (i >= net->n_conns)
            net->n_conns = i + 1;
        *conn = (struct conn){.alive = true,
                              .kv = kv,
                              .generation = conn->generation + 1,
                              .node = {from, to},
                              .link = {from_link, net->next_link[to]++},
                              .last_ns = {*net->now_ns, *net->now_ns}};
        cell_net_name_link(net, from, from_link, i);
        cell_net_name_link(net, to, conn->link[1], i);
        if (net->hooks.opened)
            net->hooks.opened(net->hooks.context, i);
        return i;
    }
    net->hooks.failed(net->hooks.context, "out of connections");
    return 0;
}

uint32_t net_end(const struct conn *conn, uint32_t node, uint32_t link) {
    return conn->node[1] == node && conn->link[1] == link;
}

uint32_t net_find(const struct net *net, uint32_t node, uint32_t link) {
    uint32_t i = link < net->links[node].n ? net->links[node].conns[link] : 0;
    if (i == 0)
        return net->spec.n_conns;
    const struct conn *conn = &net->conns[i - 1];
    uint32_t end = net_end(conn, node, link);
    bool is_it = conn->node[end] == node && conn->link[end] == link && !conn->closed[end];
    return is_it ? i - 1 : net->spec.n_conns;
}

/* RESERVE, SUBMIT and CANCEL begin alike. */
static struct attempt_id cell_net_subject(const struct message *message) {
    struct attempt_id about = {0};
    if (message->type == MESSAGE_RESERVE)
        about = (struct attempt_id){message->u.reserve.req, message->u.reserve.attempt};
    else if (message->type == MESSAGE_SUBMIT)
        about = (struct attempt_id){message->u.submit.req, message->u.submit.attempt};
    else if (message->type == MESSAGE_CANCEL)
        about = (struct attempt_id){message->u.cancel.req, message->u.cancel.attempt};
    return about;
}

static void net_append(struct conn *conn, uint32_t end, struct packet *packet) {
    if (conn->tail[end])
        conn->tail[end]->next = packet;
    else
        conn->head[end] = packet;
    conn->tail[end] = packet;
}

/* As the router's shell does: behind introductions, before work; what is cancelled does not leave. */
static void cell_net_overtake(struct conn *conn, struct packet *packet) {
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

static struct packet *cell_net_wrap(const struct message *message, const struct frames *frames) {
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

/* When its last byte arrives: after those that are on the line, and never before what left earlier. */
static uint64_t cell_net_arrival(struct net *net, struct conn *conn, uint32_t end,
                                 uint64_t n_bytes) {
    uint64_t begin_ns = *net->now_ns;
    if (n_bytes > 0 && net->spec.bytes_s > 0) {
        begin_ns = conn->free_ns[end] > begin_ns ? conn->free_ns[end] : begin_ns;
        begin_ns += (uint64_t)((double)n_bytes / net->spec.bytes_s * (double)NS_PER_S);
        conn->free_ns[end] = begin_ns;
    }
    uint64_t at_ns = begin_ns + net->hooks.delay_ns(net->hooks.context);
    at_ns = at_ns > conn->last_ns[end] ? at_ns : conn->last_ns[end];
    conn->last_ns[end] = at_ns;
    return at_ns;
}

enum status net_send(struct net *net, uint32_t i, uint32_t end, const struct message *message,
                     uint32_t hwm, uint64_t n_bytes) {
    struct conn *conn = &net->conns[i];
    if (!conn->alive)
        return conn->closed[end] ? STATUS_CLOSED : STATUS_OK; /* not known yet: it is lost */
    if (conn->n_queued[end] >= hwm)
        return STATUS_BUSY;
    struct message stamped = *message;
    if (conn->kv || end == 1)
        stamped.seq = ++conn->seq[end];
    struct frames frames;
    enum status status = codec_encode(&net->codec, &stamped, &frames);
    if (status != STATUS_OK) {
        char text[100];
        snprintf(text, sizeof text, "a %s cannot be encoded: %s", message_name(message->type),
                 status_name(status));
        net->hooks.failed(net->hooks.context, text);
        return status;
    }
    struct packet *packet = cell_net_wrap(message, &frames);
    if (net->hooks.leaves)
        net->hooks.leaves(net->hooks.context, conn, packet);
    if (!conn->kv && end == 0)
        packet->about = cell_net_subject(message);
    if (!conn->kv && end == 0 && net->spec.overtake &&
        (message->type == MESSAGE_CANCEL || message->type == MESSAGE_PING))
        cell_net_overtake(conn, packet);
    else
        net_append(conn, end, packet);
    conn->n_queued[end]++;
    uint64_t at_ns = cell_net_arrival(net, conn, end, n_bytes);
    if (net->hooks.sent)
        net->hooks.sent(net->hooks.context, conn, at_ns - *net->now_ns);
    cell_net_push(net, at_ns,
                  (struct cell_event){.type = CELL_PACKET,
                                      .node = conn->node[1 - end],
                                      .a = i,
                                      .b = end,
                                      .c = conn->generation});
    return STATUS_OK;
}

void net_astray(struct net *net, uint32_t i, uint32_t d, struct packet *packet, uint64_t delay_ns) {
    struct conn *conn = &net->conns[i];
    packet->number = ++conn->n_strays;
    packet->next = conn->strays;
    conn->strays = packet;
    cell_net_push(net, *net->now_ns + delay_ns,
                  (struct cell_event){.type = CELL_STRAY,
                                      .node = conn->node[1 - d],
                                      .a = i,
                                      .b = d | packet->number << 1,
                                      .c = conn->generation});
}

struct packet *net_copy(const struct packet *packet) {
    size_t n = sizeof *packet + packet->n_head + packet->n_raw;
    struct packet *twin = malloc(n);
    if (!twin)
        abort();
    memcpy(twin, packet, n);
    return twin;
}

/* Answers whether the event can be handled now. */
static bool cell_net_comes(struct net *net, const struct cell_event *event, const struct conn *conn,
                           uint32_t d) {
    return conn->alive && conn->generation == event->c &&
           (!net->hooks.arrives || net->hooks.arrives(net->hooks.context, event, conn, d));
}

static void cell_net_take_packet(struct net *net, const struct cell_event *event) {
    struct conn *conn = &net->conns[event->a];
    uint32_t d = event->b;
    if (!cell_net_comes(net, event, conn, d))
        return;
    struct packet *packet = conn->head[d];
    ASSERT(packet);
    conn->head[d] = packet->next;
    if (!packet->next)
        conn->tail[d] = NULL;
    conn->n_queued[d]--;
    if (!conn->kv && d == 0 && packet->type != MESSAGE_NONE && net->spec.overtake)
        codec_stamp(packet->bytes, ++conn->seq[d]); /* numbered as they leave */
    if (packet->type == MESSAGE_NONE) {
        free(packet);
        return;
    }
    if (net->hooks.survives && !net->hooks.survives(net->hooks.context, event->a, d, packet))
        return;
    if (!conn->closed[1 - d])
        net->hooks.deliver(net->hooks.context, conn, d, packet);
    free(packet);
}

static void cell_net_take_stray(struct net *net, const struct cell_event *event) {
    struct conn *conn = &net->conns[event->a];
    uint32_t d = event->b & 1;
    if (!cell_net_comes(net, event, conn, d))
        return;
    struct packet **at = &conn->strays;
    while (*at && (*at)->number != event->b >> 1)
        at = &(*at)->next;
    struct packet *packet = *at;
    ASSERT(packet);
    *at = packet->next;
    if (!conn->closed[1 - d])
        net->hooks.deliver(net->hooks.context, conn, d, packet);
    free(packet);
}

static void cell_net_take_broken(struct net *net, const struct cell_event *event) {
    struct conn *conn = &net->conns[event->a];
    uint32_t end = event->b;
    if (conn->generation != event->c || conn->closed[end])
        return;
    conn->closed[end] = true;
    net->hooks.broken(net->hooks.context, conn->node[end], conn->link[end]);
}

void net_event(struct net *net, const struct cell_event *event) {
    if (event->type == CELL_PACKET)
        cell_net_take_packet(net, event);
    else if (event->type == CELL_STRAY)
        cell_net_take_stray(net, event);
    else if (event->type == CELL_BROKEN)
        cell_net_take_broken(net, event);
}

static void net_tell(struct net *net, uint32_t i, uint32_t end, uint64_t delay_ns) {
    cell_net_push(net, *net->now_ns + delay_ns,
                  (struct cell_event){.type = CELL_BROKEN,
                                      .node = net->conns[i].node[end],
                                      .a = i,
                                      .b = end,
                                      .c = net->conns[i].generation});
}

static void cell_net_stop(struct conn *conn) {
    conn->alive = false;
    cell_net_drop_all(conn);
}

void net_break(struct net *net, uint32_t i, uint64_t delay_ns, uint64_t (*more_ns)(void *context)) {
    struct conn *conn = &net->conns[i];
    if (!conn->alive)
        return;
    cell_net_stop(conn);
    for (uint32_t end = 0; end < 2; end++)
        if (!conn->closed[end])
            net_tell(net, i, end, delay_ns + (more_ns ? more_ns(net->hooks.context) : 0));
    if (net->hooks.trouble)
        net->hooks.trouble(net->hooks.context, conn->node[0], conn->node[1],
                           *net->now_ns + delay_ns);
}

void net_close(struct net *net, uint32_t i, uint32_t end) {
    struct conn *conn = &net->conns[i];
    conn->closed[end] = true;
    if (!conn->alive)
        return;
    cell_net_stop(conn);
    if (!conn->closed[1 - end])
        net_tell(net, i, 1 - end, net->spec.hangup_ns);
}

void net_node_died(struct net *net, uint32_t node, uint64_t delay_ns) {
    for (uint32_t i = 0; i < net->n_conns; i++) {
        struct conn *conn = &net->conns[i];
        for (uint32_t end = 0; end < 2; end++) {
            if (!conn->generation || conn->node[end] != node || conn->closed[end])
                continue;
            conn->closed[end] = true;
            bool was_alive = conn->alive;
            if (was_alive)
                cell_net_stop(conn);
            if (was_alive && !conn->closed[1 - end])
                net_tell(net, i, 1 - end, delay_ns);
        }
    }
}
