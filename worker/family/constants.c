#include "worker/family/constants.h"

#include "base/assert.h"
#include "kernels/kernels.h"

#include <string.h>

enum status constants_put(struct constants *constants, const struct kernels *kernels,
                          struct kernels_ctx *ctx, const float *floats, size_t n) {
    ASSERT(n > 0);
    *constants = (struct constants){
        .kernels = kernels, .ctx = ctx, .at = kernels->alloc(ctx, n * sizeof *floats), .n = n};
    if (!constants->at)
        return STATUS_NOMEM;
    kernels->put(ctx, constants->at, floats, n * sizeof *floats);
    return STATUS_OK;
}

void constants_fini(struct constants *constants) {
    if (constants->at)
        constants->kernels->dealloc(constants->ctx, constants->at, constants->n * sizeof(float));
    memset(constants, 0, sizeof *constants);
}
