/* kernels/quant/gguf_q8.c: GGUF's Q8_0: a binary16 scale and 32 signed bytes, w = d q. */
#include "kernels/quant/quant.h"

extern const struct quant_format quant_q8_0;

QUANT_UNPACK(unpack_q8_0, quant_q8_0) {
    group->scale[0] = group->scale[1] = half_to_float(quant_u16(block));
    group->min = 0.0f;
    memcpy(group->q, block + 2, GROUP);
}

const struct quant_format quant_q8_0 = {
    .name = "q8_0",
    .block = GROUP,
    .block_bytes = 34,
    .packed = WEIGHT_I8G,
    .group = GROUP,
    .unpack_group = unpack_q8_0,
};
