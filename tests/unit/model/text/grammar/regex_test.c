/* Regular expressions: what each part of the language takes, and what is refused and where. */
#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model grammar regex";
const double suite_timeout_s = 60;

static const struct {
    const char *expression;
    const char *takes[6]; /* ends with NULL */
    const char *refuses[8];
} rows[] = {
    {"", {""}, {"a"}},
    {"a|bc|", {"", "a", "bc"}, {"b", "abc"}},
    {"(a|b)*?c+", {"c", "abacc"}, {"", "ab"}},
    {"(?:x(?<n>y)(?P<m>z))?", {"", "xyz"}, {"xy"}},
    {"a{2}", {"aa"}, {"a", "aaa"}},
    {"a{2,}", {"aa", "aaaaa"}, {"a"}},
    {"a{0,2}", {"", "aa"}, {"aaa"}},
    {"(ab){1,2}", {"ab", "abab"}, {"", "ababab"}},
    {"a{,b}", {"a{,b}"}, {"a", ""}},
    {"a{2", {"a{2"}, {"aa"}},
    {"[a-c-]", {"a", "c", "-"}, {"d", ""}},
    {"[^a-c\\n]", {"d", "\xc3\xa9", "\r"}, {"a", "\n", "\xc3"}},
    {"[\\]\\\\^]", {"]", "\\", "^"}, {"a"}},
    {"[\\b]", {"\b"}, {"b"}},
    {"\\d", {"0", "9"}, {"a", "\xd9\xa1"}},
    {"\\D", {"a", "\xc3\xa9"}, {"0", "\xd9\xa1"}},
    {"[^\\d]", {"a", "\xc3\xa9"}, {"0", "\xd9\xa1"}},
    {"[^\\D]", {"0", "9"}, {"a", "\xd9\xa1"}},
    {"\\w", {"a", "Z", "0", "_"}, {"-", "\xc3\xa9"}},
    {"\\W", {"-", " "}, {"a", "\xc3\xa9"}},
    {"[^\\w]", {"-", " "}, {"a", "_", "\xc3\xa9"}},
    {"[^\\W]", {"a"}, {"-", "\xc3\xa9"}},
    {"\\s", {" ", "\t", "\r", "\v"}, {"a", "\xc2\xa0", "\x1c"}},
    {"\\S", {"a", "\xc3\xa9"}, {" ", "\xc2\xa0", "\x1c", "\xef\xbb\xbf"}},
    {"[^\\s]", {"a", "\xc3\xa9"}, {" ", "\xc2\xa0", "\x1c", "\xef\xbb\xbf"}},
    {".", {"a", "\r", "\xf0\x9f\x98\x80"}, {"\n", "ab"}},
    {"(?s).", {"\n"}, {""}},
    {"a(?s:.)b.", {"a\nbc"}, {"a\nb\n"}},
    {"(?i)straSse",
     {"STRASSE", "strasse"},
     {"stra\xc3\x9f"
      "e"}},
    {"(?i)[^s]", {"t"}, {"s", "S", "\xc5\xbf"}},
    {"(?i)[^k]", {"s"}, {"k", "K", "\xe2\x84\xaa"}},
    {"(?i:a)b", {"Ab", "ab"}, {"AB"}},
    {"\\x41\\u0042\\u{1f600}\\ud83d\\ude00", {"AB\xf0\x9f\x98\x80\xf0\x9f\x98\x80"}, {"AB"}},
    {"\\t\\n\\/\\.", {"\t\n/."}, {"\t\n/a"}},
    {"\\p{Lu}\\P{L}", {"A1", "\xc3\x89-"}, {"a1", "AA"}},
    {"^a$", {"a"}, {"xa", "ax"}},
    {"(^a|b)c", {"ac", "bc"}, {"aac"}},
    {"x*^b", {"b"}, {"xb"}},
    {"a$b", {NULL}, {"ab"}},
    {"(|a)$", {"", "a"}, {"aa"}},
};

START_TEST(each_expression_takes_its_texts_and_no_others) {
    struct error error = {0};
    struct grammar *grammar;
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = span_of(rows[_i].expression)};
    enum status status = grammar_compile(&part, NULL, &grammar_limits, &grammar, &error);
    if (!rows[_i].takes[0]) {
        ck_assert_str_eq(
            error.text,
            "no text matches: every alternative refers to itself or contradicts itself");
        return;
    }
    ck_assert_msg(status == STATUS_OK, "%s: %s", rows[_i].expression, error.text);
    for (unsigned i = 0; rows[_i].takes[i]; i++)
        ck_assert_msg(grammar_check_takes(grammar, span_of(rows[_i].takes[i])), "%s refuses %s",
                      rows[_i].expression, rows[_i].takes[i]);
    for (unsigned i = 0; rows[_i].refuses[i]; i++)
        ck_assert_msg(!grammar_check_takes(grammar, span_of(rows[_i].refuses[i])), "%s takes %s",
                      rows[_i].expression, rows[_i].refuses[i]);
    grammar_unref(grammar);
}
END_TEST

