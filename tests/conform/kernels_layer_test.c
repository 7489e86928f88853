/* A layer's operations, one behind the other: what a backend computes of one operation while it does the next one (a norm with the
 * rounding of its rows, the slices of a product with the norm behind them) has the same bits as each operation by itself, for a
 * row alone as for many; and all of it is the reference's, or near to it. */
#include "kernels/quant/quant.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_layer";
const double suite_timeout_s = 600;

enum {
    HEAD = 64,
    N_HEADS = 2,
    QKV = (N_HEADS + 2) * HEAD,
    DIM_MAX = 1088,
    INNER_MAX = 1056,
    SLICE = 1024, /* of a row, in fast numerics */
    ROWS = 21,    /* of all kinds of blocks */
    CONTEXT = 288,
    BLOCKS = CONTEXT / KV_BLOCK_TOKENS,
    N_TURNS = CONTEXT * HEAD / 2,
};

/* Products of more than one slice (kernels/cuda/gpu/tensor.h) with fewer blocks than a device has places leave parts: those
 * for q, k and v and for the gates, or the last one. */
struct shape {
    uint32_t dim, inner;
};
static const struct layer_case {
    const char *format;
    struct shape shape;
} cases[] = {
    {"f16", {DIM_MAX, 64}},     {"f16", {64, INNER_MAX}},
#ifndef FEW /* which is for programs in which each access of a kernel is looked at */
    {"bf16", {DIM_MAX, 64}},    {"q4_1", {64, INNER_MAX}}, {"gptq4", {DIM_MAX, 64}},
#endif
    {"gptq4", {64, INNER_MAX}},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_NEAR = 2 };

static const struct kernels_limits limits = {ROWS,    ROWS, CONTEXT, 2176,  64,
                                             N_HEADS, 1,    HEAD,    KV_F16};

struct layer {
    struct shape shape;
    struct weight_tensor qkv, out, gate_up, down;
    float x[ROWS * DIM_MAX];
    float gain[DIM_MAX];
    float bias[QKV];
    float scale[2 * INNER_MAX]; /* of the gates */
    float cosines[N_TURNS];
    float sines[N_TURNS];
};

static struct weight_tensor tensor_of(struct random *random, const char *format, uint32_t n,
                                      uint32_t k) {
    const struct quant_format *quant = quant_find(format);
    struct weight_tensor tensor =
        random_grouped_tensor(random, format, n, k, quant->sizes ? 32 : 0);
    if (quant->takes_order)
        random_order(random, &tensor);
    return tensor;
}

static struct layer *layer_new(const char *format, const struct shape *shape) {
    struct random random = {5};
    struct layer *layer = malloc(sizeof *layer);
    const uint32_t dim = shape->dim, inner = shape->inner;
    ck_assert_ptr_nonnull(layer);
    layer->shape = *shape;
    layer->qkv = tensor_of(&random, format, QKV, dim);
    layer->out = tensor_of(&random, format, dim, N_HEADS * HEAD);
    layer->gate_up = tensor_of(&random, format, 2 * inner, dim);
    layer->down = tensor_of(&random, format, dim, inner);
    fill_random(&random, layer->x, ROWS * dim);
    fill_random(&random, layer->gain, dim);
    fill_random(&random, layer->bias, QKV);
    for (uint32_t i = SLICE; i < dim; i++) /* slices of rows have powers of two of their own */
        layer->gain[i] /= 512.0f;
    for (uint32_t i = 0; i < 2 * inner; i++)
        layer->scale[i] = i < 2 * SLICE ? 1.0f : 1.0f / 64;
    for (uint32_t i = 0; i < N_TURNS; i++) {
        layer->cosines[i] = cosf((float)i / 7);
        layer->sines[i] = sinf((float)i / 7);
    }
    return layer;
}

static void layer_free(struct layer *layer) {
    tensor_free(&layer->qkv);
    tensor_free(&layer->out);
    tensor_free(&layer->gate_up);
    tensor_free(&layer->down);
    free(layer);
}

/* What the operations leave of a token. */
struct results {
    float normed[DIM_MAX], qkv[QKV], attended[N_HEADS * HEAD], middle[DIM_MAX];
    float normed_again[DIM_MAX], inner[INNER_MAX], end[DIM_MAX], last_norm[DIM_MAX];
};

struct run {
    struct subject *subject;
    struct weight qkv, out, gate_up, down;
    size_t n_bytes[4];
    bool stops;  /* between any two operations, so that nothing waits for the next one */
    bool beside; /* other products come before those that what waits is for */
};

enum way { AS_IT_IS, STOPS, BESIDE };

