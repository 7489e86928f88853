#include "kernels/quant/quant.h"

#include <string.h>

extern const struct quant_format quant_f32;
extern const struct quant_format quant_f16;
extern const struct quant_format quant_bf16;
extern const struct quant_format quant_q4_0;
extern const struct quant_format quant_q4_1;
extern const struct quant_format quant_q5_0;
extern const struct quant_format quant_q5_1;
extern const struct quant_format quant_q8_0;
extern const struct quant_format quant_q4_k;
extern const struct quant_format quant_q5_k;
extern const struct quant_format quant_q6_k;
extern const struct quant_format quant_awq;
extern const struct quant_format quant_gptq4;
extern const struct quant_format quant_gptq4_v2;
extern const struct quant_format quant_gptq8;
extern const struct quant_format quant_gptq8_v2;
extern const struct quant_format quant_gptq4_sym;
extern const struct quant_format quant_gptq8_sym;

const struct quant_format *const quant_table[] = {
    &quant_f32,       &quant_f16,       &quant_bf16,  &quant_q4_0,
    &quant_q4_1,      &quant_q5_0,      &quant_q5_1,  &quant_q8_0,
    &quant_q4_k,      &quant_q5_k,      &quant_q6_k,  &quant_awq,
    &quant_gptq4,     &quant_gptq4_v2,  &quant_gptq8, &quant_gptq8_v2,
    &quant_gptq4_sym, &quant_gptq8_sym, NULL,
};

const struct quant_format *quant_find(const char *name) {
    for (size_t i = 0; quant_table[i]; i++)
        if (strcmp(quant_table[i]->name, name) == 0)
            return quant_table[i];
    return NULL;
}

static enum status quant_format_of(const struct weight_tensor *tensor,
                                   const struct quant_format **format, struct error *error) {
    *format = tensor->format ? quant_find(tensor->format) : NULL;
    if (!*format)
        return error_set(error, STATUS_UNSUPPORTED, "weight format '%s' is not known",
                         tensor->format ? tensor->format : "");
    if (tensor->n == 0 || tensor->k == 0)
        return error_set(error, STATUS_INVALID, "a tensor of %u by %u", tensor->n, tensor->k);
    if (tensor->k % (*format)->block != 0)
        return error_set(error, STATUS_INVALID, "%u inputs are not a whole number of %s blocks",
                         tensor->k, tensor->format);
    return STATUS_OK;
}

enum status quant_sizes(const struct weight_tensor *tensor, struct quant_sizes *sizes,
                        struct error *error) {
    const struct quant_format *format;
    TRY(quant_format_of(tensor, &format, error));
    struct quant_sizes wanted = {0};
    if (format->sizes)
        TRY(format->sizes(tensor, &wanted, error));
    else /* below 2^64: two 32-bit numbers, and no block is larger than its elements' floats */
        wanted.values = (uint64_t)tensor->n * (tensor->k / format->block) * format->block_bytes;
    *sizes = wanted;
    return STATUS_OK;
}

static enum status quant_check_bytes(const struct weight_tensor *tensor, const char *what,
                                     const void *data, size_t n_bytes, uint64_t wanted,
                                     struct error *error) {
    if (wanted == n_bytes && (data || wanted == 0))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%s of a %s tensor of %u by %u: %zu bytes, %llu are needed", what,
                     tensor->format, tensor->n, tensor->k, data ? n_bytes : (size_t)0,
                     (unsigned long long)wanted);
}

enum status quant_check(const struct weight_tensor *tensor, const struct quant_format **format,
                        struct error *error) {
    struct quant_sizes sizes;
    TRY(quant_format_of(tensor, format, error));
    TRY(quant_sizes(tensor, &sizes, error));
    TRY(quant_check_bytes(tensor, "values", tensor->values, tensor->n_value_bytes, sizes.values,
                          error));
    TRY(quant_check_bytes(tensor, "scales", tensor->scales, tensor->n_scale_bytes, sizes.scales,
                          error));
    return quant_check_bytes(tensor, "zeros", tensor->zeros, tensor->n_zero_bytes, sizes.zeros,
                             error);
}
