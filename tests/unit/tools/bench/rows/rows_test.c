#include "tests/support/suite.h"
#include "tools/bench/rows/predict.h"
#include "tools/bench/rows/prompt_first.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "bench rows";
const double suite_timeout_s = 60;

static struct reference_configuration all[REFERENCE_CONFIGURATIONS_MAX];

START_TEST(every_published_row_has_a_model_and_a_device) {
    size_t n = reference_configurations(all), n_rows = 0, n_artefacts = 0;
    ck_assert_uint_eq(n, 17);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(all[i].device && all[i].tp > 0, "%s", all[i].rows->hardware);
        ck_assert_msg(all[i].model.n_weights > 0, "%s", all[i].rows->model);
        ck_assert_uint_gt(all[i].prefill_tokens, 0);
        for (size_t k = 0; k < all[i].n_rows; k++)
            n_artefacts += reference_artefact(&all[i].rows[k]) != NULL;
        n_rows += all[i].n_rows;
    }
    ck_assert_uint_eq(n_rows, reference_n_rows);
    ck_assert_uint_eq(n_rows, 211);
    ck_assert_uint_eq(n_artefacts, 26);
}
END_TEST

START_TEST(a_rate_without_an_answer_is_no_measurement) {
    struct reference_row row = {.table = "made",
                                .system = "vllm",
                                .model = "made",
                                .hardware = "1x made",
                                .level = "asynchronous@0.5",
                                .n_input = 512,
                                .n_output = 128,
                                .tokens_per_s = .01};
    ck_assert_ptr_null(reference_artefact(&row));
    row.tokens_per_s = 0;
    ck_assert_ptr_nonnull(reference_artefact(&row));
    ck_assert_str_eq(reference_artefact(&row), "nothing was completed");
    row.level = "synchronous"; /* has no such column */
    ck_assert_ptr_null(reference_artefact(&row));
}
END_TEST

static const struct device plain = {.name = "plain",
                                    .memory_bytes = 1u << 30,
                                    .copy_bytes_s = 1e9,
                                    .tensor_ops_s = 1e12,
                                    .mma_ops_s = 1e12,
                                    .int8_ops_s = 1e12,
                                    .float_ops_s = 1e12,
                                    .kernel_us = 1,
                                    .link_bytes_s = 1e9};

/* A model whose every step takes a second, and nothing else. */
static struct roofline make_second(void) {
    struct roofline roofline = {
        .device = &plain, .efficiencies = *efficiencies_find("limit"), .tp = 1};
    roofline_model(&roofline.model, &(struct roofline_shape){1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 16, 0});
    roofline.efficiencies.step_us = 1e6;
    return roofline;
}

START_TEST(prompts_come_first_and_blocks_bound_them) {
    struct roofline roofline = make_second();
    struct prompt_first_spec spec = {
        .roofline = &roofline, .kv_tokens = 1600, .max_seqs = 256, .prefill_tokens = 2048};
    struct prompt_first_request requests[3] = {
        {0, 100, 10, 0, 0}, {0, 100, 10, 0, 0}, {2.5, 100, 10, 0, 0}};
    struct prompt_first_result result;
    ck_assert_int_eq(prompt_first_run(&spec, requests, 3, &result), STATUS_OK);
    /* Two prompts in one step, tokens from then on; the third prompt's step holds them up once. */
    ck_assert_double_eq_tol(requests[0].first_s, 1, 1e-3);
    ck_assert_double_eq_tol(requests[1].first_s, 1, 1e-3);
    ck_assert_double_eq_tol(requests[2].first_s, 4, 1e-3);
    ck_assert_double_eq_tol(requests[0].end_s, 11, 1e-3);
    ck_assert_double_eq_tol(requests[2].end_s, 13, 1e-3);
    ck_assert_double_eq_tol(result.us[ROOFLINE_STEP], 13e6, 1);
    ck_assert_uint_eq(result.n_preempted, 0);
    spec.prefill_tokens = 150; /* one prompt at a time */
    ck_assert_int_eq(prompt_first_run(&spec, requests, 2, &result), STATUS_OK);
    ck_assert_double_eq_tol(requests[1].first_s, 2, 1e-3);
    spec.prefill_tokens = 2048;
    spec.max_seqs = 1;
    ck_assert_int_eq(prompt_first_run(&spec, requests, 2, &result), STATUS_OK);
    ck_assert_double_eq_tol(requests[1].first_s, 11, 1e-3);
    spec.kv_tokens = 96; /* less than a request */
    ck_assert_int_eq(prompt_first_run(&spec, requests, 2, &result), STATUS_LIMIT);
}
END_TEST

