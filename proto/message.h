/* proto/message.h: what router and workers say to each other, as plain structs.
 *
 * The pure cores read and write these; proto/codec.h turns them into frames. Flat, bounded, ids and
 * indexes only, never memory addresses. Pointers inside a message are borrowed: by the sender until
 * the send call returns, by the receiver until it takes the next message.
 *
 * The conversation (why it is so: ARCHITECTURE.md, "The protocol"):
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
#define PROTO_MINOR 1 /* 1: RESET says why a worker is refused; ANNOUNCE: role, loading */

#define MESSAGE_NAME_MAX     64         /* bytes with NUL: worker, router and model names */
#define MESSAGE_ENDPOINT_MAX 256        /* bytes with NUL */
#define MESSAGE_KEY_MAX      41         /* Z85 CURVE public key with NUL; "" without CURVE */
#define MESSAGE_CONTROL_MAX  (1u << 20) /* bytes of each frame of a control message */
#define MESSAGE_CHUNK_MAX    (4u << 20) /* bytes of KV data in one CHUNK */
#define MESSAGE_TOKENS_MAX   262144     /* ids in one SUBMIT: what fits the raw frame */
#define MESSAGE_ENTRIES_MAX  4096       /* entries of a STEP, DIGEST or FORGET */
#define MESSAGE_PEERS_MAX    64
#define MESSAGE_STOP_IDS_MAX 64
#define MESSAGE_BIAS_MAX     1024
#define MESSAGE_ALLOWED_MAX  1024
#define MESSAGE_TOP_MAX      20 /* best tokens beside the sampled one */
#define FINGERPRINT_BYTES    32

enum message_type {
    MESSAGE_NONE,
    MESSAGE_ANNOUNCE,
    MESSAGE_HELLO,
    MESSAGE_WELCOME,
    MESSAGE_PEERS,
    MESSAGE_PING,
    MESSAGE_BEAT,
    MESSAGE_DIGEST,
    MESSAGE_RESERVE,
    MESSAGE_RESERVED,
    MESSAGE_REFUSED,
    MESSAGE_SUBMIT,
    MESSAGE_STEP,
    MESSAGE_FORGET,
    MESSAGE_RESEND,
    MESSAGE_CANCEL,
    MESSAGE_CANCELLED,
    MESSAGE_FAILED,
    MESSAGE_RESET,
    MESSAGE_DRAIN,
    MESSAGE_KV_HELLO,
    MESSAGE_KV_WELCOME,
    MESSAGE_CHUNK,
    MESSAGE_CHUNK_ACK,
    MESSAGE_COMMIT,
    MESSAGE_COMMIT_ACK,
    MESSAGE_ABORT,
    MESSAGE_FENCED,
    MESSAGE_TYPES
};

/* A sequence: one choice of one client request. hi: the router's incarnation; lo: its counter. */
struct request_id {
    uint64_t hi;
    uint64_t lo;
};

enum worker_role { ROLE_MIXED, ROLE_PREFILL, ROLE_DECODE };
enum worker_state { WORKER_READY, WORKER_DRAINING };

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
    REASON_NUMERICS,  /* NaN or no token left to choose */
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

/* Block and load figures of a worker, as of the message. Blocks: free + used + reserved +
 * quarantined + cached = total, always. */
struct load {
    uint64_t progress;         /* turns of the engine loop: the worker's liveness */
    uint32_t step_us_expected; /* of the step that starts now; 0 while idle */
    uint32_t step_us_typical;  /* running median */
    uint32_t blocks_total;
    uint32_t blocks_free;
    uint32_t blocks_used;
    uint32_t blocks_reserved; /* reserved or being filled for a hand-off */
    uint32_t blocks_quarantined;
    uint32_t blocks_cached; /* prefixes nobody uses: reclaimable */
    uint32_t n_running;
    uint32_t n_waiting;
    uint32_t prefill_tokens_queued;
    uint32_t tokens_per_s;
    uint64_t n_preemptions;
    uint64_t n_handoffs_in;
    uint64_t n_handoffs_out;
    uint64_t handoff_bytes;
    uint64_t n_stale_dropped;
    uint64_t prefix_queries;  /* tokens looked up in the prefix cache */
    uint64_t prefix_hits;     /* tokens found there */
    uint64_t n_prompt_tokens; /* computed by prefill */
    uint64_t n_tokens;        /* generated */
    uint64_t n_steps;
};

/* How the KV cache lies in a worker's memory. Equal layouts can hand over to each other. */
struct kv_layout {
    uint32_t n_layers;
    uint32_t block_tokens;
    uint32_t block_bytes; /* of one layer of one block */
    uint32_t tp;
};

struct announce {
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    char endpoint[MESSAGE_ENDPOINT_MAX]; /* where routers open their link */
    uint32_t role;    /* 1 + enum worker_role; 0: not said (before minor version 1) */
    uint32_t loading; /* 1 + percent while the model is loaded: no HELLO yet; 0: ready */
};

