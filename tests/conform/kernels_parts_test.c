/* What ranks on devices add to a vector that all of them have (add_parts of struct kernels), over the backends of fast numerics and
 * both ways in which ranks meet: parts cross as bfloat16, and the sum has the bits of this file's own arithmetic at every length and
 * number of ranks. Backends of exact numerics have no such thing. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "tests/support/kernels_group.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_parts";
const double suite_timeout_s = 240;

enum { N_VOCAB = 64, STAGE = 4096 };

static const struct group_sizes sizes = {.n_vocab = N_VOCAB, .columns = N_VOCAB, .together = STAGE};

/* The nearest number whose lower 16 bits are zero: of the two around y, or the one of an even upper half. */
static float rounded(float y) {
    uint32_t bits, below;
    if (isnan(y))
        return y;
    memcpy(&bits, &y, sizeof bits);
    uint32_t rest = bits % 65536;
    below = bits - rest;
    if (rest > 32768 || (rest == 32768 && below / 65536 % 2 == 1))
        below += 65536;
    memcpy(&y, &below, sizeof y);
    return y;
}

/* Mostly numbers like others', and what is hard to round: halves between two, up and down to the even one; what is beyond the largest
 * bfloat16; nothing at all, of both signs; what is no number; of each 32, one of few bits or that comes to such a sum. */
static float part(uint32_t rank, uint32_t turn, size_t i) {
    static const float hard[] = {0x1.01p0f,     0x1.03p0f, -0x1.01p0f, -0x1.03p0f, 0x1.010002p0f,
                                 0x1.00fffep0f, FLT_MAX,   -0.0f,      0.0f,       0x1.fffffep9f};
    if (i % 32 == 9)
        return group_number(rank, turn, i) * FLT_MIN;
    enum { N_HARD = sizeof hard / sizeof *hard };
    uint64_t drawn = mix64(((uint64_t)turn << 40) ^ ((uint64_t)rank << 32) ^ i ^ 0x5eed);
    if (i % 1013 == 1012 && rank == 1)
        return drawn % 2 ? INFINITY : NAN;
    return drawn % 8 == 0 ? hard[drawn / 8 % N_HARD] : group_number(rank, turn, i);
}

/* What x is before, the same at all ranks. */
static float stream(uint32_t turn, size_t i) {
    return i % 32 == 9 ? 0.0f : group_number(77, turn, i);
}

/* Denormals are zero for backends, and what they make is none. */
static float plus(float a, float b) {
    a = fabsf(a) < FLT_MIN ? copysignf(0.0f, a) : a;
    b = fabsf(b) < FLT_MIN ? copysignf(0.0f, b) : b;
    return fabsf(a + b) < FLT_MIN ? copysignf(0.0f, a + b) : a + b;
}

static float right(uint32_t n_ranks, uint32_t turn, size_t i) {
    float sum = rounded(part(0, turn, i));
    for (uint32_t rank = 1; rank < n_ranks; rank++)
        sum = plus(sum, rounded(part(rank, turn, i)));
    return plus(stream(turn, i), rounded(sum));
}

