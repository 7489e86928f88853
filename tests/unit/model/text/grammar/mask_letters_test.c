/* Masks of characters beyond ASCII: exact within a character and at its ends, whichever of them a grammar
 * takes, where all of a subtree of the vocabulary is taken at once, and behind the longest run. */
#include "model/text/grammar/engine/run.h"
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/subtrees.h"

#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "model grammar mask letters";
const double suite_timeout_s = 240;

/* Characters of each length, at the ends of the ranges that spell alike, and what is none. */
static const char *const characters[] = {
    "\xc2\x80",     "\xc3\xa9",         "\xc3\xbc",         "\xdf\xbf",         "\xe0\xa0\x80",
    "\xe0\xbf\xbf", "\xe1\xbf\xbf",     "\xe2\x80\x80",     "\xe2\x80\xa7",     "\xe2\x80\xa8",
    "\xe2\x80\xaa", "\xe4\xb8\xad",     "\xe4\xb8\xae",     "\xed\x9f\xbf",     "\xee\x80\x80",
    "\xef\xbf\xbd", "\xf0\x90\x80\x80", "\xf0\x9f\x98\x80", "\xf3\xbf\xbf\xbf", "\xf4\x8f\xbf\xbf",
};
static const char *const broken[] = {
    "\xc0\x80",
    "\xc1\xbf",
    "\xe0\x80\x80",
    "\xe0\x9f\xbf",
    "\xed\xa0\x80",
    "\xed\xbf",
    "\xf0\x80\x80\x80",
    "\xf0\x8f\xbf\xbf",
    "\xf4\x90\x80\x80",
    "\xf5\x80\x80\x80",
    "\xff\x61",
    "\x61\x80",
    "\xa9",
    "\xb8\xad",
    "\xb8\xad\x61",
    "\x80\x80",
    "\xc3\x61",
    "\xe4\xb8\x61",
    "\xe4\xc3\xa9",
    "\xf0\x9f\x98\x61",
};

enum { N_CHARACTERS = sizeof characters / sizeof *characters };
enum { N_BROKEN = sizeof broken / sizeof *broken };
enum { LETTERS = 5, LENGTHS = 32, TEXT = 160, TEXTS_MAX = 4096 };

struct texts {
    char bytes[TEXTS_MAX][TEXT];
    struct span spans[TEXTS_MAX];
    uint32_t n;
};
static struct texts texts;

static void add(const char *bytes, size_t n) {
    ck_assert_uint_lt(texts.n, TEXTS_MAX);
    ck_assert_uint_lt(n, TEXT);
    memcpy(texts.bytes[texts.n], bytes, n);
    texts.spans[texts.n] = (struct span){texts.bytes[texts.n], n};
    texts.n++;
}

/* a, b and c, each at most TEXT in all. */
static void add_joined(const char *a, const char *b, const char *c) {
    char joined[TEXT];
    int n = snprintf(joined, sizeof joined, "%s%s%s", a, b, c);
    add(joined, (size_t)n);
}

/* Each character whole, cut and between others; what is no UTF-8; words, so that there is a subtree for
 * some beginnings; and one letter up to 32 times, with what else may follow it. */
