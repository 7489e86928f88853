/* Masks by runs (engine/mask_run.c): exact at every place of an e-mail address and of other bounded
 * repetitions, with work that the first place pays for all. */
#include "model/text/grammar/grammar.h"

#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "model grammar masks";
const double suite_timeout_s = 240;

#define EMAIL                                                                                      \
    "{\"type\": \"object\", \"properties\": {\"e\": {\"type\": \"string\", \"format\": "           \
    "\"email\"}, \"f\": {\"type\": \"integer\"}}, \"required\": [\"e\"], "                         \
    "\"additionalProperties\": false}"

enum { LETTERS = 14, TRIPLES = LETTERS * LETTERS * LETTERS, REPEATED = 70 };

/* Every byte; "a" up to 70 times, beyond what an atom or a label has; what address and object are cut into. With `triples`, all
 * words of three letters as well, with a semicolon, and behind a dot: there is enough behind it for a run of its own. */
static struct grammar_vocabulary *vocabulary_of(bool triples, size_t n_bytes_kept) {
    static const char *const pieces[] = {
        "-",       "--",   "a-",         "-a",       "a-a",       "a--a",         "-a-",
        "@",       "@a",   "a@",         "a@a",      "a@-",       "@.",           ".",
        "..",      "a.a",  "a.a@a.a",    ".a.",      "@example",  ".com\"",       ".com\"}",
        "\"}",     "\",",  "\", \"f\":", "a\"",      "a\"}",      "a-\"",         "a\", \"f\"",
        "1",       "12",   "a1",         "1a.",      "!#$%&",     "a!",           "!a@",
        "\"a@a\"", " a",   "a ",         "\xc3\xa9", "a\xc3\xa9", "\xe4\xb8\xad", ";",
        "a;",      "aa;b", "ab;",        "z9",       "\\\"",      "zz",           "zzzz",
        "azzz",    "aaaz", "aaa0",       "za0z",     "a\\",
    };
    enum { N_PIECES = sizeof pieces / sizeof *pieces, N = 256 + REPEATED + N_PIECES + 3 * TRIPLES };
    static char bytes[256], repeated[REPEATED], words[TRIPLES][5];
    static struct span texts[N];
    struct grammar_vocabulary *vocabulary;
    struct error error = {0};
    uint32_t n = 0;
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[n++] = (struct span){&bytes[i], 1};
    }
    memset(repeated, 'a', sizeof repeated);
    for (unsigned i = 2; i <= REPEATED; i++)
        texts[n++] = (struct span){repeated, i};
    for (unsigned i = 0; i < N_PIECES; i++)
        texts[n++] = span_of(pieces[i]);
    for (unsigned i = 0; triples && i < TRIPLES; i++) {
        words[i][0] = '.';
        words[i][1] = (char)('a' + i % LETTERS);
        words[i][2] = (char)('a' + i / LETTERS % LETTERS);
        words[i][3] = (char)('a' + i / LETTERS / LETTERS);
        words[i][4] = ';';
        texts[n++] = (struct span){words[i], 4};
        texts[n++] = (struct span){words[i] + 1, 3};
        texts[n++] = (struct span){words[i] + 1, 4};
    }
    ck_assert_int_eq(grammar_vocabulary_new(texts, NULL, n, n_bytes_kept, &vocabulary, &error),
                     STATUS_OK);
    return vocabulary;
}

/* A state behind a text of so many "a" each: of the first atom, the second, and the labels. Fewer than
 * 0 of one: the text ends before it, and before what would separate it. */
static struct grammar_state *state_behind(struct grammar *grammar, const int n[5]) {
    static const char separators[5] = {'"', '.', '@', '.', '.'};
    struct grammar_state *state;
    char text[512] = "{\"e\":";
    size_t length = strlen(text);
    size_t n_followed;
    for (unsigned i = 0; i < 5; i++) {
        if (n[i] < 0)
            continue;
        text[length++] = separators[i];
        memset(text + length, 'a', (size_t)n[i]);
        length += (size_t)n[i];
    }
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    ck_assert_int_eq(grammar_follow(state, (struct span){text, length}, &n_followed), STATUS_OK);
    return state;
}

