/* tests/gpu/times.c: how long the operations of a backend take at the shapes of the reference models, beside the
 * time that the device's memory would need at best. Weights are random; those of several layers take
 * turns, so that none is still in a cache. */
#include "base/clock.h"
#include "kernels/numbers.h"
#include "kernels/quant/quant.h"
#include "tests/gpu/side.h"
#include "tests/support/random_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS     2 /* whose weights take turns */
#define STEPS      5
#define WARM_STEPS 2 /* the second captures a graph */

struct shape {
    const char *name;
    const char *format;      /* of the layers' matrices */
    const char *head_format; /* of the output head */
    uint32_t dim, n_heads, n_kv_heads, head_dim, inner, n_layers, n_vocab;
};

static const struct shape shapes[] = {
    {"Mistral-7B AWQ", "awq", "f16", 4096, 32, 8, 128, 14336, 32, 32000},
    {"Baichuan2-13B GPTQ", "gptq4", "f16", 5120, 40, 40, 128, 13696, 40, 125696},
    {"Qwen-14B F16", "f16", "f16", 5120, 40, 40, 128, 13696, 40, 152064},
    {"7B Q4_1", "q4_1", "q8_0", 4096, 32, 8, 128, 14336, 32, 32000},
    {"ChatGLM3-6B F16", "f16", "f16", 4096, 32, 2, 128, 13696, 28, 65024},
    {"72B AWQ", "awq", "f16", 8192, 64, 8, 128, 29568, 80, 152064},
    {"72B GPTQ-Int8", "gptq8", "f16", 8192, 64, 8, 128, 29568, 80, 152064},
};

enum operation { NORM, QKV, ROPE, ATTEND, OUT, GATE_UP, DOWN, HEAD, N_OPERATIONS };
static const char *const operation_names[] = {"norm", "qkv",     "rope", "attend",
                                              "out",  "gate_up", "down", "head"};

struct layer {
    struct weight qkv, out, gate_up, down;
};

struct bench {
    struct side side;
    const struct shape *shape;
    struct layer layers[LAYERS];
    struct weight head;
    float *x, *normed, *qkv, *attn, *inner, *logits, *gain, *tables;
    unsigned char *kv;
    size_t block_bytes;
    uint32_t context, n_blocks;
    double seconds[N_OPERATIONS];
    bool each; /* every operation is waited for, to time it */
};

static void *repeated(const void *bytes, size_t n_bytes, size_t n_all) {
    char *all = n_all > 0 ? malloc(n_all) : NULL;
    if (n_all > 0 && (!all || n_bytes == 0))
        abort();
    for (size_t at = 0; at < n_all; at += n_bytes)
        memcpy(all + at, bytes, n_all - at < n_bytes ? n_all - at : n_bytes);
    return all;
}

#define RANDOM_ROWS                                                                                \
    64 /* outputs, where a tensor's rows are outputs, or inputs: the rows behind repeat these */
#define RANDOM_INPUTS 256

/* Random numbers for a tensor of a billion weights would take a minute. */
static struct weight_tensor tensor_of(struct random *random, const char *format, uint32_t n,
                                      uint32_t k) {
    bool grouped = strncmp(format, "awq", 3) == 0 || strncmp(format, "gptq", 4) == 0;
    struct weight_tensor part = grouped
                                    ? random_grouped_tensor(random, format, n, RANDOM_INPUTS, 128)
                                    : random_tensor(random, format, RANDOM_ROWS, k);
    struct weight_tensor all = {.format = format, .n = n, .k = k, .group = part.group};
    struct quant_sizes sizes;
    struct error error;
    if (quant_sizes(&all, &sizes, &error) != STATUS_OK)
        abort();
    all.values = repeated(part.values, part.n_value_bytes, sizes.values);
    all.scales = repeated(part.scales, part.n_scale_bytes, sizes.scales);
    all.zeros = repeated(part.zeros, part.n_zero_bytes, sizes.zeros);
    all.n_value_bytes = sizes.values;
    all.n_scale_bytes = sizes.scales;
    all.n_zero_bytes = sizes.zeros;
    tensor_free(&part);
    return all;
}

static struct weight make(struct bench *bench, const char *format, uint32_t n, uint32_t k) {
    struct random random = {n + k};
    struct weight_tensor tensor = tensor_of(&random, format, n, k);
    struct weight weight = side_pack(&bench->side, &tensor);
    tensor_free(&tensor);
    return weight;
}

static double now(void) {
    return (double)clock_now_ns() * 1e-9;
}

static void took(struct bench *bench, enum operation operation, double *begin) {
    if (!bench->each)
        return;
    side_end_step(&bench->side);
    double end = now();
    bench->seconds[operation] += end - *begin;
    *begin = end;
}

/* One token of each of n_seqs sequences, or n_tokens of one. */
struct load {
    const char *name;
    uint32_t n_seqs;
    uint32_t n_tokens; /* of each */
    uint32_t position; /* of the first */
};

