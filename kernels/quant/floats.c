/* kernels/quant/floats.c: F32, F16 and BF16: IEEE 754, and the upper half of its binary32. */
#include "kernels/quant/quant.h"

static float read_f32(const void *values, size_t i) {
    return float_from_bits(quant_u32((const uint8_t *)values + 4 * i));
}

static float read_f16(const void *values, size_t i) {
    return half_to_float(quant_u16((const uint8_t *)values + 2 * i));
}

static float read_bf16(const void *values, size_t i) {
    return bf16_to_float(quant_u16((const uint8_t *)values + 2 * i));
}

#define UNPACK(name, read)                                                                         \
    static void name(const struct weight_tensor *tensor, uint32_t row, uint32_t begin, uint32_t n, \
                     float *out) {                                                                 \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i] = read(tensor->values, (size_t)row * tensor->k + begin + i);                    \
    }
UNPACK(unpack_f32, read_f32)
UNPACK(unpack_f16, read_f16)
UNPACK(unpack_bf16, read_bf16)

const struct quant_format quant_f32 = {
    .name = "f32",
    .block = 1,
    .block_bytes = 4,
    .packed = WEIGHT_F32,
    .unpack_floats = unpack_f32,
    .read_float = read_f32,
};

const struct quant_format quant_f16 = {
    .name = "f16",
    .block = 1,
    .block_bytes = 2,
    .packed = WEIGHT_F16,
    .unpack_floats = unpack_f16,
    .read_float = read_f16,
};

const struct quant_format quant_bf16 = {
    .name = "bf16",
    .block = 1,
    .block_bytes = 2,
    .packed = WEIGHT_BF16,
    .unpack_floats = unpack_bf16,
    .read_float = read_bf16,
};
