/* kernels/quant/quant.h: the seam of file formats: how a tensor's bytes become numbers.
 *
 * A format is one `const struct quant_format` in a file of its own and a row of quant_table. It is
 * used while weights are packed and knows nothing of panels or instruction sets, so a new format
 * needs an unpacker here and no kernel. Pure; any thread. All bytes are little-endian.
 *
 * Fields of struct weight_tensor:
 *   f32, f16, bf16: values (n, k).
 *   q4_0, q4_1, q5_0, q5_1, q8_0 (blocks of 32) and q4_k, q5_k, q6_k (of 256): values (n, k /
 *     block), as in ggml's ggml-common.h.
 *   awq: values int32 (k, n / 8), zeros int32 (k / group, n / 8), scales (k / group, n): AutoAWQ's
 *     "gemm" layout.
 *   gptq4, gptq8 (format v1: zeros less one), gptq4_v2, gptq8_v2, and gptq4_sym, gptq8_sym, where
 *     zeros are 8 or 128 and the fields are not read, with P = 8 or 4 values a word:
 *     values int32 (k / P, n), zeros int32 (groups, n / P), scales (groups, n), group_of int32 (k)
 *     or NULL. groups = k / group, rounded up.
 *   Scales of awq and gptq are binary16, or bfloat16 or float32 (scale_kind), which are rounded to
 *   it: packed weights keep them so. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 32 weights along the inputs: w = scale * q + min. */
struct quant_group {
    int8_t q[GROUP]; /* I4G: 0..15; I8G: -128..127 */
    float scale[2];  /* of the first and of the second half: they differ where group is 16 */
    float min;
    uint8_t zero; /* of formats with zeros */
};

/* Bytes that a tensor's arrays must have. */
struct quant_sizes {
    uint64_t values;
    uint64_t scales;
    uint64_t zeros;
};

struct quant_format {
    const char *name; /* lower case, as in struct weight_tensor */
    uint32_t block;   /* inputs that a file keeps together: a row is a whole number of them */
    uint32_t block_bytes;
    enum weight_format packed; /* what it becomes */
    uint32_t group;            /* inputs per scale; 0 for floats and where the tensor says it */
    bool wide;                 /* scale or min may have no binary16 */
    bool zeros;                /* as in struct weight */
    bool has_min;              /* I4G: always */
    bool fine;                 /* its own kernels take 16-bit activations: two 8-bit terms here */
    bool takes_order;          /* unpack_group takes inputs in any order */

    /* Checks what only this format knows and says what sizes the tensor's arrays must have; NULL:
     * n * k / block times block_bytes. */
    enum status (*sizes)(const struct weight_tensor *tensor, struct quant_sizes *sizes,
                         struct error *error);
    /* NULL, or whether this tensor's minima are not all zero; asked after quant_check(). */
    bool (*needs_min)(const struct weight_tensor *tensor);

    /* One of the two is set. unpack_group: 32 inputs of a row that share a scale: from input
     * `begin`, a multiple of 32 below k, its group begin / group, with zeros from k on; or, where
     * `inputs` is not NULL, the 32 listed there, the group from group_of, with zeros for
     * WEIGHT_NO_INPUT. unpack_floats: n elements from input `begin`, n at most 32. */
    void (*unpack_group)(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                         const uint32_t *inputs, struct quant_group *group);
    void (*unpack_floats)(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                          uint32_t n, float *out);
    /* Number i of plain values: for vectors. Floats only. */
    float (*read_float)(const void *values, size_t i);
};

extern const struct quant_format *const quant_table[]; /* NULL-terminated */

/* The format of that name, or NULL. */
const struct quant_format *quant_find(const char *name);

/* Is the tensor of a known format, are its sizes possible and its arrays just as long as they say?
 * STATUS_UNSUPPORTED or _INVALID with a reason. Nothing is read but group_of. */
NODISCARD enum status quant_check(const struct weight_tensor *tensor,
                                  const struct quant_format **format, struct error *error);

