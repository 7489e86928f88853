/* A router's shell on virtual time: what router/serve/link.c does with sockets and timers. */
#include "tools/cell/node.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define QUEUE_MAX 65536 /* of a link: a shell that cannot get rid of its queue gives the link up */

static void router_node_on_open_link(void *context, uint32_t slot,
                                     const struct announce *announce) {
    struct node *node = context;
    uint32_t to = (uint32_t)strtoul(announce->endpoint, NULL, 10);
    net_open(&node->cell->net, node->number, slot, to, false);
}

static void router_node_on_close_link(void *context, uint32_t slot) {
    struct node *node = context;
    struct net *net = &node->cell->net;
    uint32_t conn = net_find(net, node->number, slot);
    if (conn < net->spec.n_conns)
        net_close(net, conn, 0);
}

static void router_node_on_send(void *context, uint32_t slot, const struct message *message) {
    struct node *node = context;
    struct net *net = &node->cell->net;
    uint32_t conn = net_find(net, node->number, slot);
    if (conn < net->spec.n_conns && net_send(net, conn, 0, message, QUEUE_MAX, 0) != STATUS_OK)
        net_break(net, conn, 0, NULL);
}

static void router_node_on_tokens(void *context, uint64_t request, const struct token_run *run) {
    struct cell *cell = ((struct node *)context)->cell;
    const struct cell_user *user = &cell->spec.user;
    user->tokens(user->context, (uint32_t)request, cell->now_ns, run->n_tokens);
}

static void router_node_on_end(void *context, uint64_t request, const struct request_end *end) {
    struct cell *cell = ((struct node *)context)->cell;
    const struct cell_user *user = &cell->spec.user;
    struct cell_end how = {.done = end->kind == END_DONE && end->finish == FINISH_LENGTH,
                           .n_output = end->n_emitted,
                           .n_cached = end->cached_tokens};
    cell->asked[request].over = true;
    user->end(user->context, (uint32_t)request, cell->now_ns, &how);
}

enum status router_node_start(struct cell *cell, uint32_t i) {
    struct node *node = &cell->nodes[i];
    const struct cell_spec *spec = &cell->spec;
    *node = (struct node){.cell = cell, .number = i, .tick_ns = UINT64_MAX};
    struct router_config config = {.router_id = i + 1,
                                   .n_vocab = CELL_VOCABULARY,
                                   .seed = i + 77,
                                   .max_requests = spec->max_requests,
                                   .max_queue = spec->max_requests,
                                   .max_workers = spec->n_workers,
                                   .max_prompt = spec->max_prompt,
                                   .policy = spec->policy,
                                   .roles =
                                       spec->roles == CELL_ROLES_FIXED ? ROLES_FIXED : ROLES_LOAD,
                                   .local_prefill_tokens = spec->local_prefill_tokens,
                                   .no_worker_wait_ns = 5 * NS_PER_S,
                                   .hang_ns_min = NS_PER_S};
    snprintf(config.name, sizeof config.name, "router%u", i);
    struct router_sink sink = {.context = node,
                               .open_link = router_node_on_open_link,
                               .close_link = router_node_on_close_link,
                               .send = router_node_on_send,
                               .tokens = router_node_on_tokens,
                               .end = router_node_on_end};
    TRY(router_new(&config, &sink, &node->router));
    router_node_after(node);
    return STATUS_OK;
}

void router_node_message(struct node *node, uint32_t slot, const struct message *message) {
    router_message(node->router, node->cell->now_ns, slot, message);
}

void router_node_event(struct node *node, const struct cell_event *event) {
    if (event->type != CELL_TICK || node->tick_ns != event->at_ns)
        return; /* the core has named another time since */
    node->tick_ns = UINT64_MAX;
    router_tick(node->router, node->cell->now_ns);
}

void router_node_after(struct node *node) {
    struct cell *cell = node->cell;
    uint64_t due_ns = router_deadline(node->router);
    if (due_ns <= cell->now_ns)
        due_ns = cell->now_ns + NS_PER_US;
    if (due_ns >= node->tick_ns) /* an early tick asks again; a late one would not come */
        return;
    node->tick_ns = due_ns;
    cell_at(cell, due_ns, (struct cell_event){.type = CELL_TICK, .node = node->number});
}
