/* kernels/quant/gguf_q4.c: GGUF's Q4_0 and Q4_1. Byte b of the sixteen holds element b in its low
 * nibble and element b + 16 in its high one. Q4_0: w = d (q - 8). Q4_1: w = d q + m. */
#include "kernels/quant/quant.h"

static uint16_t read_u16(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static void unpack_nibbles(const uint8_t *bytes, int8_t q[GROUP]) {
    for (int i = 0; i < GROUP / 2; i++) {
        q[i] = (int8_t)(bytes[i] & 15);
        q[i + GROUP / 2] = (int8_t)(bytes[i] >> 4);
    }
}

static bool unpack_q4_0(const uint8_t *block, uint32_t index, struct quant_group *group) {
    (void)index;
    unpack_nibbles(block + 2, group->q);
    group->scale = read_u16(block);
    /* -8 d is exact in binary16 unless it leaves its range. */
    float min = -8.0f * half_to_float(group->scale);
    group->min = float_to_half(min);
    return half_to_float(group->min) == min;
}

static bool unpack_q4_1(const uint8_t *block, uint32_t index, struct quant_group *group) {
    (void)index;
    unpack_nibbles(block + 4, group->q);
    group->scale = read_u16(block);
    group->min = read_u16(block + 2);
    return true;
}

const struct quant_format quant_q4_0 = {
    .name = "q4_0",
    .block_elems = GROUP,
    .block_bytes = 18,
    .packed = WEIGHT_I4G,
    .unpack_group = unpack_q4_0,
};

const struct quant_format quant_q4_1 = {
    .name = "q4_1",
    .block_elems = GROUP,
    .block_bytes = 20,
    .packed = WEIGHT_I4G,
    .unpack_group = unpack_q4_1,
};
