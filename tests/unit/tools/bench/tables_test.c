#include "tests/support/suite.h"

#include "tools/bench/core/html.h"
#include "tools/bench/core/tables.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "bench_tables";
const double suite_timeout_s = 60;

static struct row rows[3];

static struct table_set make(enum table table) {
    memset(rows, 0, sizeof rows);
    for (uint32_t i = 0; i < 3; i++) {
        struct row *row = &rows[i];
        snprintf(row->label, sizeof row->label, "%s", i ? "constant@1.27" : "synchronous");
        row->n_input = 128;
        row->n_output = 512;
        row->asked_rate = i ? 1.274 : 0;
        row->sweep = (struct figures_sweep){3.0 - i, 15.2234, 149.994, 114.5, 127.5};
        row->grid = (struct figures_grid){9.357, 1197.561, 6.306, 12.624};
        row->figures = (struct figures){.n_sent = 10, .n_ok = 9, .n_failed = 1, .slo_held = true};
        row->figures.n_faults[FAULT_CUT] = 1;
        row->figures.ttft.p50 = 50000000;
    }
    rows[1].figures.marks = MARK_SHORT | MARK_LATE;
    rows[1].figures.late_max_ns = 25000000;
    return (struct table_set){.table = table,
                              .rows = rows,
                              .n_rows = 3,
                              .knee = -1,
                              .title = "a <title>",
                              .environment = "{\"model\":\"m \\u0022<x>\\\"\",\"cpus\":2}",
                              .first_error = "cut"};
}

static void assert_has(const struct buf *out, const char *wanted) {
    ck_assert_msg(strstr(out->data, wanted) != NULL, "\"%s\" is not in:\n%s", wanted, out->data);
}

START_TEST(a_grid_has_the_published_columns_and_its_marks_in_the_cell) {
    struct table_set set = make(TABLE_GRID);
    struct buf out;
    buf_init(&out, 0);
    tables_markdown(&set, &out);
    assert_has(&out,
               "| Input Length | Output Length | Throughput (requests/s) | Throughput (output "
               "token/s) | Average latency per token (ms) | Average latency per output token "
               "(ms) |\n");
    assert_has(&out, "\n|128|512|9.36|1197.56|6.31|12.62|\n");
    assert_has(&out, "\n|128|512|9.36|1197.56|6.31|12.62 SL|\n");
    assert_has(&out, "failures: cut_stream 3\nfirst failure: cut\n");
    set.compat = true;
    buf_clear(&out);
    tables_markdown(&set, &out);
    ck_assert_ptr_null(strstr(out.data, "12.62 SL"));
    ck_assert_ptr_null(strstr(out.data, "steady"));
    buf_fini(&out);
}
END_TEST

START_TEST(a_sweep_is_sorted_by_completed_rate_with_the_published_labels) {
    struct table_set set = make(TABLE_SWEEP);
    struct buf out;
    buf_init(&out, 0);
    tables_markdown(&set, &out);
    assert_has(&out, "| Benchmark | Requests per Second | Request Latency | Time to First Token | "
                     "Inter Token Latency | Output Token Throughput |\n");
    assert_has(&out, "|---|\n| asynchronous@1.27 req/sec | 1.00 req/sec | 15.22 sec | 149.99 ms | "
                     "114.50 ms | 127.50 tokens/sec |\n| asynchronous@1.27 req/sec | 2.00 req/sec");
    assert_has(&out, "tokens/sec SL |\n| synchronous | 3.00 req/sec");
    buf_fini(&out);
}
END_TEST

START_TEST(a_late_client_is_the_first_line) {
    struct table_set set = make(TABLE_SWEEP);
    struct buf out;
    buf_init(&out, 0);
    tables_markdown(&set, &out);
    static const char wanted[] =
        "WARNING: this client was behind its own schedule: requests were sent up to 25.0 ms after "
        "they were due; rows marked L measure the client.\n";
    ck_assert_int_eq(strncmp(out.data, wanted, sizeof wanted - 1), 0);
    assert_has(&out, "\nmarks: S fewer tokens than asked, L client late\n");
    /* The cause is named alone: of 10 ms and one more, and not of 10. */
    rows[1].figures.late_max_ns = FIGURES_LATE_NS;
    rows[1].figures.loop_late_max_ns = FIGURES_LATE_NS + 1000000;
    buf_clear(&out);
    tables_markdown(&set, &out);
    static const char held[] =
        "WARNING: this client was behind its own schedule: its loop was held for up to 11.0 ms (";
    ck_assert_int_eq(strncmp(out.data, held, sizeof held - 1), 0);
    rows[1].figures.late_max_ns = 2 * FIGURES_LATE_NS;
    buf_clear(&out);
    tables_markdown(&set, &out);
    assert_has(&out, "schedule: requests were sent up to 20.0 ms after they were due, and its loop "
                     "was held for up to 11.0 ms (");
    rows[1].figures.marks = 0;
    buf_clear(&out);
    tables_markdown(&set, &out);
    ck_assert_int_ne(strncmp(out.data, "WARNING", 7), 0);
    buf_fini(&out);
}
END_TEST

