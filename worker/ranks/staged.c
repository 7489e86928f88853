#include "worker/ranks/staged.h"

#include "base/assert.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

#include <stdlib.h>

#define ADDED_AT_ONCE ((size_t)1 << 24) /* numbers of a launch: a grid has so many blocks */

struct staged {
    struct comm head;
    struct comm *inner;            /* borrowed */
    const struct kernels *kernels; /* borrowed */
    struct kernels_ctx *ctx;       /* borrowed */
    size_t n_floats;
    float *sum;  /* owned (n_floats): what is summed, or gathered on rank 0 */
    float *part; /* owned (n_floats): what this rank adds to that */
};

static void staged_close(struct comm *comm) {
    struct staged *staged = (struct staged *)comm;
    free(staged->sum);
    free(staged->part);
    free(staged);
}

static enum status staged_all_reduce(struct comm *comm, float *x, size_t n) {
    struct staged *staged = (struct staged *)comm;
    ASSERT(n <= staged->n_floats);
    staged->kernels->get(staged->ctx, staged->sum, x, n * sizeof *x);
    TRY(staged->inner->kind->all_reduce(staged->inner, staged->sum, n));
    staged->kernels->put(staged->ctx, x, staged->sum, n * sizeof *x);
    return STATUS_OK;
}

static void staged_round_all(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = bf16_to_float(float_to_bf16(x[i]));
}

/* Rounded numbers cross as the floats that they are: the sum is the same, and the host's comm knows floats alone. */
static enum status staged_add_parts(struct comm *comm, float *x, float *part, size_t n) {
    struct staged *staged = (struct staged *)comm;
    ASSERT(n <= staged->n_floats);
    staged->kernels->get(staged->ctx, staged->sum, part, n * sizeof *part);
    staged_round_all(staged->sum, n);
    TRY(staged->inner->kind->all_reduce(staged->inner, staged->sum, n));
    staged_round_all(staged->sum, n);
    staged->kernels->put(staged->ctx, part, staged->sum, n * sizeof *part);
    for (size_t at = 0, next; at < n; at = next) {
        next = n - at < ADDED_AT_ONCE ? n : at + ADDED_AT_ONCE;
        staged->kernels->add_gated(staged->ctx, x + at, part + at, NULL, 1, (uint32_t)(next - at));
    }
    return STATUS_OK;
}

static enum status staged_gather(struct comm *comm, float *out, size_t out_stride,
                                 const float *part, size_t n_rows, size_t column_begin,
                                 size_t n_columns) {
    struct staged *staged = (struct staged *)comm;
    size_t n = n_rows * out_stride;
    ASSERT(n_rows * n_columns <= staged->n_floats && (!out || n <= staged->n_floats));
    staged->kernels->get(staged->ctx, staged->part, part, n_rows * n_columns * sizeof *part);
    TRY(staged->inner->kind->gather(staged->inner, out ? staged->sum : NULL, out_stride,
                                    staged->part, n_rows, column_begin, n_columns));
    if (out)
        staged->kernels->put(staged->ctx, out, staged->sum, n * sizeof *out);
    return STATUS_OK;
}

static enum status staged_barrier(struct comm *comm) {
    struct comm *inner = ((struct staged *)comm)->inner;
    return inner->kind->barrier(inner);
}

static void staged_abort(struct comm *comm) {
    struct comm *inner = ((struct staged *)comm)->inner;
    inner->kind->abort(inner);
}

static enum status staged_health(const struct comm *comm) {
    const struct comm *inner = ((const struct staged *)comm)->inner;
    return inner->kind->health(inner);
}

static const struct comm_kind comm_staged = {
    .name = "staged",
    .ranks_max = COMM_RANKS_MAX,
    .close = staged_close,
    .all_reduce = staged_all_reduce,
    .add_parts = staged_add_parts,
    .gather = staged_gather,
    .barrier = staged_barrier,
    .abort = staged_abort,
    .health = staged_health,
};

static enum status staged_device_all_reduce(struct comm *comm, float *x, size_t n) {
    struct staged *staged = (struct staged *)comm;
    staged->kernels->sum(staged->ctx, x, n);
    return STATUS_OK;
}

static enum status staged_device_add_parts(struct comm *comm, float *x, float *part, size_t n) {
    struct staged *staged = (struct staged *)comm;
    staged->kernels->add_parts(staged->ctx, x, part, n);
    return STATUS_OK;
}

static enum status staged_device_gather(struct comm *comm, float *out, size_t out_stride,
                                        const float *part, size_t n_rows, size_t column_begin,
                                        size_t n_columns) {
    struct staged *staged = (struct staged *)comm;
    staged->kernels->gather(staged->ctx, out, out_stride, part, n_rows, column_begin, n_columns);
    return STATUS_OK;
}

static const struct comm_kind comm_of_devices = {
    .name = "device",
    .ranks_max = COMM_RANKS_MAX,
    .close = staged_close,
    .all_reduce = staged_device_all_reduce,
    .add_parts = staged_device_add_parts,
    .gather = staged_device_gather,
    .barrier = staged_barrier,
    .abort = staged_abort,
    .health = staged_health,
};

void comm_staged_meet(struct comm *comm) {
    ASSERT(comm->kind == &comm_staged);
    comm->kind = &comm_of_devices;
}

enum status comm_staged_open(struct comm *inner, const struct kernels *kernels,
                             struct kernels_ctx *ctx, size_t n_floats, struct comm **made,
                             struct error *error) {
    struct staged *staged = calloc(1, sizeof *staged);
    if (!staged)
        return error_set(error, STATUS_NOMEM, "no memory for the sums of ranks");
    *staged = (struct staged){.head = {.kind = &comm_staged,
                                       .rank = inner->rank,
                                       .n_ranks = inner->n_ranks,
                                       .rounds = kernels->add_parts != NULL},
                              .inner = inner,
                              .kernels = kernels,
                              .ctx = ctx,
                              .n_floats = n_floats,
                              .sum = calloc(n_floats, sizeof *staged->sum),
                              .part = calloc(n_floats, sizeof *staged->part)};
    if (!staged->sum || !staged->part) {
        staged_close(&staged->head);
        return error_set(error, STATUS_NOMEM, "no memory for sums of %zu numbers", n_floats);
    }
    *made = &staged->head;
    return STATUS_OK;
}
