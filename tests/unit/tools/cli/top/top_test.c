#include "tests/support/suite.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "tools/cli/top/top_layout.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "top";
const double suite_timeout_s = 60;

#define BEGIN_NS (3600 * NS_PER_S)

/* A body of /admin/status: what differs between the tests is what a test passes. */
struct told {
    unsigned completed, tokens, replays, failed, uptime_s;
    const char *workers; /* objects with commas between */
};

static enum status tell(struct top_view *view, struct told told, uint64_t now_ns) {
    struct buf body;
    struct error error;
    buf_init(&body, 0);
    buf_printf(
        &body,
        "{\"routers\":[{\"name\":\"router0\",\"uptime_s\":%u,\"version\":\"0.1.0\","
        "\"model\":\"smollm2-135m\",\"draining\":false,\"ready\":true,\"requests\":{\"queued\""
        ":3,\"running\":16,\"completed\":%u,\"failed\":%u,\"cancelled\":0,\"refused\":0},"
        "\"core\":{\"replays\":%u,\"handoffs\":45,\"tokens\":%u}}],\"workers\":[%s]}",
        told.uptime_s, told.completed, told.failed, told.replays, told.tokens, told.workers);
    enum status status = top_view_status(view, body.data, body.n, now_ns, &error);
    buf_fini(&body);
    return status;
}

/* text: (1024) or more. A worker in its `state`; more: further members, beginning with a comma. */
static const char *worker(char *text, const char *name, const char *role, const char *state,
                          unsigned load, const char *more) {
    sprintf(text,
            "{\"name\":\"%s\",\"role\":\"%s\",\"state\":\"%s\",\"incarnation\":\"%s-1\","
            "\"pid\":%u,\"host\":\"rack%u.example\",\"heard_ms_ago\":120,\"blocks\":{\"total\":"
            "1000,\"used\":%u,\"reserved\":10,"
            "\"quarantined\":0},\"sequences\":{\"running\":%u,\"waiting\":%u},"
            "\"tokens_per_s\":%u.5,\"prompt_tokens\":%u%s}",
            name, role, state, name, 4000 + load, load % 3, load * 9, load / 10, load / 40,
            load * 37, load * 1000, more);
    return text;
}

static void tell_metrics(struct top_view *view, unsigned n, uint64_t now_ns) {
    char text[1024];
    snprintf(text, sizeof text,
             "# TYPE vllm:time_to_first_token_seconds histogram\n"
             "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.01\"} %u\n"
             "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} %u\n"
             "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} %u\n"
             "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 1\n"
             "vllm:inter_token_latency_seconds_bucket{engine=\"0\",le=\"1\"} %u\n"
             "vllm:inter_token_latency_seconds_bucket{engine=\"0\",le=\"+Inf\"} %u\n",
             5 * n, 10 * n, 10 * n, n, n);
    top_view_metrics(view, text, strlen(text), now_ns);
}

/* Compares with tests/unit/tools/cli/top/pictures/NAME.txt; TANDEM_GOLDEN=write makes that file. */
static void check_golden(const char *name, const struct top_view *view, struct top_look *look,
                         unsigned width, unsigned height, bool is_ascii) {
    struct top_screen screen;
    struct buf shown, golden;
    struct error error;
    char path[128];
    snprintf(path, sizeof path, "tests/unit/tools/cli/top/pictures/%s.txt", name);
    ck_assert_int_eq(top_screen_init(&screen, width, height, is_ascii), STATUS_OK);
    top_layout(view, look, &screen);
    buf_init(&shown, 0);
    buf_init(&golden, 0);
    for (unsigned y = 0; y < height; y++) {
        top_line(&screen, y, &shown);
        buf_putc(&shown, '\n');
    }
    if (getenv("TANDEM_GOLDEN")) {
        FILE *file = fopen(path, "w");
        ck_assert(file && fwrite(shown.data, 1, shown.n, file) == shown.n);
        fclose(file);
    }
    ck_assert_int_eq(file_read(path, 1 << 20, &golden, &error), STATUS_OK);
    ck_assert_str_eq(shown.data, golden.data);
    buf_fini(&shown);
    buf_fini(&golden);
    top_screen_fini(&screen);
}

