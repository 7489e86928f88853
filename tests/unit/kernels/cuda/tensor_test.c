/* Products on tensor cores, on the emulated device: a row has the same bits however the product is cut into blocks, warps and
 * slices, and whatever rows stand beside it; and they are near to what float64 makes of the rounded numbers. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/tensor.h"
#include "kernels/cuda/weight.h"
#include "kernels/half.h"
#include "kernels/numbers.h"
#include "kernels/quant/quant.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_tensor";
const double suite_timeout_s = 300;

enum {
    N_MOST = 136, /* outputs: of a block of many rows, and some more; most forms have fewer */
    N = 72,
    K = 2336, /* two slices, and a third of 288 inputs: two chunks and a group */
    K_MOST = 2560,
    SLICES = 3,
    ROWS = 45,
    EXPERTS = 3,
    SHARE = 3,
};

static const struct kernels_limits limits = {ROWS, ROWS, 64, K_MOST, 64, 1, 1, 16, KV_F16};

/* How blocks may be cut, and which rows are then multiplied. The first is what the others are compared with. */
static const struct cut {
    struct gpu_tensor_shape shape;
    uint32_t first, n;
    bool always; /* and not of the first forms alone */
} cuts[] = {
    {{.rows = 8, .warps_n = 8, .warps_k = 1}, 0, ROWS, true},
    {{.rows = 8, .warps_n = 1, .warps_k = 8}, 5, 1, true},
    {{.rows = 8, .warps_n = 2, .warps_k = 2}, 20, 9, false},
    {{.rows = 16, .warps_n = 4, .warps_k = 2}, 11, 17, true},
    {{.rows = 16, .warps_n = 1, .warps_k = 1}, 31, 7, false},
    {{.rows = 32, .warps_n = 2, .warps_k = 4}, 2, 33, true},
    {{.rows = 32, .warps_n = 8, .warps_k = 1}, 44, 1, false},
    {{.rows = 64, .warps_n = 8, .warps_k = 1}, 27, 8, false},
    {{.rows = 64, .warps_n = 4, .warps_k = 2}, 0, ROWS, true},
    {{.rows = 64, .many = true}, 9, 33, true},
    {{.rows = 128, .many = true}, 0, ROWS, false},
    {{.rows = 64, .many = true, .wgmma = true}, 9, 33, true},
    {{.rows = 128, .many = true, .wgmma = true}, 0, ROWS, true},
};
enum { N_CUTS = sizeof cuts / sizeof *cuts };

/* Formats whose kernels differ; the first ones take all cuts. FEW: one of floats, of four and of eight bits, for programs in
 * which each access of a kernel is looked at. */
static const struct form {
    const char *format;
    uint32_t group, n;
} forms[] = {
#ifdef FEW
    {"f16", 0, N},
    {"awq", 128, N},
    {"gptq8", 224, N},
#else
    {"f16", 0, N_MOST}, {"awq", 128, N},  {"gptq8", 224, N}, {"q6_k", 0, N}, {"bf16", 0, N},
    {"q4_0", 0, N},     {"q4_1", 0, N},   {"q4_k", 0, N},    {"q5_1", 0, N}, {"q8_0", 0, N},
    {"awq", 64, N},     {"gptq4", 32, N}, {"gptq8", 128, N},
#endif
};
#ifdef FEW
enum { N_FORMS = sizeof forms / sizeof *forms, N_WHOLE = 0 };
#else
enum { N_FORMS = sizeof forms / sizeof *forms, N_WHOLE = 4 };
#endif
enum { N_PARTED_FORMS = 3 };

struct product {
    struct subject subject;
    const struct form *form;
    struct weight weights[EXPERTS];
    size_t n_bytes[EXPERTS];
    struct gpu_matrix *table; /* of them, on the device */
    uint32_t k;
    float *x;                     /* (ROWS, k) on the device */
    float *out;                   /* (ROWS + 1, n) */
    float *host_x;                /* owned: x */
    struct weight_tensor numbers; /* of the first matrix, as float32 */
    float scale[N_MOST], bias[N_MOST];
};