static struct grammar_vocabulary *vocabulary_of(void) {
    struct grammar_vocabulary *vocabulary;
    struct error error = {0};
    char byte, again[TEXT];
    texts.n = 0;
    for (unsigned i = 0; i < 256; i++) {
        byte = (char)i;
        add(&byte, 1);
    }
    for (unsigned i = 0; i < N_CHARACTERS; i++) {
        const char *one = characters[i];
        for (size_t n = 2; n < strlen(one); n++)
            add(one, n);
        add(one, strlen(one));
        add_joined("a", one, "");
        add_joined(one, "a", "");
        add_joined(one, "x", "");
        add_joined(one, "!", one);
        add_joined(one, one, "");
        add_joined("\"", one, "");
        add_joined(one, "\"", "");
        add_joined(one, "\xe4", "");
        add_joined("b", one, "\xf0\x9f");
    }
    for (unsigned i = 0; i < N_BROKEN; i++) {
        add_joined(broken[i], "", "");
        add_joined("d", broken[i], "");
        add_joined("\xc3\xa9", broken[i], "a");
    }
    for (unsigned i = 0; i < LETTERS * LETTERS * LETTERS; i++) {
        char word[4] = {(char)('a' + i % LETTERS), (char)('a' + i / LETTERS % LETTERS),
                        (char)('a' + i / LETTERS / LETTERS), 0};
        add_joined(word, "", "");
        if (i % 3 == 0)
            add_joined("e", word, "\xc3\xa9");
        if (i % 5 == 0)
            add_joined("\xc3\xa9", word, "");
        if (i % 16 == 0)
            add_joined("f", word, "x");
    }
    for (unsigned n = 2; n <= LENGTHS; n++) {
        memset(again, 'a', n);
        again[n] = 0;
        add(again, n);
        add_joined(again, "\xc3\xa9", "");
        add_joined(again, "\xe4\xb8", "");
        add_joined(again, "!", "");
        add_joined(again, "x", "");
        add_joined(again, "\"", "");
        add_joined(again, "\xe4\xb8\xad", "!a");
    }
    ck_assert_int_eq(
        grammar_vocabulary_new(texts.spans, NULL, texts.n, (size_t)8 << 20, &vocabulary, &error),
        STATUS_OK);
    return vocabulary;
}

static const struct {
    enum grammar_kind kind;
    const char *text;
} forms[] = {
    {GRAMMAR_REGEX, "[^x]*"},
    {GRAMMAR_REGEX, "[^x]{0,40}"},
    {GRAMMAR_REGEX, "[^x]{3,25}"},
    {GRAMMAR_REGEX, "[^x!]{2,26}!"},
    {GRAMMAR_REGEX, "[^x]{2,9}!"}, /* two readings */
    {GRAMMAR_REGEX, "[\\s\\S]{2,9}!"},
    {GRAMMAR_REGEX, "([^x!]{1,5}!){0,3}"},
    {GRAMMAR_REGEX, "([^x!]{1,30}!?){0,3}x"},
    {GRAMMAR_REGEX, ".{0,40}"},
    {GRAMMAR_REGEX, ".*!"},
    {GRAMMAR_REGEX, "[\\s\\S]{2,27}"},
    {GRAMMAR_REGEX, "[a-z\u00e9-\u00fc]{1,9}"},
    {GRAMMAR_REGEX, "[a-z\u4e2d]{3,30}[!x]"},
    {GRAMMAR_REGEX, "[a-z]{1,9}[\u00e9!]"},
    {GRAMMAR_REGEX, "[a-z\u00e9]{1,9}[\u00e9!]"},
    {GRAMMAR_REGEX, "[a-z\U00010000-\U0010ffff]{1,30}"},
    {GRAMMAR_REGEX, "[a-z\u0800-\u4e2d]{1,30}"},
    {GRAMMAR_REGEX, "[a-z\u1e00-\u1fff]{1,30}"}, /* ends where a lead byte's characters do */
    {GRAMMAR_REGEX, "([a-z\u00e9]|\u4e2d!)*"},
    {GRAMMAR_REGEX, "([a-z\u4e2d]|\u4e2e!){1,9}"},
    {GRAMMAR_REGEX, "[a-z\u00e0\u00e2\u00e4\u00e6\u00e8\u00ea\u00ec\u00ee\u00f0\u00f2\u00f4\u00f6"
                    "\u00f8\u00fa\u00fc]{1,9}!"}, /* 15 ranges beyond ASCII */
    {GRAMMAR_REGEX, "[a-z\u00e0\u00e2\u00e4\u00e6\u00e8\u00ea\u00ec\u00ee\u00f0\u00f2\u00f4\u00f6"
                    "\u00f8\u00fa\u00fc\u00fe\u4e2d]{1,9}!"}, /* 17 */
    {GRAMMAR_REGEX, "\\p{L}{1,9}!"},
    {GRAMMAR_REGEX, "[a-z\u00e9][a-z\u00e9][a-z\u4e2d][a-z\u4e2d]!"},
    {GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\"}"},
    {GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 25}"},
    {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"^[^x]*$\", \"maxLength\": 26, \"type\": \"string\"}"},
    {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"^.{1,30}$\", \"type\": \"string\"}"},
    {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"a!\", \"type\": \"string\"}"},
    {GRAMMAR_GBNF, "root ::= [^x\"]* call?\ncall ::= \"\\\"\" root \"\\\"\""},
    {GRAMMAR_GBNF, "root ::= ([^x\"] | call){1,30} \"x\"\ncall ::= \"\\\"\" root \"\\\"\""},
    {GRAMMAR_GBNF, "root ::= [a-z\u00e9]+ rest\nrest ::= [\u00e9!]*"},
};

