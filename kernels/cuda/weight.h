/* kernels/cuda/weight.h: matrices of a checkpoint in the layouts of kernels/cuda/launch.h. */
#pragma once

#include "kernels/cuda/context.h"

size_t cuda_weight_size(const struct weight_source *source, struct error *error);
NODISCARD enum status cuda_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                                       void *memory, struct weight *weight, struct error *error);
/* Where the parts of a packed matrix lie. */
struct gpu_matrix cuda_matrix(const struct weight *weight);
