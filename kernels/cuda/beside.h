/* kernels/cuda/beside.h: KV for other workers, on a stream of its own while a step computes. */
#pragma once

#include "kernels/cuda/context.h"

NODISCARD enum status cuda_beside_open(struct kernels_ctx *ctx, struct error *error);
void cuda_beside_close(struct kernels_ctx *ctx);
void cuda_put_beside(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
NODISCARD enum status cuda_get_beside(struct kernels_ctx *ctx, void *to, const void *from,
                                      size_t n_bytes);
/* What the main stream is given from now on comes after all that was put beside. */
void cuda_beside_join(struct kernels_ctx *ctx);
