#include "tests/sim/sick.h"

#include "tests/sim/judge.h"

#include "base/assert.h"
#include "router/core/core.h"

#include <string.h>

#define WORKERS_MIN 3  /* two of them healthy */
#define FOUND_N     16 /* so many requests there, the first one so long ago: it must be known */
#define FOUND_NS    (15 * NS_PER_S)

static uint32_t sick_node(const struct sim *sim) {
    return SIM_ROUTERS + sim->options.n_workers - 1;
}

bool sick_is(const struct sim *sim, uint32_t node, enum sick kind) {
    return kind != SICK_NONE && sim->options.sick == kind && node == sick_node(sim) &&
           sim->phase == RUN_SAFETY;
}

static void draw_roles(struct options *options) {
    bool splits = options->sick == SICK_UNREACHABLE;
    for (uint32_t w = 0; w < options->n_workers; w++) {
        options->n_blocks[w] = options->n_blocks[0];
        options->roles[w] = !splits ? ROLE_MIXED : w % 2 ? ROLE_DECODE : ROLE_PREFILL;
    }
    if (splits)
        options->roles[options->n_workers - 1] = ROLE_DECODE;
}

void sick_draw(struct sim *sim) {
    struct options *options = &sim->options;
    struct random random = {.state = mix64(sim->seed ^ 0x5163)};
    if (options->fault_ns == 0 || !draw_chance(&random, SICK_PERCENT))
        return;
    if (sim->limits.n_workers > 0 && sim->limits.n_workers < WORKERS_MIN)
        return;
    options->sick = (enum sick)draw_between(&random, SICK_NONE + 1, SICK_KINDS - 1);
    options->sick_factor = draw_between(&random, 20, 200);
    if (options->n_workers < WORKERS_MIN)
        options->n_workers = WORKERS_MIN;
    draw_roles(options);
    memset(options->weights, 0, sizeof options->weights);
    options->loss = options->duplicate = options->reorder = options->garble = 0;
    sim_saw(sim, SIGHT_SICK_NUMERICS + options->sick - SICK_NUMERICS);
}

/* --- what it does wrong ------------------------------------------------------------------------ */

static void reply(struct sim *sim, uint32_t conn, uint64_t session, struct message message) {
    message.session = session;
    if (wire_send(sim, conn, 1, &message, sim->options.hwm) == STATUS_BUSY)
        sim_trace(sim, "the sick worker's answer has no room");
}

static void fails(struct sim *sim, uint32_t conn, uint64_t session, const struct submit *submit) {
    struct message message = {.type = MESSAGE_FAILED};
    message.u.failed = (struct failed){.req = submit->req,
                                       .attempt = submit->attempt,
                                       .phase = submit->phase,
                                       .reason = REASON_TRANSFER};
    reply(sim, conn, session, message);
}

static void refuses(struct sim *sim, uint32_t conn, uint64_t session, const struct submit *submit) {
    struct message message = {.type = MESSAGE_REFUSED};
    message.u.refused =
        (struct refused){.req = submit->req, .attempt = submit->attempt, .reason = REASON_INVALID};
    reply(sim, conn, session, message);
}

/* n tokens of this id. */
static void answers_wrong(struct sim *sim, uint32_t node, uint32_t conn, uint64_t session,
                          const struct submit *submit, uint32_t id, uint32_t n) {
    uint32_t tokens[SIM_NEW + 1];
    ASSERT(n <= SIM_NEW + 1);
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = id;
    struct step_entry entry = {.req = submit->req,
                               .attempt = submit->attempt,
                               .first_index = submit->n_tokens - submit->n_prompt,
                               .n_tokens = n,
                               .tokens = tokens};
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 1, .entries = &entry};
    engine_load(sim->nodes[node].engine, &message.u.step.load);
    reply(sim, conn, session, message);
}

bool sick_takes(struct sim *sim, uint32_t node, uint32_t conn, const struct message *message) {
    if (message->type != MESSAGE_SUBMIT || node != sick_node(sim) || sim->phase != RUN_SAFETY)
        return false;
    const struct submit *submit = &message->u.submit;
    switch (sim->options.sick) {
    case SICK_TRANSFER:
        fails(sim, conn, message->session, submit);
        return true;
    case SICK_IDS:
        answers_wrong(sim, node, conn, message->session, submit, 65536, 1);
        return true;
    case SICK_LENGTHS: /* also where others have given it a part */
        answers_wrong(sim, node, conn, message->session, submit, 1,
                      submit->n_prompt + submit->sampling.max_new - submit->n_tokens + 1);
        return true;
    case SICK_INVALID:
        refuses(sim, conn, message->session, submit);
        return true;
    case SICK_HUNG:
    case SICK_STUCK:
    case SICK_QUEUED:
    case SICK_STEPS:
    case SICK_ANNOUNCED:
        return true;
    default:
        return false;
    }
}

