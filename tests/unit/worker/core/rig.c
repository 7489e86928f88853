#include "tests/unit/worker/core/rig.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct engine_config rig_config(void) {
    return (struct engine_config){
        .seed = 7,
        .n_blocks = 64,
        .block_tokens = RIG_BLOCK,
        .n_layers = RIG_LAYERS,
        .layer_groups = 2,
        .block_bytes = RIG_BLOCK * 8,
        .chunk_tokens = 64,
        .chunk_bytes = RIG_BLOCK * 8 * 4,
        .max_batch = 16,
        .max_seqs = 64,
        .context = 512,
        .max_links = 32,
        .n_vocab = 65536,
        .lease_ns = 10000000000ull,
        .router_lease_ns = 5000000000ull,
        .prefix_key = 99,
    };
}

struct rig *rig_new(uint64_t seed) {
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    rig->random.state = seed;
    rig->now_ns = 3600 * NS_PER_S; /* a worker is seldom younger */
    rig->credits = 2;
    rig->queue_max = RIG_QUEUE;
    rig->next_link = RIG_FIRST_KV_LINK;
    return rig;
}

static void free_parcels(struct pipe *pipe) {
    for (uint32_t i = 0; i < pipe->n_to_d; i++)
        free(pipe->to_d[i].bytes);
    pipe->n_to_d = 0;
    pipe->n_to_p = 0;
}

void rig_free(struct rig *rig) {
    for (uint32_t i = 0; i < rig->n_workers; i++) {
        engine_free(rig->workers[i].engine);
        free(rig->workers[i].kv);
        free(rig->workers[i].entries);
    }
    for (uint32_t i = 0; i < rig->n_pipes; i++)
        free_parcels(&rig->pipes[i]);
    free(rig);
}

struct worker *rig_add(struct rig *rig, struct engine_config config) {
    struct worker *worker = &rig->workers[rig->n_workers];
    *worker = (struct worker){.rig = rig, .index = rig->n_workers++, .n_blocks = config.n_blocks};
    worker->incarnation = 1000 + worker->index;
    snprintf(config.name, sizeof config.name, "worker%u", worker->index);
    config.incarnation = worker->incarnation;
    worker->kv = calloc((size_t)RIG_LAYERS * config.n_blocks * RIG_BLOCK, sizeof *worker->kv);
    worker->entries = calloc(rig_tokens(&config), sizeof *worker->entries);
    struct engine_sink sink = rig_sink(worker);
    ck_assert_int_eq(engine_new(&config, &sink, &worker->engine), STATUS_OK);
    return worker;
}

void rig_send(struct rig *rig, uint32_t w, uint32_t r, struct message *message) {
    message->session = rig->sessions[w][r];
    message->seq = ++rig->seqs[w][r];
    engine_message(rig->workers[w].engine, rig->now_ns, rig_link(r), message);
}

void rig_hello(struct rig *rig, uint32_t r) {
    struct peer peers[RIG_WORKERS] = {0};
    for (uint32_t w = 0; w < rig->n_workers; w++) {
        snprintf(peers[w].name, sizeof peers[w].name, "worker%u", w);
        peers[w].incarnation = rig->workers[w].incarnation;
    }
    for (uint32_t w = 0; w < rig->n_workers; w++) {
        rig->sessions[w][r] = random_next(&rig->random);
        struct message message = {.type = MESSAGE_HELLO};
        message.u.hello = (struct hello){.major = PROTO_MAJOR,
                                         .minor = PROTO_MINOR,
                                         .router_id = 500 + r,
                                         .session = rig->sessions[w][r],
                                         .name = "router"};
        rig_send(rig, w, r, &message);
        message = (struct message){.type = MESSAGE_PEERS};
        message.u.peers = (struct peers){.n = rig->n_workers, .peers = peers};
        rig_send(rig, w, r, &message);
    }
}

struct call *rig_call(struct rig *rig, uint32_t n_prompt, uint32_t max_new) {
    ck_assert_uint_lt(rig->n_calls, RIG_CALLS);
    struct call *call = &rig->calls[rig->n_calls++];
    *call = (struct call){.req = {.hi = 500, .lo = rig->n_calls}, .attempt = 1};
    call->n_prompt = n_prompt;
    for (uint32_t i = 0; i < n_prompt; i++)
        call->ids[i] = (uint32_t)random_below(&rig->random, 65536);
    call->sampling = (struct sampling){
        .temperature = 1, .top_p = 1, .repetition = 1, .seed = 1, .max_new = max_new};
    return call;
}

