#include "kernels/host.h"

#include <string.h>

void host_put(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    (void)ctx;
    memcpy(to, from, n_bytes);
}

void host_get(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    (void)ctx;
    memcpy(to, from, n_bytes);
}

enum status host_get_beside(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    host_get(ctx, to, from, n_bytes);
    return STATUS_OK;
}

void host_step_begin(struct kernels_ctx *ctx, struct kernels_step *step) {
    (void)ctx;
    (void)step;
}

enum status host_step_end(struct kernels_ctx *ctx) {
    (void)ctx;
    return STATUS_OK;
}
