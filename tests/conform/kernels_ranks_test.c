/* What ranks compute together on devices of their own (meet, sum and gather of struct kernels), over the backends that have it and both
 * ways in which ranks meet, the second by the NCCL of the tests: the sums
 * are those of the ranks' order, bit for bit, whatever their length and the number of ranks; columns lie where they belong; and a
 * rank that is late, or asks for something else, is a failure of those that wait for it. */
#include "kernels/kernels.h"
#include "tests/support/kernels_group.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_ranks";
const double suite_timeout_s = 240;

enum { N_VOCAB = 613, STAGE = 4096, COLUMNS = 411 };

static float sum_of(uint32_t n_ranks, uint32_t turn, size_t i) {
    float sum = group_number(0, turn, i);
    for (uint32_t rank = 1; rank < n_ranks; rank++)
        sum += group_number(rank, turn, i);
    return sum;
}

static const struct group_sizes sizes = {.n_vocab = N_VOCAB, .columns = COLUMNS, .together = STAGE};

/* One, some that are no four, as many as every rank adds up alone and one more, a stage and one more, and several of these. */
static const size_t lengths[] = {1, 577, 16, 0, STAGE, STAGE + 1, 4 * STAGE + 3};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, N_MOST = 4 * STAGE + 4 };

/* The numbers behind the sum stay as they are; so do those before it. `first`: where it begins. */
static bool sum_is_right(const struct member *member, float *at, size_t first, size_t n,
                         uint32_t turn) {
    const struct kernels *k = member->group->kernels;
    static _Thread_local float x[N_MOST + 2];
    for (size_t i = 0; i < n + first + 1; i++)
        x[i] = group_number(member->rank, turn, i);
    k->put(member->ctx, at, x, (n + first + 1) * sizeof *x);
    k->sum(member->ctx, at + first, n);
    k->get(member->ctx, x, at, (n + first + 1) * sizeof *x);
    for (size_t i = 0; i < n + first + 1; i++) {
        bool summed = i >= first && i < first + n;
        float right =
            summed ? sum_of(member->group->n, turn, i) : group_number(member->rank, turn, i);
        if (memcmp(&x[i], &right, sizeof right) != 0)
            return false;
    }
    return true;
}

static void add_up(struct member *member) {
    const struct kernels *k = member->group->kernels;
    float *at = k->alloc(member->ctx, (N_MOST + 2) * sizeof(float));
    for (uint32_t turn = 0; turn < 2 * N_LENGTHS; turn++)
        member->is_right &=
            sum_is_right(member, at, turn % 3 == 1, lengths[turn % N_LENGTHS], turn);
    k->dealloc(member->ctx, at, (N_MOST + 2) * sizeof(float));
}

START_TEST(sums_have_the_bits_of_the_ranks_order) {
    static const uint32_t n_ranks[] = {2, 3, 4, 8};
    for (uint32_t i = 0; i < sizeof n_ranks / sizeof *n_ranks; i++)
        group_try(_i, n_ranks[i], &sizes, add_up);
}
END_TEST

/* Steps without a look at what they come to: sums one behind the other, each of the last one's, on the same arrays. */
enum { N_CHAIN = 40, CHAIN_FLOATS = 1500 };

static void chain(struct member *member) {
    const struct kernels *k = member->group->kernels;
    static _Thread_local float x[CHAIN_FLOATS];
    const uint32_t n = member->group->n;
    float *at = k->alloc(member->ctx, sizeof x);
    for (size_t i = 0; i < CHAIN_FLOATS; i++)
        x[i] = group_number(member->rank, 0, i);
    k->put(member->ctx, at, x, sizeof x);
    for (uint32_t turn = 0; turn < N_CHAIN; turn++)
        k->sum(member->ctx, at, turn % 2 ? CHAIN_FLOATS : CHAIN_FLOATS / 2);
    k->get(member->ctx, x, at, sizeof x);
    for (size_t i = 0; i < CHAIN_FLOATS; i++) {
        float right = group_number(member->rank, 0, i);
        for (uint32_t turn = 0; turn < N_CHAIN; turn++) {
            if (turn % 2 == 0 && i >= CHAIN_FLOATS / 2)
                continue;
            bool first = turn == 0 || (turn == 1 && i >= CHAIN_FLOATS / 2);
            float sum = first ? group_number(0, 0, i) : right;
            for (uint32_t rank = 1; rank < n; rank++)
                sum += first ? group_number(rank, 0, i) : right;
            right = sum;
        }
        member->is_right &= memcmp(&x[i], &right, sizeof right) == 0;
    }
    k->dealloc(member->ctx, at, sizeof x);
}

START_TEST(sums_of_sums_wait_for_each_other) {
    for (uint32_t n = 2; n <= 4; n++)
        group_try(_i, n, &sizes, chain);
}
END_TEST

