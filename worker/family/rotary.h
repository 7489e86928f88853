/* worker/family/rotary.h: cosines and sines of rotary positions (Su et al. 2021), made at load,
 * with every way in which models stretch them.
 *
 * Angles are computed in float64 and rounded once. libm decides the last bit, so the tables' hash
 * is part of a family's numerics. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <stdint.h>

struct family_facts;
struct model_config;

struct rotary {
    struct rope rope; /* what kernels->rope_kv takes; norms are the caller's to set */
    float *cos;       /* owned (n_variants, n_positions, dims / 2) */
    float *sin;       /* owned (n_variants, n_positions, dims / 2) */
    float *q_scale;   /* owned (n_positions) or NULL */
    uint64_t hash;    /* XXH3-64 of all tables */
};

/* Fills n_variants and variant_limits for prompts of up to `context` tokens. STATUS_LIMIT. */
NODISCARD enum status rotary_variants(const struct model_config *config, uint32_t context,
                                      struct family_facts *facts, struct error *error);

/* Tables for positions below n_positions by config.rope, for each variant. STATUS_NOMEM. */
NODISCARD enum status rotary_init(struct rotary *rotary, const struct model_config *config,
                                  const struct family_facts *facts, struct error *error);
void rotary_fini(struct rotary *rotary); /* fine on a zeroed one */

/* ALiBi slopes (Press et al. 2022) of heads head_begin.. of n_all, head by head: with c the largest
 * power of two up to n_all, 2^(-8 k / c) for k = 1..c, then 2^(-8 k / 2c) at odd k. */
void alibi_slopes(float *slopes, uint32_t n_all, uint32_t head_begin, uint32_t n_heads);
