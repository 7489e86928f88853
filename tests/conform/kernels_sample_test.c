/* Sampling of every backend, instruction set and number of threads makes the choices of the
 * reference, bit by bit, with every parameter that a request may have. */
#include "kernels/limits.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/random_sampling.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_sample";
const double suite_timeout_s = 300;

#define VOCAB_MAX_TESTED 8000

static const struct kernels_limits sampling_limits = {.max_tokens = 8,
                                                      .max_seqs = 8,
                                                      .max_context = 16,
                                                      .max_dim = 32,
                                                      .n_vocab = VOCAB_MAX_TESTED,
                                                      .n_heads = 1,
                                                      .n_kv_heads = 1,
                                                      .head_dim = 16,
                                                      .kv_format = KV_F16};

START_TEST(choices_are_those_of_the_reference) {
    static const uint32_t vocabularies[] = {1, 17, 256, 1000, VOCAB_MAX_TESTED};
    struct random random = {(uint64_t)_i + 1};
    uint32_t n = vocabularies[_i % 5];
    enum { rows = 5 };
    float *logits = malloc(rows * (size_t)n * sizeof *logits);
    struct sample_params params[rows];
    for (int r = 0; r < rows; r++) {
        random_logits(&random, logits + (size_t)r * n, n);
        params[r] = random_sampling(&random, n);
    }
    struct sample_result expected[rows];
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &sampling_limits);) {
        struct sample_result results[rows];
        memset(results, 0xa5, sizeof results);
        float *at = subject_floats(&subject, logits, rows * (size_t)n);
        subject.kernels->sample(subject.ctx, at, rows, n, params, results);
        for (int r = 0; i == 1 && r < rows; r++)
            expected[r] = results[r];
        for (int r = 0; r < rows; r++) {
            ck_assert_int_eq(results[r].valid, expected[r].valid);
            ck_assert_int_eq(results[r].emptied, expected[r].emptied);
            ck_assert_uint_eq(results[r].id, expected[r].id);
            ck_assert_mem_eq(&results[r].logprob, &expected[r].logprob, sizeof(float));
            ck_assert_uint_eq(results[r].n_top, expected[r].n_top);
            for (uint32_t t = 0; t < results[r].n_top; t++)
                ck_assert(
                    !intervals_hold(random_barred, params[r].n_barred, results[r].top_ids[t]));
            ck_assert(!results[r].valid || !params[r].allowed_bits ||
                      sampling_has_bit(params[r].allowed_bits, results[r].id));
            ck_assert(!results[r].valid ||
                      !intervals_hold(random_barred, params[r].n_barred, results[r].id));
            ck_assert_mem_eq(results[r].top_ids, expected[r].top_ids, sizeof expected[r].top_ids);
            ck_assert_mem_eq(results[r].top_logprobs, expected[r].top_logprobs,
                             sizeof expected[r].top_logprobs);
        }
        subject_close(&subject);
    }
    free(logits);
}
END_TEST

/* The first ids have these logits, the rest weighs nothing: what is chosen can be worked out by
 * hand. */
static uint32_t chosen_of(struct subject *subject, const float *first, uint32_t n_first,
                          const struct sample_params *params) {
    enum { n = 600 };
    float logits[n];
    struct sample_result result;
    for (uint32_t i = 0; i < n; i++)
        logits[i] = i < n_first ? first[i] : -1000.0f;
    subject->kernels->sample(subject->ctx, subject_floats(subject, logits, n), 1, n, params,
                             &result);
    ck_assert(result.valid);
    return result.id;
}

START_TEST(ties_at_a_border_are_kept_and_weights_of_nothing_never_drawn) {
    static const float equal[] = {0.0f, 0.0f}, late[] = {-1000.0f, 0.0f, 0.0f};
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &sampling_limits);) {
        struct sample_params params = {.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f};
        params.uniform = 0.0f; /* the least that is drawn: not the first, which weighs nothing */
        ck_assert_uint_eq(chosen_of(&subject, late, 3, &params), 1);
        params.uniform = 0.75f;
        params.top_p = 0.5f; /* the first of two equal ones is half of all: enough */
        ck_assert_uint_eq(chosen_of(&subject, equal, 2, &params), 0);
        params.top_p = 0.50001f;
        ck_assert_uint_eq(chosen_of(&subject, equal, 2, &params), 1);
        params.top_p = 1.0f;
        params.min_p = 1.0f; /* as likely as the best is likely enough */
        ck_assert_uint_eq(chosen_of(&subject, equal, 2, &params), 1);
        subject_close(&subject);
    }
}
END_TEST

