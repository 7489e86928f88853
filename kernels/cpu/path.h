/* kernels/cpu/path.h: the inner loops of one instruction set.
 *
 * A path is one `const struct path`; the same sources (gemm_float.h, attend.h, rows.h, rope.h) are
 * compiled once per path over its vec_*.h, and the integer products are written for each. All paths
 * give the same bits. None allocates or starts threads; each function computes in the calling
 * thread, which has flush-to-zero set (numbers_enter).
 *
 * Packed matrices, the same for every path and every number of rows: panels of 16 outputs, one
 * after the other; the last is padded with zeros. G = k_stored / 32.
 *   I4G: a block of 32 inputs is 4 x 64 bytes of nibbles. Byte 4 c + b of row j: outputs' lane c,
 *        low nibble input 8 j + b, high 8 j + 4 + b.
 *   I8G: a block is 8 x 64 bytes. Byte 4 c + b of row j holds q + 128 of lane c, input 4 j + b.
 *   I4G, narrow: G times a block, 16 binary16 scales, 16 binary16 minima (320 bytes).
 *   I8G, narrow, without minima: per two blocks 16 binary16 scales of each, then the blocks; the last
 *        may be alone behind its 64 bytes. With minima: per block 16 scales, 16 minima, the block.
 *   Wide: per `group` inputs 16 float32 scales, 16 minima where there are any, then the group's
 *        blocks. With a group of 16 each block has two times 16 scales, one for each half.
 *   F32, F16: k times 16 lanes. BF16: k_stored / 2 times 16 pairs of neighbouring inputs.
 *
 * Quantized activations lie in tiles of `tile_rows` rows (the last one may have fewer, R): for
 * each group R x 32 int8, then R float scales, R floats scale * sum, R int32 -128 * sum, and R
 * int32 -128 * the sum of the first half. Activations of two terms are two rows of a tile: its
 * first half are the first terms, its second what each of them leaves (numbers_rest). So both
 * multiply what is read of the weights once. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/numbers.h"

#define PANEL          16  /* outputs of one panel */
#define PANEL_I4_BYTES 256 /* of one block */
#define PANEL_I8_BYTES 512
#define PANEL_HALVES   32 /* bytes of 16 binary16 */
#define PANEL_FLOATS   64 /* bytes of 16 float32 */

#define TILE_ROWS_MAX  8
#define TILE_ROW_BYTES (GROUP + 16) /* of one row and group in a tile */

/* How the integers of a matrix lie: what the products are compiled for, one by one. */
struct panel_form {
    bool four;    /* I4G; else I8G */
    bool wide;    /* scales are float32 */
    bool has_min; /* always, where four is set */
    bool halves;  /* two scales a block: wide, without minima */
};

static inline struct panel_form panel_form(const struct weight *weight) {
    return (struct panel_form){weight->format == WEIGHT_I4G, weight->wide,
                               weight->format == WEIGHT_I4G || weight->has_min,
                               weight->wide && weight->group < GROUP};
}

/* Blocks that share their scales. */
static inline uint32_t panel_stride(const struct weight *weight) {
    return weight->group < GROUP ? 1 : weight->group / GROUP;
}

/* Where a block's numbers begin, in bytes from the panel's begin. The halves' second scales lie
 * PANEL_FLOATS behind the first. */
struct panel_place {
    size_t values;
    size_t scales;
    size_t mins;
};

/* Of the first block of a group. */
static inline struct panel_place panel_place(struct panel_form form, uint32_t stride,
                                             uint32_t group) {
    size_t block_bytes = form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES;
    size_t values = (size_t)group * stride * block_bytes;
    if (form.wide) {
        size_t head = form.has_min || form.halves ? 2 * PANEL_FLOATS : PANEL_FLOATS;
        size_t scales = group * head + values;
        return (struct panel_place){scales + head, scales, scales + PANEL_FLOATS};
    }
    if (form.four) {
        values += (size_t)group * 2 * PANEL_HALVES;
        return (struct panel_place){values, values + block_bytes,
                                    values + block_bytes + PANEL_HALVES};
    }
    if (form.has_min) {
        size_t scales = values + (size_t)group * 2 * PANEL_HALVES;
        return (struct panel_place){scales + 2 * PANEL_HALVES, scales, scales + PANEL_HALVES};
    }
    size_t pair = (size_t)(group / 2) * 2 * PANEL_HALVES; /* scales of the pairs before */
    size_t scales = (size_t)(group / 2) * 2 * block_bytes + pair;
    return (struct panel_place){values + pair + 2 * PANEL_HALVES, scales + group % 2 * PANEL_HALVES,
                                0};
}

static inline size_t panel_bytes(const struct weight *weight) {
    uint32_t n_blocks = weight->k_stored / GROUP;
    uint32_t stride = panel_stride(weight);
    struct panel_form form = panel_form(weight);
    size_t n_groups = (n_blocks + stride - 1) / stride;
    switch (weight->format) {
    case WEIGHT_F32:
        return (size_t)weight->k_stored * PANEL * 4;
    case WEIGHT_F16:
    case WEIGHT_BF16:
        return (size_t)weight->k_stored * PANEL * 2;
    case WEIGHT_I4G:
        return n_blocks * (size_t)PANEL_I4_BYTES +
               n_groups * 2 * (form.wide ? PANEL_FLOATS : PANEL_HALVES);
    case WEIGHT_I8G:
        if (!form.wide) /* 64 bytes for a block's scales and minima, or for the scales of two */
            n_groups = form.has_min ? n_blocks : (n_blocks + 1) / 2;
        return n_blocks * (size_t)PANEL_I8_BYTES +
               n_groups * (form.wide && (form.has_min || form.halves) ? 2 * PANEL_FLOATS : 64);
    }
    return 0;
}

/* Some panels of one matrix times one tile of rows. */
struct gemm_job {
    const struct weight *weight;
    const void *x;   /* the tile: integers as above; else float rows (n_rows, k_stored) */
    uint32_t n_rows; /* 1..tile_rows */
    bool fine;       /* the second half of the rows are rests, added to the outputs of the first */
    uint32_t panel_begin;
    uint32_t panel_end;
    enum epilogue epilogue;
    float *out;        /* of the tile's first row; rests have none */
    size_t out_stride; /* floats between rows */
};

#define ATTEND_ROWS 4 /* queries that go through the cache together */

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

    /* Quantizes n_rows rows of k floats into one tile; fine: of twice as many rows. */
    void (*quantize)(uint8_t *tile, const float *x, uint32_t n_rows, uint32_t k, bool fine);
    void (*round_bf16)(float *out, const float *x, size_t n);
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
    /* x becomes -INFINITY where its bit, id % 32 of word id / 32, is not set; maxima that were right are so again. */
    void (*mask)(float *x, uint32_t n, const uint32_t *bits, float *maxima);
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
