#include "tools/cell/node.h"

#include "base/clock.h"

#include <stdlib.h>

#define START_NS  NS_PER_S
#define UP_NS     (5 * NS_PER_S) /* all have met by then */
#define HANGUP_NS NS_PER_MS

static uint64_t cell_on_delay(void *context) {
    struct cell *cell = context;
    return cell->spec.delay_ns;
}

static void cell_on_leave(void *context, struct conn *conn, struct packet *packet) {
    struct cell *cell = context;
    (void)conn;
    if (packet->type == MESSAGE_PEERS)
        cell->counts.peers_bytes += packet->n_head + packet->n_raw;
}

static bool cell_on_arrive(void *context, const struct cell_event *event, const struct conn *conn,
                           uint32_t d) {
    struct cell *cell = context;
    struct node *node = &cell->nodes[conn->node[1 - d]];
    return node->router || !worker_node_holds(node, event);
}

static void cell_on_deliver(void *context, struct conn *conn, uint32_t d,
                            const struct packet *packet) {
    struct cell *cell = context;
    struct node *node = &cell->nodes[conn->node[1 - d]];
    struct frames frames = {.head = packet->bytes,
                            .n_head = packet->n_head,
                            .raw = packet->n_raw ? packet->bytes + packet->n_head : NULL,
                            .n_raw = packet->n_raw};
    struct message message;
    struct error error;
    if (codec_decode(&cell->reader, &frames, &message, &error) != STATUS_OK)
        abort(); /* our own frames, untouched */
    cell->counts.n_messages++;
    if (node->router)
        router_node_message(node, conn->link[1 - d], &message);
    else
        worker_node_message(node, conn, conn->link[1 - d], &message);
}

static void cell_on_broken(void *context, uint32_t i, uint32_t link) {
    struct cell *cell = context;
    struct node *node = &cell->nodes[i];
    if (node->router)
        router_link_lost(node->router, cell->now_ns, link);
    else
        engine_link_lost(node->engine, cell->now_ns, link);
}

static void cell_on_failure(void *context, const char *what) {
    struct cell *cell = context;
    (void)what;
    cell->failure = "the network failed";
}

static enum status cell_start(struct cell *cell) {
    uint32_t n_workers = cell->spec.n_workers, n_routers = cell->spec.n_routers;
    uint32_t n_pairs = cell->hands_over ? n_workers * n_workers : 0;
    struct net_spec spec = {.n_conns = n_workers * n_routers + n_pairs + 16,
                            .n_nodes = cell->n_nodes,
                            .hangup_ns = HANGUP_NS,
                            .bytes_s = cell->spec.kv_bytes_s,
                            .overtake = true};
    struct net_hooks hooks = {.context = cell,
                              .delay_ns = cell_on_delay,
                              .leaves = cell_on_leave,
                              .arrives = cell_on_arrive,
                              .deliver = cell_on_deliver,
                              .broken = cell_on_broken,
                              .failed = cell_on_failure};
    TRY(net_init(&cell->net, &spec, &hooks, &cell->heap, &cell->now_ns, &cell->serial));
    TRY(codec_init(&cell->reader));
    for (uint32_t i = 0; i < n_routers; i++)
        TRY(router_node_start(cell, i));
    for (uint32_t i = 0; i < n_workers; i++)
        TRY(worker_node_start(cell, n_routers + i, &cell->spec.workers[i]));
    cell->spec.workers = NULL;
    return STATUS_OK;
}

static void cell_handle(struct cell *cell, const struct cell_event *event) {
    struct node *node = &cell->nodes[event->node];
    cell->now_ns = event->at_ns;
    cell->counts.n_events++;
    if (event->type < CELL_TYPES)
        net_event(&cell->net, event);
    else if (node->router)
        router_node_event(node, event);
    else
        worker_node_event(node, event);
    if (node->router)
        router_node_after(node);
    else
        worker_node_after(node);
}

static bool cell_is_up(const struct cell *cell) {
    for (uint32_t r = 0; r < cell->spec.n_routers; r++) {
        uint32_t n_ready = 0;
        for (uint32_t slot = 0; slot < cell->spec.n_workers; slot++) {
            struct worker_view view;
            n_ready += router_worker(cell->nodes[r].router, slot, &view) == STATUS_OK &&
                       view.state == SLOT_READY;
        }
        if (n_ready < cell->spec.n_workers)
            return false;
    }
    return cell->failure == NULL;
}

enum status cell_new(const struct cell_spec *spec, struct cell **out) {
    struct cell *cell = calloc(1, sizeof *cell);
    if (!cell)
        return STATUS_NOMEM;
    cell->spec = *spec;
    cell->now_ns = START_NS;
    cell->n_nodes = spec->n_routers + spec->n_workers;
    cell->nodes = calloc(cell->n_nodes, sizeof *cell->nodes);
    for (uint32_t i = 0; i < spec->n_workers; i++)
        cell->hands_over |= spec->workers[i].role != CELL_MIXED;
    enum status status = cell->nodes ? cell_start(cell) : STATUS_NOMEM;
    while (status == STATUS_OK && cell_next_ns(cell) < UP_NS)
        cell_run(cell, UP_NS);
    if (status == STATUS_OK && !cell_is_up(cell))
        status = STATUS_INVALID;
    if (status == STATUS_OK)
        *out = cell;
    else
        cell_free(cell);
    return status;
}

void cell_free(struct cell *cell) {
    if (!cell)
        return;
    for (uint32_t i = 0; cell->nodes && i < cell->n_nodes; i++) {
        router_free(cell->nodes[i].router);
        engine_free(cell->nodes[i].engine);
        free(cell->nodes[i].sampled);
        free(cell->nodes[i].inbox);
    }
    asks_fini(cell);
    net_fini(&cell->net);
    heap_fini(&cell->heap);
    codec_fini(&cell->reader);
    free(cell->nodes);
    free(cell);
}

uint64_t cell_now_ns(const struct cell *cell) {
    return cell->now_ns;
}

uint64_t cell_next_ns(const struct cell *cell) {
    return cell->heap.n > 0 ? cell->heap.events[0].at_ns : UINT64_MAX;
}

void cell_run(struct cell *cell, uint64_t until_ns) {
    uint64_t at_ns = cell_next_ns(cell);
    if (at_ns > until_ns) {
        cell->now_ns = until_ns > cell->now_ns ? until_ns : cell->now_ns;
        return;
    }
    while (cell_next_ns(cell) == at_ns) {
        struct cell_event event = heap_pop(&cell->heap);
        cell_handle(cell, &event);
    }
}

void cell_counts(const struct cell *cell, struct cell_counts *counts) {
    *counts = cell->counts;
    for (uint32_t i = 0; i < cell->n_nodes; i++) {
        struct load load;
        struct router_stats stats;
        if (cell->nodes[i].engine) {
            engine_load(cell->nodes[i].engine, &load);
            counts->n_preemptions += load.n_preemptions;
        } else {
            router_stats(cell->nodes[i].router, &stats);
            counts->n_handoffs += stats.n_handoffs;
        }
    }
}
