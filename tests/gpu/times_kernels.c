/* tests/gpu/times_kernels.c: each operation by itself, over weights and KV that rotate beyond the caches, beside what the device's
 * memory and tensor cores need for it at best. An operation is all that it launches: a product's slices are added up and its
 * rows rounded by kernels of their own, but (as in a step) once for several products of the same rows. Many of them in a step are one
 * graph where the step decodes, so that no launch is waited for; what a step costs besides falls out, since the times of two lengths
 * are subtracted. */
#include "tests/gpu/times.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BEYOND_CACHES ((size_t)256 << 20) /* bytes: five times an H200's L2 */
#define LASTS_S       3e-3                /* of the operations that are timed, at best */
#define MOST_TIMES    200                 /* of an operation */

float *times_out(const struct times_bench *bench, const struct times_operation *operation,
                 uint32_t *width) {
    *width = operation->epilogue == EPILOGUE_SILU_MUL ? operation->n / 2 : operation->n;
    if (operation->of_head)
        return bench->logits;
    return operation->epilogue == EPILOGUE_ADD        ? bench->x
           : operation->epilogue == EPILOGUE_SILU_MUL ? bench->inner
                                                      : bench->qkv;
}

static void call_product(struct times_bench *bench, const struct times_run *run, uint32_t n_rows,
                         uint32_t i) {
    const struct times_operation *operation = run->operation;
    struct weight weight = run->weight;
    const float *x = bench->normed;
    uint32_t width;
    float *out = times_out(bench, operation, &width);
    if (operation->epilogue == EPILOGUE_ADD)
        x = operation->k == bench->shape->inner ? bench->inner : bench->attn;
    weight.data = (const char *)weight.data + i % run->n_copies * run->weight_bytes;
    bench->side.kernels->linear(bench->side.ctx, out, width, x, &weight, n_rows,
                                operation->epilogue);
}

void times_run_operations(struct times_bench *bench, const struct kernels_step *step,
                          void *context) {
    const struct times_run *run = context;
    const struct kernels *k = bench->side.kernels;
    struct kernels_ctx *ctx = bench->side.ctx;
    struct kernels_kv kv = times_kv(bench);
    struct rope rope = times_rope(bench);
    uint32_t n = step->batch.n_tokens;
    for (uint32_t i = 0; i < run->n_times; i++) {
        kv.base = bench->kv + i % run->kv_places * run->kv_bytes;
        if (run->operation->kind == TIMES_PRODUCT)
            call_product(bench, run, n, i);
        else if (run->operation->kind == TIMES_NORM)
            k->norm(ctx, bench->normed, bench->x, bench->gain, 1e-5f, n, bench->shape->dim);
        else if (run->operation->kind == TIMES_ROPE)
            k->rope_kv(ctx, bench->qkv, &step->batch, &rope, &kv);
        else
            k->attend(ctx, bench->attn, bench->qkv, &step->batch, &kv, 0.088f, NULL, 0);
    }
}

void times_work(const struct times_bench *bench, const struct times_run *run, double *bytes,
                double *ops) {
    const struct times_shape *shape = bench->shape;
    const struct times_load *load = run->load;
    double rows = (double)load->n_seqs * load->n_tokens, seen = 0;
    double width = (double)shape->n_heads * shape->head_dim;
    double keys = (double)load->n_seqs * (load->position + load->n_tokens);
    for (uint32_t i = 0; i < load->n_tokens; i++)
        seen += (double)load->n_seqs * (load->position + i + 1);
    *ops = 0;
    switch (run->operation->kind) {
    case TIMES_PRODUCT:
        *bytes =
            (double)run->weight_bytes + 4 * rows * ((double)run->operation->k + run->operation->n);
        *ops = 2 * rows * run->operation->n * run->operation->k;
        return;
    case TIMES_NORM:
        *bytes = 8 * rows * shape->dim;
        return;
    case TIMES_ROPE:
        *bytes = 8 * rows * times_qkv(shape);
        return;
    case TIMES_ATTEND:
        *bytes = 4 * keys * shape->n_kv_heads * shape->head_dim + 8 * rows * width;
        *ops = 4 * seen * width;
    }
}

double times_run_seconds(struct times_bench *bench, const struct times_wish *wish,
                         struct times_run *run, uint32_t n_times) {
    run->n_times = n_times;
    double few = times_steps_median(bench, wish, run->load, times_run_operations, run);
    run->n_times = 3 * n_times;
    double many = times_steps_median(bench, wish, run->load, times_run_operations, run);
    return (many - few) / (2 * n_times);
}

uint32_t times_count(const struct times_wish *wish, double best) {
    double wanted = LASTS_S / fmax(best, wish->rates.node_ahead_s) / 2 + 1;
    return wish->emulated ? 1 : (uint32_t)fmin(fmax(wanted, 2), MOST_TIMES);
}

