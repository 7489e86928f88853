/* Any bytes as a grammar of one notation (GRAMMAR_OF). What is compiled is walked under masks: an allowed
 * token is accepted, another is not, there is always a way on or an end, setting back leads where it
 * was, and the text says the same byte by byte. What is not compiled has a line that says why. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/vocabulary.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_STEPS 24u

static struct grammar_vocabulary *vocabulary; /* lives as long as the process */

static const struct grammar_limits limits = {
    .n_bytes = 4096,
    .depth = 24,
    .n_nodes = 20000,
    .n_steps = 200000,
    .n_bytes_kept = (size_t)2 << 20,
    .n_frames = 2048,
    .n_threads = 64,
    .n_mask_steps = 200000,
};

static void require(bool fact) {
    if (!fact)
        abort();
}

static void make_vocabulary(void) {
    static const char *const pieces[] = {"{\"",  "\":",  "\", \"",   "\"}",  "}}",   "[[",
                                         "12",   "0.",   "true",     "ab",   "aaa",  "\\u",
                                         "\\\"", "\xc3", "\xc3\xa9", "\n  ", "a\"}", "<|call|>"};
    enum { N_PIECES = sizeof pieces / sizeof *pieces, N = 256 + N_PIECES };
    static char bytes[256];
    struct span texts[N];
    bool is_special[N] = {false};
    struct error error;
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (struct span){&bytes[i], 1};
    }
    for (unsigned i = 0; i < N_PIECES; i++)
        texts[256 + i] = span_of(pieces[i]);
    is_special[N - 1] = true;
    require(grammar_vocabulary_new(texts, is_special, N, (size_t)1 << 20, &vocabulary, &error) ==
            STATUS_OK);
}

static uint32_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* The nth token that a mask allows, or (`is_in` false) forbids; answers GRAMMAR_TOKEN_NONE without any. */
static uint32_t pick(const struct grammar_mask *mask, bool is_in, uint32_t n_of, uint64_t *seed) {
    uint32_t nth = n_of > 0 ? draw(seed) % n_of : 0;
    for (uint32_t token = 0; n_of > 0; token++)
        if (grammar_mask_has(mask, token) == is_in && nth-- == 0)
            return token;
    return GRAMMAR_TOKEN_NONE;
}

/* One token more, which may be a bound's end (false). */
static bool step(struct grammar_state *state, uint64_t *seed, uint32_t *token) {
    const struct grammar_mask *mask;
    uint64_t before[2];
    uint64_t after[2];
    enum status status = grammar_mask(state, &mask);
    require(status == STATUS_OK || status == STATUS_LIMIT);
    if (status != STATUS_OK)
        return false;
    uint32_t n_allowed = grammar_mask_n_allowed(mask);
    *token = pick(mask, true, n_allowed, seed);
    uint32_t other = pick(mask, false, vocabulary->n_tokens - n_allowed, seed);
    grammar_mask_unref(mask);
    require(n_allowed > 0 || grammar_may_end(state));
    require(grammar_must_end(state) == (grammar_may_end(state) && n_allowed == 0));
    grammar_state_key(state, before);
    if (other != GRAMMAR_TOKEN_NONE) {
        status = grammar_accept(state, other);
        require(status == STATUS_CONFLICT || status == STATUS_LIMIT);
    }
    if (n_allowed == 0)
        return false;
    status = grammar_accept(state, *token);
    require(status == STATUS_OK || status == STATUS_LIMIT);
    if (status != STATUS_OK)
        return false;
    require(grammar_back(state, 1) == STATUS_OK);
    grammar_state_key(state, after);
    require(memcmp(before, after, sizeof before) == 0);
    return grammar_accept(state, *token) == STATUS_OK;
}

/* What a schema let be written is JSON. Numbers may be beyond what jansson keeps, and it takes no name
 * twice into account and no \u0000. */
static void check_json(const char *text, size_t n) {
    json_error_t error;
    json_t *value =
        json_loadb(text, n, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
    require(value || strstr(error.text, "overflow") || strstr(error.text, "out of range") ||
            json_error_code(&error) == json_error_null_byte_in_key ||
            json_error_code(&error) == json_error_stack_overflow);
    json_decref(value);
}

static void walk(struct grammar *grammar, uint64_t seed) {
    struct grammar_state *state;
    struct grammar_state *again;
    char text[N_STEPS * 16];
    size_t n = 0;
    bool has_special = false;
    uint32_t token;
    require(grammar_state_new(grammar, 1, &state) == STATUS_OK);
    for (unsigned i = 0; i < N_STEPS && step(state, &seed, &token); i++) {
        struct span bytes = grammar_vocabulary_bytes(vocabulary, token);
        has_special |= vocabulary->is_special[token];
        memcpy(text + n, bytes.bytes, bytes.n);
        n += bytes.n;
    }
    if (!has_special) {
        size_t n_followed;
        require(grammar_state_new(grammar, 0, &again) == STATUS_OK);
        enum status status = grammar_follow(again, (struct span){text, n}, &n_followed);
        require(status == STATUS_OK || status == STATUS_LIMIT);
        require(status != STATUS_OK || grammar_may_end(again) == grammar_may_end(state));
        grammar_state_free(again);
    }
    if (GRAMMAR_OF == GRAMMAR_JSON_SCHEMA && grammar_may_end(state))
        check_json(text, n);
    grammar_state_free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct grammar *grammar;
    if (!vocabulary)
        make_vocabulary();
    for (int lenient = 0; lenient <= (GRAMMAR_OF == GRAMMAR_JSON_SCHEMA); lenient++) {
        struct error error = {0};
        struct grammar_part part = {
            .kind = GRAMMAR_OF, .text = {(const char *)data, size}, .lenient = lenient != 0};
        if (grammar_compile(&part, vocabulary, &limits, &grammar, &error) != STATUS_OK) {
            require(error.text[0] != 0);
            continue;
        }
        for (uint64_t seed = 1; seed <= 2; seed++)
            walk(grammar, seed * 7919 + size);
        grammar_unref(grammar);
    }
    return 0;
}