/* How much work the mask of a state takes, which is given back. */
static uint64_t work_of(struct grammar_state *state) {
    const struct grammar_mask *mask;
    uint64_t n_steps = 1000000;
    ck_assert_int_eq(grammar_mask_within(state, &n_steps, &mask), STATUS_OK);
    grammar_mask_unref(mask);
    grammar_state_free(state);
    return 1000000 - n_steps;
}

static const int places[][5] = {
    {-1, -1, -1, -1, -1}, {0, -1, -1, -1, -1},  {1, -1, -1, -1, -1},  {14, -1, -1, -1, -1},
    {28, -1, -1, -1, -1}, {29, -1, -1, -1, -1}, {30, -1, -1, -1, -1}, {30, 0, -1, -1, -1},
    {1, 1, -1, -1, -1},   {1, 29, -1, -1, -1},  {1, 30, -1, -1, -1},  {1, -1, 0, -1, -1},
    {1, -1, 1, -1, -1},   {1, 1, 2, -1, -1},    {1, -1, 31, -1, -1},  {1, -1, 61, -1, -1},
    {1, -1, 62, -1, -1},  {1, -1, 63, -1, -1},  {1, -1, 63, 0, -1},   {1, -1, 1, 40, -1},
    {1, -1, 1, 62, -1},   {1, -1, 1, 63, -1},   {1, -1, 1, 1, 0},     {1, -1, 1, 1, 61},
    {1, -1, 1, 1, 62},    {1, -1, 1, 1, 63},
};

START_TEST(masks_of_an_address_are_exact_at_every_place) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(true, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, EMAIL, vocabulary);
    struct grammar_state *state = state_behind(grammar, places[_i]);
    ck_assert_uint_gt(grammar_check_mask(state, vocabulary), 0);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(walks_over_addresses_have_exact_masks) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(_i == 0, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, EMAIL, vocabulary);
    char out[512];
    bool is_whole;
    for (uint64_t seed = 1; seed <= (_i == 0 ? 2 : 20); seed++) {
        grammar_check_walk(grammar, vocabulary, seed, 40, out, sizeof out, &is_whole);
        ck_assert(grammar_check_begins(grammar, span_of(out)));
    }
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* Repetitions that a chain has to end with, or that are none: other bytes behind, other bytes inside, a
 * call, an end, a count. */
static const struct {
    enum grammar_kind kind;
    const char *text;
} chains[] = {
    {GRAMMAR_REGEX, "[a-z]{2,12};"},
    {GRAMMAR_REGEX, "[a-z]*;"},
    {GRAMMAR_REGEX, "[a-z]{3}[a-z0-9]{4};"},
    {GRAMMAR_REGEX, "[a-z]{3}[a-p]{4};"},
    {GRAMMAR_REGEX, "([a-z]{2,4};)*"},
    {GRAMMAR_REGEX, "([a-z]{3}|[a-p]{5}-|a*@)*!"},
    {GRAMMAR_REGEX, "[a-z][a-z0-9]{1,20};"},
    {GRAMMAR_REGEX, "[a-z]{3}"},
    {GRAMMAR_REGEX, "([a-z]{1,5})?(a|[b-z]{2};)"},
    {GRAMMAR_REGEX, "[a-y]{1,6}(z[a-y]{1,6}){0,2};"},
    {GRAMMAR_REGEX, "[^;]{2,9};"},
    {GRAMMAR_REGEX, "[a-z]{1,3}[0-9]{0,20};"},
    {GRAMMAR_GBNF, "root ::= ([a-z] | call)* \".\"\ncall ::= \"-\" root \"-\""},
    {GRAMMAR_GBNF, "root ::= word \";\"\nword ::= [a-z] [a-z]* | [a-z] \"-\" word"},
    {GRAMMAR_GBNF, "root ::= [a-z]{0,30} \"-\" root | \"!\""},
};