static void time_operation(struct times_bench *bench, const struct times_wish *wish,
                           struct times_run *run) {
    const struct rates *rates = &wish->rates;
    const struct times_operation *operation = run->operation;
    double bytes, ops;
    times_work(bench, run, &bytes, &ops);
    double memory = bytes / rates->read_bytes_s, tensor = ops / rates->mma_ops_s;
    double best = fmax(memory, tensor);
    uint32_t n_times = times_count(wish, best);
    double seconds = times_run_seconds(bench, wish, run, n_times);
    printf("{\"measure\": \"kernel\", \"backend\": \"%s\", \"model\": \"%s\", \"operation\": "
           "\"%s\", \"load\": \"%s\", \"rows\": %u, ",
           wish->backend, bench->shape->name, operation->name, run->load->name,
           run->load->n_seqs * run->load->n_tokens);
    if (wish->emulated)
        printf("\"us\": null, \"floor_us\": null, \"bound\": null, \"share\": null, \"GB_s\": "
               "null, \"T_s\": null}\n");
    else
        printf("\"us\": %.2f, \"floor_us\": %.2f, \"bound\": \"%s\", \"share\": %.3f, \"GB_s\": "
               "%.0f, \"T_s\": %.1f}\n",
               seconds * 1e6, best * 1e6, memory >= tensor ? "memory" : "tensor cores",
               best / seconds, bytes / seconds * 1e-9, ops / seconds * 1e-12);
}

void times_make_copies(struct times_bench *bench, const struct times_wish *wish,
                       struct times_run *run) {
    const struct times_shape *shape = bench->shape;
    struct side *side = &bench->side;
    const char *format = run->operation->of_head ? shape->head_format : shape->format;
    run->weight =
        times_weight(side, format, run->operation->n, run->operation->k, &run->weight_bytes);
    size_t size = run->weight_bytes = (run->weight_bytes + 255) / 256 * 256;
    run->n_copies = wish->emulated ? 2 : BEYOND_CACHES / size + 2;
    char *copies = side_take(side, run->n_copies * size);
    for (size_t i = 0; i < run->n_copies; i++)
        side_copy(side, copies + i * size, run->weight.data, side->n_bytes[side->n_arrays - 2]);
    run->weight.data = copies;
}

/* Places of the blocks that a step of this load reads. */
static void place_kv(const struct times_bench *bench, struct times_run *run) {
    size_t stride = bench->context / KV_BLOCK_TOKENS;
    size_t n =
        run->load->n_seqs * stride < bench->n_blocks ? run->load->n_seqs * stride : bench->n_blocks;
    run->kv_bytes = n * bench->block_bytes;
    run->kv_places = TIMES_LAYERS * bench->n_blocks / n;
}

bool times_wants_run(const struct times_wish *wish, const struct times_operation *operation,
                     const struct times_load *load) {
    return (!wish->operation || strcmp(wish->operation, operation->name) == 0) &&
           (wish->rows == 0 || wish->rows == load->n_seqs * load->n_tokens) &&
           !(operation->of_head && load->n_tokens > 1);
}

const struct times_load times_loads[] = {
    {"decode, 1 at 512", 1, 1, 512},   {"decode, 16 at 512", 16, 1, 512},
    {"decode, 64 at 512", 64, 1, 512}, {"prefill, 2048", 1, 2048, 0},
    {"decode, 4 at 512", 4, 1, 512},   {0}};
const struct times_load times_tiny_loads[] = {
    {"decode, 1 at 300", 1, 1, 300}, {"prefill, 70", 1, 70, 0}, {0}};

static uint32_t time_operations(struct times_bench *bench, const struct times_wish *wish,
                                const struct times_operation *operation) {
    uint32_t n_arrays = bench->side.n_arrays;
    struct times_run run = {.operation = operation, .n_copies = 1};
    const struct times_load *load = wish->emulated ? times_tiny_loads : times_loads;
    uint32_t n_measures = 0;
    bool any = false;
    for (const struct times_load *each = load; each->name; each++)
        any = any || times_wants_run(wish, operation, each);
    if (any && operation->kind == TIMES_PRODUCT)
        times_make_copies(bench, wish, &run);
    for (; load->name; load++)
        if (times_wants_run(wish, operation, load)) {
            run.load = load;
            place_kv(bench, &run);
            time_operation(bench, wish, &run);
            n_measures++;
        }
    side_drop(&bench->side, n_arrays);
    return n_measures;
}

void times_list(const struct times_shape *shape, struct times_operation list[TIMES_OPERATIONS]) {
    uint32_t width = shape->n_heads * shape->head_dim, dim = shape->dim, inner = shape->inner;
    const struct times_operation all[TIMES_OPERATIONS] = {
        {"gate_up", TIMES_PRODUCT, 2 * inner, dim, EPILOGUE_SILU_MUL, false},
        {"down", TIMES_PRODUCT, dim, inner, EPILOGUE_ADD, false},
        {"attend", TIMES_ATTEND, 0, 0, EPILOGUE_NONE, false},
        {"qkv", TIMES_PRODUCT, times_qkv(shape), dim, EPILOGUE_NONE, false},
        {"out", TIMES_PRODUCT, dim, width, EPILOGUE_ADD, false},
        {"norm", TIMES_NORM, 0, 0, EPILOGUE_NONE, false},
        {"rope", TIMES_ROPE, 0, 0, EPILOGUE_NONE, false},
        {"head", TIMES_PRODUCT, shape->n_vocab, dim, EPILOGUE_NONE, true},
    };
    memcpy(list, all, sizeof all);
}

uint32_t times_kernels(const struct times_wish *wish) {
    uint32_t n_measures = 0;
    for (const struct times_shape *shape = times_shapes; shape->name; shape++) {
        struct times_operation operations[TIMES_OPERATIONS];
        struct times_bench bench;
        if (!times_wants(wish, shape))
            continue;
        times_list(shape, operations);
        times_open(&bench, wish, shape);
        for (size_t i = 0; i < TIMES_OPERATIONS; i++)
            n_measures += time_operations(&bench, wish, &operations[i]);
        times_close(&bench);
    }
    return n_measures;
}
