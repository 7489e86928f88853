#include "model/trie.h"

#include "base/assert.h"

#include <stdlib.h>

struct trie_node {
    uint32_t child;   /* first child, 0: none */
    uint32_t sibling; /* next child of the same parent, 0: none */
    uint32_t id;      /* text that ends here, or UINT32_MAX */
    uint8_t byte;     /* on the way from the parent */
};

enum status trie_init(struct trie *trie, size_t n_bytes) {
    *trie = (struct trie){.n_nodes = 1};
    if (n_bytes >= UINT32_MAX)
        return STATUS_NOMEM;
    trie->n_max = (uint32_t)n_bytes + 1;
    trie->nodes = calloc(trie->n_max, sizeof *trie->nodes);
    if (!trie->nodes)
        return STATUS_NOMEM;
    trie->nodes[0].id = UINT32_MAX;
    return STATUS_OK;
}

void trie_fini(struct trie *trie) {
    if (!trie)
        return;
    free(trie->nodes);
    *trie = (struct trie){0};
}

static uint32_t child_of(const struct trie *trie, uint32_t node, uint8_t byte) {
    uint32_t child = trie->nodes[node].child;
    while (child != 0 && trie->nodes[child].byte != byte)
        child = trie->nodes[child].sibling;
    return child;
}

void trie_add(struct trie *trie, struct span text, uint32_t id) {
    uint32_t node = 0;
    ASSERT(text.n > 0);
    trie->begins[(uint8_t)text.bytes[0]] = true;
    for (size_t i = 0; i < text.n; i++) {
        uint8_t byte = (uint8_t)text.bytes[i];
        uint32_t child = child_of(trie, node, byte);
        if (child == 0) {
            ASSERT(trie->n_nodes < trie->n_max);
            child = trie->n_nodes++;
            trie->nodes[child] = (struct trie_node){
                .sibling = trie->nodes[node].child, .id = UINT32_MAX, .byte = byte};
            trie->nodes[node].child = child;
        }
        node = child;
    }
    if (trie->nodes[node].id == UINT32_MAX)
        trie->nodes[node].id = id;
}

uint32_t trie_match(const struct trie *trie, const char *text, size_t n, trie_accept *accept,
                    const void *context, size_t *length) {
    uint32_t found = UINT32_MAX;
    uint32_t node = 0;
    DASSERT(n > 0);
    if (!trie->begins[(uint8_t)text[0]])
        return UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        node = child_of(trie, node, (uint8_t)text[i]);
        if (node == 0)
            break;
        uint32_t id = trie->nodes[node].id;
        if (id == UINT32_MAX || !accept(context, id))
            continue;
        found = id;
        *length = i + 1;
    }
    return found;
}
