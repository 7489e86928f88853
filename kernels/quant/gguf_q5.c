/* kernels/quant/gguf_q5.c: GGUF's Q5_0 and Q5_1: nibbles as in Q4_0, and a 32-bit word whose bit i
 * is the fifth bit of element i. Q5_0: w = d (q - 16). Q5_1: w = d q + m. */
#include "kernels/quant/quant.h"

extern const struct quant_format quant_q5_0;
extern const struct quant_format quant_q5_1;

static void unpack_fives(const uint8_t *high, const uint8_t *nibbles, int offset, int8_t q[GROUP]) {
    uint32_t bits = quant_u32(high);
    for (int i = 0; i < GROUP / 2; i++) {
        q[i] = (int8_t)((int)((nibbles[i] & 15u) | (bits >> i & 1) << 4) - offset);
        q[i + GROUP / 2] =
            (int8_t)((int)(nibbles[i] >> 4 | (bits >> (i + GROUP / 2) & 1) << 4) - offset);
    }
}

QUANT_UNPACK(unpack_q5_0, quant_q5_0) {
    unpack_fives(block + 2, block + 6, 16, group->q);
    group->scale[0] = group->scale[1] = half_to_float(quant_u16(block));
    group->min = 0.0f;
}

QUANT_UNPACK(unpack_q5_1, quant_q5_1) {
    unpack_fives(block + 4, block + 8, 0, group->q);
    group->scale[0] = group->scale[1] = half_to_float(quant_u16(block));
    group->min = half_to_float(quant_u16(block + 2));
}

const struct quant_format quant_q5_0 = {
    .name = "q5_0",
    .block = GROUP,
    .block_bytes = 22,
    .packed = WEIGHT_I8G,
    .group = GROUP,
    .unpack_group = unpack_q5_0,
};

const struct quant_format quant_q5_1 = {
    .name = "q5_1",
    .block = GROUP,
    .block_bytes = 24,
    .packed = WEIGHT_I8G,
    .group = GROUP,
    .has_min = true,
    .unpack_group = unpack_q5_1,
};
