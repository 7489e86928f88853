#include "tests/support/message_random.h"

#include "base/assert.h"

#include <string.h>

static uint32_t below(struct random *random, uint32_t n) {
    return (uint32_t)random_below(random, n);
}

/* Small, zero and extreme numbers all happen. */
static uint32_t any_u32(struct random *random) {
    uint32_t bits = (uint32_t)random_next(random);
    switch (below(random, 4)) {
    case 0:
        return 0;
    case 1:
        return bits & 127;
    case 2:
        return UINT32_MAX;
    default:
        return bits;
    }
}

static uint64_t any_u64(struct random *random) {
    return below(random, 2) ? random_next(random) : any_u32(random);
}

static uint32_t count(struct random *random, uint32_t max) {
    uint32_t kind = below(random, 64);
    if (kind == 0)
        return max;
    return kind < 16 ? 0 : 1 + below(random, max < 12 ? max : 12);
}

static float number(struct random *random) {
    return (float)below(random, 4000) / 1000.0f - 2.0f;
}

static void text(struct random *random, char *to, size_t size) {
    size_t n = below(random, 16) == 0 ? size - 1 : 1 + below(random, size < 14 ? 1 : 12);
    for (size_t i = 0; i < n; i++)
        to[i] = (char)('a' + below(random, 26));
    to[n] = '\0';
}

static void bytes(struct random *random, uint8_t *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)random_next(random);
}

static struct request_id request(struct random *random) {
    return (struct request_id){random_next(random), 1 + any_u32(random)};
}

static void *array(struct arena *arena, size_t n, size_t size) {
    void *memory = arena_alloc(arena, n * size + 1);
    ASSERT(memory);
    return memory;
}

static uint32_t *ids(struct random *random, struct arena *arena, uint32_t n) {
    uint32_t *made = array(arena, n, sizeof *made);
    for (uint32_t i = 0; i < n; i++)
        made[i] = any_u32(random);
    return made;
}

static void load(struct random *random, struct load *to) {
    to->progress = any_u64(random);
    to->step_us_expected = any_u32(random);
    to->step_us_typical = any_u32(random);
    to->blocks_total = any_u32(random);
    to->blocks_free = any_u32(random);
    to->blocks_used = any_u32(random);
    to->blocks_reserved = any_u32(random);
    to->blocks_quarantined = any_u32(random);
    to->blocks_cached = any_u32(random);
    to->n_running = any_u32(random);
    to->n_waiting = any_u32(random);
    to->prefill_tokens_queued = any_u32(random);
    to->tokens_per_s = any_u32(random);
    to->n_preemptions = any_u64(random);
    to->n_handoffs_in = any_u64(random);
    to->n_handoffs_out = any_u64(random);
    to->handoff_bytes = any_u64(random);
    to->n_stale_dropped = any_u64(random);
    to->prefix_queries = any_u64(random);
    to->prefix_hits = any_u64(random);
    to->n_prompt_tokens = any_u64(random);
    to->n_tokens = any_u64(random);
    to->n_steps = any_u64(random);
}

static void logprobs(struct random *random, struct token_logprobs *to) {
    to->logprob = number(random);
    to->n_top = count(random, MESSAGE_TOP_MAX);
    for (uint32_t i = 0; i < to->n_top; i++) {
        to->top_ids[i] = any_u32(random);
        to->top_logprobs[i] = number(random);
    }
}

static void sampling(struct random *random, struct arena *arena, struct sampling *to) {
    to->temperature = number(random);
    to->top_p = number(random);
    to->min_p = number(random);
    to->top_k = any_u32(random);
    to->presence = number(random);
    to->frequency = number(random);
    to->repetition = number(random);
    to->seed = any_u64(random);
    to->choice = any_u32(random);
    to->max_new = any_u32(random);
    to->min_new = any_u32(random);
    to->ignore_eos = below(random, 2);
    to->want_logprobs = below(random, 2);
    to->n_top = below(random, MESSAGE_TOP_MAX + 1);
    to->n_stop_ids = count(random, MESSAGE_STOP_IDS_MAX);
    to->stop_ids = ids(random, arena, to->n_stop_ids);
    to->n_bias = count(random, MESSAGE_BIAS_MAX);
    to->bias_ids = ids(random, arena, to->n_bias);
    float *bias = array(arena, to->n_bias, sizeof *bias);
    for (uint32_t i = 0; i < to->n_bias; i++)
        bias[i] = number(random);
    to->bias = bias;
    to->n_allowed = count(random, MESSAGE_ALLOWED_MAX);
    to->allowed_ids = ids(random, arena, to->n_allowed);
}

