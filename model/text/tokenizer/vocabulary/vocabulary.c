#include "model/text/tokenizer/vocabulary/vocabulary.h"

#include "base/assert.h"
#include "base/hex.h"
#include "base/random.h"

#include <stdlib.h>
#include <xxhash.h>

static bool vocabulary_is_special(uint8_t kind) {
    return kind == TOKEN_CONTROL || kind == TOKEN_USER_DEFINED || kind == TOKEN_UNKNOWN;
}

static bool vocabulary_is_between(struct span text, struct span begin, struct span end) {
    return text.n > begin.n + end.n && memcmp(text.bytes, begin.bytes, begin.n) == 0 &&
           memcmp(text.bytes + text.n - end.n, end.bytes, end.n) == 0;
}

uint8_t vocabulary_kind(struct span text, uint8_t kind) {
    /* DeepSeek's bars are U+FF5C. */
    bool is_marker = vocabulary_is_between(text, SPAN("<|"), SPAN("|>")) ||
                     vocabulary_is_between(text, SPAN("<\xef\xbd\x9c"), SPAN("\xef\xbd\x9c>"));
    return kind == TOKEN_USER_DEFINED && is_marker ? TOKEN_CONTROL : kind;
}

static enum status vocabulary_copy_tokens(struct vocabulary *vocabulary, const struct span *tokens,
                                          const uint8_t *kinds, const uint8_t *flags, uint32_t n,
                                          struct error *error) {
    size_t total = 0;
    if (n == 0 || n > VOCABULARY_TOKENS_MAX)
        return error_set(error, STATUS_LIMIT, "a vocabulary of %u tokens; 1 to %u are read", n,
                         VOCABULARY_TOKENS_MAX);
    for (uint32_t id = 0; id < n; id++) {
        if (tokens[id].n > VOCABULARY_BYTES_MAX)
            return error_set(error, STATUS_LIMIT, "token %u has %zu bytes, at most %u are read", id,
                             tokens[id].n, VOCABULARY_BYTES_MAX);
        if (kinds[id] < TOKEN_NORMAL || kinds[id] > TOKEN_BYTE)
            return error_set(error, STATUS_CORRUPT, "token %u has the unknown type %u", id,
                             kinds[id]);
        total += tokens[id].n; /* at most 2^20 * 2^10 */
    }
    vocabulary->bytes = malloc(total + 1);
    vocabulary->offsets = calloc((size_t)n + 1, sizeof *vocabulary->offsets);
    vocabulary->kinds = malloc(n);
    vocabulary->flags = calloc(n, 1);
    if (!vocabulary->bytes || !vocabulary->offsets || !vocabulary->kinds || !vocabulary->flags)
        return error_set(error, STATUS_NOMEM, "no memory for a vocabulary of %u tokens", n);
    vocabulary->n_tokens = vocabulary->n_listed = n;
    memcpy(vocabulary->kinds, kinds, n);
    if (flags)
        memcpy(vocabulary->flags, flags, n);
    uint32_t at = 0;
    for (uint32_t id = 0; id < n; id++) {
        vocabulary->offsets[id] = at;
        if (tokens[id].n > 0)
            memcpy(vocabulary->bytes + at, tokens[id].bytes, tokens[id].n);
        at += (uint32_t)tokens[id].n;
        if (tokens[id].n > vocabulary->n_bytes_max)
            vocabulary->n_bytes_max = (uint32_t)tokens[id].n;
    }
    vocabulary->offsets[n] = at;
    return STATUS_OK;
}

/* The slot that holds the token of these bytes, or the empty slot where it would stand. */
static uint32_t *vocabulary_find_slot(const struct vocabulary *vocabulary, struct span bytes) {
    uint32_t mask = vocabulary->n_slots - 1;
    uint32_t at = (uint32_t)XXH3_64bits_withSeed(bytes.bytes, bytes.n, vocabulary->seed) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t id = vocabulary->slots[at];
        if (id == TOKEN_NONE)
            return &vocabulary->slots[at];
        struct span other = vocabulary_bytes(vocabulary, id);
        if (span_equal(other, bytes))
            return &vocabulary->slots[at];
    }
}

static enum status vocabulary_index_normal(struct vocabulary *vocabulary, struct error *error) {
    vocabulary->n_slots = 16;
    while (vocabulary->n_slots < 2 * vocabulary->n_tokens)
        vocabulary->n_slots *= 2;
    vocabulary->seed = random_seed();
    vocabulary->slots = malloc((size_t)vocabulary->n_slots * sizeof *vocabulary->slots);
    if (!vocabulary->slots)
        return error_set(error, STATUS_NOMEM, "no memory for a vocabulary's index");
    memset(vocabulary->slots, 0xff, (size_t)vocabulary->n_slots * sizeof *vocabulary->slots);
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++) {
        struct span bytes = vocabulary_bytes(vocabulary, id);
        if (vocabulary->kinds[id] != TOKEN_NORMAL || bytes.n == 0)
            continue;
        uint32_t *slot = vocabulary_find_slot(vocabulary, bytes);
        if (*slot != TOKEN_NONE)
            return error_set(error, STATUS_CORRUPT, "tokens %u and %u are the same", *slot, id);
        *slot = id;
    }
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++) {
        struct span bytes = vocabulary_bytes(vocabulary, id);
        if (vocabulary->kinds[id] != TOKEN_USER_DEFINED || bytes.n == 0)
            continue;
        uint32_t *slot = vocabulary_find_slot(vocabulary, bytes);
        if (*slot == TOKEN_NONE)
            *slot = id;
    }
    return STATUS_OK;
}

