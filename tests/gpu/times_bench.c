/* tests/gpu/times_bench.c: a context with a model's arrays, random matrices, and steps that are timed. */
#include "base/clock.h"
#include "kernels/half.h"
#include "kernels/quant/quant.h"
#include "tests/gpu/times.h"
#include "tests/support/random_tensor.h"

#include <stdlib.h>
#include <string.h>

#define STEPS      7
#define WARM_STEPS 3 /* the second captures a graph */

/* The last ones are for the emulator; the inputs of one product are more than a slice. */
const struct times_shape times_shapes[] = {
    {"Mistral-7B AWQ", "awq", "f16", 4096, 32, 8, 128, 14336, 32, 32000},
    {"Qwen-14B F16", "f16", "f16", 5120, 40, 40, 128, 13696, 40, 152064},
    {"Mistral-7B F16", "f16", "f16", 4096, 32, 8, 128, 14336, 32, 32000},
    {"Baichuan2-13B GPTQ", "gptq4", "f16", 5120, 40, 40, 128, 13696, 40, 125696},
    {"7B Q4_1", "q4_1", "q8_0", 4096, 32, 8, 128, 14336, 32, 32000},
    {"ChatGLM3-6B F16", "f16", "f16", 4096, 32, 2, 128, 13696, 28, 65024},
    {"72B AWQ", "awq", "f16", 8192, 64, 8, 128, 29568, 80, 152064},
    {"72B GPTQ-Int8", "gptq8", "f16", 8192, 64, 8, 128, 29568, 80, 152064},
    {"tiny AWQ", "awq", "f16", 256, 4, 2, 64, 1152, 2, 512},
    {"tiny F16", "f16", "f16", 256, 4, 2, 64, 1152, 2, 512},
    {0}};

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
    uint32_t inputs = k < RANDOM_INPUTS ? k : RANDOM_INPUTS;
    struct weight_tensor part = grouped ? random_grouped_tensor(random, format, n, inputs, 128)
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

struct weight times_weight(struct side *side, const char *format, uint32_t n, uint32_t k,
                           size_t *n_bytes) {
    struct random random = {n + k};
    struct weight_tensor tensor = tensor_of(&random, format, n, k);
    struct weight weight = side_pack(side, &tensor);
    *n_bytes = side->n_bytes[side->n_arrays - 1];
    tensor_free(&tensor);
    return weight;
}

bool times_wants(const struct times_wish *wish, const struct times_shape *shape) {
    bool is_tiny = strncmp(shape->name, "tiny", 4) == 0;
    return is_tiny == wish->emulated && (!wish->model || strstr(shape->name, wish->model));
}

