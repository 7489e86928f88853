/* tests/emulator/tensor_cores.h: how the emulated device's tensor cores multiply 16-bit floats: a chain's sum and the 16
 * products of an mma are added up in double precision in rising order, and rounded once. */
#pragma once

#include "kernels/half.h"

#include <xmmintrin.h>

namespace emu {

/* While it lives the host's processor knows denormals, as tensor cores do. */
struct with_denormals {
    uint32_t saved = _mm_getcsr();
    with_denormals() {
        _mm_setcsr(saved & ~0x8040u); /* tensor cores know denormals */
    }
    ~with_denormals() {
        _mm_setcsr(saved);
    }
};

/* Number i of a pair. */
inline float half_at(uint32_t pair, int i) {
    return half_to_float((uint16_t)(pair >> 16 * i));
}
inline float bf16_at(uint32_t pair, int i) {
    return bf16_to_float((uint16_t)(pair >> 16 * i));
}

/* sum + a[0] b[0] + ... + a[15] b[15] */
inline float dot_16(float sum, const float a[16], const float b[16]) {
    double all = (double)sum;
    for (int k = 0; k < 16; k++)
        all += (double)a[k] * (double)b[k];
    return (float)all;
}

/* A lane's part of operand A (16, 16) of mma.m16n8k16, and of a warp's rows of wgmma. */
template <float (*AT)(uint32_t pair, int i)>
void take_a(float a[16][16], int lane, const uint32_t own[4]) {
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 2; i++)
            a[lane / 4 + r % 2 * 8][lane % 4 * 2 + i + r / 2 * 8] = AT(own[r], i);
}

} // namespace emu