static void run_layer(struct bench *bench, const struct kernels_step *step, uint32_t index) {
    const struct shape *shape = bench->shape;
    const struct layer *layer = &bench->layers[index % LAYERS];
    const struct kernels *k = bench->side.kernels;
    struct kernels_ctx *ctx = bench->side.ctx;
    uint32_t n = step->batch.n_tokens;
    struct kernels_kv kv = {.base =
                                bench->kv + (index % LAYERS) * bench->n_blocks * bench->block_bytes,
                            .block_bytes = bench->block_bytes,
                            .n_kv_heads = shape->n_kv_heads,
                            .head_dim = shape->head_dim,
                            .format = KV_F16};
    struct rope rope = {.layout = ROPE_HALF_SPLIT,
                        .dims = shape->head_dim,
                        .n_variants = 1,
                        .cos = bench->tables,
                        .sin = bench->tables};
    double begin = now();
    k->norm(ctx, bench->normed, bench->x, bench->gain, 1e-5f, n, shape->dim);
    took(bench, NORM, &begin);
    k->linear(ctx, bench->qkv, layer->qkv.n, bench->normed, &layer->qkv, n, EPILOGUE_NONE);
    took(bench, QKV, &begin);
    k->rope_kv(ctx, bench->qkv, &step->batch, &rope, &kv);
    took(bench, ROPE, &begin);
    k->attend(ctx, bench->attn, bench->qkv, &step->batch, &kv, 0.088f, NULL, 0);
    took(bench, ATTEND, &begin);
    k->linear(ctx, bench->x, shape->dim, bench->attn, &layer->out, n, EPILOGUE_ADD);
    took(bench, OUT, &begin);
    k->norm(ctx, bench->normed, bench->x, bench->gain, 1e-5f, n, shape->dim);
    took(bench, NORM, &begin);
    k->linear(ctx, bench->inner, shape->inner, bench->normed, &layer->gate_up, n,
              EPILOGUE_SILU_MUL);
    took(bench, GATE_UP, &begin);
    k->linear(ctx, bench->x, shape->dim, bench->inner, &layer->down, n, EPILOGUE_ADD);
    took(bench, DOWN, &begin);
}

