/* Steps that decode as graphs, on the emulated device: what comes out is what comes out without them, and
 * a graph is made and launched where steps repeat, nowhere else. The device's own functions are counted. */
#include "kernels/cuda/context.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_graph";
const double suite_timeout_s = 60;

enum { N = 64, SEQS = 64, CONTEXT = 4096 };

static const struct kernels_limits limits = {SEQS, SEQS, CONTEXT, 64, 64, 1, 1, 64, KV_F16};

static const struct device_kind *real;
static uint32_t n_made, n_launched, n_kept;
static bool refuses;

static struct device_graph *end_counted(struct device_stream *stream) {
    struct device_graph *graph = real->graph_end(stream);
    n_made++;
    n_kept += graph && !refuses;
    if (!refuses)
        return graph;
    real->graph_free(graph);
    return NULL;
}

static void launch_counted(struct device_graph *graph, struct device_stream *stream) {
    n_launched++;
    real->graph_launch(graph, stream);
}

static void free_counted(struct device_graph *graph) {
    n_kept -= graph != NULL;
    real->graph_free(graph);
}

/* The context of the backend, whose device counts from now on. */
static struct subject open_subject(bool no_graphs) {
    static struct device_kind counted;
    struct subject subject = {.kernels = kernels_find("cuda-emu:exact"), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .no_graphs = no_graphs, .limits = limits};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    real = subject.ctx->kind;
    counted = *real;
    counted.graph_end = end_counted;
    counted.graph_launch = launch_counted;
    counted.graph_free = free_counted;
    subject.ctx->kind = &counted;
    n_made = n_launched = n_kept = 0;
    refuses = false;
    return subject;
}

/* A step of n sequences with one token each, at `position`, of which all choose a next one. */
static struct kernels_step begin(const struct subject *subject, uint32_t n, uint32_t position) {
    uint32_t ids[SEQS], positions[SEQS], seq_begin[SEQS + 1], rows[SEQS];
    static uint32_t tables[SEQS * CONTEXT / KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = rows[i] = seq_begin[i] = i;
        positions[i] = position;
    }
    seq_begin[n] = n;
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = n,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = tables,
                                  .block_table_stride = position / KV_BLOCK_TOKENS + 1};
    return subject_begin(subject, &batch, rows, n);
}

/* out += x, N numbers. */
static void add(const struct subject *subject, float *out, const float *x) {
    subject->kernels->add_gated(subject->ctx, out, x, NULL, 1, N);
}

static float *numbers(struct subject *subject, float value) {
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = value;
    return subject_floats(subject, host, N);
}

static void check(const struct subject *subject, const float *at, float value) {
    float host[N];
    subject_read(subject, host, at, sizeof host);
    for (int i = 0; i < N; i++)
        ck_assert_msg(host[i] == value, "number %d: %g, not %g", i, (double)host[i], (double)value);
}

START_TEST(steps_that_repeat_become_a_graph_at_the_second_time) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 5; step++) {
        begin(&subject, 3, step);
        add(&subject, out, x);
        add(&subject, out, x);
        subject_end(&subject);
        ck_assert_uint_eq(n_made, step > 1);
        ck_assert_uint_eq(n_launched, step - 1);
        check(&subject, out, 2.0f * (float)step);
    }
    subject_close(&subject);
    ck_assert_uint_eq(n_kept, 0);
}
END_TEST

START_TEST(no_graphs_leaves_steps_as_they_are) {
    struct subject subject = open_subject(true);
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 3; step++) {
        struct kernels_step begun = begin(&subject, 3, step);
        ck_assert_uint_eq(begun.batch.n_tokens, 3);
        ck_assert_uint_eq(begun.n_rows, 3);
        add(&subject, out, x);
        subject_end(&subject);
        check(&subject, out, (float)step);
    }
    ck_assert_uint_eq(n_made + n_launched, 0);
    subject_close(&subject);
}
END_TEST

START_TEST(a_step_with_a_longer_sequence_is_launched_by_itself) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 3; step++) {
        uint32_t zeros[4] = {0}, positions[] = {0, 1, 0, 0}, seq_begin[] = {0, 2, 3};
        struct kernels_batch batch = {.n_tokens = 3,
                                      .n_seqs = 2,
                                      .ids = zeros,
                                      .positions = positions,
                                      .seq_begin = seq_begin,
                                      .block_tables = zeros,
                                      .block_table_stride = 1};
        struct kernels_step begun = subject_begin(&subject, &batch, zeros, 2);
        ck_assert_uint_eq(begun.batch.n_tokens, 3);
        ck_assert_uint_eq(begun.n_rows, 2);
        add(&subject, out, x);
        subject_end(&subject);
        check(&subject, out, (float)step);
    }
    ck_assert_uint_eq(n_made + n_launched, 0);
    subject_close(&subject);
}
END_TEST

