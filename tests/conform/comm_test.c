/* Every kind of collective, over the whole table: sums in the order of ranks with the same bits
 * everywhere, columns where they belong, nobody ahead of a meeting, and an end for all when one is
 * gone or asks for something else. */
#include "worker/comm/comm.h"

#include "base/random.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "comm";
const double suite_timeout_s = 240;

/* From one rank to more than there are cores. */
enum { N_SIZES = 5 };
static const uint32_t sizes[N_SIZES] = {1, 2, 3, 4, 8};

static int count_kinds(void) {
    int n = 0;
    while (comm_table[n])
        n++;
    return n;
}

enum { N_FLOATS = 3000, N_LONG = 150001, N_TURNS = 200 };

struct group {
    const struct comm_kind *kind;
    uint32_t n_ranks;
    size_t n_bytes;
    void *shared;       /* owned mapping (n_bytes), or NULL */
    atomic_int *n_past; /* owned mapping: what the tests count in */
    struct comm *comms[COMM_RANKS_MAX];
};

/* n_floats: what its operations are expected to move. A kind that does not make groups of each size
 * here fails: the day one comes, its sizes are to be skipped aloud (tests/support/suite.h). */
static void group_open_for(struct group *group, int kind, uint32_t n_ranks, size_t n_floats) {
    struct error error;
    *group = (struct group){.kind = comm_table[kind], .n_ranks = n_ranks};
    ck_assert_ptr_nonnull(group->kind);
    ck_assert_uint_le(n_ranks, group->kind->ranks_max);
    group->n_past = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(group->n_past, MAP_FAILED);
    group->n_bytes = group->kind->shared_bytes(n_ranks, n_floats);
    if (group->n_bytes > 0) {
        group->shared =
            mmap(NULL, group->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(group->shared, MAP_FAILED);
        group->kind->shared_init(group->shared, n_ranks, n_floats);
    }
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        ck_assert_int_eq(
            group->kind->open(group->shared, group->n_bytes, rank, &group->comms[rank], &error),
            STATUS_OK);
        ck_assert_uint_eq(group->comms[rank]->rank, rank);
        ck_assert_uint_eq(group->comms[rank]->n_ranks, n_ranks);
        ck_assert_int_eq(group->kind->health(group->comms[rank]), STATUS_OK);
    }
}

static void group_open(struct group *group, int kind, uint32_t n_ranks) {
    group_open_for(group, kind, n_ranks, N_FLOATS);
}

static void group_close(struct group *group) {
    for (uint32_t rank = 0; rank < group->n_ranks; rank++)
        comm_close(group->comms[rank]);
    if (group->shared)
        munmap(group->shared, group->n_bytes);
    munmap(group->n_past, 4096);
}

/* One rank's life; `arg` is the test's own. */
typedef void life(struct group *group, uint32_t rank);

struct member {
    struct group *group;
    uint32_t rank;
    life *lives;
    pthread_t thread;
};

static void *member_run(void *arg) {
    struct member *member = arg;
    member->lives(member->group, member->rank);
    return NULL;
}

static void run_threads(struct group *group, life *lives) {
    struct member members[COMM_RANKS_MAX];
    for (uint32_t rank = 0; rank < group->n_ranks; rank++) {
        members[rank] = (struct member){.group = group, .rank = rank, .lives = lives};
        ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, member_run, &members[rank]),
                         0);
    }
    for (uint32_t rank = 0; rank < group->n_ranks; rank++)
        ck_assert_int_eq(pthread_join(members[rank].thread, NULL), 0);
}

static void run_processes(struct group *group, life *lives) {
    pid_t pids[COMM_RANKS_MAX];
    for (uint32_t rank = 0; rank < group->n_ranks; rank++) {
        pids[rank] = fork();
        ck_assert_int_ge(pids[rank], 0);
        if (pids[rank] == 0) {
            lives(group, rank);
            _exit(0);
        }
    }
    for (uint32_t rank = 0; rank < group->n_ranks; rank++) {
        int status;
        ck_assert_int_eq(waitpid(pids[rank], &status, 0), pids[rank]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %u: status %x", rank,
                      status);
    }
}

/* In threads and forked processes an assertion of Check's would not reach it: they abort. */
static void must(bool true_, const char *what) {
    if (true_)
        return;
    fprintf(stderr, "comm: not so: %s\n", what);
    abort();
}
#define MUST(expression) must(expression, #expression)

/* What rank `rank` brings to turn `turn`: large and small, so that another order of adding gives
 * other bits; and of each 32 numbers, one that has fewer bits than a float, or comes to such a sum. */