/* Slices of a row have powers of two of their own, and of some rows one is beyond what binary16 has numbers for, or so small
 * that the power which brings it there is beyond what float32 has. */
static int exponent_of(uint32_t row, uint32_t slice) {
    if (row % 3 == 2 && slice == 1)
        return -111 - (int)(row / 3) % 5;
    return row % 3 == 1 && slice == 1 ? 40 : (int)(row * 3 + slice * 5) % 7 - 3;
}

/* The numbers of a matrix as its kernels have them. */
static struct weight_tensor numbers_of(const struct weight_tensor *tensor) {
    struct subject ref = subject_ref(&limits);
    size_t n_bytes;
    struct weight weight = subject_pack_tensor(&ref, tensor, &n_bytes);
    struct weight_tensor numbers = subject_tensor_f32(&ref, &weight);
    float *values = (float *)(uintptr_t)numbers.values;
    bool ints = weight.format == WEIGHT_I4G || weight.format == WEIGHT_I8G;
    for (size_t i = 0; ints && i < (size_t)numbers.n * numbers.k; i++)
        values[i] = half_to_float(float_to_half(values[i]));
    subject_unpack(&ref, &weight, n_bytes);
    subject_close(&ref);
    return numbers;
}

static void open_product(struct product *product, const struct form *form) {
    struct error error = {0};
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    const struct quant_format *quant = quant_find(form->format);
    uint32_t k = (K + quant->block - 1) / quant->block * quant->block, n = form->n;
    struct random random = {77};
    *product = (struct product){.subject = {.kernels = kernels_find("cuda-emu:fast")},
                                .form = form,
                                .k = k,
                                .host_x = malloc((size_t)ROWS * k * sizeof(float))};
    ck_assert_int_eq(product->subject.kernels->open(&options, &product->subject.ctx, &error),
                     STATUS_OK);
    fill_random(&random, product->bias, n);
    fill_random(&random, product->scale, n);
    struct gpu_matrix table[EXPERTS];
    for (uint32_t e = 0; e < EXPERTS; e++) {
        struct weight *weight = &product->weights[e];
        struct weight_tensor tensor =
            random_grouped_tensor(&random, form->format, n, k, quant->sizes ? form->group : 0);
        if (quant->takes_order && e > 0)
            random_order(&random, &tensor);
        if (e == 0)
            product->numbers = numbers_of(&tensor);
        *weight = subject_pack_tensor(&product->subject, &tensor, &product->n_bytes[e]);
        weight->bias = subject_floats(&product->subject, product->bias, n);
        weight->scale = subject_floats(&product->subject, product->scale, n);
        table[e] = cuda_matrix(weight);
        tensor_free(&tensor);
    }
    product->table = subject_bytes(&product->subject, table, sizeof table);
    fill_random(&random, product->host_x, (size_t)ROWS * k);
    for (uint32_t i = 0; i < ROWS * k; i++)
        product->host_x[i] = ldexpf(product->host_x[i], exponent_of(i / k, i % k / TENSOR_SLICE));
    product->x = subject_floats(&product->subject, product->host_x, (size_t)ROWS * k);
    product->out = subject_floats(&product->subject, NULL, (size_t)(ROWS + 1) * n);
}

static void close_product(struct product *product) {
    for (uint32_t e = 0; e < EXPERTS; e++)
        subject_unpack(&product->subject, &product->weights[e], product->n_bytes[e]);
    tensor_free(&product->numbers);
    free(product->host_x);
    subject_close(&product->subject);
}

/* The widest of the experts' matrices, as cuda/experts.c has it. */
static struct gpu_matrix widest(const struct product *product) {
    struct gpu_matrix widest = cuda_matrix(&product->weights[0]);
    for (uint32_t e = 1; e < EXPERTS; e++)
        if (product->weights[e].k_stored > widest.k_stored)
            widest = cuda_matrix(&product->weights[e]);
    return widest;
}

static void read_back(struct product *product, void *to, const void *from, size_t n_bytes) {
    struct kernels_ctx *ctx = product->subject.ctx;
    subject_read(&product->subject, to, from, n_bytes);
    ck_assert_msg(!ctx->kind->failure(ctx->device), "%s", ctx->kind->failure(ctx->device));
}

