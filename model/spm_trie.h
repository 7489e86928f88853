/* model/spm_trie.h: texts by their prefixes: which of many texts begin at a place. Children are
 * found by hash, so that a step costs the same however many children a node has.
 *
 * Filled once, then read-only: any thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/span.h"

#include <stdint.h>

#define SPM_TRIE_BYTES_MAX ((size_t)1 << 26) /* of all texts together */
#define SPM_TRIE_NONE      UINT32_MAX

struct spm_trie_edge;

struct spm_trie {
    struct spm_trie_edge *edges; /* owned (n_slots), open addressing */
    uint32_t *values; /* owned (n_nodes): of the text that ends at a node, or SPM_TRIE_NONE */
    uint32_t n_slots; /* power of two */
    uint32_t n_nodes; /* node 0 is the root; 0: the trie is empty and must not be walked */
    uint64_t seed;
};

/* Takes texts (n), where values[i] is not SPM_TRIE_NONE; of equal texts the first counts. Empty
 * texts are left out. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status spm_trie_init(struct spm_trie *trie, const struct span *texts,
                                    const uint32_t *values, uint32_t n, struct error *error);
void spm_trie_fini(struct spm_trie *trie);

/* The child of `node` along `byte`, 0 when there is none. */
uint32_t spm_trie_step(const struct spm_trie *trie, uint32_t node, uint8_t byte);

/* The longest text that begins at bytes[0]: its value, and its length in *length; SPM_TRIE_NONE
 * when there is none, or the trie is empty. */
uint32_t spm_trie_longest(const struct spm_trie *trie, const char *bytes, size_t n, size_t *length);