/* Two prefill and two decode workers, one of them draining, 2 s of load; then decode0 is gone. */
static void make_busy(struct top_view *view) {
    char a[1024], b[1024], c[1024], d[1024], all[4200];
    top_view_init(view, "http://127.0.0.1:8000");
    snprintf(all, sizeof all, "%s,%s,%s,%s", worker(a, "prefill0", "prefill", "ready", 10, ""),
             worker(b, "prefill1", "prefill", "ready", 12, ""),
             worker(c, "decode0", "decode", "ready", 70, ""),
             worker(d, "decode1", "decode", "ready", 90, ""));
    ck_assert_int_eq(tell(view, (struct told){100, 5000, 0, 0, 3600, all}, BEGIN_NS), STATUS_OK);
    tell_metrics(view, 100, BEGIN_NS);
    snprintf(all, sizeof all, "%s,%s,%s,%s", worker(a, "prefill0", "prefill", "ready", 20, ""),
             worker(b, "prefill1", "prefill", "draining", 12, ""),
             worker(c, "decode0", "decode", "ready", 80, ""),
             worker(d, "decode1", "decode", "ready", 106, ""));
    ck_assert_int_eq(
        tell(view, (struct told){125, 33000, 2, 0, 3602, all}, BEGIN_NS + 2 * NS_PER_S), STATUS_OK);
    tell_metrics(view, 150, BEGIN_NS + 2 * NS_PER_S);
    snprintf(all, sizeof all, "%s,%s,%s", worker(a, "prefill0", "prefill", "ready", 30, ""),
             worker(b, "prefill1", "prefill", "draining", 12, ""),
             worker(d, "decode1", "decode", "ready", 100, ""));
    ck_assert_int_eq(
        tell(view, (struct told){150, 47000, 5, 1, 3604, all}, BEGIN_NS + 4 * NS_PER_S), STATUS_OK);
}

static struct top_view view; /* 100 KiB */

START_TEST(busy_cluster_in_common_sizes) {
    struct top_look look = {.has_keys = true};
    make_busy(&view);
    check_golden("80x24", &view, &look, 80, 24, false);
    check_golden("40x12", &view, &look, 40, 12, false);
    check_golden("200x50", &view, &look, 200, 50, false);
    check_golden("80x24_ascii", &view, &look, 80, 24, true);
    look.has_help = true;
    check_golden("80x24_help", &view, &look, 80, 24, false);
}
END_TEST

START_TEST(without_workers_it_says_where_to_look) {
    struct top_look look = {0};
    top_view_init(&view, "http://127.0.0.1:8000");
    check_golden("asking", &view, &look, 80, 4, false);
    ck_assert_int_eq(tell(&view, (struct told){.workers = ""}, BEGIN_NS), STATUS_OK);
    check_golden("no_workers", &view, &look, 80, 12, false);
}
END_TEST

START_TEST(forty_workers_scroll_and_sort) {
    struct top_look look = {.has_keys = true, .sort = TOP_BY_TOKENS, .first = 3};
    static char all[40 * 1024];
    top_view_init(&view, "http://127.0.0.1:8000");
    for (unsigned i = 0; i < 40; i++) {
        char name[16], one[1024];
        snprintf(name, sizeof name, "decode%u", i);
        strcat(all, i > 0 ? "," : "");
        strcat(all, worker(one, name, "decode", "ready", i * 2, ""));
    }
    ck_assert_int_eq(tell(&view, (struct told){.workers = all}, BEGIN_NS), STATUS_OK);
    check_golden("forty_by_tokens", &view, &look, 80, 24, false);
    look = (struct top_look){.sort = TOP_BY_NAME, .first = 1000};
    check_golden("forty_at_the_end", &view, &look, 80, 24, false);
    ck_assert_uint_lt(look.first, 40);
    look.is_reversed = true;
    check_golden("forty_reversed", &view, &look, 80, 24, false);
}
END_TEST

START_TEST(a_lost_server_keeps_its_last_picture) {
    struct top_look look = {0};
    make_busy(&view);
    top_view_lost(&view, "127.0.0.1:8000: Connection refused", BEGIN_NS + 5 * NS_PER_S);
    top_view_lost(&view, "127.0.0.1:8000: Connection refused", BEGIN_NS + 77 * NS_PER_S);
    check_golden("lost", &view, &look, 80, 24, false);
    char a[1024];
    worker(a, "prefill0", "prefill", "ready", 30, "");
    ck_assert_int_eq(
        tell(&view, (struct told){.uptime_s = 2, .workers = a}, BEGIN_NS + 80 * NS_PER_S),
        STATUS_OK);
    ck_assert_str_eq(view.trouble, "");
    check_golden("back", &view, &look, 80, 24, false);
}
END_TEST

