/* model/trie.h: finds the longest of a set of texts that begins at a place.
 *
 * With children in lists: the texts share long prefixes and branch little. Built once, then
 * read-only: any thread. */
#pragma once

#include "base/status.h"
#include "model/span.h"

#include <stdbool.h>
#include <stdint.h>

struct trie_node;

struct trie {
    struct trie_node *nodes; /* owned; node 0 is the root */
    uint32_t n_nodes;
    uint32_t n_max;
    bool begins[256]; /* bytes that any of the texts begins with */
};

/* Room for texts of n_bytes in all. STATUS_NOMEM. */
NODISCARD enum status trie_init(struct trie *trie, size_t n_bytes);
void trie_fini(struct trie *trie);

/* Of two equal texts the first counts. No empty text. */
void trie_add(struct trie *trie, struct span text, uint32_t id);

/* Whether an id counts in this search. */
typedef bool trie_accept(const void *context, uint32_t id);

/* The longest accepted text that begins at text[0], n > 0, and its length; UINT32_MAX when there is
 * none. */
uint32_t trie_match(const struct trie *trie, const char *text, size_t n, trie_accept *accept,
                    const void *context, size_t *length);
