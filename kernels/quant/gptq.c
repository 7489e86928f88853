/* kernels/quant/gptq.c: GPTQ of 4 and 8 bits: w = (q - z) scale with a scale and a zero per group
 * of inputs, and a list of the group of each input where they are out of order (act-order). Words
 * of values hold neighbouring inputs of one output, words of zeros neighbouring outputs. Format v1
 * stores zeros less one. In symmetric files every zero is the middle of the range, and writers put
 * one or the other version of it, or anything, into the fields, since kernels for such files do not
 * read them. Sources: vLLM's quantization/gptq.py, GPTQModel's utils/model.py. */
#include "kernels/quant/quant.h"

enum zeros { ZEROS_LESS_ONE, ZEROS_AS_THEY_ARE, ZEROS_IN_THE_MIDDLE };

/* The one is added to the packed word, carries included: the inverse of the subtraction that
 * GPTQModel does when it saves. A field of all ones wraps to 0 and lifts its neighbour. */
static uint32_t gptq_zero_of(const struct weight_tensor *tensor, uint32_t g, uint32_t row,
                             const uint32_t bits, const enum zeros zeros) {
    const uint32_t per_word = 32 / bits;
    if (zeros == ZEROS_IN_THE_MIDDLE)
        return 1u << (bits - 1);
    size_t at = (size_t)g * (tensor->n / per_word) + row / per_word;
    uint32_t word = quant_u32((const uint8_t *)tensor->zeros + 4 * at);
    if (zeros == ZEROS_LESS_ONE)
        word += bits == 4 ? 0x11111111u : 0x01010101u;
    return word >> bits * (row % per_word) & ((1u << bits) - 1);
}

static uint32_t gptq_n_groups(const struct weight_tensor *tensor) {
    return (uint32_t)(((uint64_t)tensor->k + tensor->group - 1) / tensor->group);
}

static enum status gptq_check_groups(const struct weight_tensor *tensor, struct error *error) {
    uint32_t n = gptq_n_groups(tensor);
    for (uint32_t i = 0; tensor->group_of && i < tensor->k; i++) {
        uint32_t g = quant_group_of(tensor, i);
        if (g >= n)
            return error_set(error, STATUS_INVALID,
                             "input %u of a %s tensor is in group %d; there are %u", i,
                             tensor->format, (int)g, n);
    }
    return STATUS_OK;
}

static enum status gptq_sizes(const struct weight_tensor *tensor, const uint32_t bits,
                              struct quant_sizes *wanted, struct error *error) {
    if (tensor->n % (32 / bits) != 0)
        return error_set(error, STATUS_INVALID,
                         "%u outputs of a %s tensor; multiples of %u are possible", tensor->n,
                         tensor->format, 32 / bits);
    TRY(quant_grouped_sizes(tensor, 32 / bits, wanted, error));
    return gptq_check_groups(tensor, error);
}

static void gptq_unpack(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                        const uint32_t *inputs, struct quant_group *group, const uint32_t bits,
                        const enum zeros zeros) {
    const uint32_t per_word = 32 / bits;
    const uint32_t mask = (1u << bits) - 1;
    const int32_t offset = bits == 8 ? 128 : 0; /* 8 bits are kept signed */
    uint32_t g = inputs ? quant_group_of(tensor, inputs[0]) : begin / tensor->group;
    float scale = quant_scale(tensor, g, row);
    group->scale[0] = group->scale[1] = scale;
    group->zero = (uint8_t)gptq_zero_of(tensor, g, row, bits, zeros);
    group->min = scale * (float)(offset - (int32_t)group->zero);
    for (uint32_t i = 0; i < GROUP; i++) {
        uint32_t input = inputs ? inputs[i] : begin + i;
        if (input >= tensor->k) { /* WEIGHT_NO_INPUT, too */
            group->q[i] = 0;
            continue;
        }
        size_t at = (size_t)(input / per_word) * tensor->n + row;
        uint32_t word = quant_u32((const uint8_t *)tensor->values + 4 * at);
        group->q[i] = (int8_t)((int32_t)(word >> bits * (input % per_word) & mask) - offset);
    }
}

