/* The run of one seed: safety while things break, then everything heals and must end, then new
 * requests must be served, then everything must be zero. */
#include "tests/sim/sim.h"

#include "tests/sim/form.h"
#include "tests/sim/judge.h"
#include "tests/sim/late.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_NS     (3600 * NS_PER_S) /* a machine is seldom younger; times near zero hide faults */
#define HEALED_NS    (40 * NS_PER_S)   /* while requests are left, some token comes in this time */
#define PROBES       12
#define PROBE_NS     (30 * NS_PER_S)
#define QUIET_NS     (12 * NS_PER_S) /* longer than every lease */
#define JUDGE_EVERY  16              /* events: how often a touched node's ledgers are walked */
#define STILL_EVENTS 1000000

void sim_at(struct sim *sim, uint64_t at_ns, struct cell_event event) {
    event.at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns;
    event.serial = ++sim->serial;
    heap_push(&sim->heap, &event);
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

void sim_saw(struct sim *sim, enum sight sight) {
    sim->sights->times[sight]++;
}

uint64_t sim_clock(const struct sim *sim, uint32_t node) {
    const struct sim_clock *clock = &sim->nodes[node].clock;
    int64_t gained_ns = (int64_t)((__int128)sim->now_ns * clock->ppm / 1000000);
    return clock->offset_ns + sim->now_ns + (uint64_t)gained_ns;
}

uint64_t sim_true_ns(const struct sim *sim, uint32_t node, uint64_t local_ns) {
    const struct sim_clock *clock = &sim->nodes[node].clock;
    if (local_ns <= clock->offset_ns)
        return 0;
    __int128 elapsed = (__int128)(local_ns - clock->offset_ns) * 1000000;
    /* Rounded up, and one more for sim_clock()'s own rounding: a timer may be late, never early. */
    __int128 at = elapsed / (1000000 + clock->ppm) + 2;
    return at > (__int128)UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)at;
}

void sim_trouble(struct sim *sim, uint32_t a, uint32_t b, uint64_t until_ns) {
    if (sim->trouble_ns[a][b] < until_ns)
        sim->trouble_ns[a][b] = sim->trouble_ns[b][a] = until_ns;
}

uint64_t sim_trouble_ns(const struct sim *sim, uint32_t router, uint32_t worker) {
    uint64_t between = sim->trouble_ns[router][worker];
    uint64_t own = sim->trouble_ns[router][router], other = sim->trouble_ns[worker][worker];
    uint64_t last = own > other ? own : other;
    return between > last ? between : last;
}

static bool reaches(const struct sim *sim, uint32_t from, uint32_t to) {
    return sim->blocked_until_ns[from][to] <= sim->now_ns;
}

static void speak(struct sim *sim, const struct cell_event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || node->epoch != event->c)
        return;
    for (uint32_t r = 0; r < sim->options.n_routers; r++) {
        if (reaches(sim, event->node, r))
            sim_at(
                sim,
                sim->now_ns + sim->options.delay_ns +
                    draw_about(&sim->draws.net, sim->options.delay_ns),
                (struct cell_event){
                    .type = EVENT_ANNOUNCE, .node = r, .a = event->node, .c = node->incarnation});
    }
    sim_at(sim, sim->now_ns + NS_PER_S, *event);
}

static void announce(struct sim *sim, const struct cell_event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up)
        return;
    struct announce announce = {.incarnation = event->c};
    snprintf(announce.name, sizeof announce.name, "worker%u", event->a - SIM_ROUTERS);
    snprintf(announce.endpoint, sizeof announce.endpoint, "%u", event->a);
    router_announce(node->router, sim_clock(sim, event->node), &announce);
}

static void tick(struct sim *sim, const struct cell_event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || node->epoch != event->c || node->tick_ns > sim->now_ns)
        return;
    node->tick_ns = UINT64_MAX;
    if (node->router)
        front_tick(sim, event->node);
    else
        back_tick(sim, event->node);
}

static void client_comes(struct sim *sim) {
    if (sim->phase != RUN_SAFETY)
        return;
    client_arrive(sim, false);
    sim_at(sim, sim->now_ns + 1 + draw_about(&sim->draws.clients, sim->options.client_ns),
           (struct cell_event){.type = EVENT_CLIENT, .node = SIM_NO_NODE});
}

static void cancel(struct sim *sim, const struct cell_event *event) {
    struct client *client = &sim->clients[event->a];
    if (!client->used || client->serial != event->c)
        return;
    client->cancel_due = true;
    sim->due |= 1u << client->router;
}

