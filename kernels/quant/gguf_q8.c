/* kernels/quant/gguf_q8.c: GGUF's Q8_0: a binary16 scale and 32 signed bytes, w = d q. */
#include "kernels/quant/quant.h"

extern const struct quant_format quant_q8_0;

static void unpack_q8_0(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                        const uint32_t *inputs, struct quant_group *group) {
    (void)inputs;
    const uint8_t *block = quant_block(&quant_q8_0, tensor, row, begin / GROUP);
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
