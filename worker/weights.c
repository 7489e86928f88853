#include "worker/weights.h"

#include "base/assert.h"
#include "base/checked.h"
#include "kernels/kernels.h"
#include "kernels/quant/quant.h"
#include "worker/family/slots.h"

#include <string.h>

#define ALIGNMENT 64

static enum status slot_bytes(const struct slot *slot, const struct kernels *kernels,
                              uint64_t *n_bytes, struct error *error) {
    uint64_t n = (uint64_t)slot->n * sizeof(float);
    if (slot->kind == SLOT_MATRIX) {
        n = kernels->weight_size(slot->parts, slot->n_parts, error);
        if (n == 0) {
            error_prefix(error, "tensor %s", slot->name);
            return STATUS_UNSUPPORTED;
        }
    }
    *n_bytes = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return STATUS_OK;
}

enum status weights_measure(const struct slots *slots, const struct kernels *kernels,
                            size_t *n_bytes, struct error *error) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < slots->n; i++) {
        uint64_t n;
        TRY(slot_bytes(&slots->slots[i], kernels, &n, error));
        if (!checked_add(sum, n, &sum) || sum > SIZE_MAX / 2)
            return error_set(error, STATUS_LIMIT, "the weights are larger than memory can be");
    }
    *n_bytes = (size_t)sum;
    return STATUS_OK;
}

static enum status fill_vector(const struct slot *slot, float *memory, struct error *error) {
    const struct weight_part *part = &slot->parts[0];
    const struct quant_format *format = quant_find(part->format);
    uint64_t n_bytes;
    if (!format || !format->unpack_floats)
        return error_set(error, STATUS_UNSUPPORTED, "tensor %s: a vector in format %s", slot->name,
                         part->format);
    if (!quant_row_bytes(format, slot->n, &n_bytes) || n_bytes > part->n_bytes)
        return error_set(error, STATUS_CORRUPT, "tensor %s is shorter than its shape", slot->name);
    format->unpack_floats(part->data, slot->n, memory);
    *slot->vector = memory;
    return STATUS_OK;
}

static enum status fill(struct weights *weights, const struct slots *slots, struct error *error) {
    const struct kernels *kernels = weights->kernels;
    size_t at = 0;
    for (uint32_t i = 0; i < slots->n; i++) {
        const struct slot *slot = &slots->slots[i];
        uint64_t n;
        TRY(slot_bytes(slot, kernels, &n, error));
        ASSERT(checked_range(at, n, weights->n_bytes)); /* as weights_measure() added it up */
        if (slot->kind == SLOT_VECTOR) {
            TRY(fill_vector(slot, (float *)(void *)(weights->memory + at), error));
        } else {
            enum status status = kernels->weight_pack(weights->ctx, slot->parts, slot->n_parts,
                                                      weights->memory + at, slot->weight, error);
            if (status != STATUS_OK) {
                error_prefix(error, "tensor %s", slot->name);
                return status;
            }
        }
        at += (size_t)n;
    }
    return STATUS_OK;
}

enum status weights_load(struct weights *weights, const struct slots *slots,
                         const struct kernels *kernels, struct kernels_ctx *ctx,
                         struct error *error) {
    *weights = (struct weights){.kernels = kernels, .ctx = ctx};
    TRY(weights_measure(slots, kernels, &weights->n_bytes, error));
    if (weights->n_bytes == 0)
        return STATUS_OK;
    weights->memory = kernels->alloc(ctx, weights->n_bytes);
    if (!weights->memory)
        return error_set(error, STATUS_NOMEM, "no memory for %zu bytes of weights",
                         weights->n_bytes);
    enum status status = fill(weights, slots, error);
    if (status != STATUS_OK)
        weights_fini(weights);
    return status;
}

void weights_fini(struct weights *weights) {
    if (weights->memory)
        weights->kernels->dealloc(weights->ctx, weights->memory, weights->n_bytes);
    memset(weights, 0, sizeof *weights);
}
