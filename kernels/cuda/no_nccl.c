/* kernels/cuda/no_nccl.c: kernels/cuda/nccl.h in a build whose compiler had no nccl.h. No group is ever opened. */
#include "base/assert.h"
#include "kernels/cuda/nccl.h"

static enum status no_nccl_refuse(struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "this build has no NCCL: there was no nccl.h");
}

enum status nccl_group_id(const struct device_kind *kind, uint32_t wait_ms,
                          struct kernels_group_id *id, struct error *error) {
    (void)kind, (void)wait_ms, (void)id;
    return no_nccl_refuse(error);
}

enum status nccl_open(const struct device_kind *kind, const struct kernels_group_id *id,
                      uint32_t rank, uint32_t n_ranks, uint32_t wait_ms, struct nccl_group **group,
                      struct error *error) {
    (void)kind, (void)id, (void)rank, (void)n_ranks, (void)wait_ms, (void)group;
    return no_nccl_refuse(error);
}

enum status nccl_ready(struct nccl_group *group, struct error *error) {
    (void)group;
    return no_nccl_refuse(error);
}

void nccl_close(struct nccl_group *group) {
    ASSERT(!group);
}

const char *nccl_failure(struct nccl_group *group) {
    ASSERT(!group);
    return NULL;
}

const char *nccl_failure_now(struct nccl_group *group) {
    ASSERT(!group);
    return NULL;
}

void nccl_wait_begins(struct nccl_group *group, struct nccl_wait *wait) {
    (void)wait;
    ASSERT(!group);
}

void nccl_wait_ends(struct nccl_group *group, struct nccl_wait *wait) {
    (void)wait;
    ASSERT(!group);
}

void nccl_all_gather(struct nccl_group *group, struct device_stream *stream, float *to,
                     const float *from, size_t n) {
    (void)stream, (void)to, (void)from, (void)n;
    ASSERT(!group);
}

void nccl_exchange(struct nccl_group *group, struct device_stream *stream, float *to,
                   const float *x, const struct nccl_slices *cut) {
    (void)stream, (void)to, (void)x, (void)cut;
    ASSERT(!group);
}

void nccl_spread(struct nccl_group *group, struct device_stream *stream, float *x,
                 const struct nccl_slices *cut) {
    (void)stream, (void)x, (void)cut;
    ASSERT(!group);
}

void nccl_to_first(struct nccl_group *group, struct device_stream *stream, float *to,
                   const float *from, size_t n) {
    (void)stream, (void)to, (void)from, (void)n;
    ASSERT(!group);
}