/* By the context's own flag: it has exact numerics, in which nobody asks for it. */
static void rehearse(const struct subject *subject) {
    subject->ctx->graphs.rehearses = true;
}

START_TEST(a_rehearsed_step_computes_nothing_and_is_a_graph_from_then_on) {
    struct subject subject = open_subject(false);
    const struct kernels *k = subject.kernels;
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 4; step++) {
        if (step == 1)
            rehearse(&subject);
        begin(&subject, 3, step);
        add(&subject, out, x);
        k->mark(subject.ctx, 1);
        add(&subject, out, x);
        k->mark(subject.ctx, 2);
        while (k->marked(subject.ctx) < 2)
            ;
        subject_end(&subject);
        ck_assert_uint_eq(n_made, 1);
        ck_assert_uint_eq(n_launched, step - 1);
        check(&subject, out, 2.0f * (float)(step - 1));
    }
    subject_close(&subject);
}
END_TEST

/* Somebody looks at what is not computed: what is called behind that is left out too, and marks are not. */
START_TEST(a_rehearsal_that_is_broken_off_computes_nothing_either) {
    struct subject subject = open_subject(false);
    const struct kernels *k = subject.kernels;
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    rehearse(&subject);
    begin(&subject, 3, 1);
    add(&subject, out, x);
    check(&subject, out, 0.0f);
    add(&subject, out, x);
    k->mark(subject.ctx, 1);
    while (k->marked(subject.ctx) < 1)
        ;
    subject_end(&subject);
    check(&subject, out, 0.0f);
    for (uint32_t step = 1; step <= 3; step++) {
        begin(&subject, 3, step);
        add(&subject, out, x);
        add(&subject, out, x);
        subject_end(&subject);
        check(&subject, out, 2.0f * (float)step);
    }
    subject_close(&subject);
}
END_TEST

START_TEST(what_is_refused_in_a_rehearsal_is_asked_for_again) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    refuses = true;
    rehearse(&subject);
    for (uint32_t step = 0; step <= 3; step++) {
        begin(&subject, 3, 1);
        add(&subject, out, x);
        subject_end(&subject);
        check(&subject, out, (float)step);
        refuses = false;
    }
    ck_assert_uint_eq(n_made, 2);
    ck_assert_uint_eq(n_launched, 3);
    subject_close(&subject);
}
END_TEST

/* Sequences, and what a step of them is filled up to. */
static const struct {
    uint32_t n, position, filled, stride;
} fills[] = {
    {1, 0, 1, 16},      {2, 255, 2, 16},     {3, 256, 4, 32},     {5, 2047, 8, 128},
    {9, 2048, 16, 160}, {63, 2303, 64, 160}, {64, 4095, 64, 256},
};

START_TEST(a_step_is_filled_up_to_one_of_few_shapes) {
    struct subject subject = open_subject(false);
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        struct kernels_step begun = begin(&subject, fills[i].n, fills[i].position);
        uint32_t ids[SEQS], positions[SEQS], rows[SEQS], seq_begin[SEQS + 1], n = fills[i].filled;
        ck_assert_uint_eq(begun.batch.n_tokens, n);
        ck_assert_uint_eq(begun.batch.n_seqs, n);
        ck_assert_uint_eq(begun.n_rows, n);
        ck_assert_uint_eq(begun.batch.block_table_stride, fills[i].stride);
        subject_read(&subject, ids, begun.batch.ids, n * sizeof *ids);
        subject_read(&subject, positions, begun.batch.positions, n * sizeof *positions);
        subject_read(&subject, rows, begun.rows, n * sizeof *rows);
        subject_read(&subject, seq_begin, begun.batch.seq_begin, (n + 1) * sizeof *seq_begin);
        for (uint32_t t = 0; t < n; t++) {
            bool is_real = t < fills[i].n;
            ck_assert_uint_eq(ids[t], is_real ? t : GPU_NO_TOKEN);
            ck_assert_uint_eq(positions[t], is_real ? fills[i].position : GPU_NO_TOKEN);
            ck_assert_uint_eq(rows[t], is_real ? t : 0);
            ck_assert_uint_eq(seq_begin[t + 1], t + 1);
        }
        subject_end(&subject);
    }
    subject_close(&subject);
}
END_TEST

