/* proto/message.h: what router and workers say to each other, as plain structs.
 *
 * The pure cores read and write these; proto/codec.h turns them into frames. Flat, bounded, ids and
 * indexes only, never memory addresses. Pointers inside a message are borrowed: by the sender until
 * the send call returns, by the receiver until it takes the next message. The fields of the structs
 * are the rows of proto/message.def, the types of messages those of proto/types.def.
 *
 * The conversation (why it is so: docs/architecture/request.md, "The protocol"):
 *
 *   from      to        message    when
 *   worker    router    ANNOUNCE   at start and every second, to the announce socket
 *   router    worker    HELLO      first on a fresh link, one link for each worker incarnation
 *   worker    router    WELCOME    in answer: the session is up
 *   router    worker    PEERS      to all its workers, whenever the set of them changes
 *   router    worker    PING       every 500 ms: the router's lease
 *   worker    router    BEAT       at least every 100 ms, by the engine loop itself; a STEP counts
 *   worker    router    DIGEST     every second: what it holds
 *
 * A request handed over from P, which prefills, to D, which decodes (both SUBMITs name the
 * transfer):
 *
 *        router                    P                          D
 *          |-- RESERVE ------------------------------------->|
 *          |<------------------------------------ RESERVED --|   (gen); or REFUSED
 *          |-- SUBMIT (PREFILL) --->|                        |
 *          |-- SUBMIT (DECODE) ----------------------------->|   at the same time
 *          |                        |-- CHUNK * ------------>|   as credits allow
 *          |                        |<--------- CHUNK_ACK * -|   absolute counts
 *          |<------ STEP {token 0} -|                        |
 *          |                        |-- COMMIT {token 0} --->|
 *          |                        |<--------- COMMIT_ACK --|   P may free its blocks
 *          |<------------------------- STEP {token 0 again, token 1, ...}
 *          |-- FORGET ------------->|----------------------->|   to both, after the end
 *
 * A request that stays: router -> W SUBMIT(BOTH), no reservation.
 *
 * Anything that ends early is said: CANCEL (router -> worker; answered CANCELLED), FAILED (worker
 * -> router: this attempt cannot go on here), ABORT (P <-> D: this transfer is over), FENCED (D ->
 * P or P -> D: nothing of this transfer will be written any more). A transfer message for something
 * unknown is answered ABORT. What carries a session, attempt or gen that is not current is dropped
 * and counted. */
#pragma once

#include "base/map.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define PROTO_MAJOR 1
#define PROTO_MINOR 3 /* 1: RESET says why a worker is refused; ANNOUNCE: role, loading */

/* From this minor version on a request may have a grammar; an older worker would pass over it. */
#define PROTO_MINOR_GRAMMAR 2
/* And from this one on the grammar may begin with this byte (model/text/grammar/pack.h). */
#define PROTO_MINOR_STRINGS     3
#define MESSAGE_GRAMMAR_STRINGS 2

#define MESSAGE_NAME_MAX     64         /* bytes with NUL: worker, router and model names */
#define MESSAGE_ENDPOINT_MAX 256        /* bytes with NUL */
#define MESSAGE_CONTROL_MAX  (1u << 20) /* bytes of each frame of a control message */
#define MESSAGE_CHUNK_MAX    (4u << 20) /* bytes of KV data in one CHUNK */
#define MESSAGE_TOKENS_MAX   262144     /* ids in one SUBMIT: what fits the raw frame */
#define MESSAGE_ENTRIES_MAX  4096       /* entries of a STEP, DIGEST or FORGET */
#define MESSAGE_PEERS_MAX    64
#define MESSAGE_TRACE_BYTES  16 /* of ids of W3C Trace Context */
#define MESSAGE_SPAN_BYTES   8
#define MESSAGE_STOP_IDS_MAX 64
#define MESSAGE_BIAS_MAX     1024
#define MESSAGE_ALLOWED_MAX  1024
#define MESSAGE_TOP_MAX      20 /* best tokens beside the sampled one */
#define MESSAGE_GRAMMAR_MAX  65536
/* Longest step that a worker announces. By intent a step takes 120 ms; a slow CPU with a large model takes seconds for the smallest
 * one. A figure above is a fault and not believed. It bounds the wait for a silent worker whose steps have taken so long: 4 of them,
 * 60 s. */
#define MESSAGE_STEP_US_MAX 15000000u
#define FINGERPRINT_BYTES   32

enum message_type {
    MESSAGE_NONE,
#define TYPE(NAME, name, body, is_bulk, raw_max) MESSAGE_##NAME,
#define ALSO                                     TYPE
#include "proto/types.def"
    MESSAGE_TYPES
};

/* A sequence: one choice of one client request. hi: the router's incarnation; lo: its counter. */
struct request_id {
    uint64_t hi;
    uint64_t lo;
};

enum worker_role { ROLE_MIXED, ROLE_PREFILL, ROLE_DECODE };
const char *worker_role_name(unsigned role); /* "mixed", "prefill", "decode"; NULL past the last */
enum worker_state { WORKER_READY, WORKER_DRAINING };

/* What is wrong with the name of a worker or router, as words behind "name"; NULL: nothing. 1 to 63
 * bytes of UTF-8 without control characters and '/': names are files' names and parts of paths. */
const char *message_name_fault(const char *name);

/* What a sequence ends with. */
enum finish {
    FINISH_NONE,   /* goes on */
    FINISH_STOP,   /* an end token or a stop id */
    FINISH_LENGTH, /* max_new tokens, or the context is full */
    FINISH_ERROR,  /* the model's numbers were unusable (NaN) */
};

