/* kernels/host.h: what a backend that computes on memory of the host says to the questions that a device
 * would have to think about: copies are copies, and an operation is done when it returns. */
#pragma once

#include "kernels/kernels.h"

void host_put(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
void host_get(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
NODISCARD enum status host_get_beside(struct kernels_ctx *ctx, void *to, const void *from,
                                      size_t n_bytes);
void host_step_begin(struct kernels_ctx *ctx, struct kernels_step *step);
NODISCARD enum status host_step_end(struct kernels_ctx *ctx);
