/* kernels/cuda/held.h: operations that wait for the next one, since one kernel may do both. */
#pragma once

#include "kernels/cuda/context.h"

/* Launches what is held. */
void cuda_release(struct kernels_ctx *ctx);
void cuda_hold_norm(struct kernels_ctx *ctx, const struct gpu_norm *norm);
void cuda_hold_sum(struct kernels_ctx *ctx, const struct gpu_sum *sum);
/* Of ranks whose devices reach each other's memory: parts that round, in fours (gpu_sum_ranks.whole), without slices. */
void cuda_hold_ranks(struct kernels_ctx *ctx, const struct gpu_sum_ranks *ranks);
void cuda_hold_join(struct kernels_ctx *ctx, const struct gpu_attend *join);
/* Whether the held norm writes the rows of a product as integers, too: launched with that. */
bool cuda_norm_quantizes(struct kernels_ctx *ctx, const struct gpu_quantize *quantize);
/* Rounds the rows of a product on tensor cores, with what is held where that ends in them. */
void cuda_round_rows(struct kernels_ctx *ctx, const struct gpu_round_rows *round);
/* n floats at `out` are written by what launches that keep rounded rows do, or by what is held: rows that were rounded from them
 * are others. */
void cuda_forget_rounded(struct kernels_ctx *ctx, const float *out, size_t n);
/* The sum that is held where its rows are `qkv`: it is no longer. */
struct gpu_sum cuda_take_sum(struct kernels_ctx *ctx, const float *qkv);
