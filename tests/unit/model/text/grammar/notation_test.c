/* GBNF, EBNF and Lark: what each construct takes, and what is refused and where. */
#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model grammar notations";
const double suite_timeout_s = 120;

struct row {
    const char *source;
    const char *takes[8]; /* ends with NULL */
    const char *refuses[8];
};

static const struct row gbnf_rows[] = {
    {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "yesno", "YES"}},
    {"# a list\nroot ::= item (\", \" item)* # all of it\n\nitem ::= [a-z]+ |\n  [0-9]{2,3}\n",
     {"a", "ab, 12, c", "123"},
     {"", "a,b", "1", "1234", "a, "}},
    {"root ::= (\n  \"a\" \"b\"?\n  | \"c\"\n)\n", {"a", "ab", "c"}, {"b", "ac"}},
    {"root ::= \"\\x41\\u00e9\\U0001f600\\n\\\\\\\"\"", {"A\xc3\xa9\xf0\x9f\x98\x80\n\\\""}, {"A"}},
    {"root ::= [^\"\\\\\\x00-\\x1f]*", {"", "a\xc3\xa9]"}, {"\"", "\\", "\n"}},
    {"root ::= [a\\]-]", {"a", "]", "-"}, {"b"}},
    {"root ::= . .", {"ab", "\n\xc3\xa9"}, {"a", "abc"}},
    {"root ::= \"a\"{2} \"b\"{1,} \"c\"{0,1}", {"aab", "aabbbc"}, {"ab", "aa", "aabcc"}},
    {"root ::= [ab]{18,20}",
     {"aabbaabbaabbaabbaa", "aabbaabbaabbaabbaabb"},
     {"aabbaabbaabbaabba", "aabbaabbaabbaabbaabba"}},
    {"root ::= (\"a\" | \"\")*", {"", "aaa"}, {"b"}},
    {"root ::= \"a\"?+", {"", "aa"}, {"b"}},
    {"root ::= \"a\"{0}", {""}, {"a"}},
    {"root ::= \"(\" root \")\" | \"\"", {"", "(())"}, {"(", "())"}},
    {"root ::= root \"+\" term | term\nterm ::= term \"*\" [0-9] | [0-9]",
     {"1", "1+2*3+4"},
     {"", "1+", "*1", "1+*2"}},
    {"root ::= a-b2\na-b2 ::= \"x\"", {"x"}, {""}},
};

static const struct row ebnf_rows[] = {
    {"greeting ::= 'hello' | \"it's\"", {"hello", "it's"}, {"its", ""}},
    {"/* numbers */ a ::= b\n  ('.' b)? b ::= [0-9]+", {"12", "1.5"}, {"1.", ".5"}},
    {"doc ::= root root ::= #x41 #xe9 [#x30-#x32] [^a#x62]",
     {"A\xc3\xa9"
      "1c"},
     {"A\xc3\xa9"
      "3c",
      "A\xc3\xa9"
      "1b"}},
    {"a ::= '\\n'", {"\\n"}, {"\n"}},
};

static const struct row lark_rows[] = {
    {"start: \"a\" b? \"c\"\nb: \"b\" -> bee\n | X\nX: \"x\"..\"z\"\n",
     {"ac", "abc", "axc", "azc"},
     {"", "awc", "abxc"}},
    {"?start: (A | [B])~2..3\nA.2: \"a\"i\nB: /b+/i\n", {"", "aA", "aBbA"}, {"aaaa", "c"}},
    {"start: WORD (\",\" WORD)*\n%import common.WORD\n%import common.WS -> S\n%ignore S\n",
     {"a,b", " a , b\n", "ab"},
     {"a b", "", "a,"}},
    {"%import common (INT, CNAME)\n// of ints\nstart: CNAME \"=\" INT # end",
     {"_a1=12"},
     {"1a=2", "a="}},
    {"start: /(.*)/ LF\n%import common.LF", {"\n", "a b\n"}, {"a", "a\nb\n"}},
    {"start: \"\\n\\t\\\"\\\\\\x41\\u00e9\\d\"", {"\n\t\"\\A\xc3\xa9\\d"}, {"n"}},
    {"start: /a\\/b/s \"//\" /[\\/]/", {"a/b///"}, {"a/b"}},
    {"start: (\n  \"a\"\n  | \"b\"\n)+", {"abba"}, {""}},
    {"start: \"a\"~3", {"aaa"}, {"aa", "aaaa"}},
    {"start: ESCAPED_STRING C_COMMENT SIGNED_FLOAT\n%import common.ESCAPED_STRING\n"
     "%import common.C_COMMENT\n%import common.SIGNED_FLOAT\n",
     {"\"a\\\"b\"/* x **/-1.5e3", "\"\"/**/.5"},
     {"\"a\"b\"/**/1.", "\"\"/**/1", "\"\"/* */ */.5"}},
    {"start: sum\nsum: sum \"+\" NUMBER | NUMBER\n%import common.NUMBER\n%ignore \" \"",
     {"1", "1 + 2.5 +3"},
     {"1 2", "+"}},
};

