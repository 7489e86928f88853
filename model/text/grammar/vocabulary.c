#include "model/text/grammar/vocabulary.h"

#include "model/text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* A token and the first bytes of its text, by which most comparisons end. */
struct key {
    uint64_t head; /* big-endian, filled up with zeros */
    uint32_t token;
};

static int grammar_vocabulary_compare_keys(const void *left, const void *right, void *context) {
    const struct grammar_vocabulary *vocabulary = context;
    const struct key *a = left;
    const struct key *b = right;
    if (a->head != b->head)
        return a->head < b->head ? -1 : 1;
    struct span x = grammar_vocabulary_bytes(vocabulary, a->token);
    struct span y = grammar_vocabulary_bytes(vocabulary, b->token);
    size_t n = x.n < y.n ? x.n : y.n;
    int order = n > 0 ? memcmp(x.bytes, y.bytes, n) : 0;
    if (order != 0)
        return order;
    if (x.n != y.n)
        return x.n < y.n ? -1 : 1;
    return a->token < b->token ? -1 : 1;
}

static uint64_t grammar_vocabulary_head_of(struct span text) {
    uint64_t head = 0;
    for (size_t i = 0; i < 8; i++)
        head = head << 8 | (i < text.n ? (uint8_t)text.bytes[i] : 0);
    return head;
}

/* Appends a token's path behind the one before it; `path` (n_bytes_max + 1) holds the nodes of that. */
static void grammar_vocabulary_add_token(struct grammar_vocabulary *vocabulary, uint32_t *path,
                                         uint32_t *depth, struct span before, uint32_t token) {
    struct span text = grammar_vocabulary_bytes(vocabulary, token);
    uint32_t shared = 0;
    while (shared < text.n && shared < before.n && text.bytes[shared] == before.bytes[shared])
        shared++;
    while (*depth > shared)
        vocabulary->nodes[path[(*depth)--]].skip = vocabulary->n_nodes;
    while (*depth < text.n) {
        uint32_t node = vocabulary->n_nodes++;
        vocabulary->nodes[node] = (struct token_node){.token = GRAMMAR_TOKEN_NONE,
                                                      .depth = (uint16_t)(*depth + 1),
                                                      .byte = (uint8_t)text.bytes[*depth]};
        path[++*depth] = node;
    }
    struct token_node *last = &vocabulary->nodes[path[*depth]];
    vocabulary->same[token] = last->token;
    last->token = token;
}

static enum status grammar_vocabulary_build(struct grammar_vocabulary *vocabulary, struct key *keys,
                                            uint32_t n) {
    qsort_r(keys, n, sizeof *keys, grammar_vocabulary_compare_keys, vocabulary);
    uint32_t *path = calloc(vocabulary->n_bytes_max + 1, sizeof *path);
    vocabulary->nodes =
        malloc(((size_t)vocabulary->offsets[vocabulary->n_tokens] + 1) * sizeof *vocabulary->nodes);
    if (!path || !vocabulary->nodes) {
        free(path);
        return STATUS_NOMEM;
    }
    vocabulary->nodes[0] = (struct token_node){.token = GRAMMAR_TOKEN_NONE};
    vocabulary->n_nodes = 1;
    uint32_t depth = 0;
    struct span before = {0};
    for (uint32_t i = 0; i < n; i++) {
        grammar_vocabulary_add_token(vocabulary, path, &depth, before, keys[i].token);
        before = grammar_vocabulary_bytes(vocabulary, keys[i].token);
    }
    for (; depth > 0; depth--)
        vocabulary->nodes[path[depth]].skip = vocabulary->n_nodes;
    vocabulary->nodes[0].skip = vocabulary->n_nodes;
    free(path);
    struct token_node *fitting =
        realloc(vocabulary->nodes, vocabulary->n_nodes * sizeof *vocabulary->nodes);
    if (fitting)
        vocabulary->nodes = fitting;
    return STATUS_OK;
}

