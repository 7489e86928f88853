/* kernels/cpu/cpu.h: the cpu backend, shared by its files only: how operations are cut into items
 * for the pool. Every cut is over rows, panels, tokens or heads, never over a sum. */
#pragma once

#include "kernels/cpu/path.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/kernels.h"

#define LINEAR_ROWS      512 /* rows quantized at once: bounds the scratch memory */
#define LINEAR_ROWS_MIN  16  /* and as many in the smallest context */
#define LINEAR_TASKS_MAX 64  /* products that share the pool at once */
#define SPAN_TOKENS      16  /* tokens of one attention item */

/* A weight and a token id, while tokens are chosen. */
struct candidate {
    float p;
    uint32_t id;
};

/* Scratch memory of one thread, for sampling. */
struct sampler {
    float *weights;               /* (n_vocab) exp of the logits */
    float *raw;                   /* (n_vocab) logits before edits; also the allowed ones */
    float *maxima;                /* (blocks of the vocabulary) */
    float *sums;                  /* (blocks) */
    uint32_t *ids;                /* (n_vocab) */
    struct candidate *candidates; /* (n_vocab) */
};

/* Neighbouring tokens of one sequence. */
struct span {
    uint32_t seq;
    uint32_t token;
    uint32_t n_tokens;
};

struct kernels_ctx {
    struct kernels_limits limits;
    const struct path *path;
    uint32_t n_threads;
    struct thread_pool *pool; /* owned */
    uint8_t *tiles;           /* owned: tiles_rows rows of activations, as integers or bfloat16 */
    uint32_t tiles_rows;      /* fixed: LINEAR_ROWS at most */
    float *gathered;          /* owned (n_threads, TILE_ROWS_MAX, max_stored) or NULL: rows of x in
                                 the order of a matrix */
    uint32_t max_stored;      /* the widest of max_dim and the packed matrices' k_stored */
    struct span *spans;       /* owned (max_tokens) */
    struct sampler *samplers; /* owned (n_threads), each in one piece at .weights */
};

/* cpu/scratch.c */
NODISCARD enum status cpu_allocate(struct kernels_ctx *ctx); /* by its limits; closing frees it */
/* Makes the scratch memory fit a matrix that was packed. STATUS_NOMEM. */
NODISCARD enum status cpu_reserve(struct kernels_ctx *ctx, const struct weight *weight,
                                  struct error *error);

/* cpu/weight.c */
KERNELS_OP(weight_size, cpu_weight_size);
KERNELS_OP(weight_pack, cpu_weight_pack);
KERNELS_OP(embed, cpu_embed);

/* cpu/linear.c */
KERNELS_OP(linear, cpu_linear);

/* One product among several. */
struct linear_task {
    const struct weight *weight;
    const float *x; /* (n_rows, k) */
    float *out;
    size_t out_stride;
    uint32_t n_rows;
    enum epilogue epilogue;
};

/* Products that do not depend on each other, as many at once as have room for their activations. */
void cpu_linears(struct kernels_ctx *ctx, const struct linear_task *tasks, uint32_t n_tasks);

/* cpu/gate.c */
KERNELS_OP(silu_mul, cpu_silu_mul);
KERNELS_OP(add_gated, cpu_add_gated);
KERNELS_OP(moe_route, cpu_moe_route);

/* cpu/moe.c */
KERNELS_OP(moe_ffn, cpu_moe_ffn);

/* cpu/attention.c */
KERNELS_OP(rope_kv, cpu_rope_kv);
KERNELS_OP(attend, cpu_attend);

/* cpu/sample.c */
NODISCARD enum status cpu_sampler_init(struct sampler *sampler, uint32_t n_vocab);
void cpu_sampler_fini(struct sampler *sampler);
KERNELS_OP(sample, cpu_sample);
