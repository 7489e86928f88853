#include "base/metrics.h"

#include "base/histogram.h"
#include "base/random.h"
#include "base/window.h"
#include "tests/support/suite.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "base_metrics";
const double suite_timeout_s = 60;

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

START_TEST(percentiles_are_within_one_part_in_128_of_the_sorted_values) {
    enum { N = 20000 };
    static uint64_t values[N];
    static struct histogram histogram;
    struct random random = {.state = 5};
    double sum = 0;
    for (unsigned i = 0; i < N; i++) {
        values[i] = random_next(&random) >> random_below(&random, 64);
        histogram_record(&histogram, values[i]);
        sum += (double)values[i];
    }
    qsort(values, N, sizeof *values, compare);
    static const double percents[] = {0, 1, 10, 50, 90, 99, 99.9, 100};
    for (unsigned i = 0; i < sizeof percents / sizeof *percents; i++) {
        unsigned rank = (unsigned)ceil(percents[i] / 100 * N);
        uint64_t exact = values[rank > 0 ? rank - 1 : 0];
        uint64_t told = histogram_percentile(&histogram, percents[i]);
        ck_assert_uint_le(told > exact ? told - exact : exact - told, exact / 128);
    }
    ck_assert_uint_eq(histogram.min, values[0]);
    ck_assert_uint_eq(histogram.max, values[N - 1]);
    ck_assert_uint_eq(histogram_percentile(&histogram, 0), values[0]);
    ck_assert_uint_eq(histogram_percentile(&histogram, 100), values[N - 1]);
    ck_assert_double_eq_tol(histogram_mean(&histogram), sum / N, sum / N * 1e-12);
}
END_TEST

START_TEST(percentiles_of_repeated_values_are_exact_and_so_is_a_great_sum) {
    static struct histogram histogram;
    for (unsigned i = 0; i < 1000; i++) {
        histogram_record(&histogram, i < 900 ? 50000001 : 680123457);
        histogram_record(&histogram, UINT64_MAX);
    }
    ck_assert_uint_eq(histogram_percentile(&histogram, 30), 50000001);
    ck_assert_uint_eq(histogram_percentile(&histogram, 46), 680123457);
    ck_assert_uint_eq(histogram_percentile(&histogram, 99), UINT64_MAX);
    unsigned __int128 sum =
        (unsigned __int128)UINT64_MAX * 1000 + 900ull * 50000001 + 100ull * 680123457;
    ck_assert(histogram.sum == sum);
}
END_TEST

START_TEST(small_values_are_exact_and_the_largest_fits) {
    static struct histogram histogram;
    for (uint64_t v = 0; v < 128; v++)
        histogram_record(&histogram, v);
    for (unsigned p = 1; p <= 128; p++)
        ck_assert_uint_eq(histogram_percentile(&histogram, p / 128.0 * 100), p - 1);
    histogram_record(&histogram, UINT64_MAX);
    ck_assert_uint_eq(histogram_percentile(&histogram, 100), UINT64_MAX);
    static const struct histogram empty;
    ck_assert_uint_eq(histogram_percentile(&empty, 50), 0);
    ck_assert_double_eq(histogram_mean(&empty), 0);
}
END_TEST

/* --- a strict reader of the text format, written from its specification ------------------- */

static const char *skip_name(const char *at) {
    ck_assert(isalpha((unsigned char)*at) || *at == '_' || *at == ':');
    while (isalnum((unsigned char)*at) || *at == '_' || *at == ':')
        at++;
    return at;
}

