#include "tests/support/kernels_subject.h"

#include "kernels/quant/quant.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"scalar", "avx2", "avx512"};
#define N_ISAS    3
#define N_THREADS 3

static void name_skipped(const char *kernels, const char *isa, const char *why) {
    static bool named[N_ISAS];
    for (int i = 0; i < N_ISAS; i++)
        if (strcmp(isas[i], isa) == 0 && !named[i]) {
            named[i] = true;
            printf("skipped: %s %s: %s\n", kernels, isa, why);
            fflush(stdout);
        }
}

bool subject_next(struct subject *subject, uint32_t *index, const struct kernels_limits *limits) {
    for (;;) {
        uint32_t i = (*index)++;
        const struct kernels *kernels = kernels_table[i / (N_ISAS * N_THREADS)];
        if (!kernels)
            return false;
        bool has_isas = strcmp(kernels->name, "cpu") == 0;
        uint32_t isa = i / N_THREADS % N_ISAS;
        if (!has_isas && (isa != 0 || i % N_THREADS != 0))
            continue;
#ifdef __SANITIZE_THREAD__ /* what the others compute is compared in other builds */
        if (has_isas && i % N_THREADS + 1 < N_THREADS)
            continue;
#endif
        *subject = (struct subject){
            .kernels = kernels, .isa = has_isas ? isas[isa] : NULL, .n_threads = i % N_THREADS + 1};
        struct kernels_options options = {
            .n_threads = subject->n_threads, .isa = subject->isa, .limits = *limits};
        struct error error;
        enum status status = kernels->open(&options, &subject->ctx, &error);
        if (status == STATUS_UNSUPPORTED && has_isas) {
            name_skipped(kernels->name, subject->isa, error.text);
            continue;
        }
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        return true;
    }
}

void subject_close(struct subject *subject) {
    subject->kernels->close(subject->ctx);
    subject->ctx = NULL;
}

struct subject subject_ref(const struct kernels_limits *limits) {
    struct subject subject = {.kernels = kernels_find("ref"), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .limits = *limits};
    struct error error;
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    return subject;
}

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
    ck_assert_ptr_nonnull(bytes);
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
    ck_assert_msg(quant_sizes(&tensor, &sizes, &error) == STATUS_OK, "%s", error.text);
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
    ck_assert_ptr_nonnull(groups);
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

struct weight subject_pack(const struct subject *subject, const struct weight_source *source,
                           size_t *n_bytes) {
    struct error error = {0};
    *n_bytes = subject->kernels->weight_size(source, &error);
    ck_assert_msg(*n_bytes > 0, "%s", error.text);
    void *memory = subject->kernels->alloc(subject->ctx, *n_bytes);
    ck_assert_ptr_nonnull(memory);
    struct weight weight;
    enum status status =
        subject->kernels->weight_pack(subject->ctx, source, memory, &weight, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return weight;
}

struct weight subject_pack_tensor(const struct subject *subject, const struct weight_tensor *tensor,
                                  size_t *n_bytes) {
    struct weight_part part = {.tensor = tensor, .n_rows = tensor->n, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = tensor->k};
    return subject_pack(subject, &source, n_bytes);
}

void subject_unpack(const struct subject *subject, struct weight *weight, size_t n_bytes) {
    subject->kernels->dealloc(subject->ctx, (void *)(uintptr_t)weight->data, n_bytes);
    weight->data = NULL;
}