static void enter(struct sim *sim, enum phase_of_run phase) {
    sim->phase = phase;
    sim->phase_ns = sim->now_ns;
    sim_trace(sim, "phase %d", (int)phase);
}

/* A step that began while its worker had little of a CPU may last a minute: until its end the worker is not well. */
static bool is_in_long_step(const struct sim *sim) {
    for (uint32_t i = SIM_ROUTERS; i < SIM_NODES; i++)
        if (sim->nodes[i].up && sim->nodes[i].long_until_ns > sim->now_ns)
            return true;
    return false;
}

static void next_phase(struct sim *sim) {
    uint64_t spent = sim->now_ns - sim->phase_ns;
    switch (sim->phase) {
    case RUN_SAFETY:
        return;
    case RUN_HEALED:
        if (is_in_long_step(sim)) {
            sim->phase_ns = sim->now_ns;
        } else if (client_alive(sim) == 0 && spent > 8 * NS_PER_S) {
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
           (struct cell_event){.type = EVENT_PHASE, .node = SIM_NO_NODE});
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

static void dispatch(struct sim *sim, const struct cell_event *event) {
    if (event->type < CELL_TYPES) {
        net_event(&sim->net, event);
        return;
    }
    switch (event->type) {
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
        device_layers(sim, event);
        return;
    case EVENT_RESULTS:
        device_results(sim, event);
        return;
    case EVENT_FORM:
        form_due(sim, event);
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

/* Time that stands still is a core that asks for the same moment again and again. */
static void judge_time(struct sim *sim, uint64_t at_ns) {
    if (at_ns != sim->still_ns) {
        sim->still_ns = at_ns;
        sim->n_still = 0;
    } else if (++sim->n_still > STILL_EVENTS) {
        sim_fail(sim, "time stands still");
    }
}

static void run_event(struct sim *sim) {
    struct cell_event event = heap_pop(&sim->heap);
    judge_time(sim, event.at_ns);
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

static void seed_draws(struct sim *sim) {
    struct random seed = {.state = mix64(sim->seed)};
    sim->draws = (struct draws){.options = {random_next(&seed)},
                                .faults = {random_next(&seed)},
                                .clients = {random_next(&seed)},
                                .net = {random_next(&seed)},
                                .nodes = {random_next(&seed)},
                                .late = {mix64(sim->seed ^ LATE_SALT)}};
}

static void begin(struct sim *sim) {
    seed_draws(sim);
    sim->now_ns = BEGIN_NS;
    sim->speaker = SIM_NO_NODE;
    sim->clients = calloc(SIM_CLIENTS, sizeof *sim->clients);
    if (!sim->clients || codec_init(&sim->reader) != STATUS_OK)
        abort();
    options_draw(sim);
    wire_init(sim);
    calm_begin(sim);
    for (uint32_t i = 0; i < sim->options.n_routers; i++)
        front_start(sim, i);
    for (uint32_t i = 0; i < sim->options.n_workers; i++)
        back_start(sim, SIM_ROUTERS + i);
    sim_at(sim, BEGIN_NS + NS_PER_S,
           (struct cell_event){.type = EVENT_CLIENT, .node = SIM_NO_NODE});
    if (sim->options.fault_ns > 0)
        sim_at(sim, BEGIN_NS + 2 * NS_PER_S,
               (struct cell_event){.type = EVENT_FAULT, .node = SIM_NO_NODE});
}

void sim_fini(struct sim *sim) {
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        router_free(sim->nodes[i].router);
        engine_free(sim->nodes[i].engine);
        free(sim->nodes[i].kv);
    }
    wire_fini(sim);
    calm_fini(sim);
    free(sim->clients);
    heap_fini(&sim->heap);
    codec_fini(&sim->reader);
}

void sim_run(struct sim *sim, uint64_t seed, const struct limits *limits, uint64_t until,
             bool verbose) {
    struct sights *sights = sim->sights; /* of all seeds together */
    memset(sim, 0, sizeof *sim);
    sim->sights = sights;
    sim->seed = seed;
    sim->limits = *limits;
    sim->verbose = verbose;
    sim->until = until;
    begin(sim);
    while (!sim->failure[0] && sim->phase != RUN_OVER) {
        if (until != 0 && sim->counts.events >= until)
            return;
        if (sim->phase == RUN_SAFETY &&
            sim->counts.events - sim->counts.timers >= limits->n_events) {
            enter(sim, RUN_HEALED);
            fault_heal(sim);
            sim_at(sim, sim->now_ns, (struct cell_event){.type = EVENT_PHASE, .node = SIM_NO_NODE});
        }
        run_event(sim);
    }
}
