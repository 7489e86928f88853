#include "model/text/tokenizer/vocabulary/trie.h"

#include "base/assert.h"
#include "base/random.h"

#include <stdlib.h>

struct trie_edge {
    uint64_t key;   /* node << 8 | byte */
    uint32_t child; /* 0: an empty slot */
};

enum status trie_init(struct trie *trie, size_t n_bytes, struct error *error) {
    *trie = (struct trie){0};
    if (n_bytes == 0)
        return STATUS_OK;
    if (n_bytes > TRIE_BYTES_MAX)
        return error_set(error, STATUS_LIMIT, "special tokens or pieces of %zu bytes, at most %zu",
                         n_bytes, TRIE_BYTES_MAX);
    trie->n_slots = 16;
    while (trie->n_slots < 2 * n_bytes)
        trie->n_slots *= 2;
    trie->edges = calloc(trie->n_slots, sizeof *trie->edges);
    trie->ids = calloc(n_bytes + 1, sizeof *trie->ids);
    if (!trie->edges || !trie->ids) {
        trie_fini(trie);
        return error_set(error, STATUS_NOMEM, "no memory for special tokens or pieces of %zu bytes",
                         n_bytes);
    }
    trie->ids[0] = TRIE_NONE;
    trie->n_nodes = 1;
    trie->seed = random_seed();
    return STATUS_OK;
}

void trie_fini(struct trie *trie) {
    if (!trie)
        return;
    free(trie->edges);
    free(trie->ids);
    *trie = (struct trie){0};
}

static struct trie_edge *trie_find_edge(const struct trie *trie, uint32_t node, uint8_t byte) {
    uint64_t key = (uint64_t)node << 8 | byte;
    uint32_t at = (uint32_t)mix64(key ^ trie->seed) & (trie->n_slots - 1);
    while (trie->edges[at].child != 0 && trie->edges[at].key != key)
        at = (at + 1) & (trie->n_slots - 1);
    return &trie->edges[at];
}

void trie_add(struct trie *trie, struct span text, uint32_t id) {
    uint32_t node = 0;
    ASSERT(text.n > 0);
    trie->begins[(uint8_t)text.bytes[0]] = true;
    for (size_t i = 0; i < text.n; i++) {
        struct trie_edge *edge = trie_find_edge(trie, node, (uint8_t)text.bytes[i]);
        if (edge->child == 0) {
            ASSERT(trie->n_nodes <= trie->n_slots / 2);
            edge->key = (uint64_t)node << 8 | (uint8_t)text.bytes[i];
            edge->child = trie->n_nodes++;
            trie->ids[edge->child] = TRIE_NONE;
        }
        node = edge->child;
    }
    if (trie->ids[node] == TRIE_NONE)
        trie->ids[node] = id;
}

uint32_t trie_step(const struct trie *trie, uint32_t node, uint8_t byte) {
    return trie_find_edge(trie, node, byte)->child;
}

uint32_t trie_match(const struct trie *trie, const char *text, size_t n, trie_accept *accept,
                    const void *context, size_t *length) {
    uint32_t found = TRIE_NONE;
    uint32_t node = 0;
    DASSERT(n > 0);
    if (!trie->begins[(uint8_t)text[0]])
        return TRIE_NONE;
    for (size_t i = 0; i < n; i++) {
        node = trie_step(trie, node, (uint8_t)text[i]);
        if (node == 0)
            break;
        uint32_t id = trie->ids[node];
        if (id == TRIE_NONE || (accept && !accept(context, id)))
            continue;
        found = id;
        *length = i + 1;
    }
    return found;
}