/* Why something was refused, failed or aborted. */
enum reason {
    REASON_NONE,
    REASON_BUSY,      /* no room now: try elsewhere or later */
    REASON_TOO_LONG,  /* never fits this worker: context or pool */
    REASON_INVALID,   /* breaks a rule; retrying does not help */
    REASON_UNKNOWN,   /* no such request, reservation or transfer */
    REASON_STALE,     /* an attempt, generation or session that is over */
    REASON_DRAINING,  /* no new work here */
    REASON_CANCELLED, /* somebody asked for it */
    REASON_TRANSFER,  /* the KV transfer broke: checksum, peer lost, link lost */
    REASON_LEASE,     /* a lease ran out */
    REASON_MISMATCH,  /* another protocol, model, tokenizer, layout */
    REASON_NUMERICS,  /* the model's own logits are unusable: NaN, infinite */
    REASON_GRAMMAR, /* what the request asks for leaves no token, or its grammar cannot be followed */
    REASON_COUNT
};
const char *reason_name(enum reason reason);

/* Why a router gives a worker nothing. Numbers stay: they are on the wire. */
enum refusal {
    REFUSAL_NONE,
    REFUSAL_OTHER,     /* one that a newer router knows */
    REFUSAL_PROTOCOL,  /* another major version */
    REFUSAL_MODEL,     /* other weights than the router's model */
    REFUSAL_TOKENIZER, /* its prompts would be cut otherwise */
    REFUSAL_LIMITS,    /* a context, batch or block of zero tokens */
    REFUSAL_IDENTITY,  /* not the one that was announced at its endpoint */
    REFUSAL_NAME,      /* another live worker has its name */
    REFUSAL_COUNT
};
const char *refusal_name(enum refusal refusal); /* "other_model": for logs, JSON, metrics */
const char *refusal_text(enum refusal refusal); /* "another model": for people */

/* How the KV cache lies in a worker's memory. Equal layouts can hand over to each other. */
struct kv_layout {
    uint32_t n_layers;
    uint32_t block_tokens;
    uint32_t block_bytes; /* of one layer of one block */
    uint32_t tp;
};

enum sequence_state {
    SEQUENCE_RESERVED, /* blocks wait for a transfer */
    SEQUENCE_FILLING,  /* submitted for decode, not committed yet */
    SEQUENCE_WAITING,  /* queued */
    SEQUENCE_RUNNING,
    SEQUENCE_SENDING, /* prefill done, transfer not acknowledged yet */
    SEQUENCE_ENDED,   /* kept until FORGET */
};

enum phase { PHASE_PREFILL, PHASE_DECODE, PHASE_BOTH };

enum drain_order {
    DRAIN_STOP, /* take no new work */
    DRAIN_UNDO, /* take work again; nothing to one that does, or whose process is ending */
    DRAIN_EXIT, /* take no new work, and end with 0 once empty */
    DRAIN_ORDERS
};

struct token_logprobs {
    float logprob;
    uint32_t n_top;
    uint32_t top_ids[MESSAGE_TOP_MAX];
    float top_logprobs[MESSAGE_TOP_MAX];
};

/* The structs of the messages, from the rows of message.def. */
/* clang-format off */
#define STRUCT(name, Body)                    struct name {
#define U32(name)                             uint32_t name;
#define U64(name)                             uint64_t name;
#define FLOAT(name)                           float name;
#define BOOL(name)                            bool name;
#define COUNT(name, max)                      uint32_t name;
#define ENUM(type, name, count)               enum type name;
#define LENIENT(type, name, count, other)     type name;
#define TEXT(name, size)                      char name[size];
#define NAME(name, size)                      char name[size];
#define BYTES(name, size)                     uint8_t name[size];
#define DATA(name, n, size)                   uint8_t name[size]; uint32_t n;
#define BLOB(name, n, max)                    uint32_t n; const uint8_t *name;
#define REQUEST(name)                         struct request_id name;
#define NESTED(type, name)                    struct type name;
#define REQUIRED(type, name)                  struct type name;
#define OPTIONAL(type, name, has)             bool has; struct type name;
#define LIST(type, name, n, max)              uint32_t n; struct type *name;
#define STEP_ENTRIES(type, name, n, max)      uint32_t n; struct type *name;
#define U32S(name, n, max)                    uint32_t n; const uint32_t *name;
#define FLOATS(name, n)                       const float *name;
#define LOGPROBS(name, n)                     const struct token_logprobs *name;
#define LOGPROB(name, has)                    bool has; struct token_logprobs name;
#define RAW(type, name, n)                    const type *name;
#define PAYLOAD(name, n)                      const void *name;
#define PLAIN(type, name)                     struct type name;
#define PART(path, name)
#define SEND_RULE(rule)
#define READ_RULE(rule)
#define END(name)                             };
/* clang-format on */
#include "proto/message.def"

/* Defaults: temperature 1, top_p 1, repetition 1, everything else off. */
void sampling_init(struct sampling *sampling);

struct message {
    enum message_type type;
    uint64_t session; /* between router and worker; 0 on KV links and in ANNOUNCE */
    uint64_t seq;     /* per link and direction, rising: the n-th message that the bus took; stamped
                         there. Gaps are what a CANCEL took back; 0: overtook others (bus_send) */
    union {
#define TYPE(NAME, name, body, is_bulk, raw_max) struct body body;
#define ALSO(NAME, name, body, is_bulk, raw_max)
#include "proto/types.def"
    } u;
};

/* "submit", "step", ... for logs and metrics. */
const char *message_name(enum message_type type);

static inline bool request_id_equal(struct request_id a, struct request_id b) {
    return a.hi == b.hi && a.lo == b.lo;
}