START_TEST(names_of_any_kind_stay_in_their_columns) {
    struct top_look look = {.sort = TOP_BY_NAME};
    char a[1024], b[1024], c[1024], d[1024], all[4200];
    top_view_init(&view, "http://höst.example:8000");
    snprintf(all, sizeof all, "%s,%s,%s,%s", worker(a, "解码器一号", "decode", "ready", 10, ""),
             worker(b, "e\xcc\x81t\xc3\xa9", "decode", "loading", 0, ",\"percent\":42"),
             worker(c, "a-name-that-has-sixty-three-bytes-as-the-longest-that-there-may-be",
                    "prefill", "refused", 0, ",\"reason\":\"other_model\""),
             worker(d, "tab\\tbell\\u0007", "mixed", "waiting", 0, ",\"reason\":\"name_taken\""));
    ck_assert_int_eq(tell(&view, (struct told){.workers = all}, BEGIN_NS), STATUS_OK);
    check_golden("names_80x16", &view, &look, 80, 16, false);
    check_golden("names_34x16", &view, &look, 34, 16, false);
    check_golden("names_120x16_ascii", &view, &look, 120, 16, true);
}
END_TEST

/* Every size, the smallest too: nothing is written outside (AddressSanitizer would see it). */
START_TEST(no_size_is_too_small) {
    make_busy(&view);
    for (unsigned width = 0; width < 90; width++)
        for (unsigned height = 0; height < 40; height += 1 + height / 8) {
            struct top_look look = {.has_keys = true, .has_help = (width + height) % 5 == 0};
            struct top_screen screen;
            ck_assert_int_eq(top_screen_init(&screen, width, height, false), STATUS_OK);
            unsigned n_shown = top_layout(&view, &look, &screen);
            ck_assert_uint_le(n_shown, height);
            for (unsigned y = 0; y < height; y++) {
                struct buf line;
                buf_init(&line, 0);
                top_line(&screen, y, &line);
                ck_assert_uint_le(line.n > 0 ? top_width(&screen, line.data) : 0, width);
                buf_fini(&line);
            }
            top_screen_fini(&screen);
        }
}
END_TEST

START_TEST(rates_are_between_two_answers) {
    make_busy(&view);
    ck_assert_double_eq_tol(view.requests_per_s, 13, 1e-9); /* 25 done, 1 failed in 2 s */
    ck_assert_double_eq_tol(view.tokens_per_s, 7000, 1e-9);
    ck_assert_double_eq_tol(view.workers[0].prompt_per_s, 5000, 1e-9);
    ck_assert_uint_eq(view.n_history, 2);
}
END_TEST

START_TEST(a_gone_worker_is_seen_for_a_minute_unless_it_came_back) {
    char a[1024], b[1024], both[2100];
    make_busy(&view);
    ck_assert_uint_eq(view.n_workers, 4);
    ck_assert_str_eq(view.workers[3].name, "decode0");
    ck_assert_str_eq(view.workers[3].state, "gone");
    worker(a, "prefill0", "prefill", "ready", 30, "");
    ck_assert_int_eq(tell(&view, (struct told){.uptime_s = 3605, .workers = a},
                          BEGIN_NS + 4 * NS_PER_S + TOP_GONE_NS),
                     STATUS_OK);
    ck_assert_uint_eq(view.n_workers, 4); /* prefill1 and decode1 now, too */
    snprintf(both, sizeof both, "%s,%s", a, worker(b, "decode1", "decode", "ready", 1, ""));
    ck_assert_int_eq(tell(&view, (struct told){.uptime_s = 3606, .workers = both},
                          BEGIN_NS + 5 * NS_PER_S + TOP_GONE_NS),
                     STATUS_OK);
    ck_assert_uint_eq(view.n_workers, 3); /* decode0 was long enough, decode1 is back */
}
END_TEST

