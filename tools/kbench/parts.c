#include "tools/kbench/parts.h"

#include "base/clock.h"
#include "base/random.h"
#include "kernels/quant/quant.h"
#include "tools/kbench/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES        11
#define COPIES_BYTES (400u << 20) /* of experts in memory */

static void *kbench_take_scratch(const struct kernels *kernels, struct kernels_ctx *ctx,
                                 size_t n_bytes) {
    void *memory = kernels->alloc(ctx, n_bytes);
    if (!memory)
        abort();
    return memory;
}

double parts_time_attend(const struct subject *subject, const struct attend_shape *shape) {
    const struct kernels *kernels = subject->kernels;
    uint32_t n = shape->n_seqs * shape->n_tokens;
    uint32_t stride = (shape->position + shape->n_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    struct kernels_limits limits = {n,
                                    shape->n_seqs,
                                    stride * KV_BLOCK_TOKENS,
                                    64,
                                    16,
                                    shape->n_heads,
                                    shape->n_kv_heads,
                                    shape->head_dim,
                                    shape->format};
    struct kernels_ctx *ctx = subject_open(subject, &limits);
    if (!ctx)
        return 0.0;
    struct kernels_kv kv = shapes_kv(NULL, shape->n_kv_heads, shape->head_dim, shape->format);
    size_t kv_bytes = (size_t)shape->n_seqs * stride * kv.block_bytes;
    size_t width = (size_t)(shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    kv.base = kbench_take_scratch(kernels, ctx, kv_bytes);
    float *qkv = kbench_take_scratch(kernels, ctx, n * width * sizeof *qkv);
    float *out = kbench_take_scratch(kernels, ctx, n * width * sizeof *out);
    uint32_t *numbers = calloc(shape->n_seqs * (stride + 1) + n + 1, sizeof *numbers);
    if (!numbers)
        abort();
    uint32_t *seq_begin = numbers;
    uint32_t *positions = seq_begin + shape->n_seqs + 1;
    uint32_t *tables = positions + n;
    for (uint32_t s = 0; s <= shape->n_seqs; s++)
        seq_begin[s] = s * shape->n_tokens;
    for (uint32_t t = 0; t < n; t++)
        positions[t] = shape->position + t % shape->n_tokens;
    for (uint32_t i = 0; i < shape->n_seqs * stride; i++)
        tables[i] = i;
    memset(kv.base, 0x31, kv_bytes); /* small numbers in both formats */
    for (size_t i = 0; i < n * width; i++)
        qkv[i] = (float)(i % 19) * 0.1f - 0.9f;
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = shape->n_seqs,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = tables,
                                  .block_table_stride = stride};
    double seconds[TIMES];
    for (int i = -1; i < TIMES; i++) { /* the first warms the caches up */
        uint64_t begin = clock_now_ns();
        kernels->attend(ctx, out, qkv, &batch, &kv, 0.1f, NULL, 0);
        seconds[i < 0 ? 0 : i] = (double)(clock_now_ns() - begin) * 1e-9;
    }
    kernels->dealloc(ctx, kv.base, kv_bytes);
    kernels->dealloc(ctx, qkv, n * width * sizeof *qkv);
    kernels->dealloc(ctx, out, n * width * sizeof *out);
    kernels->close(ctx);
    free(numbers);
    return machine_median(seconds, TIMES);
}

struct kbench_moe {
    struct moe_shape shape;
    const struct kernels *kernels;
    struct kernels_ctx *ctx;
    uint32_t max_tokens;
    struct weight *gate_up; /* (n_experts), as all below */
    struct weight *down;
    char *memory;
    size_t memory_bytes;
    size_t expert_bytes;
    float *x;
    float *out;
    float *scratch;
    uint32_t *ids;
    float *weights;
};

/* Random bytes; two of every scale make it about 2^-6. */
static struct weight kbench_random_matrix(const struct kbench_moe *moe, const char *name,
                                          uint32_t n, uint32_t k, void *memory) {
    const struct quant_format *format = quant_find(name);
    struct random random = {n};
    size_t n_blocks = (size_t)n * k / format->block;
    struct weight_tensor tensor = {
        .format = name, .n = n, .k = k, .n_value_bytes = n_blocks * format->block_bytes};
    uint8_t *bytes = malloc(tensor.n_value_bytes);
    if (!bytes)
        abort();
    for (size_t i = 0; i < tensor.n_value_bytes; i++)
        bytes[i] = (uint8_t)random_next(&random);
    for (size_t b = 0; b < n_blocks; b++)
        bytes[b * format->block_bytes + 1] = 0x24;
    tensor.values = bytes;
    struct weight_part part = {.tensor = &tensor, .n_rows = n, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = k};
    struct weight weight;
    struct error error = {0};
    if (moe->kernels->weight_pack(moe->ctx, &source, memory, &weight, &error) != STATUS_OK)
        abort();
    free(bytes);
    return weight;
}

static size_t kbench_matrix_size(const struct kbench_moe *moe, const char *name, uint32_t n,
                                 uint32_t k) {
    struct weight_tensor tensor = {.format = name, .n = n, .k = k};
    const struct quant_format *format = quant_find(name);
    tensor.n_value_bytes = (size_t)n * k / format->block * format->block_bytes;
    tensor.values = "";
    struct weight_part part = {.tensor = &tensor, .n_rows = n, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = k};
    struct error error = {0};
    size_t size = moe->kernels->weight_size(&source, &error);
    return (size + 63) / 64 * 64;
}

static void kbench_make_experts(struct kbench_moe *moe, const char *format) {
    const struct moe_shape *shape = &moe->shape;
    size_t first = kbench_matrix_size(moe, format, 2 * shape->expert_dim, shape->dim);
    size_t second = kbench_matrix_size(moe, format, shape->dim, shape->expert_dim);
    moe->expert_bytes = first + second;
    size_t n_copies = COPIES_BYTES / moe->expert_bytes + 1;
    n_copies = n_copies > shape->n_experts ? shape->n_experts : n_copies;
    moe->memory_bytes = n_copies * moe->expert_bytes;
    moe->memory = kbench_take_scratch(moe->kernels, moe->ctx, moe->memory_bytes);
    struct weight gate_up =
        kbench_random_matrix(moe, format, 2 * shape->expert_dim, shape->dim, moe->memory);
    struct weight down =
        kbench_random_matrix(moe, format, shape->dim, shape->expert_dim, moe->memory + first);
    for (size_t i = 1; i < n_copies; i++)
        memcpy(moe->memory + i * moe->expert_bytes, moe->memory, moe->expert_bytes);
    for (uint32_t e = 0; e < shape->n_experts; e++) {
        char *at = moe->memory + e % n_copies * moe->expert_bytes;
        moe->gate_up[e] = gate_up;
        moe->gate_up[e].data = at;
        moe->down[e] = down;
        moe->down[e].data = at + first;
    }
}

struct kbench_moe *parts_moe_open(const struct subject *subject, const struct moe_shape *shape,
                                  const char *format, uint32_t max_tokens) {
    uint32_t max_dim = shape->dim > shape->expert_dim ? shape->dim : shape->expert_dim;
    struct kernels_limits limits = {max_tokens, max_tokens, 16, max_dim, 16, 1, 1, 16, KV_F16};
    struct kernels_ctx *ctx = subject_open(subject, &limits);
    if (!ctx)
        return NULL;
    struct kbench_moe *moe = calloc(1, sizeof *moe);
    if (!moe)
        abort();
    *moe = (struct kbench_moe){
        .shape = *shape, .kernels = subject->kernels, .ctx = ctx, .max_tokens = max_tokens};
    size_t n_pairs = (size_t)max_tokens * shape->n_active;
    moe->gate_up = calloc(shape->n_experts, sizeof *moe->gate_up);
    moe->down = calloc(shape->n_experts, sizeof *moe->down);
    moe->x = calloc((size_t)max_tokens * shape->dim, sizeof(float));
    moe->out = calloc((size_t)max_tokens * shape->dim, sizeof(float));
    moe->scratch = calloc(
        subject->kernels->moe_scratch(max_tokens, shape->n_active, shape->dim, shape->expert_dim),
        sizeof(float));
    moe->ids = calloc(n_pairs, sizeof *moe->ids);
    moe->weights = calloc(n_pairs, sizeof *moe->weights);
    if (!moe->gate_up || !moe->down || !moe->x || !moe->out || !moe->scratch || !moe->ids ||
        !moe->weights)
        abort();
    kbench_make_experts(moe, format);
    for (size_t i = 0; i < (size_t)max_tokens * shape->dim; i++)
        moe->x[i] = (float)(i % 17) * 0.1f - 0.8f;
    return moe;
}

void parts_moe_close(struct kbench_moe *moe) {
    if (!moe)
        return;
    moe->kernels->dealloc(moe->ctx, moe->memory, moe->memory_bytes);
    moe->kernels->close(moe->ctx);
    free(moe->gate_up);
    free(moe->down);
    free(moe->x);
    free(moe->out);
    free(moe->scratch);
    free(moe->ids);
    free(moe->weights);
    free(moe);
}

/* Other experts each time, drawn as a fair router would. */
static void kbench_draw_route(struct kbench_moe *moe, struct random *random, uint32_t n_tokens) {
    uint32_t n_active = moe->shape.n_active;
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t i = 0; i < n_active; i++) {
            uint32_t *ids = moe->ids + (size_t)t * n_active;
            bool is_new = false;
            while (!is_new) {
                ids[i] = (uint32_t)random_below(random, moe->shape.n_experts);
                is_new = true;
                for (uint32_t j = 0; j < i; j++)
                    is_new &= ids[j] != ids[i];
            }
            moe->weights[(size_t)t * n_active + i] = 1.0f / (float)n_active;
        }
}

