/* A form that many requests ask for is compiled once; what is refused, each time. */
#include "model/text/grammar/grammar.h"
#include "router/api/ask.h"
#include "router/call/formats.h"
#include "tests/support/suite.h"

const char *const suite_name = "router_formats";
const double suite_timeout_s = 60;

/* What a dialect makes of a regular expression; the bytes stand for the packed ones. */
static struct ask ask_for(const struct grammar_part *part) {
    return (struct ask){.format = part,
                        .format_field = "regex",
                        .sampling = {.grammar = (const void *)part->text.bytes,
                                     .n_grammar = (uint32_t)part->text.n}};
}

START_TEST(a_good_form_is_compiled_once) {
    const struct grammar_part one = {.kind = GRAMMAR_REGEX, .text = SPAN("a+")};
    const struct grammar_part other = {.kind = GRAMMAR_REGEX, .text = SPAN("a*")};
    struct ask first = ask_for(&one), second = ask_for(&other);
    struct formats *formats;
    struct error error = {0};
    ck_assert_int_eq(formats_new(&formats), STATUS_OK);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(formats_check(formats, &first, &error), STATUS_OK);
    ck_assert_int_eq(formats_check(formats, &second, &error), STATUS_OK);
    struct formats_counts counts = formats_counts(formats);
    ck_assert_uint_eq(counts.n_compiled, 2);
    ck_assert_uint_eq(counts.n_known, 2);
    ck_assert_uint_eq(counts.n_refused, 0);
    ck_assert_uint_gt(counts.ns, 0);
    formats_free(formats);
}
END_TEST

START_TEST(a_bad_form_is_refused_each_time) {
    const struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = SPAN("(a")};
    struct ask ask = ask_for(&part);
    struct formats *formats;
    ck_assert_int_eq(formats_new(&formats), STATUS_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct error error = {0};
        ck_assert_int_ne(formats_check(formats, &ask, &error), STATUS_OK);
        ck_assert_str_eq(error.field, "regex");
    }
    struct formats_counts counts = formats_counts(formats);
    ck_assert_uint_eq(counts.n_refused, 2);
    ck_assert_uint_eq(counts.n_known + counts.n_compiled, 0);
    formats_free(formats);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_good_form_is_compiled_once);
    tcase_add_test(tests, a_bad_form_is_refused_each_time);
}