static bool is_same(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Two arrays of a rank's device with room for `most` numbers, and what goes into them. */
struct arrays {
    size_t n_bytes;
    float *x, *part; /* owned, of the device */
    float *host;     /* owned */
};

static struct arrays arrays_make(const struct member *member, size_t most) {
    const struct kernels *k = member->group->kernels;
    size_t n_bytes = most * sizeof(float);
    return (struct arrays){n_bytes, k->alloc(member->ctx, n_bytes), k->alloc(member->ctx, n_bytes),
                           malloc(n_bytes)};
}

static void arrays_drop(const struct member *member, struct arrays *arrays) {
    member->group->kernels->dealloc(member->ctx, arrays->x, arrays->n_bytes);
    member->group->kernels->dealloc(member->ctx, arrays->part, arrays->n_bytes);
    free(arrays->host);
}

/* Parts that begin at `first_part` come to x from `first` on; what lies beside that stays as it is. */
static bool comes_right(const struct member *member, const struct arrays *at, size_t first,
                        size_t first_part, size_t n, uint32_t turn) {
    const struct kernels *k = member->group->kernels;
    bool all = true;
    for (size_t i = 0; i < n; i++)
        at->host[i] = part(member->rank, turn, i);
    k->put(member->ctx, at->part + first_part, at->host, n * sizeof *at->host);
    for (size_t i = 0; i < first + n + 1; i++)
        at->host[i] = i < first || i == first + n ? -1.5f : stream(turn, i - first);
    k->put(member->ctx, at->x, at->host, (first + n + 1) * sizeof *at->host);
    k->add_parts(member->ctx, at->x + first, at->part + first_part, n);
    k->get(member->ctx, at->host, at->x, (first + n + 1) * sizeof *at->host);
    for (size_t i = 0; i < n; i++)
        all &= is_same(at->host[first + i], right(member->group->n, turn, i));
    return all && at->host[first + n] == -1.5f && (first == 0 || at->host[0] == -1.5f);
}

/* One, some that are no fours and no eights, a stage and one more, and several of these. */
static const size_t lengths[] = {1, 577, 16, 0, 12, 2, 7, STAGE, STAGE + 1, 4 * STAGE + 3};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, N_MOST = 4 * STAGE + 8 };

static void add_up(struct member *member) {
    struct arrays arrays = arrays_make(member, N_MOST);
    for (uint32_t turn = 0; turn < 2 * N_LENGTHS; turn++)
        member->is_right &= comes_right(member, &arrays, turn % 3 == 1, turn % 5 == 2,
                                        lengths[turn % N_LENGTHS], turn);
    arrays_drop(member, &arrays);
}

START_TEST(x_has_the_rounded_parts_of_all_ranks_added) {
    for (uint32_t n = 2; n <= GROUP_MOST; n++)
        group_try(_i, n, &sizes, add_up);
}
END_TEST

/* As many as every one of so many ranks adds up alone, and more, of which each adds up a slice; there are stages for them. */
static const struct {
    uint32_t n_ranks;
    size_t n;
} borders[] = {
    {8, 37449},
#ifndef FEW
    {4, 131072},
#endif
};
enum { N_BORDERS = sizeof borders / sizeof *borders };

static void add_up_at_the_border(struct member *member) {
    size_t border = 0;
    for (uint32_t i = 0; i < N_BORDERS; i++)
        border = borders[i].n_ranks == member->group->n ? borders[i].n : border;
    const size_t n[] = {border, border + 1, border / 4 * 4 + 4};
    struct arrays arrays = arrays_make(member, border + 8);
    for (uint32_t turn = 0; turn < 3; turn++)
        member->is_right &= comes_right(member, &arrays, 0, turn == 2, n[turn], turn);
    arrays_drop(member, &arrays);
}

START_TEST(short_and_long_sums_have_the_same_bits) {
    struct group_sizes long_sizes = sizes;
    for (uint32_t i = 0; i < N_BORDERS; i++) {
        long_sizes.together = borders[i].n + 8;
        group_try(_i, borders[i].n_ranks, &long_sizes, add_up_at_the_border);
    }
}
END_TEST

/* One behind the other without a look at what they come to, each part being what x was before, and sums that do not round between
 * them. */
enum { N_CHAIN = 24, CHAIN_FLOATS = 1500 };

