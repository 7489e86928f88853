/* kernels/cpu/path.h: the inner loops of one instruction set.
 *
 * A path is one `const struct path`; the same sources (gemm_float.h, attend.h, rows.h, rope.h) are
 * compiled once per path over its vec_*.h, and the integer products are written for each. All paths
 * give the same bits. None allocates or starts threads; each function computes in the calling
 * thread, which has flush-to-zero set (numbers_enter).
 *
 * Packed matrices, the same for every path and every number of rows: panels of 16 outputs, one
 * after the other; the last is padded with zeros. G = k / 32.
 *   I4G: G times 320 bytes: 4 x 64 bytes of nibbles, 16 binary16 scales, 16 binary16 minima.
 *        Byte 4 c + b of row j: outputs' lane c, low nibble input 8 j + b, high 8 j + 4 + b.
 *   I8G: G times 512 bytes, then G times 16 binary16 scales, padded to 64. Byte 4 c + b of row j
 *        holds q + 128 of lane c, input 4 j + b.
 *   F32, F16: k times 16 lanes. BF16: k / 2 times 16 pairs of neighbouring inputs.
 *
 * Quantized activations stand in tiles of `tile_rows` rows (the last one may have fewer, R): for
 * each group R x 32 int8, then R float scales, R floats scale * sum, R int32 -128 * sum. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/numbers.h"

#define PANEL           16 /* outputs of one panel */
#define PANEL_I4_BYTES  320
#define PANEL_I4_SCALES 256
#define PANEL_I4_MINS   288
#define PANEL_I8_BYTES  512

#define TILE_ROWS_MAX  8
#define TILE_ROW_BYTES (GROUP + 12) /* of one row and group in a tile */

static inline size_t panel_bytes(enum weight_format format, uint32_t k) {
    size_t n_groups = k / GROUP;
    switch (format) {
    case WEIGHT_I4G:
        return n_groups * PANEL_I4_BYTES;
    case WEIGHT_I8G:
        return n_groups * PANEL_I8_BYTES + (n_groups * PANEL * 2 + 63) / 64 * 64;
    case WEIGHT_F32:
        return (size_t)k * PANEL * 4;
    case WEIGHT_F16:
    case WEIGHT_BF16:
        return (size_t)k * PANEL * 2;
    }
    return 0;
}

/* Some panels of one matrix times one tile of rows. */
struct gemm_job {
    const struct weight *weight;
    const void *x;   /* the tile: integers as above; else float rows (n_rows, k) */
    uint32_t n_rows; /* 1..tile_rows */
    uint32_t panel_begin;
    uint32_t panel_end;
    enum epilogue epilogue;
    float *out;        /* of the tile's first row */
    size_t out_stride; /* floats between rows */
};

/* Queries of one sequence that share a key-value head. */
struct attend_job {
    const struct kernels_kv *kv;
    const uint32_t *blocks;    /* block table of the sequence */
    const uint32_t *positions; /* (n_tokens) */
    const float *q;            /* first token's first query head of this key-value head */
    size_t q_stride;           /* floats between tokens */
    float *out;
    size_t out_stride;
    const float *alibi; /* (n_group) slopes or NULL */
    float scale;
    uint32_t window;
    uint32_t n_tokens;
    uint32_t n_group; /* query heads per key-value head */
    uint32_t kv_head;
};

/* One token's rotation and its way into the cache. */
struct rope_job {
    const struct rope *rope;
    const struct kernels_kv *kv;
    const float *cos; /* (dims / 2) of the position, by the sequence's table; NULL without layout */
    const float *sin;
    uint32_t n_heads;
    uint32_t position;
    float *row;  /* q | k | v */
    void *block; /* where k and v go */
};

struct path {
    const char *name;
    uint32_t tile_rows;

    /* Quantizes n_rows rows of k floats into one tile. */
    void (*quantize)(uint8_t *tile, const float *x, uint32_t n_rows, uint32_t k);
    void (*round_bf16)(float *out, const float *x, size_t n); /* n a multiple of 16 */
    void (*gemm)(const struct gemm_job *job);
    void (*norm)(float *out, const float *x, const float *gain, float eps, uint32_t dim);
    void (*silu_mul)(float *out, const float *gate, const float *up, size_t n);
    void (*add_scaled)(float *out, const float *x, float factor, size_t n); /* out += factor x */
    void (*softmax)(float *out, const float *x, uint32_t n);
    void (*rope_kv)(const struct rope_job *job);
    void (*attend)(const struct attend_job *job);

    /* Of one row of logits, by blocks of SAMPLING_BLOCK ids. */
    /* Maxima of the blocks; false when the row holds NaN. */
    bool (*block_maxima)(const float *x, uint32_t n, float *maxima);
    /* out = exp((x - max) * factor) and the sums of its blocks; out may be x, or NULL. */
    void (*block_exps)(const float *x, uint32_t n, float max, float factor, float *out,
                       float *sums);
    /* Ids with x >= threshold, in order; gives their number. ids: (n). */
    uint32_t (*find_at_least)(const float *x, uint32_t n, float threshold, uint32_t *ids);
};

extern const struct path path_scalar;
extern const struct path path_avx2;
extern const struct path path_avx512;

/* The paths this processor and build can run, best first; NULL-terminated. */
const struct path *const *path_available(void);

/* The path of that name; NULL when it is unknown or cannot run here. A NULL name: the best. */
const struct path *path_find(const char *name);
