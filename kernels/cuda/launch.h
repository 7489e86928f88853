/* kernels/cuda/launch.h: the kernels of the backend as the host sees them: one function each, that puts work into a
 * stream, and the plain structs that travel as a kernel's arguments. All pointers are memory of the
 * device. The table is there twice where both are built: for the GPU and for the emulator.
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
    uint32_t n_scales;
    uint32_t
        groups_per_scale; /* groups of 32 that share one; 0: each half of a group has its own */
    enum weight_format format;
    int32_t zero_base; /* struct weight's b */
    bool wide;
    bool zeros; /* minima are scale * (zero_base - zero) */
    bool fine;
    bool unused[5];
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
 * same memory takes half as many rows of 16-bit floats: q (rows, chunks of inputs, 16 pieces of 8), in the order of
 * gpu/tensor.h; scales (rows, slices) what the sums of their products are multiplied by. */
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

/* Products on 16-bit tensor cores (gpu/tensor.h): inputs of a slice, which is a chain of sums of its own, and of a chunk. */
#define TENSOR_SLICE 1024
#define TENSOR_CHUNK 128
#define TENSOR_FEW   64 /* rows of the largest block that is not of `many` */

/* How a product is cut into blocks; no bit of its results depends on it. */
struct gpu_tensor_shape {
    uint32_t rows;    /* of a block: 8, 16, 32 or 64; `many`: 64 or 128 */
    uint32_t warps_n; /* of a block, each with 16 outputs, times */
    uint32_t warps_k; /* those with other slices; both: up to 8 */
    uint32_t slices;  /* of a block; all where there are no parts */
    bool many;        /* tiles of 128 outputs; the numbers below `rows` mean nothing */
    bool wgmma;       /* these by wgmma, on a device that gpu_probe_warpgroup was asked of */
    bool unused[6];
};

/* What a product has left to the kernel behind it: the sums of its slices, which are added up in rising order. */
struct gpu_sum {
    const float *parts; /* (n_slices, n_rows, n_padded); NULL: there are none */
    const float *scale; /* of the outputs, or NULL */
    const float *bias;  /* the same */
    float *out;         /* rows out_stride apart */
    size_t out_stride;
    uint32_t n_slices;
    uint32_t n_rows;
    uint32_t n;
    uint32_t n_padded;
    enum epilogue epilogue;
    uint32_t unused;
};

/* Rows of activations as a matrix wants them (gpu/tensor.h): `to` takes x (n_rows, k), or what `sum` comes to with its epilogue
 * EPILOGUE_SILU_MUL, where it has parts. */
struct gpu_round_rows {
    struct gpu_matrix matrix;
    struct gpu_ints to;
    const float *x;
    struct gpu_sum sum;
    const struct gpu_matrix
        *table; /* row i stands in the order of table[ids[i]]; NULL: of `matrix` */
    const uint32_t *ids;
    uint32_t n_rows;
    uint32_t share; /* neighbouring rows that read the same row of x */
};

/* Pairs of a row and one of its experts that one block takes: `n` of gpu_groups.pairs from `first` on, all of one expert. */
struct gpu_group {
    uint32_t expert; /* of choice.table */
    uint32_t first;
    uint32_t n; /* 0: nothing */
};

/* Rows of a product with matrices by table; list NULL: all rows in their order, by one matrix. */
struct gpu_groups {
    const struct gpu_group *list; /* (n) of at most gpu_tensor_shape.rows pairs each */
    const uint32_t *pairs;        /* (n_rows): which row of the results, ordered by expert */
    uint32_t n;
    uint32_t x_share; /* pair p reads row p / x_share of the rounded rows */
};