static void welcome(struct random *random, struct welcome *to) {
    to->major = any_u32(random);
    to->minor = any_u32(random);
    text(random, to->name, sizeof to->name);
    to->incarnation = any_u64(random);
    to->role = (enum worker_role)below(random, ROLE_DECODE + 1);
    to->state = (enum worker_state)below(random, WORKER_DRAINING + 1);
    to->pid = any_u32(random);
    to->host = any_u64(random);
    text(random, to->model, sizeof to->model);
    text(random, to->backend, sizeof to->backend);
    bytes(random, to->model_fp, FINGERPRINT_BYTES);
    bytes(random, to->tokenizer_fp, FINGERPRINT_BYTES);
    bytes(random, to->numerics_fp, FINGERPRINT_BYTES);
    to->kv = (struct kv_layout){any_u32(random), any_u32(random), any_u32(random), any_u32(random)};
    to->context = any_u32(random);
    to->max_seqs = any_u32(random);
    to->chunk_tokens = any_u32(random);
    text(random, to->kv_endpoint, sizeof to->kv_endpoint);
    load(random, &to->load);
}

static void peers(struct random *random, struct arena *arena, struct peers *to) {
    to->n = count(random, MESSAGE_PEERS_MAX);
    to->peers = array(arena, to->n, sizeof *to->peers);
    for (uint32_t i = 0; i < to->n; i++) {
        text(random, to->peers[i].name, sizeof to->peers[i].name);
        to->peers[i].incarnation = any_u64(random);
        to->peers[i].host = any_u64(random);
        text(random, to->peers[i].kv_endpoint, sizeof to->peers[i].kv_endpoint);
    }
}

static void digest(struct random *random, struct arena *arena, struct digest *to) {
    to->seen_seq = any_u64(random);
    to->n = count(random, MESSAGE_ENTRIES_MAX);
    to->entries = array(arena, to->n, sizeof *to->entries);
    for (uint32_t i = 0; i < to->n; i++)
        to->entries[i] =
            (struct digest_entry){.req = request(random),
                                  .attempt = any_u32(random),
                                  .state = (enum sequence_state)below(random, SEQUENCE_ENDED + 1),
                                  .next_index = any_u32(random)};
}

static void submit(struct random *random, struct arena *arena, struct submit *to) {
    to->req = request(random);
    to->attempt = any_u32(random);
    to->phase = (enum phase)below(random, PHASE_BOTH + 1);
    to->n_tokens = count(random, MESSAGE_TOKENS_MAX);
    to->n_prompt = below(random, to->n_tokens + 1);
    to->tokens = ids(random, arena, to->n_tokens);
    to->salt = any_u64(random);
    to->priority = any_u32(random);
    to->budget_ms = any_u32(random);
    to->has_xfer = below(random, 2);
    if (to->has_xfer) {
        to->xfer.transfer_id = any_u64(random);
        to->xfer.gen = any_u32(random);
        to->xfer.cached_tokens = any_u32(random);
        text(random, to->xfer.peer, sizeof to->xfer.peer);
        to->xfer.peer_incarnation = any_u64(random);
    }
    sampling(random, arena, &to->sampling);
}

static void step(struct random *random, struct arena *arena, struct step *to) {
    to->n = count(random, MESSAGE_ENTRIES_MAX);
    bool want_logprobs = to->n <= 256 && below(random, 2);
    to->entries = array(arena, to->n, sizeof *to->entries);
    for (uint32_t i = 0; i < to->n; i++) {
        struct step_entry *entry = &to->entries[i];
        entry->req = request(random);
        entry->attempt = any_u32(random);
        entry->first_index = below(random, 1u << 20);
        entry->n_tokens = below(random, 4);
        entry->tokens = ids(random, arena, entry->n_tokens);
        entry->finish = (enum finish)below(random, FINISH_ERROR + 1);
        entry->cached_tokens = any_u32(random);
        if (want_logprobs && entry->n_tokens > 0) {
            struct token_logprobs *all = array(arena, entry->n_tokens, sizeof *all);
            for (uint32_t k = 0; k < entry->n_tokens; k++)
                logprobs(random, &all[k]);
            entry->logprobs = all;
        }
    }
    load(random, &to->load);
}

