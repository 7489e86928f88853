#include "worker/ranks/weights.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/log/log.h"
#include "kernels/kernels.h"
#include "kernels/quant/quant.h"
#include "worker/family/slots.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

/* Of all ranks in this process. */
static atomic_uint_fast64_t n_bytes_known;
static atomic_uint_fast64_t n_bytes_packed;

struct weights_progress weights_progress(void) {
    return (struct weights_progress){.n_bytes = atomic_load(&n_bytes_known),
                                     .n_packed = atomic_load(&n_bytes_packed)};
}

void weights_progress_reset(void) {
    atomic_store(&n_bytes_known, 0);
    atomic_store(&n_bytes_packed, 0);
}

static enum status rank_weights_slot_bytes(const struct slot *slot, const struct kernels *kernels,
                                           uint64_t *n_bytes, struct error *error) {
    uint64_t n = (uint64_t)slot->n * sizeof(float);
    if (slot->kind == SLOT_MATRIX) {
        n = kernels->weight_size(&slot->source, error);
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
        TRY(rank_weights_slot_bytes(&slots->slots[i], kernels, &n, error));
        if (!checked_add(sum, n, &sum) || sum > SIZE_MAX / 2)
            return error_set(error, STATUS_LIMIT, "the weights are larger than memory can be");
    }
    *n_bytes = (size_t)sum;
    return STATUS_OK;
}

static enum status rank_weights_fill_piece(const struct slot *slot, const struct slot_piece *piece,
                                           float *vector, struct error *error) {
    const struct quant_format *format = quant_find(piece->format);
    if (!format || !format->read_float)
        return error_set(error, STATUS_UNSUPPORTED, "tensor %s: a vector in format %s", slot->name,
                         piece->format);
    if (((uint64_t)piece->begin + piece->n) * format->block_bytes > piece->n_bytes)
        return error_set(error, STATUS_CORRUPT, "tensor %s is shorter than its shape", slot->name);
    for (uint32_t i = 0; i < piece->n; i++) {
        size_t at = piece->out_begin + (size_t)i * piece->out_step;
        ASSERT(at < slot->n);
        vector[at] = format->read_float(piece->data, (size_t)piece->begin + i);
    }
    return STATUS_OK;
}

static enum status rank_weights_fill_vector(struct weights *weights, const struct slot *slot,
                                            float *memory, struct error *error) {
    float *vector = calloc(slot->n, sizeof *vector);
    enum status status = STATUS_OK;
    if (!vector)
        return error_set(error, STATUS_NOMEM, "tensor %s: no memory for a copy", slot->name);
    for (uint32_t i = 0; status == STATUS_OK && i < slot->n_pieces; i++)
        if (slot->pieces[i].data)
            status = rank_weights_fill_piece(slot, &slot->pieces[i], vector, error);
    if (status == STATUS_OK) {
        weights->kernels->put(weights->ctx, memory, vector, slot->n * sizeof *vector);
        *slot->vector = memory;
    }
    free(vector);
    return status;
}

/* Files of GPTQ's first format may hold zero points that were damaged when they were written. */
static void rank_weights_warn_of_wrapped(const struct slot *slot) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < slot->source.n_parts; i++)
        n += quant_wrapped_zeros(slot->source.parts[i].tensor);
    if (n > 0)
        log_warn("zero points of a tensor are all ones: taken as 0 that wrapped",
                 "tensor=%s fields=%llu", slot->name, (unsigned long long)n);
}

/* Once for all tensors and ranks of a process: where one is wrong, most are. */
static void rank_weights_warn_of_odd_zeros(const struct slot *slot) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    for (uint32_t i = 0; i < slot->source.n_parts; i++)
        if (quant_zeros_are_odd(slot->source.parts[i].tensor) && !atomic_flag_test_and_set(&told))
            log_warn("zero points contradict sym, which says that they have one value: they are "
                     "not read",
                     "tensor=%s", slot->name);
}

static enum status rank_weights_fill_matrix(struct weights *weights, const struct slot *slot,
                                            void *memory, struct error *error) {
    /* What was attached to the weight before (a bias) stays. */
    const float *bias = slot->weight->bias;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < slot->source.n_parts; i++)
        status = quant_scales_check(slot->source.parts[i].tensor, error);
    if (status == STATUS_OK)
        status =
            weights->kernels->weight_pack(weights->ctx, &slot->source, memory, slot->weight, error);
    slot->weight->bias = bias;
    if (status != STATUS_OK)
        error_prefix(error, "tensor %s", slot->name);
    if (status == STATUS_OK)
        rank_weights_warn_of_wrapped(slot);
    if (status == STATUS_OK)
        rank_weights_warn_of_odd_zeros(slot);
    return status;
}

static enum status rank_weights_fill(struct weights *weights, const struct slots *slots,
                                     struct error *error) {
    size_t at = 0;
    for (uint32_t i = 0; i < slots->n; i++) {
        const struct slot *slot = &slots->slots[i];
        unsigned char *memory = weights->memory + at;
        uint64_t n;
        TRY(rank_weights_slot_bytes(slot, weights->kernels, &n, error));
        ASSERT(checked_range(at, n, weights->n_bytes)); /* as weights_measure() added it up */
        if (slot->kind == SLOT_VECTOR)
            TRY(rank_weights_fill_vector(weights, slot, (float *)(void *)memory, error));
        else
            TRY(rank_weights_fill_matrix(weights, slot, memory, error));
        at += (size_t)n;
        atomic_fetch_add(&n_bytes_packed, n);
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
    atomic_fetch_add(&n_bytes_known, weights->n_bytes);
    enum status status = rank_weights_fill(weights, slots, error);
    if (status != STATUS_OK)
        weights_fini(weights);
    return status;
}

void weights_fini(struct weights *weights) {
    if (weights->memory)
        weights->kernels->dealloc(weights->ctx, weights->memory, weights->n_bytes);
    memset(weights, 0, sizeof *weights);
}