/* So near to 1 that rounding leaves the list of the likely short of top_p: all must be
 * looked at. */
START_TEST(a_top_p_next_to_one_is_as_the_reference_has_it) {
    static const float top_ps[] = {0.99999994f, 0.9999999f, 0.9999998f};
    enum { n = VOCAB_MAX_TESTED };
    struct random random = {(uint64_t)_i + 77};
    float *logits = malloc(n * sizeof *logits);
    float width = 16.0f + 8.0f * random_unit(random_next(&random));
    for (int i = 0; i < n; i++)
        logits[i] = -width * random_unit(random_next(&random));
    struct sample_params params = {
        .temperature = 1.0f, .top_p = top_ps[_i % 3], .repetition = 1.0f, .uniform = 0.99999994f};
    struct subject subject;
    struct sample_result expected = {0};
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &sampling_limits);) {
        struct sample_result result;
        float *at = subject_floats(&subject, logits, n);
        subject.kernels->sample(subject.ctx, at, 1, n, &params, &result);
        if (i == 1)
            expected = result;
        ck_assert_uint_eq(result.id, expected.id);
        subject_close(&subject);
    }
    free(logits);
}
END_TEST

/* Fifteen weights that each round the first one's lane upwards make the total larger than all
 * weights together, so top_p of it is never reached; the last number drawn then falls among the
 * weights that are too small for the list of the likely. */
START_TEST(a_total_that_rounding_made_too_large_loses_no_weight) {
    enum { n = 512, LANES = 16 };
    float logits[n];
    for (int i = 0; i < n; i++)
        logits[i] = i == 0 ? 0.0f : logf(i < 256 && i % LANES == 0 ? 7e-8f : 4e-10f);
    struct sample_params params = {
        .temperature = 1.0f, .top_p = 0.99999946f, .repetition = 1.0f, .uniform = 0.99999994f};
    struct subject subject;
    uint32_t expected = 0;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &sampling_limits);) {
        uint32_t id = chosen_of(&subject, logits, n, &params);
        ck_assert_float_eq(logits[id], logits[n - 1]); /* one of the small ones */
        expected = i == 1 ? id : expected;
        ck_assert_uint_eq(id, expected);
        subject_close(&subject);
    }
}
END_TEST

/* Zeros of both signs and what counts as zero are equal: the lowest id is the best. */
START_TEST(zeros_of_any_kind_are_equal) {
    const float logits[] = {-1.0f, -0.0f, 0.0f, 1e-40f, -1e-40f, -2.0f};
    enum { n = sizeof logits / sizeof *logits };
    struct sample_params params = {.repetition = 1.0f, .top_p = 1.0f, .n_top = n};
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &sampling_limits);) {
        struct sample_result result;
        float *at = subject_floats(&subject, logits, n);
        subject.kernels->sample(subject.ctx, at, 1, n, &params, &result);
        ck_assert(result.valid);
        ck_assert_uint_eq(result.id, 1);
        for (uint32_t t = 0; t < 4; t++)
            ck_assert_uint_eq(result.top_ids[t], t + 1);
        subject_close(&subject);
    }
}
END_TEST

