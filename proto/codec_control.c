/* Bodies of the messages about processes: who is there, how it does, what it holds. */
#include "proto/codec_body.h"

#include <string.h>

enum status encode_announce(struct encoder *encoder, const struct message *message) {
    const struct announce *from = &message->u.announce;
    Wire__Announce to = WIRE__ANNOUNCE__INIT;
    to.name = body_text(from->name);
    to.incarnation = from->incarnation;
    to.endpoint = body_text(from->endpoint);
    to.role = from->role;
    to.loading = from->loading;
    return encoder_pack(encoder, &to.base);
}

bool decode_announce(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Announce *from = body;
    struct announce *to = &message->u.announce;
    to->incarnation = from->incarnation;
    to->role = from->role <= 1 + ROLE_DECODE ? from->role
                                             : 0; /* for people to read: no reason to refuse */
    to->loading = from->loading <= 101 ? from->loading : 101;
    return take_name(decoder, from->name, to->name, sizeof to->name, "name") &&
           take_name(decoder, from->endpoint, to->endpoint, sizeof to->endpoint, "endpoint");
}

enum status encode_hello(struct encoder *encoder, const struct message *message) {
    const struct hello *from = &message->u.hello;
    Wire__Hello to = WIRE__HELLO__INIT;
    to.major = from->major;
    to.minor = from->minor;
    to.router_id = from->router_id;
    to.session = from->session;
    to.name = body_text(from->name);
    return encoder_pack(encoder, &to.base);
}

bool decode_hello(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Hello *from = body;
    struct hello *to = &message->u.hello;
    to->major = from->major;
    to->minor = from->minor;
    to->router_id = from->router_id;
    to->session = from->session;
    return take_name(decoder, from->name, to->name, sizeof to->name, "name");
}

enum status encode_welcome(struct encoder *encoder, const struct message *message) {
    const struct welcome *from = &message->u.welcome;
    Wire__Load load;
    Wire__Welcome to = WIRE__WELCOME__INIT;
    load_put(&load, &from->load);
    to.major = from->major;
    to.minor = from->minor;
    to.name = body_text(from->name);
    to.incarnation = from->incarnation;
    to.role = from->role;
    to.state = from->state;
    to.pid = from->pid;
    to.host = from->host;
    to.model = body_text(from->model);
    to.backend = body_text(from->backend);
    to.model_fp = body_bytes(from->model_fp, FINGERPRINT_BYTES);
    to.tokenizer_fp = body_bytes(from->tokenizer_fp, FINGERPRINT_BYTES);
    to.numerics_fp = body_bytes(from->numerics_fp, FINGERPRINT_BYTES);
    to.kv_layers = from->kv.n_layers;
    to.kv_block_tokens = from->kv.block_tokens;
    to.kv_block_bytes = from->kv.block_bytes;
    to.tp = from->kv.tp;
    to.context = from->context;
    to.max_seqs = from->max_seqs;
    to.chunk_tokens = from->chunk_tokens;
    to.kv_endpoint = body_text(from->kv_endpoint);
    to.load = &load;
    return encoder_pack(encoder, &to.base);
}

bool decode_welcome(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Welcome *from = body;
    struct welcome *to = &message->u.welcome;
    uint32_t role;
    uint32_t state;
    if (!take_enum(decoder, from->role, ROLE_DECODE + 1, &role, "role") ||
        !take_enum(decoder, from->state, WORKER_DRAINING + 1, &state, "state"))
        return false;
    to->major = from->major;
    to->minor = from->minor;
    to->incarnation = from->incarnation;
    to->role = (enum worker_role)role;
    to->state = (enum worker_state)state;
    to->pid = from->pid;
    to->host = from->host;
    to->kv = (struct kv_layout){.n_layers = from->kv_layers,
                                .block_tokens = from->kv_block_tokens,
                                .block_bytes = from->kv_block_bytes,
                                .tp = from->tp};
    to->context = from->context;
    to->max_seqs = from->max_seqs;
    to->chunk_tokens = from->chunk_tokens;
    load_take(from->load, &to->load);
    return take_name(decoder, from->name, to->name, sizeof to->name, "name") &&
           take_text(decoder, from->model, to->model, sizeof to->model, "model") &&
           take_text(decoder, from->backend, to->backend, sizeof to->backend, "backend") &&
           take_bytes(decoder, from->model_fp, to->model_fp, FINGERPRINT_BYTES, "model_fp") &&
           take_bytes(decoder, from->tokenizer_fp, to->tokenizer_fp, FINGERPRINT_BYTES,
                      "tokenizer_fp") &&
           take_bytes(decoder, from->numerics_fp, to->numerics_fp, FINGERPRINT_BYTES,
                      "numerics_fp") &&
           take_text(decoder, from->kv_endpoint, to->kv_endpoint, sizeof to->kv_endpoint,
                     "kv_endpoint");
}

enum status encode_peers(struct encoder *encoder, const struct message *message) {
    const struct peers *from = &message->u.peers;
    if (from->n > MESSAGE_PEERS_MAX)
        return STATUS_LIMIT;
    Wire__Peer peers[MESSAGE_PEERS_MAX];
    Wire__Peer *pointers[MESSAGE_PEERS_MAX];
    for (uint32_t i = 0; i < from->n; i++) {
        wire__peer__init(&peers[i]);
        peers[i].name = body_text(from->peers[i].name);
        peers[i].incarnation = from->peers[i].incarnation;
        peers[i].host = from->peers[i].host;
        peers[i].kv_endpoint = body_text(from->peers[i].kv_endpoint);
        pointers[i] = &peers[i];
    }
    Wire__Peers to = WIRE__PEERS__INIT;
    to.n_peers = from->n;
    to.peers = pointers;
    return encoder_pack(encoder, &to.base);
}

