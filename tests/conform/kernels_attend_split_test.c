/* Attention of backends with fast numerics splits the spans of a query over blocks, as many as there are few other queries:
 * one, two or all spans are a block's. The query's bits are those of prefill, where a block has them all. */
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_attend_split";
const double suite_timeout_s = 300;

enum { SEQS = 80, BLOCKS = 48, TOKENS = BLOCKS * KV_BLOCK_TOKENS, HEADS = 16, DIM = 64 };
enum { WIDTH = HEADS * DIM, BLOCK_BYTES = 2 * WIDTH * KV_BLOCK_TOKENS * 2 };

static const struct kernels_limits limits = {TOKENS, SEQS,  TOKENS, 64,    64,
                                             HEADS,  HEADS, DIM,    KV_F16};

/* Queries of one sequence in a step: at_qkv and at_out are the subject's. */
static void attend(const struct subject *subject, const struct kernels_batch *batch,
                   const struct kernels_kv *kv, bool writes, float *at_qkv, float *at_out) {
    struct rope rope = {.layout = ROPE_NONE, .n_variants = 1};
    struct kernels_step step = subject_begin(subject, batch, NULL, 0);
    if (writes)
        subject->kernels->rope_kv(subject->ctx, at_qkv, &step.batch, &rope, kv);
    subject->kernels->attend(subject->ctx, at_out, at_qkv, &step.batch, kv, 0.125f, NULL, 0);
    subject_end(subject);
}

/* All tokens as one prompt, which fills the cache. */
static void prefill(struct subject *subject, const struct kernels_kv *kv, const float *qkv,
                    float *out) {
    static const uint32_t ids[TOKENS], seq_begin[] = {0, TOKENS};
    uint32_t positions[TOKENS], tables[BLOCKS];
    float *at_qkv = subject_floats(subject, qkv, (size_t)TOKENS * 3 * WIDTH);
    float *at_out = subject_floats(subject, NULL, (size_t)TOKENS * WIDTH);
    for (uint32_t i = 0; i < TOKENS; i++)
        positions[i] = i;
    for (uint32_t b = 0; b < BLOCKS; b++)
        tables[b] = b;
    struct kernels_batch batch = {TOKENS, 1, ids, positions, seq_begin, tables, BLOCKS, NULL};
    attend(subject, &batch, kv, true, at_qkv, at_out);
    subject_read(subject, out, at_out, sizeof(float) * TOKENS * WIDTH);
}

/* n of its queries, each as a sequence of its own. */
static void decode(struct subject *subject, const struct kernels_kv *kv, const uint32_t *positions,
                   uint32_t n, const float *qkv, float *out) {
    static const uint32_t ids[SEQS];
    uint32_t seq_begin[SEQS + 1] = {0}, tables[SEQS * BLOCKS];
    float *at_qkv = subject_floats(subject, NULL, (size_t)n * 3 * WIDTH);
    float *at_out = subject_floats(subject, NULL, (size_t)n * WIDTH);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t b = 0; b < BLOCKS; b++)
            tables[i * BLOCKS + b] = b <= positions[i] / KV_BLOCK_TOKENS ? b : UINT32_MAX;
        seq_begin[i + 1] = i + 1;
        subject_write(subject, at_qkv + (size_t)i * 3 * WIDTH,
                      qkv + (size_t)positions[i] * 3 * WIDTH, sizeof(float) * 3 * WIDTH);
    }
    struct kernels_batch batch = {n, n, ids, positions, seq_begin, tables, BLOCKS, NULL};
    attend(subject, &batch, kv, false, at_qkv, at_out);
    subject_read(subject, out, at_out, sizeof(float) * n * WIDTH);
}

START_TEST(spans_are_joined_alike_however_they_are_split) {
    static const uint32_t counts[] = {1, 36, SEQS};
    struct random random = {17};
    struct subject subject;
    uint32_t positions[SEQS];
    float *qkv = malloc(sizeof(float) * TOKENS * 3 * WIDTH);
    float *whole = malloc(sizeof(float) * TOKENS * WIDTH);
    float *out = malloc(sizeof(float) * SEQS * WIDTH);
    fill_random(&random, qkv, (size_t)TOKENS * 3 * WIDTH);
    for (uint32_t q = 0; q < SEQS; q++)
        positions[q] = TOKENS - 1 - q * 9;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); subject_close(&subject)) {
        if (subject_is_exact(&subject))
            continue;
        struct kernels_kv kv = {subject_bytes(&subject, NULL, (size_t)BLOCKS * BLOCK_BYTES),
                                BLOCK_BYTES, HEADS, DIM, KV_F16};
        prefill(&subject, &kv, qkv, whole);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            decode(&subject, &kv, positions, counts[c], qkv, out);
            for (uint32_t q = 0; q < counts[c]; q++)
                ck_assert_msg(memcmp(out + (size_t)q * WIDTH, whole + (size_t)positions[q] * WIDTH,
                                     sizeof(float) * WIDTH) == 0,
                              "%s: query %u of %u, at %u, has not the bits of prefill",
                              subject.kernels->name, q, counts[c], positions[q]);
        }
    }
    free(qkv);
    free(whole);
    free(out);
}
END_TEST

START_TEST(there_is_a_backend_of_fast_numerics) {
    ck_assert(subject_has_fast());
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, there_is_a_backend_of_fast_numerics);
    tcase_add_test(tests, spans_are_joined_alike_however_they_are_split);
}
