#include "tools/kbench/tensor.h"

#include "base/random.h"
#include "kernels/quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *kbench_random_bytes(struct random *random, size_t n_bytes) {
    uint8_t *bytes = malloc(n_bytes ? n_bytes : 1);
    if (!bytes)
        abort();
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)random_next(random);
    return bytes;
}

static void kbench_put_half(uint8_t *at, float value) {
    memcpy(at, &(uint16_t){float_to_half(value)}, 2);
}

/* Scales of the size real ones have, so that no number leaves its range. */
static void kbench_set_scales(struct random *random, const struct quant_format *format,
                              uint8_t *at) {
    float value = (random_unit(random_next(random)) - 0.5f) * 0.01f;
    if (format->packed == WEIGHT_F32)
        memcpy(at, &value, 4);
    else if (format->packed == WEIGHT_BF16)
        memcpy(at, &(uint16_t){float_to_bf16(value)}, 2);
    else
        kbench_put_half(at + (strcmp(format->name, "q6_k") == 0 ? 208 : 0), value);
    if (format->has_min)
        kbench_put_half(at + 2, value * -7.5f);
}

struct weight_tensor tensor_random(const char *name, uint32_t n, uint32_t k) {
    const struct quant_format *format = quant_find(name);
    struct weight_tensor tensor = {.format = name, .n = n, .k = k};
    struct random random = {n + k};
    struct quant_sizes sizes;
    struct error error;
    if (!format)
        abort();
    tensor.group = format->sizes ? 128 : 0;
    if (quant_sizes(&tensor, &sizes, &error) != STATUS_OK) {
        fprintf(stderr, "kbench: %s\n", error.text);
        abort();
    }
    uint8_t *values = kbench_random_bytes(&random, sizes.values);
    uint8_t *scales = kbench_random_bytes(&random, sizes.scales);
    for (size_t at = 0; format->block_bytes && at < sizes.values; at += format->block_bytes)
        kbench_set_scales(&random, format, values + at);
    for (size_t at = 0; at < sizes.scales; at += 2)
        kbench_put_half(scales + at, 0.01f);
    tensor.values = values;
    tensor.n_value_bytes = sizes.values;
    tensor.scales = scales;
    tensor.n_scale_bytes = sizes.scales;
    tensor.zeros = kbench_random_bytes(&random, sizes.zeros);
    tensor.n_zero_bytes = sizes.zeros;
    return tensor;
}

void tensor_free(struct weight_tensor *tensor) {
    free((void *)(uintptr_t)tensor->values);
    free((void *)(uintptr_t)tensor->scales);
    free((void *)(uintptr_t)tensor->zeros);
    *tensor = (struct weight_tensor){0};
}

struct weight tensor_pack(const struct kernels *kernels, struct kernels_ctx *ctx,
                          const struct weight_tensor *tensor, size_t *size) {
    struct weight_part part = {.tensor = tensor, .n_rows = tensor->n, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = tensor->k};
    struct weight weight = {0};
    struct error error;
    *size = kernels->weight_size(&source, &error);
    void *memory = *size ? kernels->alloc(ctx, *size) : NULL;
    if (!memory || kernels->weight_pack(ctx, &source, memory, &weight, &error) != STATUS_OK)
        abort();
    return weight;
}