/* The sums of a load are those that a reader adds up. */
START_TEST(what_ended_in_the_drain_is_said) {
    struct table_set set = make(TABLE_LOAD);
    struct buf out;
    buf_init(&out, 0);
    rows[0].figures = (struct figures){
        .n_sent = 17, .n_ok = 17, .n_in_window = 13, .window_s = 20, .requests_per_s = 0.65};
    tables_markdown(&set, &out);
    assert_has(&out, "\n17 completed, 0 failed, 0 incomplete: 13 completed in 20.00 s of load, and "
                     "4 more while it drained.\n"
                     "The 13: 0.65 requests/s, ");
    rows[0].figures.n_in_window = 17;
    rows[0].figures.requests_per_s = 0.85;
    buf_clear(&out);
    tables_markdown(&set, &out);
    assert_has(&out,
               "\n17 completed, 0 failed, 0 incomplete in 20.00 s.\nThat is 0.85 requests/s, ");
    buf_fini(&out);
}
END_TEST

/* A sweep's curves begin with the synchronous level's own rate, and leave out the throughput level. */
START_TEST(curves_of_a_sweep_begin_where_one_asks_alone) {
    struct table_set set = make(TABLE_SWEEP);
    struct buf out;
    buf_init(&out, 0);
    rows[0].figures.requests_per_s = 0.5;
    rows[0].figures.output_tokens_per_s = 64;
    rows[1].figures.output_tokens_per_s = 987;
    rows[2].figures.output_tokens_per_s = 163;
    html_page(&set, &out);
    assert_has(&out, "<title>output tokens/s: 64 at 0.5</title>");
    assert_has(&out, "<title>output tokens/s: 163 at 1.274</title>");
    ck_assert_ptr_null(strstr(out.data, "output tokens/s: 987"));
    buf_fini(&out);
}
END_TEST

START_TEST(json_has_the_members_that_scripts_read) {
    for (enum table table = TABLE_LOAD; table <= TABLE_SWEEP; table++) {
        struct table_set set = make(table);
        struct buf out;
        buf_init(&out, 0);
        tables_json(&set, &out);
        json_t *root = json_loadb(out.data, out.n, 0, NULL);
        ck_assert_ptr_nonnull(root);
        json_t *row = table == TABLE_LOAD
                          ? root
                          : json_array_get(
                                json_object_get(root, table == TABLE_GRID ? "cells" : "levels"), 1);
        json_t *requests = json_object_get(row, "requests");
        ck_assert_int_eq(json_integer_value(json_object_get(requests, "completed")), 9);
        ck_assert_int_eq(
            json_integer_value(json_object_get(json_object_get(requests, "errors"), "cut_stream")),
            1);
        json_t *ttft = json_object_get(row, "ttft_ms");
        ck_assert_double_eq(json_number_value(json_object_get(ttft, "p50")), 50);
        ck_assert(json_is_object(json_object_get(row, "itl_ms")));
        ck_assert(json_is_object(json_object_get(row, "latency_s")));
        json_decref(root);
        buf_fini(&out);
    }
}
END_TEST

START_TEST(csv_has_a_field_for_each_name) {
    struct table_set set = make(TABLE_GRID);
    struct buf out;
    buf_init(&out, 0);
    tables_csv(&set, &out);
    int n_first = -1, n_lines = 0;
    char *save = NULL;
    for (char *line = strtok_r(out.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int n = 0;
        for (const char *at = line; *at; at++)
            n += *at == ',';
        n_first = n_first < 0 ? n : n_first;
        ck_assert_int_eq(n, n_first);
        n_lines++;
    }
    ck_assert_int_eq(n_lines, 4);
    buf_fini(&out);
}
END_TEST

START_TEST(a_page_has_its_plots_and_needs_nothing_else) {
    for (enum table table = TABLE_LOAD; table <= TABLE_SWEEP; table++) {
        struct table_set set = make(table);
        struct buf out;
        buf_init(&out, 0);
        html_page(&set, &out);
        unsigned n_plots = 0;
        for (const char *at = strstr(out.data, "<svg"); at; at = strstr(at + 1, "<svg"))
            n_plots++;
        ck_assert_uint_eq(n_plots, 8); /* three curves, two of quantiles, a timeline for each row */
        assert_has(&out, "class=\"headline\"");
        assert_has(&out, "<dt>model</dt><dd>m &quot;&lt;x>&quot;</dd><dt>cpus</dt><dd>2</dd></dl>");
        assert_has(&out, "a &lt;title>");
        assert_has(&out, "prefers-color-scheme:dark");
        ck_assert_ptr_null(strstr(out.data, "nan"));
        ck_assert_ptr_null(strstr(out.data, "http"));
        ck_assert_ptr_null(strstr(out.data, "<script"));
        buf_fini(&out);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_grid_has_the_published_columns_and_its_marks_in_the_cell);
    tcase_add_test(tests, a_sweep_is_sorted_by_completed_rate_with_the_published_labels);
    tcase_add_test(tests, a_late_client_is_the_first_line);
    tcase_add_test(tests, json_has_the_members_that_scripts_read);
    tcase_add_test(tests, csv_has_a_field_for_each_name);
    tcase_add_test(tests, a_page_has_its_plots_and_needs_nothing_else);
    tcase_add_test(tests, what_ended_in_the_drain_is_said);
    tcase_add_test(tests, curves_of_a_sweep_begin_where_one_asks_alone);
}
