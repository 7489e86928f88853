/* Clients: what they ask, and how they leave. */
#include "tests/sim/sim.h"

#include "tests/sim/form.h"
#include "tests/sim/judge.h"
#include "tests/sim/late.h"
#include "worker/core/block_hash.h"

#include <string.h>

uint32_t client_alive(const struct sim *sim) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        n += sim->clients[i].used;
    return n;
}

struct client *client_of_seed(struct sim *sim, uint64_t seed) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (client->used && client->seed == seed)
            return client;
    }
    return NULL;
}

struct client *client_of_request(struct sim *sim, uint32_t router, uint64_t lo) {
    struct client *arriving = sim->arriving;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (client->used && client->running && client != arriving && client->router == router &&
            client->request == lo)
            return client;
    }
    if (!arriving || arriving->router != router)
        return NULL;
    arriving->request = lo;
    return arriving;
}

/* A prompt: often the front of one of a few that many share, then its own ids. */
static void write_prompt(struct sim *sim, struct client *client) {
    struct random *random = &sim->draws.clients;
    uint64_t base = random_below(random, 4);
    uint32_t n_shared = (uint32_t)random_below(random, client->n_prompt + 1);
    for (uint32_t i = 0; i < client->n_prompt; i++) {
        uint64_t value = i < n_shared ? mix64(base * 1000 + i) : random_next(random);
        client->tokens[i] = (uint32_t)(value % 65536);
    }
    struct map_key key = BLOCK_HASH_START;
    for (uint32_t b = 0; b < client->n_prompt / SIM_TOKENS; b++) {
        key = block_hash(SIM_PREFIX_KEY, client->salt, key, client->tokens + b * SIM_TOKENS);
        client->hashes[b] = key;
    }
}

static struct sampling sampling_of(struct client *client) {
    struct sampling sampling = {.max_new = client->max_new,
                                .min_new = client->min_new,
                                .temperature = client->temperature,
                                .seed = client->seed,
                                .choice = client->choice,
                                .repetition = 1,
                                .top_p = 1,
                                .want_logprobs = client->want_logprobs};
    if (client->penalised)
        sampling.presence = 1; /* the model's choice does not heed it: the worker's plans do */
    if (client->stops) {
        sampling.n_stop_ids = 1;
        sampling.stop_ids = &client->stop_id;
    }
    form_sampling(client, &sampling);
    return sampling;
}

/* An id that the answer will have at some place, when workers of the usual numerics give it. */
static uint32_t foretell(struct client *client, uint32_t at) {
    struct oracle oracle = client->oracle;
    struct form form = client->form;
    struct sampling sampling = sampling_of(client);
    uint32_t id = 0;
    for (uint32_t i = 0; i <= at; i++) {
        id = oracle_choose(oracle.fold, 0, &sampling, i, false, client->has_form ? &form : NULL);
        oracle_push(&oracle, id);
        form_push(&form, id);
    }
    return id;
}

static void make_plans(struct sim *sim, struct client *client) {
    struct random *random = &sim->draws.clients;
    const struct options *options = &sim->options;
    client->want_logprobs = draw_chance(random, 20);
    form_plan(sim, client);
    client->penalised = options->late && late_penalised(client->seed);
    if (draw_chance(random, options->stop_percent)) {
        client->stop_id = foretell(client, (uint32_t)random_below(random, client->max_new));
        client->stops = true;
        if (draw_chance(random, 40))
            client->min_new = (uint32_t)random_below(random, client->max_new + 1);
    }
    if (draw_chance(random, options->stop_percent))
        client->match_at = (uint32_t)draw_between(random, 1, client->max_new);
    if (draw_chance(random, options->cancel_percent))
        client->cancel_at = (uint32_t)random_below(random, client->max_new);
    if (draw_chance(random, options->deadline_percent))
        client->deadline_ns =
            sim_clock(sim, client->router) + draw_between(random, 20, 6000) * NS_PER_MS;
}

static struct client *take_client(struct sim *sim) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (client->used)
            continue;
        *client = (struct client){.used = true,
                                  .serial = ++sim->n_clients,
                                  .match_at = UINT32_MAX,
                                  .cancel_at = UINT32_MAX};
        client->attempt.prefill = SIM_NO_NODE;
        return client;
    }
    return NULL;
}

/* Without a draw: clients of other runs of the seed are the same. */
uint64_t client_tenant(const struct sim *sim, const struct client *client) {
    return sim->limits.n_tenants > 0 ? 1 + client->serial % sim->limits.n_tenants : 0;
}

