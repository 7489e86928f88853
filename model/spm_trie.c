#include "model/spm_trie.h"

#include "base/random.h"

#include <stdlib.h>

struct spm_trie_edge {
    uint64_t key;   /* node << 8 | byte */
    uint32_t child; /* 0: an empty slot */
};

static struct spm_trie_edge *find_edge(const struct spm_trie *trie, uint32_t node, uint8_t byte) {
    uint64_t key = (uint64_t)node << 8 | byte;
    uint32_t at = (uint32_t)mix64(key ^ trie->seed) & (trie->n_slots - 1);
    while (trie->edges[at].child != 0 && trie->edges[at].key != key)
        at = (at + 1) & (trie->n_slots - 1);
    return &trie->edges[at];
}

static void add_text(struct spm_trie *trie, struct span text, uint32_t value) {
    uint32_t node = 0;
    for (size_t i = 0; i < text.n; i++) {
        struct spm_trie_edge *edge = find_edge(trie, node, (uint8_t)text.bytes[i]);
        if (edge->child == 0) {
            edge->key = (uint64_t)node << 8 | (uint8_t)text.bytes[i];
            edge->child = trie->n_nodes++;
            trie->values[edge->child] = SPM_TRIE_NONE;
        }
        node = edge->child;
    }
    if (trie->values[node] == SPM_TRIE_NONE)
        trie->values[node] = value;
}

enum status spm_trie_init(struct spm_trie *trie, const struct span *texts, const uint32_t *values,
                          uint32_t n, struct error *error) {
    size_t n_bytes = 0;
    *trie = (struct spm_trie){.n_slots = 16, .seed = random_seed()};
    for (uint32_t i = 0; i < n; i++) {
        if (values[i] == SPM_TRIE_NONE)
            continue;
        if (texts[i].n > SPM_TRIE_BYTES_MAX - n_bytes)
            return error_set(error, STATUS_LIMIT, "pieces of more than %zu bytes together",
                             SPM_TRIE_BYTES_MAX);
        n_bytes += texts[i].n;
    }
    if (n_bytes == 0)
        return STATUS_OK;
    while (trie->n_slots < 2 * n_bytes)
        trie->n_slots *= 2;
    trie->edges = calloc(trie->n_slots, sizeof *trie->edges);
    trie->values = calloc(n_bytes + 1, sizeof *trie->values);
    if (!trie->edges || !trie->values) {
        spm_trie_fini(trie);
        return error_set(error, STATUS_NOMEM, "no memory for pieces of %zu bytes", n_bytes);
    }
    trie->values[0] = SPM_TRIE_NONE;
    trie->n_nodes = 1;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] != SPM_TRIE_NONE && texts[i].n > 0)
            add_text(trie, texts[i], values[i]);
    return STATUS_OK;
}

void spm_trie_fini(struct spm_trie *trie) {
    if (!trie)
        return;
    free(trie->edges);
    free(trie->values);
    *trie = (struct spm_trie){0};
}

uint32_t spm_trie_step(const struct spm_trie *trie, uint32_t node, uint8_t byte) {
    return find_edge(trie, node, byte)->child;
}

uint32_t spm_trie_longest(const struct spm_trie *trie, const char *bytes, size_t n,
                          size_t *length) {
    uint32_t found = SPM_TRIE_NONE;
    uint32_t node = 0;
    if (trie->n_nodes == 0)
        return SPM_TRIE_NONE;
    for (size_t i = 0; i < n; i++) {
        node = spm_trie_step(trie, node, (uint8_t)bytes[i]);
        if (node == 0)
            break;
        if (trie->values[node] == SPM_TRIE_NONE)
            continue;
        found = trie->values[node];
        *length = i + 1;
    }
    return found;
}
