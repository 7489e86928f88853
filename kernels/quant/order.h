/* kernels/quant/order.h: in what order a matrix stores its inputs, where that is not their own: those of
 * a GPTQ tensor with act-order are sorted by group, so that neighbours share a scale; those of a
 * cut that is not a whole number of groups of 32 stand between zeros. Load time only; allocates. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/numbers.h"

struct order {
    uint32_t *inputs;  /* owned (k_stored): the cut's input, from 0, or WEIGHT_NO_INPUT */
    uint32_t k_stored; /* a multiple of 32 */
    uint32_t group; /* neighbours that share a scale: a multiple of 32; the last may have fewer */
    bool is_sorted; /* by group; else the inputs keep their own order */
};

/* Whole groups of 32 that hold n inputs, as inputs. */
static inline uint32_t order_filled(uint32_t n) {
    return n / GROUP * GROUP + (n % GROUP != 0 ? GROUP : 0);
}

/* The largest number that divides both: a stride that fits two layouts of scales. */
static inline uint32_t order_divisor(uint32_t a, uint32_t b) {
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Is the group of each input what i / group says? Some writers leave a list of zeros: that means
 * the same. */
bool order_is_plain(const struct weight_tensor *tensor);

/* Do the two tensors put each input into the same group? */
bool order_is_same(const struct weight_tensor *a, const struct weight_tensor *b);

/* Sorts inputs [k_begin, k_begin + k) by group, stably, each group filled up to a multiple of 32.
 * The tensor has passed quant_check(). Errors: STATUS_NOMEM, STATUS_LIMIT when more than
 * `stored_max` would be stored. */
NODISCARD enum status order_init(struct order *order, const struct weight_tensor *tensor,
                                 uint32_t k_begin, uint32_t k, uint32_t stored_max,
                                 struct error *error);

/* Inputs [k_begin, k_begin + k) in the groups of 32 that the tensor has them in: zeros stand for
 * what the cut leaves of the first and of the last one. `group` is the stride of the scales.
 * STATUS_NOMEM. */
NODISCARD enum status order_fill(struct order *order, uint32_t k_begin, uint32_t k, uint32_t group,
                                 struct error *error);
void order_fini(struct order *order); /* fine on a zeroed one */
