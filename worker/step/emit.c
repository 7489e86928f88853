#include "worker/step/emit.h"

#include "base/clock.h"
#include "worker/core/engine.h"
#include "worker/step/estimate.h"
#include "worker/step/receive.h"

#define LOOK_NS (5 * NS_PER_MS) /* in a long step the links are looked at this often */

void emit_begin(struct emit *emit, struct engine *engine, const struct estimate *estimate,
                uint32_t n_tokens) {
    emit->n_tokens = n_tokens;
    emit->begin_ns = clock_now_ns();
    engine_step_begin(engine, emit->begin_ns, estimate_us(estimate, n_tokens));
}

void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end) {
    struct receive *receive = context;
    uint64_t now_ns = clock_now_ns();
    engine_layers_done(receive->engine, now_ns, layer_begin, layer_end);
    if (now_ns - receive->looked_ns > LOOK_NS)
        receive_messages(receive); /* credits for chunks, cancels, pings */
}

void emit_end(const struct emit *emit, struct engine *engine, struct estimate *estimate,
              const struct sampled *sampled) {
    uint64_t now_ns = clock_now_ns();
    estimate_learn(estimate, emit->n_tokens, (now_ns - emit->begin_ns) / NS_PER_US);
    if (emit->n_tokens >= 16)
        emit_budget(emit, engine, estimate);
    engine_step_end(engine, now_ns, sampled);
}

void emit_budget(const struct emit *emit, struct engine *engine, const struct estimate *estimate) {
    if (emit->chunk_tokens > 0)
        engine_budget(engine, estimate_tokens(estimate, emit->chunk_tokens, ESTIMATE_STEP_US_GOAL));
}
