/* kernels/cuda/cuda.h: the host's half of the backend, shared by its files only.
 *
 * A context owns a device, two streams, and on the device: activations as integers, the arrays of the
 * step, partial results of attention. An operation puts its kernels into the main stream and returns; KV
 * for other workers goes beside it. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/nccl.h"
#include "kernels/kernels.h"

#define STAGE_BYTES  (8u << 20) /* pinned memory that bytes go through: of the main stream */
#define BESIDE_BYTES (4u << 20) /* of the one beside it: some chunks of KV */

/* A stream, and the pinned memory that bytes of the host go through. */
struct cuda_lane {
    struct device_stream *stream; /* owned */
    unsigned char *stage;         /* owned, pinned (n_bytes) */
    size_t n_bytes;
    size_t used; /* bytes of it that copies in the stream still read */
};

/* Arrays that go to the device together: filled in pinned memory, sent by one copy. */
struct cuda_tray {
    unsigned char *memory; /* owned: the device's copy of `pinned` */
    unsigned char *pinned; /* owned */
    size_t n_bytes;
    size_t used;
};

/* Tiles of a step for attention on tensor cores: first those of sequences with one token. */
struct cuda_spans {
    const struct gpu_tile *tiles; /* on the device */
    uint32_t n_tiles;
    uint32_t n_split; /* of them: see struct gpu_attend */
    bool
        serves; /* the context's last attention was on them: nothing of a step depends on how far its sequences are */
};

/* A step's arrays on the device and what the host has to know of them. */
struct cuda_step {
    struct cuda_tray tray;
    const uint32_t *seq_of;
    const struct gpu_tile *tiles; /* on the device */
    const struct gpu_tile *host_tiles;
    const uint32_t *seq_begin; /* (B + 1) on the host: in the tray */
    const uint32_t *positions; /* (T) the same */
    uint32_t n_tiles;
    uint32_t n_chunks;    /* of attention: what its launches are made for; 0: as positions say */
    uint32_t tile_tokens; /* tokens of a tile; 0: a token has several */
    uint32_t tiles_per_token;
    uint32_t few;            /* struct gpu_attend's */
    bool alone;              /* each query is a tile */
    struct cuda_spans spans; /* of fast numerics */
};

#define MARKS_MAX 128

/* Marks in the stream that were not seen to be done: a ring. */
struct cuda_marks {
    struct device_event *events[MARKS_MAX]; /* owned */
    uint32_t numbers[MARKS_MAX];
    uint32_t first;
    uint32_t n;
    uint32_t done; /* the highest number that was seen to be done */
};

/* What steps have in common that may launch the same. */
struct cuda_shape {
    uint32_t n_tokens;
    uint32_t n_rows;
    uint32_t n_chunks;     /* of attention; 1 where cuda_spans.serves */
    uint32_t has_variants; /* 0 or 1 */
};

/* What the last step of a shape launched. */
struct cuda_graph {
    struct cuda_shape shape;
    unsigned char *records; /* owned (n_room) */
    size_t n_bytes;
    size_t n_room;
    struct device_graph *graph; /* owned: of these records; NULL: it was not made yet */
    bool refused;               /* the device makes none of them */
    uint64_t used;              /* number of the step that was the last */
};

#define GRAPHS_MAX 64

/* Steps that are recorded: see cuda/graph.c. */
struct cuda_graphs {
    bool off; /* none is */
    struct cuda_graph all[GRAPHS_MAX];
    uint64_t n_steps;
    struct cuda_graph
        *open;     /* takes the launches of the running step; NULL: they go into the stream */
    size_t at;     /* bytes of them so far */
    bool same;     /* they are the records that are there */
    uint32_t mark; /* the last number that was marked; 0: none */
};

/* The experts' matrices of one layer, on the device too. */
struct cuda_experts {
    struct gpu_matrix *host;   /* owned (n) */
    struct gpu_matrix *device; /* owned */
    uint32_t n;
    bool
        is_uniform; /* all are stored alike, so that one kernel takes them: in fast numerics, on tensor cores */
    bool is_ordered; /* some have an order of inputs of their own */
};

/* Which rows the context's integers are rounded from: a product of the same ones takes them as they are. */
struct cuda_rounded {
    const float *x; /* NULL: unknown */
    uint32_t n_rows;
    uint32_t k;
    enum weight_format format; /* WEIGHT_I4G for all integers */
};