struct hello {
    uint32_t major;
    uint32_t minor;
    uint64_t router_id; /* the router's incarnation */
    uint64_t session;   /* random, new with every Hello; in the header of all that follows */
    char name[MESSAGE_NAME_MAX];
};

struct welcome {
    uint32_t major;
    uint32_t minor;
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    enum worker_role role;
    enum worker_state state;
    uint32_t pid;
    uint64_t host; /* hash of the machine's boot id: equal on one host */
    char model[MESSAGE_NAME_MAX];
    char backend[16];
    uint8_t model_fp[FINGERPRINT_BYTES];
    uint8_t tokenizer_fp[FINGERPRINT_BYTES];
    uint8_t numerics_fp[FINGERPRINT_BYTES]; /* model, numerics and tensor-parallel size: exact
                                               continuation is promised between equal ones */
    struct kv_layout kv;
    uint32_t context;                       /* most tokens of a sequence */
    uint32_t max_seqs;                      /* sequences it can hold */
    uint32_t chunk_tokens;                  /* tokens of a step */
    char kv_endpoint[MESSAGE_ENDPOINT_MAX]; /* where prefill workers connect */
    struct load load;
};

struct peer {
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    uint64_t host;
    char kv_endpoint[MESSAGE_ENDPOINT_MAX];
};

struct peers {
    uint32_t n;
    struct peer *peers; /* (n) at most MESSAGE_PEERS_MAX */
};

struct ping {
    uint64_t t_ns; /* the sender's clock: echoed, never compared across processes */
};

/* From worker to router; `t_ns` echoes the last PING. */
struct beat {
    uint64_t t_ns;
    enum worker_state state;
    struct load load;
};

enum sequence_state {
    SEQUENCE_RESERVED, /* blocks wait for a transfer */
    SEQUENCE_FILLING,  /* submitted for decode, not committed yet */
    SEQUENCE_WAITING,  /* queued */
    SEQUENCE_RUNNING,
    SEQUENCE_SENDING, /* prefill done, transfer not acknowledged yet */
    SEQUENCE_ENDED,   /* kept until FORGET */
};

struct digest_entry {
    struct request_id req;
    uint32_t attempt;
    enum sequence_state state;
    uint32_t next_index; /* index of the next output token of the whole answer */
};

struct digest {
    uint64_t seen_seq; /* seq of the last message from this router that it covers */
    uint32_t n;
    struct digest_entry *entries;
};

enum phase { PHASE_PREFILL, PHASE_DECODE, PHASE_BOTH };

struct sampling {
    float temperature;
    float top_p;
    float min_p;
    uint32_t top_k;
    float presence;
    float frequency;
    float repetition; /* 1: off */
    uint64_t seed;    /* always set: the router makes one where the client gave none */
    uint32_t choice;  /* stream of the generator: 0 .. n-1 */
    uint32_t max_new; /* output tokens of the whole answer, counted from the real prompt's end */
    uint32_t min_new; /* ends are banned before */
    bool ignore_eos;
    bool want_logprobs;
    uint32_t n_top;
    uint32_t n_stop_ids;
    const uint32_t *stop_ids; /* beside the model's own ends */
    uint32_t n_bias;
    const uint32_t *bias_ids;
    const float *bias;
    uint32_t n_allowed;
    const uint32_t *allowed_ids;
};

/* Defaults: temperature 1, top_p 1, repetition 1, everything else off. */
void sampling_init(struct sampling *sampling);

struct reserve {
    struct request_id req;
    uint32_t attempt;
    uint32_t n_tokens; /* prompt and what was emitted before */
    uint32_t n_hashes;
    const struct map_key *hashes; /* of the full blocks (model/prefix.h), for the prefix cache */
};

struct reserved {
    struct request_id req;
    uint32_t attempt;
    uint32_t gen;           /* names the reservation; new for every one */
    uint32_t cached_tokens; /* whole blocks already there: not to be pushed */
    uint32_t lease_ms;
};

struct refused {
    struct request_id req;
    uint32_t attempt;
    enum reason reason;
};

/* Where a hand-off goes to or comes from. */
struct xfer {
    uint64_t transfer_id; /* random per attempt */
    uint32_t gen;
    uint32_t cached_tokens;
    char peer[MESSAGE_NAME_MAX]; /* the other worker */
    uint64_t peer_incarnation;
};

struct submit {
    struct request_id req;
    uint32_t attempt;
    enum phase phase;
    uint32_t n_prompt; /* real prompt; ids beyond it were emitted before */
    uint32_t n_tokens; /* real prompt + emitted */
    const uint32_t *tokens;
    uint64_t salt;      /* tenant's share of the prefix hash */
    uint32_t priority;  /* lower runs first */
    uint32_t budget_ms; /* 0: none; what is left of the client's deadline */
    bool has_xfer;
    struct xfer xfer;
    struct sampling sampling;
};

struct token_logprobs {
    float logprob;
    uint32_t n_top;
    uint32_t top_ids[MESSAGE_TOP_MAX];
    float top_logprobs[MESSAGE_TOP_MAX];
};

