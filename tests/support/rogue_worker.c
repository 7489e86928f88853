/* tests/support/rogue_worker.c: a worker of the model "hash" that fails in one way.
 *
 *     rogue_worker KIND NAME ANNOUNCE ENDPOINT
 *
 * ANNOUNCE is where its router listens, ENDPOINT where it listens itself. Prints "ready" when it
 * listens, and ends with SIGTERM. It speaks the protocol, so that only what its KIND says is wrong:
 *
 *   numerics     fails each request for unusable numbers
 *   transfer     fails each request for a broken transfer
 *   invalid      refuses each request as invalid
 *   hung         beats without progress, and answers nothing
 *   stuck        the same with progress
 *   queued       the same, and lists each request as queued, once a second
 *   slow         makes progress with its tokens alone: one in two seconds
 *   ids          answers at once with token ids beyond the vocabulary
 *   lengths      answers at once with more tokens than were asked for
 *   steps        the same as hung, and announces a step of more than an hour
 *   unreachable  a decode worker whose KV endpoint leads nowhere; whole requests are answered right */
#include "base/clock.h"
#include "base/error.h"
#include "model/model.h"
#include "proto/bus.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS        256
#define TOKENS      8192
#define BEAT_NS     (100 * NS_PER_MS)
#define ANNOUNCE_NS (1 * NS_PER_S)
#define DIGEST_NS   (1 * NS_PER_S)
#define TOKEN_NS    (2 * NS_PER_S)

enum kind {
    KIND_NUMERICS,
    KIND_TRANSFER,
    KIND_INVALID,
    KIND_HUNG,
    KIND_STUCK,
    KIND_QUEUED,
    KIND_SLOW,
    KIND_IDS,
    KIND_LENGTHS,
    KIND_STEPS,
    KIND_UNREACHABLE,
    KINDS
};

static const char *const names[KINDS] = {"numerics", "transfer", "invalid",    "hung",
                                         "stuck",    "queued",   "slow",       "ids",
                                         "lengths",  "steps",    "unreachable"};

/* A request that the slow one works on, or the queued one only lists. */
struct job {
    bool used;
    struct attempt_id attempt;
    uint64_t due_ns;
    uint32_t n_prompt, n_tokens, max_new;
    uint32_t tokens[TOKENS];
};

struct rogue {
    enum kind kind;
    struct bus *bus;
    const char *announce;
    uint32_t announce_link;
    uint32_t link; /* of the router, once it greeted */
    uint64_t session;
    uint32_t gen;
    uint64_t progress;
    uint64_t t_ns;     /* of the last PING */
    uint64_t seen_seq; /* of the last SUBMIT */
    struct welcome welcome;
    char endpoint[MESSAGE_ENDPOINT_MAX];
    struct job jobs[JOBS];
};

static volatile sig_atomic_t is_stopped;

static void on_signal(int signal) {
    (void)signal;
    is_stopped = 1;
}

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* The token that the model gives after these. */
static uint32_t next_token(const uint32_t *tokens, uint32_t n) {
    uint64_t entry = 0, fold = 0;
    for (uint32_t i = 0; i < n; i++) {
        entry = mix(entry ^ ((uint64_t)tokens[i] + 1));
        fold = mix(fold ^ entry);
    }
    return (uint32_t)(256 + fold % 65280);
}

static void say(struct rogue *rogue, struct message *message) {
    message->session = rogue->session;
    if (rogue->link != BUS_NO_LINK && bus_send(rogue->bus, rogue->link, message) != STATUS_OK)
        fprintf(stderr, "a message was not sent\n");
}

static struct load load_of(struct rogue *rogue, bool moves) {
    rogue->progress += moves;
    return (struct load){.progress = rogue->progress,
                         .step_us_expected = rogue->kind == KIND_STEPS ? UINT32_MAX : 0,
                         .blocks_total = 1024,
                         .blocks_free = 1024};
}

static bool beats_with_progress(const struct rogue *rogue) {
    return rogue->kind != KIND_HUNG && rogue->kind != KIND_SLOW && rogue->kind != KIND_STEPS;
}

static void beat(struct rogue *rogue) {
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat = (struct beat){.t_ns = rogue->t_ns,
                                   .state = WORKER_READY,
                                   .load = load_of(rogue, beats_with_progress(rogue))};
    say(rogue, &message);
}

static void step(struct rogue *rogue, struct attempt_id attempt, uint32_t first_index,
                 const uint32_t *tokens, uint32_t n, enum finish finish) {
    struct step_entry entry = {.req = attempt.req,
                               .attempt = attempt.attempt,
                               .first_index = first_index,
                               .n_tokens = n,
                               .tokens = tokens,
                               .finish = finish};
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 1, .entries = &entry, .load = load_of(rogue, true)};
    say(rogue, &message);
}

static void fails(struct rogue *rogue, const struct submit *submit, enum reason reason) {
    struct message message = {.type = MESSAGE_FAILED};
    message.u.failed = (struct failed){
        .req = submit->req, .attempt = submit->attempt, .phase = submit->phase, .reason = reason};
    say(rogue, &message);
}

