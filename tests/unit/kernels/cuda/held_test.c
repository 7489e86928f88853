/* Operations that wait for the next one, on the emulated device: whatever comes behind a product, its gates or a norm, the rows
 * have the bits of operations that wait for nobody. Operations, rows and buffers are drawn; mostly one goes on with what the last
 * one left, as a layer does, and now and then only nearly so. */
#include "kernels/cuda/context.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_held";
const double suite_timeout_s = 300;

enum {
    WIDE =
        4160, /* five slices, of which a block has four at a time: products of such rows leave parts */
    NARROW = 32, /* so few blocks have it, and its gates */
    APART = 40,  /* rows of a narrow buffer that are not side by side */
    LEAST = 3,   /* rows of an operation: as many as share a block's warps like that */
    ROWS = 5,
    FLOATS = ROWS * WIDE,
    BUFFERS = 6, /* the first half wide, the others narrow */
    NEXTS = 4,
    OPS = 9,
    SEQUENCES = 32,
};

static const struct kernels_limits limits = {ROWS, ROWS, 64, WIDE, 64, 1, 1, 16, KV_F16};

enum kind { NORM, COPY, DOWN, DOWN_ADD, DOWN_APART, GATES, NEXT };

struct op {
    enum kind kind;
    uint32_t from, to; /* buffers */
    uint32_t first, n; /* rows */
    uint32_t next;     /* matrix of NEXT */
};

struct scene {
    struct subject subject;
    struct weight down, gates, nexts[NEXTS];
    size_t n_bytes[2 + NEXTS];
    float *gain;
    float *buffers[BUFFERS]; /* (FLOATS) on the device */
    float host[BUFFERS][FLOATS];
};

static bool is_wide(uint32_t buffer) {
    return buffer < BUFFERS / 2;
}

static struct weight pack(struct scene *scene, struct random *random, const char *format,
                          uint32_t n, uint32_t k, size_t *n_bytes) {
    struct subject *subject = &scene->subject;
    bool grouped = strcmp(format, "gptq4") == 0;
    struct weight_tensor tensor = random_grouped_tensor(random, format, n, k, grouped ? 32 : 0);
    float bias[WIDE], scale[WIDE];
    if (grouped)
        random_order(random, &tensor);
    struct weight weight = subject_pack_tensor(subject, &tensor, n_bytes);
    fill_random(random, bias, n);
    fill_random(random, scale, n);
    weight.bias = subject_floats(subject, bias, n);
    weight.scale = subject_floats(subject, scale, n);
    tensor_free(&tensor);
    return weight;
}

static void open_scene(struct scene *scene, struct random *random, const char *format) {
    static const char *const nexts[NEXTS] = {"f16", "bf16", "gptq4", "gptq4"};
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct error error = {0};
    float gain[WIDE];
    *scene = (struct scene){.subject = {.kernels = kernels_find("cuda-emu:fast")}};
    struct subject *subject = &scene->subject;
    ck_assert_int_eq(subject->kernels->open(&options, &subject->ctx, &error), STATUS_OK);
    scene->down = pack(scene, random, format, NARROW, WIDE, &scene->n_bytes[0]);
    scene->gates = pack(scene, random, format, 2 * NARROW, WIDE, &scene->n_bytes[1]);
    for (uint32_t i = 0; i < NEXTS; i++)
        scene->nexts[i] = pack(scene, random, nexts[i], NARROW, NARROW, &scene->n_bytes[2 + i]);
    fill_random(random, gain, WIDE);
    scene->gain = subject_floats(subject, gain, WIDE);
    for (uint32_t b = 0; b < BUFFERS; b++) {
        fill_random(random, scene->host[b], FLOATS);
        scene->buffers[b] = subject_floats(subject, NULL, FLOATS);
    }
}

static void close_scene(struct scene *scene) {
    subject_unpack(&scene->subject, &scene->down, scene->n_bytes[0]);
    subject_unpack(&scene->subject, &scene->gates, scene->n_bytes[1]);
    for (uint32_t i = 0; i < NEXTS; i++)
        subject_unpack(&scene->subject, &scene->nexts[i], scene->n_bytes[2 + i]);
    subject_close(&scene->subject);
}

/* Behind `last`: of its results, its rows or others, as many rows or another number. */
static struct op draw(struct random *random, const struct op *last) {
    struct op op = *last;
    uint32_t go_on = (uint32_t)random_below(random, 16);
    op.from = go_on < 9    ? last->to
              : go_on < 11 ? last->from
              : go_on < 14 ? (uint32_t)random_below(random, BUFFERS / 2)
                           : (uint32_t)random_below(random, BUFFERS);
    if (random_below(random, 3) == 0)
        op.n = LEAST + (uint32_t)random_below(random, ROWS + 1 - LEAST);
    if (op.first + op.n > ROWS || random_below(random, 4) == 0)
        op.first = (uint32_t)random_below(random, ROWS + 1 - op.n);
    static const enum kind of_wide[] = {NORM, COPY, DOWN, DOWN_ADD, DOWN_APART, GATES, GATES};
    static const enum kind of_narrow[] = {NORM, NORM, COPY, NEXT, NEXT, NEXT};
    op.kind = is_wide(op.from)
                  ? of_wide[random_below(random, sizeof of_wide / sizeof *of_wide)]
                  : of_narrow[random_below(random, sizeof of_narrow / sizeof *of_narrow)];
    bool to_wide = is_wide(op.from) && (op.kind == NORM || op.kind == COPY);
    do
        op.to = (uint32_t)random_below(random, BUFFERS / 2) + (to_wide ? 0 : BUFFERS / 2);
    while (op.to == op.from);
    op.next = (uint32_t)random_below(random, NEXTS);
    return op;
}

