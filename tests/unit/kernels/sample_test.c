/* Sampling of the reference against a naive one in double; other backends are compared with the
 * reference bit by bit in tests/conform. */
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_sample";
const double suite_timeout_s = 120;

#define VOCAB 500

static const struct kernels_limits limits = {.max_tokens = 4,
                                             .max_seqs = 4,
                                             .max_context = 16,
                                             .max_dim = 32,
                                             .n_vocab = VOCAB,
                                             .n_heads = 1,
                                             .n_kv_heads = 1,
                                             .head_dim = 16,
                                             .kv_format = KV_F16};

static struct sample_params plain(void) {
    return (struct sample_params){.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f};
}

static struct sample_result sample_one(const float *logits, const struct sample_params *params) {
    float copy[VOCAB];
    struct sample_result result;
    struct subject ref = subject_ref(&limits);
    memcpy(copy, logits, sizeof copy);
    ref.kernels->sample(ref.ctx, copy, 1, VOCAB, params, &result);
    subject_close(&ref);
    return result;
}

static void random_logits(uint64_t seed, float *logits) {
    struct random random = {seed};
    for (int i = 0; i < VOCAB; i++)
        logits[i] = random_unit(random_next(&random)) * 12.0f - 6.0f;
}

struct weighted {
    double p;
    int id;
};

static int heavier(const void *a, const void *b) {
    const struct weighted *x = a;
    const struct weighted *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id - y->id;
}

/* Probabilities of a naive sampler: 0 for tokens that may not be chosen. */
static void naive(const float *logits, const struct sample_params *params, double p[VOCAB]) {
    struct weighted all[VOCAB];
    double max = -INFINITY;
    double total = 0.0;
    for (int i = 0; i < VOCAB; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max;
    for (int i = 0; i < VOCAB; i++) {
        all[i] = (struct weighted){exp(((double)logits[i] - max) / (double)params->temperature), i};
        p[i] = 0.0;
    }
    qsort(all, VOCAB, sizeof *all, heavier);
    int n = params->top_k && params->top_k < VOCAB ? (int)params->top_k : VOCAB;
    for (int i = 0; i < n; i++)
        total += all[i].p;
    double mass = 0.0;
    int kept = 0;
    while (kept < n && (kept == 0 || all[kept].p >= (double)params->min_p)) {
        mass += all[kept++].p;
        if (params->top_p < 1.0f && mass >= (double)params->top_p * total)
            break;
    }
    for (int i = 0; i < kept; i++)
        p[all[i].id] = all[i].p / mass;
}

/* Draws on an even grid of uniforms: each token must come as often as its probability says. */
START_TEST(draws_have_the_probabilities_of_a_naive_sampler) {
    static const struct {
        float temperature;
        uint32_t top_k;
        float top_p;
        float min_p;
    } cases[] = {{1.0f, 0, 1.0f, 0.0f},  {0.7f, 0, 1.0f, 0.0f}, {1.0f, 7, 1.0f, 0.0f},
                 {2.0f, 0, 0.8f, 0.0f},  {1.0f, 0, 1.0f, 0.1f}, {1.5f, 20, 0.6f, 0.05f},
                 {1.0f, 600, 0.3f, 0.0f}};
    enum { draws = 4000 };
    float logits[VOCAB];
    random_logits((uint64_t)_i, logits);
    struct sample_params params = plain();
    params.temperature = cases[_i].temperature;
    params.top_k = cases[_i].top_k;
    params.top_p = cases[_i].top_p;
    params.min_p = cases[_i].min_p;
    double p[VOCAB];
    int counts[VOCAB] = {0};
    naive(logits, &params, p);
    struct subject ref = subject_ref(&limits);
    for (int i = 0; i < draws; i++) {
        float copy[VOCAB];
        struct sample_result result;
        memcpy(copy, logits, sizeof copy);
        params.uniform = ((float)i + 0.5f) / draws;
        ref.kernels->sample(ref.ctx, copy, 1, VOCAB, &params, &result);
        ck_assert(result.valid);
        counts[result.id]++;
    }
    subject_close(&ref);
    for (int i = 0; i < VOCAB; i++) {
        ck_assert(fabs(counts[i] - p[i] * draws) <= 1.01);
        ck_assert(p[i] > 0.0 || counts[i] == 0);
    }
}
END_TEST

START_TEST(greedy_takes_the_lowest_id_among_equals) {
    float logits[VOCAB];
    random_logits(1, logits);
    logits[300] = logits[77] = logits[499] = 50.0f;
    struct sample_params params = plain();
    params.temperature = 0.0f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 77);
    params.temperature = 1.0f;
    params.top_k = 1;
    params.uniform = 0.999f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 77);
}
END_TEST