struct step_entry {
    struct request_id req;
    uint32_t attempt;
    uint32_t first_index; /* of tokens[0] in the whole answer */
    uint32_t n_tokens;
    const uint32_t *tokens;
    const struct token_logprobs *logprobs; /* (n_tokens) or NULL */
    enum finish finish;                    /* with the last token */
    uint32_t cached_tokens;                /* of the prompt, found in the prefix cache */
};

struct step {
    uint32_t n;
    struct step_entry *entries;
    struct load load;
};

struct attempt_id {
    struct request_id req;
    uint32_t attempt;
};

struct forget {
    uint32_t n;
    struct attempt_id *attempts;
};

struct resend {
    struct request_id req;
    uint32_t attempt;
    uint32_t from; /* first index wanted */
};

struct cancel {
    struct request_id req;
    uint32_t attempt; /* this one and all lower ones */
    enum reason reason;
};

struct failed {
    struct request_id req;
    uint32_t attempt;
    enum phase phase;
    enum reason reason;
};

/* The session is over, from either side. A router that refuses the worker for good says why; with
 * REFUSAL_NAME it also says who has the name. */
struct reset {
    enum reason reason;
    enum refusal refusal;
    uint64_t incarnation;
    char endpoint[MESSAGE_ENDPOINT_MAX];
};

enum drain_order {
    DRAIN_STOP, /* take no new work */
    DRAIN_UNDO, /* take work again; nothing to one that does, or whose process is ending */
    DRAIN_EXIT, /* take no new work, and end with 0 once empty */
    DRAIN_ORDERS
};

struct drain {
    uint32_t deadline_ms;   /* what runs then is failed and goes elsewhere; 0: never */
    enum drain_order order; /* older peers know DRAIN_STOP alone */
};

/* First message on a KV link, in both directions. */
struct kv_hello {
    uint32_t major;
    uint32_t minor;
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    uint64_t host;
    uint32_t pid;
    uint8_t layout_fp[FINGERPRINT_BYTES];
    char transport[16];  /* wanted; in KV_WELCOME: agreed */
    uint8_t opaque[256]; /* the transport's own peer address */
    uint32_t n_opaque;
    uint32_t credits; /* chunks in flight allowed (KV_WELCOME) */
};

/* One piece of KV: layers [layer_begin, layer_end) of the transfer's blocks [block_begin,
 * block_end), counted from the sequence's first block; layer-major, each run
 * block_bytes per block. */
struct chunk {
    uint64_t transfer_id;
    uint32_t gen;
    uint32_t index; /* 0, 1, 2 ... of this transfer */
    uint32_t layer_begin;
    uint32_t layer_end;
    uint32_t block_begin;
    uint32_t block_end;
    uint32_t n_bytes;
    uint64_t checksum; /* XXH3-64 of the bytes */
    uint64_t where;    /* the transport's: offset in its ring; unused when the bytes ride along */
    const void *bytes; /* borrowed: the raw frame, or NULL */
};

struct chunk_ack {
    uint64_t transfer_id;
    uint32_t gen;
    uint32_t n_done; /* chunks of this transfer taken so far */
    uint64_t where;  /* the transport's: what may be reused */
};

struct commit {
    uint64_t transfer_id;
    uint32_t gen;
    struct request_id req;
    uint32_t attempt;
    uint32_t n_tokens; /* whose KV was written: prompt and emitted, without the new one */
    uint32_t n_chunks;
    uint32_t first_index;
    uint32_t first_token;
    enum finish finish;
    bool has_logprobs;
    struct token_logprobs logprobs;
    uint32_t cached_tokens; /* P's own prefix hits, for usage */
};

struct transfer_end { /* COMMIT_ACK, ABORT, FENCED */
    uint64_t transfer_id;
    uint32_t gen;
    enum reason reason;
};

struct message {
    enum message_type type;
    uint64_t session; /* between router and worker; 0 on KV links and in ANNOUNCE */
    uint64_t seq;     /* per link and direction, rising: the n-th message that the bus took; stamped
                         there. Gaps are what a CANCEL took back; 0: overtook others (bus_send) */
    union {
        struct announce announce;
        struct hello hello;
        struct welcome welcome;
        struct peers peers;
        struct ping ping;
        struct beat beat;
        struct digest digest;
        struct reserve reserve;
        struct reserved reserved;
        struct refused refused;
        struct submit submit;
        struct step step;
        struct forget forget;
        struct resend resend;
        struct cancel cancel; /* CANCEL and CANCELLED */
        struct failed failed;
        struct reset reset;
        struct drain drain;
        struct kv_hello kv_hello; /* KV_HELLO and KV_WELCOME */
        struct chunk chunk;
        struct chunk_ack chunk_ack;
        struct commit commit;
        struct transfer_end transfer_end; /* COMMIT_ACK, ABORT, FENCED */
    } u;
};

/* "submit", "step", ... for logs and metrics. */
const char *message_name(enum message_type type);

static inline bool request_id_equal(struct request_id a, struct request_id b) {
    return a.hi == b.hi && a.lo == b.lo;
}