uint32_t times_qkv(const struct times_shape *shape) {
    return (shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
}

#define KV_PIECE 65536 /* bytes, of random binary16; the pieces behind repeat it */

/* Equal numbers would take less power than those of a model, and so less time. */
static void fill_kv(struct times_bench *bench) {
    static uint16_t piece[KV_PIECE / 2];
    size_t n_bytes = TIMES_LAYERS * bench->n_blocks * bench->block_bytes;
    struct random random = {11};
    for (size_t i = 0; i < KV_PIECE / 2; i++)
        piece[i] = float_to_half(random_unit(random_next(&random)) - 0.5f);
    bench->kv = side_take(&bench->side, n_bytes);
    for (size_t at = 0; at < n_bytes; at += KV_PIECE)
        bench->side.kernels->put(bench->side.ctx, bench->kv + at, piece,
                                 n_bytes - at < KV_PIECE ? n_bytes - at : KV_PIECE);
}

/* Rotations by an eighth of a turn: numbers that are rotated again and again stay of their size. */
static void fill_tables(struct times_bench *bench) {
    size_t n = (size_t)bench->context * bench->shape->head_dim / 2;
    float *tables = malloc(n * sizeof *tables);
    if (!tables)
        abort();
    for (size_t i = 0; i < n; i++)
        tables[i] = 0.70710678f;
    bench->tables = side_floats(&bench->side, tables, n);
    free(tables);
}

void times_open(struct times_bench *bench, const struct times_wish *wish,
                const struct times_shape *shape) {
    uint32_t qkv = times_qkv(shape);
    struct kernels_options options = {.no_graphs = wish->no_graphs};
    *bench = (struct times_bench){.shape = shape,
                                  .context = wish->emulated ? 640 : 4096,
                                  .n_blocks = wish->emulated ? 200 : 4096,
                                  .seqs_max = 64,
                                  .tokens_max = wish->emulated ? 80 : 2048};
    options.limits = (struct kernels_limits){.max_tokens = bench->tokens_max,
                                             .max_seqs = bench->seqs_max,
                                             .max_context = bench->context,
                                             .max_dim = shape->inner > qkv ? shape->inner : qkv,
                                             .n_vocab = shape->n_vocab,
                                             .n_heads = shape->n_heads,
                                             .n_kv_heads = shape->n_kv_heads,
                                             .head_dim = shape->head_dim,
                                             .kv_format = KV_F16};
    side_open(&bench->side, wish->backend, &options);
    bench->block_bytes = (size_t)2 * shape->n_kv_heads * shape->head_dim * KV_BLOCK_TOKENS * 2;
    size_t tokens = bench->tokens_max, n = tokens * (shape->inner > qkv ? shape->inner : qkv);
    float *random_floats = malloc(n * sizeof(float));
    struct random random = {7};
    if (!random_floats)
        abort();
    fill_random(&random, random_floats, n);
    struct side *side = &bench->side;
    bench->x = side_floats(side, random_floats, tokens * shape->dim);
    bench->normed = side_floats(side, random_floats, tokens * shape->dim);
    bench->attn = side_floats(side, random_floats, tokens * shape->n_heads * shape->head_dim);
    bench->inner = side_floats(side, random_floats, tokens * shape->inner);
    bench->gain = side_floats(side, random_floats, shape->dim);
    bench->qkv = side_floats(side, random_floats, tokens * qkv);
    bench->logits = side_floats(side, NULL, (size_t)bench->seqs_max * shape->n_vocab);
    fill_tables(bench);
    fill_kv(bench);
    free(random_floats);
}

void times_close(struct times_bench *bench) {
    side_close(&bench->side);
}

struct kernels_kv times_kv(const struct times_bench *bench) {
    return (struct kernels_kv){.base = bench->kv,
                               .block_bytes = bench->block_bytes,
                               .n_kv_heads = bench->shape->n_kv_heads,
                               .head_dim = bench->shape->head_dim,
                               .format = KV_F16};
}

struct rope times_rope(const struct times_bench *bench) {
    return (struct rope){.layout = ROPE_HALF_SPLIT,
                         .dims = bench->shape->head_dim,
                         .n_variants = 1,
                         .cos = bench->tables,
                         .sin = bench->tables};
}

static double now(void) {
    return (double)clock_now_ns() * 1e-9;
}

double times_step(struct times_bench *bench, const struct times_load *load,
                  void (*layers)(struct times_bench *bench, const struct kernels_step *step,
                                 void *context),
                  void *context) {
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
    double begin = now();
    bench->side.kernels->step_begin(bench->side.ctx, &step);
    layers(bench, &step, context);
    side_end_step(&bench->side);
    double seconds = now() - begin;
    free(words);
    return seconds;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double times_steps_median(struct times_bench *bench, const struct times_wish *wish,
                          const struct times_load *load,
                          void (*layers)(struct times_bench *bench, const struct kernels_step *step,
                                         void *context),
                          void *context) {
    double steps[STEPS];
    int n = wish->emulated ? 1 : STEPS;
    for (int i = 0; i < (wish->emulated ? 1 : WARM_STEPS); i++)
        (void)times_step(bench, load, layers, context);
    for (int i = 0; i < n; i++)
        steps[i] = times_step(bench, load, layers, context);
    qsort(steps, (size_t)n, sizeof *steps, by_value);
    return steps[n / 2];
}
