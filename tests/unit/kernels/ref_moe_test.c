/* The reference backend's gates, routes and mixtures against the same mathematics in double. */
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_ref_moe";
const double suite_timeout_s = 60;

#define EXPERTS    12
#define ACTIVE     3
#define DIM        64
#define EXPERT_DIM 96
#define ROWS       7

static const struct kernels_limits limits = {
    .max_tokens = ROWS,
    .max_seqs = 1,
    .max_context = 16,
    .max_dim = 128,
    .n_vocab = 64,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 16,
    .kv_format = KV_F16,
};

static double sigmoid(double t) {
    return 1.0 / (1.0 + exp(-t));
}

START_TEST(gates_multiply_by_silu_and_sigmoid) {
    enum { rows = 5, dim = 100, n = rows * dim };
    struct random random = {21};
    float a[n];
    float b[n];
    float out[n];
    float before[n];
    fill_random(&random, a, n);
    fill_random(&random, b, n);
    fill_random(&random, before, n);
    struct subject ref = subject_ref(&limits);
    ref.kernels->silu_mul(ref.ctx, out, a, b, n);
    for (int i = 0; i < n; i++) {
        double exact = (double)a[i] * sigmoid((double)a[i]) * (double)b[i];
        ck_assert_double_eq_tol((double)out[i], exact, 1e-6 * fabs(exact) + 1e-30);
    }
    memcpy(out, before, sizeof out);
    ref.kernels->add_gated(ref.ctx, out, a, b, rows, dim);
    for (int i = 0; i < n; i++) {
        double exact = (double)before[i] + sigmoid((double)b[i / dim]) * (double)a[i];
        ck_assert_double_eq_tol((double)out[i], exact, 1e-6 * (1.0 + fabs(exact)));
    }
    subject_close(&ref);
}
END_TEST

/* Are there fewer than n_active experts that come before e? */
static bool is_chosen(const double *p, uint32_t e) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < EXPERTS; i++)
        before += p[i] > p[e] || (p[i] == p[e] && i < e);
    return before < ACTIVE;
}

START_TEST(routes_are_the_largest_of_a_softmax_over_all_experts) {
    struct random random = {22};
    float logits[ROWS * EXPERTS];
    uint32_t ids[ROWS * ACTIVE];
    float weights[ROWS * ACTIVE];
    for (int i = 0; i < ROWS * EXPERTS; i++) /* halves, so that some are equal */
        logits[i] = (float)((int)random_below(&random, 12) - 6) * 0.5f;
    struct subject ref = subject_ref(&limits);
    for (int normalise = 0; normalise < 2; normalise++) {
        ref.kernels->moe_route(ref.ctx, ids, weights, logits, ROWS, EXPERTS, ACTIVE,
                               normalise != 0);
        for (uint32_t row = 0; row < ROWS; row++) {
            double p[EXPERTS];
            double total = 0.0;
            double of_chosen = 0.0;
            for (uint32_t e = 0; e < EXPERTS; e++)
                total += p[e] = exp((double)logits[row * EXPERTS + e]);
            for (uint32_t e = 0; e < EXPERTS; e++)
                of_chosen += is_chosen(p, e) ? p[e] : 0.0;
            for (uint32_t i = row * ACTIVE; i < (row + 1) * ACTIVE; i++) {
                ck_assert(is_chosen(p, ids[i]));
                ck_assert(i == row * ACTIVE || p[ids[i]] < p[ids[i - 1]] ||
                          (p[ids[i]] == p[ids[i - 1]] && ids[i] > ids[i - 1]));
                double exact = p[ids[i]] / (normalise ? of_chosen : total);
                ck_assert_double_eq_tol((double)weights[i], exact, 1e-6 * exact);
            }
        }
    }
    subject_close(&ref);
}
END_TEST

/* y += weight * down(silu(gate(x)) * up(x)); gate and up alternate. */
static void add_expert(double *y, const float *gate_up, const float *down, const float *x,
                       double weight) {
    double inner[EXPERT_DIM];
    for (int i = 0; i < EXPERT_DIM; i++) {
        double gate = 0.0;
        double up = 0.0;
        for (int k = 0; k < DIM; k++) {
            gate += (double)gate_up[(2 * i) * DIM + k] * (double)x[k];
            up += (double)gate_up[(2 * i + 1) * DIM + k] * (double)x[k];
        }
        inner[i] = gate * sigmoid(gate) * up;
    }
    for (int n = 0; n < DIM; n++)
        for (int i = 0; i < EXPERT_DIM; i++)
            y[n] += weight * (double)down[n * EXPERT_DIM + i] * inner[i];
}

START_TEST(a_mixture_is_the_weighted_sum_of_its_experts) {
    struct random random = {23};
    struct weight_tensor tensors[2 * EXPERTS];
    struct weight gate_up[EXPERTS];
    struct weight down[EXPERTS];
    size_t n_bytes[2 * EXPERTS];
    float x[ROWS * DIM];
    float out[ROWS * DIM];
    uint32_t ids[ROWS * ACTIVE];
    float weights[ROWS * ACTIVE];
    struct subject ref = subject_ref(&limits);
    for (int e = 0; e < EXPERTS; e++) {
        tensors[2 * e] = random_tensor(&random, "f32", 2 * EXPERT_DIM, DIM);
        tensors[2 * e + 1] = random_tensor(&random, "f32", DIM, EXPERT_DIM);
        gate_up[e] = subject_pack_tensor(&ref, &tensors[2 * e], &n_bytes[2 * e]);
        down[e] = subject_pack_tensor(&ref, &tensors[2 * e + 1], &n_bytes[2 * e + 1]);
    }
    fill_random(&random, x, ROWS * DIM);
    fill_random(&random, weights, ROWS * ACTIVE);
    for (uint32_t i = 0; i < ROWS * ACTIVE; i++)
        ids[i] = (i / ACTIVE * 5 + i % ACTIVE * 4) % EXPERTS; /* distinct in a row, not in order */
    float *scratch =
        malloc(ref.kernels->moe_scratch(ROWS, ACTIVE, DIM, EXPERT_DIM) * sizeof *scratch);
    ref.kernels->moe_ffn(ref.ctx, out, x, ids, weights, ROWS, ACTIVE, gate_up, down, EXPERTS,
                         scratch);
    for (int row = 0; row < ROWS; row++) {
        double y[DIM] = {0};
        double size = 0.0;
        for (int i = row * ACTIVE; i < (row + 1) * ACTIVE; i++)
            add_expert(y, tensors[2 * ids[i]].values, tensors[2 * ids[i] + 1].values,
                       x + (size_t)row * DIM, (double)weights[i]);
        for (int n = 0; n < DIM; n++)
            size = fabs(y[n]) > size ? fabs(y[n]) : size;
        for (int n = 0; n < DIM; n++)
            ck_assert_double_eq_tol((double)out[row * DIM + n], y[n], 1e-5 * size);
    }
    for (int e = 0; e < EXPERTS; e++) {
        subject_unpack(&ref, &gate_up[e], n_bytes[2 * e]);
        subject_unpack(&ref, &down[e], n_bytes[2 * e + 1]);
        tensor_free(&tensors[2 * e]);
        tensor_free(&tensors[2 * e + 1]);
    }
    free(scratch);
    subject_close(&ref);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, gates_multiply_by_silu_and_sigmoid);
    tcase_add_test(tests, routes_are_the_largest_of_a_softmax_over_all_experts);
    tcase_add_test(tests, a_mixture_is_the_weighted_sum_of_its_experts);
}
