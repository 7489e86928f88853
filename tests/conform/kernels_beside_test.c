/* KV that moves beside a step, on every backend: what is put there is seen by later steps, what is read
 * is what was asked for, and neither waits for operations that it has nothing to do with. The
 * emulated device does nothing before somebody waits for it, so an order that is left out shows. */
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_beside";
const double suite_timeout_s = 60;

enum { N = 64 };

static const struct kernels_limits limits = {8, 8, 64, 64, 64, 1, 1, 64, KV_F16};

static struct kernels_step begin(const struct subject *subject) {
    uint32_t id = 3;
    return subject_begin_ids(subject, &id, 1);
}

static void fill(float *x, float value) {
    for (int i = 0; i < N; i++)
        x[i] = value;
}

static void check_all(const float *x, float value) {
    for (int i = 0; i < N; i++)
        ck_assert_msg(x[i] == value, "number %d: %g, not %g", i, (double)x[i], (double)value);
}

/* out += x, N numbers. */
static void add(const struct subject *subject, float *out, const float *x) {
    subject->kernels->add_gated(subject->ctx, out, x, NULL, 1, N);
}

static void put_beside(const struct subject *subject, float *to, float value) {
    float host[N];
    fill(host, value);
    subject->kernels->put_beside(subject->ctx, to, host, sizeof host);
    fill(host, -1.0f); /* it may change at once */
}

static void put(const struct subject *subject, float *to, float value) {
    float host[N];
    fill(host, value);
    subject_write(subject, to, host, sizeof host);
}

static void check_beside(const struct subject *subject, const float *from, float value) {
    float host[N];
    ck_assert_int_eq(subject->kernels->get_beside(subject->ctx, host, from, sizeof host),
                     STATUS_OK);
    check_all(host, value);
}

static void check_there(const struct subject *subject, const float *from, float value) {
    float host[N];
    subject_read(subject, host, from, sizeof host);
    check_all(host, value);
}

START_TEST(a_step_sees_what_was_put_beside_the_one_before) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float *x = subject_floats(&subject, NULL, N), *y = subject_floats(&subject, NULL, N);
        float *out = subject_floats(&subject, NULL, N);
        float sum = 0.0f, in_y = 0.0f;
        for (float round = 1.0f; round < 6.0f; round++) {
            put_beside(&subject, x, round);
            begin(&subject);
            put_beside(&subject, y, 10.0f * round); /* of which the step knows nothing */
            add(&subject, out, x);
            subject_end(&subject);
            begin(&subject);
            add(&subject, out, y);
            subject_end(&subject);
            in_y = 10.0f * round;
            sum += round + in_y;
            check_there(&subject, out, sum);
        }
        check_beside(&subject, y, in_y);
        subject_close(&subject);
    }
}
END_TEST

START_TEST(what_is_read_beside_is_all_that_was_done_before) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float *x = subject_floats(&subject, NULL, N), *out = subject_floats(&subject, NULL, N);
        put(&subject, x, 2.0f);
        check_beside(&subject, x, 2.0f);
        put(&subject, x, 3.0f);
        add(&subject, out, x);
        check_beside(&subject, out, 3.0f);
        put_beside(&subject, out, 5.0f);
        check_beside(&subject, out, 5.0f);
        put_beside(&subject, out, 6.0f);
        check_there(&subject, out, 6.0f);
        subject_close(&subject);
    }
}
END_TEST

START_TEST(what_is_put_after_a_step_is_read_beside) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float *x = subject_floats(&subject, NULL, N), *out = subject_floats(&subject, NULL, N);
        float sum = 0.0f;
        for (float round = 1.0f; round < 4.0f; round++) {
            begin(&subject);
            subject_end(&subject);
            put(&subject, x, round);
            check_beside(&subject, x, round);
            add(&subject, out, x);
            check_beside(&subject, out, sum += round);
        }
        subject_close(&subject);
    }
}
END_TEST

START_TEST(the_last_of_several_that_put_wins) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float *x = subject_floats(&subject, NULL, N);
        put(&subject, x, 1.0f);
        put_beside(&subject, x, 2.0f);
        check_there(&subject, x, 2.0f);
        put_beside(&subject, x, 3.0f);
        put(&subject, x, 4.0f);
        begin(&subject);
        subject_end(&subject);
        check_beside(&subject, x, 4.0f);
        check_there(&subject, x, 4.0f);
        subject_close(&subject);
    }
}
END_TEST

/* Layer 1 is read while the many operations of layer 2 are still to come. */
START_TEST(a_layer_is_read_when_its_mark_is_done_and_waits_for_no_later_one) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        const struct kernels *k = subject.kernels;
        float *x = subject_floats(&subject, NULL, N), *out = subject_floats(&subject, NULL, N);
        float *later = subject_floats(&subject, NULL, N);
        put(&subject, x, 1.0f);
        begin(&subject);
        add(&subject, out, x);
        add(&subject, out, x);
        if (k->mark)
            k->mark(subject.ctx, 1);
        for (int j = 0; j < 40; j++)
            add(&subject, later, x);
        if (k->mark) {
            k->mark(subject.ctx, 2);
            while (k->marked(subject.ctx) < 1)
                ;
        }
        check_beside(&subject, out, 2.0f);
        put_beside(&subject, out, 7.0f);
        check_beside(&subject, out, 7.0f);
        if (subject_is_emulated(&subject)) /* three entries at a question are the most */
            ck_assert_uint_eq(k->marked(subject.ctx), 1);
        subject_end(&subject);
        check_there(&subject, later, 40.0f);
        subject_close(&subject);
    }
}
END_TEST

