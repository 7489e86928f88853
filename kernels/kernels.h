/* kernels/kernels.h: arithmetic on tensors, behind one table of operations.
 *
 * A backend is one `const struct kernels` (ref, cpu, cuda). kernels_open() makes a context that owns
 * its threads or device, its scratch memory and nothing of the model. All shapes are bounded by
 * `struct kernels_limits`, so no operation allocates or fails. One thread calls the operations of a
 * context, one after the other; they may run on many.
 *
 * Memory of alloc() belongs to the operations: it may lie on a device. The caller moves bytes with
 * put() and get() and does nothing with such a pointer but add offsets. All pointers to floats and
 * ids that an operation takes are such memory, but for the arrays of struct weight, of sample_params
 * and of sample_result. An operation may still run when it returns; get() and step_end() wait.
 *
 * Numbers: every CPU path gives the same bits (memcmp) for a row, with any other rows beside
 * it and any number of threads. The rules are in docs/architecture/numerics.md.
 *
 * Tensors are row-major float32 unless said otherwise. T: tokens in the step. B: sequences in the
 * step. V: vocabulary. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/sampling.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_BLOCK_TOKENS 16 /* tokens in one KV block */

/* How a matrix lies in memory after packing. Quantized formats of files (GGUF, AWQ, GPTQ ...) all
 * become I4G or I8G: integers with a scale and a minimum per group of inputs,
 * w = scale * q + min. */
enum weight_format { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_I4G, WEIGHT_I8G };

/* A packed matrix (n, k): y = x W^T, times scale, plus bias. Its memory belongs to the loader. */
struct weight {
    enum weight_format format;
    uint32_t n;            /* outputs */
    uint32_t k;            /* inputs: the width of x */
    uint32_t k_stored;     /* inputs as stored: k, or more where groups of 32 were filled up with
                              zeros; of F32 and F16 always k */
    uint32_t group;        /* I4G and I8G: stored inputs per scale; a multiple of 32, or 16 (Q6_K).
                              The last group may have fewer */
    bool wide;             /* I4G and I8G: scales and minima are float32, else binary16 */
    bool zeros;            /* I4G and I8G: scales have a binary16, wide or not, and all minima are
                              scale * (b - z), z in 0..255 and b 0 (I4G) or 128 (I8G) */
    bool has_min;          /* I8G: there are minima; I4G always has them */
    bool fine;             /* activations come in two 8-bit terms (kernels/numbers.h) */
    const void *data;      /* borrowed: packed as the backend wants it */
    const uint32_t *order; /* borrowed (k_stored) or NULL: stored input i is x[order[i]], or 0 where
                              order[i] is WEIGHT_NO_INPUT (act-order, groups filled up) */
    const float *scale;    /* borrowed (n) or NULL: of the outputs, before the bias */
    const float *bias;     /* borrowed (n) or NULL */
};
#define WEIGHT_NO_INPUT UINT32_MAX

/* What the scales of awq and gptq are in the file. */
enum weight_scales { WEIGHT_SCALES_F16, WEIGHT_SCALES_BF16, WEIGHT_SCALES_F32 };

/* One matrix of a checkpoint, as its bytes lie in the file: read bytewise, any alignment. Which
 * fields a format has is said in kernels/quant/quant.h. */
struct weight_tensor {
    const char *format; /* "f32", "f16", "bf16", "q4_0", "q4_k", "awq", "gptq4", ... */
    uint32_t n;         /* outputs */
    uint32_t k;         /* inputs */
    uint32_t group;     /* awq, gptq: inputs per scale; else 0 */
    const void *values; /* borrowed, as all below */
    size_t n_value_bytes;
    const void *scales; /* awq, gptq: (groups, n) */
    size_t n_scale_bytes;
    enum weight_scales scale_kind; /* of scales */
    const void *zeros;             /* awq, gptq */
    size_t n_zero_bytes;
    const void *group_of; /* int32 (k), each below the number of groups, or NULL: i / group */
};

/* Rows of one tensor that go into a packed matrix: row row_begin + i becomes row out_begin + i *
 * out_step. Merged q|k|v are three parts with step 1; gate and up two with step 2. */
