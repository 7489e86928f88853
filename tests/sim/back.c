/* A worker's shell: links, and what the clock makes due. Its steps: device.c. */
#include "tests/sim/sim.h"

#include "base/assert.h"
#include "base/log/note.h"
#include "tests/sim/form.h"
#include "tests/sim/judge.h"

#include <stdlib.h>
#include <string.h>

#define LATE_TURN_NS (150 * NS_PER_MS)

struct back {
    struct sim *sim;
    uint32_t node;
};
static struct back backs[SIM_NODES];

static enum status on_send(void *context, uint32_t link, const struct message *message) {
    struct back *back = context;
    struct sim *sim = back->sim;
    uint32_t i = net_find(&sim->net, back->node, link);
    if (i == SIM_CONNS)
        return STATUS_CLOSED;
    struct conn *conn = &sim->net.conns[i];
    judge_worker_says(sim, back->node, message);
    calm_worker_says(sim, back->node, message);
    struct message copy = *message;
    sick_says(sim, back->node, &copy);
    if (sim->wires[i].shm && message->type == MESSAGE_CHUNK_ACK)
        copy.u.chunk_ack.where = sim->wires[i].consumed;
    enum status status =
        wire_send(sim, i, net_end(conn, back->node, link), &copy, sim->options.hwm);
    if (status == STATUS_BUSY)
        calm_busy(sim, back->node);
    return status;
}

static enum status on_open_kv(void *context, const struct peer *peer, uint32_t *link) {
    struct back *back = context;
    struct sim *sim = back->sim;
    uint32_t to = (uint32_t)strtoul(peer->kv_endpoint, NULL, 10);
    ASSERT(to >= SIM_ROUTERS && to < SIM_NODES && to != back->node);
    calm_worker_opens(sim, back->node, "link");
    const struct node *other = &sim->nodes[to];
    *link = sim->net.next_link[back->node]++;
    uint32_t conn = net_open(&sim->net, back->node, *link, to, true);
    bool reaches =
        !sick_is(sim, to, SICK_UNREACHABLE) && !sick_is(sim, back->node, SICK_UNREACHABLE);
    if (!reaches || !other->up || other->incarnation != peer->incarnation) {
        sim->net.conns[conn].closed[1] = true;
        wire_break(sim, conn, sim->options.delay_ns);
        return STATUS_OK;
    }
    sim_at(sim, sim->now_ns + 2 * sim->options.delay_ns,
           (struct cell_event){.type = EVENT_KV_READY,
                               .node = to,
                               .a = conn,
                               .b = 1,
                               .c = sim->net.conns[conn].generation});
    return STATUS_OK;
}

static void on_close_link(void *context, uint32_t link) {
    struct back *back = context;
    struct sim *sim = back->sim;
    uint32_t i = net_find(&sim->net, back->node, link);
    if (i == SIM_CONNS)
        return;
    const struct conn *conn = &sim->net.conns[i];
    if (!conn->kv) {
        sim_saw(sim, SIGHT_ROUTER_SILENT);
        sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
    }
    net_close(&sim->net, i, net_end(conn, back->node, link));
}

static enum status on_push_chunk(void *context, uint32_t link, struct chunk *chunk,
                                 const uint32_t *blocks) {
    struct back *back = context;
    uint32_t i = net_find(&back->sim->net, back->node, link);
    if (i == SIM_CONNS)
        return STATUS_CLOSED;
    enum status status =
        chunk_push(back->sim, back->node, i, net_end(&back->sim->net.conns[i], back->node, link),
                   chunk, blocks);
    struct wire *wire = &back->sim->wires[i];
    if (status == STATUS_BUSY)
        calm_busy(back->sim, back->node);
    else if (wire->is_full)
        calm_reminded(back->sim, back->node);
    else
        calm_worker_opens(back->sim, back->node, "chunk");
    wire->is_full = status == STATUS_BUSY;
    return status;
}

static enum status on_take_chunk(void *context, uint32_t link, const struct chunk *chunk,
                                 const uint32_t *blocks) {
    struct back *back = context;
    uint32_t i = net_find(&back->sim->net, back->node, link);
    if (i == SIM_CONNS)
        return STATUS_CLOSED;
    return chunk_take(back->sim, back->node, i, chunk, blocks);
}

