/* kernels/quant/pack.h: what every backend needs before it packs a matrix: the source checked, the form
 * chosen that keeps all its parts exactly, and where each row comes from.
 *
 * Integers of 4 bits merge with integers of 4 bits, of 8 with those of 8, floats with floats (as
 * F32 when they differ); the scales then lie at the largest stride that fits all parts, as
 * float32 if one of them wants that. Load time only; allocates. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/quant/order.h"
#include "kernels/quant/quant.h"

#include <stddef.h>
#include <stdint.h>

#define PACK_ROWS_MAX   (1u << 24) /* rows of one matrix */
#define PACK_INPUTS_MAX (1u << 20) /* stored inputs */

struct pack_row {
    const struct weight_tensor *tensor; /* borrowed; NULL: no part gave this row yet */
    const struct quant_format *format;
    uint32_t row; /* of the tensor */
};

struct pack_plan {
    struct weight shape; /* format, n, k, k_stored, group, wide, has_min; no pointers */
    uint32_t k_begin;
    struct order order;    /* without inputs where they are stored as they come */
    struct pack_row *rows; /* owned (n) */
};

/* Errors: STATUS_INVALID, _UNSUPPORTED, _LIMIT, _NOMEM. End with pack_plan_fini. */
NODISCARD enum status pack_plan_init(struct pack_plan *plan, const struct weight_source *source,
                                     struct error *error);
void pack_plan_fini(struct pack_plan *plan); /* fine on a zeroed one */

/* Bytes of the order, which lies behind the packed numbers; a backend copies it there. */
static inline size_t pack_order_bytes(const struct pack_plan *plan) {
    return plan->order.inputs ? plan->order.k_stored * sizeof(uint32_t) : 0;
}

/* Stored inputs [32 g, 32 g + 32) of row n as integers; as floats, with zeros behind the last. */
void pack_group(const struct pack_plan *plan, uint32_t n, uint32_t g, struct quant_group *group);
void pack_floats(const struct pack_plan *plan, uint32_t n, uint32_t g, float out[GROUP]);

static inline bool pack_has_floats(const struct weight *weight) {
    return weight->format != WEIGHT_I4G && weight->format != WEIGHT_I8G;
}

/* Groups of 32 stored inputs; the last of a matrix of floats may have fewer. */
static inline uint32_t pack_n_groups(const struct weight *weight) {
    return order_filled(weight->k_stored) / GROUP;
}

/* A scale or minimum as binary16; false when that is another number. */
static inline bool pack_half(float value, uint16_t *half) {
    *half = float_to_half(value);
    return half_to_float(*half) == value || value != value;
}