/* The results are NaN before, and so is a row behind them afterwards. */
static void clear(struct product *product, uint32_t n_rows) {
    size_t n = (size_t)(n_rows + 1) * product->form->n;
    float *nothing = malloc(n * sizeof *nothing);
    for (size_t i = 0; i < n; i++)
        nothing[i] = NAN;
    subject_write(&product->subject, product->out, nothing, n * sizeof *nothing);
    free(nothing);
}

static void read_rows(struct product *product, uint32_t n_rows, float *out) {
    uint32_t n = product->form->n;
    float behind[N_MOST];
    read_back(product, out, product->out, (size_t)n_rows * n * sizeof *out);
    read_back(product, behind, product->out + (size_t)n_rows * n, n * sizeof *behind);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(isnan(behind[i]), "%s: row %u of %u is written", product->form->format,
                      n_rows, n_rows);
}

/* Rounded rows [first, first + n) and their product by one of the matrices, in blocks of this shape. */
static struct gpu_tensor begin(struct product *product, uint32_t expert,
                               const struct gpu_tensor_shape *shape, uint32_t first, uint32_t n) {
    struct kernels_ctx *ctx = product->subject.ctx;
    struct gpu_tensor tensor = {
        .linear = {.choice = {.matrix = cuda_matrix(&product->weights[expert])},
                   .ints = ctx->ints,
                   .x = product->x + (size_t)first * product->k,
                   .out = product->out,
                   .out_stride = product->form->n,
                   .n_rows = n,
                   .share = 1},
        .shape = *shape};
    tensor.shape.slices = 1 + (tensor.linear.choice.matrix.k_stored - 1) / TENSOR_SLICE;
    cuda_launch_round_rows(ctx, &(struct gpu_round_rows){.matrix = tensor.linear.choice.matrix,
                                                         .to = ctx->ints,
                                                         .x = tensor.linear.x,
                                                         .n_rows = n,
                                                         .share = 1});
    return tensor;
}

static void multiply(struct product *product, uint32_t expert, const struct gpu_tensor_shape *shape,
                     uint32_t first, uint32_t n, float *out) {
    struct gpu_tensor tensor = begin(product, expert, shape, first, n);
    clear(product, n);
    cuda_launch_linear_tensor(product->subject.ctx, &tensor);
    read_rows(product, n, out);
}

/* Each row, shared by SHARE pairs, by the matrices that ids (ROWS pairs) name. */
static void multiply_pairs(struct product *product, const uint32_t *ids,
                           const struct gpu_tensor_shape *shape, float *out) {
    struct kernels_ctx *ctx = product->subject.ctx;
    struct gpu_matrix matrix = widest(product);
    bool by_pair = cuda_matrix(&product->weights[1]).order != NULL;
    uint32_t n_groups = EXPERTS + ROWS / shape->rows;
    uint32_t *at_ids = subject_ids(&product->subject, ids, ROWS);
    uint32_t *pairs = subject_ids(&product->subject, NULL, ROWS);
    struct gpu_group *groups = (struct gpu_group *)(void *)subject_ids(
        &product->subject, NULL, n_groups * sizeof(struct gpu_group) / sizeof(uint32_t));
    cuda_launch_moe_plan(ctx, &(struct gpu_moe_plan){.ids = at_ids,
                                                     .pairs = pairs,
                                                     .groups = groups,
                                                     .n_pairs = ROWS,
                                                     .n_experts = EXPERTS,
                                                     .rows = shape->rows,
                                                     .n_groups = n_groups});
    cuda_launch_round_rows(ctx, &(struct gpu_round_rows){.matrix = matrix,
                                                         .to = ctx->ints,
                                                         .x = product->x,
                                                         .table = by_pair ? product->table : NULL,
                                                         .ids = at_ids,
                                                         .n_rows = by_pair ? ROWS : ROWS / SHARE,
                                                         .share = by_pair ? SHARE : 1});
    struct gpu_tensor tensor = {
        .linear = {.choice = {.matrix = matrix, .table = product->table, .ids = at_ids},
                   .ints = ctx->ints,
                   .x = product->x,
                   .out = product->out,
                   .out_stride = product->form->n,
                   .n_rows = ROWS,
                   .share = SHARE},
        .groups = {groups, pairs, n_groups, by_pair ? 1 : SHARE},
        .shape = *shape};
    tensor.shape.slices = 1 + (matrix.k_stored - 1) / TENSOR_SLICE;
    clear(product, ROWS);
    cuda_launch_linear_tensor(ctx, &tensor);
    read_rows(product, ROWS, out);
}