static void check_row(enum grammar_kind kind, const struct row *row) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *grammar = grammar_check_kind(kind, row->source, vocabulary);
    char out[256];
    bool is_whole;
    for (unsigned i = 0; row->takes[i]; i++)
        ck_assert_msg(grammar_check_takes(grammar, span_of(row->takes[i])), "%s refuses %s",
                      row->source, row->takes[i]);
    for (unsigned i = 0; row->refuses[i]; i++)
        ck_assert_msg(!grammar_check_takes(grammar, span_of(row->refuses[i])), "%s takes %s",
                      row->source, row->refuses[i]);
    grammar_check_walk(grammar, vocabulary, 7, 16, out, sizeof out, &is_whole);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}

START_TEST(gbnf_takes_its_texts_and_no_others) {
    check_row(GRAMMAR_GBNF, &gbnf_rows[_i]);
}
END_TEST

START_TEST(ebnf_takes_its_texts_and_no_others) {
    check_row(GRAMMAR_EBNF, &ebnf_rows[_i]);
}
END_TEST

START_TEST(lark_takes_its_texts_and_no_others) {
    check_row(GRAMMAR_LARK, &lark_rows[_i]);
}
END_TEST

static const struct {
    enum grammar_kind kind;
    const char *source;
    enum status status;
    const char *text;
} mistakes[] = {
    {GRAMMAR_GBNF, "", STATUS_INVALID, "GBNF, line 1, column 1: a grammar has at least one rule"},
    {GRAMMAR_GBNF, "a ::= \"b\"", STATUS_INVALID,
     "GBNF, line 1, column 10: no rule has the name \"root\""},
    {GRAMMAR_GBNF, "root ::= a\n", STATUS_INVALID, "GBNF, line 1, column 10: undefined name \"a\""},
    {GRAMMAR_GBNF, "root ::= \"a\"\nroot ::= \"b\"", STATUS_INVALID,
     "GBNF, line 2, column 5: \"root\" is defined twice"},
    {GRAMMAR_GBNF, "root = \"a\"", STATUS_INVALID, "GBNF, line 1, column 6: expected \"::=\""},
    {GRAMMAR_GBNF, "root ::= \"a", STATUS_INVALID,
     "GBNF, line 1, column 10: a literal without its end"},
    {GRAMMAR_GBNF, "root ::=\n  [a", STATUS_INVALID,
     "GBNF, line 2, column 3: a set without its end"},
    {GRAMMAR_GBNF, "root ::= [b-a]", STATUS_INVALID,
     "GBNF, line 1, column 14: a range whose end is below its start"},
    {GRAMMAR_GBNF, "root ::= (\"a\"", STATUS_INVALID, "GBNF, line 1, column 14: expected ')'"},
    {GRAMMAR_GBNF, "root ::= \"a\")", STATUS_INVALID, "GBNF, line 1, column 13: a ')' too many"},
    {GRAMMAR_GBNF, "root ::= *", STATUS_INVALID,
     "GBNF, line 1, column 10: expected a name, a literal, a set or '('"},
    {GRAMMAR_GBNF, "root ::= \"a\"{3,2}", STATUS_INVALID,
     "GBNF, line 1, column 18: a repeat whose most is below its least"},
    {GRAMMAR_GBNF, "root ::= \"a\"{,2}", STATUS_INVALID,
     "GBNF, line 1, column 14: expected a number"},
    {GRAMMAR_GBNF, "root ::= \"a\"{100001}", STATUS_LIMIT,
     "GBNF, line 1, column 20: a number above 100000"},
    {GRAMMAR_GBNF, "root ::= \"\\q\"", STATUS_INVALID,
     "GBNF, line 1, column 12: this escape is not known"},
    {GRAMMAR_GBNF, "root ::= \"\\ud800\"", STATUS_INVALID,
     "GBNF, line 1, column 17: no character has the number 0xd800"},
    {GRAMMAR_GBNF, "root ::= <tool>", STATUS_INVALID,
     "GBNF, line 1, column 10: the model has no special token \"<tool>\""},
    {GRAMMAR_GBNF, "root ::= !<tool>", STATUS_UNSUPPORTED,
     "GBNF, line 1, column 10: all tokens but one"},
    {GRAMMAR_GBNF, "root ::= root \"a\"", STATUS_INVALID,
     "no text matches: every alternative refers to itself or contradicts itself"},
    {GRAMMAR_GBNF, "root ::= e root \"a\" | \"b\"\ne ::= \"\" | \"c\"", STATUS_UNSUPPORTED,
     "left recursion after a rule that may be empty is not served"},
    {GRAMMAR_EBNF, "a ::= b - c b ::= 'x' c ::= 'y'", STATUS_UNSUPPORTED,
     "EBNF, line 1, column 9: differences (A - B)"},
    {GRAMMAR_EBNF, "a ::= 'b' /* c", STATUS_INVALID,
     "EBNF, line 1, column 11: a comment without its end"},
    {GRAMMAR_EBNF, "a ::= #y", STATUS_INVALID, "EBNF, line 1, column 8: expected 'x' after '#'"},
    {GRAMMAR_LARK, "a: \"b\"", STATUS_INVALID,
     "Lark, line 1, column 7: no rule has the name \"start\""},
    {GRAMMAR_LARK, "start: a", STATUS_INVALID, "Lark, line 1, column 8: undefined name \"a\""},
    {GRAMMAR_LARK, "start \"a\"", STATUS_INVALID, "Lark, line 1, column 7: expected ':'"},
    {GRAMMAR_LARK, "start: \"a\" )", STATUS_INVALID,
     "Lark, line 1, column 12: expected the end of the line"},
    {GRAMMAR_LARK, "start: \"a\nb\"", STATUS_INVALID,
     "Lark, line 1, column 8: a literal without its end"},
    {GRAMMAR_LARK, "start: \"a\\", STATUS_INVALID,
     "Lark, line 1, column 8: a literal without its end"},
    {GRAMMAR_LARK, "start: \"a\"x", STATUS_INVALID,
     "Lark, line 1, column 9: a string's only flag is i"},
    {GRAMMAR_LARK, "start: \"b\"..\"a\"", STATUS_INVALID,
     "Lark, line 1, column 16: a range whose end is below its start"},
    {GRAMMAR_LARK, "start: \"bc\"..\"d\"", STATUS_INVALID,
     "Lark, line 1, column 10: a range has strings of one character"},
    {GRAMMAR_LARK, "start: /a*?/", STATUS_UNSUPPORTED,
     "Lark, line 1, column 8: regular expression, column 4: lazy repeats in a terminal"},
    {GRAMMAR_LARK, "start: /^a/", STATUS_UNSUPPORTED,
     "Lark, line 1, column 8: regular expression, column 1: anchors in a terminal"},
    {GRAMMAR_LARK, "start: /a/x", STATUS_UNSUPPORTED,
     "Lark, line 1, column 8: flags of an expression other than i, s and u"},
    {GRAMMAR_LARK, "start: A\nA: b\nb: \"c\"", STATUS_INVALID,
     "Lark, line 2, column 5: a terminal cannot hold the rule \"b\""},
    {GRAMMAR_LARK, "start: a{\"b\"}", STATUS_UNSUPPORTED, "Lark, line 1, column 9: templates"},
    {GRAMMAR_LARK, "%declare A", STATUS_UNSUPPORTED,
     "Lark, line 1, column 1: statements other than %import and %ignore"},
    {GRAMMAR_LARK, "%import python.A", STATUS_UNSUPPORTED,
     "Lark, line 1, column 15: imports of other modules than common"},
    {GRAMMAR_LARK, "%import common.FOO", STATUS_UNSUPPORTED,
     "Lark, line 1, column 19: common has no terminal \"FOO\" here"},
    {GRAMMAR_LARK, "start: \"a\"~2..1", STATUS_INVALID,
     "Lark, line 1, column 16: a repeat whose most is below its least"},
};

