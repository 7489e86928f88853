/* kernels/cuda/context.h: a context of the backend from the inside, and what it is made of: the host's half, shared by its
 * files only. Each file's header has its functions; what changes a part of the context is the file of its name.
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
    const uint32_t *places;       /* the same (n_split): see struct gpu_attend */
    const uint32_t *host_places;  /* 0: there is no more room, so that a wave of launches begins */
    uint32_t n_tiles;
    uint32_t n_split;
    uint32_t n_waves;
    bool
        serves; /* the context's attention is on them: nothing of a step depends on how far its sequences are */
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
    uint32_t n_chunks; /* of exact attention: what its launches are made for; 0: as positions say */
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

#define GRAPHS_MAX 80 /* the 71 of steps of up to 1,024 sequences, a worker's most, and some */

/* Steps that are recorded: see cuda/graph.c. */
struct cuda_graphs {
    bool off;       /* none is */
    bool rehearses; /* the step is for its record, and computes nothing */
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

    struct cuda_experts *experts; /* owned (n_experts) */
    uint32_t n_experts;

    struct cuda_sampler sampler;
    struct cuda_ahead ahead;
    struct cuda_ranks ranks;
};
