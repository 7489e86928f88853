/* worker/family/rotary.h: cosines and sines of rotary positions (Su et al. 2021), made at load,
 * with every way in which models stretch them.
 *
 * Angles are computed in float64 and rounded once. libm decides the last bit, so the tables' hash
 * is part of a family's numerics. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "worker/family/constants.h"

#include <stdint.h>

struct family_facts;
struct model_config;

struct rotary {
    struct rope rope; /* what kernels->rope_kv takes; norms are the caller's to set */
    /* Until rotary_put(), what rope points to: */
    float *cos;                 /* owned (n_variants, n_positions, dims / 2) or NULL */
    float *sin;                 /* owned (n_variants, n_positions, dims / 2) or NULL */
    float *q_scale;             /* owned (n_positions) or NULL */
    size_t n_angles;            /* numbers in cos, and in sin */
    size_t n_q_scales;          /* numbers in q_scale */
    uint64_t hash;              /* XXH3-64 of all tables */
    struct constants placed[3]; /* from then on: cos, sin, q_scale */
};

/* Fills n_variants and variant_limits for prompts of up to `context` tokens. STATUS_LIMIT. */
NODISCARD enum status rotary_variants(const struct model_config *config, uint32_t context,
                                      struct family_facts *facts, struct error *error);

/* Tables for positions below n_positions by config.rope, for each variant, in memory of the host.
 * STATUS_NOMEM. */
NODISCARD enum status rotary_init(struct rotary *rotary, const struct model_config *config,
                                  const struct family_facts *facts, struct error *error);
/* Moves the tables to where operations read them. STATUS_NOMEM. */
NODISCARD enum status rotary_put(struct rotary *rotary, const struct kernels *kernels,
                                 struct kernels_ctx *ctx);
void rotary_fini(struct rotary *rotary); /* fine on a zeroed one */

/* ALiBi slopes (Press et al. 2022) of heads head_begin.. of n_all, head by head: with c the largest
 * power of two up to n_all, 2^(-8 k / c) for k = 1..c, then 2^(-8 k / 2c) at odd k. */
void alibi_slopes(float *slopes, uint32_t n_all, uint32_t head_begin, uint32_t n_heads);
