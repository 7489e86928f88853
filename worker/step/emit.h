/* worker/step/emit.h: what a step gives to others: its expected length, finished layers, tokens.
 * Engine thread only. */
#pragma once

#include <stdint.h>

struct budget;
struct engine;
struct plan;
struct sampled;

struct emit {
    uint64_t begin_ns; /* of the step that runs */
};

/* Before the forward pass: routers hear how long it will take. */
void emit_begin(struct emit *emit, struct engine *engine, const struct budget *budget,
                const struct plan *plan);

/* During it (struct family_step): layers on their way to decode workers, and a look at the links in
 * a long step. context: the struct receive. */
void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end);

/* After it: its length is learnt, and tokens go to the routers. */
void emit_end(const struct emit *emit, struct engine *engine, struct budget *budget,
              const struct plan *plan, const struct sampled *sampled);

/* The coming steps are sized by what is known now. */
void emit_budget(struct engine *engine, const struct budget *budget);
