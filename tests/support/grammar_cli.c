/* tests/support/grammar_cli.c: grammars asked from outside, for the oracle (tests/e2e/grammar_oracle.py).
 *
 * usage: grammar_cli [MODEL]
 * Tokens are MODEL's (what tokenizer_open_path() takes), or else every byte is one.
 *
 * Each line of standard input is a JSON object: "kind" ("json_schema", "json_object", "regex", "lark", "gbnf", "ebnf"), "text",
 * "lenient", "texts" (strings), "begins" (strings, which may be beginnings), "walks" (how many texts are drawn), "masks" (how many masks are compared with what each
 * token alone says, on walks), "seed". It is answered with {"status", "error"} or {"takes": [0 or 1 for each of texts],
 * "begins" (the same), "walks": [{"text", "whole"}], "masks": [what is wrong, a text each], "unenforced": n, "us": of the compiler's time}. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/vocabulary.h"
#include "model/text/tokenizer/tokenizer.h"
#include "tests/support/json_lines.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS_MAX 400u /* tokens of a walk */

/* Every byte is a token. */
static struct grammar_vocabulary *bytes_as_tokens(void) {
    static char bytes[256];
    static const bool is_special[256];
    struct span texts[256];
    struct grammar_vocabulary *vocabulary = NULL;
    struct error error;
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (struct span){&bytes[i], 1};
    }
    if (grammar_vocabulary_new(texts, is_special, 256, (size_t)8 << 20, &vocabulary, &error) !=
        STATUS_OK)
        exit(1);
    return vocabulary;
}

/* Whether a text is whole, or begins one that is. */
static bool takes(struct grammar *grammar, struct span text, bool begins) {
    struct grammar_state *state;
    size_t n;
    if (grammar_state_new(grammar, 0, &state) != STATUS_OK)
        exit(1);
    bool is_in = grammar_follow(state, text, &n) == STATUS_OK && (begins || grammar_may_end(state));
    grammar_state_free(state);
    return is_in;
}

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static enum grammar_kind kind_of(const char *name) {
    static const struct {
        const char *name;
        enum grammar_kind kind;
    } kinds[] = {{"json_schema", GRAMMAR_JSON_SCHEMA},
                 {"json_object", GRAMMAR_JSON_OBJECT},
                 {"regex", GRAMMAR_REGEX},
                 {"lark", GRAMMAR_LARK},
                 {"gbnf", GRAMMAR_GBNF},
                 {"ebnf", GRAMMAR_EBNF}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name && strcmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    return GRAMMAR_KINDS;
}

/* A token that the mask has: one that closes something, if that is wished and there is one. */
static uint32_t pick(const struct grammar_mask *mask, const struct grammar_vocabulary *vocabulary,
                     bool closes, uint64_t *seed) {
    for (int pass = closes ? 0 : 1; pass < 2; pass++) {
        uint32_t n = 0, chosen = 0;
        for (uint32_t token = 0; token < vocabulary->n_tokens; token++) {
            struct span text = grammar_vocabulary_bytes(vocabulary, token);
            bool fits = grammar_mask_has(mask, token) && text.n > 0 &&
                        (pass == 1 || memchr("\"}],", text.bytes[0], 4));
            if (fits && draw(seed) % ++n == 0)
                chosen = token;
        }
        if (n > 0)
            return chosen;
    }
    return UINT32_MAX;
}

static json_t *walk(struct grammar *grammar, const struct grammar_vocabulary *vocabulary,
                    uint64_t *seed) {
    struct grammar_state *state;
    const struct grammar_mask *mask;
    static char text[1 << 16];
    size_t n = 0;
    if (grammar_state_new(grammar, 0, &state) != STATUS_OK)
        return json_null();
    for (unsigned step = 0; step < STEPS_MAX; step++) {
        if (grammar_may_end(state) && draw(seed) % 3 == 0)
            break;
        if (grammar_mask(state, &mask) != STATUS_OK)
            break;
        bool closes = draw(seed) % 4 != 0; /* mostly, so that texts end */
        uint32_t token = pick(mask, vocabulary, closes, seed);
        grammar_mask_unref(mask);
        if (token == UINT32_MAX || grammar_accept(state, token) != STATUS_OK)
            break;
        struct span bytes = grammar_vocabulary_bytes(vocabulary, token);
        if (bytes.n > sizeof text - n)
            break;
        memcpy(text + n, bytes.bytes, bytes.n);
        n += bytes.n;
    }
    json_t *is_whole = json_boolean(grammar_may_end(state));
    json_t *said = json_stringn(text, n); /* NULL: cut within a character */
    grammar_state_free(state);
    return json_pack("{s:o, s:o}", "text", said ? said : json_null(), "whole", is_whole);
}

/* The first token of which a state's mask does not say what the token alone does; UINT32_MAX: none. */
static uint32_t first_wrong(struct grammar_state *state, const struct grammar_mask *mask,
                            const struct grammar_vocabulary *vocabulary) {
    for (uint32_t token = 0; token < vocabulary->n_tokens; token++) {
        enum status status = grammar_accept(state, token);
        if (status == STATUS_OK && grammar_back(state, 1) != STATUS_OK)
            exit(1);
        if ((status == STATUS_OK) != grammar_mask_has(mask, token) ||
            (status != STATUS_OK && status != STATUS_CONFLICT))
            return token;
    }
    return UINT32_MAX;
}

/* Compares n masks, on walks of which few end early; answers what was wrong. */
static json_t *compare_masks(struct grammar *grammar, const struct grammar_vocabulary *vocabulary,
                             json_int_t n, uint64_t *seed) {
    json_t *wrong = json_array();
    struct grammar_state *state;
    const struct grammar_mask *mask;
    if (grammar_state_new(grammar, 1, &state) != STATUS_OK)
        exit(1);
    for (json_int_t i = 0; i < n; i++) {
        if (grammar_mask(state, &mask) != STATUS_OK)
            exit(1);
        uint32_t token = first_wrong(state, mask, vocabulary);
        if (token != UINT32_MAX)
            json_array_append_new(wrong,
                                  json_sprintf("mask %d: token %u is %s it", (int)i, token,
                                               grammar_mask_has(mask, token) ? "in" : "not in"));
        bool closes = draw(seed) % 8 == 0;
        token = pick(mask, vocabulary, closes, seed);
        grammar_mask_unref(mask);
        if (token == UINT32_MAX || grammar_accept(state, token) != STATUS_OK)
            grammar_reset(state);
    }
    grammar_state_free(state);
    return wrong;
}

/* What is taken of the texts under a name of the line: 0 or 1 for each. */
static json_t *take_all(struct grammar *grammar, const json_t *line, const char *name) {
    const json_t *texts = json_object_get(line, name);
    json_t *taken = json_array();
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        struct span bytes = {json_string_value(text), json_string_length(text)};
        bool is_in = takes(grammar, bytes, strcmp(name, "begins") == 0);
        json_array_append_new(taken, json_integer(is_in));
    }
    return taken;
}

