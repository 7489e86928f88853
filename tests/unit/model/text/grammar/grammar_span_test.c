/* Regions: which bytes of a text are of which part, told as soon as it is decided. */
#include "model/text/grammar/grammar.h"

#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model grammar regions";
const double suite_timeout_s = 60;

static struct grammar_part text_part(const char *text) {
    return (struct grammar_part){.kind = GRAMMAR_TEXT, .text = span_of(text)};
}

/* The regions of a text, as "name=text" joined by '|', followed in pieces of n bytes. */
static void tell_regions(struct grammar *grammar, struct span text, size_t n, char *out,
                         size_t size) {
    struct grammar_state *state;
    struct grammar_span span;
    size_t at = 0;
    size_t used = 0;
    const char *last = "?";
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    ck_assert_int_eq(grammar_watch(state), STATUS_OK);
    out[0] = 0;
    while (at <= text.n) {
        size_t n_followed;
        struct span piece = {text.bytes + at, text.n - at < n ? text.n - at : n};
        if (piece.n > 0)
            ck_assert_int_eq(grammar_follow(state, piece, &n_followed), STATUS_OK);
        at += n;
        while (grammar_next_span(state, at >= text.n, &span)) {
            const char *region = span.region ? span.region : "";
            if (strcmp(region, last) != 0)
                used += (size_t)snprintf(out + used, size - used, "|%s=", region);
            last = region;
            used += (size_t)snprintf(out + used, size - used, "%.*s", (int)(span.end - span.begin),
                                     text.bytes + span.begin);
        }
    }
    grammar_state_free(state);
}

START_TEST(regions_are_told_as_soon_as_they_are_decided) {
    struct grammar_part parts[] = {
        {.kind = GRAMMAR_UNTIL, .text = SPAN("<call>"), .region = SPAN("text")},
        text_part("<call>"),
        {.kind = GRAMMAR_REGEX, .text = SPAN("[a-z]+"), .region = SPAN("name")},
        text_part("("),
        {.kind = GRAMMAR_REGEX, .text = SPAN("[0-9(]*"), .region = SPAN("arguments")},
        text_part(")"),
    };
    struct grammar_part part = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 6};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    char out[256];
    for (size_t n = 1; n < 40; n++) {
        tell_regions(grammar, SPAN("so <ca<call>add(1(2)"), n, out, sizeof out);
        ck_assert_str_eq(out, "|text=so <ca|=<call>|name=add|=(|arguments=1(2|=)");
        tell_regions(grammar, SPAN("<call>f()"), n, out, sizeof out);
        ck_assert_str_eq(out, "|=<call>|name=f|=()");
        tell_regions(grammar, SPAN("wait: <cal"), n, out, sizeof out);
        ck_assert_str_eq(out, "|text=wait: <cal");
    }
    grammar_unref(grammar);
}
END_TEST

START_TEST(undecided_bytes_wait) {
    struct grammar_part parts[] = {
        {.kind = GRAMMAR_UNTIL, .text = SPAN("<call>"), .region = SPAN("text")},
        text_part("<call>")};
    struct grammar_part part = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 2};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    struct grammar_state *state;
    struct grammar_span span;
    size_t n;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    ck_assert_int_eq(grammar_watch(state), STATUS_OK);
    ck_assert_int_eq(grammar_follow(state, SPAN("ab<c"), &n), STATUS_OK);
    ck_assert(grammar_next_span(state, false, &span));
    ck_assert_str_eq(span.region, "text");
    ck_assert_uint_eq(span.end, 2);
    ck_assert(!span.ends);
    ck_assert(!grammar_next_span(state, false, &span));
    ck_assert_int_eq(grammar_follow(state, SPAN("x"), &n), STATUS_OK);
    ck_assert(grammar_next_span(state, false, &span));
    ck_assert_uint_eq(span.begin, 2);
    ck_assert_uint_eq(span.end, 5);
    ck_assert_int_eq(grammar_back(state, 1), STATUS_LIMIT);
    grammar_state_free(state);
    grammar_unref(grammar);
}
END_TEST

START_TEST(a_copy_goes_on_telling_regions) {
    struct grammar_part parts[] = {
        {.kind = GRAMMAR_REGEX, .text = SPAN("[a-z]*"), .region = SPAN("name")},
        text_part("("),
        {.kind = GRAMMAR_REGEX, .text = SPAN("[0-9(]*"), .region = SPAN("arguments")}};
    struct grammar_part part = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 3};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    struct grammar_state *state;
    struct grammar_state *copy;
    struct grammar_span span;
    size_t n;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    ck_assert_int_eq(grammar_watch(state), STATUS_OK);
    ck_assert_int_eq(grammar_follow(state, SPAN("ab"), &n), STATUS_OK);
    ck_assert(grammar_next_span(state, false, &span));
    ck_assert_int_eq(grammar_follow(state, SPAN("(7"), &n), STATUS_OK);
    ck_assert_int_eq(grammar_state_copy(state, &copy), STATUS_OK);
    ck_assert_int_eq(grammar_follow(copy, SPAN("("), &n), STATUS_OK);
    ck_assert(grammar_next_span(copy, false, &span));
    ck_assert_ptr_null(span.region);
    ck_assert_uint_eq(span.end, 3);
    ck_assert(grammar_next_span(copy, false, &span));
    ck_assert_str_eq(span.region, "arguments");
    ck_assert_uint_eq(span.end, 5);
    grammar_state_free(copy);
    grammar_state_free(state);
    grammar_unref(grammar);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, regions_are_told_as_soon_as_they_are_decided);
    tcase_add_test(tests, undecided_bytes_wait);
    tcase_add_test(tests, a_copy_goes_on_telling_regions);
}
