/* Grammars and their states: following, masks, ends, setting back, special tokens. */
#include "model/text/grammar/grammar.h"

#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model grammar";
const double suite_timeout_s = 120;

static struct grammar_part text_part(const char *text) {
    return (struct grammar_part){.kind = GRAMMAR_TEXT, .text = span_of(text)};
}

START_TEST(literal_text_is_followed_byte_by_byte) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_TEXT, "hello", NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("hello")));
    ck_assert(!grammar_check_takes(grammar, SPAN("hell")));
    ck_assert(grammar_check_begins(grammar, SPAN("hell")));
    ck_assert(!grammar_check_begins(grammar, SPAN("hello ")));
    grammar_unref(grammar);
}
END_TEST

START_TEST(a_choice_takes_each_of_its_texts_and_nothing_else) {
    static const struct span choices[] = {SPAN("abca"), SPAN("ab"), SPAN("b"), SPAN("abc"),
                                          SPAN("ab")};
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar_part part = {.kind = GRAMMAR_CHOICE, .choices = choices, .n = 5};
    struct grammar *grammar = grammar_check_compile(&part, vocabulary);
    struct grammar_state *state;
    for (unsigned i = 0; i < 5; i++)
        ck_assert(grammar_check_takes(grammar, choices[i]));
    ck_assert(!grammar_check_takes(grammar, SPAN("a")));
    ck_assert(!grammar_check_takes(grammar, SPAN("abcab")));
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    /* "a", "b", "abc", "abca", "ab" twice. */
    ck_assert_uint_eq(grammar_check_mask(state, vocabulary), 6);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(masks_are_what_each_token_alone_says) {
    static const char *const patterns[] = {
        "[a-z]+",      "(ab|abc|a)*c?", "\\d{1,3}(\\.\\d{3})*", ".*",
        "a.{20,40}b",  "(.|\\n){0,18}", "[^\"]*\"[^\"]{17}\"",  "\xc3\xa9+|(\\w|\xf0\x9f\x98\x80)+",
        "(|a|aa){3}b", "x{17,}y",       "(a{17,20}|b)*",
    };
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    char out[256];
    bool is_whole;
    for (unsigned i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, patterns[i], vocabulary);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            grammar_check_walk(grammar, vocabulary, seed, 25, out, sizeof out, &is_whole);
            ck_assert(grammar_check_begins(grammar, span_of(out)));
            if (is_whole)
                ck_assert(grammar_check_takes(grammar, span_of(out)));
        }
        grammar_unref(grammar);
    }
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(counted_characters_are_bounded_at_both_ends) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, "[a-z\xc3\xa9]{18,20}", NULL);
    char text[64];
    for (unsigned n = 16; n <= 22; n++) {
        unsigned length = 0;
        for (unsigned i = 0; i < n; i++)
            length +=
                (unsigned)snprintf(text + length, sizeof text - length, i % 2 ? "\xc3\xa9" : "q");
        ck_assert_int_eq(grammar_check_takes(grammar, span_of(text)), n >= 18 && n <= 20);
        ck_assert_int_eq(grammar_check_begins(grammar, span_of(text)), n <= 20);
    }
    grammar_unref(grammar);
}
END_TEST

START_TEST(an_end_is_allowed_exactly_where_the_text_is_whole) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, "ab?", NULL);
    struct grammar_state *state;
    size_t n;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    ck_assert(!grammar_may_end(state) && !grammar_must_end(state));
    ck_assert_int_eq(grammar_follow(state, SPAN("a"), &n), STATUS_OK);
    ck_assert(grammar_may_end(state) && !grammar_must_end(state));
    ck_assert_int_eq(grammar_follow(state, SPAN("b"), &n), STATUS_OK);
    ck_assert(grammar_may_end(state) && grammar_must_end(state));
    ck_assert_int_eq(grammar_follow(state, SPAN("b"), &n), STATUS_CONFLICT);
    ck_assert(grammar_must_end(state));
    grammar_state_free(state);
    grammar_unref(grammar);
}
END_TEST

