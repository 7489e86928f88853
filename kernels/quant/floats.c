/* kernels/quant/floats.c: F32, F16 and BF16, one element at a time. */
#include "kernels/quant/quant.h"

#include <string.h>

static uint16_t read_u16(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static void unpack_f32(const uint8_t *bytes, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *b = bytes + 4 * (size_t)i;
        out[i] = float_from_bits((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                                 (uint32_t)b[3] << 24);
    }
}

static void unpack_f16(const uint8_t *bytes, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = half_to_float(read_u16(bytes + 2 * (size_t)i));
}

static void unpack_bf16(const uint8_t *bytes, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = bf16_to_float(read_u16(bytes + 2 * (size_t)i));
}

const struct quant_format quant_f32 = {
    .name = "f32",
    .block_elems = 1,
    .block_bytes = 4,
    .packed = WEIGHT_F32,
    .unpack_floats = unpack_f32,
};

const struct quant_format quant_f16 = {
    .name = "f16",
    .block_elems = 1,
    .block_bytes = 2,
    .packed = WEIGHT_F16,
    .unpack_floats = unpack_f16,
};

const struct quant_format quant_bf16 = {
    .name = "bf16",
    .block_elems = 1,
    .block_bytes = 2,
    .packed = WEIGHT_BF16,
    .unpack_floats = unpack_bf16,
};
