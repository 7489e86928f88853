#include "tests/support/grammar_check.h"

#include "tests/support/suite.h"

#include <stdlib.h>

static const char *const pieces[] = {"{\"",
                                     "\":",
                                     "\": \"",
                                     "\", \"",
                                     "\"}",
                                     "\"},",
                                     "},",
                                     "}}",
                                     "]}",
                                     "[\"",
                                     "[[",
                                     "[{",
                                     "\",",
                                     ": ",
                                     ", ",
                                     "  ",
                                     "\n",
                                     "\n  ",
                                     "true",
                                     "false",
                                     "null",
                                     "name",
                                     "age",
                                     "value",
                                     "12",
                                     "123",
                                     "0.",
                                     "-1",
                                     "e+",
                                     "hello",
                                     " the",
                                     "abc",
                                     "abca",
                                     "ab",
                                     "aa",
                                     "aaa",
                                     "\\\"",
                                     "\\n",
                                     "\\u",
                                     "00e9",
                                     "\xc3",
                                     "\xc3\xa9",
                                     "\xa9"
                                     "a",
                                     "\xf0\x9f",
                                     "\xf0\x9f\x98\x80",
                                     "2024-",
                                     "-01",
                                     "T1",
                                     "call",
                                     "<th",
                                     "ink>",
                                     "</",
                                     "x\"",
                                     "x\",\"y",
                                     "a\"}",
                                     "if",
                                     "(",
                                     "))",
                                     "*** ",
                                     "Begin",
                                     "hello",
                                     "ab"};

struct grammar_vocabulary *grammar_check_vocabulary(void) {
    enum { N_PIECES = sizeof pieces / sizeof *pieces, N = 256 + N_PIECES + 3 };
    static char bytes[256];
    struct span texts[N];
    bool is_special[N] = {false};
    struct grammar_vocabulary *vocabulary;
    struct error error = {0};
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (struct span){&bytes[i], 1};
    }
    for (unsigned i = 0; i < N_PIECES; i++)
        texts[256 + i] = span_of(pieces[i]);
    texts[N - 3] = SPAN(""); /* a token without bytes */
    texts[N - 2] = SPAN("<|call|>");
    texts[N - 1] = SPAN("<think>");
    is_special[N - 2] = is_special[N - 1] = true;
    ck_assert_int_eq(
        grammar_vocabulary_new(texts, is_special, N, (size_t)8 << 20, &vocabulary, &error),
        STATUS_OK);
    return vocabulary;
}

struct grammar *grammar_check_compile(const struct grammar_part *part,
                                      struct grammar_vocabulary *vocabulary) {
    struct grammar *grammar = NULL;
    struct error error = {0};
    enum status status = grammar_compile(part, vocabulary, &grammar_limits, &grammar, &error);
    ck_assert_msg(status == STATUS_OK, "%s: %s", status_name(status), error.text);
    return grammar;
}

struct grammar *grammar_check_kind(enum grammar_kind kind, const char *text,
                                   struct grammar_vocabulary *vocabulary) {
    return grammar_check_compile(&(struct grammar_part){.kind = kind, .text = span_of(text)},
                                 vocabulary);
}

enum status grammar_check_refused(enum grammar_kind kind, const char *text, struct error *error) {
    struct grammar_part part = {.kind = kind, .text = span_of(text)};
    struct grammar *grammar;
    *error = (struct error){0};
    enum status status = grammar_compile(&part, NULL, &grammar_limits, &grammar, error);
    ck_assert_msg(status != STATUS_OK, "was taken: %s", text);
    ck_assert_msg(error->text[0] != 0, "no line for: %s", text);
    return status;
}

static bool follow(struct grammar *grammar, struct span text, bool wants_end) {
    struct grammar_state *state;
    size_t n;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    enum status status = grammar_follow(state, text, &n);
    ck_assert(status == STATUS_OK || status == STATUS_CONFLICT);
    ck_assert(status != STATUS_OK || n == text.n);
    bool is_in = status == STATUS_OK && (!wants_end || grammar_may_end(state));
    grammar_state_free(state);
    return is_in;
}

bool grammar_check_takes(struct grammar *grammar, struct span text) {
    return follow(grammar, text, true);
}

bool grammar_check_begins(struct grammar *grammar, struct span text) {
    return follow(grammar, text, false);
}

unsigned grammar_check_mask(struct grammar_state *state,
                            const struct grammar_vocabulary *vocabulary) {
    const struct grammar_mask *mask;
    struct grammar_state *copy;
    unsigned n_allowed = 0;
    ck_assert_int_eq(grammar_mask(state, &mask), STATUS_OK);
    for (uint32_t token = 0; token < vocabulary->n_tokens; token++) {
        enum status status = grammar_state_copy(state, &copy);
        if (status != STATUS_OK) /* an assertion for each would take most of the time */
            ck_abort_msg("no copy: %s", status_name(status));
        status = grammar_accept(copy, token);
        bool is_known = status == STATUS_OK || status == STATUS_CONFLICT;
        if (!is_known || (status == STATUS_OK) != grammar_mask_has(mask, token))
            ck_abort_msg("token %u: alone %s, in the mask %d", token, status_name(status),
                         grammar_mask_has(mask, token));
        n_allowed += status == STATUS_OK;
        grammar_state_free(copy);
    }
    ck_assert_uint_eq(grammar_mask_n_allowed(mask), n_allowed);
    grammar_mask_unref(mask);
    return n_allowed;
}

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

void grammar_check_walk(struct grammar *grammar, struct grammar_vocabulary *vocabulary,
                        uint64_t seed, unsigned n_steps, char *out, size_t size, bool *is_whole) {
    struct grammar_state *state;
    size_t n = 0;
    ck_assert_int_eq(grammar_state_new(grammar, 4, &state), STATUS_OK);
    for (unsigned step = 0; step < n_steps; step++) {
        const struct grammar_mask *mask;
        unsigned n_allowed = grammar_check_mask(state, vocabulary);
        bool ends = grammar_may_end(state) && (n_allowed == 0 || draw(&seed) % 3 == 0);
        ck_assert_int_eq(grammar_must_end(state), grammar_may_end(state) && n_allowed == 0);
        ck_assert_msg(n_allowed > 0 || grammar_may_end(state), "a state without a way out");
        if (ends)
            break;
        ck_assert_int_eq(grammar_mask(state, &mask), STATUS_OK);
        unsigned nth = (unsigned)(draw(&seed) % n_allowed);
        uint32_t token = 0;
        for (;; token++)
            if (grammar_mask_has(mask, token) && nth-- == 0)
                break;
        grammar_mask_unref(mask);
        struct span text = grammar_vocabulary_bytes(vocabulary, token);
        if (n + text.n >= size)
            break;
        ck_assert_int_eq(grammar_accept(state, token), STATUS_OK);
        memcpy(out + n, text.bytes, text.n);
        n += text.n;
    }
    out[n] = 0;
    *is_whole = grammar_may_end(state);
    grammar_state_free(state);
}
