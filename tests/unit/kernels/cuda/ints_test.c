/* Rows of activations as the CUDA backend rounds them, on the emulated device: no more at a time than there is room for,
 * and by the norm before them only where its rows are those of the product. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/memory.h"
#include "kernels/limits.h"
#include "kernels/numbers.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_ints";
const double suite_timeout_s = 60;

enum { DIM = 64, OUTPUTS = 16, ROOM = 12, ROWS_MAX = 5 * ROOM };

static const struct kernels_limits limits = {ROWS_MAX, ROWS_MAX, 64, DIM, 64, 1, 1, 16, KV_F16};

static const struct gpu_launches *real;
static uint32_t room;      /* rows of integers, of both terms together */
static uint32_t n_rounded; /* launches that made some */
static uint32_t n_norms;   /* of them, norms */

static void count_rows(uint32_t n_rows) {
    ck_assert_uint_le(n_rows, room);
    n_rounded++;
}

static void norm_counted(struct device_stream *stream, const struct gpu_norm *what) {
    if (what->quantizes) {
        count_rows(what->n_rows * (what->fine ? 2 : 1));
        n_norms++;
    }
    real->norm(stream, what);
}

static void quantize_counted(struct device_stream *stream, const struct gpu_quantize *what) {
    count_rows(what->n_rows * (what->fine ? 2 : 1));
    real->quantize(stream, what);
}

static void rows_counted(struct device_stream *stream, const struct gpu_round_rows *what) {
    count_rows(2 * what->n_rows);
    real->round_rows(stream, what);
}

/* A context with room for so many rows of integers (0: as it is), whose launches are counted. */
static struct subject open_subject(const char *backend, uint32_t n_rows) {
    static struct gpu_launches counted;
    struct subject subject = {.kernels = kernels_find(backend), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    if (!subject_is_emulated(&subject))
        return subject;
    struct kernels_ctx *ctx = subject.ctx;
    ck_assert_uint_eq(ctx->ints_rows, 2 * EXPERTS_MAX);
    if (n_rows > 0) {
        ctx->ints_rows = n_rows;
        cuda_free_ints(ctx, &ctx->ints);
        ctx->ints = (struct gpu_ints){0};
        ck_assert_int_eq(cuda_reserve(ctx, DIM), STATUS_OK);
    }
    room = ctx->ints_rows;
    real = ctx->gpu;
    counted = *real;
    counted.norm = norm_counted;
    counted.quantize = quantize_counted;
    counted.round_rows = rows_counted;
    ctx->gpu = &counted;
    n_rounded = n_norms = 0;
    return subject;
}

static const char *const backends[] = {"cuda-emu:exact", "cuda-emu:fast"};
static const char *const formats[] = {"q4_0", "q8_0", "f16"}; /* q8_0: in two terms */

/* The products of n rows. */
static void multiply(const char *backend, const char *format, uint32_t n_rows, uint32_t n,
                     float *out) {
    struct subject subject = open_subject(backend, n_rows);
    struct random random = {3};
    struct weight_tensor tensor = random_tensor(&random, format, OUTPUTS, DIM);
    float x[ROWS_MAX * DIM];
    fill_random(&random, x, ROWS_MAX * DIM);
    size_t n_bytes;
    struct weight weight = subject_pack_tensor(&subject, &tensor, &n_bytes);
    float *at_x = subject_floats(&subject, x, ROWS_MAX * DIM);
    float *at_out = subject_floats(&subject, NULL, ROWS_MAX * OUTPUTS);
    subject.kernels->linear(subject.ctx, at_out, OUTPUTS, at_x, &weight, n, EPILOGUE_NONE);
    subject_read(&subject, out, at_out, (size_t)n * OUTPUTS * sizeof *out);
    subject_unpack(&subject, &weight, n_bytes);
    subject_close(&subject);
    tensor_free(&tensor);
}

/* Full rows of integers, one more, and several parts. */
START_TEST(rows_are_rounded_in_parts_that_fit) {
    const char *backend = backends[_i / 3], *format = formats[_i % 3];
    bool fast = _i >= 3, ints = _i % 3 < 2;
    uint32_t most = ROOM / (fast || _i % 3 == 1 ? 2 : 1);
    const uint32_t sizes[] = {most - 1, most, most + 1, 2 * most, 5 * most};
    float expected[ROWS_MAX * OUTPUTS], got[ROWS_MAX * OUTPUTS];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = sizes[i];
        multiply(backend, format, 0, n, expected);
        multiply(backend, format, ROOM, n, got);
        ck_assert_uint_eq(n_rounded, fast || ints ? (n + most - 1) / most : 0);
        ck_assert_mem_eq(got, expected, n * OUTPUTS * sizeof *got);
    }
}
END_TEST