START_TEST(a_state_that_is_set_back_equals_one_followed_anew) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *grammar =
        grammar_check_kind(GRAMMAR_REGEX, "((a|ab|abc)*,)*[a-z]{30,90}", vocabulary);
    enum { N = 40, BACK = 7 };
    uint64_t keys[N + 1][2];
    struct grammar_state *state;
    ck_assert_int_eq(grammar_state_new(grammar, BACK, &state), STATUS_OK);
    grammar_state_key(state, keys[0]);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(grammar_accept(state, (uint8_t) "abc,aab,"[i % 8]), STATUS_OK);
        grammar_state_key(state, keys[i + 1]);
        for (unsigned back = 0; back <= BACK && back <= i; back++) {
            struct grammar_state *copy;
            uint64_t key[2];
            ck_assert_int_eq(grammar_state_copy(state, &copy), STATUS_OK);
            ck_assert_int_eq(grammar_back(copy, back), STATUS_OK);
            grammar_state_key(copy, key);
            ck_assert(memcmp(key, keys[i + 1 - back], sizeof key) == 0);
            ck_assert_int_eq(grammar_back(copy, BACK - back + 1), STATUS_LIMIT);
            grammar_state_free(copy);
        }
    }
    ck_assert_int_eq(grammar_back(state, BACK), STATUS_OK);
    ck_assert_int_eq(grammar_back(state, 1), STATUS_LIMIT);
    grammar_reset(state);
    uint64_t key[2];
    grammar_state_key(state, key);
    ck_assert(memcmp(key, keys[0], sizeof key) == 0);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(a_refused_token_changes_nothing) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, "[ab]{3}c", vocabulary);
    struct grammar_state *state;
    uint64_t before[2];
    uint64_t after[2];
    ck_assert_int_eq(grammar_state_new(grammar, 2, &state), STATUS_OK);
    ck_assert_int_eq(grammar_accept(state, 'a'), STATUS_OK);
    grammar_state_key(state, before);
    ck_assert_int_eq(grammar_accept(state, 'c'), STATUS_CONFLICT);
    ck_assert_int_eq(grammar_accept(state, vocabulary->n_tokens - 1),
                     STATUS_CONFLICT); /* special */
    ck_assert_int_eq(grammar_accept(state, vocabulary->n_tokens - 3), STATUS_CONFLICT); /* empty */
    ck_assert_int_eq(grammar_accept(state, vocabulary->n_tokens), STATUS_INVALID);
    grammar_state_key(state, after);
    ck_assert(memcmp(before, after, sizeof before) == 0);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(special_tokens_come_only_where_they_are_named) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar_part parts[3] = {
        {.kind = GRAMMAR_REGEX, .text = SPAN("[^\\n]*")},
        {.kind = GRAMMAR_TOKEN, .text = SPAN("<|call|>")},
        text_part("<think>"),
    };
    struct grammar_part part = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 3};
    struct grammar *grammar = grammar_check_compile(&part, vocabulary);
    struct grammar_state *state;
    const struct grammar_mask *mask;
    uint32_t call = vocabulary->n_tokens - 2;
    uint32_t think = vocabulary->n_tokens - 1;
    ck_assert_uint_eq(grammar_vocabulary_special(vocabulary, SPAN("<|call|>")), call);
    ck_assert_uint_eq(grammar_vocabulary_special(vocabulary, SPAN("hello")), GRAMMAR_TOKEN_NONE);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    grammar_check_mask(state, vocabulary);
    ck_assert_int_eq(grammar_mask(state, &mask), STATUS_OK);
    ck_assert(grammar_mask_has(mask, call) && !grammar_mask_has(mask, think));
    ck_assert(grammar_mask_has(mask, '<'));
    grammar_mask_unref(mask);
    ck_assert_int_eq(grammar_accept(state, call), STATUS_OK);
    ck_assert_int_eq(grammar_accept(state, think), STATUS_CONFLICT); /* its text is not the token */
    for (const char *at = "<think>"; *at; at++)
        ck_assert_int_eq(grammar_accept(state, (uint8_t)*at), STATUS_OK);
    ck_assert(grammar_must_end(state));
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(a_special_token_that_the_model_lacks_is_named) {
    struct error error;
    ck_assert_int_eq(grammar_check_refused(GRAMMAR_TOKEN, "<tool>", &error), STATUS_INVALID);
    ck_assert_str_eq(error.text, "the model has no special token \"<tool>\"");
}
END_TEST