static void run_op(const struct scene *scene, const struct op *op) {
    const struct kernels *k = scene->subject.kernels;
    struct kernels_ctx *ctx = scene->subject.ctx;
    uint32_t dim = is_wide(op->from) ? WIDE : NARROW, to_dim = is_wide(op->to) ? WIDE : NARROW;
    const float *from = scene->buffers[op->from] + (size_t)op->first * dim;
    float *to = scene->buffers[op->to] + (size_t)op->first * to_dim;
    switch (op->kind) {
    case NORM:
        k->norm(ctx, to, from, scene->gain, 1e-5f, op->n, dim);
        break;
    case COPY:
        k->add_gated(ctx, to, from, NULL, op->n, dim);
        break;
    case DOWN:
        k->linear(ctx, to, NARROW, from, &scene->down, op->n, EPILOGUE_NONE);
        break;
    case DOWN_ADD:
        k->linear(ctx, to, NARROW, from, &scene->down, op->n, EPILOGUE_ADD);
        break;
    case DOWN_APART:
        k->linear(ctx, to, APART, from, &scene->down, op->n, EPILOGUE_NONE);
        break;
    case GATES:
        k->linear(ctx, to, NARROW, from, &scene->gates, op->n, EPILOGUE_SILU_MUL);
        break;
    case NEXT:
        k->linear(ctx, to, NARROW, from, &scene->nexts[op->next], op->n, EPILOGUE_NONE);
        break;
    }
}

/* What the operations leave in all buffers; `stops`: each is done before the next one is asked for. */
static void run_ops(struct scene *scene, const struct op *ops, bool stops, float (*to)[FLOATS]) {
    struct subject *subject = &scene->subject;
    float number;
    for (uint32_t b = 0; b < BUFFERS; b++)
        subject_write(subject, scene->buffers[b], scene->host[b], sizeof scene->host[b]);
    for (uint32_t i = 0; i < OPS; i++) {
        run_op(scene, &ops[i]);
        if (stops)
            subject_read(subject, &number, scene->buffers[0], sizeof number);
    }
    for (uint32_t b = 0; b < BUFFERS; b++)
        subject_read(subject, to[b], scene->buffers[b], sizeof to[b]);
    ck_assert_msg(!subject->ctx->kind->failure(subject->ctx->device), "%s",
                  subject->ctx->kind->failure(subject->ctx->device));
}

static const char *name_of(enum kind kind) {
    static const char *const names[] = {"norm",
                                        "copy",
                                        "product",
                                        "product to a residual",
                                        "product of rows apart",
                                        "gates",
                                        "product of narrow rows"};
    return names[kind];
}

START_TEST(operations_that_wait_leave_what_those_leave_that_do_not) {
    static const char *const formats[] = {"f16", "gptq4"};
    static struct scene scene;
    static float expected[BUFFERS][FLOATS], got[BUFFERS][FLOATS];
    struct random random = {31 + (uint64_t)_i};
    uint32_t n_followed = 0;
    open_scene(&scene, &random, formats[_i]);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        struct op ops[OPS], last = {.from = 0, .to = s % BUFFERS, .n = 4};
        for (uint32_t i = 0; i < OPS; i++)
            last = ops[i] = draw(&random, &last);
        run_ops(&scene, ops, true, expected);
        run_ops(&scene, ops, false, got);
        for (uint32_t b = 0; b < BUFFERS; b++)
            for (uint32_t i = 0; i < FLOATS; i++)
                if (memcmp(&got[b][i], &expected[b][i], sizeof(float)) != 0) {
                    for (uint32_t o = 0; o < OPS; o++)
                        printf("%s: rows %u to %u of %u to %u\n", name_of(ops[o].kind),
                               ops[o].first, ops[o].first + ops[o].n - 1, ops[o].from, ops[o].to);
                    fflush(stdout);
                    ck_abort_msg("%s, sequence %u: number %u of buffer %u is %a, not %a",
                                 formats[_i], s, i, b, (double)got[b][i], (double)expected[b][i]);
                }
        for (uint32_t i = 1; i < OPS; i++)
            n_followed += ops[i].from == ops[i - 1].to && ops[i].n == ops[i - 1].n;
    }
    ck_assert_uint_gt(n_followed, SEQUENCES * OPS / 3);
    close_scene(&scene);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, operations_that_wait_leave_what_those_leave_that_do_not, 0, 2);
}
