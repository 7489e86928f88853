#include "base/buf.h"
#include "tests/support/suite.h"
#include "worker/device/roofline.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "device";
const double suite_timeout_s = 60;

START_TEST(messages_name_every_device) {
    char names[256] = "";
    for (const struct device *device = device_table; device->name; device++) {
        strcat(names, names[0] ? ", " : "");
        strcat(names, device->name);
        ck_assert_ptr_eq(device_find(device->name), device);
        ck_assert_ptr_nonnull(device->source);
        /* No rate is above the one that bounds it. */
        ck_assert(device->copy_bytes_s > 0 && device->copy_bytes_s < device->read_bytes_s);
        ck_assert(device->mma_ops_s <= device->tensor_ops_s);
        ck_assert(device->float_ops_s < device->mma_ops_s);
    }
    ck_assert_str_eq(names, device_names());
    ck_assert_ptr_eq(device_find("L20-48GB"), device_find("l20"));
    ck_assert_ptr_null(device_find("an abacus"));
    ck_assert_ptr_null(device_find("")); /* the H100 has no published name */
}
END_TEST

/* A device and shares in round numbers: every term can be told by hand. */
static const struct device plain = {.name = "plain",
                                    .memory_bytes = 100000000,
                                    .copy_bytes_s = 1e9,
                                    .tensor_ops_s = 1e12,
                                    .mma_ops_s = 5e11,
                                    .int8_ops_s = 2e12,
                                    .float_ops_s = 1e10,
                                    .kernel_us = 1,
                                    .link = DEVICE_PCIE,
                                    .link_bytes_s = 1e8};

static struct roofline make_plain(void) {
    struct roofline roofline = {
        .device = &plain, .efficiencies = *efficiencies_find("limit"), .tp = 1};
    roofline_model(&roofline.model, &(struct roofline_shape){.n_layers = 10,
                                                             .dim = 100,
                                                             .n_heads = 4,
                                                             .n_kv_heads = 2,
                                                             .head_dim = 25,
                                                             .ffn_dim = 400,
                                                             .n_vocab = 1000,
                                                             .bits = 16});
    return roofline;
}

START_TEST(each_term_is_what_the_shapes_come_to) {
    struct roofline roofline = make_plain();
    struct roofline_terms terms;
    /* q, o: 100 x 100 each; k, v: 100 x 50 each; gate, up, down: 100 x 400 each. */
    ck_assert_double_eq(roofline.model.n_weights, 10 * (20000 + 10000 + 120000));
    ck_assert_double_eq(roofline.model.kv_bytes, 10 * 2 * 50 * 2);
    roofline_terms(&terms, &roofline, &(struct roofline_step){1, 1, 1, 7, 0});
    ck_assert_double_eq_tol(terms.us[ROOFLINE_WEIGHTS], 3000, 1e-9); /* 3 MB at 1 GB/s */
    ck_assert_double_eq(terms.us[ROOFLINE_PRODUCTS], 0); /* hidden behind one row's weights */
    ck_assert_double_eq_tol(terms.us[ROOFLINE_HEAD], 200, 1e-9);
    ck_assert_double_eq_tol(terms.us[ROOFLINE_KV], 14, 1e-9);
    ck_assert_double_eq_tol(terms.total_us, 3214, 1e-9);
    roofline_terms(&terms, &roofline, &(struct roofline_step){2000, 1, 1, 0, 5e5});
    ck_assert_double_eq_tol(terms.us[ROOFLINE_PRODUCTS], 6000,
                            1e-9);                                  /* 2 x 2,000 x 1.5 M at 1 T/s */
    ck_assert_double_eq_tol(terms.us[ROOFLINE_ATTEND], 2000, 1e-6); /* 4 x 100 x 10 x 5e5 */
    ck_assert_double_eq_tol(terms.total_us, 8200, 1e-6);            /* weights are hidden */
    double us[ROOFLINE_TERMS] = {0};
    roofline_add(us, &terms);
    ck_assert_double_eq(us[ROOFLINE_WEIGHTS], 0);
    ck_assert_double_eq_tol(us[ROOFLINE_PRODUCTS], 6000, 1e-6);
    roofline_terms(&terms, &roofline, &(struct roofline_step){0});
    ck_assert_double_eq(terms.total_us, 0);
}
END_TEST