struct weight_part {
    const struct weight_tensor *tensor; /* borrowed */
    uint32_t row_begin;
    uint32_t n_rows;
    uint32_t out_begin;
    uint32_t out_step;
};

/* A matrix to be packed. The parts fill all its rows, each once. */
struct weight_source {
    const struct weight_part *parts; /* borrowed (n_parts) */
    uint32_t n_parts;
    uint32_t k_begin; /* inputs taken of every tensor: [k_begin, k_begin + k) */
    uint32_t k;
    bool exact; /* 16-bit numbers are kept as float32, so that activations are not rounded */
};

enum kv_format { KV_F16, KV_F32 };

/* Sizes that bound every call on a context, and what its keys and values are: those of all layers. */
struct kernels_limits {
    uint32_t max_tokens;  /* T of a step */
    uint32_t max_seqs;    /* B of a step */
    uint32_t max_context; /* tokens of a sequence */
    uint32_t max_dim;     /* largest k or activation width of any matrix */
    uint32_t n_vocab;
    uint32_t n_heads; /* query heads */
    uint32_t n_kv_heads;
    uint32_t head_dim;
    enum kv_format kv_format;
};

struct kernels_options {
    uint32_t n_threads; /* 0: one per core the process may use */
    const char *isa;    /* NULL: best; else one of the backend's isas, for tests */
    uint32_t device;    /* ordinal, where the backend computes on one */
    bool no_graphs;     /* there each operation is launched by itself, though steps repeat */
    uint32_t n_ranks;   /* of the context's group; 0 is 1 */
    size_t together;    /* numbers of a sum over its ranks, mostly */
    uint32_t columns;   /* of what they gather, the most that one of them has; 0: n_vocab */
    uint32_t wait_ms;   /* for a rank that is late; 0: as long as the backend thinks right */
    struct kernels_limits limits;
};

/* What the ranks of one group call it by: plain bytes, which may be sent by any means. */
struct kernels_group_id {
    unsigned char bytes[128];
};

/* What the step's tokens belong to. Tokens of one sequence are neighbours, in order of position. */
struct kernels_batch {
    uint32_t n_tokens;            /* T */
    uint32_t n_seqs;              /* B */
    const uint32_t *ids;          /* (T) token ids; NULL in step_begin() of a step ahead */
    const uint32_t *positions;    /* (T) position of each token in its sequence */
    const uint32_t *seq_begin;    /* (B + 1) first token of each sequence in the step */
    const uint32_t *block_tables; /* (B, block_table_stride) block numbers of each sequence */
    uint32_t block_table_stride;
    const uint32_t *variants; /* (B) the rotary table of each sequence; NULL: table 0 for all */
};

/* A step as the operations take it: see step_begin(). All arrays of the batch are there, but for
 * variants where one table serves all. */
struct kernels_step {
    struct kernels_batch batch;
    const uint32_t *rows; /* (n_rows) tokens of the batch that choose a next one */
    uint32_t n_rows;
};

/* One layer of the KV cache: block b starts at base + b * block_bytes. A block holds, for heads of
 * D dimensions:
 *
 *   K: (n_kv_heads, D, KV_BLOCK_TOKENS)    tokens innermost: 16 scores come from one pass
 *   V: (n_kv_heads, KV_BLOCK_TOKENS, D)    dimensions innermost
 *
 * so block_bytes = 2 * n_kv_heads * D * KV_BLOCK_TOKENS * kv_format_bytes(format). */
struct kernels_kv {
    void *base;
    size_t block_bytes;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    enum kv_format format;
};

static inline uint32_t kv_format_bytes(enum kv_format format) {
    return format == KV_F32 ? 4 : 2;
}

enum rope_layout { ROPE_NONE, ROPE_HALF_SPLIT, ROPE_INTERLEAVED };

/* What happens to the heads of q and k before attention, in this order: RMSNorm (where q_norm is),
 * rotation of pair i of `dims` by position * inv_freq[i], q times q_scale. Tables are made by the
 * family (own polynomials or libm at load, never in a step). A sequence of the batch uses the table
 * of its variant. */
