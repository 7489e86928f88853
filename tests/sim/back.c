/* A worker's shell: links, the step loop, and the `hash` model over KV that is really stored. */
#include "tests/sim/sim.h"

#include "base/assert.h"
#include "base/note.h"

#include <stdlib.h>
#include <string.h>

struct back {
    struct sim *sim;
    uint32_t node;
};
static _Thread_local struct back backs[SIM_NODES];

static uint64_t *kv_entry(const struct node *node, uint32_t layer, uint32_t block, uint32_t at) {
    ASSERT(layer < SIM_LAYERS);
    ASSERT(block < node->n_blocks);
    return node->kv + ((size_t)layer * node->n_blocks + block) * SIM_TOKENS + at;
}

static enum status on_send(void *context, uint32_t link, const struct message *message) {
    struct back *back = context;
    struct sim *sim = back->sim;
    uint32_t conn = net_find(sim, back->node, link);
    if (conn == SIM_CONNS)
        return STATUS_CLOSED;
    uint32_t end = sim->conns[conn].node[1] == back->node && sim->conns[conn].link[1] == link;
    return net_send(sim, conn, end, message, sim->options.hwm);
}

static enum status on_open_kv(void *context, const struct peer *peer, uint32_t *link) {
    struct back *back = context;
    struct sim *sim = back->sim;
    uint32_t to = (uint32_t)strtoul(peer->kv_endpoint, NULL, 10);
    ASSERT(to >= SIM_ROUTERS && to < SIM_NODES && to != back->node);
    struct node *self = &sim->nodes[back->node], *other = &sim->nodes[to];
    *link = self->next_link++;
    uint32_t conn = net_open(sim, back->node, *link, to, true);
    if (!other->up || other->incarnation != peer->incarnation) {
        sim->conns[conn].closed[1] = true;
        net_break(sim, conn, sim->options.delay_ns);
        return STATUS_OK;
    }
    sim_at(sim, sim->now_ns + 2 * sim->options.delay_ns,
           (struct event){.type = EVENT_KV_READY,
                          .node = to,
                          .a = conn,
                          .b = 1,
                          .c = sim->conns[conn].generation});
    return STATUS_OK;
}

static void on_close_link(void *context, uint32_t link) {
    struct back *back = context;
    uint32_t conn = net_find(back->sim, back->node, link);
    if (conn == SIM_CONNS)
        return;
    const struct conn *it = &back->sim->conns[conn];
    net_close(back->sim, conn, it->node[1] == back->node && it->link[1] == link);
}

static uint64_t checksum(const void *bytes, uint32_t n) {
    const uint8_t *at = bytes;
    uint64_t sum = n;
    for (uint32_t i = 0; i < n; i++)
        sum = mix64(sum ^ at[i]);
    return sum;
}

static enum status on_push_chunk(void *context, uint32_t link, struct chunk *chunk,
                                 const uint32_t *blocks) {
    struct back *back = context;
    struct sim *sim = back->sim;
    const struct node *node = &sim->nodes[back->node];
    static _Thread_local uint8_t bytes[MESSAGE_CHUNK_MAX];
    uint32_t n = 0, n_blocks = chunk->block_end - chunk->block_begin;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++) {
        for (uint32_t i = 0; i < n_blocks; i++) {
            ASSERT(n + SIM_BLOCK_BYTES <= sim->options.chunk_bytes);
            memcpy(bytes + n, kv_entry(node, layer, blocks[i], 0), SIM_BLOCK_BYTES);
            n += SIM_BLOCK_BYTES;
        }
    }
    chunk->n_bytes = n;
    chunk->checksum = checksum(bytes, n);
    chunk->where = 0;
    chunk->bytes = bytes;
    struct message message = {.type = MESSAGE_CHUNK};
    message.u.chunk = *chunk;
    return on_send(context, link, &message);
}

static enum status on_take_chunk(void *context, uint32_t link, const struct chunk *chunk,
                                 const uint32_t *blocks) {
    struct back *back = context;
    const struct node *node = &back->sim->nodes[back->node];
    (void)link;
    uint32_t n_blocks = chunk->block_end - chunk->block_begin;
    uint64_t n = (uint64_t)(chunk->layer_end - chunk->layer_begin) * n_blocks * SIM_BLOCK_BYTES;
    if (chunk->n_bytes != n || checksum(chunk->bytes, chunk->n_bytes) != chunk->checksum)
        return STATUS_CORRUPT;
    const uint8_t *at = chunk->bytes;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++) {
        for (uint32_t i = 0; i < n_blocks; i++, at += SIM_BLOCK_BYTES)
            memcpy(kv_entry(node, layer, blocks[i], 0), at, SIM_BLOCK_BYTES);
    }
    return STATUS_OK;
}

static void on_note(void *context, const struct note *note) {
    struct back *back = context;
    char text[300];
    sim_saw(back->sim, note->kind->message);
    sim_trace(back->sim, "worker %u: %s %s", back->node, note->kind->message,
              note_text(text, sizeof text, note, NULL));
}