START_TEST(the_youngest_gives_its_blocks_up_and_is_computed_again) {
    struct roofline roofline = make_second();
    /* 14 blocks: two prompts of 96 tokens take 12, with their first tokens all 14; the 17th new one is too much. */
    struct prompt_first_spec spec = {
        .roofline = &roofline, .kv_tokens = 14 * 16, .max_seqs = 256, .prefill_tokens = 2048};
    struct prompt_first_request requests[2] = {{0, 96, 30, 0, 0}, {0, 96, 30, 0, 0}};
    struct prompt_first_result result;
    ck_assert_int_eq(prompt_first_run(&spec, requests, 2, &result), STATUS_OK);
    ck_assert_uint_eq(result.n_preempted, 1);
    ck_assert_double_eq_tol(requests[0].end_s, 30, 1e-2); /* it never waits */
    ck_assert_double_eq_tol(requests[1].first_s, 1, 1e-2);
    /* 17 tokens before; then its 113 tokens are a prompt, which gives the 18th, and 12 more follow. */
    ck_assert_double_eq_tol(requests[1].end_s, 30 + 1 + 12, 1e-2);
    struct prompt_first_request late[2] = {{0, 96, 30, 0, 0}, {0, 96, 30, 0, 0}};
    spec.until_s = 30.5;
    ck_assert_int_eq(prompt_first_run(&spec, late, 2, &result), STATUS_OK);
    ck_assert_double_gt(late[0].end_s, 0);
    ck_assert_double_eq(late[1].end_s, 0);
}
END_TEST

START_TEST(tandem_in_the_place_of_a_row_takes_what_its_steps_take) {
    size_t n_all = reference_configurations(all);
    const struct efficiencies *goal = efficiencies_find("goal");
    for (size_t i = 0; i < n_all; i++) {
        struct prediction prediction, again;
        const struct reference_row *row = all[i].rows; /* 128/128, or the synchronous level */
        ck_assert_int_eq(predict_tandem(&all[i], row, goal, &prediction), STATUS_OK);
        ck_assert_int_eq(predict_tandem(&all[i], row, goal, &again), STATUS_OK);
        ck_assert_mem_eq(&prediction, &again, sizeof again);
        ck_assert_msg(prediction.fits && prediction.tokens_per_s > 0, "%s %s", row->model,
                      row->hardware);
        double ms = prediction.itl_ms > 0 ? prediction.itl_ms : prediction.ms_per_output_token;
        struct roofline roofline = {all[i].model, all[i].device, *goal, all[i].tp};
        struct roofline_terms terms;
        roofline_terms(&terms, &roofline, &(struct roofline_step){1, 1, 1, 600, 0});
        ck_assert_double_ge(ms, terms.total_us / 1e3 * .97);
        ck_assert_double_le(ms, terms.total_us / 1e3 * 1.10);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_published_row_has_a_model_and_a_device);
    tcase_add_test(tests, a_rate_without_an_answer_is_no_measurement);
    tcase_add_test(tests, prompts_come_first_and_blocks_bound_them);
    tcase_add_test(tests, the_youngest_gives_its_blocks_up_and_is_computed_again);
    tcase_add_test(tests, tandem_in_the_place_of_a_row_takes_what_its_steps_take);
}