START_TEST(shares_work_on_the_term_that_they_are_of) {
    struct roofline roofline = make_plain();
    struct efficiencies *own = &roofline.efficiencies;
    struct roofline_step step = {64, 64, 64, 640, 0};
    struct roofline_terms before, after;
    roofline_terms(&before, &roofline, &step);
    own->mid[EFFICIENCY_16] = 0.25;
    own->unit[EFFICIENCY_16] = EFFICIENCY_FLOAT; /* a hundredth of the tensor cores */
    own->layer_us = 3;
    own->step_us = 5;
    own->seq_us = 0.5;
    own->kv = 0.5;
    own->kv_heads = 1; /* the second query head reads all again */
    roofline_terms(&after, &roofline, &step);
    ck_assert_double_eq_tol(after.us[ROOFLINE_PRODUCTS], before.us[ROOFLINE_PRODUCTS] * 400, 1e-6);
    ck_assert_double_eq_tol(after.us[ROOFLINE_KV], before.us[ROOFLINE_KV] * 4, 1e-9);
    ck_assert_double_eq(after.us[ROOFLINE_LAYERS], 30);
    ck_assert_double_eq(after.us[ROOFLINE_STEP], 5);
    ck_assert_double_eq(after.us[ROOFLINE_SEQS], 32);
    ck_assert_double_eq(after.us[ROOFLINE_WEIGHTS], before.us[ROOFLINE_WEIGHTS]);
    step.n_tokens = 65; /* beyond 64 another share holds */
    roofline_terms(&after, &roofline, &step);
    ck_assert_double_eq_tol(after.us[ROOFLINE_PRODUCTS], 2e6 * 65 * 1.5e6 / 1e10, 1e-6);
    own->overlap = 1; /* nothing overlaps */
    roofline_terms(&before, &roofline, &step);
    ck_assert_double_eq_tol(before.total_us - after.total_us, after.us[ROOFLINE_WEIGHTS], 1e-6);
}
END_TEST

START_TEST(small_kernels_are_carried_to_another_device) {
    struct roofline roofline = make_plain();
    struct roofline_terms terms;
    strcpy(roofline.efficiencies.device, "h100");
    roofline.efficiencies.layer_us = 32;
    roofline_terms(&terms, &roofline, &(struct roofline_step){1, 1, 1, 1, 0});
    ck_assert_double_eq_tol(terms.us[ROOFLINE_LAYERS], 100,
                            1e-9); /* 10 layers, 1 us here for 3.2 there */
}
END_TEST

START_TEST(a_cut_model_has_its_share_and_adds_up) {
    struct roofline roofline = make_plain();
    struct roofline_step step = {10, 1, 1, 100, 0};
    struct roofline_terms one, four;
    roofline_terms(&one, &roofline, &step);
    double tokens = roofline_kv_tokens(&roofline, 0.9, 0);
    /* 90 MB less 3.4 MB of weights, 2,000 bytes a token */
    ck_assert_double_eq(tokens, 43300);
    roofline.tp = 4;
    roofline_terms(&four, &roofline, &step);
    ck_assert_double_eq_tol(four.us[ROOFLINE_WEIGHTS], one.us[ROOFLINE_WEIGHTS] / 4, 1e-9);
    ck_assert_double_eq_tol(four.us[ROOFLINE_KV], one.us[ROOFLINE_KV] / 2,
                            1e-9); /* two key heads */
    ck_assert_double_eq(one.us[ROOFLINE_SUMS], 0);
    /* 21 sums of 2,000 bytes, 1.5 times out and in at 100 MB/s of both directions together */
    ck_assert_double_eq_tol(four.us[ROOFLINE_SUMS], 21 * 60.0, 1e-6);
    roofline.tp = 2; /* once out and in */
    roofline_terms(&four, &roofline, &step);
    ck_assert_double_eq_tol(four.us[ROOFLINE_SUMS], 21 * 40.0, 1e-6);
    roofline.tp = 4;
    roofline.efficiencies.host_bytes_s = 1e6;
    roofline.efficiencies.sum_us = 7;
    roofline_terms(&four, &roofline, &step);
    ck_assert_double_eq_tol(four.us[ROOFLINE_SUMS], 21 * 2007.0, 1e-6);
    ck_assert_double_eq(roofline_kv_tokens(&roofline, 0.001, 1e6), 0);
}
END_TEST