static float number(uint32_t rank, uint32_t turn, size_t i) {
    uint64_t bits = mix64(((uint64_t)rank << 56) ^ ((uint64_t)turn << 32) ^ i);
    float scale = (bits & 7) == 0 ? 1e6f : 1.0f;
    if (i % 32 == 9)
        scale = 2 * FLT_MIN;
    return scale * ((float)(bits >> 40) / 8388608.0f - 1.0f);
}

/* What kernels take it for, and make of it. */
static float flushed(float x) {
    return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

static float sum_of(uint32_t n_ranks, uint32_t turn, size_t i) {
    float sum = number(0, turn, i);
    for (uint32_t rank = 1; rank < n_ranks; rank++)
        sum = flushed(flushed(sum) + flushed(number(rank, turn, i)));
    return sum;
}

static size_t length_of(uint32_t turn) {
    static const size_t lengths[] = {1, 576, 16, 0, 4096, 4097, 3000, 65536, 65537, 33, N_LONG};
    return lengths[turn % (sizeof lengths / sizeof *lengths)];
}

static void life_of_sums(struct group *group, uint32_t rank) {
    enum { N_BEHIND = 16 }; /* numbers behind the sums, which are nobody's to write */
    struct comm *comm = group->comms[rank];
    float *x = malloc((N_LONG + N_BEHIND) * sizeof *x);
    MUST(x != NULL);
    for (uint32_t turn = 0; turn < 22; turn++) {
        size_t n = length_of(turn);
        for (size_t i = 0; i < n + N_BEHIND; i++)
            x[i] = i < n ? number(rank, turn, i) : -1.5f;
        MUST(comm->kind->all_reduce(comm, x, n) == STATUS_OK);
        for (size_t i = 0; i < n; i++) {
            float wanted = sum_of(group->n_ranks, turn, i);
            MUST(memcmp(&x[i], &wanted, sizeof wanted) == 0);
        }
        for (size_t i = n; i < n + N_BEHIND; i++)
            MUST(x[i] == -1.5f);
    }
    free(x);
}

/* Every kind and size, for few numbers and for so many that each rank adds up a slice of them. */
static void open_for_sums(struct group *group, int i) {
    int n = count_kinds() * N_SIZES, kind = i % n / N_SIZES;
    size_t n_floats = i < n ? N_FLOATS : 7 * N_FLOATS;
    group_open_for(group, kind, sizes[i % N_SIZES], n_floats);
}

START_TEST(sums_have_the_same_bits_on_every_rank_of_threads) {
    struct group group;
    open_for_sums(&group, _i);
    run_threads(&group, life_of_sums);
    group_close(&group);
}
END_TEST

START_TEST(sums_have_the_same_bits_on_every_rank_of_processes) {
    struct group group;
    open_for_sums(&group, _i);
    run_processes(&group, life_of_sums);
    group_close(&group);
}
END_TEST

/* Columns of uneven widths, some of none: rank r holds r * 37 mod 100 of them. */
static size_t columns_of(uint32_t rank, size_t scale) {
    return (rank * 37 + 5) % 100 * scale;
}

static void life_of_gathers(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    static const struct {
        size_t n_rows, scale;
    } turns[] = {{1, 1}, {7, 3}, {0, 1}, {64, 11}, {1, 2000}, {3, 900}, {2, 0}};
    for (uint32_t turn = 0; turn < 2 * (sizeof turns / sizeof *turns); turn++) {
        size_t n_rows = turns[turn / 2].n_rows, scale = turns[turn / 2].scale;
        size_t begin = 2, stride = 5, n_columns = columns_of(rank, scale);
        for (uint32_t other = 0; other < group->n_ranks; other++) {
            begin += other < rank ? columns_of(other, scale) : 0;
            stride += columns_of(other, scale);
        }
        float *part = malloc((n_rows * n_columns + 1) * sizeof *part);
        float *out = rank == 0 ? calloc(n_rows * stride + 1, sizeof *out) : NULL;
        MUST(part != NULL && (rank > 0 || out != NULL));
        for (size_t i = 0; i < n_rows * n_columns; i++)
            part[i] = number(rank, turn, i);
        MUST(comm->kind->gather(comm, out, stride, part, n_rows, begin, n_columns) == STATUS_OK);
        for (size_t row = 0; out && row < n_rows; row++) {
            size_t at = 2;
            MUST(out[row * stride] == 0 && out[row * stride + 1] == 0);
            for (uint32_t other = 0; other < group->n_ranks; other++) {
                size_t n = columns_of(other, scale);
                for (size_t i = 0; i < n; i++)
                    MUST(out[row * stride + at + i] == number(other, turn, row * n + i));
                at += n;
            }
            MUST(at == stride - 3 && out[row * stride + at] == 0);
        }
        free(part);
        free(out);
    }
}

START_TEST(columns_of_all_ranks_come_to_rank_0) {
    struct group group;
    group_open(&group, _i / N_SIZES, sizes[_i % N_SIZES]);
    run_threads(&group, life_of_gathers);
    group_close(&group);
    group_open(&group, _i / N_SIZES, sizes[_i % N_SIZES]);
    run_processes(&group, life_of_gathers);
    group_close(&group);
}
END_TEST

static void life_of_meetings(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    float x[700];
    for (int turn = 0; turn < N_TURNS; turn++) {
        for (uint32_t slow = 0; slow < (rank == (uint32_t)turn % group->n_ranks ? 20u : 0u); slow++)
            sched_yield(); /* another rank is late each time */
        atomic_fetch_add(group->n_past, 1);
        MUST(comm->kind->barrier(comm) == STATUS_OK);
        MUST(atomic_load(group->n_past) >= (turn + 1) * (int)group->n_ranks);
        for (size_t i = 0; i < 700; i++)
            x[i] = (float)(rank + 1);
        MUST(comm->kind->all_reduce(comm, x, 700) == STATUS_OK);
        for (size_t i = 0; i < 700; i++)
            MUST(x[i] == (float)(group->n_ranks * (group->n_ranks + 1) / 2));
    }
}

START_TEST(nobody_leaves_a_barrier_before_the_slowest_has_come) {
    struct group group;
    group_open(&group, _i / N_SIZES, sizes[_i % N_SIZES]);
    run_threads(&group, life_of_meetings);
    group_close(&group);
    group_open(&group, _i / N_SIZES, sizes[_i % N_SIZES]);
    run_processes(&group, life_of_meetings);
    group_close(&group);
}
END_TEST

/* The last rank leaves after some turns; the others wait for it until the group is ended. */
static void life_with_a_loss(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    float x[100] = {0};
    if (rank == group->n_ranks - 1 && group->n_ranks > 1) {
        for (int turn = 0; turn < 5; turn++) {
            enum status status = comm->kind->all_reduce(comm, x, 100);
            /* The end may come before it has woken from the last meeting. */
            MUST(status == STATUS_OK || (turn == 4 && status == STATUS_CLOSED));
        }
        return;
    }
    enum status status = STATUS_OK;
    for (int turn = 0; status == STATUS_OK; turn++) {
        if (turn == 5)
            atomic_fetch_add(group->n_past, 1); /* the next one waits for a rank that is gone */
        status = comm->kind->all_reduce(comm, x, 100);
    }
    MUST(status == STATUS_CLOSED);
    MUST(comm->kind->barrier(comm) == STATUS_CLOSED);
    MUST(comm->kind->all_reduce(comm, x, 1) == STATUS_CLOSED);
    MUST(comm->kind->gather(comm, rank == 0 ? x : NULL, 100, x, 1, 0, 1) == STATUS_CLOSED);
    MUST(comm->kind->health(comm) == STATUS_CLOSED);
}

static void *end_it(void *arg) {
    struct group *group = arg;
    int n_waiting = (int)group->n_ranks - (group->n_ranks > 1);
    while (atomic_load(group->n_past) < n_waiting)
        sched_yield();
    group->comms[0]->kind->abort(group->comms[0]);
    return NULL;
}

START_TEST(an_end_wakes_all_who_wait_for_a_lost_rank) {
    struct group group;
    pthread_t watcher;
    for (int processes = 0; processes < 2; processes++) {
        group_open(&group, _i / N_SIZES, sizes[_i % N_SIZES]);
        ck_assert_ptr_nonnull(group.shared); /* or no other process could hear of the end */
        ck_assert_int_eq(pthread_create(&watcher, NULL, end_it, &group), 0);
        (processes ? run_processes : run_threads)(&group, life_with_a_loss);
        ck_assert_int_eq(pthread_join(watcher, NULL), 0);
        group_close(&group);
    }
}
END_TEST

static void life_of_other_sizes(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    float x[200] = {0};
    MUST(comm->kind->all_reduce(comm, x, 100) == STATUS_OK);
    MUST(comm->kind->all_reduce(comm, x, rank == 0 ? 100 : 101) == STATUS_CORRUPT);
    MUST(comm->kind->all_reduce(comm, x, 100) == STATUS_CORRUPT);
    MUST(comm->kind->barrier(comm) == STATUS_CORRUPT);
    MUST(comm->kind->health(comm) == STATUS_CORRUPT);
}

static void life_of_other_operations(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    float x[200] = {0};
    if (rank == 1)
        MUST(comm->kind->gather(comm, NULL, 0, x, 1, 1, 1) == STATUS_CORRUPT);
    else
        MUST(comm->kind->barrier(comm) == STATUS_CORRUPT);
}

/* As many rows as the others have numbers: the operation alone tells them apart. */
static void life_of_operations_of_equal_size(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    float x[200] = {0};
    if (rank == 1)
        MUST(comm->kind->gather(comm, NULL, 0, x, 100, 1, 1) == STATUS_CORRUPT);
    else
        MUST(comm->kind->all_reduce(comm, x, 100) == STATUS_CORRUPT);
    MUST(comm->kind->health(comm) == STATUS_CORRUPT);
}

static void life_of_columns_outside(struct group *group, uint32_t rank) {
    struct comm *comm = group->comms[rank];
    float x[200] = {0};
    enum status status = comm->kind->gather(comm, rank == 0 ? x : NULL, 100, x, 1, rank * 60, 60);
    MUST(rank > 0 || status == STATUS_CORRUPT);
    MUST(comm->kind->barrier(comm) == STATUS_CORRUPT);
}

START_TEST(ranks_that_want_different_things_end_the_group) {
    static life *const lives[] = {life_of_other_sizes, life_of_other_operations,
                                  life_of_operations_of_equal_size, life_of_columns_outside};
    struct group group;
    if (sizes[_i % N_SIZES] == 1)
        return; /* one rank cannot disagree */
    for (int i = 0; i < 2 * (int)(sizeof lives / sizeof *lives); i++) {
        group_open(&group, _i / N_SIZES, sizes[_i % N_SIZES]);
        (i % 2 ? run_processes : run_threads)(&group, lives[i / 2]);
        group_close(&group);
    }
}
END_TEST

START_TEST(memory_that_holds_no_group_is_refused) {
    const struct comm_kind *kind = comm_table[_i];
    struct error error;
    struct comm *comm;
    uint32_t n_ranks = kind->ranks_max < 4 ? kind->ranks_max : 4;
    size_t n_bytes = kind->shared_bytes(n_ranks, 64);
    void *shared = n_bytes ? aligned_alloc(4096, (n_bytes + 4095) / 4096 * 4096) : NULL;
    if (shared) {
        memset(shared, 0, n_bytes);
        ck_assert_int_eq(kind->open(shared, n_bytes, 0, &comm, &error), STATUS_INVALID);
        kind->shared_init(shared, n_ranks, 64);
        ck_assert_int_eq(kind->open(shared, n_bytes - 1, 0, &comm, &error), STATUS_INVALID);
        ck_assert_int_eq(kind->open(shared, 16, 0, &comm, &error), STATUS_INVALID);
    }
    ck_assert_int_eq(kind->open(shared, n_bytes, n_ranks, &comm, &error), STATUS_INVALID);
    ck_assert_int_eq(kind->open(shared, n_bytes, n_ranks - 1, &comm, &error), STATUS_OK);
    comm_close(comm);
    free(shared);
}
END_TEST

START_TEST(ranks_of_a_host_take_the_first_kind) {
    ck_assert_ptr_eq(comm_kind_of_host(), comm_table[0]);
}
END_TEST

void suite_add(TCase *tests) {
    int n = count_kinds() * N_SIZES;
    tcase_add_test(tests, ranks_of_a_host_take_the_first_kind);
    tcase_add_loop_test(tests, sums_have_the_same_bits_on_every_rank_of_threads, 0, 2 * n);
    tcase_add_loop_test(tests, sums_have_the_same_bits_on_every_rank_of_processes, 0, 2 * n);
    tcase_add_loop_test(tests, columns_of_all_ranks_come_to_rank_0, 0, n);
    tcase_add_loop_test(tests, nobody_leaves_a_barrier_before_the_slowest_has_come, 0, n);
    tcase_add_loop_test(tests, an_end_wakes_all_who_wait_for_a_lost_rank, 0, n);
    tcase_add_loop_test(tests, ranks_that_want_different_things_end_the_group, 0, n);
    tcase_add_loop_test(tests, memory_that_holds_no_group_is_refused, 0, count_kinds());
}
