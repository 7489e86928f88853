#include "tests/support/random_tensor.h"

#include "base/assert.h"
#include "kernels/quant/quant.h"

#include <stdlib.h>
#include <string.h>

void fill_random(struct random *random, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = random_below(random, 64);
        x[i] = random_unit(random_next(random)) * 2.0f - 1.0f;
        x[i] = kind == 0 ? 0.0f : (kind == 1 ? x[i] * 100.0f : x[i]);
    }
}

static uint16_t random_half(struct random *random, float size) {
    return float_to_half((random_unit(random_next(random)) * 2.0f - 1.0f) * size);
}

/* Scales of about 0.02 and minima of about 0.2, wherever the format has them; the integers of
 * K-quants make theirs larger. */
static void set_scales(struct random *random, const struct quant_format *format, uint8_t *at) {
    float value = random_unit(random_next(random)) - 0.5f;
    bool large = format->block > GROUP;
    uint16_t half = random_half(random, large ? 0.001f : 0.02f);
    uint16_t min = random_half(random, large ? 0.01f : 0.2f);
    if (format->packed == WEIGHT_F32)
        memcpy(at, &value, 4);
    else if (format->packed == WEIGHT_BF16)
        memcpy(at, &(uint16_t){float_to_bf16(value)}, 2);
    else
        memcpy(at + (strcmp(format->name, "q6_k") == 0 ? 208 : 0), &half, 2);
    if (strcmp(format->name, "q4_1") == 0 || strcmp(format->name, "q5_1") == 0 ||
        strcmp(format->name, "q4_k") == 0 || strcmp(format->name, "q5_k") == 0)
        memcpy(at + 2, &min, 2);
}

static void *random_bytes(struct random *random, size_t n_bytes) {
    uint8_t *bytes = malloc(n_bytes);
    ASSERT(bytes);
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)random_next(random);
    return bytes;
}

struct weight_tensor random_grouped_tensor(struct random *random, const char *name, uint32_t n,
                                           uint32_t k, uint32_t group) {
    const struct quant_format *format = quant_find(name);
    struct weight_tensor tensor = {.format = name, .n = n, .k = k, .group = group};
    struct quant_sizes sizes;
    struct error error = {0};
    enum status status = quant_sizes(&tensor, &sizes, &error);
    ASSERT(status == STATUS_OK);
    uint8_t *values = random_bytes(random, sizes.values);
    for (size_t at = 0; format->block_bytes && at < sizes.values; at += format->block_bytes)
        set_scales(random, format, values + at);
    tensor.values = values;
    tensor.n_value_bytes = sizes.values;
    tensor.n_scale_bytes = sizes.scales;
    tensor.n_zero_bytes = sizes.zeros;
    if (sizes.scales == 0)
        return tensor;
    uint8_t *scales = random_bytes(random, sizes.scales);
    for (size_t at = 0; at < sizes.scales; at += 2)
        memcpy(scales + at, &(uint16_t){random_half(random, 0.02f)}, 2);
    tensor.scales = scales;
    tensor.zeros = random_bytes(random, sizes.zeros);
    return tensor;
}

struct weight_tensor random_tensor(struct random *random, const char *name, uint32_t n,
                                   uint32_t k) {
    bool grouped = quant_find(name)->sizes;
    return random_grouped_tensor(random, name, n, k, grouped ? (k < 64 ? k : 64) : 0);
}

void random_order(struct random *random, struct weight_tensor *tensor) {
    int32_t *groups = malloc(tensor->k * sizeof *groups);
    ASSERT(groups);
    for (uint32_t i = 0; i < tensor->k; i++)
        groups[i] = (int32_t)(i / tensor->group);
    for (uint32_t i = tensor->k; i > 1; i--) {
        uint64_t j = random_below(random, i);
        int32_t group = groups[j];
        groups[j] = groups[i - 1];
        groups[i - 1] = group;
    }
    tensor->group_of = groups;
}

void tensor_free(struct weight_tensor *tensor) {
    free((void *)(uintptr_t)tensor->values);
    free((void *)(uintptr_t)tensor->scales);
    free((void *)(uintptr_t)tensor->zeros);
    free((void *)(uintptr_t)tensor->group_of);
    *tensor = (struct weight_tensor){0};
}
