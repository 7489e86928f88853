/* The run of one seed: safety while things break, then everything heals and must end, then new
 * requests must be served, then everything must be zero. */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HEALED_NS   (40 * NS_PER_S) /* while requests are left, some token comes in this time */
#define PROBES      12
#define PROBE_NS    (30 * NS_PER_S)
#define QUIET_NS    (12 * NS_PER_S) /* longer than every lease */
#define JUDGE_EVERY 16              /* events: how often a touched node's ledgers are walked */

void sim_at(struct sim *sim, uint64_t at_ns, struct event event) {
    event.at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns;
    event.serial = ++sim->serial;
    heap_push(&sim->heap, &event);
}

bool sim_chance(struct sim *sim, uint64_t percent) {
    return random_below(&sim->random, 100) < percent;
}

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high) {
    return low + random_below(&sim->random, high - low + 1);
}

/* A geometric choice among octaves: mostly short, now and then eight times the mean. */
uint64_t sim_about(struct sim *sim, uint64_t mean) {
    uint64_t scale = mean / 2 + 1;
    for (int i = 0; i < 4 && random_below(&sim->random, 2); i++)
        scale *= 2;
    return random_below(&sim->random, scale);
}

void sim_fail(struct sim *sim, const char *format, ...) {
    if (sim->failure[0])
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, list);
    va_end(list);
}

void sim_trace(struct sim *sim, const char *format, ...) {
    uint64_t n = sim->n_trace++;
    if (!sim->verbose)
        return;
    va_list list;
    va_start(list, format);
    char *text = sim->trace[n % SIM_TRACE].text;
    vsnprintf(text, sizeof sim->trace[0].text, format, list);
    va_end(list);
    sim->trace[n % SIM_TRACE].at_ns = sim->now_ns;
    sim->trace[n % SIM_TRACE].n = sim->counts.events;
    if (sim->until == 0)
        return;
    printf("%12.6f %8llu  %s\n", (double)sim->now_ns / 1e9, (unsigned long long)sim->counts.events,
           text);
}

void sim_saw(struct sim *sim, const char *what) {
    struct sights *sights = &sim->sights;
    for (uint32_t i = 0; i < sights->n; i++) {
        if (sights->all[i].what == what) {
            sights->all[i].times++;
            return;
        }
    }
    if (sights->n < 64) {
        sights->all[sights->n].what = what;
        sights->all[sights->n++].times = 1;
    }
}

static bool reaches(const struct sim *sim, uint32_t from, uint32_t to) {
    return sim->blocked_until_ns[from][to] <= sim->now_ns;
}

static void speak(struct sim *sim, const struct event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || node->epoch != event->c)
        return;
    for (uint32_t r = 0; r < sim->options.n_routers; r++) {
        if (reaches(sim, event->node, r))
            sim_at(
                sim, sim->now_ns + sim->options.delay_ns + sim_about(sim, sim->options.delay_ns),
                (struct event){
                    .type = EVENT_ANNOUNCE, .node = r, .a = event->node, .c = node->incarnation});
    }
    sim_at(sim, sim->now_ns + NS_PER_S, *event);
}

static void announce(struct sim *sim, const struct event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up)
        return;
    struct announce announce = {.incarnation = event->c};
    snprintf(announce.name, sizeof announce.name, "worker%u", event->a - SIM_ROUTERS);
    snprintf(announce.endpoint, sizeof announce.endpoint, "%u", event->a);
    router_announce(node->router, sim->now_ns, &announce);
}

static void tick(struct sim *sim, const struct event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || node->epoch != event->c || node->tick_ns > sim->now_ns)
        return;
    node->tick_ns = UINT64_MAX;
    if (node->router) {
        router_tick(node->router, sim->now_ns);
        return;
    }
    if (!node->in_step || sim->options.messages_in_step) {
        engine_turn(node->engine);
        engine_tick(node->engine, sim->now_ns);
    }
}

static void client_comes(struct sim *sim) {
    if (sim->phase != RUN_SAFETY)
        return;
    client_arrive(sim, false);
    sim_at(sim, sim->now_ns + 1 + sim_about(sim, sim->options.client_ns),
           (struct event){.type = EVENT_CLIENT, .node = SIM_NO_NODE});
}

static void cancel(struct sim *sim, const struct event *event) {
    struct client *client = &sim->clients[event->a];
    if (client->used && client->serial == event->c)
        client->cancel_due = sim->due = true;
}

static void enter(struct sim *sim, enum phase_of_run phase) {
    sim->phase = phase;
    sim->phase_ns = sim->now_ns;
    sim_trace(sim, "phase %d", (int)phase);
}

static void next_phase(struct sim *sim) {
    uint64_t spent = sim->now_ns - sim->phase_ns;
    switch (sim->phase) {
    case RUN_SAFETY:
        return;
    case RUN_HEALED:
        if (client_alive(sim) == 0 && spent > 8 * NS_PER_S) {
            enter(sim, RUN_PROBE);
            for (uint32_t i = 0; i < PROBES; i++)
                client_arrive(sim, true);
        } else if (sim->counts.tokens != sim->tokens_seen) {
            sim->tokens_seen = sim->counts.tokens;
            sim->moved_ns = sim->now_ns;
        } else if (sim->now_ns - sim->moved_ns > HEALED_NS && spent > HEALED_NS) {
            sim_fail(sim, "%u requests did not end after everything was healed", client_alive(sim));
        }
        break;
    case RUN_PROBE:
        if (client_alive(sim) == 0)
            enter(sim, RUN_QUIET);
        else if (spent > PROBE_NS)
            sim_fail(sim, "%u new requests were not served by a healthy cluster",
                     client_alive(sim));
        break;
    case RUN_QUIET:
        if (spent > QUIET_NS) {
            judge_quiet(sim);
            enter(sim, RUN_OVER);
        }
        break;
    case RUN_OVER:
        return;
    }
    sim_at(sim, sim->now_ns + 250 * NS_PER_MS,
           (struct event){.type = EVENT_PHASE, .node = SIM_NO_NODE});
}

