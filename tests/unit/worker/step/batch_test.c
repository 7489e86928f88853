/* A plan's rows as the kernels' arrays. */
#include "worker/step/batch.h"

#include "tests/support/suite.h"
#include "worker/core/engine.h"

const char *const suite_name = "worker batch";
const double suite_timeout_s = 60;

enum { TOKENS = 32, SEQS = 3, CONTEXT = 3 * KV_BLOCK_TOKENS + 1 };

static struct batch batch;

static void setup(void) {
    ck_assert_int_eq(batch_init(&batch, TOKENS, SEQS, CONTEXT), STATUS_OK);
}

static void teardown(void) {
    batch_fini(&batch);
}

static void check_words(const uint32_t *words, const uint32_t *right, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(words[i] == right[i], "word %u is %u, not %u", i, words[i], right[i]);
}

START_TEST(rows_lie_one_behind_the_other) {
    static const uint32_t ids[] = {70, 71, 72, 73}, blocks[] = {5, 6, 7, 8};
    struct plan_row rows[] = {
        {.slot = 4, .begin = KV_BLOCK_TOKENS, .n_tokens = 1, .variant = 2, .sample = true},
        {.slot = 9, .begin = 0, .n_tokens = 4, .variant = 1},
        {.slot = 2, .begin = KV_BLOCK_TOKENS - 2, .n_tokens = 2, .variant = 3, .sample = true}};
    struct plan plan = {.n_rows = 3, .n_tokens = 7, .rows = rows};
    for (int i = 0; i < 3; i++) {
        rows[i].ids = ids;
        rows[i].blocks = blocks + i;
    }
    batch_build(&batch, &plan);
    const struct kernels_batch *view = &batch.view;
    ck_assert_uint_eq(view->n_tokens, 7);
    ck_assert_uint_eq(view->n_seqs, 3);
    check_words(view->ids, (uint32_t[]){70, 70, 71, 72, 73, 70, 71}, 7);
    check_words(view->positions,
                (uint32_t[]){KV_BLOCK_TOKENS, 0, 1, 2, 3, KV_BLOCK_TOKENS - 2, KV_BLOCK_TOKENS - 1},
                7);
    check_words(view->seq_begin, (uint32_t[]){0, 1, 5, 7}, 4);
    check_words(view->variants, (uint32_t[]){2, 1, 3}, 3);
    ck_assert_uint_eq(view->block_table_stride, 2); /* the longest row's: 17 tokens of 16 */
    check_words(view->block_tables, (uint32_t[]){5, 6}, 2);
    check_words(view->block_tables + 2, (uint32_t[]){6}, 1);
    check_words(view->block_tables + 4, (uint32_t[]){7}, 1);
    ck_assert_uint_eq(batch.n_rows, 2);
    check_words(batch.rows, (uint32_t[]){0, 6}, 2); /* a row's last token chooses */
    check_words(batch.slots, (uint32_t[]){4, 2}, 2);
    plan.n_rows = plan.n_tokens = 1;
    batch_build(&batch, &plan); /* nothing is left of the step before */
    ck_assert_uint_eq(view->n_seqs, 1);
    ck_assert_uint_eq(batch.n_rows, 1);
}
END_TEST

/* What it chooses is on the device then. */
START_TEST(a_step_ahead_has_no_ids) {
    static const uint32_t id = 70, blocks[] = {5, 6};
    struct plan_row row = {.begin = KV_BLOCK_TOKENS - 1, .n_tokens = 1, .blocks = blocks};
    struct plan plan = {.n_rows = 1, .n_tokens = 1, .rows = &row};
    batch_build(&batch, &plan);
    ck_assert_ptr_null(batch.view.ids);
    ck_assert_uint_eq(batch.view.positions[0], KV_BLOCK_TOKENS - 1);
    ck_assert_uint_eq(batch.view.block_table_stride, 1);
    ck_assert_uint_eq(batch.n_rows, 0);
    row.ids = &id;
    batch_build(&batch, &plan);
    ck_assert_uint_eq(batch.view.ids[0], 70);
}
END_TEST

START_TEST(as_many_tokens_rows_and_blocks_as_were_asked_for) {
    static const uint32_t ids[TOKENS] = {1}, blocks[] = {1, 2, 3, 4};
    struct plan_row rows[SEQS];
    struct plan plan = {.n_rows = SEQS, .n_tokens = TOKENS, .rows = rows};
    for (uint32_t i = 0; i < SEQS; i++) {
        uint32_t n = i < SEQS - 1 ? 1 : TOKENS - (SEQS - 1);
        rows[i] =
            (struct plan_row){.slot = i,
                              .begin = i == 0 ? 0 : CONTEXT - n, /* the longest are not the first */
                              .n_tokens = n,
                              .ids = ids,
                              .blocks = blocks,
                              .sample = true};
    }
    batch_build(&batch, &plan);
    ck_assert_uint_eq(batch.view.block_table_stride, 4);
    ck_assert_uint_eq(batch.n_rows, SEQS);
    check_words(batch.view.block_tables + 4 * (SEQS - 1), blocks, 4);
    check_words(batch.rows, (uint32_t[]){0, 1, TOKENS - 1}, SEQS);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, rows_lie_one_behind_the_other);
    tcase_add_test(tests, a_step_ahead_has_no_ids);
    tcase_add_test(tests, as_many_tokens_rows_and_blocks_as_were_asked_for);
}
