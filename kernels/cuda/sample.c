/* kernels/cuda/sample.c: tokens are chosen on the host, by the cpu backend, so that the choice has its bits. */
#include "kernels/cuda/cuda.h"

void cuda_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                 const struct sample_params *params, struct sample_result *results) {
    for (uint32_t row = 0; row < n_rows; row++) {
        cuda_get(ctx, ctx->host_logits, logits + (size_t)row * n_vocab,
                 n_vocab * sizeof *ctx->host_logits);
        ctx->host->sample(ctx->host_ctx, ctx->host_logits, 1, n_vocab, params + row, results + row);
    }
}
