/* What clients get: each token once, in order, and the one that the model gives. */
#include "tests/sim/sim.h"

#include "tests/sim/judge.h"

static struct client *find_client(struct sim *sim, uint64_t user) {
    struct client *client = &sim->clients[user & 0xffff];
    if ((user & 0xffff) >= SIM_CLIENTS || !client->used || client->serial != user >> 16)
        return NULL;
    return client;
}

/* Who sampled the token that is next: of a hand-off's first, the worker that prefilled. */
static uint32_t sampler(const struct client *client) {
    bool first = client->n_got == client->attempt.begin;
    return first && client->attempt.prefill != SIM_NO_NODE ? client->attempt.prefill
                                                           : client->attempt.decode;
}

static void take_token(struct sim *sim, struct client *client, const struct token_run *run,
                       uint32_t i) {
    struct sampling sampling = {.temperature = client->temperature,
                                .seed = client->seed,
                                .choice = client->choice,
                                .n_stop_ids = client->stops ? 1 : 0,
                                .stop_ids = &client->stop_id};
    uint32_t numerics = sim->options.numerics[sampler(client) - SIM_ROUTERS];
    bool banned = client->n_got < client->min_new;
    uint32_t expected = oracle_choose(client->oracle.fold, numerics, &sampling, client->n_got,
                                      banned, client->has_form ? &client->form : NULL);
    if (client->n_got >= client->max_new || run->tokens[i] != expected) {
        sim_fail(sim, "client %llu: token %u is %u, not %u", (unsigned long long)client->serial,
                 client->n_got, run->tokens[i], expected);
        return;
    }
    if (client->want_logprobs &&
        (!run->logprobs || run->logprobs[i].logprob != oracle_logprob(run->tokens[i]))) {
        sim_fail(sim, "client %llu: token %u has not its own logprob",
                 (unsigned long long)client->serial, client->n_got);
        return;
    }
    if (client->stopped) {
        sim_fail(sim, "client %llu: a token after the stop id", (unsigned long long)client->serial);
        return;
    }
    if (client->want_logprobs)
        sim_saw(sim, SIGHT_LOGPROBS);
    client->stopped = client->stops && !banned && run->tokens[i] == client->stop_id;
    oracle_push(&client->oracle, run->tokens[i]);
    form_push(&client->form, run->tokens[i]);
    client->n_got++;
    sim->counts.tokens++;
}

void answer_tokens(struct sim *sim, uint32_t router, uint64_t user, const struct token_run *run) {
    struct client *client = find_client(sim, user);
    if (!client || client->router != router) {
        sim_fail(sim, "tokens after the end of a stream");
        return;
    }
    if (run->first_index != client->n_got || run->n_tokens == 0 || !client->attempt.submitted) {
        sim_fail(sim, "client %llu has %u tokens, yet index %u comes",
                 (unsigned long long)client->serial, client->n_got, run->first_index);
        return;
    }
    time_tokens(sim, client);
    for (uint32_t i = 0; i < run->n_tokens && !sim->failure[0]; i++)
        take_token(sim, client, run, i);
    judge_tokens(sim, client, run);
    client->losses.n = 0;
    client->still_ns = sim->now_ns;
    client->attempt.token = client->attempt.number;
    if (sim->speaker != client->attempt.decode && sim->speaker != client->attempt.prefill) {
        sim_fail(sim, "client %llu: tokens from worker %u, which has no part in attempt %u",
                 (unsigned long long)client->serial, sim->speaker, client->attempt.number);
        return;
    }
    client->numerics = sim->options.numerics[sim->speaker - SIM_ROUTERS];
    sim->trace_hash = mix64(sim->trace_hash ^ client->serial ^ client->n_got);
    client->stop_due |= client->n_got >= client->match_at;
    client->cancel_due |= client->cancel_at != 0 && client->n_got >= client->cancel_at;
    if (client->stop_due || client->cancel_due)
        sim->due |= 1u << client->router;
}

bool answer_fills_context(const struct sim *sim, const struct client *client) {
    uint32_t n = client->n_prompt + client->n_got, prefill = client->attempt.prefill;
    return n == sim->nodes[client->attempt.decode].context ||
           (prefill != SIM_NO_NODE && n == sim->nodes[prefill].context);
}

static void check_done(struct sim *sim, const struct client *client,
                       const struct request_end *end) {
    bool right = false;
    if (end->finish == FINISH_LENGTH) {
        bool full = client->outgrew || answer_fills_context(sim, client);
        right = !client->stopped && (client->n_got == client->max_new || full);
        if (full && client->n_got < client->max_new)
            sim_saw(sim, SIGHT_CONTEXT_FULL);
    } else if (end->finish == FINISH_STOP) {
        right = client->stopped || (client->stop_due && end->n_emitted == client->match_at);
        sim_saw(sim, client->stopped ? SIGHT_STOP_ID : SIGHT_STOP_MATCH);
    }
    if (!right || (!client->stop_due && end->n_emitted != client->n_got))
        sim_fail(sim, "client %llu: wrong end %d after %u of %u tokens",
                 (unsigned long long)client->serial, (int)end->finish, client->n_got,
                 client->max_new);
}

static void count_end(struct sim *sim, const struct client *client, const struct request_end *end) {
    switch (end->kind) {
    case END_DONE:
        sim->counts.done++;
        check_done(sim, client, end);
        sim->n_probe_ok += sim->phase == RUN_PROBE;
        return;
    case END_CANCELLED:
        sim->counts.cancelled++;
        sim_saw(sim, client->n_got > 0 ? SIGHT_CANCEL : SIGHT_CANCEL_EARLY);
        if (!client->cancel_due)
            sim_fail(sim, "cancelled by nobody");
        return;
    case END_REFUSED:
        sim->counts.refused++;
        judge_error(sim, client, end);
        return;
    case END_FAILED:
        sim->counts.failed++;
        judge_error(sim, client, end);
        return;
    }
}

void answer_end(struct sim *sim, uint32_t router, uint64_t user, const struct request_end *end) {
    struct client *client = find_client(sim, user);
    if (!client || client->router != router) {
        sim_fail(sim, "a request ended twice");
        return;
    }
    sim_trace(sim, "client %llu ends: kind %d, %u tokens, %u replays, status %s",
              (unsigned long long)client->serial, (int)end->kind, client->n_got, end->n_replays,
              status_name(end->status));
    if (end->cached_tokens > 0 && client->salt > 0)
        sim_saw(sim, SIGHT_SALTED);
    count_end(sim, client, end);
    calm_ended(sim, router);
    judge_in_time(sim, client);
    client->ended = true;
    client->used = false;
}
