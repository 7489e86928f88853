/* Ranks of one host, threads of one process or of several, over one piece of shared memory.
 *
 * An operation is a row of rounds. In a round each rank writes what it was asked for, and its
 * numbers, into its own place; all wait for the last; then all compare and read. Places are kept
 * twice and rounds take them in turn: a rank that is ahead by one writes beside what a slow one
 * still reads, and it cannot be ahead by two, because the round between waits for all. So a sum of
 * few numbers costs one meeting. For many, each rank adds up one slice of all the places and the
 * ranks meet once more to copy the slices; the order of additions, rank 0 first, is the same. */
#include "base/assert.h"
#include "base/log/log.h"
#include "kernels/numbers.h"
#include "worker/comm/comm.h"
#include "worker/comm/event_count.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC            0x31304d4d4f435444ull /* "DTCOMM01" */
#define PLACE_FLOATS_MAX 65536u /* 256 KiB: what two ranks move stays within a core's cache */
#define PLACE_FLOATS_MIN 1024u
#define ALONE_FLOATS_MAX 4096u /* up to here every rank adds up everything itself */
#define FLOATS_PER_LINE  16u
#define NAME(operation)  ((operation) < N_OPERATIONS ? names[operation] : "?")

extern const struct comm_kind comm_shm;

enum operation { OPERATION_NONE, ALL_REDUCE, GATHER, BARRIER, N_OPERATIONS };

static const char *const names[N_OPERATIONS] = {"nothing", "all_reduce", "gather", "barrier"};

/* What a rank was asked for in this round. */
struct shm_asked {
    _Alignas(64) uint64_t operation;
    uint64_t n;            /* all_reduce: numbers; gather: rows: the same for all */
    uint64_t at;           /* numbers moved in earlier rounds: the same for all */
    uint64_t column_begin; /* gather: this rank's */
    uint64_t n_columns;
};

/* The start of the shared memory; float places[2][n_ranks][place_floats] follow. */
struct shm_shared {
    uint64_t magic;
    uint32_t n_ranks;
    uint32_t place_floats;
    _Atomic uint32_t ended;                  /* a status; 0: the group works */
    _Alignas(64) struct event_count arrived; /* rises when all have come */
    _Alignas(64) _Atomic uint32_t came;      /* ranks that wait for the others */
    struct shm_asked asked[2][COMM_RANKS_MAX];
};

struct shm {
    struct comm head;
    struct shm_shared *shared; /* borrowed */
    float *places;             /* borrowed (2, n_ranks, place_floats) */
    uint32_t place_floats;     /* as it was when the sizes were checked */
    struct event_count_patience patience;
    uint32_t side; /* which of the two places this round takes */
};