/* A step of two sums again and again, which is a graph from the second one on: each time of other numbers. */
enum { N_REPLAYS = 1000, N_STEP = 66 };

static void repeat_steps(struct member *member) {
    static const uint32_t zero[1] = {0}, seq_begin[2] = {0, 1};
    const struct kernels *k = member->group->kernels;
    float x[2 * N_STEP], *at = k->alloc(member->ctx, sizeof x);
    for (uint32_t turn = 0; turn < N_REPLAYS; turn++) {
        struct kernels_step step = {.batch = {.n_tokens = 1,
                                              .n_seqs = 1,
                                              .ids = zero,
                                              .positions = zero,
                                              .seq_begin = seq_begin,
                                              .block_tables = zero,
                                              .block_table_stride = 1},
                                    .rows = zero,
                                    .n_rows = 1};
        for (size_t i = 0; i < 2 * N_STEP; i++)
            x[i] = group_number(member->rank, turn, i);
        k->put(member->ctx, at, x, sizeof x);
        k->step_begin(member->ctx, &step);
        k->sum(member->ctx, at, N_STEP);
        k->sum(member->ctx, at + N_STEP, N_STEP);
        member->is_right &= k->step_end(member->ctx) == STATUS_OK;
        k->get(member->ctx, x, at, sizeof x);
        for (size_t i = 0; i < 2 * N_STEP; i++)
            member->is_right &= x[i] == sum_of(member->group->n, turn, i);
    }
    k->dealloc(member->ctx, at, sizeof x);
}

START_TEST(a_step_that_is_a_graph_has_its_bits_a_thousand_times) {
    group_try(_i, 2, &sizes, repeat_steps);
}
END_TEST

/* As many as every one of so many ranks adds up alone, and so many more that each adds up a slice, a multiple of four among them. Such a
 * context has larger stages. */
static const struct {
    uint32_t n_ranks;
    size_t n;
} borders[] = {
    {8, 18724},
#ifndef FEW
    {3, 147456},
#endif
};
enum { N_BORDERS = sizeof borders / sizeof *borders };

static void add_up_slices(struct member *member) {
    const struct kernels *k = member->group->kernels;
    static const size_t more[] = {0, 1, 4, 5};
    const size_t border = borders[member->group->n != borders[0].n_ranks].n, n_most = border + 6;
    const size_t n_bytes = n_most * sizeof(float);
    float *x = malloc(n_bytes), *at = k->alloc(member->ctx, n_bytes);
    for (uint32_t turn = 0; turn < 4; turn++) {
        size_t n = border + more[turn];
        for (size_t i = 0; i < n_most; i++)
            x[i] = group_number(member->rank, turn, i);
        k->put(member->ctx, at, x, n_bytes);
        k->sum(member->ctx, at, n);
        k->get(member->ctx, x, at, n_bytes);
        for (size_t i = 0; i < n_most; i++)
            member->is_right &= x[i] == (i < n ? sum_of(member->group->n, turn, i)
                                               : group_number(member->rank, turn, i));
    }
    k->dealloc(member->ctx, at, n_bytes);
    free(x);
}

START_TEST(long_sums_are_shared_out) {
    struct group_sizes long_sizes = sizes;
    for (uint32_t i = 0; i < N_BORDERS; i++) {
        long_sizes.together = borders[i].n + 6;
        group_try(_i, borders[i].n_ranks, &long_sizes, add_up_slices);
    }
}
END_TEST

/* Columns that differ in number, one rank with none, and a column that nobody has; more rows than a stage has room for. */
static const size_t columns_of[4] = {200, 1, 0, 411};
enum { N_ROWS = 2 * (STAGE / N_VOCAB) + 1 };

static void bring_columns(struct member *member) {
    const struct kernels *k = member->group->kernels;
    const size_t columns = columns_of[member->rank], n_out = (size_t)N_ROWS * N_VOCAB;
    const size_t n_part = N_ROWS * columns + 1;
    float *part = malloc(n_part * sizeof *part), *out = malloc(n_out * sizeof *out);
    float *at_part = k->alloc(member->ctx, n_part * sizeof *part);
    float *at_out = k->alloc(member->ctx, n_out * sizeof *out);
    size_t begin = 0;
    for (uint32_t rank = 0; rank < member->rank; rank++)
        begin += columns_of[rank];
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < n_part; i++)
            part[i] = group_number(member->rank, turn, i);
        k->put(member->ctx, at_part, part, n_part * sizeof *part);
        k->gather(member->ctx, member->rank == 0 ? at_out : NULL, N_VOCAB, at_part, N_ROWS, begin,
                  columns);
    }
    k->get(member->ctx, out, at_out, n_out * sizeof *out);
    for (size_t row = 0; row < N_ROWS && member->rank == 0; row++) {
        const float *at = out + row * N_VOCAB;
        for (uint32_t rank = 0; rank < 4; at += columns_of[rank], rank++)
            for (size_t c = 0; c < columns_of[rank]; c++)
                member->is_right &= at[c] == group_number(rank, 2, row * columns_of[rank] + c);
        member->is_right &= at[0] == 0.0f; /* nobody's, as alloc() made it */
    }
    k->dealloc(member->ctx, at_part, n_part * sizeof *part);
    k->dealloc(member->ctx, at_out, n_out * sizeof *out);
    free(part);
    free(out);
}

