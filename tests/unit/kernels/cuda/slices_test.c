/* Which sums of ranks are cut into slices (gpu_sum_whole()): what a rank takes in decides, and so the number of ranks. That the bits are the
 * same on both sides is shown by tests/conform/kernels_ranks_test.c and kernels_parts_test.c. */
#include "kernels/cuda/context.h"
#include "tests/support/kernels_group.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdatomic.h>

const char *const suite_name = "cuda_slices";
const double suite_timeout_s = 60;

static const struct {
    uint32_t n_ranks;
    size_t floats, rounded;
} borders[] = {{2, 147456, 294912}, {3, 147456, 294912}, {4, 65536, 131072},
               {5, 40960, 81920},   {8, 18724, 37449},   {16, 7489, 14979}};

/* What the whole costs more than slices is no more than a meeting is worth, and with one number more it is more; of up to three ranks
 * as with three. */
START_TEST(the_border_is_what_a_meeting_is_worth) {
    uint32_t n = borders[_i].n_ranks;
    for (uint32_t rounds = 0; rounds < 2; rounds++) {
        size_t whole = gpu_sum_whole(n, rounds), bytes = rounds ? 2 : 4;
        ck_assert_uint_eq(whole, rounds ? borders[_i].rounded : borders[_i].floats);
        size_t three = n > 3 ? n : 3, more = (three - 1) * (three - 2) * bytes;
        ck_assert_uint_le(more * whole, 384 * 1024 * three);
        ck_assert_uint_gt(more * (whole + 1), 384 * 1024 * three);
    }
}
END_TEST

static const struct gpu_launches *real;
static _Atomic uint32_t n_whole, n_slices;

static void sum_counted(struct device_stream *stream, const struct gpu_sum_ranks *what) {
    atomic_fetch_add(what->slices ? &n_slices : &n_whole, 1);
    real->sum_ranks(stream, what);
}

/* Of four ranks: as many as they add up whole, and one more. */
static void add_up(struct member *member) {
    const struct kernels *k = member->group->kernels;
    const size_t most = borders[2].rounded + 1;
    float *x = k->alloc(member->ctx, most * sizeof *x),
          *part = k->alloc(member->ctx, most * sizeof *x);
    for (size_t more = 0; more < 2; more++) {
        k->sum(member->ctx, x, borders[2].floats + more);
        if (k->add_parts)
            k->add_parts(member->ctx, x, part, borders[2].rounded + more);
    }
    member->status = k->step_end(member->ctx);
    k->dealloc(member->ctx, x, most * sizeof *x);
    k->dealloc(member->ctx, part, most * sizeof *x);
}

START_TEST(one_number_more_is_cut_into_slices) {
    static const char *const labels[] = {"cuda-emu:exact", "cuda-emu:fast"};
    static struct gpu_launches counted;
    static const struct group_sizes sizes = {.n_vocab = 64, .columns = 64, .together = 131080};
    const uint32_t n_ranks = 4, n_kinds = 1 + (uint32_t)_i;
    struct group group;
    int row = 0;
    while (kernels_table[row] != kernels_find(labels[_i]))
        row++;
    group_open(&group, N_WAYS * row + BY_MEMORY, n_ranks, &sizes);
    real = group.members[0].ctx->gpu;
    counted = *real;
    counted.sum_ranks = sum_counted;
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        group.members[rank].ctx->gpu = &counted;
    atomic_store(&n_whole, 0);
    atomic_store(&n_slices, 0);
    group_run(&group, add_up);
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        ck_assert_int_eq(group.members[rank].status, STATUS_OK);
    ck_assert_uint_eq(atomic_load(&n_whole), n_kinds * n_ranks);
    ck_assert_uint_eq(atomic_load(&n_slices), n_kinds * n_ranks);
    group_close(&group);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, the_border_is_what_a_meeting_is_worth, 0,
                        sizeof borders / sizeof *borders);
    tcase_add_loop_test(tests, one_number_more_is_cut_into_slices, 0, 2);
}