struct gpu_tensor {
    struct gpu_linear linear;
    struct gpu_groups groups;
    float
        *parts; /* (slices, n_rows, n_padded) what the slices come to; or NULL: they are added up */
    struct gpu_tensor_shape shape;
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

/* Inputs of the longest row that norm_rows() rounds: those that fit shared memory. */
#define GPU_NORM_ROUNDS 16384

/* The norm of fast numerics: of x, or (sum.parts) of what the sum comes to, which is out_stride = dim wide; and its rows
 * rounded as `matrix` wants them. */
struct gpu_norm_rows {
    struct gpu_norm norm;
    struct gpu_sum sum;
    struct gpu_matrix matrix;
    struct gpu_ints to;
    bool rounds;
    bool unused[7];
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

/* Pairs of ids (n_pairs) by expert, and groups of at most `rows` of them: n_groups, as many as there can be. */
struct gpu_moe_plan {
    const uint32_t *ids;
    uint32_t *pairs;
    struct gpu_group *groups;
    uint32_t n_pairs;
    uint32_t n_experts;
    uint32_t rows;
    uint32_t n_groups;
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
    struct gpu_sum sum; /* whose out is qkv, or without parts */
    struct gpu_batch batch;
    struct rope rope;
    struct gpu_kv kv;
    struct gpu_heads heads;
};

/* attend() takes tiles of whole tokens in their order. attend_tensor() takes any tiles of at most GPU_QUERIES queries, of
 * which the first n_few, each of one token, are split, for join_spans(): their spans' results lie from `places` on by key head,
 * query of `few` (at least those of such a tile) and span, as many as the token's position has; nothing of a launch depends on
 * the positions, and n_chunks are those of max_context. */
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
    const uint32_t
        *places; /* (n_few) of split tiles: spans of those before, of all queries and key heads */
};

/* Spans of split tiles joined, of all the step's tokens, each of which is a sequence; and rounded as `matrix` wants them.
 * head_dim is a multiple of 32. */
struct gpu_join_rows {
    struct gpu_attend join;
    struct gpu_matrix matrix;
    struct gpu_ints to;
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
    uint32_t is_sound; /* the logits are numbers */
    uint32_t n_top;    /* of a row that asks for any */
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

/* What tensor cores make of fixed operands. */
struct gpu_probe {
    float *out; /* (GPU_PROBES) */
};
#define GPU_PROBES 1024

/* Whether wgmma makes the same of them as mma.sync: in how many sums of a thread they differ, threads of all blocks. For a device
 * of compute capability 9.0. */
struct gpu_probe_warpgroup {
    uint32_t *n_unlike; /* (GPU_WARPGROUPS) */
};
#define GPU_WARPGROUPS 512

/* What a block of a rank tells the same block of another one. */
struct gpu_told {
    uint32_t turn; /* written last */
    uint32_t operation;
    uint32_t n;     /* numbers of a sum, rows of a gather: the same for all ranks */
    uint32_t begin; /* of a gather: the rank's columns */
    uint32_t columns;
    uint32_t unused[3];
};
#define GPU_RANKS       16
#define GPU_RANK_BLOCKS 64 /* of an operation, at most */

/* Memory of a rank's device that the other ranks' devices reach: the stages lie behind it. */
struct gpu_room {
    uint32_t turn;     /* operations that are done: the device's own */
    uint32_t n_blocks; /* of the running one that are done: the same */
    uint32_t unused[14];
    struct gpu_told told[2][2][GPU_RANKS][GPU_RANK_BLOCKS]; /* by turn, meeting, who tells, block */
};

/* Numbers that every rank of so many adds up whole, as it gets all the others'; of more each rank adds up a slice, and gets the sums of
 * the other slices. The bits are the same.
 *
 * Of b bytes, n numbers are (n_ranks - 1) n b that a rank takes in where it adds up all of them, and 2 (n_ranks - 1) / n_ranks n b with
 * slices, which need a second meeting. So the whole costs (n_ranks - 1) (n_ranks - 2) / n_ranks n b more. GPU_SUM_MORE bytes are taken to
 * be worth a meeting: 12 us over PCIe 4, whose 64 GB/s are 32 in each direction, and 1.3 us over an A100's NVLink. That is assumed, not
 * measured. Two ranks take in the same either way; as many as of three are added up whole. */
#define GPU_SUM_MORE (384u << 10)
static inline size_t gpu_sum_whole(uint32_t n_ranks, bool rounds) {
    size_t n = n_ranks > 3 ? n_ranks : 3;
    return (size_t)GPU_SUM_MORE * n / ((n - 1) * (n - 2) * (rounds ? 2 : 4));
}

/* The group of a rank, as its device reaches it. Turns take two stages of a rank by turns: one that is a turn ahead writes beside
 * what a slow rank still reads, and it cannot be two ahead, since the turn between waits for all. */
struct gpu_group_of_ranks {
    struct gpu_room *
        rooms[GPU_RANKS]; /* (n_ranks), its own among them; behind each float stages[2][n_floats] */
    uint64_t wait_ns;     /* for a rank that is late */
    uint32_t rank;
    uint32_t n_ranks;
    uint32_t n_floats; /* of a stage: a multiple of 4 */
    uint32_t unused;
};

/* x (n) becomes the sum over the ranks of their parts (n), in their order; n is at most a stage's, and the same for all. `rounds`: it
 * is add_parts(), and x has that sum added. */
struct gpu_sum_ranks {
    struct gpu_group_of_ranks group;
    const float *part; /* may be x, unless it rounds */
    float *x;
    uint32_t n;
    bool whole; /* part and x begin at 16 bytes, and n is a multiple of 4 */
    bool rounds;
    bool slices; /* n is more than gpu_sum_whole(): each rank adds up one */
    bool unused;
};

/* add_parts() and rows.norm of what x comes to: `part` (n_rows, dim) is this rank's, or (rows.sum.parts) what that sum
 * comes to there. All begin at 16 bytes; dim is a multiple of 4, n_rows * dim at most gpu_sum_whole() and
 * a stage's, and both the same for all. The norm's `out` may be `part`. */
struct gpu_norm_ranks {
    struct gpu_norm_rows rows;
    struct gpu_group_of_ranks group;
    const float *part;
    float *x;
};

/* The ranks' parts (n_rows, n_columns) become columns from `begin` on of out (n_rows, out_stride), which rank 0 has. */
struct gpu_gather_ranks {
    struct gpu_group_of_ranks group;
    const float *part;
    float *out; /* NULL: of another rank */
    size_t out_stride;
    uint32_t n_rows;
    uint32_t n_columns;
    uint32_t begin;
    uint32_t unused;
};

/* out (n) becomes the sum of the ranks' parts in their order: the rank's own (n), and of the others parts (n_ranks, stride). All are
 * floats, or (rounds) all are bfloat16. */
struct gpu_sum_parts {
    const void *parts;
    const void *own; /* may be `out` */
    void *out;
    size_t stride;
    uint32_t n;
    uint32_t rank;
    uint32_t n_ranks;
    bool whole; /* all begin at 16 bytes, n and stride are multiples of 4: always where it rounds */
    bool rounds;
    bool unused[2];
};

/* to (n_to) becomes the part (n) as bfloat16, with zeros behind it; n_to is a multiple of 4. */
struct gpu_round_part {
    const float *part;
    uint16_t *to;
    uint32_t n;
    uint32_t n_to;
    bool whole; /* part begins at 16 bytes, and n is a multiple of 4 */
    bool unused[7];
};

/* x (n) has added to it what the parts (n_parts, stride), which are bfloat16, come to in their order, rounded to that again. */
struct gpu_add_parts {
    const uint16_t *parts;
    float *x;
    size_t stride; /* a multiple of 4 */
    uint32_t n;
    uint32_t n_parts;
    bool whole; /* x begins at 16 bytes, and n is a multiple of 4 */
    bool unused[7];
};

/* A rank's columns on their way to rank 0: to[0..2] become n_rows, begin and n_columns, as integers, and what lies behind
 * to[GPU_COLUMNS] the part (n_rows, n_columns). */
struct gpu_pack_columns {
    const float *part;
    float *to;
    uint32_t n_rows;
    uint32_t n_columns;
    uint32_t begin;
    uint32_t unused;
};
#define GPU_COLUMNS 4

/* All ranks' packed columns (n_ranks, each) become columns of out (n_rows, out_stride). */
struct gpu_place_columns {
    const float *from;
    float *out;
    size_t out_stride;
    size_t each;
    uint32_t n_rows;
    uint32_t n_ranks;
};

/* ids[i] becomes the token that was chosen for row i, GPU_NO_TOKEN where there is none to choose. */
struct gpu_take_chosen {
    uint32_t *ids;
    const struct gpu_sampled *results; /* (n) */
    uint32_t n;
};

/* What launches there are, with the struct that each takes: those of the operations of a step, which may be recorded
 * (cuda_launch_NAME() of launches.h), and the choice of tokens with what a step ahead takes of it. */
#define GPU_OPERATIONS(X)                                                                          \
    X(embed, gpu_embed)                                                                            \
    X(norm, gpu_norm)                                                                              \
    X(silu_mul, gpu_silu_mul)                                                                      \
    X(add_gated, gpu_add_gated)                                                                    \
    X(gather_rows, gpu_gather_rows)                                                                \
    X(quantize, gpu_quantize)                                                                      \
    X(linear_ints, gpu_linear)                                                                     \
    X(linear_floats, gpu_linear)                                                                   \
    X(round_rows, gpu_round_rows)                                                                  \
    X(norm_rows, gpu_norm_rows)                                                                    \
    X(sum_rows, gpu_sum)                                                                           \
    X(linear_tensor, gpu_tensor)                                                                   \
    X(moe_route, gpu_moe_route)                                                                    \
    X(moe_plan, gpu_moe_plan)                                                                      \
    X(moe_add, gpu_moe_add)                                                                        \
    X(rope_kv, gpu_rope_kv)                                                                        \
    X(attend, gpu_attend)                                                                          \
    X(attend_tensor, gpu_attend)                                                                   \
    X(join_spans, gpu_attend)                                                                      \
    X(join_rows, gpu_join_rows)                                                                    \
    X(sum_ranks, gpu_sum_ranks)                                                                    \
    X(norm_ranks, gpu_norm_ranks)                                                                  \
    X(gather_ranks, gpu_gather_ranks)                                                              \
    X(sum_parts, gpu_sum_parts)                                                                    \
    X(round_part, gpu_round_part)                                                                  \
    X(add_parts, gpu_add_parts)                                                                    \
    X(pack_columns, gpu_pack_columns)                                                              \
    X(place_columns, gpu_place_columns)
#define GPU_LAUNCHES(X)                                                                            \
    GPU_OPERATIONS(X)                                                                              \
    X(sample, gpu_sample)                                                                          \
    X(take_chosen, gpu_take_chosen) X(probe, gpu_probe) X(probe_warpgroup, gpu_probe_warpgroup)

struct gpu_launches {
#define X(name, type) void (*name)(struct device_stream * stream, const struct type *what);
    GPU_LAUNCHES(X)
#undef X
};

#ifdef __cplusplus
}
#endif
