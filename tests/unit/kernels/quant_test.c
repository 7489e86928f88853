#include "kernels/quant/quant.h"
#include "tests/support/dequantize.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

extern const struct quant_format quant_f32;
extern const struct quant_format quant_f16;
extern const struct quant_format quant_bf16;
extern const struct quant_format quant_q4_0;
extern const struct quant_format quant_q4_1;
extern const struct quant_format quant_q8_0;
#endif

const char *const suite_name = "kernels_quant";
const double suite_timeout_s = 120;

/* The value of a binary16 by its definition, in double. */
static double half_value(uint16_t half) {
    int sign = half & 0x8000 ? -1 : 1;
    int exponent = half >> 10 & 31;
    int fraction = half & 1023;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    return sign * ldexp(1024 + fraction, exponent - 25);
}

START_TEST(every_half_becomes_its_float) {
    for (uint32_t half = 0; half < 65536; half++) {
        double expected = half_value((uint16_t)half);
        float got = half_to_float((uint16_t)half);
        if (isnan(expected))
            ck_assert(isnan(got));
        else
            ck_assert(got == (float)expected && !signbit(got) == !signbit(expected));
    }
}
END_TEST

/* Nearest half by comparing distances in double: x lies between two neighbours. */
static uint16_t nearest_half(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x);
    if (size >= 65520.0)
        return (uint16_t)(sign | 0x7c00);
    uint16_t low = 0;
    for (uint16_t step = 0x4000; step; step = (uint16_t)(step >> 1))
        if (low + step < 0x7c00 && half_value((uint16_t)(low + step)) <= size)
            low = (uint16_t)(low + step);
    double below = size - half_value(low);
    double above = (low == 0x7bff ? 65536.0 : half_value((uint16_t)(low + 1))) - size;
    uint16_t chosen = below < above || (below == above && low % 2 == 0) ? low : (uint16_t)(low + 1);
    return (uint16_t)(sign | chosen);
}

START_TEST(floats_round_to_the_nearest_half_ties_to_even) {
    for (uint32_t half = 0; half < 0x7c00; half++) {
        float low = half_to_float((uint16_t)half);
        float high = half == 0x7bff ? 65536.0f : half_to_float((uint16_t)(half + 1));
        float middle = (low + high) * 0.5f;
        const float around[] = {low,    nextafterf(low, high),    nextafterf(middle, low),
                                middle, nextafterf(middle, high), nextafterf(high, low)};
        for (int i = 0; i < 6; i++) {
            ck_assert_uint_eq(float_to_half(around[i]), nearest_half((double)around[i]));
            ck_assert_uint_eq(float_to_half(-around[i]), nearest_half(-(double)around[i]));
        }
    }
    const float large[] = {65519.0f, 65519.996f, 65520.0f, 1e30f, INFINITY, 1e-30f, 1e-44f};
    for (int i = 0; i < 7; i++)
        ck_assert_uint_eq(float_to_half(large[i]), nearest_half((double)large[i]));
    ck_assert(isnan(half_to_float(float_to_half(NAN))));
}
END_TEST

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t hardware_half(float x) {
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) static float hardware_float(uint16_t half) {
    return _cvtsh_ss(half);
}

START_TEST(conversions_are_those_of_the_processor) {
    if (!__builtin_cpu_supports("f16c"))
        return;
    for (uint32_t half = 0; half < 65536; half++)
        ck_assert_uint_eq(float_bits(half_to_float((uint16_t)half)),
                          float_bits(hardware_float((uint16_t)half)));
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 97) {
        float x = float_from_bits((uint32_t)bits);
        if (float_to_half(x) != hardware_half(x))
            ck_abort_msg("%08x becomes %04x, not %04x", (uint32_t)bits, float_to_half(x),
                         hardware_half(x));
    }
}
END_TEST
#endif