static const char *skip_labels(const char *at) {
    ck_assert_int_eq(*at++, '{');
    while (*at != '}') {
        at = skip_name(at);
        ck_assert_int_eq(*at++, '=');
        ck_assert_int_eq(*at++, '"');
        for (; *at != '"'; at++) {
            ck_assert_int_ne(*at, '\n');
            if (*at == '\\') {
                at++;
                ck_assert(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
        if (*at == ',')
            at++;
    }
    return at + 1;
}

/* Checks each line and that a family's lines stand together; counts samples. */
static unsigned check_text(const char *text) {
    char family[128] = "";
    unsigned n_samples = 0;
    bool typed = false;
    while (*text) {
        const char *end = strchr(text, '\n');
        ck_assert_ptr_nonnull(end);
        if (strncmp(text, "# HELP ", 7) == 0) {
            const char *name = text + 7;
            size_t n = (size_t)(skip_name(name) - name);
            memcpy(family, name, n);
            family[n] = 0;
            typed = false;
        } else if (strncmp(text, "# TYPE ", 7) == 0) {
            ck_assert_int_eq(strncmp(text + 7, family, strlen(family)), 0);
            const char *type = text + 7 + strlen(family) + 1;
            ck_assert(strncmp(type, "counter\n", 8) == 0 || strncmp(type, "gauge\n", 6) == 0 ||
                      strncmp(type, "histogram\n", 10) == 0);
            typed = true;
        } else {
            ck_assert(typed);
            ck_assert_int_eq(strncmp(text, family, strlen(family)), 0);
            const char *at = skip_name(text);
            if (*at == '{')
                at = skip_labels(at);
            ck_assert_int_eq(*at++, ' ');
            char *after;
            strtod(at, &after);
            ck_assert_ptr_eq(after, end);
            n_samples++;
        }
        text = end + 1;
    }
    return n_samples;
}

START_TEST(a_window_has_the_most_of_the_last_ten_seconds) {
    struct window window = {0};
    for (uint64_t s = 5; s < 8; s++)
        window_note(&window, s * NS_PER_S, s == 6 ? 100 : 1);
    window_note(&window, 6 * NS_PER_S, 50); /* less than what that second has */
    ck_assert_uint_eq(window_most(&window, 15 * NS_PER_S), 100);
    ck_assert_uint_eq(window_most(&window, 16 * NS_PER_S), 1);
    window_note(&window, 16 * NS_PER_S, 2); /* in the place of the sixth second */
    ck_assert_uint_eq(window_most(&window, 16 * NS_PER_S), 2);
    ck_assert_uint_eq(window_most(&window, 26 * NS_PER_S), 0);
}
END_TEST

START_TEST(rows_show_the_members_that_they_name) {
    static const double bounds[] = {1, 10};
    static const struct metric_label second = {"b", "2"};
    struct figures {
        uint32_t narrow;
        uint64_t wide;
        double real, never;
    };
    static const struct metric_row rows[] = {
        {"narrow", "n", METRIC_GAUGE, METRIC_AT(struct figures, narrow)},
        {"wide_total", "w", METRIC_COUNTER, METRIC_AT(struct figures, wide), .labels = &second,
         .n_labels = 1},
        {"real", "r", METRIC_HISTOGRAM, METRIC_AT(struct figures, real), .bounds = bounds,
         .n_bounds = 2},
        {"never", "r", METRIC_HISTOGRAM, METRIC_AT(struct figures, never), .bounds = bounds,
         .n_bounds = 2},
    };
    const struct metric_label label = {"a", "1"};
    struct metric *series[4];
    struct metrics *metrics;
    struct buf out;
    buf_init(&out, 0);
    ck_assert_int_eq(metrics_new(16, &metrics), STATUS_OK);
    metrics_add_rows(metrics, rows, 4, &label, 1, series);
    metric_rows_take(rows, 4, series, &(struct figures){4294967295u, 1ull << 40, 2.5, NAN});
    metric_rows_take(rows, 4, series, &(struct figures){7, (1ull << 40) + 5, 0.5, NAN});
    metric_rows_take(rows, 4, series, &(struct figures){7, 3, 0.5, NAN}); /* never goes down */
    metrics_write(metrics, &out);
    static const char *const lines[] = {
        "# HELP narrow n\n# TYPE narrow gauge\nnarrow{a=\"1\"} 7\n",
        "# TYPE wide_total counter\nwide_total{a=\"1\",b=\"2\"} 1099511627781\n",
        "# TYPE real histogram\nreal_bucket{a=\"1\",le=\"1\"} 2\n",
        "\nreal_sum{a=\"1\"} 3.5\n",
        "\nnever_count{a=\"1\"} 0\n",
    };
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(out.data, lines[i]) != NULL, "%s in\n%s", lines[i], out.data);
    metrics_free(metrics);
    buf_fini(&out);
}
END_TEST

START_TEST(exposition_parses_and_says_what_was_recorded) {
    static const double bounds[] = {0.1, 0.5, 1};
    struct metrics *metrics;
    struct buf out;
    buf_init(&out, 0);
    ck_assert_int_eq(metrics_new(16, &metrics), STATUS_OK);
    struct metric_label stop = {"reason", "stop"};
    struct metric_label odd = {"reason", "a\"b\\c\nd"};
    struct metric *n =
        metrics_counter(metrics, (struct metric_spec){"x_total", "Some\nhelp.", &stop, 1});
    struct metric *m =
        metrics_counter(metrics, (struct metric_spec){"x_total", "Some\nhelp.", &odd, 1});
    struct metric *g = metrics_gauge(metrics, (struct metric_spec){"vllm:g", "g", NULL, 0});
    struct metric *h =
        metrics_histogram(metrics, (struct metric_spec){"h_seconds", "h", &stop, 1}, bounds, 3);
    ck_assert_ptr_eq(metrics_counter(metrics, (struct metric_spec){"x_total", "", &stop, 1}), n);
    metric_add(n, 3);
    metric_add(m, 1ull << 60);
    metric_set(g, 0.1);
    metric_observe(h, 0.1);
    metric_observe(h, 0.3);
    metric_observe(h, 7);
    metrics_write(metrics, &out);
    ck_assert_uint_eq(check_text(out.data), 1 + 2 + 1 + 6);
    static const char *const lines[] = {
        "# HELP x_total Some\\nhelp.\n# TYPE x_total counter\nx_total{reason=\"stop\"} 3\n",
        "\nx_total{reason=\"a\\\"b\\\\c\\nd\"} 1152921504606846976\n",
        "\nvllm:g 0.1\n",
        "\nh_seconds_bucket{reason=\"stop\",le=\"0.1\"} 1\n",
        "\nh_seconds_bucket{reason=\"stop\",le=\"0.5\"} 2\n",
        "\nh_seconds_bucket{reason=\"stop\",le=\"1\"} 2\n",
        "\nh_seconds_bucket{reason=\"stop\",le=\"+Inf\"} 3\n",
        "\nh_seconds_sum{reason=\"stop\"} 7.4\n",
        "\nh_seconds_count{reason=\"stop\"} 3\n",
    };
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(out.data, lines[i]) != NULL, "%s in\n%s", lines[i], out.data);
    metrics_remove(metrics, m);
    buf_clear(&out);
    metrics_write(metrics, &out);
    ck_assert_ptr_null(strstr(out.data, "1152921504606846976"));
    buf_fini(&out);
    metrics_free(metrics);
}
END_TEST

START_TEST(a_full_registry_counts_what_it_refuses) {
    struct metrics *metrics;
    struct buf out;
    buf_init(&out, 0);
    ck_assert_int_eq(metrics_new(2, &metrics), STATUS_OK);
    for (unsigned i = 0; i < 5; i++) {
        char text[8];
        snprintf(text, sizeof text, "%u", i);
        struct metric_label label = {"i", text};
        metric_add(metrics_counter(metrics, (struct metric_spec){"x_total", "x", &label, 1}), 1);
    }
    metrics_write(metrics, &out);
    ck_assert_uint_eq(check_text(out.data), 3);
    ck_assert_ptr_nonnull(strstr(out.data, "\ntandem_metrics_dropped_total 3\n"));
    buf_fini(&out);
    metrics_free(metrics);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, percentiles_are_within_one_part_in_128_of_the_sorted_values);
    tcase_add_test(tests, percentiles_of_repeated_values_are_exact_and_so_is_a_great_sum);
    tcase_add_test(tests, small_values_are_exact_and_the_largest_fits);
    tcase_add_test(tests, a_window_has_the_most_of_the_last_ten_seconds);
    tcase_add_test(tests, rows_show_the_members_that_they_name);
    tcase_add_test(tests, exposition_parses_and_says_what_was_recorded);
    tcase_add_test(tests, a_full_registry_counts_what_it_refuses);
}
