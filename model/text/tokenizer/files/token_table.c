#include "model/text/tokenizer/files/token_table.h"

#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdlib.h>

#define FIRST_SIZE 4096u

enum status token_table_reach(struct token_table *table, uint64_t id, struct error *error) {
    uint32_t size = table->size ? table->size : FIRST_SIZE;
    if (id >= VOCABULARY_TOKENS_MAX)
        return error_set(error, STATUS_LIMIT, "token id %llu; ids below %u are read",
                         (unsigned long long)id, VOCABULARY_TOKENS_MAX);
    while (size <= id)
        size *= 2;
    if (size > table->size) {
        struct span *tokens = calloc(size, sizeof *tokens);
        uint8_t *kinds = malloc(size);
        uint8_t *flags = calloc(size, 1);
        if (!tokens || !kinds || !flags) {
            free(tokens);
            free(kinds);
            free(flags);
            return error_set(error, STATUS_NOMEM, "no memory for a vocabulary");
        }
        memset(kinds, TOKEN_UNUSED, size);
        for (uint32_t i = 0; i < table->n_tokens; i++) {
            tokens[i] = table->tokens[i];
            kinds[i] = table->kinds[i];
            flags[i] = table->flags[i];
        }
        token_table_fini(&(struct token_table){
            .tokens = table->tokens, .kinds = table->kinds, .flags = table->flags});
        table->tokens = tokens;
        table->kinds = kinds;
        table->flags = flags;
        table->size = size;
    }
    if (table->n_tokens <= id)
        table->n_tokens = (uint32_t)id + 1;
    return STATUS_OK;
}

static bool token_table_is_taken(const struct token_table *table, uint64_t id) {
    return id < table->n_tokens && table->kinds[id] != TOKEN_UNUSED;
}

enum status token_table_put(struct token_table *table, uint64_t id, struct span text,
                            struct error *error) {
    if (token_table_is_taken(table, id)) {
        struct span other = table->tokens[id];
        return error_set(error, STATUS_CORRUPT, "id %llu is both \"%.*s\" and \"%.*s\"",
                         (unsigned long long)id, span_shown(other), other.bytes, span_shown(text),
                         text.bytes);
    }
    TRY(token_table_reach(table, id, error));
    table->tokens[id] = text;
    table->kinds[id] = TOKEN_NORMAL;
    return STATUS_OK;
}

enum status token_table_add(struct token_table *table, const struct tokenizer_added *added,
                            struct error *error) {
    struct span text = added->content;
    uint32_t id = added->id;
    if (token_table_is_taken(table, id)) {
        struct span other = table->tokens[id];
        if (other.n != text.n || memcmp(other.bytes, text.bytes, text.n) != 0)
            return error_set(error, STATUS_CORRUPT,
                             "added token %u is \"%.*s\" here and \"%.*s\" "
                             "there",
                             id, span_shown(text), text.bytes, span_shown(other), other.bytes);
    } else {
        TRY(token_table_put(table, id, text, error));
    }
    table->kinds[id] =
        vocabulary_kind(text, added->is_special ? TOKEN_CONTROL : TOKEN_USER_DEFINED);
    table->flags[id] = added->flags;
    return STATUS_OK;
}

enum status token_table_add_extras(struct token_table *table, const struct tokenizer_extras *extras,
                                   struct error *error) {
    for (size_t i = 0; i < extras->n_added; i++) {
        uint32_t id = extras->added[i].id;
        bool is_known = id < table->n_tokens && (table->kinds[id] == TOKEN_CONTROL ||
                                                 table->kinds[id] == TOKEN_USER_DEFINED);
        if (!is_known)
            TRY(token_table_add(table, &extras->added[i], error));
    }
    return STATUS_OK;
}

uint32_t token_table_find(const struct token_table *table, struct span text) {
    if (text.n == 0)
        return TOKEN_NONE;
    for (uint32_t id = 0; id < table->n_tokens; id++) {
        struct span token = table->tokens[id];
        if (span_equal(token, text))
            return id;
    }
    return TOKEN_NONE;
}

struct tokenizer_tokens token_table_tokens(const struct token_table *table) {
    return (struct tokenizer_tokens){.texts = table->tokens,
                                     .kinds = table->kinds,
                                     .flags = table->flags,
                                     .n = table->n_tokens,
                                     .bos_id = TOKEN_NONE,
                                     .eos_id = TOKEN_NONE};
}

void token_table_fini(struct token_table *table) {
    if (!table)
        return;
    free(table->tokens);
    free(table->kinds);
    free(table->flags);
    *table = (struct token_table){0};
}
