/* Parts of ranks that wait for a norm of what they are added to, on emulated devices: whatever comes before and behind them, the rows
 * have the bits of operations that wait for nobody, on every rank; and a layer's product, sum, norm and next product are four
 * launches. */
#include "kernels/cuda/context.h"
#include "tests/emulator/figures.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_held_ranks";
const double suite_timeout_s = 300;

enum {
    WIDE = 4160, /* five slices: products of such rows leave parts where there are few blocks */
    DIM = 32,    /* of the rows that are added up, and all that come of them */
    LONG = 8452, /* more than a block keeps of a row */
    ROWS = 6,    /* more than the emulator has blocks for */
    FLOATS = ROWS * DIM,
    BUFFERS = 4, /* the first has the ranks' parts, and what a step has between others */
    PART = 0,
    NEXTS = 3,
    OPS = 10,
    SEQUENCES = 12,
    RANKS_MOST = 3,
};

static const struct kernels_limits limits = {ROWS, ROWS, 64, LONG, 64, 1, 1, 16, KV_F16};

enum kind { PRODUCT, ADD, NORM, NEXT, COPY, SUM, N_KINDS };

struct op {
    enum kind kind;
    uint32_t from, to; /* buffers */
    uint32_t n;        /* rows */
    uint32_t n_floats; /* of ADD and SUM */
    uint32_t dim;      /* of NORM: as many numbers in other rows, mostly not */
    uint32_t next;     /* matrix of NEXT */
};

struct scene;

/* A rank, and what it computes with. */
struct member {
    const struct scene *scene;
    uint32_t rank;
    struct subject subject;
    struct weight down, nexts[NEXTS], far;
    size_t n_bytes[2 + NEXTS];
    float *wide, *gain, *buffers[BUFFERS], *rows;
    float host[BUFFERS][FLOATS], got[BUFFERS][FLOATS], expected[BUFFERS][FLOATS];
    float *said[2]; /* owned (3, ROWS * LONG): of long rows */
    uint64_t n_launches;
    pthread_t thread;
};

/* What all ranks do. */
struct scene {
    uint32_t n_ranks;
    struct member members[RANKS_MOST];
    struct op ops[OPS];
    uint32_t n_part; /* numbers of the parts' buffer that mean something in the end */
    bool stops;      /* each operation is done before the next one is asked for */
};

static struct weight pack(struct member *member, struct random *random, const char *format,
                          uint32_t n, uint32_t k, size_t *n_bytes) {
    bool grouped = strcmp(format, "gptq4") == 0;
    struct weight_tensor tensor = random_grouped_tensor(random, format, n, k, grouped ? 32 : 0);
    float bias[64];
    if (grouped)
        random_order(random, &tensor);
    struct weight weight = subject_pack_tensor(&member->subject, &tensor, n_bytes);
    fill_random(random, bias, n);
    weight.bias = subject_floats(&member->subject, bias, n);
    tensor_free(&tensor);
    return weight;
}

static float *drawn(struct member *member, struct random *random, size_t n) {
    float *host = malloc(n * sizeof *host);
    fill_random(random, host, n);
    float *at = subject_floats(&member->subject, host, n);
    free(host);
    return at;
}

static void open_member(struct scene *scene, uint32_t rank, const char *format) {
    static const char *const nexts[NEXTS] = {"f16", "bf16", "gptq4"};
    struct member *member = &scene->members[rank];
    struct random random = {77 + rank}, same = {99}; /* gains are those of all ranks */
    struct kernels_options options = {.n_threads = 1,
                                      .device = rank,
                                      .n_ranks = scene->n_ranks,
                                      .together = ROWS * LONG,
                                      .limits = limits};
    struct error error = {0};
    *member = (struct member){
        .scene = scene, .rank = rank, .subject = {.kernels = kernels_find("cuda-emu:fast")}};
    struct subject *subject = &member->subject;
    ck_assert_int_eq(subject->kernels->open(&options, &subject->ctx, &error), STATUS_OK);
    member->down = pack(member, &random, format, DIM, WIDE, &member->n_bytes[0]);
    member->far = pack(member, &random, "f16", DIM, LONG, &member->n_bytes[1]);
    for (uint32_t i = 0; i < NEXTS; i++)
        member->nexts[i] = pack(member, &random, nexts[i], DIM, DIM, &member->n_bytes[2 + i]);
    member->gain = drawn(member, &same, LONG);
    member->wide = drawn(member, &random, (size_t)ROWS * WIDE);
    member->rows = subject_floats(subject, NULL, 4 * (size_t)ROWS * LONG);
    for (uint32_t b = 0; b < BUFFERS; b++) {
        fill_random(&random, member->host[b], FLOATS);
        member->buffers[b] = subject_floats(subject, NULL, FLOATS);
    }
}

