/* kernels/cpu/cpu.h: the cpu backend, shared by its files only: how operations are cut into items
 * for the team. Every cut is over rows, panels, tokens or heads, never over a sum. */
#pragma once

#include "kernels/cpu/path.h"
#include "kernels/cpu/team.h"
#include "kernels/kernels.h"

#define LINEAR_ROWS      512 /* rows quantized at once: bounds the scratch memory */
#define LINEAR_ROWS_MIN  16  /* and as many in the smallest context */
#define LINEAR_TASKS_MAX 64  /* products that share the team at once */
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
    struct team *team;        /* owned */
    uint8_t *tiles;           /* owned: tiles_rows rows of activations, as integers or bfloat16 */
    uint32_t tiles_rows;      /* fixed: LINEAR_ROWS at most */
    float *rests;             /* owned (n_threads, TILE_ROWS_MAX, max_stored): numbers_rest() */
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
size_t cpu_weight_size(const struct weight_source *source, struct error *error);
NODISCARD enum status cpu_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                                      void *memory, struct weight *weight, struct error *error);
void cpu_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
               const struct kernels_batch *batch, uint32_t id_begin);

/* cpu/linear.c */
void cpu_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                const struct weight *weight, uint32_t n_rows, enum epilogue epilogue);

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
void cpu_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                  size_t n);
void cpu_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                   uint32_t n_rows, uint32_t dim);
void cpu_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                   uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise);

/* cpu/moe.c */
void cpu_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                 const float *weights, uint32_t n_rows, uint32_t n_active,
                 const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                 float *scratch);

/* cpu/attention.c */
void cpu_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                 const struct rope *rope, const struct kernels_kv *kv);
void cpu_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                const float *alibi, uint32_t window);

/* cpu/sample.c */
NODISCARD enum status cpu_sampler_init(struct sampler *sampler, uint32_t n_vocab);
void cpu_sampler_fini(struct sampler *sampler);
void cpu_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                const struct sample_params *params, struct sample_result *results);
