/* kernels/cpu/cpu.h: the cpu backend, shared by its files only: how operations are cut into items
 * for the team. Every cut is over rows, panels, tokens or heads, never over a sum. */
#pragma once

#include "kernels/cpu/path.h"
#include "kernels/cpu/team.h"
#include "kernels/kernels.h"

#define LINEAR_ROWS 512 /* rows quantized at once: bounds the scratch memory */
#define SPAN_TOKENS 16  /* tokens of one attention item */

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
    uint8_t *tiles;           /* owned: LINEAR_ROWS rows of activations, as integers or bfloat16 */
    float *rests;             /* owned (n_threads, TILE_ROWS_MAX, max_stored): numbers_rest() */
    float *gathered;          /* owned (n_threads, TILE_ROWS_MAX, max_stored) or NULL: rows of x in
                                 the order of a matrix */
    uint32_t max_stored;      /* the widest of max_dim and the packed matrices' k_stored */
    struct span *spans;       /* owned (max_tokens) */
    struct sampler *samplers; /* owned (n_threads), each in one piece at .weights */
};

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
