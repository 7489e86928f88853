/* worker/ranks/weights.h: fills a family's slots from the checkpoint: packed once, in one piece of
 * the kernels' memory. Afterwards nothing points into the model's file. Start-up only. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct kernels;
struct kernels_ctx;
struct slots;

struct weights {
    const struct kernels *kernels; /* borrowed */
    struct kernels_ctx *ctx;       /* borrowed: closed after weights_fini() */
    unsigned char *memory;         /* owned */
    size_t n_bytes;
};

/* Bytes that weights_load() will take. STATUS_UNSUPPORTED, STATUS_INVALID naming the tensor. */
NODISCARD enum status weights_measure(const struct slots *slots, const struct kernels *kernels,
                                      size_t *n_bytes, struct error *error);

/* Takes the memory and fills every slot. Statuses as above, and STATUS_NOMEM. */
NODISCARD enum status weights_load(struct weights *weights, const struct slots *slots,
                                   const struct kernels *kernels, struct kernels_ctx *ctx,
                                   struct error *error);
void weights_fini(struct weights *weights); /* fine on a zeroed one */

/* How far the weights of all ranks in this process are. Any thread. */
struct weights_progress {
    uint64_t n_bytes;  /* to pack, as far as is known */
    uint64_t n_packed; /* of them */
};
struct weights_progress weights_progress(void);
void weights_progress_reset(void); /* while no rank loads */