static void chain(struct member *member) {
    const struct kernels *k = member->group->kernels;
    const float n_ranks = (float)member->group->n;
    struct arrays at = arrays_make(member, CHAIN_FLOATS);
    uint32_t *zero =
        k->alloc(member->ctx, sizeof *zero); /* the number of a row, which there is one of */
    for (size_t i = 0; i < CHAIN_FLOATS; i++)
        at.host[i] = (float)(i % 7 + 1) * 0x1p-40f;
    k->put(member->ctx, at.x, at.host, at.n_bytes);
    for (uint32_t turn = 0; turn < N_CHAIN; turn++) {
        size_t n = turn % 2 ? CHAIN_FLOATS : CHAIN_FLOATS / 2;
        k->gather_rows(member->ctx, at.part, at.x, zero, 1, (uint32_t)n);
        k->add_parts(member->ctx, at.x, at.part, n);
        if (turn % 5 == 4)
            k->sum(member->ctx, at.x, n);
    }
    k->get(member->ctx, at.host, at.x, at.n_bytes);
    for (size_t i = 0; i < CHAIN_FLOATS; i++) {
        float x = (float)(i % 7 + 1) * 0x1p-40f;
        for (uint32_t turn = 0; turn < N_CHAIN; turn++) {
            if (turn % 2 == 0 && i >= CHAIN_FLOATS / 2)
                continue;
            float one = rounded(x), sum = one;
            for (float rank = 1; rank < n_ranks; rank++)
                sum += one;
            x += rounded(sum);
            sum = x;
            for (float rank = 1; turn % 5 == 4 && rank < n_ranks; rank++)
                sum += x;
            x = sum;
        }
        member->is_right &= is_same(at.host[i], x);
    }
    k->dealloc(member->ctx, zero, sizeof *zero);
    arrays_drop(member, &at);
}

START_TEST(parts_of_sums_wait_for_each_other) {
    for (uint32_t n = 2; n <= 4; n++)
        group_try(_i, n, &sizes, chain);
}
END_TEST

/* Rank 1 brings its numbers as they are, the others round them. */
static void disagree(struct member *member) {
    const struct kernels *k = member->group->kernels;
    struct arrays at = arrays_make(member, 256);
    if (member->rank == 1)
        k->sum(member->ctx, at.x, 100);
    else
        k->add_parts(member->ctx, at.x, at.part, 100);
    member->status = k->step_end(member->ctx);
    arrays_drop(member, &at);
}

START_TEST(ranks_that_round_and_others_are_a_failure) {
    struct group group;
    group_open(&group, _i, 3, &sizes);
    group_run(&group, disagree);
    for (uint32_t rank = 0; rank < 3; rank++)
        ck_assert_int_eq(group.members[rank].status, STATUS_IO);
    group_close(&group);
}
END_TEST

/* What the text of a context of so many ranks says of parts. */
static bool names_parts(const struct kernels *kernels, uint32_t n_ranks) {
    const struct kernels_options options = {
        .n_threads = 1, .n_ranks = n_ranks, .limits = {1, 1, 16, 32, N_VOCAB, 1, 1, 16}};
    struct kernels_ctx *ctx;
    struct error error;
    ck_assert_int_eq(kernels->open(&options, &ctx, &error), STATUS_OK);
    bool names = strstr(kernels->numerics(ctx), "parts bf16") != NULL;
    kernels->close(ctx);
    return names;
}

START_TEST(numerics_of_several_ranks_name_what_rounds) {
    uint32_t n_rounding = 0;
    for (int i = 0; kernels_table[i]; i++) {
        const struct kernels *kernels = kernels_table[i];
        bool is_fast = strcmp(kernels->numerics_kind, "fast") == 0;
        ck_assert_msg((kernels->add_parts != NULL) == (is_fast && kernels->meet), "%s:%s",
                      kernels->name, kernels->numerics_kind);
        if (group_ways(kernels) == 0)
            continue;
        for (uint32_t n = 1; n <= 3; n++)
            ck_assert_int_eq(names_parts(kernels, n), kernels->add_parts && n > 1);
        n_rounding += kernels->add_parts != NULL;
    }
    ck_assert_uint_gt(n_rounding, 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, numerics_of_several_ranks_name_what_rounds);
    for (int i = 0; kernels_table[i]; i++) {
        if (!kernels_table[i]->add_parts)
            continue;
        int from = N_WAYS * i, to = from + group_ways(kernels_table[i]);
        tcase_add_loop_test(tests, x_has_the_rounded_parts_of_all_ranks_added, from, to);
        tcase_add_loop_test(tests, short_and_long_sums_have_the_same_bits, from, to);
        tcase_add_loop_test(tests, parts_of_sums_wait_for_each_other, from, to);
        tcase_add_loop_test(tests, ranks_that_round_and_others_are_a_failure, from, to);
    }
}
