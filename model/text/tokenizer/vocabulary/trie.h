/* model/text/tokenizer/vocabulary/trie.h: texts by their prefixes: which of many texts begin at a
 * place. Children are found by hash, so that a step costs the same however many children a node
 * has.
 *
 * Built once, then read-only: any thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TRIE_BYTES_MAX ((size_t)1 << 26) /* of all texts together */
#define TRIE_NONE      UINT32_MAX

struct trie_edge;

struct trie {
    struct trie_edge *edges; /* owned (n_slots), open addressing */
    uint32_t *ids;           /* owned (n_nodes): of the text that ends at a node, or TRIE_NONE */
    uint32_t n_slots;        /* power of two */
    uint32_t n_nodes;        /* node 0 is the root; 0: the trie is empty and must not be walked */
    uint64_t seed;
    bool begins[256]; /* bytes that any of the texts begins with */
};

/* Room for texts of n_bytes in all; none for 0. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status trie_init(struct trie *trie, size_t n_bytes, struct error *error);
void trie_fini(struct trie *trie);

/* Of two equal texts the first counts. No empty text. */
void trie_add(struct trie *trie, struct span text, uint32_t id);

/* The child of `node` along `byte`, 0 when there is none. */
uint32_t trie_step(const struct trie *trie, uint32_t node, uint8_t byte);

/* Whether an id counts in this search. */
typedef bool trie_accept(const void *context, uint32_t id);

/* The longest accepted text that begins at text[0], n > 0, and its length; TRIE_NONE when there is
 * none. `accept` may be NULL: all count. */
uint32_t trie_match(const struct trie *trie, const char *text, size_t n, trie_accept *accept,
                    const void *context, size_t *length);
