#include "tests/support/kernels_subject.h"

#include "kernels/quant/quant.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ISAS_MAX  8
#define N_THREADS 3

struct subject_array {
    struct subject_array *next;
    void *memory;
    size_t n_bytes;
};

static void name_skipped(const char *kernels, const char *isa, const char *why) {
    static const char *named[ISAS_MAX];
    for (int i = 0; i < ISAS_MAX; i++) {
        if (named[i] && strcmp(named[i], isa) == 0)
            return;
        if (named[i])
            continue;
        named[i] = isa;
        printf("skipped: %s %s: %s\n", kernels, isa, why);
        fflush(stdout);
        return;
    }
}

/* The isa-th set that the backend names; NULL past the last one. */
static const char *isa_of(const struct kernels *kernels, uint32_t isa) {
    for (uint32_t i = 0; kernels->isas && kernels->isas[i]; i++)
        if (i == isa)
            return kernels->isas[i];
    return NULL;
}

bool subject_next(struct subject *subject, uint32_t *index, const struct kernels_limits *limits) {
    for (;;) {
        uint32_t i = (*index)++;
        const struct kernels *kernels = kernels_table[i / (ISAS_MAX * N_THREADS)];
        if (!kernels)
            return false;
        uint32_t isa = i / N_THREADS % ISAS_MAX;
        if (kernels->isas ? !isa_of(kernels, isa) : i % (ISAS_MAX * N_THREADS) != 0)
            continue;
#ifdef __SANITIZE_THREAD__ /* what the others compute is compared in other builds */
        if (kernels->isas && i % N_THREADS + 1 < N_THREADS)
            continue;
#endif
        *subject = (struct subject){
            .kernels = kernels, .isa = isa_of(kernels, isa), .n_threads = i % N_THREADS + 1};
        struct kernels_options options = {
            .n_threads = subject->n_threads, .isa = subject->isa, .limits = *limits};
        struct error error;
        enum status status = kernels->open(&options, &subject->ctx, &error);
        if (status == STATUS_UNSUPPORTED && subject->isa) {
            name_skipped(kernels->name, subject->isa, error.text);
            continue;
        }
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        return true;
    }
}

void subject_close(struct subject *subject) {
    subject_drop(subject);
    subject->kernels->close(subject->ctx);
    subject->ctx = NULL;
}

void *subject_bytes(struct subject *subject, const void *host, size_t n_bytes) {
    if (n_bytes == 0)
        return NULL;
    struct subject_array *array = malloc(sizeof *array);
    ck_assert_ptr_nonnull(array);
    *array = (struct subject_array){subject->arrays, subject->kernels->alloc(subject->ctx, n_bytes),
                                    n_bytes};
    ck_assert_ptr_nonnull(array->memory);
    subject->arrays = array;
    if (host)
        subject_write(subject, array->memory, host, n_bytes);
    return array->memory;
}

float *subject_floats(struct subject *subject, const float *host, size_t n) {
    return subject_bytes(subject, host, n * sizeof *host);
}

uint32_t *subject_ids(struct subject *subject, const uint32_t *host, size_t n) {
    return subject_bytes(subject, host, n * sizeof *host);
}

void subject_drop(struct subject *subject) {
    while (subject->arrays) {
        struct subject_array *array = subject->arrays;
        subject->arrays = array->next;
        subject->kernels->dealloc(subject->ctx, array->memory, array->n_bytes);
        free(array);
    }
}

void subject_write(const struct subject *subject, void *to, const void *from, size_t n_bytes) {
    subject->kernels->put(subject->ctx, to, from, n_bytes);
}

void subject_read(const struct subject *subject, void *to, const void *from, size_t n_bytes) {
    subject->kernels->get(subject->ctx, to, from, n_bytes);
}

struct kernels_step subject_begin(const struct subject *subject, const struct kernels_batch *batch,
                                  const uint32_t *rows, uint32_t n_rows) {
    struct kernels_step step = {.batch = *batch, .rows = rows, .n_rows = n_rows};
    subject->kernels->step_begin(subject->ctx, &step);
    return step;
}

struct kernels_step subject_begin_ids(const struct subject *subject, const uint32_t *ids,
                                      uint32_t n) {
    uint32_t zeros[64] = {0}, seq_begin[65];
    ck_assert_uint_le(n, 64);
    for (uint32_t i = 0; i <= n; i++)
        seq_begin[i] = i;
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = n,
                                  .ids = ids,
                                  .positions = zeros,
                                  .seq_begin = seq_begin,
                                  .block_tables = zeros,
                                  .block_table_stride = 1};
    return subject_begin(subject, &batch, NULL, 0);
}

void subject_end(const struct subject *subject) {
    ck_assert_int_eq(subject->kernels->step_end(subject->ctx), STATUS_OK);
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
