/* kernels/host.h: what a backend that computes on memory of the host says to the questions that a device
 * would have to think about: copies are copies, and an operation is done when it returns. */
#pragma once

#include "kernels/kernels.h"

KERNELS_OP(put, host_put);
KERNELS_OP(get, host_get);
KERNELS_OP(get_beside, host_get_beside);
KERNELS_OP(step_begin, host_step_begin);
KERNELS_OP(step_end, host_step_end);
KERNELS_OP(gather_rows, host_gather_rows);
KERNELS_OP(numerics, host_numerics); /* the rules of kernels/numbers.h */

/* Pairs of a row and one of its experts that moe_ffn() takes through its matrices at once: at least the rows of any expert, and all
 * experts of a single row. */
static inline uint32_t host_moe_wave(uint32_t n_rows, uint32_t n_active) {
    return n_rows > n_active ? n_rows : n_active;
}
KERNELS_OP(moe_scratch, host_moe_scratch);
