/* Collectives of ranks on devices, over the whole table of backends: what devices hold is summed in
 * the order of ranks and gathered, parts that cross rounded come to what all have, in one turn after another, until a rank leaves. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "tests/support/suite.h"
#include "worker/ranks/staged.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "comm staged";
const double suite_timeout_s = 120;

/* Each rank has N_COLUMNS of the logits of N_ROWS rows. */
enum { N_RANKS = 2, N_FLOATS = 3000, N_ROWS = 3, N_COLUMNS = 41, N_TURNS = 12 };
enum { STRIDE = N_RANKS * N_COLUMNS, N_LOGITS = N_ROWS * STRIDE, N_PART = N_ROWS * N_COLUMNS };

struct member {
    const struct kernels *kernels; /* borrowed */
    struct comm *host;             /* owned */
    uint32_t rank;
    bool is_right;       /* all turns had the numbers that they should have */
    enum status status;  /* of the operation after another rank has left */
    atomic_uint *n_past; /* borrowed: ranks that have had all their turns */
    pthread_t thread;
};

/* What a rank brings: large and small, so that another order of adding gives other bits; and some that have fewer bits than a
 * float, or come to such a sum. */
static float number(uint32_t rank, uint32_t turn, size_t i) {
    uint64_t bits = mix64(((uint64_t)rank << 56) ^ ((uint64_t)turn << 32) ^ i);
    float scale = i % 32 == 9 ? 2 * FLT_MIN : (bits & 7) == 0 ? 1e6f : 1.0f;
    return scale * ((float)(bits >> 40) / 8388608.0f - 1.0f);
}

/* Denormals are zero for backends, and what they make is none. */
static float plus(float a, float b) {
    a = fabsf(a) < FLT_MIN ? copysignf(0.0f, a) : a;
    b = fabsf(b) < FLT_MIN ? copysignf(0.0f, b) : b;
    return fabsf(a + b) < FLT_MIN ? copysignf(0.0f, a + b) : a + b;
}

/* The context of a rank, and its arrays there. */
struct place {
    const struct kernels *kernels;
    struct kernels_ctx *ctx;
    struct comm *comm;
    float *x, *added, *part, *logits;
};

static bool turn_is_right(const struct place *at, uint32_t rank, uint32_t turn) {
    static const size_t lengths[] = {1, N_FLOATS, 16, 577};
    float x[N_FLOATS + 1], part[N_PART], logits[N_LOGITS];
    size_t n = lengths[turn % 4];
    for (size_t i = 0; i <= N_FLOATS; i++)
        x[i] = number(rank, turn, i);
    for (size_t i = 0; i < N_PART; i++)
        part[i] = number(rank, turn + N_TURNS, i);
    at->kernels->put(at->ctx, at->x, x, sizeof x);
    at->kernels->put(at->ctx, at->part, part, sizeof part);
    if (at->comm->kind->all_reduce(at->comm, at->x, n) != STATUS_OK ||
        at->comm->kind->gather(at->comm, rank == 0 ? at->logits : NULL, STRIDE, at->part, N_ROWS,
                               (size_t)rank * N_COLUMNS, N_COLUMNS) != STATUS_OK ||
        at->comm->kind->barrier(at->comm) != STATUS_OK)
        return false;
    at->kernels->get(at->ctx, x, at->x, sizeof x);
    at->kernels->get(at->ctx, logits, at->logits, sizeof logits);
    bool right = true;
    for (size_t i = 0; i <= N_FLOATS; i++)
        right &=
            x[i] == (i < n ? plus(number(0, turn, i), number(1, turn, i)) : number(rank, turn, i));
    for (size_t i = 0; rank == 0 && i < N_LOGITS; i++) {
        size_t row = i / STRIDE, column = i % STRIDE;
        right &= logits[i] == number((uint32_t)(column / N_COLUMNS), turn + N_TURNS,
                                     row * N_COLUMNS + column % N_COLUMNS);
    }
    return right;
}