START_TEST(bfloat16_rounds_to_nearest_even_and_back_exactly) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float x = bf16_to_float((uint16_t)bits);
        ck_assert_uint_eq(float_bits(x), bits << 16);
        if (!isnan(x))
            ck_assert_uint_eq(float_to_bf16(x), bits);
    }
    ck_assert_uint_eq(float_to_bf16(float_from_bits(0x3f808000)), 0x3f80); /* tie, even below */
    ck_assert_uint_eq(float_to_bf16(float_from_bits(0x3f818000)), 0x3f82); /* tie, even above */
    ck_assert_uint_eq(float_to_bf16(float_from_bits(0x3f808001)), 0x3f81);
    ck_assert_uint_eq(float_to_bf16(float_from_bits(0x7f7fffff)), 0x7f80); /* to infinity */
    ck_assert(isnan(bf16_to_float(float_to_bf16(float_from_bits(0x7f800001)))));
}
END_TEST

static void fill_bytes(uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
}

static struct weight_tensor blocks_of(const struct quant_format *format, const void *values,
                                      uint32_t n, uint32_t k) {
    return (struct weight_tensor){.format = format->name,
                                  .n = n,
                                  .k = k,
                                  .values = values,
                                  .n_value_bytes =
                                      (size_t)n * (k / format->block) * format->block_bytes};
}

/* Values of the formulas in ggml-common.h, read bit by bit. */
START_TEST(q4_0_is_d_times_q_minus_8) {
    uint8_t block[18];
    struct quant_group group;
    fill_bytes(block, sizeof block);
    memcpy(block, &(uint16_t){0x2e66}, 2);
    struct weight_tensor tensor = blocks_of(&quant_q4_0, block, 1, 32);
    quant_q4_0.unpack_group(&tensor, 0, 0, NULL, &group);
    float d = half_to_float(0x2e66);
    for (int i = 0; i < 32; i++) {
        int bit = i < 16 ? 0 : 4;
        int q = block[2 + i % 16] >> bit & 15;
        float w = group.scale[i / 16] * (float)group.q[i] + group.min;
        ck_assert_float_eq(w, d * (float)(q - 8));
    }
}
END_TEST

START_TEST(q4_1_is_d_times_q_plus_m) {
    uint8_t blocks[4][20]; /* two rows of two */
    struct quant_group group;
    fill_bytes(blocks[0], sizeof blocks);
    memcpy(blocks[3], &(uint16_t){0x1234}, 2);
    memcpy(blocks[3] + 2, &(uint16_t){0xb456}, 2);
    struct weight_tensor tensor = blocks_of(&quant_q4_1, blocks, 2, 64);
    quant_q4_1.unpack_group(&tensor, 1, 32, NULL, &group);
    ck_assert_float_eq(group.scale[0], half_to_float(0x1234));
    ck_assert_float_eq(group.scale[1], group.scale[0]);
    ck_assert_float_eq(group.min, half_to_float(0xb456));
    for (int i = 0; i < 32; i++)
        ck_assert_int_eq(group.q[i], blocks[3][4 + i % 16] >> (i < 16 ? 0 : 4) & 15);
}
END_TEST

START_TEST(q8_0_is_d_times_q) {
    uint8_t block[34];
    struct quant_group group;
    fill_bytes(block, sizeof block);
    block[2] = 0x80; /* -128 */
    struct weight_tensor tensor = blocks_of(&quant_q8_0, block, 1, 32);
    quant_q8_0.unpack_group(&tensor, 0, 0, NULL, &group);
    ck_assert_float_eq(group.scale[0], half_to_float(quant_u16(block)));
    ck_assert_float_eq(group.min, 0.0f);
    ck_assert_int_eq(group.q[0], -128);
    for (int i = 0; i < 32; i++)
        ck_assert_int_eq(group.q[i], block[2 + i] < 128 ? block[2 + i] : block[2 + i] - 256);
}
END_TEST