START_TEST(experts_are_read_as_far_as_tokens_choose_them) {
    struct roofline roofline = make_plain();
    struct roofline_terms one, many;
    roofline_model(&roofline.model, &(struct roofline_shape){.n_layers = 1,
                                                             .dim = 100,
                                                             .n_heads = 4,
                                                             .n_kv_heads = 4,
                                                             .head_dim = 25,
                                                             .n_vocab = 10,
                                                             .n_experts = 10,
                                                             .n_active = 2,
                                                             .expert_dim = 1000,
                                                             .bits = 4,
                                                             .group = 128});
    double dense = 41000, expert = 300000, bytes = (4 + 20 / 128.0) / 8;
    ck_assert_double_eq_tol(roofline.model.weight_bytes, bytes, 1e-12);
    ck_assert_int_eq(roofline.model.format, EFFICIENCY_4);
    roofline_terms(&one, &roofline, &(struct roofline_step){1, 1, 1, 1, 0});
    ck_assert_double_eq_tol(one.us[ROOFLINE_WEIGHTS], 1e-3 * bytes * (dense + 2 * expert), 1e-6);
    roofline_terms(&many, &roofline, &(struct roofline_step){100, 1, 1, 1, 0});
    ck_assert_double_eq_tol(many.us[ROOFLINE_WEIGHTS], 1e-3 * bytes * (dense + 10 * expert), 1e-3);
    ck_assert_double_eq_tol(many.us[ROOFLINE_PRODUCTS], 200 * (dense + 2 * expert) * 1e-6, 1e-6);
}
END_TEST

START_TEST(rows_are_read_as_they_are_written) {
    struct buf text;
    struct efficiencies rows[8];
    struct error error;
    size_t n, n_table = 0;
    buf_init(&text, 0);
    for (const struct efficiencies *row = efficiencies_table; row->name[0]; row++, n_table++)
        efficiencies_write(row, &text);
    ck_assert_uint_le(n_table, 8);
    ck_assert_int_eq(efficiencies_read(text.data, text.n, rows, n_table, &n, &error), STATUS_OK);
    ck_assert_uint_eq(n, n_table);
    for (size_t i = 0; i < n; i++) {
        struct buf again, first;
        buf_init(&again, 0);
        buf_init(&first, 0);
        efficiencies_write(&rows[i], &again);
        efficiencies_write(&efficiencies_table[i], &first);
        ck_assert_str_eq(again.data, first.data);
        buf_fini(&again);
        buf_fini(&first);
    }
    ck_assert_int_eq(efficiencies_read(text.data, text.n, rows, n_table - 1, &n, &error),
                     STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "more than"));
    buf_fini(&text);
}
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    {"", "contains no row"},
    {"# nothing\n\n", "contains no row"},
    {"kv: 1\n", "line 1: a row begins with \"name:\""},
    {"name: a\nspeed: 1\n", "line 2: unknown key \"speed\""},
    {"name: a\n\nkv 1\n", "line 3: not of the form"},
    {"name: a\nkv: fast\n", "line 2: kv: expected 1 number from"},
    {"name: a\nkv: 2.1\n", "line 2: kv: expected 1 number from 1e-06 to 2"},
    {"name: a\nkv: 0\n", "line 2: kv: expected"},
    {"name: a\nkv: nan\n", "line 2: kv: expected"},
    {"name: a\nweights: 1 1\n", "line 2: weights: expected 3 numbers"},
    {"name: a\nkv: 1 1\n", "line 2: kv: more than 1 numbers"},
    {"name: a\nunit: 0 0 4\n", "line 2: unit: expected 3 numbers from 0 to 3"},
    {"name:\n", "row 1: name: is empty"},
    {"name: 012345678901234567890123456789012345678901234567\n",
     "line 1: name: is longer than 47 bytes"},
};

START_TEST(a_wrong_line_is_named) {
    struct efficiencies rows[2];
    struct error error;
    size_t n;
    ck_assert_int_eq(efficiencies_read(wrong[_i].text, strlen(wrong[_i].text), rows, 2, &n, &error),
                     STATUS_INVALID);
    ck_assert_msg(strstr(error.text, wrong[_i].says), "%s", error.text);
}
END_TEST

START_TEST(what_a_row_leaves_out_is_the_limit) {
    static const char text[] = "name: mine \r\n  kv: 0.5\t\nunit: 3 3 3";
    struct efficiencies row;
    struct error error;
    size_t n;
    ck_assert_int_eq(efficiencies_read(text, sizeof text - 1, &row, 1, &n, &error), STATUS_OK);
    ck_assert_str_eq(row.name, "mine");
    ck_assert_double_eq(row.kv, 0.5);
    ck_assert_double_eq(row.weights[EFFICIENCY_4], 1);
    ck_assert_double_eq(row.unit[EFFICIENCY_8], EFFICIENCY_FLOAT);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, messages_name_every_device);
    tcase_add_test(tests, each_term_is_what_the_shapes_come_to);
    tcase_add_test(tests, shares_work_on_the_term_that_they_are_of);
    tcase_add_test(tests, small_kernels_are_carried_to_another_device);
    tcase_add_test(tests, a_cut_model_has_its_share_and_adds_up);
    tcase_add_test(tests, experts_are_read_as_far_as_tokens_choose_them);
    tcase_add_test(tests, rows_are_read_as_they_are_written);
    tcase_add_loop_test(tests, a_wrong_line_is_named, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, what_a_row_leaves_out_is_the_limit);
}
