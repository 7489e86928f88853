#include "tests/support/kernels_subject.h"

#include "kernels/numbers.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ISAS_MAX  8
#define N_THREADS 3
#define NEAR      1e-2 /* of the numbers' size: what 16 bits make of a product of two sums */

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

/* Whether `names`, separated by commas, have `name`. */
static bool lists(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

const char *subject_label(const struct kernels *kernels) {
    static char label[32];
    snprintf(label, sizeof label, "%s:%s", kernels->name, kernels->numerics_kind);
    return label;
}

bool subject_is_wanted(const struct kernels *kernels) {
    const char *only = getenv("TANDEM_SUBJECT");
    return !only || lists(only, kernels->name) || lists(only, subject_label(kernels)) ||
           strcmp(kernels->name, "ref") == 0;
}

bool subject_has_fast(void) {
    for (size_t i = 0; kernels_table[i]; i++)
        if (strcmp(kernels_table[i]->numerics_kind, "fast") == 0 &&
            subject_is_wanted(kernels_table[i]))
            return true;
    return false;
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
        if (!subject_is_wanted(kernels))
            continue;
        uint32_t isa = i / N_THREADS % ISAS_MAX;
        if (kernels->isas ? !isa_of(kernels, isa) : i % (ISAS_MAX * N_THREADS) != 0)
            continue;
        *subject = (struct subject){
            .kernels = kernels, .isa = isa_of(kernels, isa), .n_threads = i % N_THREADS + 1};
#ifdef __SANITIZE_ADDRESS__ /* the bits of other numbers of threads are for other builds */
        if (kernels->isas && subject->n_threads < N_THREADS)
            continue;
#endif
#ifdef __SANITIZE_THREAD__ /* the best set on all threads; the others' bits are for other builds */
        if (kernels->isas && (isa > 0 || subject->n_threads < N_THREADS))
            continue;
        subject->isa = NULL;
#endif
        struct kernels_options options = {
            .n_threads = subject->n_threads, .isa = subject->isa, .limits = *limits};
        struct error error;
        enum status status = kernels->open(&options, &subject->ctx, &error);
        bool no_device = !subject->isa && !kernels_on_host(kernels);
        if (status == STATUS_UNSUPPORTED && (subject->isa || no_device)) {
            name_skipped(kernels->name, no_device ? "" : subject->isa, error.text);
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

bool subject_next_exact(struct subject *subject, uint32_t *index,
                        const struct kernels_limits *limits) {
    while (subject_next(subject, index, limits)) {
        if (subject_is_exact(subject))
            return true;
        subject_close(subject);
    }
    return false;
}

bool subject_is_emulated(const struct subject *subject) {
    return strcmp(subject->kernels->name, "cuda-emu") == 0;
}

bool subject_is_slow(const struct subject *subject) {
    return subject_is_emulated(subject) || !subject->isa || strcmp(subject->isa, "scalar") == 0;
}

bool subject_is_exact(const struct subject *subject) {
    return strcmp(subject->kernels->numerics(subject->ctx), NUMERICS_TEXT) == 0;
}

void subject_expect_near(const struct subject *subject, const char *what, const float *got,
                         const float *expected, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += (double)expected[i] * (double)expected[i];
    double size = sqrt(square / (double)n);
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - (double)expected[i]);
        if (!(off <= NEAR * (size + fabs((double)expected[i]))))
            ck_abort_msg("%s: %s at %zu: %a, reference %a", subject->kernels->name, what, i,
                         (double)got[i], (double)expected[i]);
    }
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

struct weight_tensor subject_tensor_f32(struct subject *ref, const struct weight *weight) {
    struct weight_tensor tensor = {.format = "f32",
                                   .n_value_bytes = (uint64_t)weight->n * weight->k * sizeof(float),
                                   .n = weight->n,
                                   .k = weight->k};
    float *values = malloc(tensor.n_value_bytes);
    ck_assert_ptr_nonnull(values);
    for (uint32_t row = 0, n; row < weight->n; row += n) {
        uint32_t ids[64];
        n = weight->n - row < 64 ? weight->n - row : 64;
        for (uint32_t i = 0; i < n; i++)
            ids[i] = row + i;
        struct kernels_step step = subject_begin_ids(ref, ids, n);
        ref->kernels->embed(ref->ctx, values + (size_t)row * weight->k, weight, &step.batch, 0);
        subject_end(ref);
    }
    tensor.values = values;
    return tensor;
}

struct weight subject_pack_near(struct subject *ref, const struct weight_source *source,
                                size_t *n_bytes) {
    struct weight weight = subject_pack(ref, source, n_bytes);
    if (weight.format != WEIGHT_I4G && weight.format != WEIGHT_I8G)
        return weight;
    struct weight_tensor tensor = subject_tensor_f32(ref, &weight);
    subject_unpack(ref, &weight, *n_bytes);
    weight = subject_pack_tensor(ref, &tensor, n_bytes);
    tensor_free(&tensor);
    return weight;
}

void subject_unpack(const struct subject *subject, struct weight *weight, size_t n_bytes) {
    subject->kernels->dealloc(subject->ctx, (void *)(uintptr_t)weight->data, n_bytes);
    weight->data = NULL;
}