/* Words of the formats' own descriptions. */
START_TEST(awq_words_interleave_outputs) {
    const uint32_t values[64] = {0x75316420}; /* columns 0 to 7 hold 0 to 7 */
    uint32_t zeros[2] = {0, 0x75316420};      /* zeros of outputs 8 to 15 of the only group */
    uint16_t scales[16];
    for (int i = 0; i < 16; i++)
        scales[i] = 0x3c00; /* 1 */
    const struct weight_tensor tensor = {.format = "awq",
                                         .n = 16,
                                         .k = 32,
                                         .group = 32,
                                         .values = values,
                                         .n_value_bytes = sizeof values,
                                         .scales = scales,
                                         .n_scale_bytes = sizeof scales,
                                         .zeros = zeros,
                                         .n_zero_bytes = sizeof zeros};
    const struct quant_format *format;
    struct error error;
    ck_assert_int_eq(quant_check(&tensor, &format, &error), STATUS_OK);
    for (uint32_t row = 0; row < 16; row++) {
        struct quant_group group;
        format->unpack_group(&tensor, row, 0, NULL, &group);
        ck_assert_int_eq(group.q[0], row < 8 ? (int)row : 0);
        ck_assert_int_eq(group.q[1], 0);
        ck_assert_float_eq(group.min, row < 8 ? 0.0f : -(float)(row - 8));
    }
}
END_TEST

/* A tensor of 8 outputs and 32 inputs whose first word of values and of zeros is given. */
static void unpack_gptq(const char *name, uint32_t value, uint32_t zero, uint32_t row,
                        struct quant_group *group, uint64_t *n_wrapped) {
    bool four = name[4] == '4';
    uint32_t values[64] = {value};
    const uint32_t zeros[2] = {zero, zero};
    uint16_t scales[8];
    for (int i = 0; i < 8; i++)
        scales[i] = 0x3800; /* 0.5 */
    const struct weight_tensor tensor = {.format = name,
                                         .n = 8,
                                         .k = 32,
                                         .group = 32,
                                         .values = values,
                                         .n_value_bytes = four ? 128 : 256,
                                         .scales = scales,
                                         .n_scale_bytes = sizeof scales,
                                         .zeros = zeros,
                                         .n_zero_bytes = four ? 4 : 8};
    const struct quant_format *format;
    struct error error;
    ck_assert_msg(quant_check(&tensor, &format, &error) == STATUS_OK, "%s", error.text);
    format->unpack_group(&tensor, row, 0, NULL, group);
    *n_wrapped = quant_wrapped_zeros(&tensor);
}

START_TEST(gptq_words_run_along_the_inputs) {
    struct quant_group group;
    uint64_t n_wrapped;
    unpack_gptq("gptq4", 0x76543210, 0x77777777, 0, &group, &n_wrapped);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(group.q[i], i);
    ck_assert_float_eq(group.scale[0], 0.5f);
    ck_assert_float_eq(group.min, -4.0f); /* a stored 7 means 8 */
    ck_assert_uint_eq(n_wrapped, 0);
    unpack_gptq("gptq4_v2", 0x76543210, 0x88888888, 0, &group, &n_wrapped);
    ck_assert_float_eq(group.min, -4.0f);
    unpack_gptq("gptq8", 0x04030201, 0x7f7f7f7f, 0, &group, &n_wrapped);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(group.q[i], i + 1 - 128);
    ck_assert_float_eq(group.min, 0.0f); /* 128 - 128 */
    unpack_gptq("gptq8_v2", 0x04030201, 0x80808080, 3, &group, &n_wrapped);
    ck_assert_float_eq(group.min, 0.0f);
    unpack_gptq("gptq8_v2", 0xff, 0x00ff0000, 2, &group, &n_wrapped);
    ck_assert_float_eq(group.min, 0.5f * (128 - 255));
    ck_assert_uint_eq(n_wrapped, 0); /* only v1 can wrap */
}
END_TEST