START_TEST(percentiles_are_of_the_last_minute) {
    make_busy(&view);
    /* 250 at most 10 ms, 250 at most 100 ms since the first answer. */
    ck_assert_double_eq_tol(top_latency_s(&view.ttft, 0.25), 0.005, 1e-9);
    ck_assert_double_eq_tol(top_latency_s(&view.ttft, 0.5), 0.01, 1e-9);
    ck_assert_double_eq_tol(top_latency_s(&view.ttft, 0.99), 0.0982, 1e-9);
    tell_metrics(&view, 150, BEGIN_NS + 61 * NS_PER_S); /* the first answer is too old */
    ck_assert_double_lt(top_latency_s(&view.ttft, 0.5), 0);
    tell_metrics(&view, 1, BEGIN_NS + 62 * NS_PER_S); /* a router that was started again */
    ck_assert_double_eq_tol(top_latency_s(&view.ttft, 0.5), 0.01, 1e-9);
}
END_TEST

START_TEST(past_the_last_bound_is_that_bound) {
    static const char text[] = "vllm:time_to_first_token_seconds_bucket{le=\"2560\"} 0\n"
                               "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 4\n";
    top_view_init(&view, "");
    ck_assert_double_lt(top_latency_s(&view.ttft, 0.5), 0);
    top_view_metrics(&view, text, sizeof text - 1, BEGIN_NS);
    ck_assert_double_eq_tol(top_latency_s(&view.ttft, 0.5), 2560, 1e-9);
}
END_TEST

START_TEST(what_is_no_status_changes_nothing) {
    static const char *const bodies[] = {"", "{", "[]", "{\"routers\":[]}",
                                         "{\"routers\":1,\"workers\":[]}"};
    struct error error;
    make_busy(&view);
    for (unsigned i = 0; i < sizeof bodies / sizeof *bodies; i++)
        ck_assert_int_eq(
            top_view_status(&view, bodies[i], strlen(bodies[i]), BEGIN_NS + 9 * NS_PER_S, &error),
            STATUS_INVALID);
    ck_assert_uint_eq(view.answered_ns, BEGIN_NS + 4 * NS_PER_S);
    ck_assert_uint_eq(view.n_workers, 4);
    /* Members of other kinds are 0 or "". */
    ck_assert_int_eq(tell(&view, (struct told){.workers = "1,{\"name\":5,\"blocks\":[]}"},
                          BEGIN_NS + 9 * NS_PER_S),
                     STATUS_OK);
}
END_TEST

START_TEST(events_keep_the_newest) {
    char a[1024];
    top_view_init(&view, "");
    ck_assert_int_eq(tell(&view, (struct told){.workers = ""}, BEGIN_NS), STATUS_OK);
    for (unsigned i = 0; i < 100; i++) {
        worker(a, "w", "mixed", i % 2 ? "ready" : "suspect", 1, "");
        ck_assert_int_eq(tell(&view, (struct told){.workers = a}, BEGIN_NS + i), STATUS_OK);
    }
    ck_assert_uint_eq(view.n_events, TOP_EVENTS_MAX);
    ck_assert_str_eq(view.events[0].text, "worker w is ready");
    ck_assert(!view.events[0].is_bad);
    ck_assert_str_eq(view.events[1].text, "worker w is suspect");
    ck_assert(view.events[1].is_bad);
    ck_assert_uint_eq(view.n_history, 100);
}
END_TEST

void suite_add(TCase *tests) {
    if (!setlocale(LC_CTYPE, "C.UTF-8")) /* glibc has it built in */
        abort();
    tcase_add_test(tests, busy_cluster_in_common_sizes);
    tcase_add_test(tests, without_workers_it_says_where_to_look);
    tcase_add_test(tests, forty_workers_scroll_and_sort);
    tcase_add_test(tests, a_lost_server_keeps_its_last_picture);
    tcase_add_test(tests, names_of_any_kind_stay_in_their_columns);
    tcase_add_test(tests, no_size_is_too_small);
    tcase_add_test(tests, rates_are_between_two_answers);
    tcase_add_test(tests, a_gone_worker_is_seen_for_a_minute_unless_it_came_back);
    tcase_add_test(tests, percentiles_are_of_the_last_minute);
    tcase_add_test(tests, past_the_last_bound_is_that_bound);
    tcase_add_test(tests, what_is_no_status_changes_nothing);
    tcase_add_test(tests, events_keep_the_newest);
}