static const struct {
    const char *expression;
    enum status status;
    const char *text; /* behind "regular expression, " */
} mistakes[] = {
    {"a(", STATUS_INVALID, "column 3: expected ')'"},
    {"a)", STATUS_INVALID, "column 2: a ')' too many"},
    {"*", STATUS_INVALID, "column 1: nothing to repeat"},
    {"a**", STATUS_INVALID, "column 4: a repeat of a repeat"},
    {"a{3,2}", STATUS_INVALID, "column 7: a repeat whose most is below its least"},
    {"a{,2}", STATUS_UNSUPPORTED, "column 6: {,n} is a repeat in Python and text in ECMA-262"},
    {"a{100001}", STATUS_LIMIT, "column 10: repeats of more than 100000"},
    {"a{1,99999999999999999999}", STATUS_LIMIT, "column 26: repeats of more than 100000"},
    {"a*+", STATUS_UNSUPPORTED, "column 4: possessive repeats"},
    {"^*", STATUS_INVALID, "column 3: a repeat of an anchor"},
    {"[a", STATUS_INVALID, "column 3: expected ']'"},
    {"[]a]", STATUS_UNSUPPORTED, "column 2: an empty set, or ']' that is first in one"},
    {"[^]a]", STATUS_UNSUPPORTED, "column 3: an empty set, or ']' that is first in one"},
    {"[b-a]", STATUS_INVALID, "column 5: a range whose end is below its start"},
    {"[a-\\d]", STATUS_INVALID, "column 6: a range whose end is below its start"},
    {"[[:alpha:]]", STATUS_UNSUPPORTED, "column 2: POSIX classes"},
    {"\\", STATUS_INVALID, "column 2: a backslash at the end"},
    {"\\bx", STATUS_UNSUPPORTED, "column 2: word boundaries, \\A and \\Z"},
    {"(a)\\1", STATUS_UNSUPPORTED, "column 5: this escape is not known"},
    {"\\012", STATUS_UNSUPPORTED, "column 3: octal escapes"},
    {"\\x4", STATUS_INVALID, "column 4: not a hexadecimal code point"},
    {"\\u{110000}", STATUS_INVALID, "column 10: not a hexadecimal code point"},
    {"\\ud800x", STATUS_INVALID, "column 7: half a surrogate pair"},
    {"\\p{Greek}", STATUS_UNSUPPORTED,
     "column 10: only general categories (\\p{L}, \\p{Nd}) are known"},
    {"\\pL", STATUS_INVALID, "column 3: expected {category} after \\p"},
    {"(?=a)", STATUS_UNSUPPORTED, "column 3: look-around, conditions and flags in groups"},
    {"(?<!a)", STATUS_UNSUPPORTED, "column 3: look-around, conditions and flags in groups"},
    {"a(?i)", STATUS_UNSUPPORTED, "column 4: look-around, conditions and flags in groups"},
    {"(?i)[^\xc3\xa9]", STATUS_UNSUPPORTED,
     "column 10: the complement of characters beyond ASCII under (?i)"},
    {"\xff", STATUS_INVALID, "column 1: not valid UTF-8"},
};

START_TEST(mistakes_are_told_with_their_column) {
    struct error error;
    char wanted[128];
    enum status status = grammar_check_refused(GRAMMAR_REGEX, mistakes[_i].expression, &error);
    snprintf(wanted, sizeof wanted, "regular expression, %s", mistakes[_i].text);
    ck_assert_str_eq(error.text, wanted);
    ck_assert_int_eq(status, mistakes[_i].status);
}
END_TEST

START_TEST(a_byte_0_is_a_character) {
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = {"a\0\\\0[\0]", 7}};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    ck_assert(grammar_check_takes(grammar, (struct span){"a\0\0\0", 4}));
    ck_assert(!grammar_check_takes(grammar, (struct span){"a\0b\0", 4}));
    grammar_unref(grammar);
}
END_TEST

START_TEST(repeats_are_bounded_at_100000) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, "a{100000}", NULL);
    static char text[100002];
    memset(text, 'a', sizeof text);
    ck_assert(grammar_check_takes(grammar, (struct span){text, 100000}));
    ck_assert(!grammar_check_takes(grammar, (struct span){text, 99999}));
    ck_assert(!grammar_check_begins(grammar, (struct span){text, 100001}));
    grammar_unref(grammar);
}
END_TEST

START_TEST(brackets_are_bounded) {
    struct grammar_limits limits = grammar_limits;
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = SPAN("((a))")};
    struct grammar *grammar;
    struct error error = {0};
    limits.depth = 2;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    grammar_unref(grammar);
    limits.depth = 1;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "regular expression, column 3: brackets nest too deep");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, each_expression_takes_its_texts_and_no_others, 0,
                        sizeof rows / sizeof *rows);
    tcase_add_loop_test(tests, mistakes_are_told_with_their_column, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(tests, a_byte_0_is_a_character);
    tcase_add_test(tests, repeats_are_bounded_at_100000);
    tcase_add_test(tests, brackets_are_bounded);
}
