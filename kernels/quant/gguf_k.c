/* kernels/quant/gguf_k.c: GGUF's Q4_K, Q5_K and Q6_K: blocks of 256 whose scales are themselves
 * integers times a binary16.
 *
 * Q4_K: d, dmin, 12 bytes of eight 6-bit scales and minima, 128 bytes: each 32 of them hold 32
 * elements in their low nibbles and the next 32 in their high ones; w = d sc q - dmin m per 32.
 * Q5_K: before the nibbles 32 bytes whose bit g is the fifth bit of an element of group g.
 * Q6_K: 128 bytes of low bits, 64 of high ones, 16 signed scales, d; w = d sc (q - 32) per 16.
 * A product of scales has at most 19 bits, so float32 keeps it exactly. */
#include "kernels/quant/quant.h"

extern const struct quant_format quant_q4_k;
extern const struct quant_format quant_q5_k;
extern const struct quant_format quant_q6_k;

#define BLOCK 256

/* Scale and minimum of group g: 6 bits each; the upper two bits of the last four lie above the
 * first four's. */
static void gguf_k_scale_and_min(const uint8_t *bytes, uint32_t g, uint32_t *scale, uint32_t *min) {
    if (g < 4) {
        *scale = bytes[g] & 63u;
        *min = bytes[g + 4] & 63u;
    } else {
        *scale = (bytes[g + 4] & 15u) | (bytes[g - 4] >> 6 << 4);
        *min = (uint32_t)bytes[g + 4] >> 4 | (bytes[g] >> 6 << 4);
    }
}

/* The scales of Q4_K and Q5_K, and group g's nibbles. */
static void unpack_four_bits(const uint8_t *block, const uint8_t *nibbles, uint32_t g,
                             struct quant_group *group) {
    uint32_t scale;
    uint32_t min;
    gguf_k_scale_and_min(block + 4, g, &scale, &min);
    group->scale[0] = group->scale[1] = half_to_float(quant_u16(block)) * (float)scale;
    group->min = -(half_to_float(quant_u16(block + 2)) * (float)min);
    nibbles += (size_t)g / 2 * GROUP;
    for (int i = 0; i < GROUP; i++)
        group->q[i] = (int8_t)(g % 2 == 0 ? nibbles[i] & 15 : nibbles[i] >> 4);
}

QUANT_UNPACK(unpack_q4_k, quant_q4_k) {
    unpack_four_bits(block, block + 16, begin % BLOCK / GROUP, group);
}

QUANT_UNPACK(unpack_q5_k, quant_q5_k) {
    uint32_t g = begin % BLOCK / GROUP;
    unpack_four_bits(block, block + 48, g, group);
    for (int i = 0; i < GROUP; i++)
        group->q[i] = (int8_t)(group->q[i] | (block[16 + i] >> g & 1) << 4);
}

QUANT_UNPACK(unpack_q6_k, quant_q6_k) {
    uint32_t half = begin % BLOCK / 128;
    uint32_t quarter = begin % 128 / GROUP;
    const uint8_t *low = block + 64 * half + quarter % 2 * GROUP;
    const uint8_t *high = block + 128 + 32 * half;
    const int8_t *scales = (const int8_t *)block + 192 + 8 * half + 2 * quarter;
    float d = half_to_float(quant_u16(block + 208));
    for (int i = 0; i < GROUP; i++) {
        int bits = quarter < 2 ? low[i] & 15 : low[i] >> 4;
        group->q[i] = (int8_t)((bits | (high[i] >> 2 * quarter & 3) << 4) - 32);
    }
    group->scale[0] = d * (float)scales[0];
    group->scale[1] = d * (float)scales[1];
    group->min = 0.0f;
}

const struct quant_format quant_q4_k = {
    .name = "q4_k",
    .block = BLOCK,
    .block_bytes = 144,
    .packed = WEIGHT_I4G,
    .group = GROUP,
    .wide = true,
    .has_min = true,
    .unpack_group = unpack_q4_k,
};

const struct quant_format quant_q5_k = {
    .name = "q5_k",
    .block = BLOCK,
    .block_bytes = 176,
    .packed = WEIGHT_I8G,
    .group = GROUP,
    .wide = true,
    .has_min = true,
    .unpack_group = unpack_q5_k,
};

const struct quant_format quant_q6_k = {
    .name = "q6_k",
    .block = BLOCK,
    .block_bytes = 210,
    .packed = WEIGHT_I8G,
    .group = GROUP / 2,
    .wide = true,
    .unpack_group = unpack_q6_k,
};