static void run_open(struct run *run, struct subject *subject, const struct layer *layer,
                     enum way way) {
    *run = (struct run){.subject = subject, .stops = way == STOPS, .beside = way == BESIDE};
    run->qkv = subject_pack_tensor(subject, &layer->qkv, &run->n_bytes[0]);
    run->out = subject_pack_tensor(subject, &layer->out, &run->n_bytes[1]);
    run->gate_up = subject_pack_tensor(subject, &layer->gate_up, &run->n_bytes[2]);
    run->down = subject_pack_tensor(subject, &layer->down, &run->n_bytes[3]);
    run->qkv.bias = subject_floats(subject, layer->bias, QKV);
    run->gate_up.scale = subject_floats(subject, layer->scale, 2 * layer->shape.inner);
}

static void run_close(struct run *run) {
    subject_unpack(run->subject, &run->qkv, run->n_bytes[0]);
    subject_unpack(run->subject, &run->out, run->n_bytes[1]);
    subject_unpack(run->subject, &run->gate_up, run->n_bytes[2]);
    subject_unpack(run->subject, &run->down, run->n_bytes[3]);
}

static void pause_here(const struct run *run, const float *any) {
    float number;
    if (run->stops)
        subject_read(run->subject, &number, any, sizeof number);
}

/* The numbers of n rows of `width` floats at `from` go to the member at `offset` of each result. */
static void keep(const struct run *run, struct results *to, size_t offset, const float *from,
                 uint32_t width, uint32_t n) {
    float *rows = malloc((size_t)n * width * sizeof *rows);
    subject_read(run->subject, rows, from, (size_t)n * width * sizeof *rows);
    for (uint32_t i = 0; i < n; i++)
        memcpy((char *)&to[i] + offset, rows + (size_t)i * width, width * sizeof *rows);
    free(rows);
}
#define KEEP(member, at, width) keep(run, to, offsetof(struct results, member), at, width, n)

/* Tokens [first, first + n), each of a sequence of its own whose other keys are zeros: in the first span of positions, and in the
 * second. */
static void compute(struct run *run, const struct layer *layer, uint32_t first, uint32_t n,
                    struct results *to) {
    struct subject *s = run->subject;
    const struct kernels *k = s->kernels;
    struct kernels_ctx *ctx = s->ctx;
    const uint32_t dim = layer->shape.dim, inner_dim = layer->shape.inner;
    uint32_t begin[ROWS + 1], tables[ROWS * BLOCKS], positions[ROWS], ids[ROWS] = {0};
    for (uint32_t i = 0; i <= n; i++)
        begin[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        positions[i] = (first + i) % 2 ? CONTEXT - 1 - first - i : first + i;
        for (uint32_t b = 0; b < BLOCKS; b++)
            tables[i * BLOCKS + b] = b == positions[i] / KV_BLOCK_TOKENS ? i : ROWS;
    }
    float *x = subject_floats(s, layer->x + (size_t)first * dim, (size_t)n * dim);
    float *gain = subject_floats(s, layer->gain, dim);
    float *normed = subject_floats(s, NULL, (size_t)n * dim);
    float *again = subject_floats(s, NULL, (size_t)n * dim);
    float *last = subject_floats(s, NULL, (size_t)n * dim);
    float *qkv = subject_floats(s, NULL, (size_t)n * QKV);
    float *attended = subject_floats(s, NULL, (size_t)n * N_HEADS * HEAD);
    float *inner = subject_floats(s, NULL, (size_t)n * inner_dim);
    struct kernels_kv kv = {.block_bytes = 2 * HEAD * KV_BLOCK_TOKENS * 2,
                            .n_kv_heads = 1,
                            .head_dim = HEAD,
                            .format = KV_F16};
    kv.base = subject_bytes(s, NULL, (ROWS + 1) * kv.block_bytes);
    struct rope rope = {.layout = ROPE_HALF_SPLIT,
                        .dims = HEAD,
                        .n_variants = 1,
                        .cos = subject_floats(s, layer->cosines, N_TURNS),
                        .sin = subject_floats(s, layer->sines, N_TURNS)};
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = n,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = begin,
                                  .block_tables = tables,
                                  .block_table_stride = BLOCKS};
    struct kernels_step step = subject_begin(s, &batch, NULL, 0);
    k->norm(ctx, normed, x, gain, 1e-5f, n, dim);
    pause_here(run, normed);
    k->linear(ctx, qkv, QKV, normed, &run->qkv, n, EPILOGUE_NONE);
    pause_here(run, qkv);
    float *other = run->beside ? subject_floats(s, NULL, (size_t)n * DIM_MAX) : NULL;
    if (run->beside)
        k->linear(ctx, other, QKV, x, &run->qkv, n, EPILOGUE_NONE);
    k->rope_kv(ctx, qkv, &step.batch, &rope, &kv);
    pause_here(run, qkv);
    k->attend(ctx, attended, qkv, &step.batch, &kv, 0.125f, NULL, 0);
    pause_here(run, attended);
    if (run->beside) /* of as many rows, and as wide */
        k->linear(ctx, other, dim, qkv, &run->out, n, EPILOGUE_NONE);
    k->linear(ctx, x, dim, attended, &run->out, n, EPILOGUE_ADD);
    pause_here(run, x);
    k->norm(ctx, again, x, gain, 1e-5f, n, dim);
    pause_here(run, again);
    k->linear(ctx, inner, inner_dim, again, &run->gate_up, n, EPILOGUE_SILU_MUL);
    pause_here(run, inner);
    float *middle = subject_floats(s, NULL, (size_t)n * dim);
    k->add_gated(ctx, middle, x, NULL, n, dim); /* a copy */
    pause_here(run, middle);
    k->linear(ctx, x, dim, inner, &run->down, n, EPILOGUE_ADD);
    pause_here(run, x);
    k->norm(ctx, last, x, gain, 1e-6f, n, dim);
    subject_end(s);
    KEEP(normed, normed, dim);
    KEEP(qkv, qkv, QKV);
    KEEP(attended, attended, N_HEADS * HEAD);
    KEEP(middle, middle, dim);
    KEEP(normed_again, again, dim);
    KEEP(inner, inner, inner_dim);
    KEEP(end, x, dim);
    KEEP(last_norm, last, dim);
    subject_drop(s);
}

