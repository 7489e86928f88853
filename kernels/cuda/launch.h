/* kernels/cuda/launch.h: the kernels of the backend as the host sees them: one function each, that puts work into a
 * stream, and the plain structs that travel as a kernel's arguments. All pointers are memory of the
 * device. The table stands twice where both are built: for the GPU and for the emulator.
 *
 * A matrix of integers lies so that one layout serves vectors and tensor cores: group g of 32 inputs
 * of output n is 16 bytes at (g * n_padded + n) * 16. Word t of them has in its byte i the weights of
 * inputs 4 t + i (low half) and 16 + 4 t + i (high half): 8 outputs in a row are the B operand of
 * mma.m16n8k32 as its 32 lanes want it. 8-bit weights have two such planes, (2 g + h) for g: plane h
 * has inputs 16 h + 4 t + i. Scales and minima lie (scale's number, n_padded). A matrix of floats lies
 * (inputs / V, n_padded, V), V of them in 16 bytes. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
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
    bool unused; /* false: no byte is padding, tables of matrices are compared as bytes */
};
#define GPU_OUTPUTS 64

/* One matrix for all rows, or (ids) that of table[ids[pair]] for row `pair` alone, a pair being a row and
 * one of its experts. */
struct gpu_choice {
    struct gpu_matrix matrix;
    const struct gpu_matrix *table; /* NULL: `matrix` */
    const uint32_t *ids;            /* (n_rows) when there is a table */
};

/* Rows of activations as integers: row r of the first term, or of both terms, first at 2 r. */
struct gpu_ints {
    int8_t *q;     /* (rows, n_groups * 32) */
    float *scales; /* (rows, n_groups) */
    float *sums;   /* (rows, n_groups): scale times the sum of the group's integers */
    uint32_t
        n_groups; /* of a row, as they lie: at least k_stored / 32, and a multiple of 4, so that
                          rows of scales begin at 16 bytes */
};

struct gpu_quantize {
    struct gpu_choice choice;
    struct gpu_ints to;
    const float *x; /* (n_rows / share, k) */
    uint32_t n_rows;
    uint32_t share; /* neighbouring rows that read the same row of x */
    bool fine;      /* both terms */
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
};

/* Queries of one sequence that read the same keys: up to GPU_QUERIES of one head of keys. */
struct gpu_tile {
    uint32_t seq;
    uint32_t
        first; /* query number in the sequence: token * heads per kv head + head in the group */
    uint32_t n;
};
#define GPU_QUERIES 16

struct gpu_batch {
    uint32_t n_tokens;
    uint32_t n_seqs;
    const uint32_t *ids;
    const uint32_t *positions;
    const uint32_t *seq_begin;
    const uint32_t *seq_of; /* (T) */
    const uint32_t *block_tables;
    uint32_t block_table_stride;
    const uint32_t *variants; /* (B) */
};

struct gpu_heads {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t max_context;
};

struct gpu_attend {
    struct gpu_batch batch;
    struct gpu_heads heads;
    struct kernels_kv kv;
    const float *qkv;
    float *out;
    const struct gpu_tile *tiles; /* (n_tiles): those of tokens [token_begin, token_end) */
    uint32_t n_tiles;
    uint32_t queries; /* the largest n of a tile */
    uint32_t token_begin;
    uint32_t token_end;
    uint32_t n_chunks; /* of 256 positions: as many as the longest of them has */
    float scale;
    const float *alibi;
    uint32_t window;
    /* By chunk and query (n_chunks, token_end - token_begin, n_heads): the largest score and the sum of the
     * weights; and the weighted values (.., head_dim). */
    float *maxima;
    float *totals;
    float *sums;
};

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

struct gpu_launches {
    void (*embed)(struct device_stream *stream, float *out, const struct gpu_matrix *table,
                  const uint32_t *ids, uint32_t n_tokens, uint32_t id_begin);
    void (*norm)(struct device_stream *stream, float *out, const float *x, const float *gain,
                 float eps, uint32_t n_rows, uint32_t dim);
    void (*silu_mul)(struct device_stream *stream, float *out, const float *gate, const float *up,
                     size_t n);
    void (*add_gated)(struct device_stream *stream, float *out, const float *x, const float *gate,
                      uint32_t n_rows, uint32_t dim);
    void (*gather_rows)(struct device_stream *stream, float *out, const float *x,
                        const uint32_t *rows, uint32_t n_rows, uint32_t dim);
    void (*quantize)(struct device_stream *stream, const struct gpu_quantize *what);
    void (*linear_ints)(struct device_stream *stream, const struct gpu_linear *what);
    void (*linear_floats)(struct device_stream *stream, const struct gpu_linear *what);
    void (*moe_route)(struct device_stream *stream, uint32_t *ids, float *weights,
                      const float *logits, uint32_t n_rows, uint32_t n_experts, uint32_t n_active,
                      bool normalise);
    void (*moe_add)(struct device_stream *stream, float *out, const float *outer,
                    const uint32_t *ids, const float *weights, uint32_t n_rows, uint32_t n_active,
                    uint32_t dim);
    void (*rope_kv)(struct device_stream *stream, float *qkv, const struct gpu_batch *batch,
                    const struct rope *rope, const struct kernels_kv *kv,
                    const struct gpu_heads *heads);
    void (*attend)(struct device_stream *stream, const struct gpu_attend *what);
    void (*sample)(struct device_stream *stream, const struct gpu_sample *what);
};

#ifdef __cplusplus
}
#endif