uint64_t quant_wrapped_zeros(const struct weight_tensor *tensor) {
    bool four = tensor->format && strcmp(tensor->format, "gptq4") == 0;
    if (!four && (!tensor->format || strcmp(tensor->format, "gptq8") != 0))
        return 0;
    uint32_t bits = four ? 4 : 8;
    uint32_t mask = (1u << bits) - 1;
    uint64_t n = 0;
    for (size_t at = 0; at + 4 <= tensor->n_zero_bytes; at += 4) {
        uint32_t word = quant_u32((const uint8_t *)tensor->zeros + at);
        for (uint32_t shift = 0; shift < 32; shift += bits)
            n += (word >> shift & mask) == mask;
    }
    return n;
}

bool quant_zeros_are_odd(const struct weight_tensor *tensor) {
    bool four = tensor->format && strcmp(tensor->format, "gptq4_sym") == 0;
    if (!four && (!tensor->format || strcmp(tensor->format, "gptq8_sym") != 0))
        return false;
    uint32_t middle = four ? 0x88888888u : 0x80808080u;
    uint32_t one = four ? 0x11111111u : 0x01010101u;
    for (size_t at = 0; at + 4 <= tensor->n_zero_bytes; at += 4) {
        uint32_t word = quant_u32((const uint8_t *)tensor->zeros + at);
        if (word != middle && word != middle - one)
            return true;
    }
    return false;
}

/* Symmetric files have a zero of 128 everywhere, which leaves no minimum. */
static bool gptq_needs_min(const struct weight_tensor *tensor, bool v1) {
    for (size_t at = 0; at + 4 <= tensor->n_zero_bytes; at += 4)
        if (quant_u32((const uint8_t *)tensor->zeros + at) != (v1 ? 0x7f7f7f7fu : 0x80808080u))
            return true;
    return false;
}

/* The hooks of one width and version of the format: the compiler makes their numbers constants. */
#define SIZES(name, bits)                                                                          \
    static enum status name(const struct weight_tensor *tensor, struct quant_sizes *wanted,        \
                            struct error *error) {                                                 \
        return gptq_sizes(tensor, bits, wanted, error);                                            \
    }
SIZES(sizes_4, 4)
SIZES(sizes_8, 8)

#define UNPACK(name, bits, zeros)                                                                  \
    static void name(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,             \
                     const uint32_t *inputs, struct quant_group *group) {                          \
        gptq_unpack(tensor, row, begin, inputs, group, bits, zeros);                               \
    }
UNPACK(unpack_4, 4, ZEROS_LESS_ONE)
UNPACK(unpack_4_v2, 4, ZEROS_AS_THEY_ARE)
UNPACK(unpack_4_sym, 4, ZEROS_IN_THE_MIDDLE)
UNPACK(unpack_8, 8, ZEROS_LESS_ONE)
UNPACK(unpack_8_v2, 8, ZEROS_AS_THEY_ARE)
UNPACK(unpack_8_sym, 8, ZEROS_IN_THE_MIDDLE)

static bool gptq_needs_min_8(const struct weight_tensor *tensor) {
    return gptq_needs_min(tensor, true);
}

static bool gptq_needs_min_8_v2(const struct weight_tensor *tensor) {
    return gptq_needs_min(tensor, false);
}

static bool gptq_needs_no_min(const struct weight_tensor *tensor) {
    (void)tensor;
    return false;
}

#define GPTQ4                                                                                      \
    .block = 8, .packed = WEIGHT_I4G, .wide = true, .zeros = true, .has_min = true, .fine = true,  \
    .takes_order = true, .sizes = sizes_4
#define GPTQ8                                                                                      \
    .block = 4, .packed = WEIGHT_I8G, .wide = true, .zeros = true, .has_min = true, .fine = true,  \
    .takes_order = true, .sizes = sizes_8

const struct quant_format quant_gptq4 = {.name = "gptq4", GPTQ4, .unpack_group = unpack_4};
const struct quant_format quant_gptq4_v2 = {.name = "gptq4_v2", GPTQ4, .unpack_group = unpack_4_v2};
const struct quant_format quant_gptq8 = {
    .name = "gptq8", GPTQ8, .needs_min = gptq_needs_min_8, .unpack_group = unpack_8};
const struct quant_format quant_gptq8_v2 = {
    .name = "gptq8_v2", GPTQ8, .needs_min = gptq_needs_min_8_v2, .unpack_group = unpack_8_v2};
const struct quant_format quant_gptq4_sym = {
    .name = "gptq4_sym", GPTQ4, .unpack_group = unpack_4_sym};
const struct quant_format quant_gptq8_sym = {
    .name = "gptq8_sym", GPTQ8, .needs_min = gptq_needs_no_min, .unpack_group = unpack_8_sym};
