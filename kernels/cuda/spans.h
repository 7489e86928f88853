/* kernels/cuda/spans.h: attention of fast numerics, on tensor cores. */
#pragma once

#include "kernels/cuda/context.h"

/* Says whether the context's attention is by them, which its limits decide: cuda_spans.serves. The others are called only then. */
void cuda_spans_open(struct kernels_ctx *ctx);
/* Bytes of a step's tray. */
size_t cuda_spans_bytes(const struct kernels_limits *limits);
/* Lists the tiles of a step's first n_seqs sequences, which have n_tokens: at a place of the tray that follows from n_tokens. */
void cuda_spans_list(struct kernels_ctx *ctx, uint32_t n_tokens, uint32_t n_seqs);
/* All launches of a layer. */
void cuda_spans_attend(struct kernels_ctx *ctx, struct gpu_attend *attend);
