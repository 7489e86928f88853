/* tests/gpu/times.h: what the files of gpu_times share: models by their shapes, with random weights, and how long what takes. */
#pragma once

#include "tests/gpu/rates.h"
#include "tests/gpu/side.h"

#include <stdbool.h>

struct times_shape {
    const char *name;
    const char *format;      /* of the layers' matrices */
    const char *head_format; /* of the output head */
    uint32_t dim, n_heads, n_kv_heads, head_dim, inner, n_layers, n_vocab;
};
extern const struct times_shape times_shapes[]; /* ends with one without a name */

/* What is timed: models and loads whose names hold these, or (NULL) all. */
struct times_wish {
    const char *backend;
    const char *model;
    const char *load;      /* of steps */
    const char *operation; /* of kernels: its whole name */
    uint32_t rows;         /* of kernels; 0: each of some numbers */
    uint32_t n_layers;     /* of steps; 0: the model's */
    bool no_graphs;
    bool emulated;      /* nothing is said of time, and little is done */
    struct rates rates; /* of the device */
};

/* One token of each of n_seqs sequences, or n_tokens of one. */
struct times_load {
    const char *name;
    uint32_t n_seqs;
    uint32_t n_tokens; /* of each */
    uint32_t position; /* of the first */
};

/* A backend's context for a model, and the arrays of a step. */
struct times_bench {
    struct side side;
    const struct times_shape *shape;
    uint32_t context, n_blocks, seqs_max, tokens_max;
    size_t block_bytes;
    float *x, *normed, *qkv, *attn, *inner, *logits, *gain, *tables;
    unsigned char *kv; /* n_blocks of it, for each of TIMES_LAYERS layers */
};
#define TIMES_LAYERS 2 /* whose weights and KV take turns */

void times_open(struct times_bench *bench, const struct times_wish *wish,
                const struct times_shape *shape);
void times_close(struct times_bench *bench);

bool times_wants(const struct times_wish *wish, const struct times_shape *shape);

/* A random matrix; it lasts as long as the side's arrays do. n_bytes: how many it takes. */
struct weight times_weight(struct side *side, const char *format, uint32_t n, uint32_t k,
                           size_t *n_bytes);
uint32_t times_qkv(const struct times_shape *shape);         /* outputs of the first product */
struct kernels_kv times_kv(const struct times_bench *bench); /* of the first layer */
struct rope times_rope(const struct times_bench *bench);

/* Runs `layers` in a step of this load, between its begin and its end. Answers the seconds of all. */
double times_step(struct times_bench *bench, const struct times_load *load,
                  void (*layers)(struct times_bench *bench, const struct kernels_step *step,
                                 void *context),
                  void *context);
/* The median of several such steps, after those in which a graph is made. */
double times_steps_median(struct times_bench *bench, const struct times_wish *wish,
                          const struct times_load *load,
                          void (*layers)(struct times_bench *bench, const struct kernels_step *step,
                                         void *context),
                          void *context);

/* An operation by itself (times_kernels.c). */
enum times_kind { TIMES_PRODUCT, TIMES_NORM, TIMES_ROPE, TIMES_ATTEND };

struct times_operation {
    const char *name;
    enum times_kind kind;
    uint32_t n, k; /* of a product */
    enum epilogue epilogue;
    bool of_head;
};
#define TIMES_OPERATIONS 8
/* Those of a layer and the head, those that take longest first. */
void times_list(const struct times_shape *shape, struct times_operation list[TIMES_OPERATIONS]);

/* How often an operation is run, and on what. */
struct times_run {
    const struct times_operation *operation;
    const struct times_load *load;
    struct weight weight;
    size_t weight_bytes;
    size_t n_copies;  /* of the weight, `weight_bytes` apart */
    size_t kv_places; /* of the first block, kv_bytes apart */
    size_t kv_bytes;  /* of a step's blocks */
    uint32_t n_times;
};
extern const struct times_load times_loads[], times_tiny_loads[]; /* end with one without a name */
bool times_wants_run(const struct times_wish *wish, const struct times_operation *operation,
                     const struct times_load *load);
/* Copies of the product's matrix, one behind the other, that no cache holds. */
void times_make_copies(struct times_bench *bench, const struct times_wish *wish,
                       struct times_run *run);
/* Bytes that the operation must move, and multiplications and additions on tensor cores. */
void times_work(const struct times_bench *bench, const struct times_run *run, double *bytes,
                double *ops);
/* How often an operation that takes `best` seconds at best is run for one measure. */
uint32_t times_count(const struct times_wish *wish, double best);
/* Seconds of one, from the times of two steps with so many and three times as many. */
double times_run_seconds(struct times_bench *bench, const struct times_wish *wish,
                         struct times_run *run, uint32_t n_times);
/* What times_step() runs: run->n_times of the operation, `context` being the run. */
void times_run_operations(struct times_bench *bench, const struct kernels_step *step,
                          void *context);
/* Where the product's results lie, and how many they are a row. */
float *times_out(const struct times_bench *bench, const struct times_operation *operation,
                 uint32_t *width);

/* The modes of gpu_times: how many measures they took. */
uint32_t times_models(const struct times_wish *wish);  /* whole steps */
uint32_t times_kernels(const struct times_wish *wish); /* each operation by itself */
uint32_t times_cuts(const struct times_wish *wish);    /* products in each shape of a launch */
