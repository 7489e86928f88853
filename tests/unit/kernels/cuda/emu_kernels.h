/* Small kernels that use one thing of the emulator each. Pointers are memory of the device. */
#pragma once

#include "kernels/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct device_kind device_emu;

/* out[i] = a[i] + b[i], i < n. */
void emu_add(struct device_stream *stream, float *out, const float *a, const float *b, uint32_t n);

/* One block of 32 n_warps threads: out[0] is the sum of all in[]. Shuffles, shared memory, a barrier. */
void emu_block_sum(struct device_stream *stream, uint32_t *out, const uint32_t *in,
                   uint32_t n_warps);

/* Adds 1 to *out in each of n_blocks blocks of 64 threads. */
void emu_count(struct device_stream *stream, uint32_t *out, uint32_t n_blocks);

/* One warp: y (16, 8) = x (16, 32) w (8, 32)^T, int8: cp.async, ldmatrix, mma. */
void emu_product_s8(struct device_stream *stream, int32_t *y, const int8_t *x, const int8_t *w);

/* One warp: y (16, 8) = x (16, 16) w (16, 8), binary16: ldmatrix.trans for w. */
void emu_product_f16(struct device_stream *stream, float *y, const uint16_t *x, const uint16_t *w);

/* One warp: what each of 32 lanes gets, (EMU_SHUFFLES, 32): shuffles of all kinds and widths, then votes. */
#define EMU_SHUFFLES 12
void emu_shuffles(struct device_stream *stream, uint32_t *out, const uint32_t *in);

/* out[0] = a * b and out[1] = a + b. */
void emu_floats(struct device_stream *stream, float *out, float a, float b);

#ifdef __cplusplus
}
#endif