bool decode_peers(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Peers *from = body;
    struct peers *to = &message->u.peers;
    if (!take_count(decoder, from->n_peers, MESSAGE_PEERS_MAX, "peers"))
        return false;
    to->n = (uint32_t)from->n_peers;
    to->peers = take_array(decoder, to->n, sizeof *to->peers);
    if (!to->peers)
        return false;
    for (uint32_t i = 0; i < to->n; i++) {
        const Wire__Peer *peer = from->peers[i];
        to->peers[i].incarnation = peer->incarnation;
        to->peers[i].host = peer->host;
        if (!take_name(decoder, peer->name, to->peers[i].name, sizeof to->peers[i].name, "name") ||
            !take_text(decoder, peer->kv_endpoint, to->peers[i].kv_endpoint,
                       sizeof to->peers[i].kv_endpoint, "kv_endpoint"))
            return false;
    }
    return true;
}

enum status encode_ping(struct encoder *encoder, const struct message *message) {
    Wire__Ping to = WIRE__PING__INIT;
    to.t_ns = message->u.ping.t_ns;
    return encoder_pack(encoder, &to.base);
}

bool decode_ping(struct decoder *decoder, const void *body, struct message *message) {
    (void)decoder;
    const Wire__Ping *from = body;
    message->u.ping.t_ns = from->t_ns;
    return true;
}

enum status encode_beat(struct encoder *encoder, const struct message *message) {
    Wire__Load load;
    Wire__Beat to = WIRE__BEAT__INIT;
    load_put(&load, &message->u.beat.load);
    to.t_ns = message->u.beat.t_ns;
    to.state = message->u.beat.state;
    to.load = &load;
    return encoder_pack(encoder, &to.base);
}

bool decode_beat(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Beat *from = body;
    uint32_t state;
    if (!take_enum(decoder, from->state, WORKER_DRAINING + 1, &state, "state"))
        return false;
    message->u.beat.t_ns = from->t_ns;
    message->u.beat.state = (enum worker_state)state;
    load_take(from->load, &message->u.beat.load);
    return true;
}

enum status encode_digest(struct encoder *encoder, const struct message *message) {
    const struct digest *from = &message->u.digest;
    if (from->n > MESSAGE_ENTRIES_MAX)
        return STATUS_LIMIT;
    struct arena *arena = &encoder->codec->out;
    Wire__DigestEntry *entries = arena_alloc(arena, from->n * sizeof *entries);
    Wire__DigestEntry **pointers = arena_alloc(arena, from->n * sizeof *pointers);
    if (!entries || !pointers)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < from->n; i++) {
        const struct digest_entry *entry = &from->entries[i];
        wire__digest_entry__init(&entries[i]);
        entries[i].req_hi = entry->req.hi;
        entries[i].req_lo = entry->req.lo;
        entries[i].attempt = entry->attempt;
        entries[i].state = entry->state;
        entries[i].next_index = entry->next_index;
        pointers[i] = &entries[i];
    }
    Wire__Digest to = WIRE__DIGEST__INIT;
    to.seen_seq = from->seen_seq;
    to.n_entries = from->n;
    to.entries = pointers;
    return encoder_pack(encoder, &to.base);
}

bool decode_digest(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Digest *from = body;
    struct digest *to = &message->u.digest;
    if (!take_count(decoder, from->n_entries, MESSAGE_ENTRIES_MAX, "entries"))
        return false;
    to->seen_seq = from->seen_seq;
    to->n = (uint32_t)from->n_entries;
    to->entries = take_array(decoder, to->n, sizeof *to->entries);
    if (!to->entries)
        return false;
    for (uint32_t i = 0; i < to->n; i++) {
        const Wire__DigestEntry *entry = from->entries[i];
        uint32_t state;
        if (!take_request(decoder, entry->req_hi, entry->req_lo, &to->entries[i].req) ||
            !take_enum(decoder, entry->state, SEQUENCE_ENDED + 1, &state, "state"))
            return false;
        to->entries[i].attempt = entry->attempt;
        to->entries[i].state = (enum sequence_state)state;
        to->entries[i].next_index = entry->next_index;
    }
    return true;
}

enum status encode_reset(struct encoder *encoder, const struct message *message) {
    Wire__Reset to = WIRE__RESET__INIT;
    const struct reset *from = &message->u.reset;
    to.reason = from->reason;
    to.refusal = from->refusal;
    to.incarnation = from->incarnation;
    to.endpoint = body_text(from->endpoint);
    return encoder_pack(encoder, &to.base);
}

bool decode_reset(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Reset *from = body;
    uint32_t reason;
    if (!take_enum(decoder, from->reason, REASON_COUNT, &reason, "reason"))
        return false;
    struct reset *to = &message->u.reset;
    to->reason = (enum reason)reason;
    to->refusal = from->refusal < REFUSAL_COUNT ? (enum refusal)from->refusal : REFUSAL_OTHER;
    to->incarnation = from->incarnation;
    return take_text(decoder, from->endpoint, to->endpoint, sizeof to->endpoint, "endpoint");
}

enum status encode_drain(struct encoder *encoder, const struct message *message) {
    Wire__Drain to = WIRE__DRAIN__INIT;
    to.deadline_ms = message->u.drain.deadline_ms;
    to.order = message->u.drain.order;
    return encoder_pack(encoder, &to.base);
}

bool decode_drain(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Drain *from = body;
    uint32_t order;
    if (!take_enum(decoder, from->order, DRAIN_ORDERS, &order, "order"))
        return false;
    message->u.drain.deadline_ms = from->deadline_ms;
    message->u.drain.order = (enum drain_order)order;
    return true;
}
