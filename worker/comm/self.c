/* A group of one: there is nobody to wait for. */
#include "base/assert.h"
#include "worker/comm/comm.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern const struct comm_kind comm_self;

struct self {
    struct comm head;
    atomic_bool aborted;
};

static size_t shared_bytes(uint32_t n_ranks, size_t n_floats) {
    (void)n_ranks, (void)n_floats;
    return 0;
}

static void shared_init(void *shared, uint32_t n_ranks, size_t n_floats) {
    (void)shared, (void)n_ranks, (void)n_floats;
}

static enum status open_rank(void *shared, size_t n_bytes, uint32_t rank, struct comm **comm,
                             struct error *error) {
    (void)shared, (void)n_bytes;
    if (rank != 0)
        return error_set(error, STATUS_INVALID, "self: a group of one has no rank %u", rank);
    struct self *self = calloc(1, sizeof *self);
    if (!self)
        return error_set(error, STATUS_NOMEM, "self: no memory for a group");
    self->head = (struct comm){.kind = &comm_self, .n_ranks = 1};
    *comm = &self->head;
    return STATUS_OK;
}

static void close_rank(struct comm *comm) {
    free(comm);
}

static enum status health(const struct comm *comm) {
    const struct self *self = (const struct self *)comm;
    return atomic_load(&self->aborted) ? STATUS_CLOSED : STATUS_OK;
}

static enum status all_reduce(struct comm *comm, float *x, size_t n) {
    (void)x, (void)n;
    return health(comm);
}

static enum status gather(struct comm *comm, float *out, size_t out_stride, const float *part,
                          size_t n_rows, size_t column_begin, size_t n_columns) {
    TRY(health(comm));
    ASSERT(column_begin <= out_stride && n_columns <= out_stride - column_begin);
    for (size_t row = 0; row < n_rows; row++)
        memcpy(out + row * out_stride + column_begin, part + row * n_columns,
               n_columns * sizeof *out);
    return STATUS_OK;
}

static enum status barrier(struct comm *comm) {
    return health(comm);
}

static void abort_group(struct comm *comm) {
    struct self *self = (struct self *)comm;
    atomic_store(&self->aborted, true);
}

const struct comm_kind comm_self = {
    .name = "self",
    .ranks_max = 1,
    .shared_bytes = shared_bytes,
    .shared_init = shared_init,
    .open = open_rank,
    .close = close_rank,
    .all_reduce = all_reduce,
    .gather = gather,
    .barrier = barrier,
    .abort = abort_group,
    .health = health,
};
