/* worker/family/rotary.h: cosines and sines of rotary positions (Su et al. 2021), made at load.
 *
 * Angles are computed in float64 and rounded once. libm decides the last bit, so the tables' hash
 * is part of a family's numerics. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <stdint.h>

struct model_config;

struct rotary {
    struct rope rope; /* what kernels->rope_kv takes */
    float *cos;       /* owned (n_positions, dims / 2) */
    float *sin;       /* owned (n_positions, dims / 2) */
    uint64_t hash;    /* XXH3-64 of both tables */
};

/* Tables for positions below n_positions by config.rope. STATUS_NOMEM. */
NODISCARD enum status rotary_init(struct rotary *rotary, const struct model_config *config,
                                  uint32_t n_positions, struct error *error);
void rotary_fini(struct rotary *rotary); /* fine on a zeroed one */