START_TEST(wrapped_zeros_are_undone_and_counted) {
    static const float zeros[] = {0, 5, 3, 3, 3, 3, 3, 3}; /* 0x33333350 less 0x11111111 */
    struct quant_group group;
    uint64_t n_wrapped;
    for (uint32_t row = 0; row < 8; row++) {
        unpack_gptq("gptq4", 0, 0x2222223f, row, &group, &n_wrapped);
        ck_assert_float_eq(group.min, -0.5f * zeros[row]);
        ck_assert_uint_eq(n_wrapped, 1);
    }
    unpack_gptq("gptq8", 0, 0x05ff04ff, 1, &group, &n_wrapped);
    ck_assert_uint_eq(n_wrapped, 4);                 /* the word stands there twice */
    ck_assert_float_eq(group.min, 0.5f * (128 - 6)); /* 4, one for v1 and one carried */
    unpack_gptq("gptq4_v2", 0, 0xffffffff, 0, &group, &n_wrapped);
    ck_assert_uint_eq(n_wrapped, 0);
}
END_TEST

static bool zeros_are_odd(const char *format, const uint32_t zeros[2]) {
    const struct weight_tensor tensor = {
        .format = format, .zeros = zeros, .n_zero_bytes = 2 * sizeof *zeros};
    return quant_zeros_are_odd(&tensor);
}

START_TEST(symmetric_tensors_have_one_zero_whatever_their_fields_hold) {
    static const uint32_t zeros[] = {0x77777777, 0x88888888, 0x7f7f7f7f, 0x80808080,
                                     0,          0x00ff0000, 0xffffffff, 0x12345678};
    struct quant_group group;
    uint64_t n_wrapped;
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        unpack_gptq("gptq4_sym", 0x76543210, zeros[i], i % 8, &group, &n_wrapped);
        ck_assert_float_eq(group.min, -4.0f);
        ck_assert_uint_eq(group.zero, 8);
        ck_assert_uint_eq(n_wrapped, 0);
        unpack_gptq("gptq8_sym", 0x04030201, zeros[i], i % 8, &group, &n_wrapped);
        ck_assert_float_eq(group.min, 0.0f);
        ck_assert_uint_eq(group.zero, 128);
        const uint32_t last[2] = {zeros[i / 4 * 2], zeros[i]}; /* the last word counts, too */
        ck_assert(zeros_are_odd("gptq4_sym", last) == (i > 1));
        ck_assert(!zeros_are_odd("gptq4", last) && !zeros_are_odd("gptq8_v2", last));
    }
    ck_assert(!zeros_are_odd("gptq8_sym", (uint32_t[]){0x7f7f7f7f, 0x80808080}));
    ck_assert(zeros_are_odd("gptq8_sym", (uint32_t[]){0x7f7f7f7f, 0x7f7f7f80}));
}
END_TEST

