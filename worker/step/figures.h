/* worker/step/figures.h: what the engine thread publishes of itself for other threads.
 *
 * Locking: the engine thread copies its figures in under one mutex, and any thread copies them
 * out. */
#pragma once

#include "proto/message.h"
#include "worker/core/engine.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct figures {
    struct load load;
    struct engine_repeats repeats;
    uint32_t chunk_tokens; /* the step budget in force */
    bool draining;
    uint64_t at_ns; /* when they were published */
};

struct figures_box {
    pthread_mutex_t mutex;
    struct figures latest; /* under `mutex` */
};

void figures_init(struct figures_box *box, uint64_t now_ns); /* all zero, published now */
void figures_fini(struct figures_box *box);                  /* fine on a zeroed one */

void figures_publish(struct figures_box *box, const struct figures *figures);
struct figures figures_latest(struct figures_box *box);
