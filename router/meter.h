/* router/meter.h: what the router counts, under vLLM's names where there is one and ours elsewhere.
 *
 * The vllm:* figures of the engine are sums over the workers. Loop's thread only. */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct call;
struct meter;
struct metrics;
struct serving;

/* Registers everything. `model` is the label model_name. */
NODISCARD enum status meter_new(struct metrics *metrics, const char *model, struct meter **meter);
void meter_free(struct meter *meter); /* NULL is fine */

/* A call has ended: its figures. */
void meter_call(struct meter *meter, const struct call *call);

/* n_tokens came gap_ns after those before them. */
void meter_gap(struct meter *meter, uint64_t gap_ns, uint32_t n_tokens);

/* A request was answered: dialect's name, or "none", and HTTP status. */
void meter_http(struct meter *meter, const char *dialect, unsigned status);

/* Takes the core's and the workers' figures of this moment. Before metrics_write(). */
void meter_refresh(struct meter *meter, const struct serving *serving);