/* Four tokens that weigh the same: sums and bounds are met exactly. */
START_TEST(a_token_at_a_bound_is_kept_and_none_behind_it) {
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = i < 4 ? 50.0f : -50.0f;
    struct sample_params params = plain();
    params.uniform = 0.999f;
    params.min_p = 1.0f; /* as likely as the best is likely enough */
    ck_assert_uint_eq(sample_one(logits, &params).id, 3);
    params.top_p = 0.5f; /* two reach it */
    ck_assert_uint_eq(sample_one(logits, &params).id, 1);
    params.top_k = 2;
    ck_assert_uint_eq(sample_one(logits, &params).id, 0);
    params.top_p = 1.0f;
    params.min_p = 2.0f; /* the best is always kept */
    ck_assert_uint_eq(sample_one(logits, &params).id, 0);
}
END_TEST

START_TEST(penalties_bias_and_bans_edit_the_logits) {
    float logits[VOCAB] = {0};
    const uint32_t seen[] = {10, 20, 30, 40};
    const uint32_t counts[] = {2, 0, 1, 0};
    const uint32_t bias_ids[] = {50, 60};
    const float bias[] = {3.2f, -INFINITY};
    struct sample_params params = plain();
    params.temperature = 0.0f;
    params.n_seen = 4;
    params.seen_ids = seen;
    params.seen_counts = counts;
    params.repetition = 2.0f;
    params.presence = 0.5f;
    params.frequency = 0.25f;
    params.n_bias = 2;
    params.bias_ids = bias_ids;
    params.bias = bias;
    logits[60] = 100.0f; /* banned */
    logits[10] = 8.2f;   /* 8.2 / 2 - 2 * 0.25 - 0.5 = 3.1, less than id 50 with 3.2 */
    ck_assert_uint_eq(sample_one(logits, &params).id, 50);
    logits[10] = 8.6f; /* 3.3 */
    ck_assert_uint_eq(sample_one(logits, &params).id, 10);
    logits[20] = 6.7f; /* 3.35: only in the prompt, so repetition alone */
    ck_assert_uint_eq(sample_one(logits, &params).id, 20);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -10.0f;
    for (int i = 0; i < 4; i++)
        logits[seen[i]] = -4.0f; /* -8.. and -8: still the best */
    params.n_bias = 0;
    ck_assert_uint_eq(sample_one(logits, &params).id, 20);
    logits[70] = -7.9f; /* not seen: above them, and below what dividing would make of them */
    ck_assert_uint_eq(sample_one(logits, &params).id, 70);
}
END_TEST

START_TEST(only_allowed_tokens_are_chosen) {
    float logits[VOCAB];
    random_logits(2, logits);
    const uint32_t allowed[] = {400, 3};
    struct sample_params params = plain();
    params.n_allowed = 2;
    params.allowed_ids = allowed;
    logits[3] = 1.0f;
    logits[400] = 1.0f;
    params.uniform = 0.25f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 3);
    params.uniform = 0.75f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 400);
    params.temperature = 0.0f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 3);
}
END_TEST

START_TEST(a_mask_leaves_its_tokens_and_none_makes_no_choice) {
    float logits[VOCAB];
    uint32_t bits[(VOCAB + 31) / 32] = {0};
    random_logits(4, logits);
    struct sample_params params = plain();
    params.allowed_bits = bits;
    bits[VOCAB / 32] = VOCAB % 32 ? UINT32_MAX << VOCAB % 32 : 0; /* beyond the vocabulary */
    ck_assert(!sample_one(logits, &params).valid);
    for (uint32_t id = 0; id < VOCAB; id++) {
        bits[id / 32] |= 1u << id % 32;
        params.uniform = (float)id / VOCAB;
        struct sample_result result = sample_one(logits, &params);
        ck_assert(result.valid);
        ck_assert_uint_eq(result.id, id);
        bits[id / 32] &= ~(1u << id % 32);
    }
}
END_TEST

START_TEST(logprobs_are_of_the_models_own_logits) {
    float logits[VOCAB];
    random_logits(6, logits);
    logits[17] = logits[5] = 9.0f;
    double total = 0.0;
    for (int i = 0; i < VOCAB; i++)
        total += exp((double)logits[i] - 9.0);
    const uint32_t bias_ids[] = {33};
    const float bias[] = {100.0f};
    struct sample_params params = plain();
    params.temperature = 0.3f;
    params.n_bias = 1;
    params.bias_ids = bias_ids;
    params.bias = bias;
    params.n_top = 3;
    struct sample_result result = sample_one(logits, &params);
    ck_assert_uint_eq(result.id, 33);
    ck_assert_double_eq_tol((double)result.logprob, (double)logits[33] - 9.0 - log(total), 1e-5);
    ck_assert_uint_eq(result.top_ids[0], 5);
    ck_assert_uint_eq(result.top_ids[1], 17);
    ck_assert_double_eq_tol((double)result.top_logprobs[1], -log(total), 1e-5);
    ck_assert(result.top_logprobs[2] < result.top_logprobs[1]);
}
END_TEST

