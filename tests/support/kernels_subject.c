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
    struct subject subject = {.kernels = &kernels_ref, .n_threads = 1};
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

uint8_t *random_tensor(struct random *random, const char *name, size_t n, size_t *n_bytes) {
    const struct quant_format *format = quant_find(name);
    size_t n_blocks = n / format->block_elems;
    *n_bytes = n_blocks * format->block_bytes;
    uint8_t *bytes = malloc(*n_bytes);
    for (size_t i = 0; i < *n_bytes; i++)
        bytes[i] = (uint8_t)random_next(random);
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *at = bytes + b * format->block_bytes;
        float value = random_unit(random_next(random)) - 0.5f;
        uint16_t half = random_half(random, 0.02f);
        uint16_t min = random_half(random, 0.2f);
        if (format->packed == WEIGHT_F32)
            memcpy(at, &value, 4);
        else if (format->packed == WEIGHT_BF16)
            memcpy(at, &(uint16_t){float_to_bf16(value)}, 2);
        else
            memcpy(at, &half, 2);
        if (strcmp(name, "q4_1") == 0)
            memcpy(at + 2, &min, 2);
    }
    return bytes;
}

struct weight subject_pack(const struct subject *subject, const struct weight_part *parts,
                           uint32_t n_parts, size_t *n_bytes) {
    struct error error = {0};
    *n_bytes = subject->kernels->weight_size(parts, n_parts, &error);
    ck_assert_msg(*n_bytes > 0, "%s", error.text);
    void *memory = subject->kernels->alloc(subject->ctx, *n_bytes);
    ck_assert_ptr_nonnull(memory);
    struct weight weight;
    enum status status =
        subject->kernels->weight_pack(subject->ctx, parts, n_parts, memory, &weight, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return weight;
}

void subject_unpack(const struct subject *subject, struct weight *weight, size_t n_bytes) {
    subject->kernels->dealloc(subject->ctx, (void *)(uintptr_t)weight->data, n_bytes);
    weight->data = NULL;
}