static void open_scene(struct scene *scene, uint32_t n_ranks, const char *format) {
    struct kernels_ctx *all[RANKS_MOST];
    struct error error;
    *scene = (struct scene){.n_ranks = n_ranks};
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        open_member(scene, rank, format);
        all[rank] = scene->members[rank].subject.ctx;
    }
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        ck_assert_int_eq(
            scene->members[rank].subject.kernels->meet(all[rank], rank, n_ranks, all, NULL, &error),
            STATUS_OK);
}

static void close_scene(struct scene *scene) {
    for (uint32_t rank = 0; rank < scene->n_ranks; rank++) {
        struct member *member = &scene->members[rank];
        const char *failure = member->subject.ctx->kind->failure(member->subject.ctx->device);
        ck_assert_msg(!failure, "rank %u: %s", rank, failure);
        subject_unpack(&member->subject, &member->down, member->n_bytes[0]);
        subject_unpack(&member->subject, &member->far, member->n_bytes[1]);
        for (uint32_t i = 0; i < NEXTS; i++)
            subject_unpack(&member->subject, &member->nexts[i], member->n_bytes[2 + i]);
        subject_close(&member->subject);
    }
}

static void run_all(struct scene *scene, void *(*lives)(void *member)) {
    for (uint32_t rank = 0; rank < scene->n_ranks; rank++)
        ck_assert_int_eq(
            pthread_create(&scene->members[rank].thread, NULL, lives, &scene->members[rank]), 0);
    for (uint32_t rank = 0; rank < scene->n_ranks; rank++)
        pthread_join(scene->members[rank].thread, NULL);
}

/* What is read of the parts' buffer and what is written there: how many numbers of it mean something afterwards. False: it reads some
 * that do not. */
static bool follow_part(const struct op *op, uint32_t *n_part) {
    const uint32_t n = op->n * DIM;
    uint32_t read = op->from == PART && op->kind != PRODUCT ? n : 0;
    if (op->kind == ADD || op->kind == SUM)
        read = op->kind == ADD || op->to == PART ? op->n_floats : 0;
    if (op->kind == COPY && op->to == PART)
        read = n;
    if (read > *n_part)
        return false;
    if (op->kind == ADD)
        *n_part = 0;
    else if (op->to == PART && op->kind != SUM && n > *n_part)
        *n_part = n;
    return true;
}

/* Mostly what a layer does next; the same for all ranks. */
static struct op draw(struct random *random, const struct op *last, uint32_t *n_part) {
    static const enum kind follows[N_KINDS] = {
        [PRODUCT] = ADD, [ADD] = NORM, [NORM] = NEXT, [NEXT] = PRODUCT, [COPY] = ADD, [SUM] = NORM};
    struct op op = {.n = last->n};
    bool goes_on = random_below(random, 4) > 0;
    op.kind = goes_on ? follows[last->kind] : (enum kind)random_below(random, N_KINDS);
    op.from = random_below(random, 6) > 0 ? last->to : (uint32_t)random_below(random, BUFFERS);
    if (random_below(random, 5) == 0)
        op.n = 1 + (uint32_t)random_below(random, ROWS);
    if (op.kind == ADD)
        op.from = PART;
    do
        op.to = (uint32_t)random_below(random, BUFFERS);
    while (op.to == op.from && op.kind != PRODUCT);
    if (op.kind == PRODUCT && goes_on)
        op.to = PART;
    if (op.kind == SUM)
        op.to = op.from;
    op.n_floats = op.n * DIM;
    if (random_below(random, 6) == 0)
        op.n_floats -= (uint32_t)random_below(random, 9);
    op.dim = DIM;
    if (random_below(random, 6) == 0)
        op.dim = op.n % 3 == 0 ? DIM / 2 * 3 : DIM / 2;
    op.next = (uint32_t)random_below(random, NEXTS);
    if (!follow_part(&op, n_part)) {
        op.kind = PRODUCT; /* which the next one may read */
        op.to = PART;
        (void)follow_part(&op, n_part);
    }
    return op;
}