/* Memory for choosing the tokens of some rows at a time. */
struct cuda_sampler {
    uint32_t rows_max;
    struct cuda_tray tray;       /* parameters of the rows */
    float *scratch;              /* owned (rows_max, n_vocab), on the device */
    void *blocks;                /* owned: what is known of blocks of ids, on the device */
    struct gpu_sampled *results; /* owned (rows_max), on the device */
    struct gpu_sampled *pinned;  /* owned (rows_max): of the host */
};

/* What the next operation may be computed with, and is launched by itself otherwise: the last norm (n_rows 0: none), and in fast
 * numerics what is before it: what a product has left, and then the ranks' parts of which it is one, added to x; or attention. */
struct cuda_held {
    struct gpu_sum sum;
    struct gpu_sum_ranks ranks; /* n 0: there is none */
    struct gpu_norm norm;
    struct gpu_attend join; /* n_tiles 0: there is none */
};

/* Tokens that were chosen and not read yet. */
struct cuda_choice {
    struct gpu_sampled *results;  /* owned, pinned (rows_max) */
    struct sample_params *params; /* owned (rows_max): what was asked for, but for its arrays */
    struct device_event *there;   /* owned: the results are */
    uint32_t n_rows;
};

/* Steps ahead: see cuda/ahead.c. */
struct cuda_ahead {
    struct device_stream *watch; /* owned: to wait for an event of the main stream by itself */
    unsigned char *step_spare;   /* owned, pinned: in turn with the step's tray */
    unsigned char *sample_spare; /* the same, with the sampler's */
    struct cuda_choice choices[2];
    uint32_t first; /* of those that were not read */
    uint32_t n;
};

/* Ranks of the process, each a context: see cuda/ranks.c. */
struct cuda_ranks {
    struct gpu_room *room;           /* owned, on the device, where there is a group */
    struct gpu_group_of_ranks group; /* n_ranks 0: the context has not met the others */
    size_t stage_floats;             /* behind the room */
    uint32_t columns;                /* kernels_options.columns */
    struct nccl_group *nccl;         /* owned; NULL: the devices reach each other */
    struct nccl_wait look;           /* where `looks` */
    bool looks;                      /* somebody waits by looking (cuda_looks()) */
    bool has_met;
    bool no_graphs; /* though it has */
};

struct kernels_ctx {
    const struct device_kind *kind;
    const struct gpu_launches *gpu;
    struct device *device; /* owned */
    struct cuda_lane main; /* what operations are put into */
    struct kernels_limits limits;
    struct device_facts facts;
    bool fast;          /* products are those of 16-bit tensor cores, */
    bool wgmma;         /* which the device's wgmma computes with the same bits */
    char numerics[160]; /* the context's text */

    struct cuda_lane beside;      /* KV for other workers, while the main stream computes */
    struct device_event *settled; /* owned: all of the main stream, before KV outside of a step */
    struct device_event *arrived; /* owned: the last KV that was put beside */
    bool has_arrived;             /* the main stream does not wait for that yet */
    bool in_step;

    struct gpu_ints ints; /* owned: rows of activations */
    uint32_t ints_rows;   /* of both terms together */

    float *attend; /* owned (attend_floats) */
    size_t attend_floats;

    struct cuda_step step;
    struct cuda_marks marks;
    struct cuda_graphs graphs;
    struct cuda_held held;
    struct cuda_rounded rounded;
    float *parts; /* owned (parts_floats): of slices, in fast numerics */
    size_t parts_floats;
    uint32_t *pairs;          /* owned (ints_rows / 2): of rows and experts, in fast numerics */
    struct gpu_group *groups; /* owned (ints_rows / 2 + EXPERTS_MAX) */

    struct cuda_experts *experts; /* owned (n_experts) */
    uint32_t n_experts;

    struct cuda_sampler sampler;
    struct cuda_ahead ahead;
    struct cuda_ranks ranks;
};

/* cuda/lane.c */
/* STATUS_NOMEM leaves what cuda_lane_close() takes. */
NODISCARD enum status cuda_lane_open(struct kernels_ctx *ctx, struct cuda_lane *lane,
                                     size_t n_bytes);
