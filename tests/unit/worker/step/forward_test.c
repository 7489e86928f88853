/* How a model's steps are led (worker/step/forward.h) on a device, with the tests' backend, whose marks and choices come late: what
 * is told while it computes, which error is said, how sums are taken. */
#include "worker/step/forward.h"

#include "base/buf.h"
#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "worker forward";
const double suite_timeout_s = 60;

enum { MAX_TOKENS = 16, MAX_SEQS = 2 };

static struct error error;
static struct model *model;
static struct forward forward;

static struct rank_options options_of(const char *backend, uint32_t n_ranks) {
    return (struct rank_options){.model = model,
                                 .backend = backend,
                                 .n_threads = 1,
                                 .max_tokens = MAX_TOKENS,
                                 .max_seqs = MAX_SEQS,
                                 .context_max = 64,
                                 .n_blocks = 8,
                                 .n_ranks = n_ranks};
}

static void setup(void) {
    model = tiny_gguf_open(&(struct tiny_gguf){.format = "f16", .seed = 5, .wide = true});
}

static void teardown(void) {
    forward_close(&forward); /* also fine after a failure */
    model_close(model);
}

/* Pairs that were told, in their order. */
struct told {
    uint32_t n;
    uint32_t pairs[16][2];
};

static void tell(void *context, uint32_t layer_begin, uint32_t layer_end) {
    struct told *told = context;
    ck_assert_uint_lt(told->n, 16);
    told->pairs[told->n][0] = layer_begin;
    told->pairs[told->n++][1] = layer_end;
}

static void build(struct batch *batch) {
    static uint32_t ids[] = {7, 8, 9}, blocks[] = {3};
    struct plan_row row = {.n_tokens = 3, .ids = ids, .blocks = blocks, .sample = true};
    ck_assert_int_eq(batch_init(batch, MAX_TOKENS, MAX_SEQS, 64), STATUS_OK);
    batch_build(batch, &(struct plan){.n_rows = 1, .n_tokens = 3, .rows = &row});
}

/* A mark is there at the second question. Between, what waits gets its turn. */
START_TEST(layers_are_told_as_their_marks_come) {
    static const uint32_t wanted[][2] = {{0, 0}, {0, 1}, {1, 1}, {1, 2}};
    struct rank_options options = options_of("far", (uint32_t)_i);
    struct told told = {0};
    struct batch batch;
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    ck_assert(forward_launches(&forward) == (_i == 1));
    build(&batch);
    for (int step = 0; step < 2; step++) {
        told.n = 0;
        forward_run(&forward, &batch, tell, &told);
        forward_end(&forward);
        ck_assert_uint_eq(told.n, 4);
        ck_assert_mem_eq(told.pairs, wanted, sizeof wanted);
    }
    batch_fini(&batch);
}
END_TEST

/* A choice is there at the third question. */
START_TEST(what_waits_gets_its_turn_until_tokens_are_chosen) {
    struct rank_options options = options_of("far", 1);
    struct sample_params params = {0};
    struct sample_result result;
    struct told told = {0};
    struct batch batch;
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    const struct rank *rank = &forward.rank;
    ck_assert(forward_goes_ahead(&forward));
    build(&batch);
    forward_begin(&forward, &batch, tell, &told);
    ck_assert_int_eq(rank->kernels->sample_begin(rank->ctx, rank->logits, 1, TINY_N_VOCAB, &params),
                     STATUS_OK);
    ck_assert(forward_await_choice(&forward, tell, &told));
    ck_assert_uint_eq(told.n, 2);
    for (int i = 0; i < 2; i++)
        ck_assert(told.pairs[i][0] == 0 && told.pairs[i][1] == 0); /* no layer is */
    ck_assert(!forward_await_choice(&forward, tell, &told));       /* it is there already */
    ck_assert_uint_eq(told.n, 2);
    ck_assert_int_eq(rank->kernels->sample_end(rank->ctx, &result), STATUS_OK);
    forward_end(&forward);
    batch_fini(&batch);
}
END_TEST

START_TEST(how_ranks_add_up_is_named) {
    struct rank_options options = options_of("far", 2);
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    ck_assert_str_eq(forward_sums(&forward), "host");
    forward_close(&forward);
    options.sums = SUMS_DEVICE;
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.field, "sums");
    ck_assert_ptr_nonnull(strstr(error.text, "the devices cannot add up: the backend \"far\" "
                                             "cannot"));
    options = options_of("ref", 2); /* no device */
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    ck_assert_str_eq(forward_sums(&forward), "");
}
END_TEST

/* Devices are 0 and 1. */
START_TEST(the_rank_that_cannot_be_opened_is_named) {
    struct rank_options options = options_of("far", 2);
    options.device = 1;
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_NOT_FOUND);
    ck_assert_str_eq(error.text, "rank 1 of 2: there is no device 2: far has 0 and 1");
    options.device = 2;
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_NOT_FOUND);
    ck_assert_str_eq(error.text, "there is no device 2: far has 0 and 1");
}
END_TEST

START_TEST(more_ranks_than_there_may_be_are_refused) {
    struct forward_bytes bytes;
    struct rank_options options = options_of("ref", COMM_RANKS_MAX + 1);
    ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.field, "tp");
    ck_assert_ptr_nonnull(strstr(error.text, "17 ranks are more than 16"));
    options.n_ranks = COMM_RANKS_MAX; /* of eight heads */
    ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_null(strstr(error.text, "are more than"));
}
END_TEST

/* The type of a tensor in a GGUF file: behind its name, the number of its dimensions, and these. */
static void change_type(struct buf *file, const char *name, uint32_t type) {
    char *at = memmem(file->data, file->n, name, strlen(name));
    uint32_t n_dims;
    ck_assert_ptr_nonnull(at);
    at += strlen(name);
    memcpy(&n_dims, at, sizeof n_dims);
    memcpy(at + sizeof n_dims + n_dims * sizeof(uint64_t), &type, sizeof type);
}

/* Matrices of f32, and the last one of f16. */
START_TEST(one_matrix_of_16_bits_decides_the_kv_format) {
    struct tiny_gguf tiny = {.format = "f32", .seed = 5};
    char path[] = "/tmp/tandem-mixed-XXXXXX";
    for (int mixed = 0; mixed < 2; mixed++) {
        struct buf file;
        buf_init(&file, 0);
        tiny_gguf_write(&file, &tiny);
        if (mixed)
            change_type(&file, "blk.1.ffn_down.weight", 1);
        strcpy(path + sizeof path - 7, "XXXXXX");
        int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(write(fd, file.data, file.n), (ssize_t)file.n);
        close(fd);
        model_close(model);
        enum status status = model_open(path, NULL, &model, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        ck_assert_int_eq(forward_kv_format(model, "auto"), mixed ? KV_F16 : KV_F32);
        unlink(path);
        buf_fini(&file);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, layers_are_told_as_their_marks_come, 1, 3);
    tcase_add_test(tests, what_waits_gets_its_turn_until_tokens_are_chosen);
    tcase_add_test(tests, how_ranks_add_up_is_named);
    tcase_add_test(tests, the_rank_that_cannot_be_opened_is_named);
    tcase_add_test(tests, more_ranks_than_there_may_be_are_refused);
    tcase_add_test(tests, one_matrix_of_16_bits_decides_the_kv_format);
}