enum { EXPERTS = 4 };

/* A mixture of experts with packed matrices. */
struct mixture {
    struct weight gate_up[EXPERTS], down[EXPERTS];
    size_t n_bytes[2 * EXPERTS];
};

/* The inputs of every second expert stand in another order, where `orders` is set. */
static void pack_mixture_of(struct mixture *mixture, const struct subject *subject,
                            const char *format, bool orders, uint32_t dim) {
    struct random random = {9};
    for (uint32_t i = 0; i < 2 * EXPERTS; i++) {
        struct weight *to = i % 2 ? &mixture->down[i / 2] : &mixture->gate_up[i / 2];
        struct weight_tensor tensor = random_grouped_tensor(&random, format, i % 2 ? dim : 2 * DIM,
                                                            i % 2 ? DIM : dim, orders ? 32 : 0);
        if (orders && i / 2 % 2)
            random_order(&random, &tensor);
        *to = subject_pack_tensor(subject, &tensor, &mixture->n_bytes[i]);
        tensor_free(&tensor);
    }
}

static void pack_mixture(struct mixture *mixture, const struct subject *subject, const char *format,
                         bool orders) {
    pack_mixture_of(mixture, subject, format, orders, DIM);
}

static void drop_mixture(struct mixture *mixture, const struct subject *subject) {
    for (uint32_t i = 0; i < 2 * EXPERTS; i++)
        subject_unpack(subject, i % 2 ? &mixture->down[i / 2] : &mixture->gate_up[i / 2],
                       mixture->n_bytes[i]);
}

struct rows {
    uint32_t n;
    uint32_t n_active;
    uint32_t first;     /* expert of the first row */
    uint32_t n_experts; /* of the mixture that are given */
    bool norm;          /* of the rows, at once before the mixture */
};

/* The mixture of n rows, of which each goes to the experts behind those of the one before it. */
static void mix(struct subject *subject, const struct mixture *mixture, const struct rows *rows,
                float *out) {
    const struct kernels *k = subject->kernels;
    uint32_t ids[ROWS_MAX * EXPERTS];
    size_t n = (size_t)rows->n * DIM, n_pairs = (size_t)rows->n * rows->n_active;
    float x[ROWS_MAX * DIM], weights[ROWS_MAX * EXPERTS], gain[DIM];
    struct random random = {21};
    fill_random(&random, x, ROWS_MAX * DIM);
    fill_random(&random, gain, DIM);
    for (uint32_t i = 0; i < n_pairs; i++) {
        ids[i] = (rows->first + i) % rows->n_experts;
        weights[i] = 0.25f * (float)(i % 3 + 1);
    }
    uint32_t *at_ids = subject_ids(subject, ids, n_pairs);
    float *at_weights = subject_floats(subject, weights, n_pairs);
    float *at_x = subject_floats(subject, x, n), *at_gain = subject_floats(subject, gain, DIM);
    float *at_normed = subject_floats(subject, NULL, n), *at_out = subject_floats(subject, NULL, n);
    float *scratch =
        subject_floats(subject, NULL, k->moe_scratch(rows->n, rows->n_active, DIM, DIM));
    if (rows->norm)
        k->norm(subject->ctx, at_normed, at_x, at_gain, 1e-5f, rows->n, DIM);
    k->moe_ffn(subject->ctx, at_out, rows->norm ? at_normed : at_x, at_ids, at_weights, rows->n,
               rows->n_active, mixture->gate_up, mixture->down, rows->n_experts, scratch);
    subject_read(subject, out, at_out, n * sizeof *out);
    subject_drop(subject);
}