struct rope {
    enum rope_layout layout;
    uint32_t dims;        /* rotary dimensions of a head, <= head_dim; the others stay */
    uint32_t n_variants;  /* tables, at least 1 */
    float norm_eps;       /* of q_norm and k_norm */
    const float *cos;     /* borrowed (n_variants, max_context, dims / 2) */
    const float *sin;     /* borrowed (n_variants, max_context, dims / 2) */
    const float *q_scale; /* borrowed (max_context) or NULL: q also times this (Qwen's logn) */
    const float *q_norm;  /* borrowed (head_dim) gains, or NULL (Qwen3) */
    const float *k_norm;  /* borrowed (head_dim), when q_norm is */
};

/* What happens to y = x W^T + bias before it is stored. */
enum epilogue {
    EPILOGUE_NONE,     /* out (T, n) = y */
    EPILOGUE_ADD,      /* out (T, n) += y: the residual stream */
    EPILOGUE_SILU_MUL, /* rows of W alternate gate, up: out (T, n / 2) = silu(y[2i]) * y[2i + 1] */
};

struct kernels_ctx;

struct kernels {
    const char *name;
    /* "exact": the bits of the backends ref and cpu; "fast": near them, what its device does best. Name and this are the key of a
     * row. */
    const char *numerics_kind;
    const char *const *isas; /* what options.isa may name, NULL-terminated; NULL: nothing */

    NODISCARD enum status (*open)(const struct kernels_options *options, struct kernels_ctx **ctx,
                                  struct error *error);
    void (*close)(struct kernels_ctx *ctx); /* NULL is fine */

    /* What decides the bits of this context's results: equal text, equal numbers. */
    const char *(*numerics)(const struct kernels_ctx *ctx);

    /* Bytes of a device's memory that are free now. NULL where memory of alloc() is memory of the
     * host (kernels_on_host()). STATUS_NOT_FOUND: there is no such device. */
    NODISCARD enum status (*free_bytes)(uint32_t device, uint64_t *n_bytes, struct error *error);

    /* Memory the operations work on (weights, KV, activations): 64-byte aligned, zeroed; huge pages
     * where they help. NULL when there is none. */
    void *(*alloc)(struct kernels_ctx *ctx, size_t n_bytes);
    void (*dealloc)(struct kernels_ctx *ctx, void *memory, size_t n_bytes);