void cuda_lane_close(struct kernels_ctx *ctx, struct cuda_lane *lane); /* fine on a zeroed one */
/* n_bytes (at most those of the lane) of pinned memory to fill, and their copy to the device. */
void *cuda_stage(struct kernels_ctx *ctx, struct cuda_lane *lane, size_t n_bytes);
void cuda_send(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to, const void *staged,
               size_t n_bytes);
/* Any number of bytes through the lane; from_device() waits for them. STATUS_IO: the device failed. */
void cuda_to_device(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to, const void *from,
                    size_t n_bytes);
enum status cuda_from_device(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to,
                             const void *from, size_t n_bytes);

/* cuda/wait.c */
/* Waits for a stream of the device; STATUS_IO too where the rank's group is at an end, which is a failure of the device. */
enum status cuda_wait(struct kernels_ctx *ctx, struct device_stream *stream);
/* Before and after a look at what the main stream has done, in place of a wait for it: whether there is something to look for.
 * Looks that find nothing done are one wait, which the rank's group watches like any other. One thread, as long as it lasts. */
void cuda_looks(struct kernels_ctx *ctx, bool again);
const char *cuda_failure(const struct kernels_ctx *ctx);

/* cuda/memory.c */
void *cuda_alloc(struct kernels_ctx *ctx, size_t n_bytes);
void cuda_dealloc(struct kernels_ctx *ctx, void *memory, size_t n_bytes);
/* Makes room for activations of k_stored inputs. STATUS_NOMEM. */
NODISCARD enum status cuda_reserve(struct kernels_ctx *ctx, uint32_t k_stored);
void cuda_free_ints(struct kernels_ctx *ctx, const struct gpu_ints *ints);
void cuda_put(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
void cuda_get(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);

/* STATUS_NOMEM leaves what cuda_tray_close() takes. */
NODISCARD enum status cuda_tray_open(struct kernels_ctx *ctx, struct cuda_tray *tray,
                                     size_t n_bytes);
void cuda_tray_close(struct kernels_ctx *ctx, struct cuda_tray *tray); /* fine on a zeroed one */
/* What n_bytes take of a tray. */
static inline size_t cuda_tray_bytes(size_t n_bytes) {
    return (n_bytes + 63) / 64 * 64;
}
/* Room for n_bytes, which there must be: where the host fills it, and in *device, a pointer, where the device will
 * find it. cuda_tray_send() fills it from memory of the host. */
void *cuda_tray_take(struct cuda_tray *tray, size_t n_bytes, const void *device);
void *cuda_tray_send(struct cuda_tray *tray, const void *device, const void *from, size_t n_bytes);

/* cuda/beside.c */
NODISCARD enum status cuda_beside_open(struct kernels_ctx *ctx, struct error *error);
void cuda_beside_close(struct kernels_ctx *ctx);
void cuda_put_beside(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes);
NODISCARD enum status cuda_get_beside(struct kernels_ctx *ctx, void *to, const void *from,
                                      size_t n_bytes);
/* What the main stream is given from now on comes after all that was put beside. */
void cuda_beside_join(struct kernels_ctx *ctx);

/* cuda/weight.c */
size_t cuda_weight_size(const struct weight_source *source, struct error *error);
NODISCARD enum status cuda_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                                       void *memory, struct weight *weight, struct error *error);
/* Where the parts of a packed matrix lie. */
struct gpu_matrix cuda_matrix(const struct weight *weight);

/* cuda/step.c */
NODISCARD enum status cuda_step_open(struct kernels_ctx *ctx, struct error *error);
void cuda_step_close(struct kernels_ctx *ctx);
void cuda_step_begin(struct kernels_ctx *ctx, struct kernels_step *step);
NODISCARD enum status cuda_step_end(struct kernels_ctx *ctx);

/* cuda/spans.c: attention of fast numerics, on tensor cores. */
/* Bytes of a step's tray. */
size_t cuda_spans_bytes(const struct kernels_limits *limits);
/* Lists the tiles of a step's first n_seqs sequences, which have n_tokens: at a place of the tray that follows from n_tokens. */
void cuda_spans_list(struct kernels_ctx *ctx, uint32_t n_tokens, uint32_t n_seqs);
/* Whether keys and values of this format, for the context's heads, are for it; and then all launches of a layer. */
bool cuda_spans_take(struct kernels_ctx *ctx, const struct kernels_kv *kv);
void cuda_spans_attend(struct kernels_ctx *ctx, struct gpu_attend *attend);

