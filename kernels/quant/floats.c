/* kernels/quant/floats.c: F32, F16 and BF16: IEEE 754, and the upper half of its binary32. */
#include "kernels/quant/quant.h"

static void unpack_f32(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                       float out[GROUP]) {
    const uint8_t *bytes = (const uint8_t *)tensor->values + ((size_t)row * tensor->k + begin) * 4;
    for (size_t i = 0; i < GROUP; i++)
        out[i] = float_from_bits(quant_u32(bytes + 4 * i));
}

static void unpack_f16(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                       float out[GROUP]) {
    const uint8_t *bytes = (const uint8_t *)tensor->values + ((size_t)row * tensor->k + begin) * 2;
    for (size_t i = 0; i < GROUP; i++)
        out[i] = half_to_float(quant_u16(bytes + 2 * i));
}

static void unpack_bf16(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                        float out[GROUP]) {
    const uint8_t *bytes = (const uint8_t *)tensor->values + ((size_t)row * tensor->k + begin) * 2;
    for (size_t i = 0; i < GROUP; i++)
        out[i] = bf16_to_float(quant_u16(bytes + 2 * i));
}

const struct quant_format quant_f32 = {
    .name = "f32",
    .block = 1,
    .block_bytes = 4,
    .packed = WEIGHT_F32,
    .unpack_floats = unpack_f32,
};

const struct quant_format quant_f16 = {
    .name = "f16",
    .block = 1,
    .block_bytes = 2,
    .packed = WEIGHT_F16,
    .unpack_floats = unpack_f16,
};

const struct quant_format quant_bf16 = {
    .name = "bf16",
    .block = 1,
    .block_bytes = 2,
    .packed = WEIGHT_BF16,
    .unpack_floats = unpack_bf16,
};