static void mix_once(const char *backend, uint32_t n_rows, const char *format, bool orders,
                     const struct rows *rows, float *out) {
    struct subject subject = open_subject(backend, n_rows);
    struct mixture mixture;
    pack_mixture(&mixture, &subject, format, orders);
    mix(&subject, &mixture, rows, out); /* makes the tables, which launches what waits */
    n_rounded = n_norms = 0;
    mix(&subject, &mixture, rows, out);
    drop_mixture(&mixture, &subject);
    subject_close(&subject);
}

/* Pairs of a row and one of its experts: half of the rows of integers, for a product may want both terms. */
START_TEST(pairs_of_experts_are_rounded_in_waves_that_fit) {
    static const struct {
        uint32_t n, n_active, waves;
    } sizes[] = {{6, 1, 1}, {7, 1, 2}, {6, 2, 2}, {8, 2, 3}, {9, 2, 3}, {25, 4, 25}};
    float expected[ROWS_MAX * DIM], got[ROWS_MAX * DIM];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct rows rows = {sizes[i].n, sizes[i].n_active, 0, EXPERTS, false};
        mix_once("ref", 0, "q8_0", false, &rows, expected);
        mix_once("cuda-emu:exact", ROOM, "q8_0", false, &rows, got);
        ck_assert_uint_eq(n_rounded, 2 * sizes[i].waves);
        ck_assert_mem_eq(got, expected, rows.n * DIM * sizeof *got);
    }
}
END_TEST

/* On tensor cores, rows of one term and 16 bits: a row of up to 128 inputs takes the room of 128, those of 64 integers in two terms here. A
 * product of pairs whose experts stand in no order of their own rounds the rows of x once. */
START_TEST(pairs_of_experts_go_to_tensor_cores_in_one_wave_that_fits) {
    static const struct {
        uint32_t n, n_active;
        bool orders;
        uint32_t waves;
    } sizes[] = {{6, 1, false, 1}, {7, 1, false, 2}, {3, 2, false, 1}, {4, 2, false, 2},
                 {1, 4, false, 1}, {3, 4, false, 3}, {6, 1, true, 1},  {7, 1, true, 2}};
    float expected[ROWS_MAX * DIM], got[ROWS_MAX * DIM];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct rows rows = {sizes[i].n, sizes[i].n_active, 0, EXPERTS, false};
        const char *format = sizes[i].orders ? "gptq4" : "q8_0";
        mix_once("cuda-emu:fast", 0, format, sizes[i].orders, &rows, expected);
        ck_assert_uint_eq(n_rounded, 2);
        mix_once("cuda-emu:fast", ROOM, format, sizes[i].orders, &rows, got);
        ck_assert_uint_eq(n_rounded, 2 * sizes[i].waves);
        ck_assert_mem_eq(got, expected, rows.n * DIM * sizeof *got);
    }
}
END_TEST

static uint32_t n_sums; /* of waves */

static void nothing_rounded(struct device_stream *stream, const struct gpu_round_rows *what) {
    (void)stream, (void)what;
}
static void nothing_planned(struct device_stream *stream, const struct gpu_moe_plan *what) {
    (void)stream, (void)what;
}
static void nothing_multiplied(struct device_stream *stream, const struct gpu_tensor *what) {
    (void)stream, (void)what;
}
static void sum_counted(struct device_stream *stream, const struct gpu_moe_add *what) {
    (void)stream, (void)what;
    n_sums++;
}

/* A context in which no mixture computes anything, with room for so many rows of integers (0: as it is). */
static struct subject open_idle(uint32_t max_tokens, uint32_t max_dim, uint32_t n_rows) {
    static struct gpu_launches none;
    struct kernels_limits wide = limits;
    wide.max_tokens = max_tokens;
    wide.max_dim = max_dim;
    struct subject subject = {.kernels = kernels_find("cuda-emu:fast"), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .limits = wide};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    subject.ctx->ints_rows = n_rows > 0 ? n_rows : subject.ctx->ints_rows;
    none = *subject.ctx->gpu;
    none.round_rows = nothing_rounded;
    none.moe_plan = nothing_planned;
    none.linear_tensor = nothing_multiplied;
    none.moe_add = sum_counted;
    subject.ctx->gpu = &none;
    return subject;
}

