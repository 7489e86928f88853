/* kernels/cuda/launch.h: the kernels of the backend as the host sees them: one function each, that puts work into a
 * stream, and the plain structs that travel as a kernel's arguments. All pointers are memory of the
 * device. The table stands twice where both are built: for the GPU and for the emulator.
 *
 * A matrix of integers lies so that one layout serves vectors and tensor cores: group g of 32 inputs
 * of output n is 16 bytes at (g * n_padded + n) * 16. Word t of them has in its byte i the weights of
 * inputs 4 t + i (low half) and 16 + 4 t + i (high half): 8 outputs in a row are the B operand of
 * mma.m16n8k32 as its 32 lanes want it. 8-bit weights have two such planes, (2 g + h) for g: plane h
 * has inputs 16 h + 4 t + i. Scales and minima lie (scale's number, n_padded). A matrix of floats lies
 * (inputs / V, n_padded, V), V of them in 16 bytes.
 *
 * No byte of a struct that an operation launches with is padding: graph.c compares
 * launches as bytes. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#endif

struct gpu_matrix {
    const void *data;
    const void *scales; /* (n_scales, n_padded) binary16, or float32 when wide */
    const void *mins;   /* the same, or NULL; where there are zeros, these, a byte each */
    const uint32_t *order;
    const float *scale;
    const float *bias;
    uint32_t n;
    uint32_t n_padded; /* a multiple of GPU_OUTPUTS */
    uint32_t k;
    uint32_t k_stored;
    uint32_t
        groups_per_scale; /* groups of 32 that share one; 0: each half of a group has its own */
    enum weight_format format;
    int32_t zero_base; /* struct weight's b */
    bool wide;
    bool zeros; /* minima are scale * (zero_base - zero) */
    bool fine;
    bool unused;
};
#define GPU_OUTPUTS 64

/* One matrix for all rows, or (ids) that of table[ids[pair]] for row `pair` alone, a pair being a row and
 * one of its experts. */
struct gpu_choice {
    struct gpu_matrix matrix;
    const struct gpu_matrix *table; /* NULL: `matrix` */
    const uint32_t *ids;            /* (n_rows) when there is a table */
};

/* Rows of activations as integers: row r of the first term, or of both terms, first at 2 r. In fast numerics the
 * same memory takes half as many rows of 16-bit floats: q (inputs / 8, rows, 8), scales (rows) what their
 * products are multiplied by. For matrices of integers each 16 inputs of a row stand in another order, the even ones
 * first. */
struct gpu_ints {
    int8_t *q;     /* (rows, n_groups * 32) */
    float *scales; /* (rows, n_groups) */
    float *sums;   /* (rows, n_groups): scale times the sum of the group's integers */
    uint32_t
        n_groups; /* of a row, as they lie: at least k_stored / 32, and a multiple of 4, so that
                          rows of scales begin at 16 bytes */
    uint32_t unused;
};

struct gpu_quantize {
    struct gpu_choice choice;
    struct gpu_ints to;
    const float *x; /* (n_rows / share, k) */
    uint32_t n_rows;
    uint32_t share; /* neighbouring rows that read the same row of x */
    bool fine;      /* both terms */
    bool unused[7];
};

struct gpu_linear {
    struct gpu_choice choice;
    struct gpu_ints ints; /* of matrices of integers */
    const float *x;       /* of matrices of floats: (n_rows / share, k) */
    float *out;
    size_t out_stride;
    uint32_t n_rows;
    uint32_t share;
    enum epilogue epilogue;
    bool fine;
    bool unused[3];
};

/* Queries of one sequence that read the same keys: up to GPU_QUERIES of one head of keys. */
struct gpu_tile {
    uint32_t seq;
    uint32_t token; /* the first of the sequence */
    uint32_t
        first; /* query number in the sequence: token * heads per kv head + head in the group */
    uint32_t n;
};
#define GPU_QUERIES 64

/* Attention on tensor cores: the sizes of heads that it takes, positions whose keys have one largest score, and queries of a
 * tile whose spans are split over blocks. */
#define GPU_TENSOR_HEADS(X) X(64) X(80) X(96) X(128) X(256)
#define GPU_SPAN            256
#define GPU_SPLIT_QUERIES   16

/* Id and position of a token that only fills a step up: embed, rope_kv and attend leave it out. */
#define GPU_NO_TOKEN UINT32_MAX

struct gpu_batch {
    uint32_t n_tokens;
    uint32_t n_seqs;
    uint32_t block_table_stride;
    uint32_t unused;
    const uint32_t *ids;
    const uint32_t *positions;
    const uint32_t *seq_begin;
    const uint32_t *seq_of; /* (T) */
    const uint32_t *block_tables;
    const uint32_t *variants; /* (B) */
};

struct gpu_heads {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t max_context;
};

/* One layer of the KV cache: struct kernels_kv, whose heads are those of struct gpu_heads. */
struct gpu_kv {
    void *base;
    size_t block_bytes;
    enum kv_format format;
    uint32_t unused;
};

struct gpu_embed {
    float *out;
    struct gpu_matrix table;
    const uint32_t *ids;
    uint32_t n_tokens;
    uint32_t id_begin;
};

struct gpu_norm {
    float *out;
    const float *x;
    const float *gain;
    float eps;
    uint32_t n_rows;
    uint32_t dim;
    bool quantizes; /* into `ints` too: all rows begin at 16 bytes, and hold whole groups */
    bool fine;      /* both terms */
    bool unused[2];
    struct gpu_ints ints;
};

