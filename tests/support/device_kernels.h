/* tests/support/device_kernels.h: small kernels whose results are known, one for each thing that a kernel may use, as a
 * table per compilation. Pointers are memory of the device. */
#pragma once

#include "kernels/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVICE_SHUFFLES 12 /* rows that shuffles() writes */

struct device_kernels {
    /* out[i] = a[i] + b[i], i < n. */
    void (*add)(struct device_stream *stream, float *out, const float *a, const float *b,
                uint32_t n);
    /* Three blocks of 32 n_warps threads: out (3) is the sum of all in[]. Shuffles, shared memory, a
     * barrier. */
    void (*block_sum)(struct device_stream *stream, uint32_t *out, const uint32_t *in,
                      uint32_t n_warps);
    /* Adds 1 to *out in each of n_blocks blocks of 64 threads. */
    void (*count)(struct device_stream *stream, uint32_t *out, uint32_t n_blocks);
    /* 96 threads, i - 40 each. out: (7), zeros: sum, maximum and minimum as int, the same as unsigned,
     * the sum as float. */
    void (*atomics)(struct device_stream *stream, uint32_t *out);
    /* order[i] is the number of the block that came i-th of (n_blocks); *next begins as 0. */
    void (*order)(struct device_stream *stream, uint32_t *order, uint32_t *next, uint32_t n_blocks);
    /* One warp: y (16, 8) = x (16, 32) w (8, 32)^T, int8: cp.async, ldmatrix, mma. */
    void (*product_s8)(struct device_stream *stream, int32_t *y, const int8_t *x, const int8_t *w);
    /* One warp: y (16, 8) = x (16, 16) w (16, 8), binary16 or bfloat16: ldmatrix.trans for w. */
    void (*product_f16)(struct device_stream *stream, float *y, const uint16_t *x,
                        const uint16_t *w);
    void (*product_bf16)(struct device_stream *stream, float *y, const uint16_t *x,
                         const uint16_t *w);
    /* One warp: ldmatrix of rows that lie `stride` bytes apart (16 or 128). out: (32, 4). */
    void (*matrices)(struct device_stream *stream, uint32_t *out, uint32_t stride);
    /* One warp: what each of 32 lanes gets, (DEVICE_SHUFFLES, 32): shuffles of all kinds and widths,
     * then votes. in: (33). */
    void (*shuffles)(struct device_stream *stream, uint32_t *out, const uint32_t *in);
    /* out: a * b, a + b, a / b, sqrt(a), fma(a, b, a). */
    void (*floats)(struct device_stream *stream, float *out, float a, float b);
    /* For i < n: out[i] = dp4a(i, a[i], b[i]). */
    void (*dots)(struct device_stream *stream, int32_t *out, const uint32_t *a, const uint32_t *b,
                 uint32_t n);
    /* For i < n: out[4 i] = a - b, out[4 i + 1] = a * b + c, out[4 i + 2] = the lower half of a as a
     * float's bits, of pairs of binary16; out[4 i + 3] = the pair of b and c, which are floats' bits. */
    void (*halves)(struct device_stream *stream, uint32_t *out, const uint32_t *a,
                   const uint32_t *b, const uint32_t *c, uint32_t n);
    /* 16 bytes at `from` by load_stream_16. */
    void (*load_16)(struct device_stream *stream, uint32_t *out, const uint32_t *from);
    /* A cp.async whose place is read before the wait (out[0]) and after it (out[1]). */
    void (*late)(struct device_stream *stream, uint32_t *out, const uint32_t *from);
    /* n_blocks blocks hand a token round, each adds its number: out[0] is their sum in the end.
     * `flags`: (n_blocks + 1) zeros. All are alive together, or not. */
    void (*relay)(struct device_stream *stream, uint32_t *out, uint32_t *flags, uint32_t n_blocks,
                  bool together);
    /* Fails: 1056 threads in a block. */
    void (*too_many_threads)(struct device_stream *stream, float *out);
    /* Reads through a null pointer; runs over its stack. */
    void (*null_read)(struct device_stream *stream, float *out);
    void (*deep)(struct device_stream *stream, float *out, uint32_t depth);
};
extern const struct device_kernels device_kernels_emu;
extern const struct device_kernels device_kernels_cuda;

#ifdef __cplusplus
}
#endif