static void submit(struct rig *rig, uint32_t w, struct call *call, enum phase phase,
                   const struct xfer *xfer) {
    struct message message = {.type = MESSAGE_SUBMIT};
    struct submit *submit = &message.u.submit;
    *submit = (struct submit){.req = call->req,
                              .attempt = call->attempt,
                              .phase = phase,
                              .n_prompt = call->n_prompt,
                              .n_tokens = call->n_prompt + call->n_got,
                              .tokens = call->ids,
                              .salt = call->salt,
                              .priority = call->priority,
                              .tenant = call->tenant,
                              .has_xfer = xfer != NULL,
                              .has_trace = call->has_trace,
                              .trace = call->trace,
                              .sampling = call->sampling};
    if (xfer)
        submit->xfer = *xfer;
    if (phase == PHASE_DECODE) /* what P has emitted meanwhile is not in D's Submit */
        submit->n_tokens = call->n_at_reserve;
    rig_send(rig, w, (uint32_t)(call->req.hi - 500), &message);
}

void rig_both(struct rig *rig, uint32_t w, struct call *call) {
    submit(rig, w, call, PHASE_BOTH, NULL);
}

static struct xfer xfer_of(const struct rig *rig, const struct call *call, uint32_t peer) {
    struct xfer xfer = {.transfer_id = mix64(call->req.lo * 1000 + call->attempt),
                        .gen = call->gen,
                        .cached_tokens = call->reserved_cached,
                        .peer_incarnation = rig->workers[peer].incarnation};
    snprintf(xfer.peer, sizeof xfer.peer, "worker%u", peer);
    return xfer;
}

void rig_prefill(struct rig *rig, uint32_t w, uint32_t d, struct call *call) {
    struct xfer xfer = xfer_of(rig, call, d);
    submit(rig, w, call, PHASE_PREFILL, &xfer);
}

void rig_decode(struct rig *rig, uint32_t w, uint32_t p, struct call *call) {
    struct xfer xfer = xfer_of(rig, call, p);
    submit(rig, w, call, PHASE_DECODE, &xfer);
}

void rig_reserve(struct rig *rig, uint32_t w, struct call *call) {
    struct map_key hashes[RIG_IDS / RIG_BLOCK];
    struct map_key key = BLOCK_HASH_START;
    struct message message = {.type = MESSAGE_RESERVE};
    struct reserve *reserve = &message.u.reserve;
    call->n_at_reserve = call->n_prompt + call->n_got;
    *reserve = (struct reserve){.req = call->req,
                                .attempt = call->attempt,
                                .n_tokens = call->n_at_reserve,
                                .n_hashes = call->n_at_reserve / RIG_BLOCK,
                                .hashes = hashes};
    for (uint32_t i = 0; i < reserve->n_hashes; i++) {
        key = block_hash(rig->workers[w].engine->config.prefix_key, call->salt, key,
                         call->ids + (size_t)i * RIG_BLOCK);
        hashes[i] = key;
    }
    rig_send(rig, w, (uint32_t)(call->req.hi - 500), &message);
}

void rig_cancel(struct rig *rig, uint32_t w, struct call *call) {
    struct message message = {.type = MESSAGE_CANCEL};
    message.u.cancel = (struct cancel){call->req, call->attempt, REASON_CANCELLED};
    rig_send(rig, w, (uint32_t)(call->req.hi - 500), &message);
}

void rig_forget(struct rig *rig, uint32_t w, struct call *call) {
    struct message message = {.type = MESSAGE_FORGET};
    struct attempt_id id = {call->req, call->attempt};
    message.u.forget = (struct forget){.n = 1, .attempts = &id};
    rig_send(rig, w, (uint32_t)(call->req.hi - 500), &message);
}

void rig_resend(struct rig *rig, uint32_t w, struct call *call, uint32_t from) {
    struct message message = {.type = MESSAGE_RESEND};
    message.u.resend = (struct resend){call->req, call->attempt, from};
    rig_send(rig, w, (uint32_t)(call->req.hi - 500), &message);
}