static void compute_open(struct subject *subject, const struct layer *layer, enum way way,
                         uint32_t first, uint32_t n, struct results *to) {
    struct run run;
    run_open(&run, subject, layer, way);
    compute(&run, layer, first, n, to);
    run_close(&run);
}

static void compare(const struct subject *subject, const struct shape *shape, const char *what,
                    uint32_t first, uint32_t n, const struct results *got,
                    const struct results *expected) {
    const struct {
        const char *name;
        size_t offset, n;
    } members[] = {{"norm", offsetof(struct results, normed), shape->dim},
                   {"qkv", offsetof(struct results, qkv), QKV},
                   {"attention", offsetof(struct results, attended), N_HEADS * HEAD},
                   {"residual", offsetof(struct results, middle), shape->dim},
                   {"second norm", offsetof(struct results, normed_again), shape->dim},
                   {"gates", offsetof(struct results, inner), shape->inner},
                   {"second residual", offsetof(struct results, end), shape->dim},
                   {"last norm", offsetof(struct results, last_norm), shape->dim}};
    for (uint32_t row = 0; row < n; row++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            const float *a =
                (const float *)(const void *)((const char *)&got[row] + members[m].offset);
            const float *b = (const float *)(const void *)((const char *)&expected[first + row] +
                                                           members[m].offset);
            for (size_t i = 0; i < members[m].n; i++)
                ck_assert_msg(memcmp(&a[i], &b[i], sizeof *a) == 0,
                              "%s, %s: %s of row %u at %zu: %a, not %a", subject->kernels->name,
                              what, members[m].name, first + row, i, (double)a[i], (double)b[i]);
        }
}

START_TEST(operations_have_the_same_bits_by_themselves_and_for_any_rows) {
    static struct results truth[ROWS], whole[ROWS], got[ROWS];
    static const uint32_t parts[][2] = {{20, 1}, {5, 7}, {4, 17}};
    struct layer *layer = layer_new(cases[_i].format, &cases[_i].shape);
    struct subject subject = subject_ref(&limits);
    compute_open(&subject, layer, AS_IT_IS, 0, ROWS, truth);
    subject_close(&subject);
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); subject_close(&subject)) {
        if (subject.kernels->isas &&
            subject.n_threads > 1) /* there nothing waits for the next one */
            continue;
        compute_open(&subject, layer, AS_IT_IS, 0, ROWS, whole);
        if (subject_is_exact(&subject))
            compare(&subject, &layer->shape, "the reference", 0, ROWS, whole, truth);
        else if (_i < N_NEAR) /* of integers the reference itself rounds activations to 8 bits */
            subject_expect_near(&subject, "the end of a layer", whole[3].end, truth[3].end,
                                layer->shape.dim);
        compute_open(&subject, layer, STOPS, 0, ROWS, got);
        compare(&subject, &layer->shape, "one by one", 0, ROWS, got, whole);
        if (_i == 0) {
            compute_open(&subject, layer, BESIDE, 0, ROWS, got);
            compare(&subject, &layer->shape, "beside others", 0, ROWS, got, whole);
        }
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            if (subject_is_exact(&subject) && p > 0)
                break;
            compute_open(&subject, layer, AS_IT_IS, parts[p][0], parts[p][1], got);
            compare(&subject, &layer->shape, "some rows", parts[p][0], parts[p][1], got, whole);
        }
    }
    layer_free(layer);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, operations_have_the_same_bits_by_themselves_and_for_any_rows, 0,
                        N_CASES);
}