#define NEAR      2e-4 /* of a row's size */
#define NEAR_WIDE 2e-2 /* where scales and minima, which nearly cancel, are rounded first */

static double bound_of(const struct form *form) {
    const struct quant_format *quant = quant_find(form->format);
    return quant->wide && !quant->zeros ? NEAR_WIDE : NEAR;
}

/* An input as it is rounded: of binary16 while the largest of its slice, which is below 2^exponent, lies below 2^15. */
static double rounded(const struct product *product, float x, int exponent) {
    if (strcmp(product->form->format, "bf16") == 0)
        return (double)bf16_to_float(float_to_bf16(x));
    return ldexp((double)half_to_float(float_to_half(ldexpf(x, 15 - exponent))), exponent - 15);
}

/* What a slice of a row and the first matrix come to in float64: n numbers. Answers their size. */
static double slice_of(const struct product *product, uint32_t row, uint32_t slice, double *to) {
    const float *w = product->numbers.values, *x = product->host_x + (size_t)row * product->k;
    uint32_t k = product->k, first = slice * TENSOR_SLICE, n = product->form->n;
    uint32_t end = k - first < TENSOR_SLICE ? k : first + TENSOR_SLICE;
    float max = 0.0f;
    double square = 0;
    int exponent;
    for (uint32_t i = first; i < end; i++)
        max = fmaxf(max, fabsf(x[i]));
    (void)frexpf(max, &exponent);
    for (uint32_t o = 0; o < n; o++) {
        to[o] = 0;
        for (uint32_t i = first; i < end; i++)
            to[o] += rounded(product, x[i], exponent) * (double)w[(size_t)o * k + i];
        square += to[o] * to[o];
    }
    return sqrt(square / n);
}

/* A row of results, with scale and bias. */
static void expect_near(const struct product *product, uint32_t row, const float *got) {
    double slice[N_MOST], sum[N_MOST] = {0}, size = 0;
    uint32_t n = product->form->n;
    for (uint32_t s = 0; s < SLICES; s++) {
        size += slice_of(product, row, s, slice);
        for (uint32_t o = 0; o < n; o++)
            sum[o] += slice[o];
    }
    for (uint32_t o = 0; o < n; o++) {
        double scale = (double)product->scale[o], y = sum[o] * scale + (double)product->bias[o];
        double off = fabs((double)got[o] - y);
        ck_assert_msg(off <= bound_of(product->form) * size * fabs(scale) + 1e-6 * fabs(y),
                      "%s: output %u of row %u is %a, in float64 %a", product->form->format, o, row,
                      (double)got[o], y);
    }
}

static bool takes(int form, uint32_t cut) {
    return form < N_WHOLE || cuts[cut].always;
}

/* All rows in one shape, then rows from anywhere on in each other one. */
START_TEST(bits_of_a_row_depend_on_no_shape_and_on_no_other_row) {
    struct product product;
    static float expected[ROWS * N_MOST], got[ROWS * N_MOST];
    open_product(&product, &forms[_i]);
    uint32_t n = product.form->n;
    multiply(&product, 0, &cuts[0].shape, 0, ROWS, expected);
    expect_near(&product, 0, expected);
    expect_near(&product, 1, expected + n); /* whose second slice is so large */
    expect_near(&product, ROWS - 1, expected + (size_t)(ROWS - 1) * n);
    for (uint32_t c = 1; c < N_CUTS; c++) {
        if (!takes(_i, c))
            continue;
        multiply(&product, 0, &cuts[c].shape, cuts[c].first, cuts[c].n, got);
        for (uint32_t i = 0; i < cuts[c].n * n; i++) {
            const float *of = &expected[cuts[c].first * n + i];
            ck_assert_msg(memcmp(&got[i], of, sizeof *got) == 0,
                          "%s: cut %u, row %u, output %u: %a, not %a", product.form->format, c,
                          cuts[c].first + i / n, i % n, (double)got[i], (double)*of);
        }
    }
    close_product(&product);
}
END_TEST