static enum status on_constrain(void *context, uint32_t slot, uint64_t serial,
                                const struct submit *submit) {
    struct back *back = context;
    return form_open(back->sim, back->node, slot, serial, submit);
}

static void on_note(void *context, const struct note *note) {
    struct back *back = context;
    char text[300];
    if (!back->sim->verbose)
        return;
    sim_trace(back->sim, "worker %u: %s %s", back->node, note->kind->message,
              note_text(text, sizeof text, note, NULL));
}

static struct engine_config make_config(struct sim *sim, uint32_t i) {
    const struct options *options = &sim->options;
    struct node *node = &sim->nodes[i];
    uint32_t w = i - SIM_ROUTERS;
    struct engine_config config = {
        .incarnation = node->incarnation,
        .seed = random_next(&sim->draws.nodes),
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
        .n_variants = 2,
        .variant_limits = {options->long_prompt},
        .lease_ns = options->lease_ns,
        .router_lease_ns = 5 * NS_PER_S,
        .prefix_key = SIM_PREFIX_KEY,
    };
    uint32_t pool = config.n_blocks * SIM_TOKENS;
    config.context = pool < config.context ? pool : config.context;
    node->context = config.context;
    snprintf(config.name, sizeof config.name, "worker%u", w);
    struct welcome *welcome = &config.welcome;
    *welcome = (struct welcome){
        .major = PROTO_MAJOR,
        .minor = PROTO_MINOR,
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
    /* Other numerics differ in the last byte alone: all of a fingerprint counts. */
    welcome->numerics_fp[FINGERPRINT_BYTES - 1] = (uint8_t)options->numerics[w];
    welcome->model_fp[FINGERPRINT_BYTES - 1] = w == options->other_model;
    return config;
}

static void fill_with_garbage(struct node *node) {
    size_t n = (size_t)SIM_LAYERS * node->n_blocks * SIM_TOKENS;
    free(node->kv);
    node->kv = malloc(n * sizeof *node->kv);
    if (!node->kv)
        abort();
    for (size_t k = 0; k < n; k++) /* nothing may be read before it is written */
        node->kv[k] = node->incarnation + k;
}

void back_start(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    struct back *back = &backs[i];
    *back = (struct back){.sim = sim, .node = i};
    node->up = true;
    node->epoch++;
    node->incarnation = random_next(&sim->draws.nodes) | 1;
    node->in_step = false;
    memset(node->flights, 0, sizeof node->flights);
    node->n_inbox = 0;
    memset(node->tombs, 0, sizeof node->tombs);
    memset(node->forms, 0, sizeof node->forms);
    node->draining = false;
    node->slow = 1;
    node->stolen_until_ns = 0;
    budget_init(&node->budget, sim->options.chunk_tokens, BUDGET_STEP_US_GOAL);
    node->n_blocks = sim->options.n_blocks[i - SIM_ROUTERS];
    fill_with_garbage(node);
    struct engine_config config = make_config(sim, i);
    struct engine_sink sink = {.context = back,
                               .send = on_send,
                               .open_kv = on_open_kv,
                               .close_link = on_close_link,
                               .push_chunk = on_push_chunk,
                               .take_chunk = on_take_chunk,
                               .constrain = on_constrain,
                               .note = on_note};
    if (engine_new(&config, &sink, &node->engine) != STATUS_OK) {
        sim_fail(sim, "engine_new failed");
        node->up = false;
        return;
    }
    node->tick_ns = UINT64_MAX;
    bool is_sick = sim->options.sick != SICK_NONE && sim->phase == RUN_SAFETY &&
                   i + 1 == SIM_ROUTERS + sim->options.n_workers;
    sim_trouble(sim, i, i, is_sick ? UINT64_MAX / 4 : sim->now_ns);
    sim_at(sim, sim->now_ns, (struct cell_event){.type = EVENT_SPEAK, .node = i, .c = node->epoch});
    back_after(sim, i);
}

void back_message(struct sim *sim, uint32_t i, uint32_t c, uint32_t link,
                  const struct message *message) {
    const struct conn *conn = &sim->net.conns[c];
    struct wire *wire = &sim->wires[c];
    struct engine *engine = sim->nodes[i].engine;
    if (sick_takes(sim, i, c, message))
        return;
    if (message->type == MESSAGE_CHUNK_ACK)
        wire->is_full = false;
    if (wire->shm && message->type == MESSAGE_CHUNK_ACK) {
        if (stage_release(&wire->stage, message->u.chunk_ack.where) != STATUS_OK)
            sim_fail(sim, "bytes of a ring are acknowledged that were never put there");
        if (message->u.chunk_ack.transfer_id == 0) { /* between the shells */
            calm_reads(sim, i, message->type);
            engine_kv_room(engine, sim_clock(sim, i));
            return;
        }
    }
    struct judge_eye eye = judge_worker_before(sim, i, message);
    bool greets = judge_is_hello(engine, link, message);
    judge_ends(sim, i, link, message);
    calm_reads(sim, i, message->type);
    engine_message(engine, sim_clock(sim, i), link, message);
    judge_worker_after(sim, i, wire, message, &eye);
    judge_risen(sim, i, message);
    if (greets)
        judge_greeted(sim, i, message->u.hello.router_id);
    if (wire->shm && conn->alive && message->type == MESSAGE_CHUNK)
        chunk_consumed(sim, c, &message->u.chunk);
}

/* Both ends said KV_HELLO and KV_WELCOME: first the accepting side may use it, then the other. */
void back_kv_ready(struct sim *sim, const struct cell_event *event) {
    struct conn *conn = &sim->net.conns[event->a];
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
    engine_kv_open(node->engine, sim_clock(sim, conn->node[event->b]), conn->link[event->b], name,
                   sim->nodes[from].incarnation, accepted ? 0 : sim->options.credits, accepted);
    if (accepted && conn->alive)
        sim_at(sim, sim->now_ns + sim->options.delay_ns,
               (struct cell_event){.type = EVENT_KV_READY,
                                   .node = from,
                                   .a = event->a,
                                   .b = 0,
                                   .c = conn->generation});
}

/* Somebody else has the CPU: the next turn comes late, but not so late that it is a hang. */
void back_turn_late(struct sim *sim, struct node *node) {
    if (node->stolen_until_ns <= sim->now_ns || node->paused_until_ns > sim->now_ns)
        return;
    if (draw_chance(&sim->draws.nodes, 25))
        node->paused_until_ns = sim->now_ns + random_below(&sim->draws.nodes, LATE_TURN_NS);
}

void back_look(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    wire_inbox(sim, i);
    if (node->up)
        form_look(sim, i);
    if (!node->up || sim_clock(sim, i) < engine_deadline(node->engine))
        return;
    calm_ticks(sim, i, true);
    engine_tick(node->engine, sim_clock(sim, i));
    calm_ticks(sim, i, false);
}

void back_tick(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    if (node->in_step && !sim->options.messages_in_step)
        return;
    engine_turn(node->engine);
    back_look(sim, i);
    if (engine_deadline(node->engine) <= sim_clock(sim, i))
        sim_fail(sim, "worker %u asks for a tick again at once", i);
    back_turn_late(sim, node);
}

void back_after(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    if (!node->up)
        return;
    if (!node->in_step)
        device_step(sim, i);
    calm_worker_after(sim, i);
    if (node->in_step && !sim->options.messages_in_step)
        return; /* the step's end does what a tick does */
    uint64_t deadline = sim_true_ns(sim, i, engine_deadline(node->engine));
    /* The loop turns at least so often, and every turn is progress. */
    uint64_t turn = sim->now_ns + 50 * NS_PER_MS;
    deadline = deadline < turn ? deadline : turn;
    if (deadline <= sim->now_ns)
        deadline = sim->now_ns + NS_PER_US;
    if (deadline < node->tick_ns) {
        node->tick_ns = deadline;
        sim_at(sim, deadline, (struct cell_event){.type = EVENT_TICK, .node = i, .c = node->epoch});
    }
}
