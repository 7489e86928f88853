/* What does not fit the device's memory for partial results is computed in parts, with the bits of the reference:
 * attention of a few tokens at a time. Contexts of tests have room for all, so that here it is taken away. And a
 * query has more chunks of keys than are joined at a time. */
#include "kernels/cuda/context.h"
#include "kernels/numbers.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_parts";
const double suite_timeout_s = 60;

enum { TOKENS = 3, LAST = 8500, CONTEXT = 8704, DIM = 8, BLOCKS = CONTEXT / KV_BLOCK_TOKENS };

static const struct {
    uint32_t n_heads, n_kv_heads, least; /* tokens that are always taken together */
} shapes[] = {{67, 1, 1},
              {64, 2, 2}}; /* a token has two tiles of a head of keys, or a tile has two tokens */

/* TOKENS of a prompt, the last at position LAST; `floats` are all that partial results may take, 0: as it is. */
static void attend(const char *backend, int shape, size_t floats, float *out) {
    uint32_t n_heads = shapes[shape].n_heads, n_kv = shapes[shape].n_kv_heads;
    size_t n_qkv = (size_t)TOKENS * (n_heads + 2 * n_kv) * DIM,
           n_out = (size_t)TOKENS * n_heads * DIM;
    size_t n_kv_floats = (size_t)BLOCKS * 2 * n_kv * DIM * KV_BLOCK_TOKENS;
    struct kernels_options options = {
        .n_threads = 1, .limits = {TOKENS, 1, CONTEXT, 64, 64, n_heads, n_kv, DIM, KV_F32}};
    struct subject subject = {.kernels = kernels_find(backend), .n_threads = 1};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    if (floats > 0) {
        ck_assert_uint_lt(floats, subject.ctx->attend_floats);
        subject.ctx->attend_floats = floats;
    }
    struct random random = {7};
    float *qkv = malloc(n_qkv * sizeof *qkv), *kv_floats = malloc(n_kv_floats * sizeof *kv_floats);
    fill_random(&random, qkv, n_qkv);
    fill_random(&random, kv_floats, n_kv_floats);
    uint32_t ids[TOKENS], positions[TOKENS], table[BLOCKS], seq_begin[2] = {0, TOKENS};
    for (uint32_t i = 0; i < TOKENS; i++) {
        ids[i] = i;
        positions[i] = LAST + 1 - TOKENS + i;
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        table[i] = BLOCKS - 1 - i;
    struct kernels_batch batch = {.n_tokens = TOKENS,
                                  .n_seqs = 1,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = table,
                                  .block_table_stride = BLOCKS};
    struct kernels_kv kv = {.base = subject_floats(&subject, kv_floats, n_kv_floats),
                            .block_bytes = sizeof(float[2]) * n_kv * DIM * KV_BLOCK_TOKENS,
                            .n_kv_heads = n_kv,
                            .head_dim = DIM,
                            .format = KV_F32};
    float *at_qkv = subject_floats(&subject, qkv, n_qkv);
    float *at_out = subject_floats(&subject, NULL, n_out);
    struct kernels_step step = subject_begin(&subject, &batch, NULL, 0);
    subject.kernels->attend(subject.ctx, at_out, at_qkv, &step.batch, &kv, 0.003f, NULL, 0);
    subject_end(&subject);
    subject_read(&subject, out, at_out, n_out * sizeof *out);
    subject_close(&subject);
    free(qkv);
    free(kv_floats);
}

START_TEST(attention_in_parts_has_the_bits_of_the_reference) {
    size_t per_token = (size_t)(LAST / ATTEND_CHUNK + 1) * shapes[_i].n_heads * (DIM + 2);
    size_t n_out = (size_t)TOKENS * shapes[_i].n_heads * DIM;
    float *expected = malloc(n_out * sizeof *expected), *got = malloc(n_out * sizeof *got);
    attend("ref", _i, 0, expected);
    for (uint32_t n = TOKENS; n >= shapes[_i].least; n--) {
        memset(got, 0, n_out * sizeof *got);
        attend("cuda-emu:exact", _i, n < TOKENS ? n * per_token : 0, got);
        ck_assert_msg(memcmp(got, expected, n_out * sizeof *got) == 0, "%u tokens at a time", n);
    }
    free(expected);
    free(got);
}
END_TEST

/* A tile is not cut: contexts have room for one. */
START_TEST(less_room_than_a_tile_wants_ends_the_process) {
    size_t n_heads = shapes[_i].n_heads, n_floats = (LAST / ATTEND_CHUNK + 1) * n_heads * (DIM + 2);
    float *out = malloc(TOKENS * n_heads * DIM * sizeof *out);
    attend("cuda-emu:exact", _i, shapes[_i].least * n_floats - 1, out);
    free(out);
}
END_TEST

/* A tile of 64 queries is not cut: contexts of half a million tokens have room for the tokens of one. */
START_TEST(a_long_context_has_room_for_a_tile) {
    const struct kernels *kernels = kernels_find("cuda-emu:exact");
    struct kernels_options options = {
        .n_threads = 1, .limits = {GPU_QUERIES, 1, 1 << 19, 64, 64, 4, 4, 256, KV_F16}};
    struct kernels_ctx *ctx;
    struct error error = {0};
    ck_assert_int_eq(kernels->open(&options, &ctx, &error), STATUS_OK);
    size_t chunks = (1 << 19) / ATTEND_CHUNK;
    ck_assert_uint_ge(ctx->attend_floats, GPU_QUERIES * chunks * 4 * (256 + 2));
    kernels->close(ctx);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_long_context_has_room_for_a_tile);
    tcase_add_loop_test(tests, attention_in_parts_has_the_bits_of_the_reference, 0, 2);
    tcase_add_loop_test_raise_signal(tests, less_room_than_a_tile_wants_ends_the_process, SIGABRT,
                                     0, 2);
}