/* Experts: none, one, and most of the pairs; a pair's numbers are those of its row by its expert's matrix alone. */
START_TEST(pairs_of_a_row_and_an_expert_have_the_bits_of_the_row_by_its_matrix) {
    struct product product;
    static float expected[EXPERTS][ROWS * N_MOST], got[ROWS * N_MOST];
    uint32_t ids[3][ROWS];
    open_product(&product, &forms[_i]);
    uint32_t n = product.form->n;
    for (uint32_t i = 0; i < ROWS; i++)
        ids[0][i] = i * 7 / 5 % EXPERTS, ids[1][i] = i == 11, ids[2][i] = 2;
    for (uint32_t e = 0; e < EXPERTS; e++)
        multiply(&product, e, &cuts[0].shape, 0, ROWS / SHARE, expected[e]);
    for (uint32_t c = 1; c < N_CUTS; c += _i < N_WHOLE ? 1 : 4) {
        const uint32_t *of = ids[(c + 2) % 3];
        multiply_pairs(&product, of, &cuts[c].shape, got);
        for (uint32_t i = 0; i < ROWS; i++)
            ck_assert_msg(memcmp(&got[i * n], &expected[of[i]][i / SHARE * n], n * sizeof *got) ==
                              0,
                          "%s: cut %u, pair %u of expert %u", product.form->format, c, i, of[i]);
    }
    close_product(&product);
}
END_TEST

/* Blocks with some of the slices, the last ones with fewer, or with all. */
static const struct gpu_tensor_shape parted[] = {
    {.rows = 8, .warps_n = 2, .warps_k = 2, .slices = 2},
    {.rows = 8, .warps_n = 4, .warps_k = 1, .slices = 1},
    {.rows = 16, .warps_n = 4, .warps_k = 1, .slices = 2},
    {.rows = 64, .warps_n = 2, .warps_k = 4, .slices = 4},
};
enum { N_PARTED = sizeof parted / sizeof *parted, PART_ROWS = 11 };

/* A part is near to its slice in float64, however much larger the next one is; and what they add up to has the bits of
 * slices that meet in a block. */
