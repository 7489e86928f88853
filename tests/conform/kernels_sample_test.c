/* Sampling of every backend, instruction set and number of threads makes the choices of the
 * reference, bit by bit, with every parameter that a request may have. */
#include "kernels/limits.h"
#include "tests/support/kernels_subject.h"
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
                                                      .head_dim = 16};

static const uint32_t seen_ids[] = {1, 5, 9, 1000000, 40};
static const uint32_t seen_counts[] = {3, 0, 1, 2, 1};
static const uint32_t bias_ids[] = {2, 5, 1000000, 7};
static const float biases[] = {5.0f, -3.0f, 1.0f, -INFINITY};
static const uint32_t allowed_ids[] = {3, 200, 5, 64, 1000000, 63};

static struct sample_params random_params(struct random *random) {
    static const float temperatures[] = {0.0f, 0.3f, 1.0f, 5.0f, 1e-7f};
    static const float top_ps[] = {1.0f, 0.9f, 0.5f, 0.0f, 0.999999f, 1.0f};
    static const float min_ps[] = {0.0f, 0.0f, 0.05f, 1.5f};
    static const uint32_t top_ks[] = {0, 0, 1, 5, 50, 3000, 100000};
    struct sample_params params = {
        .temperature = temperatures[random_below(random, 5)],
        .top_p = top_ps[random_below(random, 6)],
        .min_p = min_ps[random_below(random, 4)],
        .top_k = top_ks[random_below(random, 7)],
        .uniform = random_unit(random_next(random)),
        .repetition = 1.0f,
        .n_top = (uint32_t)random_below(random, SAMPLE_TOP_MAX + 1),
        .want_logprob = random_below(random, 2) == 0,
    };
    uint64_t edits = random_below(random, 16);
    if (edits & 1) {
        params.presence = 0.5f;
        params.frequency = 0.25f;
        params.repetition = 1.3f;
        params.n_seen = 5;
        params.seen_ids = seen_ids;
        params.seen_counts = seen_counts;
    }
    if (edits & 2) {
        params.n_bias = 4;
        params.bias_ids = bias_ids;
        params.bias = biases;
    }
    if ((edits & 12) == 12) {
        params.n_allowed = 6;
        params.allowed_ids = allowed_ids;
    }
    return params;
}

static void fill_logits(struct random *random, float *logits, uint32_t n) {
    uint64_t kind = random_below(random, 5);
    for (uint32_t i = 0; i < n; i++) {
        float x = random_unit(random_next(random));
        if (kind == 0) /* flat, with many ties */
            logits[i] = (float)(int)(x * 4.0f);
        else if (kind == 1) /* a few stand out */
            logits[i] = random_below(random, 100) == 0 ? 10.0f * x : x - 20.0f;
        else
            logits[i] = (x - 0.5f) * (float)(4 << kind);
    }
    if (kind == 4 && random_below(random, 4) == 0)
        logits[random_below(random, n)] = random_below(random, 2) ? NAN : INFINITY;
}

START_TEST(choices_are_those_of_the_reference) {
    static const uint32_t vocabularies[] = {1, 17, 256, 1000, VOCAB_MAX_TESTED};
    struct random random = {(uint64_t)_i + 1};
    uint32_t n = vocabularies[_i % 5];
    enum { rows = 5 };
    float *logits = malloc(rows * (size_t)n * sizeof *logits);
    float *copy = malloc(rows * (size_t)n * sizeof *copy);
    struct sample_params params[rows];
    for (int r = 0; r < rows; r++) {
        fill_logits(&random, logits + (size_t)r * n, n);
        params[r] = random_params(&random);
    }
    struct sample_result expected[rows];
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &sampling_limits);) {
        struct sample_result results[rows];
        memset(results, 0xa5, sizeof results);
        memcpy(copy, logits, rows * (size_t)n * sizeof *copy);
        subject.kernels->sample(subject.ctx, copy, rows, n, params, results);
        for (int r = 0; i == 1 && r < rows; r++)
            expected[r] = results[r];
        for (int r = 0; r < rows; r++) {
            ck_assert_int_eq(results[r].valid, expected[r].valid);
            ck_assert_uint_eq(results[r].id, expected[r].id);
            ck_assert_mem_eq(&results[r].logprob, &expected[r].logprob, sizeof(float));
            ck_assert_mem_eq(results[r].top_ids, expected[r].top_ids, sizeof expected[r].top_ids);
            ck_assert_mem_eq(results[r].top_logprobs, expected[r].top_logprobs,
                             sizeof expected[r].top_logprobs);
        }
        subject_close(&subject);
    }
    free(logits);
    free(copy);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, choices_are_those_of_the_reference, 0, 150);
}