/* Rows that edit every id, in orders of their own: more parameters than a backend need keep at once. */
START_TEST(rows_with_an_edit_for_every_id_are_as_the_reference_has_them) {
    enum { n = 700, rows = 5 };
    struct random random = {99};
    struct kernels_limits limits = sampling_limits;
    float logits[rows * n], bias[n];
    uint32_t seen[n], counts[n], biased[n];
    for (uint32_t i = 0; i < n; i++) {
        seen[i] = i;
        counts[i] = i % 3;
        biased[i] = n - 1 - i;
        bias[i] = random_unit(random_next(&random));
    }
    for (int i = 0; i < rows * n; i++)
        logits[i] = 4.0f * random_unit(random_next(&random)) - 2.0f;
    struct sample_params params[rows];
    for (int r = 0; r < rows; r++)
        params[r] = (struct sample_params){.temperature = r % 2 ? 0.7f : 0.0f,
                                           .top_p = 1.0f,
                                           .repetition = 1.2f + (float)r,
                                           .frequency = 0.3f,
                                           .presence = 0.1f,
                                           .uniform = random_unit(random_next(&random)),
                                           .n_seen = n,
                                           .seen_ids = seen,
                                           .seen_counts = counts,
                                           .n_bias = n,
                                           .bias_ids = biased,
                                           .bias = bias,
                                           .n_allowed = n,
                                           .allowed_ids = biased,
                                           .want_logprob = true};
    struct sample_result expected[rows];
    struct subject subject;
    limits.n_vocab = n;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &limits);) {
        struct sample_result results[rows];
        float *at = subject_floats(&subject, logits, rows * n);
        subject.kernels->sample(subject.ctx, at, rows, n, params, results);
        for (int r = 0; r < rows; r++) {
            expected[r] = i == 1 ? results[r] : expected[r];
            ck_assert(results[r].valid);
            ck_assert_uint_eq(results[r].id, expected[r].id);
            ck_assert_mem_eq(&results[r].logprob, &expected[r].logprob, sizeof(float));
        }
        subject_close(&subject);
    }
}
END_TEST

/* What a mask leaves is what edits leave, too: ends that are banned, biases, allowed ids. Logprobs are those without
 * it. */
START_TEST(masks_join_bans_and_allowed_ids) {
    enum { n = 70, id = 65 };
    static const uint32_t bits[3] = {0, 1u << 7, 1u << 1 | 1u << 2 | 0xffffffc0}; /* 39, 65, 66 */
    static const uint32_t ids[] = {66, 3, 65}, two[] = {39, 66};
    static const float bias[] = {-INFINITY, 100.0f, 0.0f};
    static const struct interval barred[] = {{39, 40}};
    struct kernels_limits limits = sampling_limits;
    float logits[n] = {[3] = 5.0f, [39] = 2.0f, [66] = 1.0f};
    struct subject subject;
    limits.n_vocab = n;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &limits);) {
        struct sample_params params[] = {
            {.allowed_bits = bits},
            {.allowed_bits = bits, .n_barred = 1, .barred = barred},
            {.allowed_bits = bits,
             .n_barred = 1,
             .barred = barred,
             .n_bias = 3,
             .bias_ids = ids,
             .bias = bias},
            {.allowed_bits = bits, .n_allowed = 3, .allowed_ids = ids},
            {.allowed_bits = bits, .n_allowed = 1, .allowed_ids = ids + 1},
            {.allowed_bits = bits, .n_seen = 2, .seen_ids = two, .seen_counts = two},
            {.allowed_bits = bits, .n_top = 1, .want_logprob = true},
            {.n_top = 1, .want_logprob = true}};
        enum { rows = sizeof params / sizeof *params };
        static const uint32_t expected[rows] = {39, 66, id, 66, 0, id, 39, 3};
        struct sample_result results[rows];
        float all[rows * n];
        for (int r = 0; r < rows; r++) {
            memcpy(all + r * n, logits, sizeof logits);
            params[r].top_p = params[r].repetition = 1.0f;
            params[r].presence = 3.0f;
        }
        for (int r = 0; r < rows; r += 4) /* the limits hold eight rows */
            subject.kernels->sample(subject.ctx, subject_floats(&subject, all + r * n, 4 * n), 4, n,
                                    params + r, results + r);
        for (int r = 0; r < rows; r++) {
            ck_assert_int_eq(results[r].valid, r != 4);
            ck_assert_uint_eq(results[r].id, expected[r]);
        }
        ck_assert_uint_eq(results[6].top_ids[0], 3);
        ck_assert_float_eq(results[6].top_logprobs[0], results[7].logprob);
        ck_assert_float_eq_tol(results[6].logprob, results[7].logprob - 3.0f, 1e-5f);
        subject_close(&subject);
    }
}
END_TEST

static const uint32_t nothing[10], only[] = {7}, beyond[] = {300, 400}, seen[] = {5, 6, 7, 8, 9},
                                   counts[] = {1, 0, 2, 3, 1};
