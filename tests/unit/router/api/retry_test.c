/* When refused clients are asked to come again. */
#include "router/api/retry.h"

#include "base/clock.h"
#include "tests/support/suite.h"

const char *const suite_name = "router retry";
const double suite_timeout_s = 60;

static struct retry retry;
static const uint64_t start_ns = 3600 * NS_PER_S;

static void ended(uint64_t from_ms, uint32_t n, uint64_t every_ms) {
    for (uint32_t i = 0; i < n; i++)
        retry_ended(&retry, start_ns + (from_ms + i * every_ms) * NS_PER_MS);
}

/* All answers lie between once and twice the estimate, and not all at one place. */
static void expect_busy(uint64_t at_ms, uint32_t n_queued, uint32_t low, uint32_t high) {
    uint32_t least = UINT32_MAX, most = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t ms = retry_busy_ms(&retry, start_ns + at_ms * NS_PER_MS, n_queued);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    ck_assert_msg(least >= low && least <= low + low / 10, "least %u, expected %u", least, low);
    ck_assert_msg(most <= high && most >= high - high / 10, "most %u, expected %u", most, high);
}

START_TEST(a_full_queue_is_tried_again_when_it_will_have_drained) {
    retry_init(&retry, 1, start_ns);
    ended(0, 80, 100);                 /* ten a second, eight seconds long */
    expect_busy(7999, 20, 2000, 4000); /* twenty wait: two seconds */
    expect_busy(7999, 100, 10000, 20000);
    expect_busy(7999, 0, RETRY_MS_MIN, 2 * RETRY_MS_MIN);
    expect_busy(7999, 1000000, RETRY_MS_MAX, 2 * RETRY_MS_MAX);
}
END_TEST

START_TEST(only_the_last_seconds_count) {
    retry_init(&retry, 1, start_ns);
    ended(0, 8000, 1);
    ended(8000, 80, 100);
    expect_busy(15999, 20, 2000, 4000);
    expect_busy(40000, 20, 8000, 16000); /* nothing ended in the window */
    ended(40000, 1, 1);
    expect_busy(40001, 2, 16000, 32000);
}
END_TEST

START_TEST(a_young_router_counts_from_its_start) {
    retry_init(&retry, 1, start_ns);
    ended(0, 10, 100);
    expect_busy(999, 20, 2000, 4000);
}
END_TEST

START_TEST(without_a_worker_one_waits_as_long_as_there_has_been_none) {
    retry_init(&retry, 1, start_ns);
    uint32_t ms = retry_closed_ms(&retry, start_ns);
    ck_assert(ms >= RETRY_MS_MIN && ms <= 2 * RETRY_MS_MIN);
    ms = retry_closed_ms(&retry, start_ns + 4 * NS_PER_S);
    ck_assert(ms >= 4000 && ms <= 8000);
    ms = retry_closed_ms(&retry, start_ns + 400 * NS_PER_S);
    ck_assert(ms >= RETRY_MS_MAX && ms <= 2 * RETRY_MS_MAX);
    retry_open(&retry);
    ms = retry_closed_ms(&retry, start_ns + 500 * NS_PER_S);
    ck_assert(ms >= RETRY_MS_MIN && ms <= 2 * RETRY_MS_MIN);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_full_queue_is_tried_again_when_it_will_have_drained);
    tcase_add_test(tests, only_the_last_seconds_count);
    tcase_add_test(tests, a_young_router_counts_from_its_start);
    tcase_add_test(tests, without_a_worker_one_waits_as_long_as_there_has_been_none);
}
