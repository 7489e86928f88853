/* router/call/call.h: a client's call: what is known of it from its request to the end of its
 * reply.
 *
 * A call has one or more sequences: choices times prompts. All are admitted or none. stages.c takes
 * it through its stages. Loop's thread only, but for what a job of the pool has while it works. */
#pragma once

#include "base/buf.h"
#include "base/http/exchange.h"
#include "base/list.h"
#include "base/map.h"
#include "base/net/loop.h"
#include "base/net/pool.h"
#include "router/api/dialect.h"
#include "router/call/answer.h"
#include "router/call/call_trace.h"
#include "router/call/client.h"
#include "router/call/sequence.h"
#include "router/call/text.h"
#include "router/call/usage.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stdint.h>

struct quota;
struct serving;

#define CALL_NEVER UINT64_MAX /* of a time: the call was not there */

/* What has been made of a call. */
enum call_made {
    MADE_NOTHING, /* there are bytes */
    MADE_ASK,     /* they are parsed */
    MADE_IDS,     /* its prompts are ids */
    MADE_REPLY,   /* `whole` is the reply, if `build_status` is OK */
};

struct call {
    struct list link;  /* of those with news */
    struct list every; /* of all calls */
    struct serving *serving;
    const struct dialect *dialect;
    struct client client;
    struct quota *quota; /* borrowed: of its key; NULL: no key has any */
    enum request_stage stage;
    enum call_made made;
    bool working; /* a job of the pool has it */
    bool failed;  /* `error` says why; the reply is the error */
    struct pool_job job;
    struct list waits; /* of those that wait for memory to parse in */
    struct buf body;   /* owned: until it is parsed */
    size_t n_bytes;    /* that it had */
    size_t n_charged;  /* bytes that the budget of all bodies holds for it */
    struct ask ask;
    struct api_error error;
    struct reply reply;
    struct text_stops stops;
    struct prefix_hashes {
        struct map_key *keys; /* owned (n) */
        uint32_t n;
    } * hashes; /* owned (n_prompts) */
    uint64_t salt;
    struct sequence *sequences; /* owned (n_sequences) */
    uint32_t n_sequences;
    uint32_t n_replays; /* of all sequences */
    uint64_t n_taken;   /* tokens that the quota counts for it while it runs */
    struct buf whole;   /* owned: the reply, where it is not a stream */
    enum status build_status;
    char request_id[EXCHANGE_ID_MAX + 1]; /* x-request-id, for the log */
    char traceparent[56]; /* of W3C Trace Context, for the log; "": none, or not a valid one */
    struct call_trace trace;
    uint64_t received_ns;
    uint64_t deadline_ns; /* 0: none */
    uint64_t admitted_ns; /* when the core was asked to let it in; 0: never */
    uint64_t first_token_ns;
    uint64_t stage_ns[STAGE_COUNT]; /* how long it was in each, or CALL_NEVER; of place and dispatch
                                       its first sequence */
    uint64_t since_ns;              /* when it came into this stage */
    enum request_stage left;        /* the stage that it failed in, or finish */
};

/* All calls, and the sequences of all calls by their numbers. */
struct calls {
    struct serving *serving;
    struct list noted; /* of struct call.link */
    struct list every; /* of struct call.every */
    struct loop_kick kick;
    struct sequence **sequences; /* owned (n_max): by number */
    uint32_t *free;              /* owned (n_max): stack of numbers */
    uint32_t n_free;
    uint32_t n_max;
    uint32_t n_calls;
};

/* Puts the call on the list of those to be looked at before the loop sleeps. */
void call_note(struct call *call);

/* A number for a sequence. STATUS_BUSY when all are taken. */
NODISCARD enum status call_take_number(struct calls *calls, struct sequence *sequence);
void call_give_number(struct calls *calls, struct sequence *sequence);

/* What the workers had of it, once its sequences have ended; a prompt counts once, whatever its choices. */
struct usage_call call_usage(const struct call *call);

/* What its answer is made of. */
struct answer call_answer(struct call *call);

/* Cancels what the core still has of it. */
void call_cancel(struct call *call);

/* call_fail() in the words for a call that the core does not take, or gives up: STATUS_LIMIT for a prompt
 * that the workers of now cannot hold, STATUS_TIMEOUT for its deadline. */
void call_refuse(struct call *call, enum status status);

/* Puts the error aside as the call's reply; the next stage is its end. */
void call_fail(struct call *call, enum status status, const char *code, const char *text);