struct gpu_silu_mul {
    float *out;
    const float *gate;
    const float *up;
    size_t n;
};

struct gpu_add_gated {
    float *out;
    const float *x;
    const float *gate;
    uint32_t n_rows;
    uint32_t dim;
};

struct gpu_gather_rows {
    float *out;
    const float *x;
    const uint32_t *rows;
    uint32_t n_rows;
    uint32_t dim;
};

struct gpu_moe_route {
    uint32_t *ids;
    float *weights;
    const float *logits;
    uint32_t n_rows;
    uint32_t n_experts;
    uint32_t n_active;
    bool normalise;
    bool unused[3];
};

/* outer: (n_rows * n_active, dim), one row a pair. */
struct gpu_moe_add {
    float *out;
    const float *outer;
    const uint32_t *ids;
    const float *weights;
    uint32_t n_rows;
    uint32_t n_active;
    uint32_t dim;
    uint32_t unused;
};

struct gpu_rope_kv {
    float *qkv;
    struct gpu_batch batch;
    struct rope rope;
    struct gpu_kv kv;
    struct gpu_heads heads;
};

/* attend() takes tiles of whole tokens in their order. attend_tensor() takes any tiles of at most GPU_QUERIES queries, of
 * which the first n_few are split: their spans' results lie by tile, key head, query of `few` (at least those of such a tile)
 * and span of n_chunks, those of max_context; nothing of a launch depends on the positions. */
struct gpu_attend {
    struct gpu_batch batch;
    struct gpu_heads heads;
    struct gpu_kv kv;
    const float *qkv;
    float *out;
    const struct gpu_tile *tiles; /* (n_tiles): those of tokens [token_begin, token_end) */
    uint32_t n_tiles;
    uint32_t n_few; /* of them, tiles of at most `few` queries, which are taken otherwise */
    uint32_t token_begin;
    uint32_t token_end;
    uint32_t n_chunks; /* of 256 positions: as many as the longest of them has */
    float scale;
    uint32_t window;
    uint32_t few; /* 1, 4, 8, 16, or 0; for attend_tensor() at most GPU_SPLIT_QUERIES */
    const float *alibi;
    /* By chunk and query (n_chunks, token_end - token_begin, n_heads): the largest score and the sum of the
     * weights; and the weighted values (.., head_dim). */
    float *maxima;
    float *totals;
    float *sums;
};

#ifndef __cplusplus
#pragma GCC diagnostic pop
#endif

/* A row of logits whose next token is chosen. */
struct gpu_sample_row {
    struct sample_params
        params;     /* its arrays on the device; their ids are below n_vocab, but for the
                                    allowed ones */
    float *allowed; /* (n_allowed) scratch */
    float factor;   /* 1 / temperature */
    bool is_greedy;
    bool wants_logprob; /* of the chosen one or of the best */
    bool copied;        /* ids are barred or edited: in a copy */
};

/* What became of it. Logprobs are logits less max + log(log_sum). */
struct gpu_sampled {
    double log_sum;
    float max; /* of all logits */
    float logit;
    uint32_t id;
    uint32_t valid;
    uint32_t n_top; /* of a row that asks for any */
    uint32_t top_ids[SAMPLE_TOP_MAX];
    float top_logits[SAMPLE_TOP_MAX];
};

struct gpu_sample {
    const float *logits;               /* (n_rows, n_vocab) */
    const struct gpu_sample_row *rows; /* (n_rows) */
    struct gpu_sampled *results;       /* (n_rows) */
    uint32_t n_rows;
    uint32_t n_vocab;
    uint32_t n_blocks; /* of SAMPLING_BLOCK ids */
    bool any_logprob;  /* rows that ask for it */
    bool any_top;
    bool any_copied;
    bool any_drawn;
    float *scratch; /* (n_rows, n_vocab): copies, then weights */
    /* (n_rows, n_blocks) each: the best of the logits and of the copies, sums for logprobs and of the
     * weights. */
    uint64_t *best;
    uint64_t *best_copied;
    float *log_sums;
    float *sums;
};

/* What launches there are, with the struct that each takes: those of the operations of a step, which may be recorded
 * (cuda_launch_NAME() of cuda.h), and the choice of tokens. */
#define GPU_OPERATIONS(X)                                                                          \
    X(embed, gpu_embed)                                                                            \
    X(norm, gpu_norm)                                                                              \
    X(silu_mul, gpu_silu_mul)                                                                      \
    X(add_gated, gpu_add_gated)                                                                    \
    X(gather_rows, gpu_gather_rows)                                                                \
    X(quantize, gpu_quantize)                                                                      \
    X(linear_ints, gpu_linear)                                                                     \
    X(linear_floats, gpu_linear)                                                                   \
    X(round_floats, gpu_quantize)                                                                  \
    X(linear_tensor, gpu_linear)                                                                   \
    X(round_for_ints, gpu_quantize)                                                                \
    X(linear_tensor_ints, gpu_linear)                                                              \
    X(moe_route, gpu_moe_route)                                                                    \
    X(moe_add, gpu_moe_add)                                                                        \
    X(rope_kv, gpu_rope_kv)                                                                        \
    X(attend, gpu_attend)                                                                          \
    X(attend_tensor, gpu_attend)
#define GPU_LAUNCHES(X) GPU_OPERATIONS(X) X(sample, gpu_sample)

struct gpu_launches {
#define X(name, type) void (*name)(struct device_stream * stream, const struct type *what);
    GPU_LAUNCHES(X)
#undef X
};

#ifdef __cplusplus
}
#endif