START_TEST(columns_of_all_ranks_come_to_the_first) {
    group_try(_i, 4, &sizes, bring_columns);
}
END_TEST

/* Rank 1 does nothing, or adds up one number more. */
static void wait_for_nobody(struct member *member) {
    const struct kernels *k = member->group->kernels;
    float *at = k->alloc(member->ctx, 256 * sizeof *at);
    if (member->rank != 1)
        k->sum(member->ctx, at, 100);
    member->status = k->step_end(member->ctx);
    k->dealloc(member->ctx, at, 256 * sizeof *at);
}

static void disagree(struct member *member) {
    const struct kernels *k = member->group->kernels;
    float *at = k->alloc(member->ctx, 256 * sizeof *at);
    k->sum(member->ctx, at, 100 + member->rank % 2);
    member->status = k->step_end(member->ctx);
    k->dealloc(member->ctx, at, 256 * sizeof *at);
}

START_TEST(a_late_rank_and_another_operation_are_failures) {
    struct group_sizes impatient = sizes;
    struct group group;
    impatient.wait_ms = 300;
    group_open(&group, _i, 3, &impatient);
    group_run(&group, wait_for_nobody);
    for (uint32_t rank = 0; rank < 3; rank++)
        ck_assert_int_eq(group.members[rank].status, rank == 1 ? STATUS_OK : STATUS_IO);
    group_close(&group);
    group_open(&group, _i, 2, &sizes);
    group_run(&group, disagree);
    for (uint32_t rank = 0; rank < 2; rank++)
        ck_assert_int_eq(group.members[rank].status, STATUS_IO);
    group_close(&group);
}
END_TEST

/* Rank 1 has columns that lie behind the rows of rank 0, which must not write there. */
static void bring_too_many(struct member *member) {
    const struct kernels *k = member->group->kernels;
    const size_t stride = member->rank == 0 ? 100 : N_VOCAB;
    float *part = k->alloc(member->ctx, 50 * sizeof *part);
    float *out = k->alloc(member->ctx, 100 * sizeof *out);
    k->gather(member->ctx, member->rank == 0 ? out : NULL, stride, part, 1, member->rank * 90, 50);
    member->status = k->step_end(member->ctx);
    k->dealloc(member->ctx, part, 50 * sizeof *part);
    k->dealloc(member->ctx, out, 100 * sizeof *out);
}

START_TEST(columns_that_are_none_are_a_failure) {
    struct group group;
    group_open(&group, _i, 2, &sizes);
    group_run(&group, bring_too_many);
    ck_assert_int_eq(group.members[0].status, STATUS_IO);
    group_close(&group);
}
END_TEST

/* A group that has parted can meet again, in another order, and by memory what met by an id; one of another size cannot. */
START_TEST(ranks_part_and_meet_again) {
    struct group group;
    struct error error;
    group_open(&group, _i, 2, &sizes);
    group_run(&group, add_up);
    group.way = BY_MEMORY;
    for (uint32_t rank = 0; rank < 2; rank++)
        ck_assert_int_eq(group.kernels->meet(group.members[rank].ctx, rank, 0, NULL, NULL, &error),
                         STATUS_OK);
    struct kernels_ctx *first = group.members[0].ctx;
    group.members[0].ctx = group.members[1].ctx;
    group.members[1].ctx = first;
    group_meet(&group);
    group_run(&group, add_up);
    ck_assert(group.members[0].is_right && group.members[1].is_right);
    group_close(&group);
}
END_TEST

void suite_add(TCase *tests) {
    for (int i = 0; kernels_table[i]; i++) {
        int from = N_WAYS * i, to = from + group_ways(kernels_table[i]);
        tcase_add_loop_test(tests, sums_have_the_bits_of_the_ranks_order, from, to);
        tcase_add_loop_test(tests, sums_of_sums_wait_for_each_other, from, to);
        tcase_add_loop_test(tests, a_step_that_is_a_graph_has_its_bits_a_thousand_times, from, to);
        tcase_add_loop_test(tests, long_sums_are_shared_out, from, to);
        tcase_add_loop_test(tests, columns_of_all_ranks_come_to_the_first, from, to);
        tcase_add_loop_test(tests, columns_that_are_none_are_a_failure, from, to);
        tcase_add_loop_test(tests, a_late_rank_and_another_operation_are_failures, from, to);
        tcase_add_loop_test(tests, ranks_part_and_meet_again, from, to);
    }
}
