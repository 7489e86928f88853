/* Formats with a scale and a zero per group of inputs: AWQ and GPTQ. */
#include "kernels/quant/quant.h"

#include <math.h>
#include <string.h>

enum weight_scales quant_scale_kind(const char *format) {
    if (format && strcmp(format, "f32") == 0)
        return WEIGHT_SCALES_F32;
    return format && strcmp(format, "bf16") == 0 ? WEIGHT_SCALES_BF16 : WEIGHT_SCALES_F16;
}

static size_t quant_grouped_scale_bytes(const struct weight_tensor *tensor) {
    return tensor->scale_kind == WEIGHT_SCALES_F32 ? 4 : 2;
}

enum status quant_scales_check(const struct weight_tensor *tensor, struct error *error) {
    if (tensor->scale_kind == WEIGHT_SCALES_F16)
        return STATUS_OK;
    size_t n = tensor->n_scale_bytes / quant_grouped_scale_bytes(tensor);
    for (size_t i = 0; i < n; i++) {
        float scale = quant_scale_stored(tensor, i);
        if (!isfinite(half_to_float(float_to_half(scale))))
            return error_set(error, STATUS_UNSUPPORTED,
                             "its scales hold %g, which F16 cannot: they are kept in F16",
                             (double)scale);
    }
    return STATUS_OK;
}

enum status quant_grouped_sizes(const struct weight_tensor *tensor, uint32_t per_word,
                                struct quant_sizes *sizes, struct error *error) {
    uint64_t n = tensor->n;
    if (tensor->group == 0 || (tensor->group % GROUP != 0 && tensor->group < tensor->k))
        return error_set(error, STATUS_UNSUPPORTED,
                         "groups of %u inputs of a %s tensor; multiples of %d are read",
                         tensor->group, tensor->format, GROUP);
    uint64_t n_groups = ((uint64_t)tensor->k + tensor->group - 1) / tensor->group;
    /* below 2^64: a group has at least 32 inputs */
    sizes->values = n * tensor->k / per_word * 4; /* one of the two is whole words */
    sizes->zeros = n_groups * (n / per_word) * 4;
    sizes->scales = n_groups * n * quant_grouped_scale_bytes(tensor);
    return STATUS_OK;
}