    /* Bytes of the host into memory of alloc(), and back. `from` may change as soon as put() returns;
     * operations that are called later see the bytes. get() waits for all that was called before. */
    void (*put)(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
    void (*get)(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);

    /* KV for other workers and from them, which moves while the operations of a step go on.
     * put_beside() is for bytes that no operation of the running step touches; the operations of
     * later steps see them, as get() and get_beside() do. get_beside() waits for its own copy alone:
     * it sees what was called before the running step, and of that step what stands before the mark
     * that marked() answered last. STATUS_IO: the device failed, and `to` holds anything. */
    void (*put_beside)(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
    NODISCARD enum status (*get_beside)(struct kernels_ctx *ctx, void *to, const void *from,
                                        size_t n_bytes);

    /* The operations of a step stand between these two. step_begin() takes the arrays of `step` from
     * memory of the host and replaces them by what the operations take, good until step_end(); the
     * host's may change once it has returned. Counts of tokens, sequences and rows may be larger afterwards,
     * within the limits: what operations compute for these means nothing. step_end() waits until
     * all is done. Anything but
     * STATUS_OK means that the device failed: what was computed since the last STATUS_OK means
     * nothing, and nothing more will be computed. */
    void (*step_begin)(struct kernels_ctx *ctx, struct kernels_step *step);
    NODISCARD enum status (*step_end)(struct kernels_ctx *ctx);

    /* Before anybody is served: the next step, of n sequences with one token each and as many rows, where n is what this answers, is
     * taken down as later ones of its shape will be launched, and computes nothing; marks count as done. n is n_seqs or more:
     * what steps of so many sequences are filled up to. 0: there is nothing to make ready, and the next step is like any other.
     * NULL where steps have no shape. */
    uint32_t (*rehearse)(struct kernels_ctx *ctx, uint32_t n_seqs);

    /* mark(): number i stands for all operations called so far; marked(): the highest number whose
     * operations are done, 0 before the first of a step, UINT32_MAX once the device has failed;
     * never waits. Numbers rise within a step. Both NULL where an operation is done when it
     * returns. */
    void (*mark)(struct kernels_ctx *ctx, uint32_t number);
    uint32_t (*marked)(struct kernels_ctx *ctx);

    /* Packed size of a matrix: 0 and `error` when impossible. Parts that differ in their order of
     * inputs (act-order) cannot be merged. */
    size_t (*weight_size)(const struct weight_source *source, struct error *error);
    /* Packs into `memory` (weight_size bytes, 64-byte aligned) and fills `weight` (scale and bias
     * stay NULL; the order lies in `memory`). The context's scratch memory grows where a matrix
     * stores more inputs than max_dim: products are for the context that packed. */
    NODISCARD enum status (*weight_pack)(struct kernels_ctx *ctx,
                                         const struct weight_source *source, void *memory,
                                         struct weight *weight, struct error *error);

    /* out (T, k) = rows `ids` - id_begin of table (n, k), dequantized; zeros where that is not a row
     * of the table (another rank has it). The table is a packed weight, so a tied head and the
     * embedding share one copy. */
    void (*embed)(struct kernels_ctx *ctx, float *out, const struct weight *table,
                  const struct kernels_batch *batch, uint32_t id_begin);

    /* out (rows, dim) = x / sqrt(mean(x^2) + eps) * gain. RMSNorm (Zhang, Sennrich 2019). */
    void (*norm)(struct kernels_ctx *ctx, float *out, const float *x, const float *gain, float eps,
                 uint32_t n_rows, uint32_t dim);

    /* y = x (rows, k) W^T * scale + bias, then the epilogue into out, whose rows are out_stride
     * floats apart. */
    void (*linear)(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                   const struct weight *weight, uint32_t n_rows, enum epilogue epilogue);

    /* out (n) = silu(gate) * up: for gate and up that could not be merged into one matrix. */
    void (*silu_mul)(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                     size_t n);

    /* out (rows, dim) += sigmoid(gate (rows)) * x (rows, dim); 1 * x where gate is NULL. */
    void (*add_gated)(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                      uint32_t n_rows, uint32_t dim);

    /* Softmax of logits (rows, n_experts) over all experts, in float32; the n_active largest of
     * each row, best first, the lower id first among equals: ids and weights (rows, n_active);
     * normalise: weights are divided by their sum. */
    void (*moe_route)(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                      uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise);

    /* out (rows, dim) = sum over the row's experts e, in rising e, of its weight times down_e(
     * silu(gate_e(x)) * up_e(x)). gate_up[e]: rows alternate, as for EPILOGUE_SILU_MUL. Only chosen
     * experts are computed, mostly each once for all of its rows. scratch: moe_scratch() floats, which are no fewer for
     * more rows. */
    size_t (*moe_scratch)(uint32_t n_rows, uint32_t n_active, uint32_t dim, uint32_t expert_dim);
    void (*moe_ffn)(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                    const float *weights, uint32_t n_rows, uint32_t n_active,
                    const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                    float *scratch);

    /* qkv (T, (n_heads + 2 n_kv) * head_dim): norms and rotates q in place and k, and writes k and
     * v into the blocks of `kv`. */
    void (*rope_kv)(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                    const struct rope *rope, const struct kernels_kv *kv);

    /* out (T, n_heads * head_dim) = causal attention of q (in qkv, as above) over all of each
     * sequence's blocks up to the token's own position. scale: usually 1 / sqrt(head_dim).
     * alibi: (n_heads) slopes or NULL; window: 0, or keys j with i - window < j <= i only. */
    void (*attend)(struct kernels_ctx *ctx, float *out, const float *qkv,
                   const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                   const float *alibi, uint32_t window);

    /* Copies n_rows rows of `dim` floats: out[i] = x[rows[i]] (the last token of each sequence). */
    void (*gather_rows)(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *rows,
                        uint32_t n_rows, uint32_t dim);

    /* Chooses a token per row of logits (n_rows, n_vocab); logits may be overwritten. The params and
     * what they point to, and the results, are memory of the host; the results are there when it
     * returns. */
    void (*sample)(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                   const struct sample_params *params, struct sample_result *results);

    /* One step ahead; all three NULL where there is no such thing. sample_begin(): as sample(), of all
     * rows of the running step, but it only begins; what the parameters point to may change once it
     * has returned. STATUS_BUSY: too much at once, nothing was begun.
     * After it step_begin() may come in place of step_end(), with ids NULL: token i of the step ahead
     * is the one that row i chooses; where that result is not valid nothing it computes means anything.
     * What else the running step computes is done before. Marks are the step's ahead from then on, and
     * put_beside() and get_beside() heed both.
     * sample_done(): whether the results of the oldest sample_begin() are there; never waits.
     * sample_end(): waits for them and for nothing that was begun later. STATUS_IO: the device failed,
     * and they mean nothing. At most two are begun and not ended; none when step_end() comes. */
    NODISCARD enum status (*sample_begin)(struct kernels_ctx *ctx, float *logits, uint32_t n_rows,
                                          uint32_t n_vocab, const struct sample_params *params);
    bool (*sample_done)(struct kernels_ctx *ctx);
    NODISCARD enum status (*sample_end)(struct kernels_ctx *ctx, struct sample_result *results);

    /* NULL, or why the device failed, for a log. NULL itself where nothing can. */
    const char *(*failure)(const struct kernels_ctx *ctx);

    /* Ranks of a tensor-parallel group, each a context with a device of its own; all four NULL where sums go through the
     * host. Opened with n_ranks (2 or more), each context meets the others, all of the same options but for the device, while
     * none of them computes, in one of two ways. By `all` (n_ranks, by rank, of this process) devices read each other's
     * memory. By an `id`, which group_id() of one of them made for this once, a library (NCCL) brings the numbers of each to the
     * others; then all call at the same time, each in a thread, and wait for each other. n_ranks 0: it leaves them again, and so it
     * does at its end. STATUS_UNSUPPORTED, STATUS_CLOSED (some did not come in time), with the reason: the context has met no rank.
     * sum(): x (n) becomes the sum of all ranks' x, in their order. gather(): columns [column_begin, column_begin + n_columns) of
     * out (n_rows, out_stride) on rank 0 become this rank's part (n_rows, n_columns); out is NULL on the others. All ranks call
     * the same in the same order; a rank that asks for something else, or does not come in time, is a failure of the
     * devices of all that wait for it. So is one that calls anything, a mark too, between add_parts() (below) and the norm of what x
     * comes to where the others do not: both may be one. A step of a group is done when each rank's thread waits for its own. */
    NODISCARD enum status (*group_id)(struct kernels_ctx *ctx, struct kernels_group_id *id,
                                      struct error *error);
    NODISCARD enum status (*meet)(struct kernels_ctx *ctx, uint32_t rank, uint32_t n_ranks,
                                  struct kernels_ctx *const *all, const struct kernels_group_id *id,
                                  struct error *error);
    void (*sum)(struct kernels_ctx *ctx, float *x, size_t n);
    void (*gather)(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                   size_t n_rows, size_t column_begin, size_t n_columns);

    /* x (n), which all ranks have, becomes x + r(r(part of rank 0) + r(part of rank 1) + ...): sums in float32, in the order of ranks,
     * r(y) the bfloat16 that is nearest to y, the even one of two. The same bits at every n, and in each way in which the ranks can meet.
     * `part` (n) is other memory than x, and means nothing afterwards. NULL where what ranks add to x is not rounded on its way to
     * the others, but goes by sum(). It is part of the row's numerics: who adds up on the host, where the ranks have not met, rounds
     * too. */
    void (*add_parts)(struct kernels_ctx *ctx, float *x, float *part, size_t n);
};

/* Declares a backend's function for `op`: parameters and contract are those of the table. */
#define KERNELS_OP(op, name) __typeof__(*((const struct kernels *)0)->op) name

/* Whether the host may read and write memory of alloc() itself, and share it. */
static inline bool kernels_on_host(const struct kernels *kernels) {
    return !kernels->free_bytes;
}

/* The row of a label: NAME:NUMERICS ("cuda:exact"), or NAME, whose first row it is then ("cuda" is "cuda:fast"); NULL when there is
 * none. The table is walked by tests/conform. */
const struct kernels *kernels_find(const char *label);
extern const struct kernels *const kernels_table[]; /* NULL-terminated */
