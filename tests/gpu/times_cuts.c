/* tests/gpu/times_cuts.c: products of fast numerics in every way that they may be cut into blocks (kernels/cuda/tensor.c chooses one
 * by the product's shape and the device): how long each takes, and which is best. All must have the same bits. The launch is the
 * backend's own, with another shape put in on its way. */
#include "base/assert.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/graph.h"
#include "tests/gpu/times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUTS_MAX 64

struct cut {
    struct gpu_tensor_shape shape;
    bool parts; /* slices go to different blocks */
};

/* What launches are given in place of the backend's choice; NULL: that is noted. */
static const struct gpu_launches *real;
static struct kernels_ctx *ctx;
static const struct cut *wanted;
static struct cut chosen;
static bool fits; /* what is wanted could be given: there was room for parts */

static uint32_t ceil_of(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* Slices of different blocks, and the kernel that adds them up, as the backend has it behind a product. */
static void launch_parts(struct device_stream *stream, struct gpu_tensor *what) {
    const struct gpu_linear *linear = &what->linear;
    const struct gpu_matrix *w = &linear->choice.matrix;
    const struct gpu_sum sum = {.parts = ctx->parts,
                                .scale = w->scale,
                                .bias = w->bias,
                                .out = linear->out,
                                .out_stride = linear->out_stride,
                                .n_slices = ceil_of(w->k_stored, TENSOR_SLICE),
                                .n_rows = linear->n_rows,
                                .n = w->n,
                                .n_padded = w->n_padded,
                                .epilogue = linear->epilogue};
    fits = (size_t)sum.n_slices * sum.n_rows * sum.n_padded <= ctx->parts_floats;
    if (!fits)
        return;
    what->parts = ctx->parts;
    real->linear_tensor(stream, what);
    real->sum_rows(stream, &sum);
}

static void launch_cut(struct device_stream *stream, const struct gpu_tensor *what) {
    struct gpu_tensor given = *what;
    if (wanted) {
        ASSERT(!what->parts);
        given.shape = wanted->shape;
    } else {
        chosen = (struct cut){what->shape, what->parts != NULL};
    }
    if (wanted && wanted->parts)
        launch_parts(stream, &given);
    else
        real->linear_tensor(stream, &given);
}

static void add_cut(struct cut *cuts, uint32_t *n, struct gpu_tensor_shape shape, bool parts) {
    ASSERT(*n < CUTS_MAX);
    cuts[(*n)++] = (struct cut){shape, parts};
}

/* Blocks of few rows: 4 or 8 warps beside each other in outputs or in slices; all slices in a block, or one or two of each warp. */
static void list_few(struct cut *cuts, uint32_t *n, uint32_t n_rows, uint32_t n_slices) {
    uint32_t rows = 8;
    while (rows < n_rows && rows < TENSOR_FEW)
        rows *= 2;
    for (uint32_t warps = 8; warps >= 4; warps /= 2)
        for (uint32_t k = 1; k <= warps && k / 2 < n_slices; k *= 2) {
            struct gpu_tensor_shape shape = {
                .rows = rows, .warps_n = warps / k, .warps_k = k, .slices = n_slices};
            add_cut(cuts, n, shape, false);
            for (uint32_t turns = 1; turns <= 2 && turns * k < n_slices; turns++) {
                shape.slices = turns * k;
                add_cut(cuts, n, shape, true);
            }
        }
}

static uint32_t list_cuts(enum weight_format format, uint32_t n_rows, uint32_t k,
                          struct cut *cuts) {
    bool small = ctx->facts.shared_bytes < 132u << 10 && /* as tensor.c has it */
                 (format == WEIGHT_F16 || format == WEIGHT_BF16);
    uint32_t n = 0;
    if (n_rows <= TENSOR_FEW) {
        list_few(cuts, &n, n_rows, ceil_of(k, TENSOR_SLICE));
        return n;
    }
    for (uint32_t rows = 64; rows <= (small ? 64 : 128); rows *= 2)
        for (int wgmma = 0; wgmma <= ctx->wgmma; wgmma++)
            add_cut(cuts, &n, (struct gpu_tensor_shape){.rows = rows, .many = true, .wgmma = wgmma},
                    false);
    if (n_rows <= 2 * TENSOR_FEW)
        list_few(cuts, &n, n_rows, ceil_of(k, TENSOR_SLICE));
    return n;
}

/* What the product comes to from zeros; the caller's to free. */
static float *results_of(struct times_bench *bench, struct times_run *run, size_t *n) {
    uint32_t width, rows = run->load->n_seqs * run->load->n_tokens;
    float *out = times_out(bench, run->operation, &width);
    *n = (size_t)width * rows;
    float *results = calloc(*n, sizeof *results);
    if (!results)
        abort();
    bench->side.kernels->put(bench->side.ctx, out, results, *n * sizeof *results);
    run->n_times = 1;
    (void)times_step(bench, run->load, times_run_operations, run);
    bench->side.kernels->get(bench->side.ctx, results, out, *n * sizeof *results);
    return results;
}

static void set_wanted(const struct cut *cut) {
    wanted = cut;
    fits = true;
    cuda_graphs_forget(ctx); /* they have the last one's launches */
}

static void print_cut(const struct times_wish *wish, const struct times_bench *bench,
                      const struct times_run *run, const char *measure, const struct cut *cut,
                      double seconds, double chosen_s) {
    const struct times_operation *operation = run->operation;
    const struct gpu_tensor_shape *shape = &cut->shape;
    printf("{\"measure\": \"%s\", \"model\": \"%s\", \"operation\": \"%s\", \"n\": %u, \"k\": %u, "
           "\"rows\": %u, \"block_rows\": %u, ",
           measure, bench->shape->name, operation->name, operation->n, operation->k,
           run->load->n_seqs * run->load->n_tokens, shape->rows);
    if (shape->many)
        printf("\"by\": \"%s\", ", shape->wgmma ? "wgmma" : "tiles");
    else
        printf("\"by\": \"%u x %u warps, %u slices%s\", ", shape->warps_n, shape->warps_k,
               shape->slices, cut->parts ? " apart" : "");
    if (wish->emulated)
        printf("\"us\": null, \"of_chosen\": null}\n");
    else
        printf("\"us\": %.2f, \"of_chosen\": %.3f}\n", seconds * 1e6, seconds / chosen_s);
}

/* False: other bits than the backend's choice has. */
static bool try_cut(struct times_bench *bench, struct times_run *run, const float *expected) {
    size_t n;
    float *results = results_of(bench, run, &n);
    bool same = !fits || memcmp(results, expected, n * sizeof *results) == 0;
    free(results);
    return same;
}

/* The emulator has shown the bits, and has no time to tell. */
static double run_seconds(struct times_bench *bench, const struct times_wish *wish,
                          struct times_run *run, uint32_t n_times) {
    return wish->emulated ? 1.0 : times_run_seconds(bench, wish, run, n_times);
}

/* Answers how many of the ways have other bits. */
static uint32_t time_cuts(struct times_bench *bench, const struct times_wish *wish,
                          struct times_run *run) {
    const uint32_t n_sms = ctx->facts.n_sms;
    struct cut cuts[CUTS_MAX], best;
    double bytes, ops;
    uint32_t n_rows = run->load->n_seqs * run->load->n_tokens, n_other = 0;
    size_t n_results;
    set_wanted(NULL);
    float *expected = results_of(bench, run, &n_results);
    times_work(bench, run, &bytes, &ops);
    uint32_t n_times =
        times_count(wish, fmax(bytes / wish->rates.read_bytes_s, ops / wish->rates.mma_ops_s));
    double chosen_s = run_seconds(bench, wish, run, n_times), least_s = chosen_s;
    print_cut(wish, bench, run, "chosen cut", &chosen, chosen_s, chosen_s);
    best = chosen;
    uint32_t n = list_cuts(run->weight.format, n_rows, run->operation->k, cuts);
    ctx->facts.n_sms = 1; /* no parts but those that are wanted */
    for (uint32_t i = 0; i < n; i++) {
        set_wanted(&cuts[i]);
        if (!try_cut(bench, run, expected)) {
            print_cut(wish, bench, run, "OTHER BITS", &cuts[i], 0, chosen_s);
            n_other++;
        }
        if (!fits)
            continue;
        double seconds = run_seconds(bench, wish, run, n_times);
        print_cut(wish, bench, run, "cut", &cuts[i], seconds, chosen_s);
        best = seconds < least_s ? cuts[i] : best;
        least_s = fmin(seconds, least_s);
    }
    ctx->facts.n_sms = n_sms;
    print_cut(wish, bench, run, "best cut", &best, least_s, chosen_s);
    set_wanted(NULL);
    free(expected);
    return n_other;
}

/* The products of a model at the rows that wish wants, counted in n_measures. Answers how many ways have other bits. */
static uint32_t time_model(struct times_bench *bench, const struct times_wish *wish,
                           uint32_t *n_measures) {
    struct times_operation operations[TIMES_OPERATIONS];
    uint32_t n_other = 0;
    times_list(bench->shape, operations);
    for (size_t i = 0; i < TIMES_OPERATIONS; i++) {
        struct times_run run = {.operation = &operations[i], .kv_places = 1};
        uint32_t n_arrays = bench->side.n_arrays;
        if (operations[i].kind != TIMES_PRODUCT || operations[i].of_head)
            continue;
        times_make_copies(bench, wish, &run);
        for (run.load = wish->emulated ? times_tiny_loads : times_loads; run.load->name; run.load++)
            if (times_wants_run(wish, &operations[i], run.load)) {
                n_other += time_cuts(bench, wish, &run);
                ++*n_measures;
            }
        side_drop(&bench->side, n_arrays);
    }
    return n_other;
}

uint32_t times_cuts(const struct times_wish *wish) {
    static struct gpu_launches launches;
    uint32_t n_other = 0, n_measures = 0;
    for (const struct times_shape *shape = times_shapes; shape->name; shape++) {
        struct times_bench bench;
        if (!times_wants(wish, shape))
            continue;
        times_open(&bench, wish, shape);
        ctx = bench.side.ctx;
        if (!ctx->fast) {
            fprintf(stderr, "gpu_times: cuts: '%s' has exact numerics\n", wish->backend);
            exit(EXIT_FAILURE);
        }
        real = ctx->gpu;
        launches = *real;
        launches.linear_tensor = launch_cut;
        ctx->gpu = &launches;
        n_other += time_model(&bench, wish, &n_measures);
        ctx->gpu = real;
        times_close(&bench);
    }
    if (n_other > 0) {
        fprintf(stderr, "gpu_times: %u ways to cut a product have other bits\n", n_other);
        exit(EXIT_FAILURE);
    }
    return n_measures;
}
