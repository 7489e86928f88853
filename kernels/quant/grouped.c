/* Formats with a scale and a zero per group of inputs: AWQ and GPTQ. */
#include "kernels/quant/quant.h"

#include <math.h>
#include <string.h>

static bool has_scales_in(const struct weight_tensor *tensor, const char *format) {
    return tensor->scale_format && strcmp(tensor->scale_format, format) == 0;
}

static float scale_as_stored(const struct weight_tensor *tensor, size_t at) {
    const uint8_t *scales = tensor->scales;
    if (has_scales_in(tensor, "f32"))
        return float_from_bits(quant_u32(scales + 4 * at));
    if (has_scales_in(tensor, "bf16"))
        return bf16_to_float(quant_u16(scales + 2 * at));
    return half_to_float(quant_u16(scales + 2 * at));
}

float quant_scale(const struct weight_tensor *tensor, uint32_t group, uint32_t row) {
    float scale = scale_as_stored(tensor, (size_t)group * tensor->n + row);
    return half_to_float(float_to_half(scale)); /* exact for binary16 */
}

enum status quant_scales_check(const struct weight_tensor *tensor, struct error *error) {
    if (!has_scales_in(tensor, "f32") && !has_scales_in(tensor, "bf16"))
        return STATUS_OK;
    size_t n = tensor->n_scale_bytes / (has_scales_in(tensor, "f32") ? 4 : 2);
    for (size_t i = 0; i < n; i++) {
        float scale = scale_as_stored(tensor, i);
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
    sizes->scales = n_groups * n * (has_scales_in(tensor, "f32") ? 4 : 2);
    return STATUS_OK;
}
