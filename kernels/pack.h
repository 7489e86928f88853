/* kernels/pack.h: what every backend needs before it packs a matrix: the parts checked, the common
 * format chosen, and a pointer to each row's bytes.
 *
 * Formats that are kept exactly in one another may be merged: Q4_0 with Q4_1, and F16, BF16 and F32
 * (as F32 when they differ). Load time only; allocates. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/quant/quant.h"

#include <stddef.h>
#include <stdint.h>

#define PACK_ROWS_MAX   (1u << 24) /* rows of one matrix */
#define PACK_INPUTS_MAX (1u << 20)

struct pack_row {
    const uint8_t *bytes; /* borrowed: k elements */
    const struct quant_format *format;
};

struct pack_plan {
    enum weight_format format;
    uint32_t n;
    uint32_t k;            /* a multiple of 32 */
    struct pack_row *rows; /* owned (n), or NULL after pack_plan_shape */
};

/* Checks the parts and fills format, n and k, not rows. Errors: STATUS_INVALID, _UNSUPPORTED. */
NODISCARD enum status pack_plan_shape(struct pack_plan *plan, const struct weight_part *parts,
                                      uint32_t n_parts, struct error *error);

/* The same with rows. Also STATUS_NOMEM. End with pack_plan_fini. */
NODISCARD enum status pack_plan_init(struct pack_plan *plan, const struct weight_part *parts,
                                     uint32_t n_parts, struct error *error);
void pack_plan_fini(struct pack_plan *plan);

/* Group g of row n as integers; false when the format cannot keep it exactly. */
bool pack_group(const struct pack_plan *plan, uint32_t n, uint32_t g, struct quant_group *group);

/* 32 elements of row n from input 32 g as floats. */
void pack_floats(const struct pack_plan *plan, uint32_t n, uint32_t g, float out[GROUP]);