START_TEST(chains_end_where_their_sets_do) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(false, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(chains[_i].kind, chains[_i].text, vocabulary);
    char out[256];
    bool is_whole;
    for (uint64_t seed = 1; seed <= 10; seed++)
        grammar_check_walk(grammar, vocabulary, seed, 25, out, sizeof out, &is_whole);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* Behind the dot are so many words that they would have a run: of these bytes they have none, or one for
 * one reading alone. */
static const char *const nested[] = {
    "[a-z]{1,9}[.][a-c]{2,4};",
    "[a-z]{1,9}[.]([a-c]{2}|[a-z]{3,5})-;",
    "[a-z]{1,9}([.][a-z]{0,5}){0,9};",
};

START_TEST(what_has_no_run_within_a_run_is_walked) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(true, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, nested[_i], vocabulary);
    struct grammar_state *state;
    size_t n_followed;
    for (unsigned n = 0; n <= 9; n++) {
        ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
        ck_assert_int_eq(grammar_follow(state, (struct span){"abcabcabc", n}, &n_followed),
                         STATUS_OK);
        ck_assert_uint_gt(grammar_check_mask(state, vocabulary), 0);
        grammar_state_free(state);
    }
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(masks_are_exact_where_nothing_can_be_kept) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(false, 1);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, EMAIL, vocabulary);
    char out[256];
    bool is_whole;
    for (uint64_t seed = 1; seed <= 3; seed++)
        grammar_check_walk(grammar, vocabulary, seed, 25, out, sizeof out, &is_whole);
    ck_assert_uint_eq(store_figures(&vocabulary->store).n_bytes, 0);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(places_share_the_runs_of_the_first_ones) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(true, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, EMAIL, vocabulary);
    work_of(state_behind(grammar, (int[5]){1, -1, -1, -1, -1}));
    work_of(state_behind(grammar, (int[5]){1, -1, 1, -1, -1}));
    uint64_t n_items = store_figures(&vocabulary->store).n_items;
    for (int n = 2; n < 30; n++) {
        ck_assert_uint_lt(work_of(state_behind(grammar, (int[5]){n, -1, -1, -1, -1})), TRIPLES);
        ck_assert_uint_lt(work_of(state_behind(grammar, (int[5]){1, -1, n, -1, -1})), TRIPLES);
    }
    ck_assert_uint_eq(store_figures(&vocabulary->store).n_items, n_items + 56); /* masks */
    /* Another grammar's too. */
    struct grammar *other = grammar_check_kind(
        GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"format\": \"hostname\"}", vocabulary);
    struct grammar_state *state;
    size_t n_followed;
    ck_assert_int_eq(grammar_state_new(other, 0, &state), STATUS_OK);
    ck_assert_int_eq(grammar_follow(state, SPAN("\"a"), &n_followed), STATUS_OK);
    work_of(state);
    ck_assert_uint_eq(store_figures(&vocabulary->store).n_items, n_items + 57);
    grammar_unref(other);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* The items that the vocabulary keeps behind the first mask of an expression. */
static uint64_t items_of(const char *expression, bool triples) {
    struct grammar_vocabulary *vocabulary = vocabulary_of(triples, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, expression, vocabulary);
    struct grammar_state *state;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    work_of(state);
    uint64_t n_items = store_figures(&vocabulary->store).n_items;
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
    return n_items;
}

START_TEST(runs_are_taken_from_sixteen_bytes_on) {
    ck_assert_uint_eq(items_of("[a-o]{2,9};", false), 1);
    ck_assert_uint_eq(items_of("[a-p]{2,9};", false), 2);
    ck_assert_uint_eq(items_of("[a-p]{1};", false), 2);
    ck_assert_uint_eq(items_of("[a-p]{2,9}", false), 2); /* it may end inside */
    ck_assert_uint_eq(items_of("([A-P]|z-){2,9};", false), 2);
    ck_assert_uint_eq(items_of("([a-o]|[A-O]-){2,9};", false), 1); /* fifteen and fifteen */
}
END_TEST

/* The items behind the first mask of letters between dots, where the words of a vocabulary are n of two characters, each behind
 * `begin`. */
static uint64_t items_behind(const char *begin, unsigned n_words) {
    enum { WORDS = 3000 };
    static const char characters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static char words[WORDS][16];
    static struct span texts[WORDS];
    struct grammar_vocabulary *vocabulary;
    struct grammar_state *state;
    struct error error = {0};
    for (unsigned i = 0; i < n_words; i++) {
        snprintf(words[i], sizeof words[i], "%s%c%c", begin, characters[i / 62],
                 characters[i % 62]);
        texts[i] = span_of(words[i]);
    }
    ck_assert_int_eq(
        grammar_vocabulary_new(texts, NULL, n_words, (size_t)8 << 20, &vocabulary, &error),
        STATUS_OK);
    struct grammar *grammar =
        grammar_check_kind(GRAMMAR_REGEX, "([a-zA-Z0-9]{1,3}[.]){0,9};", vocabulary);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    ck_assert_uint_eq(grammar_check_mask(state, vocabulary), n_words);
    uint64_t n_items = store_figures(&vocabulary->store).n_items;
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
    return n_items;
}