static const float ban[] = {-INFINITY}, large[] = {3.4e38f}, low[] = {-3.4e38f};
static const struct interval all_barred[] = {{0, 100}, {100, 300}}, seven_barred[] = {{7, 8}};

/* What a row of 300 logits holds, all of them or that of id 7 alone; what is asked of it, and what comes of it. */
static const struct {
    float all, seventh;
    struct sample_params params;
    bool valid, emptied;
} rows_without[] = {
    {0.5f,
     1.0f,
     {.n_allowed = 1, .allowed_ids = only, .n_bias = 1, .bias_ids = only, .bias = ban},
     false,
     true},
    {0.5f, 1.0f, {.n_allowed = 2, .allowed_ids = beyond}, false, true},
    {0.5f, 1.0f, {.allowed_bits = nothing}, false, true},
    {0.5f,
     1.0f,
     {.n_allowed = 1, .allowed_ids = only, .n_barred = 1, .barred = seven_barred},
     false,
     true},
    {0.5f, -INFINITY, {.n_allowed = 1, .allowed_ids = only}, false, true},
    {0.5f,
     -INFINITY,
     {.n_allowed = 1, .allowed_ids = only, .n_bias = 1, .bias_ids = only, .bias = large},
     false,
     true},
    /* The row's own fault, whatever is asked. */
    {0.5f, NAN, {.n_allowed = 1, .allowed_ids = only}, false, false},
    {0.5f, NAN, {.allowed_bits = nothing}, false, false},
    {0.5f, INFINITY, {.n_bias = 1, .bias_ids = only, .bias = ban}, false, false},
    {0.5f, NAN, {.n_barred = 1, .barred = seven_barred}, false, false},
    {-INFINITY, -INFINITY, {.allowed_bits = nothing}, false, false},
    {NAN,
     1.0f,
     {.repetition = 1e-40f, .n_seen = 5, .seen_ids = seen, .seen_counts = counts},
     false,
     false},
    {0.5f, 1.0f, {.n_barred = 2, .barred = all_barred}, false, false},
    /* Too large for a float is no reason. */
    {0.5f,
     1.0f,
     {.repetition = 1e-40f, .n_seen = 5, .seen_ids = seen, .seen_counts = counts},
     true,
     false},
    {-INFINITY,
     1.0f,
     {.repetition = 1e-45f, .n_seen = 5, .seen_ids = seen, .seen_counts = counts},
     true,
     false},
    {0.5f, 3e38f, {.n_bias = 1, .bias_ids = only, .bias = large}, true, false},
    {0.5f,
     -3e38f,
     {.n_allowed = 1, .allowed_ids = only, .n_bias = 1, .bias_ids = only, .bias = low},
     true,
     false},
    {0.5f,
     -3e38f,
     {.repetition = 100.0f,
      .n_seen = 5,
      .seen_ids = seen,
      .seen_counts = counts,
      .n_allowed = 1,
      .allowed_ids = only},
     true,
     false},
};

/* A row that its edits leave nothing of is told from one whose own logits are no numbers, and edits leave numbers. */
START_TEST(rows_that_edits_empty_are_told_from_those_that_are_broken) {
    enum { n = 300, rows = sizeof rows_without / sizeof *rows_without };
    struct kernels_limits limits = sampling_limits;
    struct subject subject;
    limits.n_vocab = n;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &limits);) {
        for (uint32_t r = 0; r < 2 * rows; r++) {
            struct sample_params params = rows_without[r / 2].params;
            struct sample_result result;
            float logits[n];
            for (int id = 0; id < n; id++)
                logits[id] = id == 7 ? rows_without[r / 2].seventh : rows_without[r / 2].all;
            params.temperature = (float)(r % 2);
            params.top_p = 1.0f;
            params.repetition = params.repetition > 0.0f ? params.repetition : 1.0f;
            params.want_logprob = true;
            subject.kernels->sample(subject.ctx, subject_floats(&subject, logits, n), 1, n, &params,
                                    &result);
            ck_assert_msg(result.valid == rows_without[r / 2].valid &&
                              result.emptied == rows_without[r / 2].emptied,
                          "row %u of %s: valid %d, emptied %d", r, subject.kernels->name,
                          result.valid, result.emptied);
            ck_assert(!result.valid || (result.id < n && isfinite(result.logprob)));
        }
        subject_close(&subject);
    }
}
END_TEST