START_TEST(barred_ids_are_neither_chosen_nor_named_but_count_in_the_logprobs) {
    static const struct interval barred[] = {{0, 1}, {17, 18}, {300, 498}};
    float logits[VOCAB];
    random_logits(9, logits);
    logits[17] = 9.0f;
    logits[400] = 8.0f;
    logits[5] = 7.0f;
    logits[498] = 6.5f;
    double total = 0.0;
    for (int i = 0; i < VOCAB; i++)
        total += exp((double)logits[i]);
    struct sample_params params = plain();
    params.temperature = 0.0f;
    params.n_barred = 3;
    params.barred = barred;
    params.n_top = 2;
    struct sample_result result = sample_one(logits, &params);
    ck_assert(result.valid);
    ck_assert_uint_eq(result.id, 5);
    ck_assert_double_eq_tol((double)result.logprob, 7.0 - log(total), 1e-5);
    ck_assert_uint_eq(result.n_top, 2);
    ck_assert_uint_eq(result.top_ids[0], 5);
    ck_assert_uint_eq(result.top_ids[1], 498);

    /* No bias and no list of allowed ids brings one back. */
    const uint32_t wanted[] = {17, 400};
    const float bias[] = {100.0f, 100.0f};
    params.n_bias = 2;
    params.bias_ids = wanted;
    params.bias = bias;
    ck_assert_uint_eq(sample_one(logits, &params).id, 5);
    params.n_allowed = 2;
    params.allowed_ids = wanted;
    ck_assert(!sample_one(logits, &params).valid);

    /* Fewer than asked for where fewer may be drawn. */
    static const struct interval most[] = {{0, 200}, {202, VOCAB}};
    params = plain();
    params.n_barred = 2;
    params.barred = most;
    params.n_top = 20;
    result = sample_one(logits, &params);
    ck_assert(result.id == 200 || result.id == 201);
    ck_assert_uint_eq(result.n_top, 2);
}
END_TEST

START_TEST(a_row_without_a_choice_is_not_valid) {
    float logits[VOCAB];
    random_logits(3, logits);
    struct sample_params params = plain();
    ck_assert(sample_one(logits, &params).valid);
    float saved = logits[499];
    logits[499] = NAN;
    ck_assert(!sample_one(logits, &params).valid);
    logits[499] = INFINITY;
    ck_assert(!sample_one(logits, &params).valid);
    logits[499] = saved;
    const uint32_t banned[] = {8};
    const float bias[] = {-INFINITY};
    params.n_bias = params.n_allowed = 1;
    params.bias_ids = params.allowed_ids = banned;
    params.bias = bias;
    ck_assert(!sample_one(logits, &params).valid);
    params.temperature = 0.0f;
    ck_assert(!sample_one(logits, &params).valid);
}
END_TEST

START_TEST(repetition_makes_negative_logits_less_likely) {
    float logits[VOCAB];
    const uint32_t seen[] = {10, 20};
    const uint32_t counts[] = {0, 0};
    struct sample_params params = plain();
    params.temperature = 0.0f;
    params.n_seen = 2;
    params.seen_ids = seen;
    params.seen_counts = counts;
    params.repetition = 2.0f;
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -10.0f;
    logits[10] = -4.0f; /* twice that: -8 */
    logits[30] = -6.0f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 30);
    logits[30] = -9.0f;
    ck_assert_uint_eq(sample_one(logits, &params).id, 10);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, draws_have_the_probabilities_of_a_naive_sampler, 0, 7);
    tcase_add_test(tests, greedy_takes_the_lowest_id_among_equals);
    tcase_add_test(tests, a_token_at_a_bound_is_kept_and_none_behind_it);
    tcase_add_test(tests, penalties_bias_and_bans_edit_the_logits);
    tcase_add_test(tests, only_allowed_tokens_are_chosen);
    tcase_add_test(tests, a_mask_leaves_its_tokens_and_none_makes_no_choice);
    tcase_add_test(tests, logprobs_are_of_the_models_own_logits);
    tcase_add_test(tests, barred_ids_are_neither_chosen_nor_named_but_count_in_the_logprobs);
    tcase_add_test(tests, a_row_without_a_choice_is_not_valid);
    tcase_add_test(tests, repetition_makes_negative_logits_less_likely);
}
