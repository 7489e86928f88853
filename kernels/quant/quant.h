/* kernels/quant/quant.h: the seam of file formats: how a tensor's bytes become numbers.
 *
 * A format is one `const struct quant_format` in a file of its own and a row of quant_table. It is
 * used while weights are packed and knows nothing of panels or instruction sets, so a new format
 * needs an unpacker here and no kernel. Pure; any thread. Layouts: ggml's ggml-common.h for Q4_0,
 * Q4_1 and Q8_0; IEEE 754 and bfloat16 for the others. All are little-endian. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 32 weights along the inputs: w = scale * q + min. */
struct quant_group {
    int8_t q[GROUP]; /* I4G: 0..15; I8G: -128..127 */
    uint16_t scale;  /* binary16, as in the file */
    uint16_t min;    /* binary16; 0 where the format has none */
};

struct quant_format {
    const char *name;     /* lower case, as in struct weight_part */
    uint32_t block_elems; /* elements of one block: 1, or a multiple of 32 */
    uint32_t block_bytes;
    enum weight_format packed; /* what it becomes */

    /* One of the two is set. unpack_group: group `index` of a block; false when it cannot be kept
     * exactly. unpack_floats: n elements. */
    bool (*unpack_group)(const uint8_t *block, uint32_t index, struct quant_group *group);
    void (*unpack_floats)(const uint8_t *bytes, uint32_t n, float *out);
};

extern const struct quant_format *const quant_table[]; /* NULL-terminated */

/* The format of that name, or NULL. */
const struct quant_format *quant_find(const char *name);

/* Bytes of n elements, n a multiple of block_elems; false when it is not, or on overflow. */
bool quant_row_bytes(const struct quant_format *format, uint64_t n, uint64_t *n_bytes);

extern const struct quant_format quant_f32;
extern const struct quant_format quant_f16;
extern const struct quant_format quant_bf16;
extern const struct quant_format quant_q4_0;
extern const struct quant_format quant_q4_1;
extern const struct quant_format quant_q8_0;