/* Blocks of ids are more than a block of a GPU has threads, and the best more than one of its lists holds. */
START_TEST(a_large_vocabulary_is_as_the_reference_has_it) {
    enum { n = 140001, rows = 3 };
    struct kernels_limits limits = sampling_limits;
    struct random random = {(uint64_t)_i + 5};
    float *logits = malloc(rows * (size_t)n * sizeof *logits);
    for (int i = 0; i < rows * n; i++)
        logits[i] = 3.0f * random_unit(random_next(&random));
    struct sample_params params[rows];
    for (int r = 0; r < rows; r++) {
        params[r] = (struct sample_params){.temperature = 1.0f,
                                           .top_p = 1.0f,
                                           .repetition = 1.0f,
                                           .want_logprob = true,
                                           .uniform = random_unit(random_next(&random))};
        params[r].uniform = 1.0f - 0.1f * params[r].uniform; /* late ids and long lists */
    }
    params[1].top_k = 9000;
    params[1].top_p = 0.99f;
    params[2].top_p = 0.06f;
    struct sample_result expected[rows];
    struct subject subject;
    limits.n_vocab = n;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &limits);) {
        struct sample_result results[rows];
        float *at = subject_floats(&subject, logits, rows * (size_t)n);
        subject.kernels->sample(subject.ctx, at, rows, n, params, results);
        for (int r = 0; r < rows; r++) {
            expected[r] = i == 1 ? results[r] : expected[r];
            ck_assert_uint_eq(results[r].id, expected[r].id);
            ck_assert_mem_eq(&results[r].logprob, &expected[r].logprob, sizeof(float));
        }
        subject_close(&subject);
    }
    ck_assert_uint_gt(expected[0].id, 512 * 256);
    free(logits);
}
END_TEST

/* Few logits stand apart and thousands of nearly equal ones follow: a real model's last words of an answer. */
START_TEST(the_best_are_as_many_as_asked_for_where_few_stand_apart) {
    enum { n = VOCAB_MAX_TESTED };
    static float logits[n];
    struct random random = {(uint64_t)_i + 3};
    for (int i = 0; i < n; i++)
        logits[i] = 1.0f + random_unit(random_next(&random)) * 0.9f;
    for (int i = 0; i < _i % 4; i++)
        logits[random_below(&random, n)] = powf(100.0f, (float)(i + 1));
    struct sample_params params = {
        .repetition = 1.0f, .top_p = 1.0f, .n_top = (uint32_t)_i % 20 + 1};
    struct sample_result expected;
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &sampling_limits);) {
        struct sample_result result;
        float *at = subject_floats(&subject, logits, n);
        subject.kernels->sample(subject.ctx, at, 1, n, &params, &result);
        expected = i == 1 ? result : expected;
        ck_assert_uint_eq(result.n_top, params.n_top);
        for (uint32_t t = 0; t < params.n_top; t++) {
            ck_assert_uint_eq(result.top_ids[t], expected.top_ids[t]);
            ck_assert_mem_eq(&result.top_logprobs[t], &expected.top_logprobs[t], sizeof(float));
        }
        subject_close(&subject);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, the_best_are_as_many_as_asked_for_where_few_stand_apart, 0, 24);
    tcase_add_test(tests, zeros_of_any_kind_are_equal);
    tcase_add_test(tests, rows_that_edits_empty_are_told_from_those_that_are_broken);
    tcase_add_test(tests, masks_join_bans_and_allowed_ids);
    tcase_add_test(tests, rows_with_an_edit_for_every_id_are_as_the_reference_has_them);
    tcase_add_loop_test(tests, a_large_vocabulary_is_as_the_reference_has_it, 0, 2);
    tcase_add_loop_test(tests, choices_are_those_of_the_reference, 0, 150);
    tcase_add_test(tests, ties_at_a_border_are_kept_and_weights_of_nothing_never_drawn);
    tcase_add_test(tests, a_total_that_rounding_made_too_large_loses_no_weight);
    tcase_add_loop_test(tests, a_top_p_next_to_one_is_as_the_reference_has_it, 0, 60);
}
