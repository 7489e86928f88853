/* kernels/ref/ref.h: the reference backend, shared by its files only.
 *
 * Every operation in plain slow C, one thread, no blocking: what the other backends are compared
 * with, bit by bit. It keeps matrices row-major: floats (n, k_stored) made float32, or integers as
 * struct ref_group (n, k_stored / 32), at any stride of their scales. */
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
KERNELS_OP(weight_size, ref_weight_size);
KERNELS_OP(weight_pack, ref_weight_pack);
KERNELS_OP(embed, ref_embed);

/* ref/linear.c */
KERNELS_OP(linear, ref_linear);

/* ref/attend.c */
KERNELS_OP(rope_kv, ref_rope_kv);
KERNELS_OP(attend, ref_attend);

/* ref/moe.c */
KERNELS_OP(silu_mul, ref_silu_mul);
KERNELS_OP(add_gated, ref_add_gated);
KERNELS_OP(moe_route, ref_moe_route);
KERNELS_OP(moe_ffn, ref_moe_ffn);

/* ref/sample.c */
KERNELS_OP(sample, ref_sample);
