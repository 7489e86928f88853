#include "kernels/host.h"

#include "kernels/numbers.h"

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

void host_gather_rows(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *rows,
                      uint32_t n_rows, uint32_t dim) {
    (void)ctx;
    for (uint32_t i = 0; i < n_rows; i++)
        memcpy(out + (size_t)i * dim, x + (size_t)rows[i] * dim, dim * sizeof *out);
}

size_t host_moe_scratch(uint32_t n_rows, uint32_t n_active, uint32_t dim, uint32_t expert_dim) {
    /* a wave's rows gathered, their inner and outer activations; each pair's row and weight */
    return host_moe_wave(n_rows, n_active) * (2 * (size_t)dim + expert_dim) +
           2 * (size_t)n_rows * n_active;
}

const char *host_numerics(const struct kernels_ctx *ctx) {
    (void)ctx;
    return NUMERICS_TEXT;
}
