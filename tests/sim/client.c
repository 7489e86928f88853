/* Clients: what they ask, what they must get, and how they leave. */
#include "tests/sim/sim.h"

#include "worker/core/block_hash.h"

#include <string.h>

void oracle_push(struct oracle *oracle, uint32_t token) {
    oracle->entry = mix64(oracle->entry ^ (token + 1));
    oracle->fold = mix64(oracle->fold ^ oracle->entry);
    oracle->n++;
}

uint32_t oracle_next(const struct oracle *oracle) {
    return 256 + (uint32_t)(oracle->fold % 65280);
}

float oracle_logprob(uint32_t token) {
    return -(float)(token % 97) / 8;
}

uint32_t client_alive(const struct sim *sim) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        n += sim->clients[i].used;
    return n;
}

/* A prompt: often the front of one of a few that many share, then its own ids. */
static void write_prompt(struct sim *sim, struct client *client) {
    uint64_t base = random_below(&sim->random, 4);
    uint32_t n_shared = (uint32_t)random_below(&sim->random, client->n_prompt + 1);
    for (uint32_t i = 0; i < client->n_prompt; i++) {
        uint64_t value = i < n_shared ? mix64(base * 1000 + i) : random_next(&sim->random);
        client->tokens[i] = (uint32_t)(value % 65536);
    }
    struct map_key key = BLOCK_HASH_START;
    for (uint32_t b = 0; b < client->n_prompt / SIM_TOKENS; b++) {
        key = block_hash(7, 0, key, client->tokens + b * SIM_TOKENS);
        client->hashes[b] = key;
    }
}

static void foretell(struct client *client) {
    struct oracle oracle = {0};
    for (uint32_t i = 0; i < client->n_prompt; i++)
        oracle_push(&oracle, client->tokens[i]);
    for (uint32_t i = 0; i < client->max_new; i++) {
        client->expected[i] = oracle_next(&oracle);
        oracle_push(&oracle, client->expected[i]);
    }
}

static void make_plans(struct sim *sim, struct client *client, bool probe) {
    client->stop_at = client->match_at = client->cancel_at = UINT32_MAX;
    if (probe)
        return;
    const struct options *options = &sim->options;
    client->want_logprobs = sim_chance(sim, 20);
    if (sim_chance(sim, options->stop_percent)) {
        uint32_t at = (uint32_t)random_below(&sim->random, client->max_new);
        client->stop_id = client->expected[at];
        client->stop_at = 0;
        while (client->expected[client->stop_at] != client->stop_id)
            client->stop_at++;
    }
    if (sim_chance(sim, options->stop_percent))
        client->match_at = (uint32_t)sim_between(sim, 1, client->max_new);
    if (sim_chance(sim, options->cancel_percent))
        client->cancel_at = (uint32_t)random_below(&sim->random, client->max_new);
    if (sim_chance(sim, options->deadline_percent))
        client->deadline_ns = sim->now_ns + sim_between(sim, 20, 6000) * NS_PER_MS;
}

static struct client *take_client(struct sim *sim) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        if (!sim->clients[i].used) {
            sim->clients[i] = (struct client){.used = true, .serial = ++sim->n_clients};
            return &sim->clients[i];
        }
    }
    return NULL;
}

static bool fits_somewhere(const struct sim *sim, uint32_t n_prompt) {
    for (uint32_t w = 0; w < sim->options.n_workers; w++) {
        if (w != sim->options.other_model && n_prompt < sim->options.n_blocks[w] * SIM_TOKENS)
            return true;
    }
    return false;
}

void client_arrive(struct sim *sim, bool probe) {
    uint32_t router = (uint32_t)random_below(&sim->random, sim->options.n_routers);
    struct node *node = &sim->nodes[router];
    if (!node->up || node->paused_until_ns > sim->now_ns)
        return;
    struct client *client = take_client(sim);
    if (!client)
        return;
    client->router = router;
    client->born_ns = sim->now_ns;
    client->n_prompt = (uint32_t)sim_between(sim, 1, sim_chance(sim, 30) ? SIM_PROMPT : 40);
    client->max_new = (uint32_t)sim_between(sim, 1, sim_chance(sim, 20) ? SIM_NEW : 24);
    write_prompt(sim, client);
    foretell(client);
    make_plans(sim, client, probe);
    struct request_spec spec = {
        .user = (uint64_t)(client - sim->clients) | client->serial << 16,
        .tokens = client->tokens,
        .n_prompt = client->n_prompt,
        .capacity = SIM_PROMPT + SIM_NEW,
        .hashes = client->hashes,
        .n_hashes = client->n_prompt / SIM_TOKENS,
        .priority = (uint32_t)random_below(&sim->random, 3),
        .deadline_ns = client->deadline_ns,
        .sampling = {.max_new = client->max_new, .repetition = 1, .top_p = 1},
    };
    spec.sampling.want_logprobs = client->want_logprobs;
    if (client->stop_at != UINT32_MAX) {
        spec.sampling.n_stop_ids = 1;
        spec.sampling.stop_ids = &client->stop_id;
    }
    sim->counts.asked++;
    client->running = true;
    enum status status = router_request(node->router, sim->now_ns, &spec, &client->request);
    sim_trace(sim, "client %llu at router %u: prompt %u, max_new %u: %s",
              (unsigned long long)client->serial, router, client->n_prompt, client->max_new,
              status_name(status));
    if (status != STATUS_OK) {
        sim->counts.turned_away++;
        sim->counts.turned_closed += status == STATUS_CLOSED;
        client->used = false;
        bool may_be =
            status == STATUS_BUSY || status == STATUS_CLOSED || (status == STATUS_LIMIT && !probe);
        if (!may_be || (probe && fits_somewhere(sim, client->n_prompt) && status != STATUS_BUSY))
            sim_fail(sim, "a good request was turned away: %s", status_name(status));
        return;
    }
    if (client->used && client->cancel_at == 0)
        sim_at(sim, sim->now_ns + sim_about(sim, 20 * NS_PER_MS),
               (struct event){.type = EVENT_CANCEL,
                              .node = router,
                              .a = (uint32_t)(client - sim->clients),
                              .c = client->serial});
    front_after(sim, router);
}