START_TEST(runs_within_runs_are_bounded) {
    /* A dot's node, 33 of first characters, and one for each word. */
    ck_assert_uint_eq(items_behind("a.", 2047 - 34), 2);
    ck_assert_uint_eq(items_behind("a.", 2048 - 34), 3);
    ck_assert_uint_eq(items_behind("a.a.", 2100), 4);
    ck_assert_uint_eq(items_behind("a.a.a.", 2100), 5);
    ck_assert_uint_eq(items_behind("a.a.a.a.", 2100), 5);
}
END_TEST

START_TEST(a_view_is_taken_where_much_is_behind_other_bytes) {
    /* Half of the words begin with a letter that leads elsewhere: mask, view, and the run that said so. */
    ck_assert_uint_eq(items_of("([A-Z0-9!#$%&()*+/:<=>?@_~-]|[a-n]-){2,9};", true), 3);
    ck_assert_uint_eq(items_of("([A-Z0-9!#$%&()*+/:<=>?@_~-]|[a-b]-){2,9};", true), 2);
}
END_TEST

START_TEST(what_follows_a_place_is_worked_out_once) {
    /* All words end at one place; the text may end behind the semicolon, which is work to find out. */
    struct grammar_vocabulary *vocabulary = vocabulary_of(true, (size_t)8 << 20);
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, "[a-z]{2,12};", vocabulary);
    struct grammar_state *state;
    size_t n_followed;
    uint64_t n_steps[2];
    for (unsigned n = 0; n <= 1; n++) {
        ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
        ck_assert_int_eq(grammar_follow(state, (struct span){"a", n}, &n_followed), STATUS_OK);
        n_steps[n] = work_of(state);
    }
    ck_assert_uint_gt(n_steps[0], n_steps[1] + 2 * TRIPLES); /* a step for each node of the run */
    ck_assert_uint_ge(n_steps[1], TRIPLES);                  /* one for each word */
    ck_assert_uint_lt(n_steps[1], 2 * TRIPLES);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(work_on_a_run_is_bounded) {
    uint64_t needed = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct grammar_vocabulary *vocabulary = vocabulary_of(true, (size_t)8 << 20);
        struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, EMAIL, vocabulary);
        struct grammar_state *state = state_behind(grammar, places[2]);
        const struct grammar_mask *mask = NULL;
        if (i == 0) {
            needed = work_of(state);
        } else {
            uint64_t n_steps = needed - (i == 1);
            enum status status = grammar_mask_within(state, &n_steps, &mask);
            ck_assert_int_eq(status, i == 1 ? STATUS_LIMIT : STATUS_OK);
            ck_assert_uint_eq(n_steps, 0);
            grammar_mask_unref(mask);
            grammar_state_free(state);
        }
        grammar_unref(grammar);
        grammar_vocabulary_free(vocabulary);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, masks_of_an_address_are_exact_at_every_place, 0,
                        sizeof places / sizeof *places);
    tcase_add_loop_test(tests, walks_over_addresses_have_exact_masks, 0, 2);
    tcase_add_loop_test(tests, chains_end_where_their_sets_do, 0, sizeof chains / sizeof *chains);
    tcase_add_loop_test(tests, what_has_no_run_within_a_run_is_walked, 0,
                        sizeof nested / sizeof *nested);
    tcase_add_test(tests, masks_are_exact_where_nothing_can_be_kept);
    tcase_add_test(tests, places_share_the_runs_of_the_first_ones);
    tcase_add_test(tests, runs_are_taken_from_sixteen_bytes_on);
    tcase_add_test(tests, runs_within_runs_are_bounded);
    tcase_add_test(tests, a_view_is_taken_where_much_is_behind_other_bytes);
    tcase_add_test(tests, what_follows_a_place_is_worked_out_once);
    tcase_add_test(tests, work_on_a_run_is_bounded);
}