static void run_op(const struct member *member, const struct op *op) {
    const struct kernels *k = member->subject.kernels;
    struct kernels_ctx *ctx = member->subject.ctx;
    const float *from = member->buffers[op->from];
    float *to = member->buffers[op->to];
    switch (op->kind) {
    case PRODUCT:
        k->linear(ctx, to, DIM, member->wide, &member->down, op->n,
                  op->to != PART ? EPILOGUE_ADD : EPILOGUE_NONE);
        break;
    case ADD:
        k->add_parts(ctx, to, member->buffers[PART], op->n_floats);
        break;
    case SUM:
        k->sum(ctx, to, op->n_floats);
        break;
    case NORM:
        k->norm(ctx, to, from, member->gain, 1e-5f, op->n * DIM / op->dim, op->dim);
        break;
    case NEXT:
        k->linear(ctx, to, DIM, from, &member->nexts[op->next], op->n, EPILOGUE_NONE);
        break;
    default:
        k->add_gated(ctx, to, from, NULL, op->n, DIM);
    }
}

static void *run_ops(void *arg) {
    struct member *member = arg;
    struct subject *subject = &member->subject;
    bool stops = member->scene->stops;
    float number;
    for (uint32_t b = 0; b < BUFFERS; b++)
        subject_write(subject, member->buffers[b], member->host[b], sizeof member->host[b]);
    for (uint32_t i = 0; i < OPS; i++) {
        run_op(member, &member->scene->ops[i]);
        if (stops)
            subject_read(subject, &number, member->buffers[0], sizeof number);
    }
    for (uint32_t b = 0; b < BUFFERS; b++)
        subject_read(subject, stops ? member->expected[b] : member->got[b], member->buffers[b],
                     sizeof member->got[b]);
    return NULL;
}

static void compare(const struct member *member, uint32_t sequence) {
    static const char *const names[N_KINDS] = {"product",      "parts", "norm",
                                               "next product", "copy",  "sum"};
    const struct op *ops = member->scene->ops;
    for (uint32_t b = 0; b < BUFFERS; b++) {
        size_t n = b == PART ? member->scene->n_part : FLOATS;
        if (memcmp(member->got[b], member->expected[b], n * sizeof(float)) == 0)
            continue;
        for (uint32_t o = 0; o < OPS; o++)
            printf("%s: %u rows of %u to %u, %u numbers, rows of %u\n", names[ops[o].kind],
                   ops[o].n, ops[o].from, ops[o].to, ops[o].n_floats, ops[o].dim);
        fflush(stdout);
        ck_abort_msg("sequence %u, buffer %u of rank %u", sequence, b, member->rank);
    }
}

START_TEST(a_sum_that_waits_leaves_what_one_leaves_that_does_not) {
    static const char *const formats[] = {"f16", "gptq4"};
    static struct scene scene;
    struct random random = {5 + (uint64_t)_i};
    uint32_t n_whole = 0;
    open_scene(&scene, 2 + (uint32_t)_i, formats[_i]);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        struct op last = {.kind = NEXT, .n = 1 + s % ROWS};
        scene.n_part = FLOATS;
        for (uint32_t i = 0; i < OPS; i++)
            last = scene.ops[i] = draw(&random, &last, &scene.n_part);
        for (uint32_t turn = 0; turn < 2; turn++) {
            scene.stops = turn == 0;
            run_all(&scene, run_ops);
        }
        for (uint32_t rank = 0; rank < scene.n_ranks; rank++)
            compare(&scene.members[rank], s);
        for (uint32_t i = 1; i < OPS; i++)
            n_whole += scene.ops[i].kind == NORM && scene.ops[i - 1].kind == ADD &&
                       scene.ops[i].from == scene.ops[i - 1].to;
    }
    ck_assert_uint_gt(n_whole, SEQUENCES / 2);
    close_scene(&scene);
}
END_TEST