/* The bytes that quant_check() wants. Errors: as there, but for the lengths. */
NODISCARD enum status quant_sizes(const struct weight_tensor *tensor, struct quant_sizes *sizes,
                                  struct error *error);

/* Fields of a gptq4 or gptq8 tensor's zeros that are all ones: a zero point of 0 that wrapped when
 * the one was taken off, or one of 16 (256). They are read as 0; a loader warns where there are
 * any. 0 for other formats. */
uint64_t quant_wrapped_zeros(const struct weight_tensor *tensor);

/* Do the zeros of a gptq4_sym or gptq8_sym tensor hold anything but the one zero that such a tensor
 * has, in either version? A loader warns of it, since the file may not be symmetric at all. */
bool quant_zeros_are_odd(const struct weight_tensor *tensor);

/* For formats with a scale and a zero per group: sizes where a word holds per_word values.
 * STATUS_UNSUPPORTED when the group is not a multiple of 32 and not all inputs. */
NODISCARD enum status quant_grouped_sizes(const struct weight_tensor *tensor, uint32_t per_word,
                                          struct quant_sizes *sizes, struct error *error);

static inline uint16_t quant_u16(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t quant_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* The kind by its name in the file: "f32", "bf16"; "f16" or NULL. */
enum weight_scales quant_scale_kind(const char *format);

/* Scale `at` of awq and gptq as it is in the file. */
static inline float quant_scale_stored(const struct weight_tensor *tensor, size_t at) {
    const uint8_t *scales = tensor->scales;
    switch (tensor->scale_kind) {
    case WEIGHT_SCALES_F32:
        return float_from_bits(quant_u32(scales + 4 * at));
    case WEIGHT_SCALES_BF16:
        return bf16_to_float(quant_u16(scales + 2 * at));
    default:
        return half_to_float(quant_u16(scales + 2 * at));
    }
}

/* Scale of a group and output of awq and gptq: for each row and group that is unpacked. */
static inline float quant_scale(const struct weight_tensor *tensor, uint32_t group, uint32_t row) {
    float scale = quant_scale_stored(tensor, (size_t)group * tensor->n + row);
    bool is_half = tensor->scale_kind == WEIGHT_SCALES_F16;
    return is_half ? scale : half_to_float(float_to_half(scale));
}

/* STATUS_UNSUPPORTED with the value where a scale of awq or gptq has no binary16: beyond 65504, or
 * none. Smaller ones than binary16 has are rounded, as all are. */
NODISCARD enum status quant_scales_check(const struct weight_tensor *tensor, struct error *error);

/* Group of an input of awq and gptq. */
static inline uint32_t quant_group_of(const struct weight_tensor *tensor, uint32_t input) {
    return tensor->group_of ? quant_u32((const uint8_t *)tensor->group_of + 4 * (size_t)input)
                            : input / tensor->group;
}

/* Block `index` of a row of a tensor in blocks. */
static inline const uint8_t *quant_block(const struct quant_format *format,
                                         const struct weight_tensor *tensor, uint32_t row,
                                         uint32_t index) {
    size_t per_row = tensor->k / format->block;
    return (const uint8_t *)tensor->values + (row * per_row + index) * format->block_bytes;
}

/* The head of unpack_group() for a tensor in blocks: `block` is the one with group `begin`. The
 * body follows; most use some of the parameters. */
#define QUANT_UNPACK(name, format)                                                                 \
    static void name##_block(const uint8_t *block, uint32_t begin, struct quant_group *group);     \
    static void name(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,             \
                     const uint32_t *inputs, struct quant_group *group) {                          \
        (void)inputs;                                                                              \
        name##_block(quant_block(&(format), tensor, row, begin / (format).block), begin, group);   \
    }                                                                                              \
    static void name##_block(const uint8_t *block, __attribute__((unused)) uint32_t begin,         \
                             struct quant_group *group)