static struct client *find_client(struct sim *sim, uint64_t user) {
    struct client *client = &sim->clients[user & 0xffff];
    if ((user & 0xffff) >= SIM_CLIENTS || !client->used || client->serial != user >> 16)
        return NULL;
    return client;
}

void client_tokens(struct sim *sim, uint64_t user, const struct token_run *run) {
    struct client *client = find_client(sim, user);
    if (!client) {
        sim_fail(sim, "tokens after the end of a stream");
        return;
    }
    if (run->first_index != client->n_got || run->n_tokens == 0) {
        sim_fail(sim, "client %llu has %u tokens, yet index %u comes",
                 (unsigned long long)client->serial, client->n_got, run->first_index);
        return;
    }
    for (uint32_t i = 0; i < run->n_tokens; i++) {
        if (client->n_got >= client->max_new || run->tokens[i] != client->expected[client->n_got]) {
            sim_fail(sim, "client %llu: token %u is %u, not %u", (unsigned long long)client->serial,
                     client->n_got, run->tokens[i],
                     client->n_got < client->max_new ? client->expected[client->n_got] : 0);
            return;
        }
        if (client->want_logprobs &&
            (!run->logprobs || run->logprobs[i].logprob != oracle_logprob(run->tokens[i]))) {
            sim_fail(sim, "client %llu: token %u has not its own logprob",
                     (unsigned long long)client->serial, client->n_got);
            return;
        }
        if (client->stop_at < client->n_got) {
            sim_fail(sim, "a token after the stop id");
            return;
        }
        client->n_got++;
        sim->counts.tokens++;
    }
    sim->trace_hash = mix64(sim->trace_hash ^ client->serial ^ client->n_got);
    if (client->n_got >= client->match_at)
        client->stop_due = sim->due = true;
    if (client->cancel_at != 0 && client->n_got >= client->cancel_at)
        client->cancel_due = sim->due = true;
}

/* Could some worker's context be full after so many tokens? */
static bool context_full(const struct sim *sim, const struct client *client) {
    uint32_t n = client->n_prompt + client->n_got;
    for (uint32_t w = 0; w < sim->options.n_workers; w++) {
        if (n == sim->options.n_blocks[w] * SIM_TOKENS)
            return true;
    }
    return n == SIM_PROMPT + SIM_NEW + 1;
}

static void check_done(struct sim *sim, const struct client *client,
                       const struct request_end *end) {
    bool right = false;
    if (end->finish == FINISH_LENGTH)
        right = client->n_got == client->max_new || context_full(sim, client);
    else if (end->finish == FINISH_STOP)
        right = client->n_got == client->stop_at + 1 ||
                (client->stop_due && end->n_emitted == client->match_at);
    if (!right || (!client->stop_due && end->n_emitted != client->n_got))
        sim_fail(sim, "client %llu: wrong end %d after %u of %u tokens",
                 (unsigned long long)client->serial, (int)end->finish, client->n_got,
                 client->max_new);
}

static void check_error(struct sim *sim, const struct client *client,
                        const struct request_end *end) {
    bool late = client->deadline_ns != 0 && sim->now_ns >= client->deadline_ns;
    bool right = end->status == STATUS_TIMEOUT ? late
                 : end->status == STATUS_LIMIT
                     ? end->reason == REASON_TOO_LONG
                     : end->status == STATUS_CLOSED || end->status == STATUS_IO;
    if (sim->phase >= RUN_PROBE && (end->status != STATUS_LIMIT))
        right = false;
    if ((end->kind == END_REFUSED) != (client->n_got == 0) && end->status != STATUS_TIMEOUT)
        right = false;
    if (!right)
        sim_fail(sim, "client %llu: %s with %s after %u tokens", (unsigned long long)client->serial,
                 end->kind == END_REFUSED ? "refused" : "failed", status_name(end->status),
                 client->n_got);
}

void client_end(struct sim *sim, uint64_t user, const struct request_end *end) {
    struct client *client = find_client(sim, user);
    if (!client) {
        sim_fail(sim, "a request ended twice");
        return;
    }
    sim_trace(sim, "client %llu ends: kind %d, %u tokens, %u replays, status %s",
              (unsigned long long)client->serial, (int)end->kind, client->n_got, end->n_replays,
              status_name(end->status));
    switch (end->kind) {
    case END_DONE:
        sim->counts.done++;
        check_done(sim, client, end);
        if (sim->phase == RUN_PROBE)
            sim->n_probe_ok++;
        break;
    case END_CANCELLED:
        sim->counts.cancelled++;
        if (!client->cancel_due)
            sim_fail(sim, "cancelled by nobody");
        break;
    case END_REFUSED:
        sim->counts.refused++;
        check_error(sim, client, end);
        break;
    case END_FAILED:
        sim->counts.failed++;
        check_error(sim, client, end);
        break;
    }
    client->ended = true;
    client->used = false;
}

void client_router_died(struct sim *sim, uint32_t node) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (client->used && client->router == node) {
            client->used = false;
            sim->counts.lost_with_router++;
        }
    }
}