/* The nearest number whose lower 16 bits are zero, the even one of two. */
static float rounded(float y) {
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    uint32_t rest = bits % 65536;
    bits -= rest;
    if (rest > 32768 || (rest == 32768 && bits / 65536 % 2 == 1))
        bits += 65536;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* Parts come to numbers that both ranks have: those of rank 7. */
static bool parts_are_right(const struct place *at, uint32_t rank, uint32_t turn) {
    static const size_t lengths[] = {1, N_FLOATS, 16, 577};
    float x[N_FLOATS + 1], part[N_FLOATS + 1];
    size_t n = lengths[turn % 4];
    for (size_t i = 0; i <= N_FLOATS; i++)
        x[i] = i % 32 == 9 ? 0.0f : number(7, turn, i), part[i] = number(rank, turn, i);
    part[0] = 0x1.03p0f; /* half way between two */
    at->kernels->put(at->ctx, at->x, x, sizeof x);
    at->kernels->put(at->ctx, at->added, part, sizeof part);
    if (at->comm->kind->add_parts(at->comm, at->x, at->added, n) != STATUS_OK)
        return false;
    at->kernels->get(at->ctx, x, at->x, sizeof x);
    bool right = true;
    for (size_t i = 0; i <= N_FLOATS; i++) {
        float sum =
            i == 0 ? 2 * 0x1.04p0f : plus(rounded(number(0, turn, i)), rounded(number(1, turn, i)));
        float before = i % 32 == 9 ? 0.0f : number(7, turn, i);
        right &= x[i] == (i < n ? plus(before, rounded(sum)) : before);
    }
    return right;
}

static void *run(void *arg) {
    struct member *member = arg;
    const struct kernels_options options = {
        .n_threads = 1, .device = member->rank, .limits = {1, 1, 16, 32, 32, 1, 1, 16}};
    struct place at = {.kernels = member->kernels};
    struct error error;
    if (at.kernels->open(&options, &at.ctx, &error) != STATUS_OK)
        return NULL;
    at.x = at.kernels->alloc(at.ctx, (N_FLOATS + 1) * sizeof(float));
    at.added = at.kernels->alloc(at.ctx, (N_FLOATS + 1) * sizeof(float));
    at.part = at.kernels->alloc(at.ctx, N_PART * sizeof(float));
    at.logits = at.kernels->alloc(at.ctx, N_LOGITS * sizeof(float));
    if (comm_staged_open(member->host, at.kernels, at.ctx, N_FLOATS, &at.comm, &error) ==
        STATUS_OK) {
        member->is_right = at.comm->rank == member->rank && at.comm->n_ranks == N_RANKS &&
                           at.comm->rounds == (at.kernels->add_parts != NULL);
        for (uint32_t turn = 0; turn < N_TURNS; turn++)
            member->is_right &= turn_is_right(&at, member->rank, turn) &&
                                (!at.comm->rounds || parts_are_right(&at, member->rank, turn));
        atomic_fetch_add(member->n_past, 1);
        while (member->rank == 1 && atomic_load(member->n_past) < N_RANKS)
            sched_yield(); /* the other is out of the last barrier */
        if (member->rank == 1)
            at.comm->kind->abort(at.comm);
        member->status = at.comm->kind->all_reduce(at.comm, at.x, 1);
        member->is_right &= at.comm->kind->health(at.comm) == STATUS_CLOSED;
        comm_staged_meet(at.comm); /* devices that add up leave in the same way */
        at.comm->kind->abort(at.comm);
        member->is_right &= at.comm->kind->health(at.comm) == STATUS_CLOSED &&
                            at.comm->kind->barrier(at.comm) == STATUS_CLOSED;
        comm_close(at.comm);
    }
    at.kernels->dealloc(at.ctx, at.x, (N_FLOATS + 1) * sizeof(float));
    at.kernels->dealloc(at.ctx, at.added, (N_FLOATS + 1) * sizeof(float));
    at.kernels->dealloc(at.ctx, at.part, N_PART * sizeof(float));
    at.kernels->dealloc(at.ctx, at.logits, N_LOGITS * sizeof(float));
    at.kernels->close(at.ctx);
    return NULL;
}

START_TEST(devices_have_the_sums_and_the_columns_of_all_ranks) {
    const struct comm_kind *host = comm_kind_of_host();
    size_t n_bytes = host->shared_bytes(N_RANKS, N_FLOATS);
    void *shared = aligned_alloc(4096, (n_bytes + 4095) / 4096 * 4096);
    struct member members[N_RANKS];
    atomic_uint n_past = 0;
    struct error error;
    ck_assert_ptr_nonnull(shared);
    memset(shared, 0, n_bytes);
    host->shared_init(shared, N_RANKS, N_FLOATS);
    for (uint32_t rank = 0; rank < N_RANKS; rank++) {
        members[rank] =
            (struct member){.kernels = kernels_table[_i], .rank = rank, .n_past = &n_past};
        ck_assert_int_eq(host->open(shared, n_bytes, rank, &members[rank].host, &error), STATUS_OK);
        ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, run, &members[rank]), 0);
    }
    for (uint32_t rank = 0; rank < N_RANKS; rank++) {
        pthread_join(members[rank].thread, NULL);
        comm_close(members[rank].host);
        ck_assert_msg(members[rank].is_right, "%s: rank %u", kernels_table[_i]->name, rank);
        ck_assert_int_eq(members[rank].status, STATUS_CLOSED);
    }
    free(shared);
}
END_TEST

void suite_add(TCase *tests) {
    int n = 0;
    while (kernels_table[n])
        n++;
    tcase_add_loop_test(tests, devices_have_the_sums_and_the_columns_of_all_ranks, 0, n);
}
