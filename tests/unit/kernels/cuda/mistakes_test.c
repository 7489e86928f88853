/* Calls just within and just beyond the bounds of a context of the CUDA backend, on the emulated device: beyond them a call
 * is a mistake of the caller and ends the process, before anything is written behind an array. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/tray.h"
#include "kernels/limits.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

const char *const suite_name = "cuda_mistakes";
const double suite_timeout_s = 60;

enum { TOKENS = 9, SEQS = 5, DIM = 64, VOCAB = 48 };

static const struct kernels_limits limits = {TOKENS, SEQS, 64, DIM, VOCAB, 1, 1, 8, KV_F16};

static struct subject open_with(const struct kernels_limits *of) {
    struct subject subject = {.kernels = kernels_find("cuda-emu:exact"), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .limits = *of};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    return subject;
}

/* A step of n sequences, of which the first has the tokens that the others leave of n_tokens. */
static void step(uint32_t n_tokens, uint32_t n_seqs) {
    struct subject subject = open_with(&limits);
    uint32_t zeros[TOKENS + 1] = {0}, seq_begin[SEQS + 2] = {0};
    for (uint32_t i = 1; i <= n_seqs; i++)
        seq_begin[i] = n_tokens - n_seqs + i;
    struct kernels_batch batch = {n_tokens, n_seqs, zeros, zeros, seq_begin, zeros, 1, NULL};
    subject_begin(&subject, &batch, zeros, n_seqs);
    subject_end(&subject);
    subject_close(&subject);
}

static void tokens(uint32_t beyond) {
    step(TOKENS + beyond, 2);
}

static void sequences(uint32_t beyond) {
    step(TOKENS, SEQS + beyond);
}

static void route(uint32_t n_experts, uint32_t n_active) {
    struct subject subject = open_with(&limits);
    uint32_t *ids = subject_ids(&subject, NULL, EXPERTS_MAX + 1);
    float *weights = subject_floats(&subject, NULL, EXPERTS_MAX + 1);
    const float *logits = subject_floats(&subject, NULL, EXPERTS_MAX + 1);
    subject.kernels->moe_route(subject.ctx, ids, weights, logits, 1, n_experts, n_active, true);
    uint32_t got[EXPERTS_MAX];
    subject_read(&subject, got, ids, n_active * sizeof *got);
    for (uint32_t i = 0; i < n_active; i++)
        ck_assert_uint_eq(got[i], i);
    subject_close(&subject);
}

static void experts(uint32_t beyond) {
    route(EXPERTS_MAX + beyond, 3);
}

static void active_experts(uint32_t beyond) {
    route(7, 7 + beyond);
}

static void no_active_expert(uint32_t beyond) {
    route(7, 1 - beyond);
}

static struct weight pack(const struct subject *subject, const char *format, uint32_t n, uint32_t k,
                          size_t *n_bytes) {
    struct random random = {4};
    struct weight_tensor tensor = random_tensor(&random, format, n, k);
    struct weight weight = subject_pack_tensor(subject, &tensor, n_bytes);
    tensor_free(&tensor);
    return weight;
}

/* One row that goes to all experts of the largest mixture: they share their matrices. */
static void mixture(uint32_t beyond) {
    enum { INNER = 16, OUTER = 32 };
    struct subject subject = open_with(&limits);
    uint32_t n = EXPERTS_MAX + beyond, ids[EXPERTS_MAX];
    size_t n_up, n_down;
    struct weight up = pack(&subject, "f16", 2 * INNER, OUTER, &n_up);
    struct weight down = pack(&subject, "f16", OUTER, INNER, &n_down);
    struct weight *ups = calloc(2 * (size_t)n, sizeof *ups), *downs = ups + n;
    float one[OUTER], weights[EXPERTS_MAX], got[2 * OUTER];
    for (uint32_t i = 0; i < n; i++) {
        ups[i] = up;
        downs[i] = down;
    }
    for (uint32_t i = 0; i < EXPERTS_MAX; i++) {
        ids[i] = i;
        weights[i] = 1.0f / EXPERTS_MAX;
    }
    for (uint32_t i = 0; i < OUTER; i++)
        one[i] = 1.0f;
    float *out = subject_floats(&subject, NULL, 2 * OUTER),
          *x = subject_floats(&subject, one, OUTER);
    float *scratch =
        subject_floats(&subject, NULL, subject.kernels->moe_scratch(1, EXPERTS_MAX, OUTER, INNER));
    const uint32_t *at_ids = subject_ids(&subject, ids, EXPERTS_MAX);
    const float *at_weights = subject_floats(&subject, weights, EXPERTS_MAX);
    subject.kernels->moe_ffn(subject.ctx, out, x, at_ids, at_weights, 1, EXPERTS_MAX, ups, downs, n,
                             scratch);
    weights[0] = 1.0f;
    at_weights = subject_floats(&subject, weights, 1);
    subject.kernels->moe_ffn(subject.ctx, out + OUTER, x, at_ids, at_weights, 1, 1, ups, downs, n,
                             scratch);
    subject_read(&subject, got, out, sizeof got);
    for (uint32_t i = 0; i < OUTER; i++) /* the mean of equal ones */
        ck_assert_float_eq_tol(got[i], got[OUTER + i], 1e-3f * (1.0f + got[i] * got[i]));
    subject_unpack(&subject, &up, n_up);
    subject_unpack(&subject, &down, n_down);
    subject_close(&subject);
    free(ups);
}