START_TEST(a_token_may_cross_from_one_part_into_the_next) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar_part parts[3] = {{.kind = GRAMMAR_REGEX, .text = SPAN("[a-z]*")},
                                    text_part("\",\""),
                                    {.kind = GRAMMAR_REGEX, .text = SPAN("[a-z]{1,40}")}};
    struct grammar_part part = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 3};
    struct grammar *grammar = grammar_check_compile(&part, vocabulary);
    struct grammar_state *state;
    uint32_t token = 256;
    while (!span_is(grammar_vocabulary_bytes(vocabulary, token), "x\",\"y"))
        token++;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    grammar_check_mask(state, vocabulary);
    ck_assert_int_eq(grammar_accept(state, token), STATUS_OK);
    ck_assert(grammar_may_end(state));
    grammar_check_mask(state, vocabulary);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(repeats_of_parts_are_bounded) {
    static const struct span words[] = {SPAN("ab"), SPAN("")};
    struct grammar_part inner = text_part("ab,");
    struct grammar_part part = {
        .kind = GRAMMAR_REPEAT, .parts = &inner, .n = 1, .min = 2, .max = 3};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    ck_assert(!grammar_check_takes(grammar, SPAN("ab,")));
    ck_assert(grammar_check_takes(grammar, SPAN("ab,ab,")));
    ck_assert(grammar_check_takes(grammar, SPAN("ab,ab,ab,")));
    ck_assert(!grammar_check_begins(grammar, SPAN("ab,ab,ab,a")));
    grammar_unref(grammar);
    /* Of a part that may be empty: at most as often. */
    inner = (struct grammar_part){.kind = GRAMMAR_CHOICE, .choices = words, .n = 2};
    grammar = grammar_check_compile(&part, NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("")));
    ck_assert(grammar_check_takes(grammar, SPAN("ababab")));
    ck_assert(!grammar_check_begins(grammar, SPAN("abababa")));
    grammar_unref(grammar);
    part.max = GRAMMAR_NO_BOUND;
    grammar = grammar_check_compile(&part, NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("")));
    ck_assert(grammar_check_takes(grammar, SPAN("abababababab")));
    grammar_unref(grammar);
}
END_TEST

START_TEST(text_until_a_mark_holds_no_mark) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_UNTIL, "</a>", NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("")));
    ck_assert(grammar_check_takes(grammar, SPAN("x</</a\xc3\xa9</")));
    ck_assert(!grammar_check_begins(grammar, SPAN("x<</a>")));
    ck_assert(!grammar_check_begins(grammar, SPAN("</a>")));
    ck_assert(!grammar_check_takes(grammar, SPAN("\xc3")));
    grammar_unref(grammar);
    grammar = grammar_check_kind(GRAMMAR_UNTIL, "aab", NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("aaaa ab")));
    ck_assert(!grammar_check_begins(grammar, SPAN("caaab")));
    grammar_unref(grammar);
}
END_TEST

START_TEST(equal_descriptions_have_equal_hashes) {
    struct grammar *a = grammar_check_kind(GRAMMAR_REGEX, "ab*", NULL);
    struct grammar *b = grammar_check_kind(GRAMMAR_REGEX, "ab*", NULL);
    struct grammar *c = grammar_check_kind(GRAMMAR_TEXT, "ab*", NULL);
    uint64_t x[2];
    uint64_t y[2];
    grammar_hash(a, x);
    grammar_hash(b, y);
    ck_assert(memcmp(x, y, sizeof x) == 0);
    grammar_hash(c, y);
    ck_assert(memcmp(x, y, sizeof x) != 0);
    grammar_unref(a);
    grammar_unref(b);
    grammar_unref(c);
}
END_TEST

START_TEST(equal_grammars_share_masks) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    const struct grammar_mask *masks[2];
    for (unsigned i = 0; i < 2; i++) {
        struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, "[a-z]+!", vocabulary);
        struct grammar_state *state;
        ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
        ck_assert_int_eq(grammar_mask(state, &masks[i]), STATUS_OK);
        grammar_state_free(state);
        grammar_unref(grammar);
    }
    ck_assert_ptr_eq(masks[0], masks[1]);
    ck_assert_uint_eq(store_figures(&vocabulary->store).n_found, 1);
    grammar_mask_unref(masks[0]);
    grammar_mask_unref(masks[1]);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, literal_text_is_followed_byte_by_byte);
    tcase_add_test(tests, a_choice_takes_each_of_its_texts_and_nothing_else);
    tcase_add_test(tests, masks_are_what_each_token_alone_says);
    tcase_add_test(tests, counted_characters_are_bounded_at_both_ends);
    tcase_add_test(tests, an_end_is_allowed_exactly_where_the_text_is_whole);
    tcase_add_test(tests, a_state_that_is_set_back_equals_one_followed_anew);
    tcase_add_test(tests, a_refused_token_changes_nothing);
    tcase_add_test(tests, special_tokens_come_only_where_they_are_named);
    tcase_add_test(tests, a_special_token_that_the_model_lacks_is_named);
    tcase_add_test(tests, a_token_may_cross_from_one_part_into_the_next);
    tcase_add_test(tests, repeats_of_parts_are_bounded);
    tcase_add_test(tests, text_until_a_mark_holds_no_mark);
    tcase_add_test(tests, equal_descriptions_have_equal_hashes);
    tcase_add_test(tests, equal_grammars_share_masks);
}