static void kbench_run_linears(struct kbench_moe *moe, const uint32_t *n_rows) {
    const struct moe_shape *shape = &moe->shape;
    float *inner = moe->scratch;
    float *outer = inner + (size_t)moe->max_tokens * shape->expert_dim;
    for (uint32_t e = 0; e < shape->n_experts; e++) {
        if (n_rows[e] == 0)
            continue;
        moe->kernels->linear(moe->ctx, inner, shape->expert_dim, moe->x, &moe->gate_up[e],
                             n_rows[e], EPILOGUE_SILU_MUL);
        moe->kernels->linear(moe->ctx, outer, shape->dim, inner, &moe->down[e], n_rows[e],
                             EPILOGUE_NONE);
    }
}

struct moe_figures parts_time_moe(struct kbench_moe *moe, uint32_t n_tokens) {
    const struct moe_shape *shape = &moe->shape;
    struct random random = {n_tokens};
    struct moe_figures figures = {0};
    double seconds[TIMES];
    double linear_seconds[TIMES];
    uint32_t *n_rows = calloc(shape->n_experts, sizeof *n_rows);
    if (!n_rows)
        abort();
    for (int i = -1; i < TIMES; i++) { /* the first warms up */
        int at = i < 0 ? 0 : i;
        kbench_draw_route(moe, &random, n_tokens);
        memset(n_rows, 0, shape->n_experts * sizeof *n_rows);
        for (uint32_t j = 0; j < n_tokens * shape->n_active; j++)
            n_rows[moe->ids[j]]++;
        uint64_t begin = clock_now_ns();
        moe->kernels->moe_ffn(moe->ctx, moe->out, moe->x, moe->ids, moe->weights, n_tokens,
                              shape->n_active, moe->gate_up, moe->down, shape->n_experts,
                              moe->scratch);
        uint64_t middle = clock_now_ns();
        seconds[at] = (double)(middle - begin) * 1e-9;
        kbench_run_linears(moe, n_rows);
        linear_seconds[at] = (double)(clock_now_ns() - middle) * 1e-9;
    }
    for (uint32_t e = 0; e < shape->n_experts; e++)
        figures.bytes += n_rows[e] > 0 ? (double)moe->expert_bytes : 0.0;
    figures.seconds = machine_median(seconds, TIMES);
    figures.linear_seconds = machine_median(linear_seconds, TIMES);
    free(n_rows);
    return figures;
}