/* One thread may drive a step on one device and move another's KV. */
START_TEST(kv_of_another_device_may_come_before_a_step_chooses) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        const struct kernels *k = subject.kernels;
        const struct kernels_options options = {
            .n_threads = 1, .isa = subject.isa, .device = 1, .limits = limits};
        struct kernels_ctx *other;
        struct error error;
        enum status status = k->open(&options, &other, &error);
        if (status == STATUS_UNSUPPORTED) { /* there is one device */
            subject_close(&subject);
            continue;
        }
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        float host[N] = {[40] = 2.0f}, *logits = subject_floats(&subject, host, N);
        float *memory = k->alloc(other, sizeof host);
        struct sample_params params = {.top_p = 1.0f, .repetition = 1.0f};
        struct sample_result result;
        ck_assert_ptr_nonnull(memory);
        begin(&subject);
        k->put_beside(other, memory, host, sizeof host);
        k->sample(subject.ctx, logits, 1, N, &params, &result);
        subject_end(&subject);
        ck_assert(result.valid && result.id == 40);
        k->dealloc(other, memory, sizeof host);
        k->close(other);
        subject_close(&subject);
    }
}
END_TEST

START_TEST(more_bytes_than_a_stage_has_come_whole) {
    size_t n_bytes = 11u << 20;
    unsigned char *host = malloc(n_bytes), *got = malloc(n_bytes);
    ck_assert(host && got);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        if (subject.n_threads > 1) {
            subject_close(&subject);
            continue;
        }
        unsigned char *memory = subject_bytes(&subject, NULL, n_bytes);
        for (size_t j = 0; j < n_bytes; j++)
            host[j] = (unsigned char)(j * 7 + j / 4099);
        subject.kernels->put_beside(subject.ctx, memory, host, n_bytes);
        ck_assert_int_eq(subject.kernels->get_beside(subject.ctx, got, memory + 1, n_bytes - 1),
                         STATUS_OK);
        ck_assert(memcmp(got, host + 1, n_bytes - 1) == 0);
        subject_close(&subject);
    }
    free(host);
    free(got);
}
END_TEST

START_TEST(memory_may_be_given_back_with_bytes_on_the_way) {
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float *x = subject_floats(&subject, NULL, N);
        put_beside(&subject, x, 1.0f);
        subject_drop(&subject);
        x = subject_floats(&subject, NULL, N);
        check_there(&subject, x, 0.0f);
        begin(&subject);
        subject_end(&subject);
        check_beside(&subject, x, 0.0f);
        put_beside(&subject, x, 1.0f); /* and on the way when all ends */
        subject_close(&subject);
    }
}
END_TEST

/* On the emulated device a copy from memory of the host is a failure. */
START_TEST(whoever_reads_from_a_device_that_failed_is_told) {
    const struct kernels *kernels = kernels_find("cuda-emu:exact");
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct kernels_ctx *ctx;
    struct error error;
    unsigned char host[8] = {0}, got[8];
    if (!kernels) {
        printf("skipped: no row cuda-emu in this build\n");
        return;
    }
    ck_assert_int_eq(kernels->open(&options, &ctx, &error), STATUS_OK);
    struct sample_params params = {0};
    struct sample_result result;
    float *logits = kernels->alloc(ctx, sizeof(float[N]));
    unsigned char *memory = kernels->alloc(ctx, sizeof got);
    ck_assert_int_eq(kernels->get_beside(ctx, got, memory, sizeof got), STATUS_OK);
    kernels->sample(ctx, logits, 1, N, &params, &result);
    ck_assert(result.valid);
    ck_assert_int_eq(kernels->get_beside(ctx, got, host, sizeof got), STATUS_IO);
    ck_assert_int_eq(kernels->get_beside(ctx, got, memory, sizeof got), STATUS_IO);
    kernels->sample(ctx, logits, 1, N, &params, &result);
    ck_assert(!result.valid); /* nor is it what was chosen before */
    kernels->close(ctx);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_step_sees_what_was_put_beside_the_one_before);
    tcase_add_test(tests, what_is_read_beside_is_all_that_was_done_before);
    tcase_add_test(tests, what_is_put_after_a_step_is_read_beside);
    tcase_add_test(tests, the_last_of_several_that_put_wins);
    tcase_add_test(tests, a_layer_is_read_when_its_mark_is_done_and_waits_for_no_later_one);
    tcase_add_test(tests, kv_of_another_device_may_come_before_a_step_chooses);
    tcase_add_test(tests, more_bytes_than_a_stage_has_come_whole);
    tcase_add_test(tests, memory_may_be_given_back_with_bytes_on_the_way);
    tcase_add_test(tests, whoever_reads_from_a_device_that_failed_is_told);
}
