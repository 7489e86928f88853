#include "worker/step/rehearse.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"

#include <stdlib.h>

/* As in a step that serves, layers are asked for: so they are marked. */
static void ignore_layers(void *context, uint32_t layer_begin, uint32_t layer_end) {
    (void)context;
    (void)layer_begin;
    (void)layer_end;
}

/* A step of n sequences, each at its first token. Nothing is computed, so that it does not matter whose block they name. */
static void rehearse_step(struct forward *forward, struct batch *batch, struct plan_row *rows,
                          uint32_t n) {
    static const uint32_t id, block;
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct plan_row){.n_tokens = 1, .ids = &id, .blocks = &block, .sample = true};
    struct plan plan = {.n_rows = n, .n_tokens = n, .rows = rows};
    batch_build(batch, &plan);
    forward_run(forward, batch, ignore_layers, NULL);
    forward_end(forward);
}

uint32_t rehearse_run(struct forward *forward, struct batch *batch) {
    uint32_t most = batch->max_seqs < batch->max_tokens ? batch->max_seqs : batch->max_tokens;
    uint32_t n_shapes = 0;
    uint64_t begin_ns = clock_now_ns();
    struct plan_row *rows = calloc(most, sizeof *rows);
    if (!rows)
        return 0; /* they are then made as they come */
    for (uint32_t n = 1; n <= most; n++, n_shapes++) {
        n = forward_rehearse(forward, n);
        if (n == 0)
            break;
        rehearse_step(forward, batch, rows, n);
    }
    free(rows);
    if (n_shapes > 0)
        log_info("steps that decode are rehearsed", "shapes=%u ms=%llu", n_shapes,
                 (unsigned long long)((clock_now_ns() - begin_ns) / NS_PER_MS));
    return n_shapes;
}
