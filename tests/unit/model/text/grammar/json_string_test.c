/* Texts of any grammar as the value of a JSON string. */
#include "model/text/grammar/grammar.h"

#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "model_grammar_json_string";
const double suite_timeout_s = 120;

static struct grammar *compile(const struct grammar_part *inner,
                               struct grammar_vocabulary *vocabulary) {
    const struct grammar_part part = {.kind = GRAMMAR_JSON_STRING, .parts = inner, .n = 1};
    return grammar_check_compile(&part, vocabulary);
}

static const struct span choices[] = {SPAN("a\"b"), SPAN("a\\"), SPAN("\n\n")};
static const struct grammar_part bits[] = {
    {.kind = GRAMMAR_TEXT, .text = {"\"\\/\b\f\n\r\t\x1f\x7f\0\xc3\xa9", 13}},
    {.kind = GRAMMAR_REGEX, .text = {"\n+", 2}}};

/* A grammar of each kind, with what JSON escapes in it. */
static const struct grammar_part inners[] = {
    {.kind = GRAMMAR_TEXT, .text = {"say \"hi\"\n\\\t", 11}},
    {.kind = GRAMMAR_REGEX, .text = {"[^a]{1,20}", 10}},
    {.kind = GRAMMAR_REGEX, .text = {"\"(\\\\.|[^\"\\\\]){17,30}\"", 21}},
    {.kind = GRAMMAR_REGEX, .text = {"^.*\\s[\\x00-\"]$", 14}},
    {.kind = GRAMMAR_CHOICE, .choices = choices, .n = 3},
    {.kind = GRAMMAR_LARK,
     .text = {"start: (\"+\" /[^\\n]*/ LF | \"\\\"\" \"A\"i \"\\\\\")+\n%import common.LF\n", 61}},
    {.kind = GRAMMAR_GBNF, .text = {"root ::= \"\\\"\" [\\\\\\n]* \"\\\"\"", 26}},
    {.kind = GRAMMAR_EBNF, .text = {"root ::= '\"' [#x9#xA\"]* 'x'", 27}},
    {.kind = GRAMMAR_UNTIL, .text = {"\n\"", 2}},
    {.kind = GRAMMAR_UNTIL},
    {.kind = GRAMMAR_SEQUENCE, .parts = bits, .n = 2},
    {.kind = GRAMMAR_EITHER, .parts = bits, .n = 2},
    {.kind = GRAMMAR_REPEAT, .parts = bits, .n = 1, .max = 3},
};

START_TEST(a_value_is_spelled_with_the_shortest_escapes) {
    struct grammar *grammar = compile(&bits[0], NULL);
    ck_assert(grammar_check_takes(grammar,
                                  SPAN("\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\\u0000\xc3\xa9\"")));
    grammar_unref(grammar);
    const struct grammar_part any = {.kind = GRAMMAR_UNTIL};
    grammar = compile(&any, NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("\"\"")));
    ck_assert(grammar_check_takes(grammar, SPAN("\"\xf0\x9f\x98\x80\"")));
    static const struct span others[] = {SPAN("\"\n\""),      SPAN("\"\"\""),      SPAN("\"\\/\""),
                                         SPAN("\"\\u000a\""), SPAN("\"\\u0041\""), SPAN("\"\\\""),
                                         SPAN("a"),           SPAN("\"\xff\"")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!grammar_check_takes(grammar, others[i]), "%s", others[i].bytes);
    grammar_unref(grammar);
}
END_TEST

/* Walks at random: each mask is checked, and what ends is a JSON string whose value the grammar inside takes. */
START_TEST(what_is_masked_has_a_value_of_the_grammar) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *inner = grammar_check_compile(&inners[_i], NULL);
    struct grammar *grammar = compile(&inners[_i], vocabulary);
    unsigned n_whole = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        char out[4096];
        bool is_whole;
        grammar_check_walk(grammar, vocabulary, seed, 50, out, sizeof out, &is_whole);
        if (!is_whole)
            continue;
        n_whole++;
        json_t *value = json_loads(out, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        ck_assert_msg(json_is_string(value), "%s", out);
        const struct span text = {json_string_value(value), json_string_length(value)};
        ck_assert_msg(grammar_check_takes(inner, text), "%s", out);
        json_decref(value);
    }
    ck_assert_uint_gt(n_whole, 0);
    grammar_unref(grammar);
    grammar_unref(inner);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(what_has_no_place_in_a_string_is_refused) {
    static const struct grammar_part text = {.kind = GRAMMAR_TEXT, .text = {"a", 1}};
    static const struct grammar_part bad[] = {
        {.kind = GRAMMAR_TOKEN, .text = {"<think>", 7}},
        {.kind = GRAMMAR_JSON_SCHEMA, .text = {"{}", 2}},
        {.kind = GRAMMAR_JSON_OBJECT},
        {.kind = GRAMMAR_JSON_STRING, .parts = &text, .n = 1},
        {.kind = GRAMMAR_LARK, .text = {"start: <think>\n", 15}},
        {.kind = GRAMMAR_GBNF, .text = {"root ::= <[3]>", 14}},
    };
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *grammar;
    struct error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct grammar_part part = {.kind = GRAMMAR_JSON_STRING, .parts = &bad[i], .n = 1};
        ck_assert_int_eq(grammar_compile(&part, vocabulary, &grammar_limits, &grammar, &error),
                         STATUS_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.text, "JSON string"));
    }
    const struct grammar_part two[] = {text, text};
    for (size_t n = 0; n <= 2; n += 2) {
        const struct grammar_part part = {.kind = GRAMMAR_JSON_STRING, .parts = two, .n = n};
        ck_assert_int_eq(grammar_compile(&part, vocabulary, &grammar_limits, &grammar, &error),
                         STATUS_INVALID);
    }
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* Behind a string all is written as it is again. */
START_TEST(a_string_ends_where_it_ends) {
    static const struct grammar_part quote = {.kind = GRAMMAR_TEXT, .text = {"\"", 1}};
    static const struct grammar_part parts[] = {
        {.kind = GRAMMAR_JSON_STRING, .parts = &quote, .n = 1},
        {.kind = GRAMMAR_TEXT, .text = {"\n\"", 2}},
        {.kind = GRAMMAR_JSON_OBJECT}};
    const struct grammar_part part = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 3};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("\"\\\"\"\n\"{\"a\": 1}")));
    grammar_unref(grammar);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_value_is_spelled_with_the_shortest_escapes);
    tcase_add_loop_test(tests, what_is_masked_has_a_value_of_the_grammar, 0,
                        sizeof inners / sizeof *inners);
    tcase_add_test(tests, what_has_no_place_in_a_string_is_refused);
    tcase_add_test(tests, a_string_ends_where_it_ends);
}
