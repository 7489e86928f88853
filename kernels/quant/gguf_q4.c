/* kernels/quant/gguf_q4.c: GGUF's Q4_0 and Q4_1. Byte b of the sixteen holds element b in its low
 * nibble and element b + 16 in its high one. Q4_0: w = d (q - 8). Q4_1: w = d q + m. */
#include "kernels/quant/quant.h"

extern const struct quant_format quant_q4_0;
extern const struct quant_format quant_q4_1;

static void unpack_nibbles(const uint8_t *bytes, int8_t q[GROUP]) {
    for (int i = 0; i < GROUP / 2; i++) {
        q[i] = (int8_t)(bytes[i] & 15);
        q[i + GROUP / 2] = (int8_t)(bytes[i] >> 4);
    }
}

QUANT_UNPACK(unpack_q4_0, quant_q4_0) {
    unpack_nibbles(block + 2, group->q);
    group->scale[0] = group->scale[1] = half_to_float(quant_u16(block));
    group->min = -8.0f * group->scale[0]; /* exact in binary16 unless it leaves its range */
}

QUANT_UNPACK(unpack_q4_1, quant_q4_1) {
    unpack_nibbles(block + 4, group->q);
    group->scale[0] = group->scale[1] = half_to_float(quant_u16(block));
    group->min = half_to_float(quant_u16(block + 2));
}

const struct quant_format quant_q4_0 = {
    .name = "q4_0",
    .block = GROUP,
    .block_bytes = 18,
    .packed = WEIGHT_I4G,
    .group = GROUP,
    .has_min = true,
    .unpack_group = unpack_q4_0,
};

const struct quant_format quant_q4_1 = {
    .name = "q4_1",
    .block = GROUP,
    .block_bytes = 20,
    .packed = WEIGHT_I4G,
    .group = GROUP,
    .has_min = true,
    .unpack_group = unpack_q4_1,
};