static void kv_hello(struct random *random, struct kv_hello *to) {
    to->major = any_u32(random);
    to->minor = any_u32(random);
    text(random, to->name, sizeof to->name);
    to->incarnation = any_u64(random);
    to->host = any_u64(random);
    to->pid = any_u32(random);
    bytes(random, to->layout_fp, FINGERPRINT_BYTES);
    text(random, to->transport, sizeof to->transport);
    to->n_opaque = count(random, sizeof to->opaque);
    bytes(random, to->opaque, to->n_opaque);
    to->credits = any_u32(random);
}

static void chunk(struct random *random, struct arena *arena, struct chunk *to) {
    to->transfer_id = any_u64(random);
    to->gen = any_u32(random);
    to->index = any_u32(random);
    to->layer_begin = below(random, 100);
    to->layer_end = to->layer_begin + 1 + below(random, 100);
    to->block_begin = below(random, 100);
    to->block_end = to->block_begin + 1 + below(random, 100);
    to->n_bytes = below(random, 64) ? below(random, 9000) : MESSAGE_CHUNK_MAX;
    to->checksum = any_u64(random);
    to->where = any_u64(random);
    if (to->n_bytes > 0 && below(random, 4)) {
        uint8_t *data = array(arena, to->n_bytes, 1);
        bytes(random, data, to->n_bytes);
        to->bytes = data;
    }
}

static void commit(struct random *random, struct commit *to) {
    to->transfer_id = any_u64(random);
    to->gen = any_u32(random);
    to->req = request(random);
    to->attempt = any_u32(random);
    to->n_tokens = any_u32(random);
    to->n_chunks = any_u32(random);
    to->first_index = any_u32(random);
    to->first_token = any_u32(random);
    to->finish = (enum finish)below(random, FINISH_ERROR + 1);
    to->has_logprobs = below(random, 2);
    if (to->has_logprobs)
        logprobs(random, &to->logprobs);
    to->cached_tokens = any_u32(random);
}

static void reserve(struct random *random, struct arena *arena, struct reserve *to) {
    to->req = request(random);
    to->attempt = any_u32(random);
    to->n_tokens = any_u32(random);
    to->n_hashes = count(random, MESSAGE_CONTROL_MAX / sizeof(struct map_key));
    struct map_key *hashes = array(arena, to->n_hashes, sizeof *hashes);
    for (uint32_t i = 0; i < to->n_hashes; i++)
        hashes[i] = (struct map_key){random_next(random), random_next(random)};
    to->hashes = hashes;
}