static uint32_t waves_of(struct subject *subject, const struct mixture *mixture, uint32_t n_rows,
                         uint32_t n_active) {
    const struct kernels *k = subject->kernels;
    uint32_t dim = mixture->gate_up[0].k;
    float *x = subject_floats(subject, NULL, (size_t)n_rows * dim);
    float *scratch = subject_floats(subject, NULL, k->moe_scratch(n_rows, n_active, dim, DIM));
    uint32_t *ids = subject_ids(subject, NULL, (size_t)n_rows * n_active);
    n_sums = 0;
    k->moe_ffn(subject->ctx, x, x, ids, x, n_rows, n_active, mixture->gate_up, mixture->down,
               EXPERTS, scratch);
    ck_assert_int_eq(k->step_end(subject->ctx), STATUS_OK);
    subject_drop(subject);
    return n_sums;
}

/* However many rows there are, so that scratch memory has a bound. */
START_TEST(a_wave_has_16384_pairs_at_most) {
    struct subject subject = open_idle(4097, 8 * DIM, 0);
    const struct kernels *k = subject.kernels;
    struct mixture mixture;
    pack_mixture(&mixture, &subject, "f16", false);
    ck_assert_uint_gt(k->moe_scratch(4096, 4, DIM, DIM), k->moe_scratch(4095, 4, DIM, DIM));
    ck_assert_uint_eq(k->moe_scratch(4097, 4, DIM, DIM), k->moe_scratch(4096, 4, DIM, DIM));
    ck_assert_uint_eq(waves_of(&subject, &mixture, 4096, 4), 1);
    ck_assert_uint_eq(waves_of(&subject, &mixture, 4097, 4), 2);
    drop_mixture(&mixture, &subject);
    subject_close(&subject);
}
END_TEST

/* Rows of 256 inputs, and of 64 between the products, which take the room of 128. Where some experts have an order of inputs, a row
 * of x is rounded for each of its pairs, else once. */