/* Of 8 outputs and 32 inputs; the last scale is the given one. */
START_TEST(scales_of_other_types_become_halves_where_there_is_one) {
    static const struct {
        const char *format;
        uint32_t bits;
        float scale; /* -1: it is refused */
    } cases[] = {
        {"f32", 0x3e4ccccd, 0.199951171875f}, /* 0.2, rounded */
        {"f32", 0x477fefff, 65504},           /* just below 65520 */
        {"f32", 0x477ff000, -1},              /* 65520 */
        {"f32", 0x7fc00000, -1},
        {"f32", 0x322bcc77, 0}, /* 1e-8 */
        {"bf16", 0x3f40, 0.75f},
        {"bf16", 0x477f, 65280},
        {"bf16", 0x4780, -1}, /* 65536 */
        {"bf16", 0x7f80, -1},
        {"f16", 0x3a00, 0.75f},
        {NULL, 0x3a00, 0.75f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t values[32] = {0}, zeros[1] = {0};
        uint8_t scales[8 * 4] = {0};
        size_t width = cases[i].format && strcmp(cases[i].format, "f32") == 0 ? 4 : 2;
        memcpy(scales + 7 * width, &cases[i].bits, width); /* little-endian */
        struct weight_tensor tensor = {.format = "gptq4",
                                       .n = 8,
                                       .k = 32,
                                       .group = 32,
                                       .values = values,
                                       .n_value_bytes = sizeof values,
                                       .scales = scales,
                                       .n_scale_bytes = 8 * width,
                                       .scale_kind = quant_scale_kind(cases[i].format),
                                       .zeros = zeros,
                                       .n_zero_bytes = sizeof zeros};
        const struct quant_format *format;
        struct error error;
        ck_assert_int_eq(quant_check(&tensor, &format, &error), STATUS_OK);
        bool fits = cases[i].scale >= 0;
        ck_assert_int_eq(quant_scales_check(&tensor, &error),
                         fits ? STATUS_OK : STATUS_UNSUPPORTED);
        if (fits)
            ck_assert_float_eq(quant_scale(&tensor, 0, 7), cases[i].scale);
        tensor.n_scale_bytes = 8 * (6 - width); /* as long as those of the other width */
        ck_assert_int_eq(quant_check(&tensor, &format, &error), STATUS_INVALID);
    }
}
END_TEST

START_TEST(inputs_come_in_any_order) {
    uint32_t values[64 / 8 * 8]; /* 64 inputs of 8 outputs: input i holds i % 8 */
    uint32_t zeros[2] = {0};
    uint16_t scales[16];
    uint8_t group_of[64 * 4] = {0};
    uint32_t inputs[GROUP];
    struct quant_group group;
    for (int i = 0; i < 64; i++)
        values[i] = 0x76543210;
    for (int i = 0; i < 16; i++)
        scales[i] = i < 8 ? 0x3c00 : 0x4000; /* 1, then 2 */
    for (int i = 0; i < 64; i++)
        group_of[4 * i] = i % 2 == 0; /* even inputs are in group 1 */
    for (uint32_t i = 0; i < GROUP; i++)
        inputs[i] = i < 30 ? 62 - 2 * i : WEIGHT_NO_INPUT;
    const struct weight_tensor tensor = {.format = "gptq4_v2",
                                         .n = 8,
                                         .k = 64,
                                         .group = 32,
                                         .values = values,
                                         .n_value_bytes = sizeof values,
                                         .scales = scales,
                                         .n_scale_bytes = sizeof scales,
                                         .zeros = zeros,
                                         .n_zero_bytes = sizeof zeros,
                                         .group_of = group_of};
    const struct quant_format *format;
    struct error error;
    ck_assert_int_eq(quant_check(&tensor, &format, &error), STATUS_OK);
    format->unpack_group(&tensor, 5, 0, inputs, &group);
    ck_assert_float_eq(group.scale[0], 2.0f);
    for (uint32_t i = 0; i < GROUP; i++)
        ck_assert_int_eq(group.q[i], i < 30 ? (int)((62 - 2 * i) % 8) : 0);
}
END_TEST

/* The arrays end with the last input: a read past it is seen by the sanitizer. */
START_TEST(a_last_group_may_be_short) {
    static const char *const formats[] = {"awq",      "gptq4",     "gptq4_v2", "gptq8",
                                          "gptq8_v2", "gptq4_sym", "gptq8_sym"};
    static const uint32_t widths[] = {200, 40, 8};
    struct random random = {3};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            uint32_t k = widths[w], begin = k - k % GROUP;
            struct weight_tensor tensor = random_grouped_tensor(&random, formats[f], 8, k, k);
            const struct quant_format *format;
            struct quant_group group;
            struct error error;
            ck_assert_int_eq(quant_check(&tensor, &format, &error), STATUS_OK);
            memset(&group, 0x55, sizeof group);
            format->unpack_group(&tensor, 7, begin, NULL, &group);
            for (uint32_t i = 0; i < GROUP; i++) {
                double w_i = (double)group.scale[0] * group.q[i] + (double)group.min;
                if (begin + i < k)
                    ck_assert_double_eq_tol(w_i, dequantize(&tensor, 7, begin + i), 1e-6);
                else
                    ck_assert_int_eq(group.q[i], 0);
            }
            tensor_free(&tensor);
        }
}
END_TEST