START_TEST(mistakes_are_told_with_their_place) {
    struct error error;
    enum status status = grammar_check_refused(mistakes[_i].kind, mistakes[_i].source, &error);
    ck_assert_str_eq(error.text, mistakes[_i].text);
    ck_assert_int_eq(status, mistakes[_i].status);
}
END_TEST

/* The language of a coding agent's freeform patch tool. */
START_TEST(a_patch_is_of_its_lark_grammar) {
    struct grammar *grammar =
        grammar_check_kind(GRAMMAR_LARK,
                           "start: begin hunk+ end\n"
                           "begin: \"*** Begin Patch\" LF\n"
                           "end: \"*** End Patch\" LF?\n\n"
                           "hunk: add | delete | update\n"
                           "add: \"*** Add File: \" filename LF add_line+\n"
                           "delete: \"*** Delete File: \" filename LF\n"
                           "update: \"*** Update File: \" filename LF move? change?\n"
                           "filename: /(.+)/\n"
                           "add_line: \"+\" /(.*)/ LF -> line\n"
                           "move: \"*** Move to: \" filename LF\n"
                           "change: (context | line)+ eof?\n"
                           "context: (\"@@\" | \"@@ \" /(.+)/) LF\n"
                           "line: (\"+\" | \"-\" | \" \") /(.*)/ LF\n"
                           "eof: \"*** End of File\" LF\n\n"
                           "%import common.LF\n",
                           NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("*** Begin Patch\n*** Add File: a.c\n+int x;\n+\n"
                                                "*** Update File: b.c\n@@ f()\n-a\n+b\n c\n"
                                                "*** Delete File: c\n*** End Patch")));
    ck_assert(!grammar_check_begins(grammar, SPAN("*** Begin Patch\n*** End Patch")));
    ck_assert(!grammar_check_begins(grammar, SPAN("*** Begin Patch\n*** Add File: a.c\nint")));
    grammar_unref(grammar);
}
END_TEST