START_TEST(what_is_rounded_decides_how_many_pairs_fit) {
    static const struct {
        uint32_t n, n_active;
        bool orders;
        uint32_t waves;
    } sizes[] = {{6, 2, false, 1}, {7, 2, false, 2}, {3, 4, false, 1}, {4, 4, false, 2},
                 {3, 2, true, 1},  {4, 2, true, 2},  {1, 4, true, 1},  {2, 4, true, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct subject subject = open_idle(ROWS_MAX, 4 * DIM, ROOM);
        struct mixture mixture;
        pack_mixture_of(&mixture, &subject, sizes[i].orders ? "gptq4" : "q8_0", sizes[i].orders,
                        4 * DIM);
        ck_assert_msg(waves_of(&subject, &mixture, sizes[i].n, sizes[i].n_active) == sizes[i].waves,
                      "%zu: %u", i, n_sums);
        drop_mixture(&mixture, &subject);
        subject_close(&subject);
    }
}
END_TEST

/* Its rows are those of the product where each goes to one expert, but which of the orders they are wanted in is known
 * to the device alone. */
START_TEST(a_norm_does_not_round_for_a_mixture) {
    float expected[ROWS_MAX * DIM], got[ROWS_MAX * DIM];
    for (uint32_t first = 0; first < 2; first++) {
        struct rows rows = {5, 1, first, EXPERTS, true};
        mix_once("ref", 0, "gptq4", true, &rows, expected);
        mix_once("cuda-emu:exact", 0, "gptq4", true, &rows, got);
        ck_assert_uint_eq(n_norms, 0);
        ck_assert_mem_eq(got, expected, rows.n * DIM * sizeof *got);
    }
}
END_TEST

/* A mixture of the first experts of another one has a table of its own length. */
START_TEST(a_table_of_experts_is_of_its_length) {
    struct subject ref = open_subject("ref", 0), subject = open_subject("cuda-emu:exact", 0);
    struct mixture expected_of, mixture;
    pack_mixture(&expected_of, &ref, "q4_0", false);
    pack_mixture(&mixture, &subject, "q4_0", false);
    static const uint32_t sizes[] = {2, EXPERTS, 3, 1, 2, 3}, tables[] = {1, 2, 3, 4, 4, 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct rows rows = {5, 1, 0, sizes[i], false};
        float expected[ROWS_MAX * DIM], got[ROWS_MAX * DIM];
        mix(&ref, &expected_of, &rows, expected);
        mix(&subject, &mixture, &rows, got);
        ck_assert_mem_eq(got, expected, rows.n * DIM * sizeof *got);
        ck_assert_uint_eq(subject.ctx->n_experts, 2 * tables[i]);
    }
    drop_mixture(&expected_of, &ref);
    drop_mixture(&mixture, &subject);
    subject_close(&ref);
    subject_close(&subject);
}
END_TEST

/* Floats from the beginning of 16 bytes on. */
struct shifts {
    uint32_t x, gain, out;
};

/* The product of a norm's rows. */
static void multiply_normed(const char *backend, const char *format, const struct shifts *shifts,
                            float *out) {
    enum { ROWS = 3 };
    struct subject subject = open_subject(backend, 0);
    const struct kernels *k = subject.kernels;
    struct random random = {31};
    struct weight_tensor tensor = random_tensor(&random, format, OUTPUTS, DIM);
    float x[ROWS * DIM + 4] = {0}, gain[DIM + 4] = {0};
    fill_random(&random, x + shifts->x, ROWS * DIM);
    fill_random(&random, gain + shifts->gain, DIM);
    size_t n_bytes;
    struct weight weight = subject_pack_tensor(&subject, &tensor, &n_bytes);
    float *at_x = subject_floats(&subject, x, ROWS * DIM + 4) + shifts->x;
    float *at_gain = subject_floats(&subject, gain, DIM + 4) + shifts->gain;
    float *at_normed = subject_floats(&subject, NULL, ROWS * DIM + 4) + shifts->out;
    float *at_out = subject_floats(&subject, NULL, ROWS * OUTPUTS);
    k->norm(subject.ctx, at_normed, at_x, at_gain, 1e-5f, ROWS, DIM);
    k->linear(subject.ctx, at_out, OUTPUTS, at_normed, &weight, ROWS, EPILOGUE_NONE);
    subject_read(&subject, out, at_out, ROWS * OUTPUTS * sizeof *out);
    subject_unpack(&subject, &weight, n_bytes);
    subject_close(&subject);
    tensor_free(&tensor);
}

START_TEST(a_norm_rounds_where_all_its_rows_begin_at_16_bytes) {
    static const struct shifts shifts[] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1},
                                           {4, 4, 4}, {2, 0, 0}, {0, 2, 0}, {0, 0, 2}};
    const char *format = formats[_i];
    float expected[ROWS_MAX * OUTPUTS], got[ROWS_MAX * OUTPUTS];
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        multiply_normed("ref", format, &shifts[i], expected);
        multiply_normed("cuda-emu:exact", format, &shifts[i], got);
        ck_assert_mem_eq(got, expected, 3 * OUTPUTS * sizeof *got);
        ck_assert_uint_eq(n_rounded, 1);
        ck_assert_uint_eq(n_norms, (shifts[i].x + shifts[i].gain + shifts[i].out) % 4 == 0);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, rows_are_rounded_in_parts_that_fit, 0, 6);
    tcase_add_test(tests, pairs_of_experts_are_rounded_in_waves_that_fit);
    tcase_add_test(tests, pairs_of_experts_go_to_tensor_cores_in_one_wave_that_fits);
    tcase_add_test(tests, a_wave_has_16384_pairs_at_most);
    tcase_add_test(tests, what_is_rounded_decides_how_many_pairs_fit);
    tcase_add_test(tests, a_norm_does_not_round_for_a_mixture);
    tcase_add_test(tests, a_table_of_experts_is_of_its_length);
    tcase_add_loop_test(tests, a_norm_rounds_where_all_its_rows_begin_at_16_bytes, 0, 2);
}
