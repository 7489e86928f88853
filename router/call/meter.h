/* router/call/meter.h: what the router counts, under vLLM's names where there is one and ours
 * elsewhere.
 *
 * The vllm:* figures of the engine are sums over the workers. Loop's thread only. */
#pragma once

#include "base/http/listener.h"
#include "base/net/loop.h"
#include "base/net/tls.h"
#include "base/status.h"
#include "router/call/formats.h"
#include "router/core/stage.h"
#include "router/trace/tracer.h"

#include <stdbool.h>
#include <stdint.h>

struct meter;
struct metrics;
struct router;

/* Registers everything. `model` is the label model_name. */
NODISCARD enum status meter_new(struct metrics *metrics, const char *model, struct meter **meter);
void meter_free(struct meter *meter); /* NULL is fine */

/* How a call ended, by its first choice. */
enum meter_outcome { METER_STOP, METER_LENGTH, METER_ABORT, METER_ERROR, METER_OUTCOMES };

/* The figures of a call that had sequences. */
struct meter_call {
    enum meter_outcome outcome;
    uint32_t n_prompt_tokens;
    uint32_t n_completion_tokens;
    uint32_t n_cached_tokens;
    uint32_t n_choices; /* as asked for */
    bool has_max_new;
    uint32_t max_new;
    uint64_t received_ns;
    uint64_t tokenized_ns;   /* when its prompts were ids */
    uint64_t queued_ns;      /* from there: how long its first sequence waited for a worker */
    uint64_t first_token_ns; /* 0: none came */
    uint32_t n_first;        /* tokens of its first sequence */
    uint32_t n_longest;      /* of the sequence with the most */
};
void meter_call(struct meter *meter, const struct meter_call *call);

/* A call was in that stage for so long. */
void meter_stage(struct meter *meter, enum request_stage stage, uint64_t spent_ns);

/* n_tokens came gap_ns after those before them. */
void meter_gap(struct meter *meter, uint64_t gap_ns, uint32_t n_tokens);

/* A request was answered: dialect's name, or "none", and HTTP status. */
void meter_http(struct meter *meter, const char *dialect, unsigned status);

/* The figures of this moment, which others keep. */
struct meter_now {
    const struct router *core; /* its own and its workers' */
    uint32_t n_calls;
    struct listener_counts http;
    struct tls_counts tls;
    uint64_t tls_ends_s; /* Unix time; 0 without TLS */
    struct formats_counts formats;
    size_t body_bytes;
    size_t output_bytes;
    uint64_t n_handshakes_failed;
    struct loop_turn_max turn;
    struct tracer_counts traces;
};

/* Takes them over. Before metrics_write(). */
void meter_refresh(struct meter *meter, const struct meter_now *now);