static struct engine_config make_config(struct sim *sim, uint32_t i) {
    const struct options *options = &sim->options;
    const struct node *node = &sim->nodes[i];
    uint32_t w = i - SIM_ROUTERS;
    struct engine_config config = {
        .incarnation = node->incarnation,
        .seed = random_next(&sim->random),
        .role = options->roles[w],
        .n_blocks = options->n_blocks[w],
        .block_tokens = SIM_TOKENS,
        .n_layers = SIM_LAYERS,
        .layer_groups = options->layer_groups,
        .block_bytes = SIM_BLOCK_BYTES,
        .chunk_tokens = options->chunk_tokens,
        .chunk_bytes = options->chunk_bytes,
        .max_batch = options->max_batch,
        .max_seqs = options->max_seqs,
        .context = SIM_PROMPT + SIM_NEW + 1,
        .max_links = SIM_LINKS,
        .n_vocab = 65536,
        .lease_ns = 10 * NS_PER_S,
        .router_lease_ns = 5 * NS_PER_S,
        .prefix_key = 7,
    };
    uint32_t pool = config.n_blocks * SIM_TOKENS;
    config.context = pool < config.context ? pool : config.context;
    snprintf(config.name, sizeof config.name, "worker%u", w);
    struct welcome *welcome = &config.welcome;
    *welcome = (struct welcome){
        .major = PROTO_MAJOR,
        .incarnation = node->incarnation,
        .role = config.role,
        .kv = {SIM_LAYERS, SIM_TOKENS, SIM_BLOCK_BYTES, 1},
        .context = config.context,
        .max_seqs = config.max_seqs,
        .chunk_tokens = config.chunk_tokens,
        .model = "hash",
    };
    memcpy(welcome->name, config.name, sizeof welcome->name);
    snprintf(welcome->kv_endpoint, sizeof welcome->kv_endpoint, "%u", i);
    welcome->numerics_fp[0] = w == options->other_numerics;
    welcome->model_fp[0] = w == options->other_model;
    return config;
}

void back_start(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    struct back *back = &backs[i];
    *back = (struct back){.sim = sim, .node = i};
    node->up = true;
    node->epoch++;
    node->incarnation = random_next(&sim->random) | 1;
    node->in_step = false;
    node->n_inbox = 0;
    node->draining = false;
    node->slow = 1;
    node->n_blocks = sim->options.n_blocks[i - SIM_ROUTERS];
    size_t n = (size_t)SIM_LAYERS * node->n_blocks * SIM_TOKENS;
    free(node->kv);
    node->kv = malloc(n * sizeof *node->kv);
    if (!node->kv)
        abort();
    for (size_t k = 0; k < n; k++) /* garbage: nothing may be read before it is written */
        node->kv[k] = mix64(node->incarnation + k);
    struct engine_config config = make_config(sim, i);
    struct engine_sink sink = {.context = back,
                               .send = on_send,
                               .open_kv = on_open_kv,
                               .close_link = on_close_link,
                               .push_chunk = on_push_chunk,
                               .take_chunk = on_take_chunk,
                               .note = on_note};
    if (engine_new(&config, &sink, &node->engine) != STATUS_OK) {
        sim_fail(sim, "engine_new failed");
        node->up = false;
        return;
    }
    node->tick_ns = UINT64_MAX;
    sim_at(sim, sim->now_ns, (struct event){.type = EVENT_SPEAK, .node = i, .c = node->epoch});
    back_after(sim, i);
}

/* Both ends said KV_HELLO and KV_WELCOME: first the accepting side may use it, then the other. */
void back_kv_ready(struct sim *sim, const struct event *event) {
    struct conn *conn = &sim->conns[event->a];
    if (!conn->alive || conn->generation != event->c || conn->closed[event->b])
        return;
    struct node *node = &sim->nodes[conn->node[event->b]];
    uint32_t from = conn->node[1 - event->b];
    uint64_t blocked = sim->blocked_until_ns[from][conn->node[event->b]];
    if (blocked > sim->now_ns) {
        sim_at(sim, blocked, *event);
        return;
    }
    char name[MESSAGE_NAME_MAX];
    snprintf(name, sizeof name, "worker%u", from - SIM_ROUTERS);
    bool accepted = event->b == 1;
    engine_kv_open(node->engine, sim->now_ns, conn->link[event->b], name,
                   sim->nodes[from].incarnation, accepted ? 0 : sim->options.credits, accepted);
    if (accepted && conn->alive)
        sim_at(sim, sim->now_ns + sim->options.delay_ns,
               (struct event){.type = EVENT_KV_READY,
                              .node = from,
                              .a = event->a,
                              .b = 0,
                              .c = conn->generation});
}