static void refuse(struct rogue *rogue, const struct submit *submit) {
    struct message message = {.type = MESSAGE_REFUSED};
    message.u.refused =
        (struct refused){.req = submit->req, .attempt = submit->attempt, .reason = REASON_INVALID};
    say(rogue, &message);
}

static void answer_wrong(struct rogue *rogue, const struct submit *submit, uint32_t first_id,
                         uint32_t n) {
    uint32_t tokens[TOKENS];
    for (uint32_t i = 0; i < n && i < TOKENS; i++)
        tokens[i] = first_id + i;
    step(rogue, (struct attempt_id){submit->req, submit->attempt},
         submit->n_tokens - submit->n_prompt, tokens, n, FINISH_NONE);
}

static void answer_right(struct rogue *rogue, const struct submit *submit) {
    static uint32_t tokens[TOKENS];
    uint32_t n = submit->n_tokens;
    memcpy(tokens, submit->tokens, n * sizeof *tokens);
    uint32_t end = submit->n_prompt + submit->sampling.max_new;
    for (; n < end && n < TOKENS; n++)
        tokens[n] = next_token(tokens, n);
    step(rogue, (struct attempt_id){submit->req, submit->attempt},
         submit->n_tokens - submit->n_prompt, tokens + submit->n_tokens, n - submit->n_tokens,
         FINISH_LENGTH);
}

static void begin_slowly(struct rogue *rogue, const struct submit *submit) {
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job *job = &rogue->jobs[i];
        if (job->used || submit->n_tokens + submit->sampling.max_new > TOKENS)
            continue;
        *job = (struct job){.used = true,
                            .attempt = {submit->req, submit->attempt},
                            .due_ns = clock_now_ns() + TOKEN_NS,
                            .n_prompt = submit->n_prompt,
                            .n_tokens = submit->n_tokens,
                            .max_new = submit->sampling.max_new};
        memcpy(job->tokens, submit->tokens, submit->n_tokens * sizeof *job->tokens);
        return;
    }
}

static void go_on(struct rogue *rogue, struct job *job) {
    job->tokens[job->n_tokens] = next_token(job->tokens, job->n_tokens);
    uint32_t index = job->n_tokens++ - job->n_prompt;
    job->due_ns += TOKEN_NS;
    job->used = index + 1 < job->max_new;
    step(rogue, job->attempt, index, &job->tokens[job->n_tokens - 1], 1,
         job->used ? FINISH_NONE : FINISH_LENGTH);
}

static void forget(struct rogue *rogue, const struct cancel *cancel) {
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job *job = &rogue->jobs[i];
        if (job->used && job->attempt.req.lo == cancel->req.lo &&
            job->attempt.attempt <= cancel->attempt)
            job->used = false;
    }
}

static void list_queued(struct rogue *rogue) {
    static struct digest_entry entries[JOBS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct job *job = &rogue->jobs[i];
        if (job->used)
            entries[n++] = (struct digest_entry){.req = job->attempt.req,
                                                 .attempt = job->attempt.attempt,
                                                 .state = SEQUENCE_WAITING};
    }
    struct message message = {.type = MESSAGE_DIGEST};
    message.u.digest = (struct digest){.seen_seq = rogue->seen_seq, .n = n, .entries = entries};
    say(rogue, &message);
}

static void take_submit(struct rogue *rogue, const struct submit *submit) {
    switch (rogue->kind) {
    case KIND_NUMERICS:
        fails(rogue, submit, REASON_NUMERICS);
        return;
    case KIND_TRANSFER:
        fails(rogue, submit, REASON_TRANSFER);
        return;
    case KIND_INVALID:
        refuse(rogue, submit);
        return;
    case KIND_SLOW:
    case KIND_QUEUED:
        begin_slowly(rogue, submit);
        return;
    case KIND_IDS:
        answer_wrong(rogue, submit, 65536, 1);
        return;
    case KIND_LENGTHS:
        answer_wrong(rogue, submit, 300, submit->sampling.max_new + 1);
        return;
    case KIND_UNREACHABLE:
        if (submit->phase == PHASE_BOTH)
            answer_right(rogue, submit);
        return;
    default:
        return;
    }
}

static void take(struct rogue *rogue, const struct bus_event *event) {
    const struct message *message = event->message;
    struct message reply = {0};
    switch (message->type) {
    case MESSAGE_HELLO:
        rogue->link = event->link;
        rogue->session = message->u.hello.session;
        memset(rogue->jobs, 0, sizeof rogue->jobs);
        reply.type = MESSAGE_WELCOME;
        reply.u.welcome = rogue->welcome;
        reply.u.welcome.load = load_of(rogue, false);
        say(rogue, &reply);
        return;
    case MESSAGE_PING:
        rogue->t_ns = message->u.ping.t_ns;
        beat(rogue);
        return;
    case MESSAGE_RESERVE:
        reply.type = MESSAGE_RESERVED;
        reply.u.reserved = (struct reserved){.req = message->u.reserve.req,
                                             .attempt = message->u.reserve.attempt,
                                             .gen = ++rogue->gen,
                                             .lease_ms = 10000};
        say(rogue, &reply);
        return;
    case MESSAGE_CANCEL:
        if (rogue->kind == KIND_QUEUED)
            forget(rogue, &message->u.cancel);
        return;
    case MESSAGE_SUBMIT:
        rogue->seen_seq = message->seq;
        take_submit(rogue, &message->u.submit);
        return;
    default:
        return;
    }
}