START_TEST(special_tokens_have_names_and_ids) {
    static const enum grammar_kind kinds[] = {GRAMMAR_GBNF, GRAMMAR_GBNF, GRAMMAR_LARK};
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    uint32_t call = grammar_vocabulary_special(vocabulary, SPAN("<|call|>"));
    for (unsigned i = 0; i < 3; i++) {
        char source[96];
        struct grammar_state *state;
        if (i == 1)
            snprintf(source, sizeof source, "root ::= <[%u]> \"a\"", call);
        else
            snprintf(source, sizeof source, "%s <|call|> \"a\"", i == 0 ? "root ::=" : "start:");
        struct grammar *grammar = grammar_check_kind(kinds[i], source, vocabulary);
        ck_assert(!grammar_check_begins(grammar, SPAN("<|call|>")));
        ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
        ck_assert_uint_eq(grammar_check_mask(state, vocabulary), 1);
        ck_assert_int_eq(grammar_accept(state, call), STATUS_OK);
        ck_assert_int_eq(grammar_accept(state, 'a'), STATUS_OK);
        ck_assert(grammar_must_end(state));
        grammar_state_free(state);
        grammar_unref(grammar);
    }
    struct grammar_part part = {.kind = GRAMMAR_GBNF, .text = SPAN("root ::= <[97]>")};
    struct grammar *grammar;
    struct error error = {0};
    ck_assert_int_eq(grammar_compile(&part, vocabulary, &grammar_limits, &grammar, &error),
                     STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.text, "GBNF, line 1, column 16: 97 is not a special token of the model");
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(brackets_are_bounded) {
    static const struct {
        enum grammar_kind kind;
        const char *source;
    } sources[] = {{GRAMMAR_GBNF, "root ::= ((\"a\"))"},
                   {GRAMMAR_EBNF, "root ::= (('a'))"},
                   {GRAMMAR_LARK, "start: ([\"a\"])"}};
    for (unsigned i = 0; i < 3; i++) {
        struct grammar_limits limits = grammar_limits;
        struct grammar_part part = {.kind = sources[i].kind, .text = span_of(sources[i].source)};
        struct grammar *grammar;
        struct error error = {0};
        limits.depth = 3;
        ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
        grammar_unref(grammar);
        limits.depth = 2;
        ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
        ck_assert(strstr(error.text, "brackets nest deeper than 2"));
    }
}
END_TEST

START_TEST(statements_of_ignored_text_are_bounded_at_64) {
    char source[2048] = "start: \"a\"\n";
    struct error error;
    for (unsigned n = 1; n <= 65; n++) {
        strcat(source, "%ignore \"b\"\n");
        if (n == 64)
            grammar_unref(grammar_check_kind(GRAMMAR_LARK, source, NULL));
    }
    ck_assert_int_eq(grammar_check_refused(GRAMMAR_LARK, source, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "Lark, line 66, column 9: more than 64 statements %ignore");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, gbnf_takes_its_texts_and_no_others, 0,
                        sizeof gbnf_rows / sizeof *gbnf_rows);
    tcase_add_loop_test(tests, ebnf_takes_its_texts_and_no_others, 0,
                        sizeof ebnf_rows / sizeof *ebnf_rows);
    tcase_add_loop_test(tests, lark_takes_its_texts_and_no_others, 0,
                        sizeof lark_rows / sizeof *lark_rows);
    tcase_add_loop_test(tests, mistakes_are_told_with_their_place, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(tests, a_patch_is_of_its_lark_grammar);
    tcase_add_test(tests, special_tokens_have_names_and_ids);
    tcase_add_test(tests, brackets_are_bounded);
    tcase_add_test(tests, statements_of_ignored_text_are_bounded_at_64);
}
