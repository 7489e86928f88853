/* How long things take: whoever decodes gets rows, prompts get their share, who fits is let in; and a
 * request that is alone in a calm cluster waits for its messages and steps, and for nothing else. */
#include "tests/sim/judge.h"

#include "worker/core/engine_state.h"

#include <string.h>

#define PROMPT_PLANS 3 /* with one row only, prompts and decoding take turns */

/* Before a request is handed to its router. */
void time_asked(struct sim *sim, const struct client *client) {
    if (!sim->calm)
        return;
    bool idle = client_alive(sim) == 1;
    for (uint32_t i = SIM_ROUTERS; i < SIM_NODES && idle; i++) {
        const struct node *node = &sim->nodes[i];
        if (!node->engine)
            continue;
        const struct schedule *schedule = &node->engine->schedule;
        idle =
            !node->in_step && schedule->n_waiting + schedule->n_prefill + schedule->n_decode == 0;
    }
    sim->lonely = (struct lonely){.serial = idle ? client->serial : 0, .since_ns = sim->now_ns};
    if (idle)
        sim_saw(sim, SIGHT_LONELY);
}

/* It waits for more than messages and steps: for room. */
void time_refused(struct sim *sim) {
    sim->lonely.serial = 0;
}

void time_sent(struct sim *sim, uint64_t delay_ns, bool kv) {
    struct lonely *lonely = &sim->lonely;
    lonely->slowest_ns = delay_ns > lonely->slowest_ns ? delay_ns : lonely->slowest_ns;
    lonely->n_kv += kv;
}

void time_stepped(struct sim *sim, uint64_t ns) {
    struct lonely *lonely = &sim->lonely;
    lonely->stepped_ns += ns;
    lonely->longest_ns = ns > lonely->longest_ns ? ns : lonely->longest_ns;
}

/* Before its tokens are counted. */
void time_tokens(struct sim *sim, const struct client *client) {
    struct lonely *lonely = &sim->lonely;
    if (lonely->serial == 0 || client->serial != lonely->serial)
        return;
    bool handed_over = client->attempt.prefill != SIM_NO_NODE;
    uint32_t n_got =
        client->n_got - client->attempt.begin;  /* one that outgrew its worker begins anew */
    uint64_t overtaken = sim->options.overtake; /* a PING goes before it, and takes its turn */
    uint64_t most;
    if (n_got == 0) /* RESERVE and RESERVED, SUBMIT, STEP */
        most = lonely->stepped_ns +
               (handed_over ? 4 + 2 * overtaken : 2 + overtaken) * lonely->slowest_ns;
    else if (n_got == 1 && handed_over) /* the link, chunks and their acknowledgements */
        most = lonely->stepped_ns + 2 * lonely->longest_ns +
               (6 + overtaken + 2 * (uint64_t)lonely->n_kv) * lonely->slowest_ns;
    else
        most = lonely->longest_ns + lonely->slowest_ns;
    uint64_t took_ns = sim->now_ns - lonely->since_ns;
    if (took_ns > most)
        sim_fail(sim,
                 "client %llu, alone, waits %llu us for token %u; steps and messages explain %llu",
                 (unsigned long long)client->serial, (unsigned long long)(took_ns / NS_PER_US),
                 client->n_got, (unsigned long long)(most / NS_PER_US));
    lonely->since_ns = sim->now_ns;
    lonely->stepped_ns = 0;
    lonely->n_kv = 0;
}

/* --- plans --------------------------------------------------------------------------------------- */

struct counted {
    uint32_t n_prompt_rows;
    uint32_t n_prompt_tokens;
};

static struct counted count_rows(struct node *node) {
    const struct engine *engine = node->engine;
    struct counted counted = {0};
    const struct plan *plan = &node->flights[0].plan;
    for (uint32_t i = 0; i < plan->n_rows; i++) {
        const struct plan_row *row = &plan->rows[i];
        if (row->slot < SIM_SEQS)
            node->starved.decodes[row->slot] = 0;
        if (engine->sequences.slots[row->slot].queue != QUEUE_PREFILL)
            continue;
        counted.n_prompt_rows++;
        counted.n_prompt_tokens += row->n_tokens;
    }
    return counted;
}

/* Everybody who decodes has a row now and then, and so have prompts. */
static void judge_turns(struct sim *sim, uint32_t i, const struct counted *counted) {
    struct node *node = &sim->nodes[i];
    const struct engine *engine = node->engine;
    for (uint32_t k = 0; k < engine->config.max_seqs && k < SIM_SEQS; k++) {
        const struct sequence *sequence = &engine->sequences.slots[k];
        if (sequence->queue != QUEUE_DECODE || sequence->n_steps > 0)
            node->starved.decodes[k] = 0;
        else if (++node->starved.decodes[k] > 2 * engine->config.max_seqs + 2)
            sim_fail(sim, "worker %u leaves slot %u out of %u steps", i, k,
                     node->starved.decodes[k]);
    }
    bool pending = engine->schedule.n_prefill > 0 && counted->n_prompt_rows == 0;
    node->starved.n_prompts = pending ? node->starved.n_prompts + 1 : 0;
    if (node->starved.n_prompts > PROMPT_PLANS)
        sim_fail(sim, "worker %u leaves prompts out of %u steps", i, node->starved.n_prompts);
}

/* The next of the waiting is let in where all it needs is free. */
static void judge_entry(struct sim *sim, uint32_t i, const struct plan *plan,
                        const struct counted *counted) {
    struct engine *engine = sim->nodes[i].engine;
    const struct schedule *schedule = &engine->schedule;
    const struct sequence *first = tenant_next(engine);
    if (!first || plan->n_rows >= engine->config.max_batch ||
        schedule->n_prefill + schedule->n_decode >= engine->config.max_batch ||
        counted->n_prompt_tokens >= engine->budget)
        return;
    uint32_t n_need = engine_blocks_for(engine, first->n_tokens) + schedule->n_decode;
    uint32_t n_most = engine->config.chunk_tokens > engine->config.max_batch
                          ? engine->config.chunk_tokens
                          : engine->config.max_batch;
    if (plan->n_tokens < n_most && n_need <= prefix_cache_available(&engine->cache))
        sim_fail(sim, "worker %u lets slot %u wait though its %u blocks are free", i, first->slot,
                 n_need);
}

void time_planned(struct sim *sim, uint32_t i) {
    struct counted counted = count_rows(&sim->nodes[i]);
    judge_turns(sim, i, &counted);
    judge_entry(sim, i, &sim->nodes[i].flights[0].plan, &counted);
}

void time_repeated(struct sim *sim, uint32_t i, const struct plan *plan) {
    judge_entry(sim, i, plan, &(struct counted){0});
}
