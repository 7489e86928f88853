/* A worker's shell on virtual time: what worker/step and worker/links do with sockets, a clock and kernels. */
#include "tools/cell/node.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX       65536
#define CREDITS         64u /* chunks that a receiver lets be under way */
#define TURN_NS         (50 * NS_PER_MS)
#define CELL_VOCABULARY 65536u
#define TOKEN_ID        300u /* what every step chooses: an id that nothing stands for */
#define LAYER_GROUPS    4u
#define CHUNK_BYTES     (1u << 20)

static enum status worker_node_on_send(void *context, uint32_t link,
                                       const struct message *message) {
    struct node *node = context;
    struct net *net = &node->cell->net;
    uint32_t i = net_find(net, node->number, link);
    if (i == net->spec.n_conns)
        return STATUS_CLOSED;
    return net_send(net, i, net_end(&net->conns[i], node->number, link), message, QUEUE_MAX, 0);
}

/* The introductions of two workers are two messages, one each way. */
static enum status worker_node_on_open_kv(void *context, const struct peer *peer, uint32_t *link) {
    struct node *node = context;
    struct cell *cell = node->cell;
    uint32_t to = (uint32_t)strtoul(peer->kv_endpoint, NULL, 10);
    *link = cell->net.next_link[node->number]++;
    uint32_t conn = net_open(&cell->net, node->number, *link, to, true);
    cell_at(cell, cell->now_ns + 2 * cell->spec.delay_ns,
            (struct cell_event){.type = CELL_KV_READY, .node = to, .a = conn, .b = 1});
    cell_at(cell, cell->now_ns + 3 * cell->spec.delay_ns,
            (struct cell_event){.type = CELL_KV_READY, .node = node->number, .a = conn, .b = 0});
    return STATUS_OK;
}

static void worker_node_on_close_link(void *context, uint32_t link) {
    struct node *node = context;
    struct net *net = &node->cell->net;
    uint32_t i = net_find(net, node->number, link);
    if (i < net->spec.n_conns)
        net_close(net, i, net_end(&net->conns[i], node->number, link));
}

/* The bytes are never there: the link is as long busy as they would take. */
static enum status worker_node_on_push_chunk(void *context, uint32_t link, struct chunk *chunk,
                                             const uint32_t *blocks) {
    struct node *node = context;
    struct net *net = &node->cell->net;
    uint32_t i = net_find(net, node->number, link);
    (void)blocks;
    if (i == net->spec.n_conns)
        return STATUS_CLOSED;
    uint64_t n_bytes = (uint64_t)(chunk->layer_end - chunk->layer_begin) *
                       (chunk->block_end - chunk->block_begin) * node->spec.block_bytes;
    chunk->bytes = NULL;
    chunk->n_bytes = (uint32_t)n_bytes;
    chunk->checksum = n_bytes;
    chunk->where = 0;
    struct message message = {.type = MESSAGE_CHUNK, .u.chunk = *chunk};
    return net_send(net, i, net_end(&net->conns[i], node->number, link), &message, QUEUE_MAX,
                    n_bytes);
}

static enum status worker_node_on_take_chunk(void *context, uint32_t link,
                                             const struct chunk *chunk, const uint32_t *blocks) {
    (void)context;
    (void)link;
    (void)chunk;
    (void)blocks;
    return STATUS_OK;
}

static const enum worker_role roles[] = {
    [CELL_MIXED] = ROLE_MIXED, [CELL_PREFILL] = ROLE_PREFILL, [CELL_DECODE] = ROLE_DECODE};

static struct engine_config worker_node_make_config(const struct node *node) {
    const struct cell_worker *spec = &node->spec;
    uint32_t w = node->number - node->cell->spec.n_routers, max_seqs = 4 * spec->max_batch;
    struct engine_config config = {
        .incarnation = 1000 + w,
        .seed = w + 1,
        .role = roles[spec->role],
        .n_blocks = spec->n_blocks,
        .block_tokens = 16,
        .n_layers = spec->n_layers,
        .layer_groups = node->layer_groups,
        .block_bytes = spec->block_bytes,
        .chunk_tokens = spec->chunk_tokens,
        .chunk_bytes = spec->block_bytes > CHUNK_BYTES ? spec->block_bytes : CHUNK_BYTES,
        .max_batch = spec->max_batch,
        .max_seqs = max_seqs < MESSAGE_ENTRIES_MAX ? max_seqs : MESSAGE_ENTRIES_MAX,
        .context = spec->context,
        .max_links = 2 * node->cell->n_nodes + 64,
        .n_vocab = CELL_VOCABULARY,
        .lease_ns = 10 * NS_PER_S,
        .router_lease_ns = 5 * NS_PER_S,
    };
    snprintf(config.name, sizeof config.name, "worker%u", w);
    struct welcome *welcome = &config.welcome;
    *welcome = (struct welcome){.major = PROTO_MAJOR,
                                .incarnation = config.incarnation,
                                .role = roles[spec->role],
                                .kv = {spec->n_layers, 16, spec->block_bytes, 1},
                                .context = spec->context,
                                .max_seqs = config.max_seqs,
                                .chunk_tokens = spec->chunk_tokens,
                                .model = "hash"};
    memcpy(welcome->name, config.name, sizeof welcome->name);
    snprintf(welcome->kv_endpoint, sizeof welcome->kv_endpoint, "%u", node->number);
    return config;
}