/* cuda/graph.c */
/* From now on launches are recorded, until cuda_flush(). */
void cuda_graph_open(struct kernels_ctx *ctx, const struct cuda_shape *shape);
/* What was recorded goes into the main stream: before anything else does that is no launch of an operation, and before
 * memory is given back that the launches may use. */
void cuda_flush(struct kernels_ctx *ctx);
/* The next steps are launched as the first of their shape. */
void cuda_graphs_forget(struct kernels_ctx *ctx);
void cuda_graphs_close(struct kernels_ctx *ctx);
void cuda_mark(struct kernels_ctx *ctx, uint32_t number);
uint32_t cuda_marked(struct kernels_ctx *ctx);

/* cuda/held.c */
/* Launches what is held. */
void cuda_release(struct kernels_ctx *ctx);
void cuda_hold_norm(struct kernels_ctx *ctx, const struct gpu_norm *norm);
void cuda_hold_sum(struct kernels_ctx *ctx, const struct gpu_sum *sum);
/* Of ranks whose devices reach each other's memory: parts that round, in fours (gpu_sum_ranks.whole), GPU_SUM_WHOLE at most. */
void cuda_hold_ranks(struct kernels_ctx *ctx, const struct gpu_sum_ranks *ranks);
void cuda_hold_join(struct kernels_ctx *ctx, const struct gpu_attend *join);
/* Whether the held norm writes the rows of a product as integers, too: launched with that. */
bool cuda_norm_quantizes(struct kernels_ctx *ctx, const struct gpu_quantize *quantize);
/* Rounds the rows of a product on tensor cores, with what is held where that ends in them. */
void cuda_round_rows(struct kernels_ctx *ctx, const struct gpu_round_rows *round);
/* n floats at `out` are written by what launches that keep rounded rows do, or by what is held: rows that were rounded from them
 * are others. */
void cuda_forget_rounded(struct kernels_ctx *ctx, const float *out, size_t n);
/* The sum that is held where its rows are `qkv`: it is no longer. */
struct gpu_sum cuda_take_sum(struct kernels_ctx *ctx, const float *qkv);

/* Into the main stream, or a record: what `run` puts there when it is called with a copy of `what` (n_bytes, a multiple of 8). */
void cuda_operation(struct kernels_ctx *ctx, void (*run)(struct kernels_ctx *ctx, const void *what),
                    const void *what, size_t n_bytes);
/* The same for a launch. */
#define X(name, type) void cuda_launch_##name(struct kernels_ctx *ctx, const struct type *what);
GPU_OPERATIONS(X)
#undef X

/* At most `most` of the product's rows, from `row` on. */
static inline struct gpu_linear cuda_rows_of(const struct gpu_linear *linear, uint32_t row,
                                             uint32_t most) {
    struct gpu_linear part = *linear;
    part.x = linear->x + (size_t)row * linear->choice.matrix.k;
    part.out = linear->out + row * linear->out_stride;
    part.n_rows = linear->n_rows - row < most ? linear->n_rows - row : most;
    return part;
}

/* cuda/operations.c */
void cuda_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
                const struct kernels_batch *batch, uint32_t id_begin);
void cuda_norm(struct kernels_ctx *ctx, float *out, const float *x, const float *gain, float eps,
               uint32_t n_rows, uint32_t dim);
void cuda_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                 const struct weight *weight, uint32_t n_rows, enum epilogue epilogue);
/* Quantizes linear->x and multiplies; `ints` is the context's. Rows, times their terms, are at most
 * ints_rows. */
void cuda_linear_ints(struct kernels_ctx *ctx, const struct gpu_linear *linear);
void cuda_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                   size_t n);
void cuda_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                    uint32_t n_rows, uint32_t dim);
void cuda_gather_rows(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *rows,
                      uint32_t n_rows, uint32_t dim);
void cuda_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                  const struct rope *rope, const struct kernels_kv *kv);
void cuda_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                 const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                 const float *alibi, uint32_t window);