/* Texts that a mask is asked behind; where a grammar refuses one there is nothing to ask. */
static const char *const behind[] = {
    "",
    "a",
    "\xc3",
    "\xc3\xa9",
    "\xe4",
    "\xe4\xb8",
    "a\xe4\xb8\xad",
    "\xf0",
    "\xf0\x9f",
    "\xf0\x9f\x98",
    "a\xf0\x9f\x98\x80",
    "aa",
    "aaa",
    "a!",
    "aaaaaaa",
    "aaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaa\xe4",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
    "\"",
    "\"a",
    "\"\xe4\xb8",
    "\"aa\xc3\xa9",
    "\"aaaaaaaaaaaaaaaaaaaaaaa",
    "a\"",
};

START_TEST(masks_of_all_characters_are_exact) {
    struct grammar_vocabulary *vocabulary = vocabulary_of();
    struct grammar *grammar = grammar_check_kind(forms[_i].kind, forms[_i].text, vocabulary);
    unsigned n_asked = 0;
    for (unsigned i = 0; i < sizeof behind / sizeof *behind; i++) {
        struct grammar_state *state;
        struct span text = span_of(behind[i]);
        size_t n_followed = 0;
        if (!grammar_check_begins(grammar, text))
            continue;
        ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
        ck_assert_int_eq(grammar_follow(state, text, &n_followed), STATUS_OK);
        grammar_check_mask(state, vocabulary);
        grammar_state_free(state);
        n_asked++;
    }
    ck_assert_uint_ge(n_asked, 4);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(walks_over_all_characters_have_exact_masks) {
    struct grammar_vocabulary *vocabulary = vocabulary_of();
    struct grammar *grammar = grammar_check_kind(forms[_i].kind, forms[_i].text, vocabulary);
    char out[2048];
    bool is_whole;
    grammar_check_walk(grammar, vocabulary, (uint64_t)_i + 1, 12, out, sizeof out, &is_whole);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* What a subtree says, against its tokens' texts. */
static void check_subtree(const struct grammar_vocabulary *vocabulary,
                          const struct subtree *subtree) {
    const struct token_node *node = &vocabulary->nodes[subtree->node];
    uint64_t ascii[2] = {0};
    bool has_points = false;
    uint16_t n_longest = 0;
    for (uint32_t i = subtree->first; i < subtree->first + subtree->n; i++) {
        struct span text = grammar_vocabulary_bytes(vocabulary, vocabulary->subtrees.order[i]);
        uint16_t n_chars = 0;
        for (size_t k = 0; k < text.n; k++) {
            uint8_t byte = (uint8_t)text.bytes[k];
            n_chars = (uint16_t)(n_chars + ((byte & 0xc0) != 0x80));
            if (k + 1 < node->depth)
                continue;
            if (byte < 0x80)
                ascii[byte / 64] |= UINT64_C(1) << byte % 64;
            has_points |= byte >= 0x80;
        }
        ck_assert_uint_eq(vocabulary->subtrees.n_chars[i], n_chars);
        n_longest = n_chars > n_longest ? n_chars : n_longest;
    }
    ck_assert_uint_eq(subtree->ascii[0], ascii[0]);
    ck_assert_uint_eq(subtree->ascii[1], ascii[1]);
    ck_assert_int_eq(subtree->has_points, has_points);
    ck_assert_uint_eq(subtree->n_longest, n_longest);
}

START_TEST(subtrees_are_told_from_eight_nodes_on) {
    struct grammar_vocabulary *vocabulary = vocabulary_of();
    const struct subtrees *subtrees = &vocabulary->subtrees;
    uint32_t next = 0;
    uint32_t n_told = 0;
    for (uint32_t i = 1; i < vocabulary->n_nodes; i++) {
        const struct subtree *subtree = subtree_of(subtrees, &next, i);
        uint32_t n_nodes = vocabulary->nodes[i].skip - i;
        uint32_t found = subtrees_find(subtrees, i);
        ck_assert(found == subtrees->n || subtrees->at[found].node >= i);
        ck_assert(found == 0 || subtrees->at[found - 1].node < i);
        if (!subtree)
            continue;
        ck_assert_uint_ge(n_nodes, SUBTREE_NODES);
        check_subtree(vocabulary, subtree);
        n_told++;
    }
    ck_assert_uint_eq(n_told, subtrees->n);
    ck_assert_uint_gt(n_told, 20);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* Whether "a", with so many more letters below it and `more`, is told. */
static bool is_told(unsigned n_below, const char *more) {
    struct grammar_vocabulary *vocabulary;
    struct error error = {0};
    uint32_t next = 0;
    char word[3] = "a";
    texts.n = 0;
    add("a", 1);
    add_joined("a", more, "");
    for (unsigned i = 0; i < n_below; i++) {
        word[1] = (char)('a' + i);
        add(word, 2);
    }
    ck_assert_int_eq(grammar_vocabulary_new(texts.spans, NULL, texts.n, 1, &vocabulary, &error),
                     STATUS_OK);
    bool is = subtree_of(&vocabulary->subtrees, &next, 1) != NULL;
    grammar_vocabulary_free(vocabulary);
    return is;
}

START_TEST(subtrees_are_utf_8) {
    ck_assert(!is_told(6, ""));
    ck_assert(is_told(7, ""));
    ck_assert(is_told(7, "\xc3"));
    ck_assert(is_told(7, "\xed\x9f\xbf"));
    ck_assert(!is_told(7, "\x80"));
    ck_assert(!is_told(7, "\xed\xa0"));
    ck_assert(!is_told(7, "\xc3\xa9\xa9"));
    ck_assert(!is_told(7, "\xe4\xb8"
                          "a"));
    ck_assert(!is_told(7, "\xff"));
}
END_TEST

/* Items that the vocabulary keeps behind the first mask of an expression, but for the mask. */
static uint64_t kept_for(const char *expression) {
    struct grammar_vocabulary *vocabulary = vocabulary_of();
    struct grammar *grammar = grammar_check_kind(GRAMMAR_REGEX, expression, vocabulary);
    struct grammar_state *state;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    grammar_check_mask(state, vocabulary);
    uint64_t n_items = store_figures(&vocabulary->store).n_items;
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
    return n_items - 1;
}

START_TEST(bounded_repetitions_share_a_run_whatever_follows) {
    ck_assert_uint_eq(kept_for("[^x]{0,40}"), 1);
    ck_assert_uint_eq(kept_for("[^x]*"), 1);
    ck_assert_uint_eq(kept_for("[a-z]{0,40}"), 1);
    ck_assert_uint_eq(kept_for("[^x!]{0,40}!"), 1);
    /* The run says how far it goes; what has two readings has a view. */
    ck_assert_uint_eq(kept_for("[^x]{0,40}!"), 2);
}
END_TEST

void suite_add(TCase *tests) {
    enum { N_FORMS = sizeof forms / sizeof *forms };
    tcase_add_loop_test(tests, masks_of_all_characters_are_exact, 0, N_FORMS);
    tcase_add_loop_test(tests, walks_over_all_characters_have_exact_masks, 0, N_FORMS);
    tcase_add_test(tests, subtrees_are_told_from_eight_nodes_on);
    tcase_add_test(tests, subtrees_are_utf_8);
    tcase_add_test(tests, bounded_repetitions_share_a_run_whatever_follows);
}