static enum status grammar_vocabulary_copy_texts(struct grammar_vocabulary *vocabulary,
                                                 const struct span *texts, const bool *is_special,
                                                 uint32_t n, struct error *error) {
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (texts[i].n > UINT16_MAX)
            return error_set(error, STATUS_LIMIT, "token %u has over %u bytes", i, UINT16_MAX);
        n_bytes += texts[i].n;
    }
    if (n_bytes > UINT32_MAX / 2)
        return error_set(error, STATUS_LIMIT, "the tokens have over 2 GiB");
    vocabulary->n_tokens = n;
    vocabulary->bytes = malloc(n_bytes + 1);
    vocabulary->offsets = malloc(((size_t)n + 1) * sizeof *vocabulary->offsets);
    vocabulary->same = malloc(((size_t)n + 1) * sizeof *vocabulary->same);
    vocabulary->is_special = calloc((size_t)n + 1, sizeof *vocabulary->is_special);
    if (!vocabulary->bytes || !vocabulary->offsets || !vocabulary->same || !vocabulary->is_special)
        return STATUS_NOMEM;
    vocabulary->offsets[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (texts[i].n > 0)
            memcpy(vocabulary->bytes + vocabulary->offsets[i], texts[i].bytes, texts[i].n);
        vocabulary->offsets[i + 1] = vocabulary->offsets[i] + (uint32_t)texts[i].n;
        vocabulary->same[i] = GRAMMAR_TOKEN_NONE;
        vocabulary->is_special[i] = is_special && is_special[i];
        if (!vocabulary->is_special[i] && texts[i].n > vocabulary->n_bytes_max)
            vocabulary->n_bytes_max = (uint32_t)texts[i].n;
    }
    return STATUS_OK;
}

enum status grammar_vocabulary_new(const struct span *texts, const bool *is_special, uint32_t n,
                                   size_t n_bytes_kept, struct grammar_vocabulary **made,
                                   struct error *error) {
    struct grammar_vocabulary *vocabulary = calloc(1, sizeof *vocabulary);
    struct key *keys = calloc((size_t)n + 1, sizeof *keys);
    enum status status = vocabulary && keys ? STATUS_OK : STATUS_NOMEM;
    if (status == STATUS_OK)
        status = grammar_vocabulary_copy_texts(vocabulary, texts, is_special, n, error);
    uint32_t n_keys = 0;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++)
        if (!vocabulary->is_special[i] && texts[i].n > 0)
            keys[n_keys++] = (struct key){
                grammar_vocabulary_head_of(grammar_vocabulary_bytes(vocabulary, i)), i};
    if (status == STATUS_OK)
        status = grammar_vocabulary_build(vocabulary, keys, n_keys);
    if (status == STATUS_OK)
        status = subtrees_init(&vocabulary->subtrees,
                               &(struct subtrees_of){.nodes = vocabulary->nodes,
                                                     .same = vocabulary->same,
                                                     .n_nodes = vocabulary->n_nodes,
                                                     .depth = vocabulary->n_bytes_max});
    if (status == STATUS_OK)
        status = store_init(&vocabulary->store, n_bytes_kept);
    free(keys);
    if (status == STATUS_NOMEM)
        error_set(error, STATUS_NOMEM, "out of memory");
    if (status != STATUS_OK) {
        grammar_vocabulary_free(vocabulary);
        return status;
    }
    *made = vocabulary;
    return STATUS_OK;
}

enum status grammar_vocabulary_of(const struct tokenizer *tokenizer, size_t n_bytes_kept,
                                  struct grammar_vocabulary **vocabulary, struct error *error) {
    uint32_t n = tokenizer_n_tokens(tokenizer);
    struct span *texts = calloc((size_t)n + 1, sizeof *texts);
    bool *is_special = calloc((size_t)n + 1, sizeof *is_special);
    enum status status = STATUS_NOMEM;
    if (texts && is_special) {
        for (uint32_t id = 0; id < n; id++) {
            is_special[id] = tokenizer_is_special(tokenizer, id) ||
                             tokenizer->vocabulary.kinds[id] == TOKEN_UNUSED;
            /* A special token is known by how its file spells it, any other by what it shows. */
            texts[id] = is_special[id] ? vocabulary_bytes(&tokenizer->vocabulary, id)
                                       : tokenizer_bytes(tokenizer, id);
        }
        status = grammar_vocabulary_new(texts, is_special, n, n_bytes_kept, vocabulary, error);
    } else {
        error_set(error, STATUS_NOMEM, "out of memory");
    }
    free(texts);
    free(is_special);
    return status;
}

void grammar_vocabulary_free(struct grammar_vocabulary *vocabulary) {
    if (!vocabulary)
        return;
    store_fini(&vocabulary->store);
    subtrees_fini(&vocabulary->subtrees);
    free(vocabulary->nodes);
    free(vocabulary->same);
    free(vocabulary->offsets);
    free(vocabulary->bytes);
    free(vocabulary->is_special);
    free(vocabulary);
}

uint32_t grammar_vocabulary_special(const struct grammar_vocabulary *vocabulary, struct span text) {
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++)
        if (vocabulary->is_special[id] && text.n > 0 &&
            span_equal(grammar_vocabulary_bytes(vocabulary, id), text))
            return id;
    return GRAMMAR_TOKEN_NONE;
}
