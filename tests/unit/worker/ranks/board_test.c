/* The step board: every rank gets every step once, whole, and none is written over while it is
 * read. */
#include "worker/ranks/board.h"

#include "base/random.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker board";
const double suite_timeout_s = 120;

enum { N_RANKS = 5, MAX_TOKENS = 40, MAX_SEQS = 6, MAX_BLOCKS = 9, N_STEPS = 500 };

static const struct board_sizes sizes = {
    .n_ranks = N_RANKS, .max_tokens = MAX_TOKENS, .max_seqs = MAX_SEQS, .max_blocks = MAX_BLOCKS};

static struct board *board_new(void) {
    size_t n;
    ck_assert_int_eq(board_bytes(&sizes, &n), STATUS_OK);
    n = (n + 63) / 64 * 64;
    struct board *board = aligned_alloc(64, n);
    ck_assert_ptr_nonnull(board);
    memset(board, 0, n);
    ck_assert(!board_fits(board, &sizes));
    board_init(board, &sizes);
    ck_assert(board_fits(board, &sizes));
    return board;
}

/* The arrays of step `index`: as many numbers as it says, all made from it. */
struct arrays {
    uint32_t ids[MAX_TOKENS], positions[MAX_TOKENS], seq_begin[MAX_SEQS + 1];
    uint32_t block_tables[MAX_SEQS * MAX_BLOCKS], rows[MAX_SEQS], variants[MAX_SEQS];
    struct board_step step;
};

static void fill(uint32_t *numbers, size_t n, struct random *random) {
    for (size_t i = 0; i < n; i++)
        numbers[i] = (uint32_t)random_next(random);
}

static void make_step(struct arrays *arrays, uint32_t index) {
    struct random random = {index};
    uint32_t n_seqs = 1 + (uint32_t)random_below(&random, MAX_SEQS);
    fill(arrays->ids, MAX_TOKENS, &random);
    fill(arrays->positions, MAX_TOKENS, &random);
    fill(arrays->seq_begin, MAX_SEQS + 1, &random);
    fill(arrays->block_tables, MAX_SEQS * MAX_BLOCKS, &random);
    fill(arrays->rows, MAX_SEQS, &random);
    fill(arrays->variants, MAX_SEQS, &random);
    arrays->step = (struct board_step){
        .batch = {.n_tokens = 1 + (uint32_t)random_below(&random, MAX_TOKENS),
                  .n_seqs = n_seqs,
                  .ids = arrays->ids,
                  .positions = arrays->positions,
                  .seq_begin = arrays->seq_begin,
                  .block_tables = arrays->block_tables,
                  .block_table_stride = 1 + (uint32_t)random_below(&random, MAX_BLOCKS),
                  .variants = index % 3 ? arrays->variants : NULL},
        .rows = arrays->rows,
        .n_rows = (uint32_t)random_below(&random, n_seqs + 1),
    };
}

static bool same(const uint32_t *a, const uint32_t *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) == 0;
}

static bool same_step(const struct board_step *a, const struct board_step *b) {
    const struct kernels_batch *x = &a->batch, *y = &b->batch;
    return x->n_tokens == y->n_tokens && x->n_seqs == y->n_seqs && a->n_rows == b->n_rows &&
           x->block_table_stride == y->block_table_stride &&
           (x->variants != NULL) == (y->variants != NULL) && same(x->ids, y->ids, x->n_tokens) &&
           same(x->positions, y->positions, x->n_tokens) &&
           same(x->seq_begin, y->seq_begin, (size_t)x->n_seqs + 1) &&
           same(x->block_tables, y->block_tables, (size_t)x->n_seqs * x->block_table_stride) &&
           same(a->rows, b->rows, a->n_rows) &&
           (!x->variants || same(x->variants, y->variants, x->n_seqs));
}

struct reader {
    struct board *board;
    pthread_t thread;
    uint32_t n_taken, n_wrong;
};

static void *read_steps(void *arg) {
    struct reader *reader = arg;
    struct event_count_patience patience = event_count_patience(N_RANKS);
    struct board_step step;
    uint32_t turn = 0;
    while (board_take(reader->board, &turn, &patience, &step)) {
        struct arrays wanted;
        make_step(&wanted, reader->n_taken++);
        reader->n_wrong += !same_step(&step, &wanted.step);
        board_done(reader->board);
    }
    return NULL;
}

START_TEST(every_rank_takes_every_step_whole_and_once) {
    struct board *board = board_new();
    struct reader readers[N_RANKS - 1] = {{0}};
    struct event_count_patience patience = event_count_patience(N_RANKS);
    struct arrays arrays;
    for (int i = 0; i < N_RANKS - 1; i++) {
        readers[i].board = board;
        ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_steps, &readers[i]), 0);
    }
    for (uint32_t index = 0; index < N_STEPS; index++) {
        make_step(&arrays, index);
        ck_assert(board_publish(board, &arrays.step, &patience));
    }
    make_step(&arrays, N_STEPS); /* written when the one before is done everywhere */
    ck_assert(board_publish(board, &arrays.step, &patience));
    board_close(board);
    ck_assert(!board_publish(board, &arrays.step, &patience));
    for (int i = 0; i < N_RANKS - 1; i++) {
        ck_assert_int_eq(pthread_join(readers[i].thread, NULL), 0);
        ck_assert_uint_ge(readers[i].n_taken, N_STEPS);
        ck_assert_uint_eq(readers[i].n_wrong, 0);
    }
    free(board);
}
END_TEST

START_TEST(a_board_of_other_sizes_does_not_fit) {
    struct board *board = board_new();
    struct board_sizes others[4] = {sizes, sizes, sizes, sizes};
    others[0].n_ranks++;
    others[1].max_tokens--;
    others[2].max_seqs++;
    others[3].max_blocks++;
    for (int i = 0; i < 4; i++)
        ck_assert(!board_fits(board, &others[i]));
    free(board);
}
END_TEST

START_TEST(sizes_that_memory_cannot_be_are_refused) {
    struct board_sizes huge = {
        .n_ranks = 2, .max_tokens = UINT32_MAX, .max_seqs = UINT32_MAX, .max_blocks = UINT32_MAX};
    size_t n;
    ck_assert_int_eq(board_bytes(&huge, &n), STATUS_LIMIT);
    /* All words together may be a quarter of what can be addressed. */
    huge = (struct board_sizes){
        .n_ranks = 2, .max_tokens = 1, .max_seqs = 1u << 30, .max_blocks = (1u << 30) - 4};
    ck_assert_int_eq(board_bytes(&huge, &n), STATUS_OK);
    ck_assert_uint_le(n, SIZE_MAX / 4);
    huge.max_blocks++;
    ck_assert_int_eq(board_bytes(&huge, &n), STATUS_LIMIT);
    huge.max_blocks = 1u << 30;
    ck_assert_int_eq(board_bytes(&huge, &n), STATUS_LIMIT);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_rank_takes_every_step_whole_and_once);
    tcase_add_test(tests, a_board_of_other_sizes_does_not_fit);
    tcase_add_test(tests, sizes_that_memory_cannot_be_are_refused);
}