START_TEST(float_formats_are_little_endian) {
    uint8_t bytes[2 * 64 * 4] = {0};
    float out[GROUP];
    const uint8_t first[] = {0x00, 0x00, 0xc0, 0x3f, 0x01, 0x00, 0x00, 0x80};
    memcpy(bytes + (64 + 32) * 4, first, 8);
    struct weight_tensor tensor = blocks_of(&quant_f32, bytes, 2, 64);
    quant_f32.unpack_floats(&tensor, 1, 32, GROUP, out);
    ck_assert_uint_eq(float_bits(out[0]), 0x3fc00000);
    ck_assert_uint_eq(float_bits(out[1]), 0x80000001);
    memcpy(bytes + (64 + 32) * 2, first, 8);
    tensor = blocks_of(&quant_f16, bytes, 2, 64);
    quant_f16.unpack_floats(&tensor, 1, 32, GROUP, out);
    ck_assert_float_eq(out[1], half_to_float(0x3fc0));
    tensor = blocks_of(&quant_bf16, bytes, 2, 64);
    quant_bf16.unpack_floats(&tensor, 1, 32, GROUP, out);
    ck_assert_uint_eq(float_bits(out[1]), 0x3fc00000);
    out[1] = 5.0f;
    quant_bf16.unpack_floats(&tensor, 1, 32, 1, out);
    ck_assert(out[1] == 5.0f); /* no more than was asked for */
}
END_TEST

START_TEST(formats_are_found_by_name_and_sized_exactly) {
    for (int i = 0; quant_table[i]; i++) {
        ck_assert_ptr_eq(quant_find(quant_table[i]->name), quant_table[i]);
        ck_assert(!quant_table[i]->unpack_group != !quant_table[i]->unpack_floats);
    }
    ck_assert_ptr_null(quant_find("q4_2"));
    struct quant_sizes sizes = {.values = 1};
    struct error error;
    struct weight_tensor tensor = {.format = "q4_1", .n = 3, .k = 576};
    ck_assert_int_eq(quant_sizes(&tensor, &sizes, &error), STATUS_OK);
    ck_assert_uint_eq(sizes.values, 3 * 360);
    tensor.k = 33;
    ck_assert_int_eq(quant_sizes(&tensor, &sizes, &error), STATUS_INVALID);
    ck_assert_uint_eq(sizes.values, 3 * 360);
    const struct {
        const char *format;
        uint32_t k;
        uint64_t n_values; /* 0: no whole words */
    } words[] = {{"awq", 45, 45 * 4},     {"gptq4", 200, 25 * 32}, {"gptq4", 172, 0},
                 {"gptq8", 172, 43 * 32}, {"gptq8", 45, 0},        {"f16", 45, 45 * 16}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        tensor = (struct weight_tensor){
            .format = words[i].format, .n = 8, .k = words[i].k, .group = words[i].k};
        enum status status = quant_sizes(&tensor, &sizes, &error);
        ck_assert_int_eq(status, words[i].n_values ? STATUS_OK : STATUS_INVALID);
        if (words[i].n_values)
            ck_assert_uint_eq(sizes.values, words[i].n_values);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_half_becomes_its_float);
    tcase_add_test(tests, floats_round_to_the_nearest_half_ties_to_even);
#if defined(__x86_64__)
    tcase_add_test(tests, conversions_are_those_of_the_processor);
#endif
    tcase_add_test(tests, bfloat16_rounds_to_nearest_even_and_back_exactly);
    tcase_add_test(tests, q4_0_is_d_times_q_minus_8);
    tcase_add_test(tests, q4_1_is_d_times_q_plus_m);
    tcase_add_test(tests, q8_0_is_d_times_q);
    tcase_add_test(tests, awq_words_interleave_outputs);
    tcase_add_test(tests, gptq_words_run_along_the_inputs);
    tcase_add_test(tests, wrapped_zeros_are_undone_and_counted);
    tcase_add_test(tests, symmetric_tensors_have_one_zero_whatever_their_fields_hold);
    tcase_add_test(tests, scales_of_other_types_become_halves_where_there_is_one);
    tcase_add_test(tests, inputs_come_in_any_order);
    tcase_add_test(tests, a_last_group_may_be_short);
    tcase_add_test(tests, float_formats_are_little_endian);
    tcase_add_test(tests, formats_are_found_by_name_and_sized_exactly);
}