/* So many that an array of the stack is left at once, where one more may only spoil what lies behind it. */
static void many_experts(uint32_t beyond) {
    mixture(beyond << 17);
}

static void multiply(struct subject *subject, const char *format, uint32_t k) {
    size_t n_bytes;
    struct weight weight = pack(subject, format, 8, k, &n_bytes);
    float *x = subject_floats(subject, NULL, k), *out = subject_floats(subject, NULL, 8), got[8];
    subject->kernels->linear(subject->ctx, out, 8, x, &weight, 1, EPILOGUE_NONE);
    subject_read(subject, got, out, sizeof got);
    ck_assert(got[7] == 0.0f);
    subject_unpack(subject, &weight, n_bytes);
    subject_close(subject);
}

static void inputs(uint32_t beyond) {
    struct subject subject = open_with(&limits);
    multiply(&subject, "f32", DIM + beyond);
}

/* Whose rows of integers are shorter than what packing has made room for. */
static void stored_inputs(uint32_t beyond) {
    struct kernels_limits wide = limits;
    wide.max_dim = 4 * DIM;
    struct subject subject = open_with(&wide);
    size_t n_bytes;
    struct weight weight = pack(&subject, "q8_0", 8, wide.max_dim, &n_bytes);
    float *x = subject_floats(&subject, NULL, wide.max_dim);
    float *out = subject_floats(&subject, NULL, 8);
    if (beyond)
        subject.ctx->ints.n_groups--;
    subject.kernels->linear(subject.ctx, out, 8, x, &weight, 1, EPILOGUE_NONE);
    subject_end(&subject);
    subject_unpack(&subject, &weight, n_bytes);
    subject_close(&subject);
}

static void vocabulary(uint32_t beyond) {
    struct subject subject = open_with(&limits);
    struct sample_params params = {.top_p = 1.0f, .repetition = 1.0f};
    struct sample_result result;
    float logits[VOCAB + 1] = {0};
    logits[VOCAB - 1] = 1.0f;
    subject.kernels->sample(subject.ctx, subject_floats(&subject, logits, VOCAB + 1), 1,
                            VOCAB + beyond, &params, &result);
    ck_assert_uint_eq(result.id, VOCAB - 1);
    subject_close(&subject);
}

static void pinned_memory(uint32_t beyond) {
    struct subject subject = open_with(&limits);
    ck_assert_ptr_eq(cuda_stage(subject.ctx, &subject.ctx->beside, BESIDE_BYTES + beyond),
                     subject.ctx->beside.stage);
    subject_close(&subject);
}

/* Arrays lie at multiples of 64 bytes. */
static void tray(uint32_t beyond) {
    struct subject subject = open_with(&limits);
    struct cuda_tray made;
    const unsigned char *there;
    ck_assert_int_eq(cuda_tray_open(subject.ctx, &made, 192), STATUS_OK);
    ck_assert_ptr_eq(cuda_tray_take(&made, 1, &there), made.pinned);
    ck_assert_ptr_eq(cuda_tray_take(&made, 128 + beyond, &there), made.pinned + 64);
    ck_assert_ptr_eq(there, made.memory + 64);
    cuda_tray_close(subject.ctx, &made);
    subject_close(&subject);
}

static void (*const calls[])(uint32_t beyond) = {
    tokens,       sequences, experts,    active_experts, no_active_expert, mixture,
    many_experts, inputs,    vocabulary, stored_inputs,  pinned_memory,    tray,
};
#define N_CALLS ((int)(sizeof calls / sizeof *calls))

START_TEST(a_call_at_a_bound_is_done) {
    calls[_i](0);
}
END_TEST

START_TEST(a_call_beyond_a_bound_ends_the_process) {
    calls[_i](1);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_call_at_a_bound_is_done, 0, N_CALLS);
    tcase_add_loop_test_raise_signal(tests, a_call_beyond_a_bound_ends_the_process, SIGABRT, 0,
                                     N_CALLS);
}