static void restart(struct sim *sim, uint32_t i) {
    if (sim->nodes[i].up)
        return;
    sim_trace(sim, "node %u starts", i);
    if (i < SIM_ROUTERS)
        front_start(sim, i);
    else
        back_start(sim, i);
}

static void dispatch(struct sim *sim, const struct event *event) {
    switch (event->type) {
    case EVENT_PACKET:
        net_packet(sim, event);
        return;
    case EVENT_BROKEN:
        net_broken(sim, event);
        return;
    case EVENT_KV_READY:
        back_kv_ready(sim, event);
        return;
    case EVENT_ANNOUNCE:
        announce(sim, event);
        return;
    case EVENT_SPEAK:
        speak(sim, event);
        return;
    case EVENT_TICK:
        tick(sim, event);
        return;
    case EVENT_LAYERS:
        back_layers(sim, event);
        return;
    case EVENT_CLIENT:
        client_comes(sim);
        return;
    case EVENT_CANCEL:
        cancel(sim, event);
        return;
    case EVENT_FAULT:
        if (sim->phase == RUN_SAFETY)
            fault_strike(sim);
        return;
    case EVENT_RESTART:
        restart(sim, event->a);
        return;
    case EVENT_RESUME:
        fault_resume(sim, event);
        return;
    case EVENT_PHASE:
        next_phase(sim);
        return;
    default:
        return;
    }
}

static void run_event(struct sim *sim) {
    struct event event = heap_pop(&sim->heap);
    sim->now_ns = event.at_ns;
    sim->counts.events++;
    sim->counts.timers += event.type == EVENT_TICK;
    if (event.node != SIM_NO_NODE && sim->nodes[event.node].paused_until_ns > sim->now_ns) {
        sim_at(sim, sim->nodes[event.node].paused_until_ns, event);
        return;
    }
    sim->trace_hash =
        mix64(sim->trace_hash ^ event.at_ns ^ (uint64_t)event.type << 56 ^ event.node ^ event.a);
    dispatch(sim, &event);
    if (event.node == SIM_NO_NODE)
        return;
    if (event.node < SIM_ROUTERS)
        front_after(sim, event.node);
    else
        back_after(sim, event.node);
    if (sim->counts.events % JUDGE_EVERY == 0)
        judge_node(sim, event.node);
}

static void begin(struct sim *sim, uint64_t seed) {
    sim->seed = seed;
    sim->random.state = mix64(seed);
    sim->now_ns = NS_PER_S;
    sim->conns = calloc(SIM_CONNS, sizeof *sim->conns);
    sim->clients = calloc(SIM_CLIENTS, sizeof *sim->clients);
    if (!sim->conns || !sim->clients || codec_init(&sim->codec) != STATUS_OK ||
        codec_init(&sim->reader) != STATUS_OK)
        abort();
    fault_options(sim);
    for (uint32_t i = 0; i < sim->options.n_routers; i++)
        front_start(sim, i);
    for (uint32_t i = 0; i < sim->options.n_workers; i++)
        back_start(sim, SIM_ROUTERS + i);
    sim_at(sim, 2 * NS_PER_S, (struct event){.type = EVENT_CLIENT, .node = SIM_NO_NODE});
    if (sim->options.fault_ns > 0)
        sim_at(sim, 3 * NS_PER_S, (struct event){.type = EVENT_FAULT, .node = SIM_NO_NODE});
}

void sim_fini(struct sim *sim) {
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        router_free(sim->nodes[i].router);
        engine_free(sim->nodes[i].engine);
        free(sim->nodes[i].kv);
    }
    for (uint32_t i = 0; sim->conns && i < SIM_CONNS; i++) {
        for (uint32_t d = 0; d < 2; d++) {
            while (sim->conns[i].head[d]) {
                struct packet *packet = sim->conns[i].head[d];
                sim->conns[i].head[d] = packet->next;
                free(packet);
            }
        }
    }
    free(sim->conns);
    free(sim->clients);
    heap_fini(&sim->heap);
    codec_fini(&sim->codec);
    codec_fini(&sim->reader);
}

bool sim_run(struct sim *sim, uint64_t seed, uint64_t n_events, uint64_t until, bool verbose) {
    struct sights sights = sim->sights; /* of all seeds together */
    memset(sim, 0, sizeof *sim);
    sim->sights = sights;
    sim->verbose = verbose;
    sim->until = until;
    begin(sim, seed);
    while (!sim->failure[0] && sim->phase != RUN_OVER) {
        if (until != 0 && sim->counts.events >= until)
            return true;
        if (sim->phase == RUN_SAFETY && sim->counts.events - sim->counts.timers >= n_events) {
            enter(sim, RUN_HEALED);
            fault_heal(sim);
            sim_at(sim, sim->now_ns, (struct event){.type = EVENT_PHASE, .node = SIM_NO_NODE});
        }
        run_event(sim);
    }
    return !sim->failure[0];
}
