#include "worker/step/emit.h"

#include "base/clock.h"
#include "worker/core/engine.h"
#include "worker/step/budget.h"
#include "worker/step/receive.h"

#define LOOK_NS (5 * NS_PER_MS) /* in a long step the links are looked at this often */

void emit_begin(struct emit *emit, struct engine *engine, const struct budget *budget,
                const struct plan *plan) {
    emit->begin_ns = clock_now_ns();
    emit->measures = true;
    engine_step_begin(engine, emit->begin_ns, budget_us(budget, plan->n_tokens));
}

void emit_begin_ahead(struct engine *engine, const struct budget *budget, const struct plan *plan) {
    engine_step_begin(engine, clock_now_ns(), budget_us(budget, plan->n_tokens));
}

void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end) {
    struct receive *receive = context;
    uint64_t now_ns = clock_now_ns();
    engine_layers_done(receive->engine, now_ns, layer_begin, layer_end);
    if (now_ns - receive->looked_ns > LOOK_NS)
        receive_messages(receive); /* credits for chunks, cancels, pings */
}

void emit_end(struct emit *emit, struct engine *engine, struct budget *budget,
              const struct plan *plan, const struct sampled *sampled, bool as_it_came) {
    uint64_t now_ns = clock_now_ns();
    if (emit->measures)
        budget_learn(budget, plan->n_tokens, plan->n_prompt, (now_ns - emit->begin_ns) / NS_PER_US);
    emit->begin_ns = now_ns;
    emit->measures = as_it_came;
    emit_budget(engine, budget);
    engine_step_end(engine, now_ns, sampled);
}

void emit_budget(struct engine *engine, const struct budget *budget) {
    if (budget->most > 0)
        engine_budget(engine, budget->n_tokens);
}