static void announce(struct rogue *rogue) {
    struct error error = {0};
    if (rogue->announce_link == BUS_NO_LINK &&
        bus_connect(rogue->bus, rogue->announce, &rogue->announce_link, &error) != STATUS_OK)
        return;
    struct message message = {.type = MESSAGE_ANNOUNCE};
    message.u.announce = (struct announce){.incarnation = rogue->welcome.incarnation,
                                           .role = (uint32_t)rogue->welcome.role + 1};
    memcpy(message.u.announce.name, rogue->welcome.name, MESSAGE_NAME_MAX);
    memcpy(message.u.announce.endpoint, rogue->endpoint, MESSAGE_ENDPOINT_MAX);
    enum status status = bus_send(rogue->bus, rogue->announce_link, &message);
    (void)status; /* lost ones come as BUS_LOST */
}

static void fill_welcome(struct rogue *rogue, const struct model *model, const char *name) {
    bool is_unreachable = rogue->kind == KIND_UNREACHABLE;
    struct welcome *welcome = &rogue->welcome;
    *welcome = (struct welcome){
        .major = PROTO_MAJOR,
        .minor = PROTO_MINOR,
        .incarnation = clock_unix_ns(),
        .role = is_unreachable ? ROLE_DECODE : ROLE_MIXED,
        .state = WORKER_READY,
        .kv = {.n_layers = 4, .block_tokens = 16, .block_bytes = 128, .tp = 1},
        .context = 4096,
        .max_seqs = 64,
        .chunk_tokens = 512,
    };
    snprintf(welcome->name, sizeof welcome->name, "%s", name);
    snprintf(welcome->model, sizeof welcome->model, "hash");
    snprintf(welcome->kv_endpoint, sizeof welcome->kv_endpoint, "tcp://127.0.0.1:9");
    memcpy(welcome->model_fp, model->config.fingerprint, FINGERPRINT_BYTES);
    memcpy(welcome->tokenizer_fp, model->config.tokenizer_fingerprint, FINGERPRINT_BYTES);
}

static void work(struct rogue *rogue) {
    uint64_t beat_ns = 0, announce_ns = 0, digest_ns = 0;
    while (!is_stopped) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= announce_ns) {
            announce(rogue);
            announce_ns = now_ns + ANNOUNCE_NS;
        }
        if (now_ns >= beat_ns) {
            beat(rogue);
            beat_ns = now_ns + BEAT_NS;
        }
        if (rogue->kind == KIND_QUEUED && now_ns >= digest_ns) {
            list_queued(rogue);
            digest_ns = now_ns + DIGEST_NS;
        }
        for (uint32_t i = 0; i < JOBS && rogue->kind == KIND_SLOW; i++) {
            if (rogue->jobs[i].used && now_ns >= rogue->jobs[i].due_ns)
                go_on(rogue, &rogue->jobs[i]);
        }
        if (bus_wait(rogue->bus, 20 * NS_PER_MS) != STATUS_OK)
            continue;
        struct bus_event event;
        while (bus_receive(rogue->bus, &event) == STATUS_OK) {
            if (event.kind == BUS_MESSAGE)
                take(rogue, &event);
            else if (event.link == rogue->announce_link)
                rogue->announce_link = BUS_NO_LINK;
            else if (event.link == rogue->link)
                rogue->link = BUS_NO_LINK;
        }
    }
}

int main(int argc, char **argv) {
    static struct rogue rogue;
    struct error error = {0};
    struct model *model = NULL;
    uint32_t listener;
    if (argc != 5)
        return 78;
    while (rogue.kind < KINDS && strcmp(names[rogue.kind], argv[1]) != 0)
        rogue.kind++;
    if (rogue.kind == KINDS)
        return 78;
    signal(SIGTERM, on_signal);
    rogue.announce = argv[3];
    struct bus_config config = {.kind = BUS_CONTROL};
    if (model_open("hash", NULL, &model, &error) != STATUS_OK ||
        bus_new(&config, &rogue.bus, &error) != STATUS_OK ||
        bus_bind(rogue.bus, argv[4], &listener, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    snprintf(rogue.endpoint, sizeof rogue.endpoint, "%s", bus_endpoint(rogue.bus, listener));
    fill_welcome(&rogue, model, argv[2]);
    puts("ready");
    fflush(stdout);
    work(&rogue);
    bus_free(rogue.bus);
    model_close(model);
    return 0;
}
