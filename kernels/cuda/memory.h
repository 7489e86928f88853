/* kernels/cuda/memory.h: memory of the device, and bytes of the host into it and back. */
#pragma once

#include "kernels/cuda/context.h"

void *cuda_alloc(struct kernels_ctx *ctx, size_t n_bytes);
void cuda_dealloc(struct kernels_ctx *ctx, void *memory, size_t n_bytes);
/* Makes room for activations of k_stored inputs. STATUS_NOMEM. */
NODISCARD enum status cuda_reserve(struct kernels_ctx *ctx, uint32_t k_stored);
void cuda_free_ints(struct kernels_ctx *ctx, const struct gpu_ints *ints);
void cuda_put(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
void cuda_get(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