/* cuda/tensor.c */
/* Fast numerics: rounds linear->x and multiplies, as many rows at a time as there is room for. */
void cuda_linear_tensor(struct kernels_ctx *ctx, const struct gpu_linear *linear);

/* The shape of a product of n_rows rows by each of n_groups matrices like linear's; parts: whether slices may go to different
 * blocks. */
struct gpu_tensor_shape cuda_tensor_shape(const struct kernels_ctx *ctx,
                                          const struct gpu_linear *linear, uint32_t n_rows,
                                          uint32_t n_groups, bool parts);

/* cuda/experts.c */
void cuda_experts_close(struct kernels_ctx *ctx);
void cuda_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                    uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise);
void cuda_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                  const float *weights, uint32_t n_rows, uint32_t n_active,
                  const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                  float *scratch);

/* cuda/sample.c */
NODISCARD enum status cuda_sampler_open(struct kernels_ctx *ctx, struct error *error);
void cuda_sampler_close(struct kernels_ctx *ctx);
void cuda_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                 const struct sample_params *params, struct sample_result *results);
/* Parameters of rows from the first on go to the tray, as many as fit; answers how many. */
uint32_t cuda_sample_prepare(struct kernels_ctx *ctx, struct gpu_sample *what, const float *logits,
                             const struct sample_params *params, uint32_t n_rows, uint32_t n_vocab);
/* Chooses for these rows; the results come to pinned memory. */
void cuda_sample_launch(struct kernels_ctx *ctx, const struct gpu_sample *what,
                        struct gpu_sampled *results);
void cuda_sample_result(const struct gpu_sampled *got, const struct sample_params *params,
                        struct sample_result *result);

/* cuda/ranks.c */
NODISCARD enum status cuda_ranks_open(struct kernels_ctx *ctx,
                                      const struct kernels_options *options, struct error *error);
void cuda_ranks_close(struct kernels_ctx *ctx);
NODISCARD enum status cuda_group_id(struct kernels_ctx *ctx, struct kernels_group_id *id,
                                    struct error *error);
NODISCARD enum status cuda_meet(struct kernels_ctx *ctx, uint32_t rank, uint32_t n_ranks,
                                struct kernels_ctx *const *all, const struct kernels_group_id *id,
                                struct error *error);
void cuda_sum(struct kernels_ctx *ctx, float *x, size_t n);
void cuda_add_parts(struct kernels_ctx *ctx, float *x, float *part, size_t n);
void cuda_gather(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                 size_t n_rows, size_t column_begin, size_t n_columns);

/* cuda/wires.c: the same where NCCL brings the numbers. */
/* Floats of memory that sums of n_floats at a time and rows of `columns` take. */
size_t cuda_wires_floats(uint32_t n_ranks, size_t n_floats, uint32_t columns);
/* Sends some numbers on all ways that operations take: the first use of one may take memory. STATUS_UNSUPPORTED with what came. */
NODISCARD enum status cuda_wires_try(struct kernels_ctx *ctx, struct error *error);
/* Of n numbers those from `at` on, as many as there is room for; both answer where the next ones begin. */
size_t cuda_wires_sum(struct kernels_ctx *ctx, float *x, size_t at, size_t n);
size_t cuda_wires_add(struct kernels_ctx *ctx, float *x, const float *part, size_t at, size_t n);
void cuda_wires_gather(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                       size_t n_rows, size_t column_begin, size_t n_columns);

/* cuda/ahead.c */
NODISCARD enum status cuda_ahead_open(struct kernels_ctx *ctx, struct error *error);
void cuda_ahead_close(struct kernels_ctx *ctx);
NODISCARD enum status cuda_sample_begin(struct kernels_ctx *ctx, float *logits, uint32_t n_rows,
                                        uint32_t n_vocab, const struct sample_params *params);
bool cuda_sample_done(struct kernels_ctx *ctx);
NODISCARD enum status cuda_sample_end(struct kernels_ctx *ctx, struct sample_result *results);
/* Before the arrays of a step are filled: pinned memory for them that nothing reads, while the step before runs where
 * `is_ahead`; else once that is done. */
void cuda_ahead_turn(struct kernels_ctx *ctx, bool is_ahead);
/* The first n of `ids` (on the device) become the tokens that were chosen last. */
void cuda_ahead_ids(struct kernels_ctx *ctx, const uint32_t *ids, uint32_t n);
