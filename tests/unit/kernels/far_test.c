/* The backend `far` sees what it is there to see: a host that touches its memory, operations that
 * are given other memory, and batches outside of a step. */
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "kernels_far";
const double suite_timeout_s = 60;

static const struct kernels_limits limits = {.max_tokens = 64,
                                             .max_seqs = 64,
                                             .max_context = 64,
                                             .max_dim = 64,
                                             .n_vocab = 64,
                                             .n_heads = 2,
                                             .n_kv_heads = 1,
                                             .head_dim = 32,
                                             .kv_format = KV_F16};

static struct subject far_open(void) {
    struct subject subject = {.kernels = kernels_find("far"), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct error error;
    ck_assert_ptr_nonnull(subject.kernels);
    ck_assert(!kernels_on_host(subject.kernels));
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    return subject;
}

/* write(2) answers EFAULT where the process itself would die. */
START_TEST(the_host_can_read_and_write_no_byte_of_it) {
    struct subject far = far_open();
    int ends[2];
    size_t n = 10000;
    unsigned char *memory = subject_bytes(&far, NULL, n);
    ck_assert_int_eq(pipe(ends), 0);
    for (size_t at = 0; at < n; at += 4096) {
        errno = 0;
        ck_assert_int_eq(write(ends[1], memory + at, 1), -1);
        ck_assert_int_eq(errno, EFAULT);
    }
    close(ends[0]);
    close(ends[1]);
    subject_close(&far);
}
END_TEST

/* One of the calls below aborts the process. */
START_TEST(operations_take_no_other_memory) {
    struct subject far = far_open();
    struct random random = {1};
    struct weight_tensor tensor = random_tensor(&random, "q4_1", 64, 64);
    float host[64] = {0};
    size_t packed;
    struct weight weight = subject_pack_tensor(&far, &tensor, &packed);
    float *x = subject_floats(&far, NULL, 64), *out = subject_floats(&far, NULL, 64);
    const struct kernels *k = far.kernels;
    struct kernels_ctx *ctx = far.ctx;
    uint32_t id = 3, row = 0;
    struct kernels_step step = subject_begin_ids(&far, &id, 1);
    if (_i == 0)
        k->norm(ctx, out, host, x, 1e-5f, 1, 64);
    if (_i == 1)
        k->norm(ctx, out, x, x, 1e-5f, 2, 64); /* a row more than there is memory */
    weight.bias = host;
    if (_i == 2)
        k->linear(ctx, out, 64, x, &weight, 1, EPILOGUE_NONE);
    weight.bias = NULL;
    if (_i == 3)
        k->linear(ctx, host, 64, x, &weight, 1, EPILOGUE_NONE);
    struct kernels_batch own = step.batch;
    own.ids = &id;
    if (_i == 4)
        k->embed(ctx, out, &weight, &own, 0);
    if (_i == 5)
        k->gather_rows(ctx, out, x, &row, 1, 64);
    if (_i == 6)
        k->put(ctx, host, host, sizeof host);
    if (_i == 7)
        k->get(ctx, host, host, sizeof host);
    if (_i == 8)
        subject_begin_ids(&far, &id, 1);
    k->embed(ctx, out, &weight, &step.batch, 0);
    subject_end(&far);
    if (_i == 9)
        k->embed(ctx, out, &weight, &step.batch, 0);
    if (_i == 10)
        subject_end(&far);
    if (_i == 11)
        k->dealloc(ctx, x, 63 * sizeof *x);
    subject_unpack(&far, &weight, packed);
    subject_close(&far);
    tensor_free(&tensor);
    if (_i == 12) /* nothing was wrong */
        raise(SIGABRT);
}
END_TEST

START_TEST(a_step_has_counts_and_arrays_of_its_own) {
    struct subject far = far_open();
    uint32_t ids[] = {5, 6, 7}, zeros[3] = {0}, seq_begin[] = {0, 1, 2, 3}, rows[] = {2, 1, 2};
    struct kernels_batch batch = {.n_tokens = 3,
                                  .n_seqs = 3,
                                  .ids = ids,
                                  .positions = zeros,
                                  .seq_begin = seq_begin,
                                  .block_tables = zeros,
                                  .block_table_stride = 1};
    struct kernels_step step = subject_begin(&far, &batch, rows, 3);
    uint32_t found[4];
    ck_assert_uint_eq(step.batch.n_tokens, 8);
    ck_assert_uint_eq(step.n_rows, 4);
    ck_assert_ptr_ne(step.batch.ids, ids);
    memset(ids, 0xff, sizeof ids);
    memset(rows, 0xff, sizeof rows);
    subject_read(&far, found, step.batch.ids, 3 * sizeof *found);
    ck_assert_uint_eq(found[2], 7);
    subject_read(&far, found, step.rows, sizeof found);
    ck_assert_uint_eq(found[0], 2);
    ck_assert_uint_eq(found[3], 0); /* padding is some token */
    subject_end(&far);
    subject_read(&far, found, step.batch.ids, sizeof found);
    ck_assert_uint_eq(found[0], 0xeeeeeeee);
    subject_close(&far);
}
END_TEST

START_TEST(marks_are_answered_late_and_a_broken_device_says_so) {
    setenv("TANDEM_FAR_FAIL_STEP", "2", 1);
    struct subject far = far_open();
    uint32_t id = 3;
    subject_begin_ids(&far, &id, 1);
    ck_assert_uint_eq(far.kernels->marked(far.ctx), 0);
    far.kernels->mark(far.ctx, 1);
    far.kernels->mark(far.ctx, 2);
    uint32_t n_asked = 0, marked;
    do {
        marked = far.kernels->marked(far.ctx);
        ck_assert_uint_le(marked, 2);
        n_asked++;
    } while (marked < 2);
    ck_assert_uint_ge(n_asked, 3);
    subject_end(&far);
    subject_begin_ids(&far, &id, 1);
    ck_assert_uint_eq(far.kernels->marked(far.ctx), UINT32_MAX);
    ck_assert_int_eq(far.kernels->step_end(far.ctx), STATUS_IO);
    subject_close(&far);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_host_can_read_and_write_no_byte_of_it);
    tcase_add_loop_test_raise_signal(tests, operations_take_no_other_memory, SIGABRT, 0, 13);
    tcase_add_test(tests, a_step_has_counts_and_arrays_of_its_own);
    tcase_add_test(tests, marks_are_answered_late_and_a_broken_device_says_so);
}
