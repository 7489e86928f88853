/* worker/step/emit.h: what a step gives to others: its expected length, finished layers, tokens.
 * Engine thread only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct budget;
struct engine;
struct plan;
struct sampled;

struct emit {
    uint64_t begin_ns; /* of the step that runs; or the end of the one before, if that came later */
    bool measures;     /* that is when it began to be computed */
};

/* Before the forward pass: routers hear how long it will take. */
void emit_begin(struct emit *emit, struct engine *engine, const struct budget *budget,
                const struct plan *plan);

/* The same of a step ahead, which has its turn when the one before has ended. */
void emit_begin_ahead(struct engine *engine, const struct budget *budget, const struct plan *plan);

/* During it (struct family_step): layers on their way to decode workers, and a look at the links in
 * a long step. context: the struct receive. */
void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end);

/* After it: its length is learnt, and tokens go to the routers. A step that is ahead has its turn from
 * now on; its length will be learnt where this one's end was seen as it came. */
void emit_end(struct emit *emit, struct engine *engine, struct budget *budget,
              const struct plan *plan, const struct sampled *sampled, bool as_it_came);

/* The coming steps are sized by what is known now. */
void emit_budget(struct engine *engine, const struct budget *budget);