/* The entry of position `at`, as the four layers say together. */
static uint64_t read_entry(const struct node *node, const uint32_t *blocks, uint32_t at) {
    uint64_t entry = 0;
    for (uint32_t layer = 0; layer < SIM_LAYERS; layer++)
        entry ^= *kv_entry(node, layer, blocks[at / SIM_TOKENS], at % SIM_TOKENS);
    return entry;
}

static void compute_row(const struct node *node, const struct plan_row *row, uint32_t layer_begin,
                        uint32_t layer_end) {
    uint64_t entry = row->begin > 0 ? read_entry(node, row->blocks, row->begin - 1) : 0;
    for (uint32_t i = 0; i < row->n_tokens; i++) {
        entry = mix64(entry ^ (row->ids[i] + 1));
        uint32_t at = row->begin + i;
        for (uint32_t layer = layer_begin; layer < layer_end; layer++) {
            uint64_t value = mix64(entry + layer + 1);
            if (layer == SIM_LAYERS - 1)
                value = entry ^ mix64(entry + 1) ^ mix64(entry + 2) ^ mix64(entry + 3);
            *kv_entry(node, layer, row->blocks[at / SIM_TOKENS], at % SIM_TOKENS) = value;
        }
    }
}

/* The next token, from what stands in the blocks; which must be what the ids say, layer by layer.
 */
static uint32_t choose(struct sim *sim, uint32_t i, const struct plan_row *row,
                       const uint32_t *ids) {
    const struct node *node = &sim->nodes[i];
    uint64_t fold = 0, entry = 0;
    for (uint32_t at = 0; at < row->begin + row->n_tokens; at++) {
        uint64_t stored = read_entry(node, row->blocks, at);
        entry = mix64(entry ^ (ids[at] + 1));
        if (stored != entry)
            sim_fail(sim, "worker %u: position %u of slot %u (row %u+%u, block %u) is not its own",
                     i, at, row->slot, row->begin, row->n_tokens, row->blocks[at / SIM_TOKENS]);
        fold = mix64(fold ^ stored);
    }
    return 256 + (uint32_t)(fold % 65280);
}

static void end_step(struct sim *sim, uint32_t k) {
    struct node *node = &sim->nodes[k];
    static _Thread_local struct sampled sampled[4096];
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->plan.n_rows; i++) {
        const struct plan_row *row = &node->plan.rows[i];
        if (!row->sample)
            continue;
        struct sequence_view view;
        engine_sequence(node->engine, row->slot, &view);
        sampled[n].valid = true;
        sampled[n].id = choose(sim, k, row, view.ids);
        if (view.sampling->want_logprobs)
            sampled[n].logprobs.logprob = oracle_logprob(sampled[n].id);
        n++;
    }
    node->in_step = false;
    engine_step_end(node->engine, sim->now_ns, sampled);
}

void back_layers(struct sim *sim, const struct event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || event->c != (node->epoch << 32 | node->n_steps) || !node->in_step)
        return;
    uint32_t groups = sim->options.layer_groups;
    uint32_t begin = SIM_LAYERS * event->a / groups, end = SIM_LAYERS * (event->a + 1) / groups;
    for (uint32_t i = 0; i < node->plan.n_rows; i++)
        compute_row(node, &node->plan.rows[i], begin, end);
    engine_layers_done(node->engine, sim->now_ns, begin, end);
    if (event->a + 1 == groups) {
        end_step(sim, event->node);
        net_inbox(sim, event->node);
    }
}

static void begin_step(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    engine_plan(node->engine, sim->now_ns, &node->plan);
    if (node->plan.n_rows == 0)
        return;
    node->in_step = true;
    node->n_steps++;
    uint64_t usual = sim->options.step_ns + node->plan.n_tokens * (sim->options.step_ns / 16);
    uint64_t lasts = usual * node->slow + sim_about(sim, usual / 4);
    uint64_t said = sim_chance(sim, 50) ? lasts : usual; /* an estimate may be wrong */
    engine_step_begin(node->engine, sim->now_ns, (uint32_t)(said / NS_PER_US));
    uint32_t groups = sim->options.layer_groups;
    for (uint32_t g = 0; g < groups; g++)
        sim_at(
            sim, sim->now_ns + lasts * (g + 1) / groups,
            (struct event){
                .type = EVENT_LAYERS, .node = i, .a = g, .c = node->epoch << 32 | node->n_steps});
}

void back_after(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    if (!node->up)
        return;
    if (!node->in_step)
        begin_step(sim, i);
    if (node->in_step && !sim->options.messages_in_step)
        return; /* the step's end does what a tick does */
    uint64_t deadline = engine_deadline(node->engine);
    /* The loop turns at least so often, and every turn is progress. */
    uint64_t turn = sim->now_ns + 50 * NS_PER_MS;
    deadline = deadline < turn ? deadline : turn;
    if (deadline <= sim->now_ns)
        deadline = sim->now_ns + NS_PER_US;
    if (deadline < node->tick_ns) {
        node->tick_ns = deadline;
        sim_at(sim, deadline, (struct event){.type = EVENT_TICK, .node = i, .c = node->epoch});
    }
}