START_TEST(memory_that_moved_makes_another_graph) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *sum = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 9; step++) {
        if (step % 4 == 0) /* elsewhere, with other numbers */
            x = numbers(&subject, 10.0f);
        begin(&subject, 1, step);
        add(&subject, sum, x);
        subject_end(&subject);
    }
    check(&subject, sum, 3.0f + 60.0f);
    ck_assert_uint_eq(n_made, 3);
    ck_assert_uint_eq(n_launched, 2 + 3 + 1);
    ck_assert_uint_eq(n_kept, 1);
    subject_close(&subject);
}
END_TEST

START_TEST(memory_may_be_given_back_before_the_step_ends) {
    struct subject subject = open_subject(false);
    float *out = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 4; step++) {
        float host[N];
        for (int i = 0; i < N; i++)
            host[i] = (float)step;
        float *x = subject.kernels->alloc(subject.ctx, sizeof host);
        subject.kernels->put(subject.ctx, x, host, sizeof host);
        begin(&subject, 2, step);
        add(&subject, out, x);
        subject.kernels->dealloc(subject.ctx, x, sizeof host);
        subject_end(&subject);
        check(&subject, out, (float)(step * (step + 1) / 2));
    }
    subject_close(&subject);
}
END_TEST

START_TEST(other_launches_in_a_step_of_the_same_shape_are_done_as_called) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *y = numbers(&subject, 100.0f);
    float *out = numbers(&subject, 0.0f), expected = 0.0f;
    /* bit i: operation i adds y, else x; so many operations */
    static const struct {
        uint32_t ys, n;
    } steps[] = {{0, 3}, {0, 3}, {2, 3}, {2, 3}, {0, 3}, {0, 2},
                 {0, 2}, {0, 4}, {0, 4}, {8, 4}, {0, 0}, {8, 4}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        begin(&subject, 1, 7);
        for (uint32_t j = 0; j < steps[i].n; j++) {
            bool is_y = steps[i].ys >> j & 1;
            add(&subject, out, is_y ? y : x);
            expected += is_y ? 100.0f : 1.0f;
        }
        subject_end(&subject);
        check(&subject, out, expected);
    }
    ck_assert_uint_eq(n_launched, 5);
    subject_close(&subject);
}
END_TEST

START_TEST(what_is_asked_for_within_a_step_is_there) {
    struct subject subject = open_subject(false);
    const struct kernels *k = subject.kernels;
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f), host[N];
    float expected = 0.0f;
    for (uint32_t step = 1; step <= 4; step++) {
        begin(&subject, 1, step);
        add(&subject, out, x);
        check(&subject, out, expected += 1.0f);
        subject_end(&subject);
        begin(&subject, 1, step);
        add(&subject, out, x); /* over which this is written: */
        for (int i = 0; i < N; i++)
            host[i] = expected = 10.0f * (float)step;
        k->put(subject.ctx, out, host, sizeof host);
        add(&subject, out, x);
        subject_end(&subject);
        check(&subject, out, expected += 1.0f);
    }
    subject_close(&subject);
}
END_TEST

START_TEST(marks_are_done_with_the_graph_and_never_before) {
    struct subject subject = open_subject(false);
    const struct kernels *k = subject.kernels;
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f);
    for (uint32_t step = 1; step <= 4; step++) {
        begin(&subject, 1, step);
        for (uint32_t layer = 1; layer <= 3; layer++) {
            for (int i = 0; i < 10; i++)
                add(&subject, out, x);
            k->mark(subject.ctx, layer);
        }
        float host[N];
        uint32_t marked = 0, n_asked = 0;
        for (uint32_t now; marked < 3; marked = now, n_asked++) {
            now = k->marked(subject.ctx);
            ck_assert_uint_ge(now, marked);
            ck_assert_uint_le(now, 3);
            /* three entries at a question are the most */
            ck_assert_uint_le(10 * now, 3 * (n_asked + 1) + 3);
        }
        ck_assert_int_eq(k->get_beside(subject.ctx, host, out, sizeof host), STATUS_OK);
        ck_assert(host[0] == 30.0f * (float)step);
        subject_end(&subject);
        ck_assert_uint_eq(n_launched, step - 1);
    }
    subject_close(&subject);
}
END_TEST