/* Whoever is there by the judges' books, as queued. */
static void list_queued(const struct sim *sim, uint32_t node, struct digest *digest) {
    static struct digest_entry entries[SIM_CLIENTS];
    digest->n = 0;
    digest->entries = entries;
    for (uint32_t i = 0; i < SIM_CLIENTS && digest->n < MESSAGE_ENTRIES_MAX; i++) {
        const struct client *client = &sim->clients[i];
        if (!client->used || !client->running || client->ended || !client->attempt.submitted ||
            client->attempt.decode != node)
            continue;
        entries[digest->n++] = (struct digest_entry){
            .req = {.hi = sim->nodes[client->router].incarnation, .lo = client->request},
            .attempt = client->attempt.number,
            .state = SEQUENCE_WAITING,
            .next_index = client->n_got};
    }
}

static struct load *load_of(struct message *message) {
    switch (message->type) {
    case MESSAGE_WELCOME:
        return &message->u.welcome.load;
    case MESSAGE_BEAT:
        return &message->u.beat.load;
    case MESSAGE_STEP:
        return &message->u.step.load;
    default:
        return NULL;
    }
}

void sick_says(const struct sim *sim, uint32_t node, struct message *message) {
    struct load *load = load_of(message);
    bool is_announced = sick_is(sim, node, SICK_ANNOUNCED);
    if (load && (is_announced || sick_is(sim, node, SICK_HUNG) || sick_is(sim, node, SICK_STEPS)))
        load->progress = 1;
    if (load && sick_is(sim, node, SICK_STEPS))
        load->step_us_expected = UINT32_MAX;
    if (load && is_announced)
        load->step_us_expected = MESSAGE_STEP_US_MAX - 100000;
    if (load && sick_is(sim, node, SICK_FIGURES))
        load->blocks_cached = load->blocks_total + 1;
    if (message->type == MESSAGE_DIGEST && sick_is(sim, node, SICK_QUEUED))
        list_queued(sim, node, &message->u.digest);
}

/* --- judges ------------------------------------------------------------------------------------ */

/* It was asked often, and long ago: it is put aside, or its pairs are avoided. */
static void judge_found(struct sim *sim, uint32_t i) {
    const struct node *node = &sim->nodes[i];
    struct router_stats stats;
    router_stats(node->router, &stats);
    if (stats.n_put_aside > 0)
        sim_saw(sim, SIGHT_PUT_ASIDE);
    if (stats.n_pairs_failed > 0)
        sim_saw(sim, SIGHT_PAIR_AVOIDED);
    if (sim->options.sick == SICK_SLOW) /* where all its steps are short it is only that */
        return;
    if (node->judged.n_sick >= FOUND_N && sim->now_ns - node->judged.sick_ns >= FOUND_NS &&
        stats.n_put_aside + stats.n_pairs_failed == 0)
        sim_fail(sim, "router %u does not know its sick worker after %u requests there", i,
                 node->judged.n_sick);
}

void sick_heal(struct sim *sim) {
    if (sim->options.sick == SICK_NONE)
        return;
    for (uint32_t i = 0; i < sim->options.n_routers; i++)
        if (sim->nodes[i].up)
            judge_found(sim, i);
    fault_crash(sim, sick_node(sim), NS_PER_S);
}

void sick_submitted(struct sim *sim, uint32_t router, uint32_t to, enum phase phase) {
    struct node *node = &sim->nodes[router];
    if (sim->options.sick == SICK_NONE || to != sick_node(sim) ||
        (sim->options.sick == SICK_UNREACHABLE && phase != PHASE_DECODE))
        return;
    if (node->judged.n_sick++ == 0)
        node->judged.sick_ns = sim->now_ns;
}

/* Who has work for a slow worker waits in its queue, and others are well for whole requests. */
static bool may_wait_there(enum sick kind) {
    return kind == SICK_NONE || kind == SICK_SLOW || kind == SICK_UNREACHABLE ||
           kind == SICK_FIGURES;
}

void sick_judge(struct sim *sim, uint32_t i) {
    const struct router *router = sim->nodes[i].router;
    if (may_wait_there(sim->options.sick) || sim->phase != RUN_SAFETY)
        return;
    for (uint32_t k = 0; k < SIM_CLIENTS; k++) {
        const struct client *client = &sim->clients[k];
        if (!client->used || !client->running || client->ended || client->router != i ||
            client->attempt.decode != sick_node(sim) ||
            sim->now_ns - client->still_ns <= SICK_STILL_NS)
            continue;
        const struct request *req = request_find(&router->requests, client->request);
        if (req && req->state == REQUEST_RUNNING)
            sim_fail(sim, "client %llu stands at the sick worker for %llu ms",
                     (unsigned long long)client->serial,
                     (unsigned long long)((sim->now_ns - client->still_ns) / NS_PER_MS));
    }
}