void message_random(struct random *random, struct arena *arena, enum message_type type,
                    struct message *message) {
    *message = (struct message){.type = type, .session = any_u64(random), .seq = any_u64(random)};
    enum reason reason = (enum reason)below(random, REASON_COUNT);
    switch (type) {
    case MESSAGE_ANNOUNCE:
        text(random, message->u.announce.name, MESSAGE_NAME_MAX);
        message->u.announce.incarnation = any_u64(random);
        text(random, message->u.announce.endpoint, MESSAGE_ENDPOINT_MAX);
        message->u.announce.role = (uint32_t)any_u64(random) % 4;
        message->u.announce.loading = (uint32_t)any_u64(random) % 102;
        break;
    case MESSAGE_HELLO:
        message->u.hello = (struct hello){.major = any_u32(random),
                                          .minor = any_u32(random),
                                          .router_id = any_u64(random),
                                          .session = any_u64(random)};
        text(random, message->u.hello.name, MESSAGE_NAME_MAX);
        break;
    case MESSAGE_WELCOME:
        welcome(random, &message->u.welcome);
        break;
    case MESSAGE_PEERS:
        peers(random, arena, &message->u.peers);
        break;
    case MESSAGE_PING:
        message->u.ping.t_ns = any_u64(random);
        break;
    case MESSAGE_BEAT:
        message->u.beat.t_ns = any_u64(random);
        message->u.beat.state = (enum worker_state)below(random, WORKER_DRAINING + 1);
        load(random, &message->u.beat.load);
        break;
    case MESSAGE_DIGEST:
        digest(random, arena, &message->u.digest);
        break;
    case MESSAGE_RESERVE:
        reserve(random, arena, &message->u.reserve);
        break;
    case MESSAGE_RESERVED:
        message->u.reserved = (struct reserved){.req = request(random),
                                                .attempt = any_u32(random),
                                                .gen = any_u32(random),
                                                .cached_tokens = any_u32(random),
                                                .lease_ms = any_u32(random)};
        break;
    case MESSAGE_REFUSED:
        message->u.refused =
            (struct refused){.req = request(random), .attempt = any_u32(random), .reason = reason};
        break;
    case MESSAGE_SUBMIT:
        submit(random, arena, &message->u.submit);
        break;
    case MESSAGE_STEP:
        step(random, arena, &message->u.step);
        break;
    case MESSAGE_FORGET:
        message->u.forget.n = count(random, MESSAGE_ENTRIES_MAX);
        message->u.forget.attempts =
            array(arena, message->u.forget.n, sizeof *message->u.forget.attempts);
        for (uint32_t i = 0; i < message->u.forget.n; i++)
            message->u.forget.attempts[i] =
                (struct attempt_id){.req = request(random), .attempt = any_u32(random)};
        break;
    case MESSAGE_RESEND:
        message->u.resend = (struct resend){
            .req = request(random), .attempt = any_u32(random), .from = any_u32(random)};
        break;
    case MESSAGE_CANCEL:
    case MESSAGE_CANCELLED:
        message->u.cancel =
            (struct cancel){.req = request(random), .attempt = any_u32(random), .reason = reason};
        break;
    case MESSAGE_FAILED:
        message->u.failed = (struct failed){.req = request(random),
                                            .attempt = any_u32(random),
                                            .phase = (enum phase)below(random, PHASE_BOTH + 1),
                                            .reason = reason};
        break;
    case MESSAGE_RESET:
        message->u.reset.reason = reason;
        message->u.reset.refusal = (enum refusal)below(random, REFUSAL_COUNT);
        message->u.reset.incarnation = any_u64(random);
        text(random, message->u.reset.endpoint, MESSAGE_ENDPOINT_MAX);
        break;
    case MESSAGE_DRAIN:
        message->u.drain.deadline_ms = any_u32(random);
        message->u.drain.order = (enum drain_order)random_below(random, DRAIN_ORDERS);
        break;
    case MESSAGE_KV_HELLO:
    case MESSAGE_KV_WELCOME:
        kv_hello(random, &message->u.kv_hello);
        break;
    case MESSAGE_CHUNK:
        chunk(random, arena, &message->u.chunk);
        break;
    case MESSAGE_CHUNK_ACK:
        message->u.chunk_ack = (struct chunk_ack){.transfer_id = any_u64(random),
                                                  .gen = any_u32(random),
                                                  .n_done = any_u32(random),
                                                  .where = any_u64(random)};
        break;
    case MESSAGE_COMMIT:
        commit(random, &message->u.commit);
        break;
    case MESSAGE_COMMIT_ACK:
    case MESSAGE_ABORT:
    case MESSAGE_FENCED:
        message->u.transfer_end = (struct transfer_end){
            .transfer_id = any_u64(random), .gen = any_u32(random), .reason = reason};
        break;
    case MESSAGE_NONE:
    case MESSAGE_TYPES:
        ASSERT(!"a type that is sent");
    }
}