static void announce_pipe(struct rig *rig, struct pipe *pipe) {
    char name[MESSAGE_NAME_MAX];
    pipe->announced = true;
    snprintf(name, sizeof name, "worker%u", pipe->p);
    engine_kv_open(rig->workers[pipe->d].engine, rig->now_ns, pipe->link_d, name,
                   rig->workers[pipe->p].incarnation, 0, true);
    snprintf(name, sizeof name, "worker%u", pipe->d);
    engine_kv_open(rig->workers[pipe->p].engine, rig->now_ns, pipe->link_p, name,
                   rig->workers[pipe->d].incarnation, rig->credits, false);
}

/* One side closed it: the other hears of the loss. */
static bool finish_close(struct rig *rig, struct pipe *pipe) {
    if (pipe->link_p != 0 && pipe->link_d != 0)
        return false;
    pipe->open = false;
    if (pipe->link_p != 0)
        engine_link_lost(rig->workers[pipe->p].engine, rig->now_ns, pipe->link_p);
    if (pipe->link_d != 0)
        engine_link_lost(rig->workers[pipe->d].engine, rig->now_ns, pipe->link_d);
    free_parcels(pipe);
    return true;
}

bool rig_deliver(struct rig *rig, struct pipe *pipe, bool to_d) {
    if (!pipe->open)
        return false;
    if (finish_close(rig, pipe))
        return true;
    if (!pipe->announced) {
        announce_pipe(rig, pipe);
        return true;
    }
    uint32_t *n = to_d ? &pipe->n_to_d : &pipe->n_to_p;
    struct parcel *queue = to_d ? pipe->to_d : pipe->to_p;
    if (*n == 0)
        return false;
    struct parcel parcel = queue[0];
    (*n)--;
    memmove(queue, queue + 1, *n * sizeof *queue);
    parcel.message.u.chunk.bytes =
        parcel.message.type == MESSAGE_CHUNK ? parcel.bytes : parcel.message.u.chunk.bytes;
    engine_message(rig->workers[to_d ? pipe->d : pipe->p].engine, rig->now_ns,
                   to_d ? pipe->link_d : pipe->link_p, &parcel.message);
    free(parcel.bytes);
    return true;
}

bool rig_deliver_all(struct rig *rig) {
    bool any = false;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < rig->n_pipes; i++) {
            moved |= rig_deliver(rig, &rig->pipes[i], true);
            moved |= rig_deliver(rig, &rig->pipes[i], false);
        }
        any |= moved;
    }
    return any;
}

void rig_cut(struct rig *rig, struct pipe *pipe) {
    if (!pipe->open)
        return;
    pipe->open = false;
    free_parcels(pipe);
    if (pipe->link_p != 0)
        engine_link_lost(rig->workers[pipe->p].engine, rig->now_ns, pipe->link_p);
    if (pipe->announced && pipe->link_d != 0)
        engine_link_lost(rig->workers[pipe->d].engine, rig->now_ns, pipe->link_d);
}

void rig_tick(struct rig *rig, uint64_t ms) {
    rig->now_ns += ms * 1000000;
    for (uint32_t w = 0; w < rig->n_workers; w++)
        engine_tick(rig->workers[w].engine, rig->now_ns);
}

void rig_check(struct rig *rig) {
    for (uint32_t w = 0; w < rig->n_workers; w++) {
        const char *wrong = engine_check(rig->workers[w].engine);
        if (wrong)
            ck_abort_msg("worker %u: %s", w, wrong);
    }
}

void rig_run(struct rig *rig, uint32_t n_max) {
    for (uint32_t round = 0; round < n_max; round++) {
        bool moved = rig_deliver_all(rig);
        for (uint32_t w = 0; w < rig->n_workers; w++)
            moved |= rig_step(rig, w);
        bool due = false;
        for (uint32_t w = 0; w < rig->n_workers; w++)
            due |= rig->workers[w].engine->retry_ns != 0;
        if (due)
            rig_tick(rig, 1);
        rig_check(rig);
        if (!moved && !due)
            return;
    }
}

void rig_expect_done(struct call *call, uint32_t n_tokens, enum finish finish) {
    ck_assert(!call->failed);
    ck_assert(!call->gap);
    ck_assert_uint_eq(call->n_got, n_tokens);
    ck_assert_int_eq(call->finish, finish);
}
