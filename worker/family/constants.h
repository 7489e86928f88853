/* worker/family/constants.h: numbers that are made at load and that operations read in every step
 * (rotary tables, slopes, scales), in memory of the kernels. */
#pragma once

#include "base/status.h"

#include <stddef.h>

struct kernels;
struct kernels_ctx;

struct constants {
    const struct kernels *kernels; /* borrowed */
    struct kernels_ctx *ctx;       /* borrowed: closed after constants_fini() */
    float *at;                     /* owned (n): for operations alone */
    size_t n;
};

/* Copies n floats of the host, n at least 1. STATUS_NOMEM. */
NODISCARD enum status constants_put(struct constants *constants, const struct kernels *kernels,
                                    struct kernels_ctx *ctx, const float *floats, size_t n);
void constants_fini(struct constants *constants); /* fine on zeroed ones */