/* A layer's end and the next one's begin. */
static void *run_layer(void *arg) {
    struct member *member = arg;
    const struct kernels *k = member->subject.kernels;
    struct kernels_ctx *ctx = member->subject.ctx;
    struct emu_figures before, after;
    float number;
    for (uint32_t b = 0; b < BUFFERS; b++)
        subject_write(&member->subject, member->buffers[b], member->host[b],
                      sizeof member->host[b]);
    emu_figures_now(&before);
    k->linear(ctx, member->buffers[PART], DIM, member->wide, &member->down, ROWS, EPILOGUE_NONE);
    k->add_parts(ctx, member->buffers[1], member->buffers[PART], FLOATS);
    k->norm(ctx, member->buffers[PART], member->buffers[1], member->gain, 1e-5f, ROWS, DIM);
    k->linear(ctx, member->buffers[2], DIM, member->buffers[PART], &member->nexts[0], ROWS,
              EPILOGUE_NONE);
    subject_read(&member->subject, &number, member->buffers[2], sizeof number);
    emu_figures_now(&after);
    member->n_launches = after.n_launches - before.n_launches;
    return NULL;
}

START_TEST(product_sum_norm_and_next_product_are_four_launches) {
    static struct scene scene;
    open_scene(&scene, 2, "f16");
    run_all(&scene, run_layer);
    for (uint32_t rank = 0; rank < scene.n_ranks; rank++)
        ck_assert_uint_eq(scene.members[rank].n_launches, 4); /* the first rounds */
    close_scene(&scene);
}
END_TEST

/* Of rows that no block keeps, sum, norm and product. */
static void *run_long(void *arg) {
    struct member *member = arg;
    struct subject *subject = &member->subject;
    const struct kernels *k = subject->kernels;
    const size_t n = (size_t)ROWS * LONG;
    struct random random = {3 + member->rank};
    float *host = malloc(n * sizeof *host), *said = malloc(3 * n * sizeof *said), number;
    fill_random(&random, host, n);
    k->put(subject->ctx, member->rows, host, n * sizeof *host);
    k->put(subject->ctx, member->rows + 3 * n, host, n * sizeof *host);
    k->add_parts(subject->ctx, member->rows, member->rows + 3 * n, n);
    if (member->scene->stops)
        subject_read(subject, &number, member->rows, sizeof number);
    k->norm(subject->ctx, member->rows + n, member->rows, member->gain, 1e-5f, ROWS, LONG);
    if (member->scene->stops)
        subject_read(subject, &number, member->rows, sizeof number);
    k->linear(subject->ctx, member->rows + 2 * n, DIM, member->rows + n, &member->far, ROWS,
              EPILOGUE_NONE);
    k->get(subject->ctx, said, member->rows, 3 * n * sizeof *said);
    free(host);
    member->said[member->scene->stops] = said;
    return NULL;
}

START_TEST(rows_that_no_block_keeps_are_the_same) {
    static struct scene scene;
    open_scene(&scene, 2, "f16");
    for (uint32_t turn = 0; turn < 2; turn++) {
        scene.stops = turn == 0;
        run_all(&scene, run_long);
    }
    for (uint32_t rank = 0; rank < scene.n_ranks; rank++) {
        float **said = scene.members[rank].said;
        ck_assert_int_eq(memcmp(said[0], said[1], 3 * (size_t)ROWS * LONG * sizeof(float)), 0);
        free(said[0]);
        free(said[1]);
    }
    close_scene(&scene);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_sum_that_waits_leaves_what_one_leaves_that_does_not, 0, 2);
    tcase_add_test(tests, product_sum_norm_and_next_product_are_four_launches);
    tcase_add_test(tests, rows_that_no_block_keeps_are_the_same);
}