START_TEST(parts_are_their_slices_and_add_up_to_the_bits_of_the_whole) {
    struct product product;
    static float expected[PART_ROWS * N_MOST], got[PART_ROWS * N_MOST];
    double slice[N_MOST];
    open_product(&product, &forms[_i]);
    struct kernels_ctx *ctx = product.subject.ctx;
    uint32_t n = product.form->n, n_padded = cuda_matrix(&product.weights[0]).n_padded;
    size_t n_parts = (size_t)SLICES * PART_ROWS * n_padded, n_all = n_parts + n_padded;
    float *parts = malloc(n_all * sizeof *parts);
    float *at_parts = subject_floats(&product.subject, NULL, n_all);
    multiply(&product, 0, &cuts[0].shape, 0, PART_ROWS, expected);
    for (uint32_t p = 0; p < N_PARTED; p++) {
        struct gpu_tensor tensor = begin(&product, 0, &parted[p], 0, PART_ROWS);
        for (size_t i = 0; i < n_all; i++)
            parts[i] = NAN;
        subject_write(&product.subject, at_parts, parts, n_all * sizeof *parts);
        tensor.parts = at_parts;
        tensor.shape.slices = parted[p].slices;
        cuda_launch_linear_tensor(ctx, &tensor);
        read_back(&product, parts, at_parts, n_all * sizeof *parts);
        for (uint32_t i = 0; i < n_padded; i++)
            ck_assert_msg(isnan(parts[n_parts + i]), "a fourth slice of three is written");
        for (uint32_t i = 0; p == 0 && i < 3 * SLICES; i++) {
            uint32_t row = i % 3, s = i / 3;
            const float *part = parts + ((size_t)s * PART_ROWS + row) * n_padded;
            double bound = bound_of(product.form) * slice_of(&product, row, s, slice);
            for (uint32_t o = 0; o < n; o++)
                ck_assert_msg(fabs((double)part[o] - slice[o]) <= bound,
                              "%s: slice %u of output %u of row %u is %a, in float64 %a",
                              product.form->format, s, o, row, (double)part[o], slice[o]);
        }
        clear(&product, PART_ROWS);
        cuda_launch_sum_rows(ctx, &(struct gpu_sum){.parts = at_parts,
                                                    .scale = tensor.linear.choice.matrix.scale,
                                                    .bias = tensor.linear.choice.matrix.bias,
                                                    .out = product.out,
                                                    .out_stride = n,
                                                    .n_slices = SLICES,
                                                    .n_rows = PART_ROWS,
                                                    .n = n,
                                                    .n_padded = n_padded});
        read_rows(&product, PART_ROWS, got);
        for (uint32_t i = 0; i < PART_ROWS * n; i++)
            ck_assert_msg(memcmp(&got[i], &expected[i], sizeof *got) == 0,
                          "%s: shape %u, row %u, output %u: %a, not %a", product.form->format, p,
                          i / n, i % n, (double)got[i], (double)expected[i]);
    }
    free(parts);
    close_product(&product);
}
END_TEST

/* What a product of this epilogue leaves where `old` was, after the numbers of it that stand alone. */
static float with_epilogue(enum epilogue epilogue, const float *numbers, uint32_t i, float old) {
    if (epilogue == EPILOGUE_SILU_MUL)
        return numbers_silu(numbers[2 * i]) * numbers[2 * i + 1];
    return epilogue == EPILOGUE_ADD ? old + numbers[i] : numbers[i];
}

/* By each kind of kernel: few rows, many, the one that adds up parts, and wgmma. */
START_TEST(gates_and_residuals_are_those_of_the_numbers_alone) {
    enum epilogue epilogue = _i % 2 ? EPILOGUE_ADD : EPILOGUE_SILU_MUL;
    static const struct gpu_tensor_shape kinds[] = {{.rows = 8, .warps_n = 2, .warps_k = 2},
                                                    {.rows = 64, .many = true},
                                                    {.rows = 8, .warps_n = 4, .warps_k = 1},
                                                    {.rows = 64, .many = true, .wgmma = true}};
    struct product product;
    static float numbers[PART_ROWS * N_MOST], old[PART_ROWS * N_MOST], got[PART_ROWS * N_MOST];
    open_product(&product, &forms[1]);
    struct kernels_ctx *ctx = product.subject.ctx;
    struct random random = {5};
    const uint32_t n = product.form->n, kind = (uint32_t)_i / 2;
    const struct gpu_matrix w = cuda_matrix(&product.weights[0]);
    multiply(&product, 0, &cuts[0].shape, 0, PART_ROWS, numbers);
    fill_random(&random, old, PART_ROWS * n);
    struct gpu_tensor tensor = begin(&product, 0, &kinds[kind], 0, PART_ROWS);
    clear(&product, PART_ROWS);
    subject_write(&product.subject, product.out, old, PART_ROWS * n * sizeof *old);
    tensor.linear.epilogue = epilogue;
    if (kind == 2) {
        tensor.shape.slices = 1;
        tensor.parts =
            subject_floats(&product.subject, NULL, (size_t)SLICES * PART_ROWS * w.n_padded);
    }
    cuda_launch_linear_tensor(ctx, &tensor);
    if (kind == 2)
        cuda_launch_sum_rows(ctx, &(struct gpu_sum){.parts = tensor.parts,
                                                    .scale = w.scale,
                                                    .bias = w.bias,
                                                    .out = product.out,
                                                    .out_stride = n,
                                                    .n_slices = SLICES,
                                                    .n_rows = PART_ROWS,
                                                    .n = n,
                                                    .n_padded = w.n_padded,
                                                    .epilogue = epilogue});
    read_rows(&product, PART_ROWS, got);
    for (uint32_t i = 0; i < PART_ROWS * n; i++) {
        uint32_t row = i / n, o = i % n, n_left = epilogue == EPILOGUE_SILU_MUL ? n / 2 : n;
        float y =
            o < n_left ? with_epilogue(epilogue, numbers + (size_t)row * n, o, old[i]) : old[i];
        ck_assert_msg(memcmp(&got[i], &y, sizeof y) == 0, "kind %u: row %u, %u: %a, not %a", kind,
                      row, o, (double)got[i], (double)y);
    }
    close_product(&product);
}
END_TEST

