/* kernels/quant/awq.c: AutoAWQ's "gemm" layout: w = (q - z) scale, four bits, a scale and a zero
 * per group of inputs. Words hold eight outputs of one input, interleaved: nibble 0 is output 0,
 * nibble 1 output 2. Source: AutoAWQ, awq/modules/linear/gemm.py and utils/packing_utils.py. */
#include "kernels/quant/quant.h"

#define PER_WORD 8

static const uint8_t nibble_of[PER_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint32_t awq_field(const void *words, size_t row, const struct weight_tensor *tensor,
                          uint32_t output) {
    size_t word = row * (tensor->n / PER_WORD) + output / PER_WORD;
    return quant_u32((const uint8_t *)words + 4 * word) >> 4 * nibble_of[output % PER_WORD] & 15;
}

static enum status awq_sizes(const struct weight_tensor *tensor, struct quant_sizes *sizes,
                             struct error *error) {
    if (tensor->n % PER_WORD != 0)
        return error_set(error, STATUS_INVALID,
                         "%u outputs of an awq tensor; multiples of 8 are possible", tensor->n);
    return quant_grouped_sizes(tensor, PER_WORD, sizes, error);
}

static void awq_unpack(const struct weight_tensor *tensor, uint32_t row, uint32_t begin,
                       const uint32_t *inputs, struct quant_group *group) {
    (void)inputs;
    uint32_t g = begin / tensor->group;
    float scale = quant_scale(tensor, g, row);
    group->scale[0] = group->scale[1] = scale;
    group->zero = (uint8_t)awq_field(tensor->zeros, g, tensor, row);
    group->min = scale * (float)(0 - (int32_t)group->zero);
    for (uint32_t i = 0; i < GROUP; i++)
        group->q[i] =
            begin + i < tensor->k ? (int8_t)awq_field(tensor->values, begin + i, tensor, row) : 0;
}

const struct quant_format quant_awq = {
    .name = "awq",
    .block = 1,
    .packed = WEIGHT_I4G,
    .wide = true,
    .zeros = true,
    .has_min = true,
    .fine = true,
    .sizes = awq_sizes,
    .unpack_group = awq_unpack,
};