/* Memory for what is recorded begins with 64 KiB: the last sizes within it, the first beyond, and so on. */
START_TEST(steps_of_many_launches_are_recorded_whole) {
    static const uint32_t sizes[] = {1365, 1366, 2731, 6000}; /* 48 bytes each */
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f), expected = 0.0f;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t step = 1; step <= 3; step++) {
            begin(&subject, 1, step);
            for (uint32_t j = 0; j < sizes[i]; j++)
                add(&subject, out, x);
            subject_end(&subject);
            check(&subject, out, expected += (float)sizes[i]);
            ck_assert_uint_eq(n_launched, 2 * i + step - 1);
        }
    subject_close(&subject);
}
END_TEST

/* Events of a failed device count as done: its layers must not be reported as done. */
START_TEST(marked_reports_that_the_device_failed) {
    struct subject subject = open_subject(false);
    const struct kernels *k = subject.kernels;
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f), host[N];
    for (int fails = 0; fails < 2; fails++) {
        begin(&subject, 1, 1);
        add(&subject, out, x);
        k->mark(subject.ctx, 1);
        if (fails) /* no memory of the device */
            real->fill(subject.ctx->main.stream, host, 0, sizeof host);
        ck_assert_int_eq(real->wait(subject.ctx->main.stream), fails ? STATUS_IO : STATUS_OK);
        add(&subject, out, x);
        k->mark(subject.ctx, 2);
        for (uint32_t n = 0, now = 0; n < 4 + 100 * !fails && now < 2; n++) {
            now = k->marked(subject.ctx);
            ck_assert(fails ? now == UINT32_MAX : now <= 2);
        }
        ck_assert_int_eq(k->step_end(subject.ctx), fails ? STATUS_IO : STATUS_OK);
        ck_assert_uint_eq(k->marked(subject.ctx), fails ? UINT32_MAX : 2);
    }
    subject_close(&subject);
}
END_TEST

START_TEST(a_device_that_makes_no_graph_is_asked_once_for_the_same) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *y = numbers(&subject, 2.0f),
          *out = numbers(&subject, 0.0f);
    refuses = true;
    for (uint32_t step = 1; step <= 8; step++) {
        begin(&subject, 1, step);
        add(&subject, out, step <= 4 ? x : y);
        subject_end(&subject);
        ck_assert_uint_eq(n_made, step >= 6 ? 2 : step >= 2);
    }
    check(&subject, out, 4.0f + 8.0f);
    ck_assert_uint_eq(n_launched, 0);
    subject_close(&subject);
}
END_TEST

/* Sequences, and blocks of attention: over a hundred shapes. */
START_TEST(more_shapes_than_there_are_graphs_replace_the_oldest) {
    struct subject subject = open_subject(false);
    float *x = numbers(&subject, 1.0f), *out = numbers(&subject, 0.0f), expected = 0.0f;
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t n = 8; n <= SEQS; n += 8)
            for (uint32_t position = 0; position < CONTEXT; position += 256)
                for (int again = 0; again < 2; again++) {
                    begin(&subject, n, position);
                    add(&subject, out, x);
                    subject_end(&subject);
                    expected += 1.0f;
                    ck_assert_uint_le(n_kept, GRAPHS_MAX);
                }
    check(&subject, out, expected);
    ck_assert_uint_eq(n_kept, GRAPHS_MAX);
    subject_close(&subject);
    ck_assert_uint_eq(n_kept, 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, steps_that_repeat_become_a_graph_at_the_second_time);
    tcase_add_test(tests, no_graphs_leaves_steps_as_they_are);
    tcase_add_test(tests, a_step_with_a_longer_sequence_is_launched_by_itself);
    tcase_add_test(tests, a_rehearsed_step_computes_nothing_and_is_a_graph_from_then_on);
    tcase_add_test(tests, a_rehearsal_that_is_broken_off_computes_nothing_either);
    tcase_add_test(tests, what_is_refused_in_a_rehearsal_is_asked_for_again);
    tcase_add_test(tests, a_step_is_filled_up_to_one_of_few_shapes);
    tcase_add_test(tests, memory_that_moved_makes_another_graph);
    tcase_add_test(tests, memory_may_be_given_back_before_the_step_ends);
    tcase_add_test(tests, other_launches_in_a_step_of_the_same_shape_are_done_as_called);
    tcase_add_test(tests, what_is_asked_for_within_a_step_is_there);
    tcase_add_test(tests, marks_are_done_with_the_graph_and_never_before);
    tcase_add_test(tests, steps_of_many_launches_are_recorded_whole);
    tcase_add_test(tests, marked_reports_that_the_device_failed);
    tcase_add_test(tests, a_device_that_makes_no_graph_is_asked_once_for_the_same);
    tcase_add_test(tests, more_shapes_than_there_are_graphs_replace_the_oldest);
}
