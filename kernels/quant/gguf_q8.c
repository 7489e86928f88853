/* kernels/quant/gguf_q8.c: GGUF's Q8_0: a binary16 scale and 32 signed bytes, w = d q. */
#include "kernels/quant/quant.h"

#include <string.h>

static bool unpack_q8_0(const uint8_t *block, uint32_t index, struct quant_group *group) {
    (void)index;
    group->scale = (uint16_t)(block[0] | block[1] << 8);
    group->min = 0;
    memcpy(group->q, block + 2, GROUP);
    return true;
}

const struct quant_format quant_q8_0 = {
    .name = "q8_0",
    .block_elems = GROUP,
    .block_bytes = 34,
    .packed = WEIGHT_I8G,
    .unpack_group = unpack_q8_0,
};
