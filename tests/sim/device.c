/* A worker's steps: the `hash` model over KV that is really stored, computed by a device that takes one
 * step after the other, layer by layer; and when the worker's shell reads what was chosen. Where steps
 * go ahead (late.h) that may be later than the device begins with the next. */
#include "tests/sim/sim.h"

#include "base/assert.h"
#include "tests/sim/form.h"
#include "tests/sim/judge.h"
#include "tests/sim/late.h"

#define UNSAID_NS (700 * NS_PER_MS)
#define SPOILT_OF 4000 /* one choice of so many, where the model's numbers may be unusable */

/* The entry of position `at`, as the four layers say together. */
static uint64_t read_entry(const struct node *node, const uint32_t *blocks, uint32_t at) {
    uint64_t entry = 0;
    for (uint32_t layer = 0; layer < SIM_LAYERS; layer++)
        entry ^= *chunk_entry(node, layer, blocks[at / SIM_TOKENS], at % SIM_TOKENS);
    return entry;
}

static uint64_t start_of(const struct sequence_view *view, const struct plan_row *row) {
    return oracle_start((uint32_t)(view->sampling->seed >> 16 & 0xff), row->variant);
}

/* ids: of the row's tokens. */
static void compute_row(const struct node *node, const struct plan_row *row, const uint32_t *ids,
                        uint32_t layer_begin, uint32_t layer_end) {
    struct sequence_view view;
    engine_sequence(node->engine, row->slot, row->begin + row->n_tokens, &view);
    uint64_t entry =
        row->begin > 0 ? read_entry(node, row->blocks, row->begin - 1) : start_of(&view, row);
    for (uint32_t i = 0; i < row->n_tokens; i++) {
        entry = oracle_entry(entry, ids[i]);
        uint32_t at = row->begin + i;
        for (uint32_t layer = layer_begin; layer < layer_end; layer++) {
            uint64_t value = mix64(entry + layer + 1);
            if (layer == SIM_LAYERS - 1)
                value = entry ^ mix64(entry + 1) ^ mix64(entry + 2) ^ mix64(entry + 3);
            *chunk_entry(node, layer, row->blocks[at / SIM_TOKENS], at % SIM_TOKENS) = value;
        }
    }
}

/* The next token, from what stands in the blocks; which must be what the ids say,
 * layer by layer. */
static uint32_t choose(struct sim *sim, uint32_t i, const struct plan_row *row, const uint32_t *ids,
                       const struct sequence_view *view) {
    const struct node *node = &sim->nodes[i];
    uint64_t fold = 0, entry = start_of(view, row);
    for (uint32_t at = 0; at < row->begin + row->n_tokens; at++) {
        uint64_t stored = read_entry(node, row->blocks, at);
        entry = oracle_entry(entry, at < row->begin ? view->ids[at] : ids[at - row->begin]);
        if (stored != entry) {
            sim_fail(sim, "worker %u: position %u of slot %u (row %u+%u, block %u) is not its own",
                     i, at, row->slot, row->begin, row->n_tokens, row->blocks[at / SIM_TOKENS]);
            break;
        }
        fold = mix64(fold ^ stored);
    }
    uint32_t numerics = sim->options.numerics[i - SIM_ROUTERS];
    uint32_t index = view->n_tokens - view->n_prompt;
    const struct form *form = form_of(sim, i, row->slot, view);
    if (row->variant > 0)
        sim_saw(sim, SIGHT_VARIANT);
    if (view->ban_ends && view->sampling->n_stop_ids > 0 &&
        oracle_choose(fold, numerics, view->sampling, index, false, form) !=
            oracle_choose(fold, numerics, view->sampling, index, true, form))
        sim_saw(sim, SIGHT_STOP_BANNED);
    return oracle_choose(fold, numerics, view->sampling, index, view->ban_ends, form);
}

static void sample_row(struct sim *sim, uint32_t i, const struct plan_row *row, const uint32_t *ids,
                       struct sampled *sampled) {
    struct sequence_view view;
    engine_sequence(sim->nodes[i].engine, row->slot, row->begin + row->n_tokens, &view);
    sampled->valid = true;
    sampled->id = choose(sim, i, row, ids, &view);
    if (view.sampling->want_logprobs)
        sampled->logprobs.logprob = oracle_logprob(sampled->id);
    bool spoils = sim->options.weights[KIND_SPOIL] > 0 && sim->phase == RUN_SAFETY &&
                  random_below(&sim->draws.nodes, SPOILT_OF) == 0;
    if (!spoils && !sick_is(sim, i, SICK_NUMERICS))
        return;
    struct client *client = client_of_seed(sim, view.sampling->seed);
    sampled->valid = false;
    if (client)
        client->spoilt_by |= 1u << i;
}

