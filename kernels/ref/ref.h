/* kernels/ref/ref.h: the reference backend, shared by its files only.
 *
 * Every operation in plain slow C, one thread, no blocking: what the other backends are compared
 * with, bit by bit. It keeps matrices row-major: floats (n, k_stored) made float32, or integers as
 * struct ref_group (n, k_stored / 32), whatever the stride of their scales. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/numbers.h"

struct ref_group {
    int8_t q[GROUP];
    float scale[2]; /* of each half */
    float min;
};

struct sample_candidate {
    float p;
    uint32_t id;
};

struct kernels_ctx {
    struct kernels_limits limits;
    uint32_t max_stored; /* the widest of max_dim and the matrices' k_stored */
    float *gathered;     /* owned (max_stored): one row in the matrix's order */
    int8_t *q;           /* owned (max_stored): one row of activations as integers */
    float *scales;       /* owned (max_stored / 32) */
    int8_t *fine_q;      /* owned (max_stored): what q leaves, for 8-bit matrices */
    float *fine_scales;  /* owned (max_stored / 32) */
    float *rounded;      /* owned (max_stored): one row rounded to bfloat16 */
    float *scores;       /* owned (ATTEND_CHUNK) */
    float *values;       /* owned (head_dim): values of one chunk, weighted */
    struct sample_candidate *candidates; /* owned (n_vocab) */
    float *raw;                          /* owned (n_vocab): logits before edits */
    float *allowed;                      /* owned (n_vocab) */
};

/* ref/rows.c */
/* RMSNorm of one row; out may be x. In a thread with flush-to-zero set. */
void ref_norm_row(float *out, const float *x, const float *gain, float eps, uint32_t dim);

/* Makes the scratch memory fit rows of k_stored inputs; STATUS_NOMEM leaves it as it was. */
NODISCARD enum status ref_reserve(struct kernels_ctx *ctx, uint32_t k_stored);
void ref_free_rows(struct kernels_ctx *ctx);

/* ref/weight.c */
size_t ref_weight_size(const struct weight_source *source, struct error *error);
NODISCARD enum status ref_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                                      void *memory, struct weight *weight, struct error *error);
void ref_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
               const struct kernels_batch *batch, uint32_t id_begin);

/* ref/linear.c */
void ref_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                const struct weight *weight, uint32_t n_rows, enum epilogue epilogue);

/* ref/attend.c */
void ref_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                 const struct rope *rope, const struct kernels_kv *kv);
void ref_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                const float *alibi, uint32_t window);

/* ref/moe.c */
void ref_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                  size_t n);
void ref_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                   uint32_t n_rows, uint32_t dim);
void ref_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                   uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise);
void ref_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                 const float *weights, uint32_t n_rows, uint32_t n_active,
                 const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                 float *scratch);

/* ref/sample.c */
void ref_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                const struct sample_params *params, struct sample_result *results);
