/* W3C Trace Context: which headers are one, and which traces are recorded. */
#include "router/trace/traceparent.h"
#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "router_traceparent";
const double suite_timeout_s = 60;

#define IDS "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"

START_TEST(what_is_none_is_left_alone) {
    static const char *const none[] = {
        NULL,
        "",
        "00-" IDS "-0",    /* a byte less */
        "00-" IDS "-011",  /* and more */
        "00-" IDS "-01-x", /* that version 0 has not */
        "01-" IDS "-01x",  /* nor any */
        "ff-" IDS "-01",   /* no version */
        "0-" IDS "-01-",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", /* a capital letter */
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00_" IDS "-01",
        "00-" IDS "_01",
    };
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
        struct trace trace = {.flags = 77};
        ck_assert_msg(!traceparent_read(none[i], &trace), "%s", none[i]);
        ck_assert_uint_eq(trace.flags, 77);
    }
}
END_TEST

START_TEST(what_is_one_is_read) {
    static const char *const good[] = {"00-" IDS "-00", "00-" IDS "-01", "00-" IDS "-ff"};
    static const unsigned flags[] = {0, 1, 255};
    struct trace trace;
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(traceparent_read(good[i], &trace));
        ck_assert_uint_eq(trace.flags, flags[i]);
        ck_assert_uint_eq(trace.trace_id[0], 0x0a);
        ck_assert_uint_eq(trace.trace_id[15], 0x9c);
        ck_assert_uint_eq(trace.span_id[0], 0xb7);
        ck_assert_uint_eq(trace.span_id[7], 0x31);
    }
    /* Of later versions what is known. */
    ck_assert(traceparent_read("01-" IDS "-03", &trace));
    ck_assert(traceparent_read("fe-" IDS "-03-more", &trace));
    ck_assert_uint_eq(trace.flags, 3);
}
END_TEST

START_TEST(ids_that_are_drawn_differ_and_are_ids) {
    static const struct trace zero;
    struct random random = {.state = 7};
    struct trace one = {.flags = 9}, two;
    traceparent_draw(&random, &one);
    traceparent_draw(&random, &two);
    ck_assert_uint_eq(one.flags, 0);
    for (unsigned i = 0; i < 16; i += 8) {
        ck_assert(memcmp(one.trace_id + i, zero.trace_id, 8) != 0);
        ck_assert(memcmp(one.trace_id + i, two.trace_id + i, 8) != 0);
        ck_assert(memcmp(one.trace_id + i, one.span_id, 8) != 0);
    }
    ck_assert(memcmp(one.trace_id, one.trace_id + 8, 8) != 0);
    ck_assert(memcmp(one.span_id, zero.span_id, 8) != 0);
    ck_assert(memcmp(one.span_id, two.span_id, 8) != 0);
}
END_TEST

static bool within(uint64_t number, double ratio) {
    struct trace trace = {.trace_id = {255, 255, 255, 255, 255, 255, 255, 255}};
    for (unsigned i = 0; i < 8; i++)
        trace.trace_id[8 + i] = (uint8_t)(number >> (56 - 8 * i));
    return traceparent_is_within(&trace, ratio);
}

/* The bound by OpenTelemetry's definition: 2^63 times the ratio, for the last 8 bytes without their lowest bit. */
START_TEST(a_share_is_of_the_ids_last_bytes) {
    ck_assert(!within(0, 0));
    ck_assert(within(UINT64_MAX, 1));
    ck_assert(within(0x3fffffffffffffff, 0.25));
    ck_assert(!within(0x4000000000000000, 0.25));
    ck_assert(within(0x7fffffffffffffff, 0.5));
    ck_assert(!within(0x8000000000000000, 0.5));
    ck_assert(within(1, 0.0000001) && !within(UINT64_MAX, 0.9999999));
}
END_TEST

START_TEST(a_state_is_kept_up_to_its_bound) {
    char state[TRACE_STATE_BYTES + 2];
    memset(state, 'a', sizeof state);
    state[TRACE_STATE_BYTES + 1] = 0;
    ck_assert(!traceparent_keeps_state(state));
    state[TRACE_STATE_BYTES] = 0;
    ck_assert(traceparent_keeps_state(state));
    ck_assert(traceparent_keeps_state("a=b,c= ~"));
    ck_assert(!traceparent_keeps_state(""));
    ck_assert(!traceparent_keeps_state("a=\x1f"));
    ck_assert(!traceparent_keeps_state("a=\x7f"));
    ck_assert(!traceparent_keeps_state("a=\xc3\xa9"));
}
END_TEST

START_TEST(a_share_is_a_number_of_0_to_1) {
    static const char *const bad[] = {"",      "x",   "-0",   "1.0001", "2",  "0.5x", ".",
                                      "0.5.5", "nan", "1e-3", "0x1",    " 1", "+1"};
    double ratio = 7;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!traceparent_read_ratio(bad[i], &ratio) && ratio == 7, "%s", bad[i]);
    ck_assert(traceparent_read_ratio("0", &ratio) && ratio == 0);
    ck_assert(traceparent_read_ratio("1", &ratio) && ratio == 1);
    ck_assert(traceparent_read_ratio(".25", &ratio) && ratio == 0.25);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, what_is_none_is_left_alone);
    tcase_add_test(tests, what_is_one_is_read);
    tcase_add_test(tests, ids_that_are_drawn_differ_and_are_ids);
    tcase_add_test(tests, a_share_is_of_the_ids_last_bytes);
    tcase_add_test(tests, a_state_is_kept_up_to_its_bound);
    tcase_add_test(tests, a_share_is_a_number_of_0_to_1);
}