static json_t *use(struct grammar *grammar, const struct grammar_vocabulary *vocabulary,
                   const json_t *line) {
    json_t *walks = json_array();
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(line, "seed"));
    size_t n_unenforced = 0;
    for (json_int_t i = 0; i < json_integer_value(json_object_get(line, "walks")); i++)
        json_array_append_new(walks, walk(grammar, vocabulary, &seed));
    json_int_t n_masks = json_integer_value(json_object_get(line, "masks"));
    json_t *wrong = compare_masks(grammar, vocabulary, n_masks, &seed);
    while (grammar_unenforced(grammar, n_unenforced))
        n_unenforced++;
    return json_pack("{s:o, s:o, s:o, s:o, s:I}", "takes", take_all(grammar, line, "texts"),
                     "begins", take_all(grammar, line, "begins"), "walks", walks, "masks", wrong,
                     "unenforced", (json_int_t)n_unenforced);
}

static json_t *answer(void *context, const json_t *line) {
    struct grammar_vocabulary *vocabulary = context;
    const json_t *text = json_object_get(line, "text");
    const struct grammar_part part = {.kind =
                                          kind_of(json_string_value(json_object_get(line, "kind"))),
                                      .lenient = json_is_true(json_object_get(line, "lenient")),
                                      .text = {json_string_value(text), json_string_length(text)}};
    struct error error = {.text = "no such kind"};
    struct grammar *grammar;
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    enum status status =
        part.kind == GRAMMAR_KINDS
            ? STATUS_INVALID
            : grammar_compile(&part, vocabulary, &grammar_limits, &grammar, &error);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    if (status != STATUS_OK)
        return json_pack("{s:s, s:s}", "status", status_name(status), "error", error.text);
    json_t *reply = use(grammar, vocabulary, line);
    double us =
        (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
    json_object_set_new(reply, "us", json_real(us));
    grammar_unref(grammar);
    return reply;
}

static struct grammar_vocabulary *tokens_of(const char *model) {
    struct grammar_vocabulary *vocabulary = NULL;
    struct tokenizer *tokenizer = NULL;
    struct error error = {0};
    if (tokenizer_open_path(model, &tokenizer, &error) != STATUS_OK ||
        grammar_vocabulary_of(tokenizer, (size_t)64 << 20, &vocabulary, &error) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", model, error.text);
        exit(1);
    }
    tokenizer_close(tokenizer);
    return vocabulary;
}

int main(int argc, char **argv) {
    struct grammar_vocabulary *vocabulary = argc > 1 ? tokens_of(argv[1]) : bytes_as_tokens();
    bool done = json_lines(answer, vocabulary);
    grammar_vocabulary_free(vocabulary);
    return done ? 0 : 1;
}
