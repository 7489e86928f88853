/* What calls take is counted by their key's name, in a bounded number of rows. */
#include "base/metrics.h"
#include "router/call/quota.h"
#include "router/call/usage.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "router_usage";
const double suite_timeout_s = 60;

static struct metrics *metrics;
static struct usage *usage;

static void open_usage(void) {
    ck_assert_int_eq(metrics_new(USAGE_SERIES_MAX, &metrics), STATUS_OK);
    ck_assert_int_eq(usage_new(metrics, &usage), STATUS_OK);
}

static void close_usage(void) {
    usage_free(usage);
    metrics_free(metrics);
}

/* Is this a line of the metrics? */
static bool says(const char *line) {
    struct buf out;
    char whole[256];
    buf_init(&out, 0);
    metrics_write(metrics, &out);
    buf_putc(&out, 0);
    ck_assert_int_eq(buf_status(&out), STATUS_OK);
    snprintf(whole, sizeof whole, "\n%s\n", line);
    bool found = strstr(out.data, whole) != NULL;
    buf_fini(&out);
    return found;
}

START_TEST(each_name_has_its_own_figures_and_nobody_too) {
    const struct usage_call call = {
        .n_prompt_tokens = 100, .n_completion_tokens = 7, .n_cached_tokens = 32};
    open_usage();
    ck_assert(says("tandem_key_requests_total{key=\"-\"} 0"));
    usage_add(usage, "a", &call);
    usage_add(usage, "b", &call);
    usage_add(usage, "a", &call);
    usage_add(usage, "", &call);
    ck_assert(says("tandem_key_requests_total{key=\"a\"} 2"));
    ck_assert(says("tandem_key_prompt_tokens_total{key=\"a\"} 200"));
    ck_assert(says("tandem_key_generation_tokens_total{key=\"a\"} 14"));
    ck_assert(says("tandem_key_cached_tokens_total{key=\"a\"} 64"));
    ck_assert(says("tandem_key_requests_total{key=\"b\"} 1"));
    ck_assert(says("tandem_key_generation_tokens_total{key=\"b\"} 7"));
    ck_assert(says("tandem_key_prompt_tokens_total{key=\"-\"} 100"));
    ck_assert(!says("tandem_key_requests_total{key=\"-others\"} 0"));
    close_usage();
}
END_TEST

START_TEST(names_past_the_bound_are_counted_together) {
    const struct usage_call call = {.n_prompt_tokens = 1};
    char name[QUOTA_NAME_MAX + 1];
    open_usage();
    for (unsigned i = 0; i < USAGE_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "n%u", i);
        usage_add(usage, name, &call);
    }
    snprintf(name, sizeof name, "tandem_key_requests_total{key=\"n%d\"} 1", USAGE_NAMES_MAX - 1);
    ck_assert(says(name));
    ck_assert(!says("tandem_key_requests_total{key=\"-others\"} 0"));
    usage_add(usage, "one more", &call);
    usage_add(usage, "and another", &call);
    usage_add(usage, "n0", &call);
    usage_add(usage, "", &call);
    ck_assert(says("tandem_key_requests_total{key=\"-others\"} 2"));
    ck_assert(says("tandem_key_requests_total{key=\"n0\"} 2"));
    ck_assert(says("tandem_key_requests_total{key=\"-\"} 1"));
    ck_assert(says("tandem_metrics_dropped_total 0"));
    close_usage();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, each_name_has_its_own_figures_and_nobody_too);
    tcase_add_test(tests, names_past_the_bound_are_counted_together);
}
