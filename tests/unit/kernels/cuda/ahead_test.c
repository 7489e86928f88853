/* Steps ahead on the emulated device: nobody waits for a step that is ahead, or for its results, but who asks for
 * them; a step of a shape that became a graph is one launch, ahead or not; and what fails is told. The device's own
 * functions are counted. */
#include "kernels/cuda/context.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <string.h>

const char *const suite_name = "cuda_ahead";
const double suite_timeout_s = 60;

enum { VOCAB = 64, N = 3 };

static const struct kernels_limits limits = {8, 8, 64, VOCAB, VOCAB, 1, 1, 64, KV_F16};
static const struct sample_params greedy = {.top_p = 1.0f, .repetition = 1.0f};
static const uint32_t first_ids[N] = {5, 9, 60};

static const struct device_kind *real;
static struct subject subject;
static uint32_t n_waits, n_launched;
static float *logits;
static struct weight table;
static size_t table_bytes;

/* Of the main stream. */
static enum status wait_counted(struct device_stream *stream) {
    n_waits += stream == subject.ctx->main.stream;
    return real->wait(stream);
}

static void launch_counted(struct device_graph *graph, struct device_stream *stream) {
    n_launched++;
    real->graph_launch(graph, stream);
}

/* The logits of a token are its row of the table: it is followed by the largest in it. */
static void open_all(void) {
    static struct device_kind counted;
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct error error = {0};
    float rows[VOCAB * VOCAB] = {0};
    subject = (struct subject){.kernels = kernels_find("cuda-emu"), .n_threads = 1};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    for (uint32_t id = 0; id < VOCAB; id++)
        rows[id * VOCAB + (7 * id + 3) % VOCAB] = 1.0f;
    struct weight_tensor tensor = {
        .format = "f32", .n = VOCAB, .k = VOCAB, .values = rows, .n_value_bytes = sizeof rows};
    table = subject_pack_tensor(&subject, &tensor, &table_bytes);
    logits = subject_floats(&subject, NULL, 8 * VOCAB);
    real = subject.ctx->kind;
    counted = *real;
    counted.wait = wait_counted;
    counted.graph_launch = launch_counted;
    subject.ctx->kind = &counted;
    n_waits = n_launched = 0;
}

static void close_all(void) {
    subject.ctx->kind = real;
    subject_unpack(&subject, &table, table_bytes);
    subject_close(&subject);
}

static void step(const uint32_t *ids) {
    uint32_t zeros[N] = {0}, seq_begin[N + 1] = {0, 1, 2, 3}, rows[N] = {0, 1, 2};
    struct kernels_batch batch = {.n_tokens = N,
                                  .n_seqs = N,
                                  .ids = ids,
                                  .positions = zeros,
                                  .seq_begin = seq_begin,
                                  .block_tables = zeros,
                                  .block_table_stride = 1};
    struct kernels_step begun = subject_begin(&subject, &batch, rows, N);
    subject.kernels->embed(subject.ctx, logits, &table, &begun.batch, 0);
}

static void choose(void) {
    const struct sample_params params[N] = {greedy, greedy, greedy};
    ck_assert_int_eq(subject.kernels->sample_begin(subject.ctx, logits, N, VOCAB, params),
                     STATUS_OK);
}

static void expect(uint32_t number) {
    struct sample_result results[N];
    ck_assert_int_eq(subject.kernels->sample_end(subject.ctx, results), STATUS_OK);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t id = first_ids[i];
        for (uint32_t k = 0; k <= number; k++)
            id = (7 * id + 3) % VOCAB;
        ck_assert(results[i].valid);
        ck_assert_uint_eq(results[i].id, id);
    }
}

START_TEST(nobody_waits_for_the_step_ahead) {
    open_all();
    step(first_ids);
    choose();
    n_waits = 0; /* one began after another */
    for (uint32_t number = 0; number < 8; number++) {
        step(NULL);
        choose();
        if (number % 2)
            while (!subject.kernels->sample_done(subject.ctx))
                ;
        expect(number);
    }
    ck_assert_uint_eq(n_waits, 0);
    expect(8);
    ck_assert_uint_eq(n_waits, 0);
    subject_end(&subject);
    ck_assert_uint_eq(n_waits, 1);
    close_all();
}
END_TEST

START_TEST(steps_ahead_are_the_graph_of_other_steps) {
    open_all();
    for (uint32_t round = 0; round < 3; round++) {
        step(first_ids);
        choose();
        for (uint32_t number = 0; number < 4; number++) {
            step(NULL);
            choose();
            expect(number);
        }
        expect(4);
        subject_end(&subject);
    }
    ck_assert_uint_eq(n_launched, 3 * 5 - 1); /* all but the first */
    close_all();
}
END_TEST

START_TEST(results_of_the_first_are_there_while_the_second_is_not_done) {
    open_all();
    step(first_ids);
    choose();
    step(NULL);
    choose();
    ck_assert(!subject.ctx->kind->event_done(subject.ctx->ahead.choices[1].there));
    expect(0);
    ck_assert_uint_eq(subject.ctx->ahead.n, 1);
    uint32_t n_asked = 0;
    while (!subject.kernels->sample_done(subject.ctx))
        n_asked++;
    ck_assert_uint_gt(n_asked, 0); /* it had not been waited for */
    expect(1);
    subject_end(&subject);
    close_all();
}
END_TEST

/* A mistake in the step ahead: the step before it was right. */
START_TEST(a_device_that_fails_in_the_step_ahead_says_so_there) {
    struct sample_result results[N];
    open_all();
    step(first_ids);
    choose();
    step(NULL);
    real->fill(subject.ctx->main.stream, results, 0, sizeof results); /* which is the host's */
    choose();
    expect(0);
    ck_assert_int_eq(subject.kernels->sample_end(subject.ctx, results), STATUS_IO);
    ck_assert(!results[0].valid);
    ck_assert_int_eq(subject.kernels->step_end(subject.ctx), STATUS_IO);
    close_all();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, nobody_waits_for_the_step_ahead);
    tcase_add_test(tests, steps_ahead_are_the_graph_of_other_steps);
    tcase_add_test(tests, results_of_the_first_are_there_while_the_second_is_not_done);
    tcase_add_test(tests, a_device_that_fails_in_the_step_ahead_says_so_there);
}