/* What a row computes: known to the worker, or chosen by the step before. */
static const uint32_t *ids_of(const struct flight *flight, uint32_t row) {
    const uint32_t *known = flight->plan.rows[row].ids;
    return known ? known : &flight->ids[row];
}

static void sample_rows(struct sim *sim, uint32_t i, struct flight *flight) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < flight->plan.n_rows; k++) {
        const struct plan_row *row = &flight->plan.rows[k];
        if (row->sample)
            sample_row(sim, i, row, ids_of(flight, k), &flight->sampled[n++]);
    }
    flight->computed = true;
}

/* What the worker says of a step, which is right, out of date or wrong. */
static uint64_t announced(struct sim *sim, struct node *node, const struct plan *plan,
                          uint64_t usual, uint64_t lasts) {
    if (sim->options.learns)
        return (uint64_t)budget_us(&node->budget, plan->n_tokens) * NS_PER_US;
    if (sim->options.weights[KIND_ESTIMATE] > 0 && draw_chance(&sim->draws.nodes, 50))
        return usual;
    bool stolen = node->stolen_until_ns > sim->now_ns; /* nobody knows that before */
    return stolen ? usual * node->slow : lasts;
}

/* How long a step takes that is planned now, and what its worker says of that. */
static void draw_times(struct sim *sim, uint32_t i, struct flight *flight) {
    struct node *node = &sim->nodes[i];
    uint64_t usual = sim->options.step_ns + flight->plan.n_tokens * sim->options.token_ns;
    uint64_t lasts = usual * node->slow + draw_about(&sim->draws.nodes, usual / 4);
    flight->slowed = node->slow > 1 || node->stolen_until_ns > sim->now_ns;
    if (node->stolen_until_ns > sim->now_ns)
        lasts *= node->stolen_factor;
    bool hides = sick_is(sim, i, SICK_SLOW);
    flight->said_ns = hides ? usual : announced(sim, node, &flight->plan, usual, lasts);
    flight->lasts_ns = lasts * (hides ? sim->options.sick_factor : 1);
    sim_trace(sim, "worker %u: %u tokens take %llu ms, it says %llu ms", i, flight->plan.n_tokens,
              (unsigned long long)(flight->lasts_ns / NS_PER_MS),
              (unsigned long long)(flight->said_ns / NS_PER_MS));
}

/* From its turn on nothing is heard of a step for so long: what may excuse a router. */
static void note_silence(struct sim *sim, uint32_t i, const struct flight *flight, uint64_t lasts) {
    struct node *node = &sim->nodes[i];
    uint64_t said = flight->said_ns, begin_ns = flight->begin_ns;
    /* A router waits three and a half times what was said, even for one that died in it. */
    if (lasts > NS_PER_S)
        node->long_until_ns = begin_ns + (2 * lasts > 7 * said ? lasts : 7 * said / 2);
    /* A step that takes far longer than was said is a hang to whoever waits. */
    if (lasts > UNSAID_NS && 2 * lasts > 7 * said)
        sim_trouble(sim, i, i, begin_ns + lasts);
    else if (lasts > NS_PER_S)
        sim_saw(sim, SIGHT_LONG_STEP);
}

/* It is the older one in flight from now on. */
static void take_turn(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    struct flight *flight = &node->flights[0];
    flight->begin_ns = sim->now_ns;
    node->in_step = true;
    node->step_begin_ns = sim_clock(sim, i);
    node->heavy.slowed = flight->slowed;
    note_silence(sim, i, flight, flight->lasts_ns);
}

static void start_device(struct sim *sim, uint32_t i, const struct flight *flight) {
    uint32_t groups = sim->options.layer_groups;
    uint64_t key = sim->nodes[i].epoch << 32 | flight->number;
    for (uint32_t g = 0; g < groups; g++)
        sim_at(sim, sim->now_ns + flight->lasts_ns * (g + 1) / groups,
               (struct cell_event){.type = EVENT_LAYERS, .node = i, .a = g, .c = key});
}

/* The older step has chosen: the device goes on with the one ahead. */
static void start_ahead(struct sim *sim, uint32_t i) {
    struct flight *flight = &sim->nodes[i].flights[1];
    for (uint32_t k = 0; k < flight->plan.n_rows; k++)
        flight->ids[k] = sim->nodes[i].flights[0].sampled[k].id;
    start_device(sim, i, flight);
}

