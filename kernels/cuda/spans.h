/* kernels/cuda/spans.h: attention of fast numerics, on tensor cores. */
#pragma once

#include "kernels/cuda/context.h"

/* Bytes of a step's tray. */
size_t cuda_spans_bytes(const struct kernels_limits *limits);
/* Lists the tiles of a step's first n_seqs sequences, which have n_tokens: at a place of the tray that follows from n_tokens. */
void cuda_spans_list(struct kernels_ctx *ctx, uint32_t n_tokens, uint32_t n_seqs);
/* Whether keys and values of this format, for the context's heads, are for it; and then all launches of a layer. */
bool cuda_spans_take(struct kernels_ctx *ctx, const struct kernels_kv *kv);
void cuda_spans_attend(struct kernels_ctx *ctx, struct gpu_attend *attend);