static void run_step(struct bench *bench, const struct load *load) {
    const struct shape *shape = bench->shape;
    uint32_t n = load->n_seqs * load->n_tokens, stride = bench->context / KV_BLOCK_TOKENS;
    uint32_t *words =
        calloc(2 * (size_t)n + 2 * load->n_seqs + 1 + (size_t)load->n_seqs * stride, sizeof *words);
    uint32_t *ids = words, *positions = ids + n, *begins = positions + n;
    uint32_t *rows = begins + load->n_seqs + 1, *blocks = rows + load->n_seqs;
    if (!words)
        abort();
    for (uint32_t s = 0; s < load->n_seqs; s++) {
        begins[s + 1] = (s + 1) * load->n_tokens;
        rows[s] = begins[s + 1] - 1;
        for (uint32_t i = 0; i < load->n_tokens; i++)
            positions[s * load->n_tokens + i] = load->position + i;
        for (uint32_t b = 0; b < stride; b++)
            blocks[s * stride + b] = (s * stride + b) % bench->n_blocks;
    }
    struct kernels_step step = {.batch = {.n_tokens = n,
                                          .n_seqs = load->n_seqs,
                                          .ids = ids,
                                          .positions = positions,
                                          .seq_begin = begins,
                                          .block_tables = blocks,
                                          .block_table_stride = stride},
                                .rows = rows,
                                .n_rows = load->n_seqs};
    const struct kernels *k = bench->side.kernels;
    struct kernels_ctx *ctx = bench->side.ctx;
    k->step_begin(ctx, &step);
    for (uint32_t i = 0; i < shape->n_layers; i++)
        run_layer(bench, &step, i);
    double begin = now();
    k->gather_rows(ctx, bench->normed, bench->x, step.rows, step.n_rows, shape->dim);
    k->linear(ctx, bench->logits, shape->n_vocab, bench->normed, &bench->head, step.n_rows,
              EPILOGUE_NONE);
    took(bench, HEAD, &begin);
    side_end_step(&bench->side);
    free(words);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_load(struct bench *bench, const struct load *load) {
    double steps[STEPS];
    bench->each = false;
    for (int i = 0; i < WARM_STEPS; i++)
        run_step(bench, load);
    for (int i = 0; i < STEPS; i++) {
        double begin = now();
        run_step(bench, load);
        steps[i] = now() - begin;
    }
    qsort(steps, STEPS, sizeof *steps, by_value);
    memset(bench->seconds, 0, sizeof bench->seconds);
    bench->each = true;
    run_step(bench, load);
    printf("%-18s %-24s %9.3f ms %9.0f tokens/s  each alone:", bench->shape->name, load->name,
           steps[STEPS / 2] * 1e3, load->n_seqs * load->n_tokens / steps[STEPS / 2]);
    for (int i = 0; i < N_OPERATIONS; i++)
        printf(" %s %.2f", operation_names[i], bench->seconds[i] * 1e3);
    printf("\n");
}

#define CONTEXT    4096
#define TOKENS_MAX 2048
#define SEQS_MAX   64

/* What is timed: models and loads whose names hold these, or all. */
struct wish {
    const char *model;
    const char *load;
    uint32_t n_layers; /* 0: the model's */
    bool no_graphs;
};

static void open_bench(struct bench *bench, const char *backend, const struct shape *shape,
                       bool no_graphs) {
    uint32_t qkv = (shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    struct kernels_options options = {.no_graphs = no_graphs};
    options.limits = (struct kernels_limits){.max_tokens = TOKENS_MAX,
                                             .max_seqs = SEQS_MAX,
                                             .max_context = CONTEXT,
                                             .max_dim = shape->inner > qkv ? shape->inner : qkv,
                                             .n_vocab = shape->n_vocab,
                                             .n_heads = shape->n_heads,
                                             .n_kv_heads = shape->n_kv_heads,
                                             .head_dim = shape->head_dim};
    *bench = (struct bench){.shape = shape, .context = CONTEXT, .n_blocks = 4096};
    side_open(&bench->side, backend, &options);
    for (uint32_t i = 0; i < LAYERS; i++) {
        struct layer *layer = &bench->layers[i];
        layer->qkv = make(bench, shape->format, qkv, shape->dim);
        layer->out = make(bench, shape->format, shape->dim, shape->n_heads * shape->head_dim);
        layer->gate_up = make(bench, shape->format, 2 * shape->inner, shape->dim);
        layer->down = make(bench, shape->format, shape->dim, shape->inner);
    }
    bench->head = make(bench, shape->head_format, shape->n_vocab, shape->dim);
    bench->block_bytes = (size_t)2 * shape->n_kv_heads * shape->head_dim * KV_BLOCK_TOKENS * 2;
    size_t n = (size_t)TOKENS_MAX * shape->inner;
    float *random_floats = malloc(n * sizeof(float));
    struct random random = {7};
    if (!random_floats)
        abort();
    fill_random(&random, random_floats, n);
    struct side *side = &bench->side;
    bench->x = side_floats(side, random_floats, (size_t)TOKENS_MAX * shape->dim);
    bench->normed = side_floats(side, random_floats, (size_t)TOKENS_MAX * shape->dim);
    bench->attn = side_floats(side, random_floats, (size_t)TOKENS_MAX * shape->dim);
    bench->inner = side_floats(side, random_floats, n);
    bench->gain = side_floats(side, random_floats, shape->dim);
    bench->tables = side_floats(side, random_floats, (size_t)CONTEXT * shape->head_dim / 2);
    bench->qkv = side_put(side, NULL, (size_t)TOKENS_MAX * qkv * sizeof(float));
    bench->logits = side_put(side, NULL, (size_t)SEQS_MAX * shape->n_vocab * sizeof(float));
    bench->kv = side_put(side, NULL, LAYERS * bench->n_blocks * bench->block_bytes);
    free(random_floats);
}

static const char usage[] =
    "usage: gpu_times [BACKEND [--model TEXT] [--load TEXT] [--layers N] [--no-graphs]]\n";

static bool take_wish(struct wish *wish, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--no-graphs") == 0) {
            wish->no_graphs = true;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(argv[i], "--model") == 0)
            wish->model = value;
        else if (strcmp(argv[i], "--load") == 0)
            wish->load = value;
        else if (strcmp(argv[i], "--layers") == 0)
            wish->n_layers = (uint32_t)strtoul(value, NULL, 10);
        else
            return false;
        i++;
    }
    return true;
}

int main(int argc, char **argv) {
    const char *backend = argc > 1 ? argv[1] : "cuda";
    struct wish wish = {0};
    static const struct load loads[] = {
        {"decode, 1 at 512", 1, 1, 512},   {"decode, 1 at 4000", 1, 1, 4000},
        {"decode, 16 at 512", 16, 1, 512}, {"decode, 64 at 512", 64, 1, 512},
        {"prefill, 512", 1, 512, 0},       {"prefill, 2048", 1, 2048, 0}};
    if (!take_wish(&wish, argc, argv)) {
        fputs(usage, stderr);
        return EXIT_FAILURE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct bench bench;
        struct shape shape = shapes[i];
        if (wish.model && !strstr(shape.name, wish.model))
            continue;
        shape.n_layers = wish.n_layers > 0 ? wish.n_layers : shape.n_layers;
        open_bench(&bench, backend, &shape, wish.no_graphs);
        for (size_t j = 0; j < sizeof loads / sizeof *loads; j++)
            if (!wish.load || strstr(loads[j].name, wish.load))
                time_load(&bench, &loads[j]);
        side_close(&bench.side);
    }
    return EXIT_SUCCESS;
}
