/* worker/step/emit.h: what a step gives to others: its expected length, finished layers, tokens.
 * Engine thread only. */
#pragma once

#include <stdint.h>

struct engine;
struct estimate;
struct sampled;

struct emit {
    uint32_t chunk_tokens; /* most of a step; 0: the family does not compute, so that its steps take
                              as long as they were told to */
    uint32_t n_tokens;     /* of the step that runs */
    uint64_t begin_ns;
};

/* Before the forward pass: routers hear how long it will take. */
void emit_begin(struct emit *emit, struct engine *engine, const struct estimate *estimate,
                uint32_t n_tokens);

/* During it (struct family_step): layers on their way to decode workers, and a look at the links in
 * a long step. context: the struct receive. */
void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end);

/* After it: its length is learnt, and tokens go to the routers. */
void emit_end(const struct emit *emit, struct engine *engine, struct estimate *estimate,
              const struct sampled *sampled);

/* The coming steps are sized for ESTIMATE_STEP_US_GOAL by what is known now. */
void emit_budget(const struct emit *emit, struct engine *engine, const struct estimate *estimate);
