/* How a model is cut over ranks, and what positions are made of. */
#include "worker/family/shard.h"

#include "model/weights/config/config.h"
#include "tests/support/suite.h"
#include "worker/family/family.h"
#include "worker/family/rotary.h"

#include <math.h>
#include <string.h>

const char *const suite_name = "worker shard";
const double suite_timeout_s = 60;

START_TEST(cuts_are_whole_groups_in_the_order_of_ranks) {
    static const struct {
        uint32_t total, unit, n_ranks, shares[8]; /* in units */
    } cases[] = {
        {13696, 128, 2, {54, 53}},
        {13696, 128, 4, {27, 27, 27, 26}},
        {13696, 128, 8, {14, 14, 14, 13, 13, 13, 13, 13}},
        {29568, 128, 8, {29, 29, 29, 29, 29, 29, 29, 28}},
        {29696, 128, 4, {58, 58, 58, 58}},
        {640, 128, 4, {2, 1, 1, 1}},
        {384, 128, 2, {2, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t next = 0;
        for (uint32_t r = 0; r < cases[c].n_ranks; r++) {
            struct range range = shard_cut(cases[c].total, cases[c].unit, r, cases[c].n_ranks);
            ck_assert_uint_eq(range.begin, next);
            ck_assert_uint_eq(range.n, cases[c].shares[r] * cases[c].unit);
            next += range.n;
        }
        ck_assert_uint_eq(next, cases[c].total);
    }
}
END_TEST

START_TEST(a_last_unit_may_be_short_and_ranks_may_get_nothing) {
    for (uint32_t total = 1; total < 200; total += 7)
        for (uint32_t unit = 1; unit <= 64; unit *= 4)
            for (uint32_t n = 1; n <= 8; n *= 2) {
                uint32_t next = 0;
                for (uint32_t r = 0; r < n; r++) {
                    struct range range = shard_cut(total, unit, r, n);
                    ck_assert_uint_eq(range.begin, next);
                    next += range.n;
                }
                ck_assert_uint_eq(next, total);
            }
}
END_TEST

static struct model_config config_of(uint32_t n_heads, uint32_t n_kv_heads) {
    struct model_config config = {.name = "tiny",
                                  .n_heads = n_heads,
                                  .n_kv_heads = n_kv_heads,
                                  .head_dim = 16,
                                  .n_vocab = 1001};
    return config;
}

START_TEST(key_value_heads_are_shared_when_there_are_few) {
    struct model_config chatglm = config_of(32, 2);
    static const uint32_t heads_of_four[] = {0, 0, 1, 1};
    struct shard shard;
    struct error error;
    for (uint32_t r = 0; r < 4; r++) {
        ck_assert_int_eq(shard_of(&chatglm, r, 4, &shard, &error), STATUS_OK);
        ck_assert_uint_eq(shard.heads.begin, 8 * r);
        ck_assert_uint_eq(shard.heads.n, 8);
        ck_assert_uint_eq(shard.kv_heads.begin, heads_of_four[r]);
        ck_assert_uint_eq(shard.kv_heads.n, 1);
    }
    uint32_t rows = 0;
    for (uint32_t r = 0; r < 8; r++) {
        struct model_config qwen2 = config_of(64, 8);
        ck_assert_int_eq(shard_of(&qwen2, r, 8, &shard, &error), STATUS_OK);
        ck_assert_uint_eq(shard.kv_heads.begin, r);
        ck_assert_uint_eq(shard.vocab.begin, rows);
        rows += shard.vocab.n;
    }
    ck_assert_uint_eq(rows, 1001);
}
END_TEST

START_TEST(what_cannot_be_cut_says_why) {
    struct model_config moe = config_of(28, 4), odd = config_of(12, 3), small = config_of(8, 8);
    struct shard shard;
    struct error error;
    ck_assert_int_eq(shard_of(&moe, 0, 4, &shard, &error), STATUS_OK);
    ck_assert_int_eq(shard_of(&moe, 0, 8, &shard, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "28 query heads"));
    ck_assert_int_eq(shard_of(&odd, 0, 2, &shard, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "3 key-value heads"));
    small.n_vocab = 7;
    ck_assert_int_eq(shard_of(&small, 7, 8, &shard, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "vocabulary"));
}
END_TEST

/* Values: the published rule, computed by hand. */
START_TEST(slopes_of_forty_heads) {
    float slopes[40], some[5];
    alibi_slopes(slopes, 40, 0, 40);
    ck_assert_float_eq_tol(slopes[0], 0.840896f, 1e-6f);
    ck_assert_float_eq_tol(slopes[31], 0.00390625f, 1e-9f);
    ck_assert_float_eq_tol(slopes[32], 0.917004f, 1e-6f);
    ck_assert_float_eq_tol(slopes[33], 0.771105f, 1e-6f);
    ck_assert_float_eq_tol(slopes[39], 0.272627f, 1e-6f);
    alibi_slopes(some, 40, 30, 5); /* a rank's own heads */
    ck_assert_mem_eq(some, slopes + 30, sizeof some);
    alibi_slopes(slopes, 8, 0, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_float_eq_tol(slopes[i], exp2f(-(float)i - 1), 1e-7f);
    alibi_slopes(slopes, 6, 0, 6); /* four, then every second of eight */
    ck_assert_float_eq_tol(slopes[0], 0.25f, 1e-7f);
    ck_assert_float_eq_tol(slopes[4], 0.5f, 1e-7f);
    ck_assert_float_eq_tol(slopes[5], 0.125f, 1e-7f);
}
END_TEST

static struct model_config qwen(void) {
    struct model_config config = config_of(4, 4);
    config.head_dim = 128;
    config.rope.layout = CONFIG_ROPE_HALF_SPLIT;
    config.rope.dims = 128;
    config.rope.theta = 10000;
    config.rope.scaling = CONFIG_SCALING_QWEN_NTK;
    config.rope.original_context = 2048;
    config.logn = true;
    return config;
}

START_TEST(qwen_takes_its_base_from_the_prompts_length) {
    struct model_config config = qwen();
    struct family_facts facts = {.context = 8192};
    struct rotary rotary;
    struct error error;
    static const double bases[] = {10000, 30527.74, 72195.86};
    ck_assert_int_eq(rotary_variants(&config, 8192, &facts, &error), STATUS_OK);
    ck_assert_uint_eq(facts.n_variants, 3);
    ck_assert_uint_eq(facts.variant_limits[0], 2048);
    ck_assert_uint_eq(facts.variant_limits[1], 4096);
    ck_assert_uint_eq(facts.variant_limits[2], UINT32_MAX);
    ck_assert_int_eq(rotary_init(&rotary, &config, &facts, &error), STATUS_OK);
    for (uint32_t v = 0; v < 3; v++)
        for (uint32_t pair = 0; pair < 64; pair += 21) {
            double angle = 5000 * pow(bases[v], -2.0 * pair / 128);
            size_t at = ((size_t)v * 8192 + 5000) * 64 + pair;
            ck_assert_float_eq_tol(rotary.rope.cos[at], (float)cos(angle), 2e-3f);
            ck_assert_float_eq_tol(rotary.rope.sin[at], (float)sin(angle), 2e-3f);
        }
    ck_assert_float_eq(rotary.rope.q_scale[2047], 1.0f); /* p = S */
    ck_assert_float_eq_tol(rotary.rope.q_scale[2048], 1.000064f, 1e-6f);
    ck_assert_float_eq_tol(rotary.rope.q_scale[4095], 1.090909f, 1e-6f);
    ck_assert_float_eq_tol(rotary.rope.q_scale[8191], 1.181818f, 1e-6f);
    rotary_fini(&rotary);
    config.rope.original_context = 1;
    ck_assert_int_eq(rotary_variants(&config, 1u << 20, &facts, &error), STATUS_LIMIT);
}
END_TEST

/* Angle of position 1, that is, the frequency of a pair. */
static double frequency(const struct rotary *rotary, uint32_t pair) {
    size_t at = rotary->rope.dims / 2 + pair;
    return atan2(rotary->rope.sin[at], rotary->rope.cos[at]);
}

START_TEST(stretched_positions) {
    struct model_config config = config_of(4, 4);
    struct family_facts facts;
    struct rotary rotary;
    struct error error;
    config.head_dim = config.rope.dims = 128;
    config.rope.layout = CONFIG_ROPE_HALF_SPLIT;
    config.rope.theta = 500000;
    config.rope.factor = 8;
    config.rope.original_context = 8192;
    config.rope.low_factor = 1;
    config.rope.high_factor = 4;
    facts.context = 16;
    config.rope.scaling = CONFIG_SCALING_LLAMA3;
    ck_assert_int_eq(rotary_variants(&config, 16, &facts, &error), STATUS_OK);
    ck_assert_uint_eq(facts.n_variants, 1);
    ck_assert_int_eq(rotary_init(&rotary, &config, &facts, &error), STATUS_OK);
    ck_assert_double_eq_tol(frequency(&rotary, 10), pow(5e5, -20 / 128.0), 1e-6);
    ck_assert_double_eq_tol(frequency(&rotary, 60), pow(5e5, -120 / 128.0) / 8, 1e-9);
    double middle = pow(5e5, -66 / 128.0), turns = 8192 * middle / (2 * M_PI);
    double smooth = (turns - 1) / 3;
    ck_assert(smooth > 0 && smooth < 1);
    ck_assert_double_eq_tol(frequency(&rotary, 33), middle * ((1 - smooth) / 8 + smooth), 1e-8);
    rotary_fini(&rotary);

    config.rope.scaling = CONFIG_SCALING_YARN;
    config.rope.theta = 10000;
    config.rope.factor = 4;
    config.rope.original_context = 4096;
    config.rope.beta_fast = 32;
    config.rope.beta_slow = 1;
    ck_assert_int_eq(rotary_init(&rotary, &config, &facts, &error), STATUS_OK);
    /* floor(20.9) = 20 and ceil(45.03) = 46 by the formula for 4096 tokens and base 10000 */
    ck_assert_double_eq_tol(frequency(&rotary, 20), pow(1e4, -40 / 128.0), 1e-6);
    ck_assert_double_eq_tol(frequency(&rotary, 46), pow(1e4, -92 / 128.0) / 4, 1e-8);
    ck_assert_double_eq_tol(frequency(&rotary, 33), pow(1e4, -66 / 128.0) * (0.5 / 4 + 0.5), 1e-7);
    ck_assert_float_eq_tol(rotary.rope.cos[0], (float)(0.1 * log(4) + 1), 1e-6f);
    rotary_fini(&rotary);

    config.rope.scaling = CONFIG_SCALING_LINEAR;
    ck_assert_int_eq(rotary_init(&rotary, &config, &facts, &error), STATUS_OK);
    ck_assert_double_eq_tol(frequency(&rotary, 5), pow(1e4, -10 / 128.0) / 4, 1e-7);
    rotary_fini(&rotary);

    config.rope.scaling = CONFIG_SCALING_NONE; /* ChatGLM's odd half of a head */
    config.rope.dims = 26;
    config.rope.wave_dims = 25;
    ck_assert_int_eq(rotary_init(&rotary, &config, &facts, &error), STATUS_OK);
    ck_assert_uint_eq(rotary.rope.dims, 26);
    ck_assert_double_eq_tol(frequency(&rotary, 12), pow(1e4, -24 / 25.0), 1e-9);
    rotary_fini(&rotary);
}
END_TEST

/* Workers with memory for more or fewer tokens hand keys to each other. */
START_TEST(dynamic_positions_do_not_depend_on_a_workers_memory) {
    struct model_config config = config_of(4, 4);
    struct error error;
    config.head_dim = config.rope.dims = 16;
    config.context = 256;
    config.rope.layout = CONFIG_ROPE_HALF_SPLIT;
    config.rope.theta = 10000;
    config.rope.scaling = CONFIG_SCALING_DYNAMIC;
    config.rope.factor = 4;
    config.rope.original_context = 64;
    double base = 10000 * pow(4.0 * 256 / 64 - 3, 16.0 / 14);
    for (uint32_t context = 128; context <= 256; context += 128) {
        struct family_facts facts = {.context = context};
        struct rotary rotary;
        ck_assert_int_eq(rotary_variants(&config, context, &facts, &error), STATUS_OK);
        ck_assert_uint_eq(facts.n_variants, 2);
        ck_assert_uint_eq(facts.variant_limits[0], 64);
        ck_assert_int_eq(rotary_init(&rotary, &config, &facts, &error), STATUS_OK);
        ck_assert_double_eq_tol(frequency(&rotary, 3), pow(1e4, -6 / 16.0), 1e-7);
        size_t at = ((size_t)context + 1) * 8 + 3; /* the other table */
        ck_assert_double_eq_tol(atan2(rotary.rope.sin[at], rotary.rope.cos[at]),
                                pow(base, -6 / 16.0), 1e-8);
        rotary_fini(&rotary);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, cuts_are_whole_groups_in_the_order_of_ranks);
    tcase_add_test(tests, a_last_unit_may_be_short_and_ranks_may_get_nothing);
    tcase_add_test(tests, key_value_heads_are_shared_when_there_are_few);
    tcase_add_test(tests, what_cannot_be_cut_says_why);
    tcase_add_test(tests, slopes_of_forty_heads);
    tcase_add_test(tests, qwen_takes_its_base_from_the_prompts_length);
    tcase_add_test(tests, stretched_positions);
    tcase_add_test(tests, dynamic_positions_do_not_depend_on_a_workers_memory);
}