static bool same(const void *a, const void *b, size_t n) {
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool sampling_equal(struct sampling a, struct sampling b) {
    if (a.n_stop_ids != b.n_stop_ids || a.n_bias != b.n_bias || a.n_allowed != b.n_allowed ||
        !same(a.stop_ids, b.stop_ids, a.n_stop_ids * sizeof *a.stop_ids) ||
        !same(a.bias_ids, b.bias_ids, a.n_bias * sizeof *a.bias_ids) ||
        !same(a.bias, b.bias, a.n_bias * sizeof *a.bias) ||
        !same(a.allowed_ids, b.allowed_ids, a.n_allowed * sizeof *a.allowed_ids))
        return false;
    return a.temperature == b.temperature && a.top_p == b.top_p && a.min_p == b.min_p &&
           a.top_k == b.top_k && a.presence == b.presence && a.frequency == b.frequency &&
           a.repetition == b.repetition && a.seed == b.seed && a.choice == b.choice &&
           a.max_new == b.max_new && a.min_new == b.min_new && a.ignore_eos == b.ignore_eos &&
           a.want_logprobs == b.want_logprobs && a.n_top == b.n_top;
}

static bool submit_equal(const struct submit *a, const struct submit *b) {
    return request_id_equal(a->req, b->req) && a->attempt == b->attempt && a->phase == b->phase &&
           a->n_prompt == b->n_prompt && a->n_tokens == b->n_tokens &&
           same(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens) && a->salt == b->salt &&
           a->priority == b->priority && a->budget_ms == b->budget_ms &&
           a->has_xfer == b->has_xfer && a->xfer.transfer_id == b->xfer.transfer_id &&
           a->xfer.gen == b->xfer.gen && a->xfer.cached_tokens == b->xfer.cached_tokens &&
           strcmp(a->xfer.peer, b->xfer.peer) == 0 &&
           a->xfer.peer_incarnation == b->xfer.peer_incarnation &&
           sampling_equal(a->sampling, b->sampling);
}

static bool step_equal(const struct step *a, const struct step *b) {
    if (a->n != b->n || !same(&a->load, &b->load, sizeof a->load))
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct step_entry *x = &a->entries[i];
        const struct step_entry *y = &b->entries[i];
        if (!request_id_equal(x->req, y->req) || x->attempt != y->attempt ||
            x->first_index != y->first_index || x->n_tokens != y->n_tokens ||
            x->finish != y->finish || x->cached_tokens != y->cached_tokens ||
            !same(x->tokens, y->tokens, x->n_tokens * sizeof *x->tokens) ||
            (x->logprobs != NULL) != (y->logprobs != NULL))
            return false;
        if (x->logprobs && !same(x->logprobs, y->logprobs, x->n_tokens * sizeof *x->logprobs))
            return false;
    }
    return true;
}

bool message_equal(const struct message *a, const struct message *b) {
    if (a->type != b->type || a->session != b->session || a->seq != b->seq)
        return false;
    switch (a->type) {
    case MESSAGE_PEERS:
        return a->u.peers.n == b->u.peers.n &&
               same(a->u.peers.peers, b->u.peers.peers, a->u.peers.n * sizeof *a->u.peers.peers);
    case MESSAGE_DIGEST:
        return a->u.digest.seen_seq == b->u.digest.seen_seq && a->u.digest.n == b->u.digest.n &&
               same(a->u.digest.entries, b->u.digest.entries,
                    a->u.digest.n * sizeof *a->u.digest.entries);
    case MESSAGE_RESERVE:
        return request_id_equal(a->u.reserve.req, b->u.reserve.req) &&
               a->u.reserve.attempt == b->u.reserve.attempt &&
               a->u.reserve.n_tokens == b->u.reserve.n_tokens &&
               a->u.reserve.n_hashes == b->u.reserve.n_hashes &&
               same(a->u.reserve.hashes, b->u.reserve.hashes,
                    a->u.reserve.n_hashes * sizeof *a->u.reserve.hashes);
    case MESSAGE_SUBMIT:
        return submit_equal(&a->u.submit, &b->u.submit);
    case MESSAGE_STEP:
        return step_equal(&a->u.step, &b->u.step);
    case MESSAGE_FORGET:
        return a->u.forget.n == b->u.forget.n && same(a->u.forget.attempts, b->u.forget.attempts,
                                                      a->u.forget.n * sizeof *a->u.forget.attempts);
    case MESSAGE_CHUNK: {
        struct chunk x = a->u.chunk;
        struct chunk y = b->u.chunk;
        if ((x.bytes != NULL) != (y.bytes != NULL) || x.n_bytes != y.n_bytes ||
            (x.bytes && !same(x.bytes, y.bytes, x.n_bytes)))
            return false;
        return x.transfer_id == y.transfer_id && x.gen == y.gen && x.index == y.index &&
               x.layer_begin == y.layer_begin && x.layer_end == y.layer_end &&
               x.block_begin == y.block_begin && x.block_end == y.block_end &&
               x.checksum == y.checksum && x.where == y.where;
    }
    default: /* no pointers inside; both sides began as zeros */
        return same(&a->u, &b->u, sizeof a->u);
    }
}