/* Hands it to the router's core. */
static void ask(struct sim *sim, struct client *client) {
    struct node *node = &sim->nodes[client->router];
    struct request_spec spec = {
        .user = (uint64_t)(client - sim->clients) | client->serial << 16,
        .tokens = client->tokens,
        .n_prompt = client->n_prompt,
        .capacity = SIM_PROMPT + SIM_NEW,
        .hashes = client->hashes,
        .n_hashes = client->n_prompt / SIM_TOKENS,
        .salt = client->salt,
        .priority = client->priority,
        .tenant = client_tenant(sim, client),
        .deadline_ns = client->deadline_ns,
        .sampling = sampling_of(client),
    };
    sim->counts.asked++;
    client->running = true;
    time_asked(sim, client);
    sim->arriving = client;
    enum status status =
        router_request(node->router, sim_clock(sim, client->router), &spec, &client->request);
    sim->arriving = NULL;
    sim_trace(sim, "client %llu at router %u: prompt %u, max_new %u, priority %u: %s",
              (unsigned long long)client->serial, client->router, client->n_prompt, client->max_new,
              client->priority, status_name(status));
    if (status != STATUS_OK) {
        sim->counts.turned_away++;
        sim->counts.turned_closed += status == STATUS_CLOSED;
        judge_turned_away(sim, client, status);
        if (client->probe && (status == STATUS_CLOSED || status == STATUS_INVALID))
            sim_fail(sim, "a healthy cluster turned a request away: %s", status_name(status));
        client->used = false;
    } else if (client->used && client->cancel_at == 0) {
        sim_at(sim, sim->now_ns + draw_about(&sim->draws.clients, 20 * NS_PER_MS),
               (struct cell_event){.type = EVENT_CANCEL,
                                   .node = client->router,
                                   .a = (uint32_t)(client - sim->clients),
                                   .c = client->serial});
    }
    front_after(sim, client->router);
}

/* One of the choices of a call: they share prompt and seed. */
static void begin_choice(struct sim *sim, const struct client *model, uint32_t choice) {
    struct client *client = take_client(sim);
    if (!client)
        return;
    client->router = model->router;
    client->probe = model->probe;
    client->n_prompt = model->n_prompt;
    client->max_new = model->max_new;
    client->priority = model->priority;
    client->salt = model->salt;
    client->temperature = model->temperature;
    client->choice = choice;
    client->seed = client->serial << 32 | client->salt << 16 | (uint64_t)(client - sim->clients);
    memcpy(client->tokens, model->tokens, sizeof client->tokens);
    memcpy(client->hashes, model->hashes, sizeof client->hashes);
    client->oracle.entry =
        oracle_start(client->salt, client->n_prompt > sim->options.long_prompt ? 1 : 0);
    for (uint32_t i = 0; i < client->n_prompt; i++)
        oracle_push(&client->oracle, client->tokens[i]);
    if (!client->probe)
        make_plans(sim, client);
    ask(sim, client);
}

void client_arrive(struct sim *sim, bool probe) {
    struct random *random = &sim->draws.clients;
    static struct client model;
    model = (struct client){
        .router = (uint32_t)random_below(random, sim->options.n_routers),
        .probe = probe,
        .n_prompt = (uint32_t)draw_between(random, 1, draw_chance(random, 30) ? SIM_PROMPT : 40),
        .max_new = (uint32_t)draw_between(random, 1, draw_chance(random, 20) ? SIM_NEW : 24),
        .priority = (uint32_t)random_below(random, 3),
        .salt = draw_chance(random, 70) ? 0 : (uint32_t)draw_between(random, 1, 2),
        .temperature = draw_chance(random, 30) ? 1 : 0,
    };
    write_prompt(sim, &model);
    uint32_t n = draw_chance(random, 15) ? (uint32_t)draw_between(random, 2, 4) : 1;
    const struct node *node = &sim->nodes[model.router];
    bool over = sim->limits.n_clients > 0 && sim->n_clients >= sim->limits.n_clients && !probe;
    if (!node->up || node->paused_until_ns > sim->now_ns || over)
        return;
    if (n > 1)
        sim_saw(sim, SIGHT_CHOICES);
    for (uint32_t choice = 0; choice < n && node->up; choice++)
        begin_choice(sim, &model, choice);
}

void client_router_died(struct sim *sim, uint32_t node) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (client->used && client->router == node) {
            client->used = false;
            sim->counts.lost_with_router++;
            sim_saw(sim, SIGHT_ROUTER_LOST);
        }
    }
}