static uint64_t worker_node_step_ns(const struct node *node, const struct cell_step *step) {
    const struct cell_model *model = &node->cell->spec.model;
    uint64_t ns = model->step_ns(model->context, node->number - node->cell->spec.n_routers, step);
    return ns > 0 ? ns : 1;
}

static struct cell_step worker_node_step_of(const struct plan *plan) {
    struct cell_step step = {
        .n_tokens = plan->n_tokens, .n_prompt = plan->n_prompt, .n_seqs = plan->n_rows};
    for (uint32_t i = 0; i < plan->n_rows; i++) {
        const struct plan_row *row = &plan->rows[i];
        double n = row->n_tokens;
        step.n_sampled += row->sample;
        if (row->n_tokens == 1)
            step.n_keys += row->begin + 1;
        else
            step.n_pairs += n * (row->begin + (n + 1) / 2);
    }
    return step;
}

/* As worker/step/calibrate.c. */
static void worker_node_calibrate(struct node *node) {
    budget_init(&node->budget, node->spec.chunk_tokens, BUDGET_STEP_US_GOAL);
    for (uint32_t n; (n = budget_measure(&node->budget, node->spec.context)) > 0;) {
        struct plan_row row = {.n_tokens = n, .sample = true};
        struct cell_step step = worker_node_step_of(&(struct plan){1, n, n, &row});
        step.is_trial = true;
        budget_measured(&node->budget, worker_node_step_ns(node, &step) / NS_PER_US);
    }
    engine_budget(node->engine, node->budget.n_tokens);
}

enum status worker_node_start(struct cell *cell, uint32_t i, const struct cell_worker *spec) {
    struct node *node = &cell->nodes[i];
    *node = (struct node){.cell = cell, .number = i, .tick_ns = UINT64_MAX, .spec = *spec};
    node->layer_groups = spec->n_layers < LAYER_GROUPS ? spec->n_layers : LAYER_GROUPS;
    struct engine_config config = worker_node_make_config(node);
    node->sampled = calloc(config.max_seqs, sizeof *node->sampled);
    if (!node->sampled)
        return STATUS_NOMEM;
    for (uint32_t k = 0; k < config.max_seqs; k++)
        node->sampled[k] = (struct sampled){.id = TOKEN_ID, .valid = true};
    struct engine_sink sink = {.context = node,
                               .send = worker_node_on_send,
                               .open_kv = worker_node_on_open_kv,
                               .close_link = worker_node_on_close_link,
                               .push_chunk = worker_node_on_push_chunk,
                               .take_chunk = worker_node_on_take_chunk};
    TRY(engine_new(&config, &sink, &node->engine));
    worker_node_calibrate(node);
    cell_at(cell, cell->now_ns, (struct cell_event){.type = CELL_ANNOUNCE, .node = i});
    worker_node_after(node);
    return STATUS_OK;
}

static void worker_node_announce(struct node *node, const struct cell_event *event) {
    struct cell *cell = node->cell;
    uint32_t w = node->number - cell->spec.n_routers;
    struct announce announce = {.incarnation = 1000 + w};
    snprintf(announce.name, sizeof announce.name, "worker%u", w);
    snprintf(announce.endpoint, sizeof announce.endpoint, "%u", node->number);
    for (uint32_t r = 0; r < cell->spec.n_routers; r++) {
        router_announce(cell->nodes[r].router, cell->now_ns, &announce);
        router_node_after(&cell->nodes[r]);
    }
    cell_at(cell, cell->now_ns + NS_PER_S, *event);
}

static void worker_node_open_kv(struct node *node, const struct cell_event *event) {
    struct cell *cell = node->cell;
    const struct conn *conn = &cell->net.conns[event->a];
    uint32_t w = conn->node[1 - event->b] - cell->spec.n_routers;
    char name[MESSAGE_NAME_MAX];
    snprintf(name, sizeof name, "worker%u", w);
    bool accepted = event->b == 1;
    engine_kv_open(node->engine, cell->now_ns, conn->link[event->b], name, 1000 + w,
                   accepted ? 0 : CREDITS, accepted);
}

bool worker_node_holds(struct node *node, const struct cell_event *event) {
    if (!node->in_step)
        return false;
    if (node->n_inbox == node->size) {
        uint32_t size = node->size ? 2 * node->size : 64;
        struct cell_event *inbox = realloc(node->inbox, size * sizeof *inbox);
        if (!inbox)
            abort();
        node->inbox = inbox;
        node->size = size;
    }
    node->inbox[node->n_inbox++] = *event;
    return true;
}