static uint32_t comm_shm_place_floats(size_t n_floats) {
    size_t n = (n_floats + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
    if (n > PLACE_FLOATS_MAX)
        return PLACE_FLOATS_MAX;
    return n < PLACE_FLOATS_MIN ? PLACE_FLOATS_MIN : (uint32_t)n;
}

static size_t comm_shm_bytes_for(uint32_t n_ranks, uint32_t n_place) {
    return sizeof(struct shm_shared) + 2 * (size_t)n_ranks * n_place * sizeof(float);
}

static size_t comm_shm_shared_bytes(uint32_t n_ranks, size_t n_floats) {
    ASSERT(n_ranks > 0 && n_ranks <= COMM_RANKS_MAX);
    return comm_shm_bytes_for(n_ranks, comm_shm_place_floats(n_floats));
}

static void comm_shm_shared_init(void *memory, uint32_t n_ranks, size_t n_floats) {
    struct shm_shared *shared = memory;
    ASSERT(n_ranks > 0 && n_ranks <= COMM_RANKS_MAX);
    shared->n_ranks = n_ranks;
    shared->place_floats = comm_shm_place_floats(n_floats);
    shared->magic = MAGIC;
}

static enum status comm_shm_open_rank(void *memory, size_t n_bytes, uint32_t rank,
                                      struct comm **comm, struct error *error) {
    struct shm_shared *shared = memory;
    if (n_bytes < sizeof *shared || shared->magic != MAGIC)
        return error_set(error, STATUS_INVALID, "shm: this memory holds no group of ranks");
    uint32_t n_ranks = shared->n_ranks, n_place = shared->place_floats;
    if (n_ranks == 0 || n_ranks > COMM_RANKS_MAX || n_place == 0 || n_place > PLACE_FLOATS_MAX ||
        n_bytes < comm_shm_bytes_for(n_ranks, n_place))
        return error_set(error, STATUS_INVALID, "shm: this memory holds no group of ranks");
    if (rank >= n_ranks)
        return error_set(error, STATUS_INVALID, "shm: a group of %u has no rank %u", n_ranks, rank);
    struct shm *shm = calloc(1, sizeof *shm);
    if (!shm)
        return error_set(error, STATUS_NOMEM, "shm: no memory for a rank");
    shm->head = (struct comm){.kind = &comm_shm, .rank = rank, .n_ranks = n_ranks};
    shm->shared = shared;
    shm->places = (float *)(void *)(shared + 1);
    shm->place_floats = n_place;
    shm->patience = event_count_patience(n_ranks);
    *comm = &shm->head;
    return STATUS_OK;
}

static void comm_shm_close_rank(struct comm *comm) {
    free(comm);
}

static enum status comm_shm_health(const struct comm *comm) {
    const struct shm *shm = (const struct shm *)comm;
    return (enum status)atomic_load(&shm->shared->ended);
}

/* In memory of our own: what is checked must not change before it is used. */
static struct shm_asked comm_shm_asked_by(const struct shm *shm, uint32_t rank) {
    struct shm_asked asked;
    memcpy(&asked, &shm->shared->asked[shm->side][rank], sizeof asked);
    return asked;
}

/* The first reason stays. */
static enum status comm_shm_end_group(struct shm *shm, enum status why) {
    uint32_t none = STATUS_OK;
    bool first = atomic_compare_exchange_strong(&shm->shared->ended, &none, (uint32_t)why);
    event_count_close(&shm->shared->arrived);
    if (first && why == STATUS_CORRUPT)
        for (uint32_t rank = 0; rank < shm->head.n_ranks; rank++) {
            struct shm_asked asked = comm_shm_asked_by(shm, rank);
            log_error("ranks disagree", "rank=%u operation=%s n=%llu at=%llu columns=%llu+%llu",
                      rank, NAME(asked.operation), (unsigned long long)asked.n,
                      (unsigned long long)asked.at, (unsigned long long)asked.column_begin,
                      (unsigned long long)asked.n_columns);
        }
    return comm_shm_health(&shm->head);
}

static float *comm_shm_place_of(const struct shm *shm, uint32_t rank) {
    size_t index = (size_t)shm->side * shm->head.n_ranks + rank;
    return shm->places + index * shm->place_floats;
}

/* Returns when all ranks have called it. */
static enum status comm_shm_meet(struct shm *shm) {
    struct shm_shared *shared = shm->shared;
    uint32_t turn = event_count_turn(&shared->arrived);
    if (event_count_closed(&shared->arrived))
        return comm_shm_health(&shm->head);
    if (atomic_fetch_add(&shared->came, 1) + 1 == shm->head.n_ranks) {
        atomic_store_explicit(&shared->came, 0, memory_order_relaxed);
        event_count_advance(&shared->arrived);
        return STATUS_OK;
    }
    return event_count_wait(&shared->arrived, turn, &shm->patience) ? STATUS_OK
                                                                    : comm_shm_health(&shm->head);
}

/* All say what they were asked for, meet, and look whether it was the same. */
static enum status comm_shm_meet_for(struct shm *shm, const struct shm_asked *asked) {
    struct shm_asked *all = shm->shared->asked[shm->side];
    if (event_count_closed(
            &shm->shared->arrived)) /* who ended it may still be reading what was asked */
        return comm_shm_health(&shm->head);
    all[shm->head.rank] = *asked;
    TRY(comm_shm_meet(shm));
    for (uint32_t rank = 0; rank < shm->head.n_ranks; rank++)
        if (all[rank].operation != asked->operation || all[rank].n != asked->n ||
            all[rank].at != asked->at)
            return comm_shm_end_group(shm, STATUS_CORRUPT);
    return STATUS_OK;
}

/* out (end - begin) = the ranks' numbers [begin, end), added up in order. */
static void comm_shm_add_up(const struct shm *shm, float *restrict out, size_t begin, size_t end) {
    const float *first = comm_shm_place_of(shm, 0);
    uint32_t saved = numbers_enter();
    memcpy(out, first + begin, (end - begin) * sizeof *out);
    for (uint32_t rank = 1; rank < shm->head.n_ranks; rank++) {
        const float *restrict next = comm_shm_place_of(shm, rank) + begin;
        for (size_t i = 0; i < end - begin; i++)
            out[i] += next[i];
    }
    numbers_leave(saved);
}

/* The slice that a rank adds up; whole cache lines. */
static size_t comm_shm_slice_begin(const struct shm *shm, uint32_t rank, size_t n) {
    size_t n_lines = (n + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE;
    size_t at = n_lines * rank / shm->head.n_ranks * FLOATS_PER_LINE;
    return at < n ? at : n;
}

/* Adds up this rank's slice in place: no other rank reads that part of its place. */
static void comm_shm_add_up_slice(const struct shm *shm, size_t n) {
    float sum[1024];
    float *own = comm_shm_place_of(shm, shm->head.rank);
    size_t end = comm_shm_slice_begin(shm, shm->head.rank + 1, n);
    for (size_t at = comm_shm_slice_begin(shm, shm->head.rank, n), next; at < end; at = next) {
        next = end - at < 1024 ? end : at + 1024;
        comm_shm_add_up(shm, sum, at, next);
        memcpy(own + at, sum, (next - at) * sizeof *sum);
    }
}

static enum status comm_shm_reduce_piece(struct shm *shm, float *x, size_t n) {
    if (n == 0)
        return STATUS_OK;
    if (n <= ALONE_FLOATS_MAX) {
        comm_shm_add_up(shm, x, 0, n);
        return STATUS_OK;
    }
    comm_shm_add_up_slice(shm, n);
    TRY(comm_shm_meet(shm));
    for (uint32_t rank = 0; rank < shm->head.n_ranks; rank++) {
        size_t begin = comm_shm_slice_begin(shm, rank, n),
               end = comm_shm_slice_begin(shm, rank + 1, n);
        memcpy(x + begin, comm_shm_place_of(shm, rank) + begin, (end - begin) * sizeof *x);
    }
    return STATUS_OK;
}

static enum status comm_shm_all_reduce(struct comm *comm, float *x, size_t n) {
    struct shm *shm = (struct shm *)comm;
    size_t most = shm->place_floats;
    struct shm_asked asked = {.operation = ALL_REDUCE, .n = n};
    do {
        size_t n_piece = n - asked.at < most ? n - (size_t)asked.at : most;
        if (n_piece > 0)
            memcpy(comm_shm_place_of(shm, comm->rank), x + asked.at, n_piece * sizeof *x);
        TRY(comm_shm_meet_for(shm, &asked));
        TRY(comm_shm_reduce_piece(shm, x + asked.at, n_piece));
        shm->side ^= 1;
        asked.at += n_piece;
    } while (asked.at < n);
    return STATUS_OK;
}

/* part: numbers [at, at + n) of a rank's (n_rows, n_columns), into its columns of out. */
static void comm_shm_put_columns(float *out, size_t out_stride, const struct shm_asked *of,
                                 const float *part, size_t at, size_t n) {
    size_t n_columns = (size_t)of->n_columns;
    while (n > 0) {
        size_t row = at / n_columns, column = at % n_columns;
        size_t n_run = n_columns - column < n ? n_columns - column : n;
        memcpy(out + row * out_stride + of->column_begin + column, part, n_run * sizeof *out);
        part += n_run;
        at += n_run;
        n -= n_run;
    }
}

/* How much of a rank's part is in its place in this round. */
static size_t comm_shm_piece_of(const struct shm_asked *of, size_t at, size_t most) {
    size_t n = (size_t)of->n * (size_t)of->n_columns;
    size_t left = at < n ? n - at : 0;
    return left < most ? left : most;
}

/* Rank 0: what lies in the other ranks' places goes to its columns. */
static enum status comm_shm_collect(struct shm *shm, float *out, size_t n_rows, size_t out_stride,
                                    size_t at) {
    for (uint32_t rank = 1; rank < shm->head.n_ranks; rank++) {
        struct shm_asked of = comm_shm_asked_by(shm, rank);
        if (of.n != n_rows || of.column_begin > out_stride ||
            of.n_columns > out_stride - of.column_begin)
            return comm_shm_end_group(shm, STATUS_CORRUPT);
        comm_shm_put_columns(out, out_stride, &of, comm_shm_place_of(shm, rank), at,
                             comm_shm_piece_of(&of, at, shm->place_floats));
    }
    return STATUS_OK;
}

static size_t comm_shm_longest_part(const struct shm *shm) {
    size_t longest = 0;
    for (uint32_t rank = 0; rank < shm->head.n_ranks; rank++) {
        struct shm_asked of = comm_shm_asked_by(shm, rank);
        size_t n = (size_t)of.n * (size_t)of.n_columns;
        longest = n > longest ? n : longest;
    }
    return longest;
}

static enum status comm_shm_gather(struct comm *comm, float *out, size_t out_stride,
                                   const float *part, size_t n_rows, size_t column_begin,
                                   size_t n_columns) {
    struct shm *shm = (struct shm *)comm;
    size_t most = shm->place_floats, longest;
    struct shm_asked asked = {
        .operation = GATHER, .n = n_rows, .column_begin = column_begin, .n_columns = n_columns};
    ASSERT((out != NULL) == (comm->rank == 0));
    if (out) {
        ASSERT(column_begin <= out_stride && n_columns <= out_stride - column_begin);
        comm_shm_put_columns(out, out_stride, &asked, part, 0, n_rows * n_columns);
    }
    do {
        size_t n_piece = comm_shm_piece_of(&asked, (size_t)asked.at, most);
        if (!out && n_piece > 0)
            memcpy(comm_shm_place_of(shm, comm->rank), part + asked.at, n_piece * sizeof *part);
        TRY(comm_shm_meet_for(shm, &asked));
        longest = comm_shm_longest_part(shm);
        if (out)
            TRY(comm_shm_collect(shm, out, n_rows, out_stride, (size_t)asked.at));
        shm->side ^= 1;
        asked.at += most;
    } while (asked.at < longest);
    return STATUS_OK;
}

static enum status comm_shm_barrier(struct comm *comm) {
    struct shm *shm = (struct shm *)comm;
    TRY(comm_shm_meet_for(shm, &(struct shm_asked){.operation = BARRIER}));
    shm->side ^= 1;
    return STATUS_OK;
}

static void comm_shm_abort_group(struct comm *comm) {
    (void)comm_shm_end_group((struct shm *)comm, STATUS_CLOSED);
}

const struct comm_kind comm_shm = {
    .name = "shm",
    .ranks_max = COMM_RANKS_MAX,
    .shared_bytes = comm_shm_shared_bytes,
    .shared_init = comm_shm_shared_init,
    .open = comm_shm_open_rank,
    .close = comm_shm_close_rank,
    .all_reduce = comm_shm_all_reduce,
    .gather = comm_shm_gather,
    .barrier = comm_shm_barrier,
    .abort = comm_shm_abort_group,
    .health = comm_shm_health,
};
