/* A rank alone (worker/ranks/rank.h): what it takes when it opens, what it leaves when that fails, and steps as large as may be. */
#include "worker/ranks/rank.h"

#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "worker/core/engine.h"
#include "worker/ranks/group.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

const char *const suite_name = "worker rank open";
const double suite_timeout_s = 60;

enum { MAX_TOKENS = 60, MAX_SEQS = 2, N_BLOCKS = 8 };

static struct error error;

static struct rank_options options_of(const struct model *model, const char *backend,
                                      uint32_t n_ranks) {
    return (struct rank_options){.model = model,
                                 .backend = backend,
                                 .n_threads = 1,
                                 .max_tokens = MAX_TOKENS,
                                 .max_seqs = MAX_SEQS,
                                 .context_max = 64,
                                 .n_blocks = N_BLOCKS,
                                 .n_ranks = n_ranks,
                                 .sums = SUMS_HOST};
}

/* Its memory is not there: the kernel refuses the size (0), or the file (1). */
START_TEST(a_shared_pool_that_cannot_be_had_leaves_nothing) {
    struct model *model =
        tiny_gguf_open(&(struct tiny_gguf){.format = "f32", .seed = 1, .large_heads = true});
    struct rank_options options = options_of(model, "ref", 1);
    struct rank_bytes bytes;
    struct rank rank;
    char wanted[128];
    options.kv_format = KV_F32;
    options.kv_shared = true;
    ck_assert_int_eq(rank_measure(&options, &bytes, &error), STATUS_OK);
    size_t of_block = bytes.kv_per_token * KV_BLOCK_TOKENS;
    ck_assert_uint_gt(of_block * UINT32_MAX, ((size_t)1 << 47) - (1 << 20)); /* all addresses */
    options.n_blocks = _i == 0 ? UINT32_MAX : (uint32_t)(((size_t)105 << 40) / of_block);
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    ck_assert_ptr_ne(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    ck_assert(_i == 0 || setrlimit(RLIMIT_FSIZE, &limit) == 0);
    unsigned n_files = suite_count_files();
    enum status status = rank_open(&rank, &options, &error);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(status, STATUS_NOMEM);
    snprintf(wanted, sizeof wanted, "no memory for %zu bytes of KV cache and %zu of activations",
             of_block * options.n_blocks, bytes.scratch);
    ck_assert_str_eq(error.text, wanted);
    ck_assert_uint_eq(suite_count_files(), n_files);
    model_close(model);
}
END_TEST

/* Logits of a step of MAX_TOKENS tokens, and of one that decodes. */
static void compute(const char *backend, float logits[2][TINY_N_VOCAB]) {
    struct model *model =
        tiny_gguf_open(&(struct tiny_gguf){.format = "f16", .seed = 5, .wide = true});
    struct rank_options options = options_of(model, backend, 2);
    uint32_t ids[MAX_TOKENS + 1], blocks[] = {5, 2, 7, 0};
    struct forward forward;
    struct batch batch;
    enum status status = forward_open(&forward, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_ptr_eq(forward.kv_of_ranks[0].ctx, forward.rank.ctx);
    ck_assert_ptr_eq(forward.kv_of_ranks[1].ctx, forward.others.threads[0].rank.ctx);
    ck_assert_int_eq(batch_init(&batch, MAX_TOKENS, MAX_SEQS, 64), STATUS_OK);
    for (uint32_t i = 0; i <= MAX_TOKENS; i++)
        ids[i] = (i * 37 + 11) % 256;
    for (uint32_t step = 0; step < 2; step++) {
        struct plan_row row = {.begin = step * MAX_TOKENS,
                               .n_tokens = step == 0 ? MAX_TOKENS : 1,
                               .ids = ids + (size_t)step * MAX_TOKENS,
                               .blocks = blocks,
                               .sample = true};
        batch_build(&batch, &(struct plan){.n_rows = 1, .n_tokens = row.n_tokens, .rows = &row});
        forward_run(&forward, &batch, NULL, NULL);
        forward_end(&forward);
        forward.rank.kernels->get(forward.rank.ctx, logits[step], forward.rank.logits,
                                  sizeof logits[step]);
    }
    batch_fini(&batch);
    forward_close(&forward);
    model_close(model);
}

/* Where the tests' backend is, ranks on devices: what they tell each other is staged. */
START_TEST(ranks_do_steps_as_large_as_may_be) {
    static float host[2][TINY_N_VOCAB], device[2][TINY_N_VOCAB];
    compute("ref", host);
    compute(kernels_find("far") ? "far" : "ref", device);
    ck_assert_mem_eq(host, device, sizeof host);
}
END_TEST

/* The family that names its tokens itself needs no kernels. */
START_TEST(a_model_without_arithmetic_has_no_kernels) {
    struct model *model;
    struct forward forward;
    struct batch batch;
    uint32_t ids[] = {7, 8, 9}, blocks[] = {3};
    struct plan_row row = {.n_tokens = 3, .ids = ids, .blocks = blocks, .sample = true};
    ck_assert_int_eq(model_open("hash", NULL, &model, &error), STATUS_OK);
    struct rank_options options = options_of(model, "none", 1);
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    ck_assert_ptr_null(forward.rank.kernels);
    ck_assert(!rank_marks(&forward.rank));
    ck_assert(!forward_launches(&forward) && !forward_goes_ahead(&forward));
    ck_assert_uint_eq(forward_rehearse(&forward, 1), 0);
    ck_assert_str_eq(forward_sums(&forward), "");
    ck_assert_int_eq(batch_init(&batch, MAX_TOKENS, MAX_SEQS, 64), STATUS_OK);
    batch_build(&batch, &(struct plan){.n_rows = 1, .n_tokens = 3, .rows = &row});
    forward_run(&forward, &batch, NULL, NULL);
    forward_end(&forward);
    ck_assert_uint_ge(forward.rank.forced[0], 256);
    batch_fini(&batch);
    forward_close(&forward);
    model_close(model);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_shared_pool_that_cannot_be_had_leaves_nothing, 0, 2);
    tcase_add_test(tests, ranks_do_steps_as_large_as_may_be);
    tcase_add_test(tests, a_model_without_arithmetic_has_no_kernels);
}