static void read_later(struct sim *sim, uint32_t i, uint64_t delay_ns) {
    struct node *node = &sim->nodes[i];
    const struct flight *flight = &node->flights[0];
    uint64_t at_ns = sim->now_ns + delay_ns;
    note_silence(sim, i, flight, at_ns - flight->begin_ns);
    sim_at(sim, at_ns,
           (struct cell_event){
               .type = EVENT_RESULTS, .node = i, .c = node->epoch << 32 | flight->number});
}

static void go_ahead(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    struct flight *flight = &node->flights[1];
    if (!sim->options.late)
        return;
    *flight = (struct flight){0};
    if (judge_repeat(sim, i, &flight->plan) != REPEAT_GRANTED)
        return;
    flight->number = ++node->n_steps;
    draw_times(sim, i, flight);
    engine_step_begin(node->engine, sim_clock(sim, i), (uint32_t)(flight->said_ns / NS_PER_US));
    if (node->flights[0].computed)
        start_ahead(sim, i);
}

static void learn(struct sim *sim, uint32_t i, uint64_t ns) {
    struct node *node = &sim->nodes[i];
    const struct plan *plan = &node->flights[0].plan;
    if (!sim->options.learns)
        return;
    if (node->measures)
        budget_learn(&node->budget, plan->n_tokens, plan->n_prompt, ns / NS_PER_US);
    engine_budget(node->engine, node->budget.n_tokens);
    heavy_judge(sim, i);
}

/* The worker reads what its older step chose; at_once: as soon as that was there. */
static void read_results(struct sim *sim, uint32_t i, bool at_once) {
    struct node *node = &sim->nodes[i];
    uint64_t now_ns = sim_clock(sim, i);
    uint64_t n_dropped = engine_repeats(node->engine)->n_dropped;
    if (sim->options.late)
        engine_layers_done(node->engine, now_ns, 0, SIM_LAYERS);
    node->in_step = false;
    time_stepped(sim, now_ns - node->step_begin_ns);
    learn(sim, i, now_ns - node->step_begin_ns);
    engine_step_end(node->engine, now_ns, node->flights[0].sampled);
    judge_late(sim, i, n_dropped);
    node->flights[0] = node->flights[1];
    node->flights[1].plan.n_rows = 0;
    back_look(sim, i);
    if (node->flights[0].plan.n_rows == 0)
        return;
    take_turn(sim, i);
    node->measures = at_once;
    go_ahead(sim, i);
    if (node->flights[0].computed) { /* it did not wait for us */
        sim_saw(sim, SIGHT_AHEAD_OVER);
        read_later(sim, i, 0);
    }
}

void device_results(struct sim *sim, const struct cell_event *event) {
    struct node *node = &sim->nodes[event->node];
    const struct flight *flight = &node->flights[0];
    if (node->up && node->in_step && flight->computed &&
        event->c == (node->epoch << 32 | flight->number))
        read_results(sim, event->node, event->a);
}

void device_layers(struct sim *sim, const struct cell_event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || event->c >> 32 != node->epoch || !node->in_step)
        return;
    bool is_ahead = node->flights[0].number != (uint32_t)event->c;
    struct flight *flight = &node->flights[is_ahead];
    ASSERT(flight->number == (uint32_t)event->c);
    uint32_t groups = sim->options.layer_groups;
    uint32_t begin = SIM_LAYERS * event->a / groups, end = SIM_LAYERS * (event->a + 1) / groups;
    for (uint32_t k = 0; k < flight->plan.n_rows; k++)
        compute_row(node, &flight->plan.rows[k], ids_of(flight, k), begin, end);
    if (!is_ahead) /* else nobody looks yet */
        engine_layers_done(node->engine, sim_clock(sim, event->node), begin, end);
    if (event->a + 1 < groups)
        return;
    sample_rows(sim, event->node, flight);
    if (is_ahead)
        return;
    if (node->flights[1].plan.n_rows > 0) {
        start_ahead(sim, event->node);
        uint64_t delay_ns = late_delay(sim, node->flights[1].lasts_ns);
        if (delay_ns > 0) {
            read_later(sim, event->node, delay_ns);
            return;
        }
    }
    read_results(sim, event->node, true);
}

void device_step(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    struct flight *flight = &node->flights[0];
    *flight = (struct flight){0};
    judge_plan(sim, i);
    time_planned(sim, i);
    tenant_planned(sim, i);
    if (flight->plan.n_rows == 0)
        return;
    flight->number = ++node->n_steps;
    node->heavy.budget = node->budget.n_tokens;
    node->measures = true;
    draw_times(sim, i, flight);
    take_turn(sim, i);
    engine_step_begin(node->engine, node->step_begin_ns, (uint32_t)(flight->said_ns / NS_PER_US));
    start_device(sim, i, flight);
    back_turn_late(sim, node);
    go_ahead(sim, i);
}