static enum status vocabulary_index_special(struct vocabulary *vocabulary, struct error *error) {
    size_t n_bytes = 0;
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++)
        if (vocabulary_is_special(vocabulary->kinds[id]))
            n_bytes += vocabulary_bytes(vocabulary, id).n;
    TRY(trie_init(&vocabulary->trie, n_bytes, error));
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++) {
        struct span text = vocabulary_bytes(vocabulary, id);
        if (!vocabulary_is_special(vocabulary->kinds[id]) || text.n == 0)
            continue;
        vocabulary->has_user_defined |= vocabulary->kinds[id] == TOKEN_USER_DEFINED;
        trie_add(&vocabulary->trie, text, id);
    }
    return STATUS_OK;
}

enum status vocabulary_init(struct vocabulary *vocabulary, const struct span *tokens,
                            const uint8_t *kinds, const uint8_t *flags, uint32_t n,
                            struct error *error) {
    *vocabulary = (struct vocabulary){0};
    enum status status = vocabulary_copy_tokens(vocabulary, tokens, kinds, flags, n, error);
    if (status == STATUS_OK)
        status = vocabulary_index_normal(vocabulary, error);
    if (status == STATUS_OK)
        status = vocabulary_index_special(vocabulary, error);
    if (status != STATUS_OK)
        vocabulary_fini(vocabulary);
    return status;
}

void vocabulary_fini(struct vocabulary *vocabulary) {
    if (!vocabulary)
        return;
    free(vocabulary->bytes);
    free(vocabulary->offsets);
    free(vocabulary->kinds);
    free(vocabulary->slots);
    free(vocabulary->flags);
    trie_fini(&vocabulary->trie);
    *vocabulary = (struct vocabulary){0};
}

void vocabulary_limit(struct vocabulary *vocabulary, uint32_t n) {
    ASSERT(n > 0 && n <= vocabulary->n_tokens);
    vocabulary->n_tokens = n;
}

uint32_t vocabulary_find(const struct vocabulary *vocabulary, struct span bytes) {
    uint32_t id = bytes.n == 0 ? TOKEN_NONE : *vocabulary_find_slot(vocabulary, bytes);
    return id < vocabulary->n_tokens ? id : TOKEN_NONE;
}

static bool vocabulary_accept_known(const void *context, uint32_t id) {
    const struct vocabulary *vocabulary = context;
    return id < vocabulary->n_tokens;
}

uint32_t vocabulary_find_special(const struct vocabulary *vocabulary, struct span text) {
    size_t length;
    if (text.n == 0)
        return TOKEN_NONE;
    uint32_t id = trie_match(&vocabulary->trie, text.bytes, text.n, vocabulary_accept_known,
                             vocabulary, &length);
    return id != TOKEN_NONE && length == text.n ? id : TOKEN_NONE;
}

static bool vocabulary_accept_all(const void *context, uint32_t id) {
    const struct vocabulary *vocabulary = context;
    return vocabulary_accept_known(context, id) && !(vocabulary->flags[id] & TOKEN_NORMALIZED);
}

static bool vocabulary_accept_user_defined(const void *context, uint32_t id) {
    const struct vocabulary *vocabulary = context;
    return vocabulary->kinds[id] == TOKEN_USER_DEFINED && vocabulary_accept_all(context, id);
}

uint32_t vocabulary_match_special(const struct vocabulary *vocabulary, const char *text, size_t n,
                                  bool control, size_t *length) {
    return trie_match(&vocabulary->trie, text, n,
                      control ? vocabulary_accept_all : vocabulary_accept_user_defined, vocabulary,
                      length);
}

uint32_t vocabulary_match_beyond(const struct vocabulary *vocabulary, const char *text, size_t n) {
    size_t length;
    if (vocabulary->n_tokens == vocabulary->n_listed)
        return TOKEN_NONE;
    uint32_t id = trie_match(&vocabulary->trie, text, n, NULL, NULL, &length);
    return vocabulary_accept_known(vocabulary, id) ? TOKEN_NONE : id;
}

int vocabulary_byte_token(struct span text) {
    int byte = 0;
    if (text.n != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        int digit = hex_value(text.bytes[i]);
        if (digit < 0)
            return -1;
        byte = byte * 16 + digit;
    }
    return byte;
}