/* What came meanwhile, whether or not a step still runs. */
static void worker_node_look(struct node *node) {
    bool in_step = node->in_step;
    node->in_step = false; /* so that it is not held again */
    for (uint32_t k = 0; k < node->n_inbox; k++)
        net_event(&node->cell->net, &node->inbox[k]);
    node->n_inbox = 0;
    node->in_step = in_step;
}

void worker_node_message(struct node *node, const struct conn *conn, uint32_t link,
                         const struct message *message) {
    (void)conn;
    engine_message(node->engine, node->cell->now_ns, link, message);
}

static void worker_node_begin_step(struct node *node) {
    struct cell *cell = node->cell;
    engine_plan(node->engine, cell->now_ns, &node->plan);
    if (node->plan.n_rows == 0)
        return;
    struct cell_step step = worker_node_step_of(&node->plan);
    uint64_t ns = worker_node_step_ns(node, &step);
    node->in_step = true;
    node->n_steps++;
    node->step_begin_ns = cell->now_ns;
    cell->counts.n_steps++;
    cell->counts.n_rows += node->plan.n_rows;
    cell->counts.n_tokens += node->plan.n_tokens;
    cell->counts.busy_ns += ns;
    engine_step_begin(node->engine, cell->now_ns, budget_us(&node->budget, node->plan.n_tokens));
    if (cell->hands_over) /* a KV link moves on only when both ends look */
        for (uint64_t at_ns = cell->spec.look_ns; at_ns > 0 && at_ns < ns;
             at_ns += cell->spec.look_ns)
            cell_at(
                cell, cell->now_ns + at_ns,
                (struct cell_event){.type = CELL_LOOK, .node = node->number, .c = node->n_steps});
    uint32_t n_groups = cell->hands_over && node->plan.n_prompt > 0 ? node->layer_groups : 1;
    for (uint32_t g = 0; g < n_groups; g++)
        cell_at(cell, cell->now_ns + ns * (g + 1) / n_groups,
                (struct cell_event){.type = CELL_LAYERS,
                                    .node = node->number,
                                    .a = g,
                                    .b = n_groups,
                                    .c = node->n_steps});
}

static void worker_node_tick_if_due(struct node *node) {
    if (node->cell->now_ns >= engine_deadline(node->engine))
        engine_tick(node->engine, node->cell->now_ns);
}

static void worker_node_end_step(struct node *node) {
    struct cell *cell = node->cell;
    node->in_step = false;
    budget_learn(&node->budget, node->plan.n_tokens, node->plan.n_prompt,
                 (cell->now_ns - node->step_begin_ns) / NS_PER_US);
    engine_budget(node->engine, node->budget.n_tokens);
    engine_step_end(node->engine, cell->now_ns, node->sampled);
    engine_turn(node->engine);
    worker_node_look(node);
    worker_node_tick_if_due(node);
}

static void worker_node_pass_layers(struct node *node, const struct cell_event *event) {
    uint32_t n = node->spec.n_layers;
    engine_layers_done(node->engine, node->cell->now_ns, n * event->a / event->b,
                       n * (event->a + 1) / event->b);
    if (event->a + 1 == event->b)
        worker_node_end_step(node);
    else
        worker_node_look(node);
}

static void worker_node_tick(struct node *node, const struct cell_event *event) {
    if (node->tick_ns != event->at_ns)
        return;
    node->tick_ns = UINT64_MAX;
    if (node->in_step)
        return; /* the step's end does what a tick does */
    engine_turn(node->engine);
    worker_node_tick_if_due(node);
}

void worker_node_event(struct node *node, const struct cell_event *event) {
    if (event->type == CELL_TICK)
        worker_node_tick(node, event);
    else if (event->type == CELL_ANNOUNCE)
        worker_node_announce(node, event);
    else if (event->type == CELL_KV_READY)
        worker_node_open_kv(node, event);
    else if (event->type == CELL_LAYERS)
        worker_node_pass_layers(node, event);
    else if (node->in_step && event->c == node->n_steps)
        worker_node_look(node);
}

void worker_node_after(struct node *node) {
    struct cell *cell = node->cell;
    if (!node->in_step)
        worker_node_begin_step(node);
    if (node->in_step)
        return;
    uint64_t due_ns = engine_deadline(node->engine), turn_ns = cell->now_ns + TURN_NS;
    due_ns = due_ns < turn_ns ? due_ns : turn_ns;
    if (due_ns <= cell->now_ns)
        due_ns = cell->now_ns + NS_PER_US;
    if (due_ns >= node->tick_ns)
        return;
    node->tick_ns = due_ns;
    cell_at(cell, due_ns, (struct cell_event){.type = CELL_TICK, .node = node->number});
}