/* The probe's results are numbers, all there, and the same at every start; so is the digest, which other devices are
 * compared with: it changes where the probe does. */
START_TEST(a_probe_has_the_same_numbers_at_every_start) {
    static const char expected[] = "mma16 737775db647b3619:";
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    static float results[2][GPU_PROBES];
    for (int start = 0; start < 2; start++) {
        struct subject subject = {.kernels = kernels_find("cuda-emu:fast")};
        struct error error = {0};
        ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
        ck_assert_msg(strstr(subject.kernels->numerics(subject.ctx), expected), "%s",
                      subject.kernels->numerics(subject.ctx));
        for (uint32_t i = 0; i < GPU_PROBES; i++)
            results[start][i] = NAN;
        struct gpu_probe probe = {subject_floats(&subject, results[start], GPU_PROBES)};
        subject.ctx->gpu->probe(subject.ctx->main.stream, &probe);
        subject_read(&subject, results[start], probe.out, sizeof results[start]);
        subject_close(&subject);
    }
    for (uint32_t i = 0; i < GPU_PROBES; i++)
        ck_assert_msg(isfinite(results[0][i]), "number %u of the probe is %a", i,
                      (double)results[0][i]);
    ck_assert_mem_eq(results[0], results[1], sizeof results[0]);
}
END_TEST

/* wgmma is for devices that have it, and for many rows; the probe there finds it to be as mma.sync is. */
START_TEST(many_rows_take_wgmma_where_the_device_has_it) {
    static const uint32_t rows[] = {1000, 1};
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct gpu_linear linear = {
        .choice.matrix = {
            .n = 4096, .n_padded = 4096, .k = 4096, .k_stored = 4096, .format = WEIGHT_I4G}};
    for (int capability = 80; capability <= 90; capability += 10) {
        struct subject subject = {.kernels = kernels_find("cuda-emu:fast")};
        struct error error = {0};
        setenv("TANDEM_EMU_CAPABILITY", capability == 90 ? "90" : "80", 1);
        ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
        for (int i = 0; i < 2; i++) {
            struct gpu_tensor_shape shape =
                cuda_tensor_shape(subject.ctx, &linear, rows[i], 1, false);
            ck_assert_int_eq(shape.many, i == 0);
            ck_assert_int_eq(shape.wgmma, i == 0 && capability == 90);
        }
        subject_close(&subject);
    }
}
END_TEST

void suite_add(TCase *tests) {
    setenv("TANDEM_EMU_CAPABILITY", "90",
           1); /* a block there may have the memory that wgmma takes */
    tcase_add_loop_test(tests, bits_of_a_row_depend_on_no_shape_and_on_no_other_row, 0, N_FORMS);
    tcase_add_loop_test(tests, pairs_of_a_row_and_an_expert_have_the_bits_of_the_row_by_its_matrix,
                        0, N_FORMS);
    tcase_add_loop_test(tests, parts_are_their_slices_and_add_up_to_the_bits_of_the_whole, 0,
                        N_PARTED_FORMS);
    tcase_add_loop_test(tests, gates_and_residuals_are_those_of_the_numbers_alone, 0, 8);
    tcase_add_test(tests, a_probe_has_the_same_numbers_at_every_start);
    tcase_add_test(tests, many_rows_take_wgmma_where_the_device_has_it);
}
