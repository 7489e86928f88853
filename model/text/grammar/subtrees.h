/* model/text/grammar/subtrees.h: what is below the larger nodes of a vocabulary's trie, told once: so a
 * walk that takes all of it alike takes it at once.
 *
 * A subtree is a node and all below it. It is told where its bytes are UTF-8, from the node's own on;
 * its tokens may end within a character. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAMMAR_TOKEN_NONE UINT32_MAX

/* Nodes stand in preorder: the first child of a node with any is the one behind it. Node 0 is the
 * root. */
struct token_node {
    uint32_t skip;  /* the next node that is no descendant */
    uint32_t token; /* of these bytes, or GRAMMAR_TOKEN_NONE */
    uint16_t depth; /* bytes from the root */
    uint8_t byte;
};

/* From so many nodes on a subtree is told. */
#define SUBTREE_NODES 8u

struct subtree {
    uint32_t node;
    uint32_t first; /* its tokens are order[first .. first + n) */
    uint32_t n;
    uint16_t n_before;  /* characters before the node */
    uint16_t n_longest; /* of its longest path, those before counted in */
    bool has_points;    /* characters beyond ASCII */
    uint64_t ascii[2];  /* bit b % 64 of word b / 64: byte b is in it */
};

struct subtrees {
    struct subtree *at; /* owned (n) in the trie's order */
    uint32_t n;
    uint32_t
        *order; /* owned (n_tokens): tokens in the trie's order, those of equal bytes together */
    uint16_t *n_chars; /* owned, beside: a token's characters, the one that it ends in counted in */
};

/* What they are told of, all borrowed. */
struct subtrees_of {
    const struct token_node *nodes; /* (n_nodes) */
    const uint32_t *same; /* (n_tokens) the next token of equal bytes, or GRAMMAR_TOKEN_NONE */
    uint32_t n_nodes;
    uint32_t depth; /* of the deepest node */
};

/* STATUS_NOMEM. */
NODISCARD enum status subtrees_init(struct subtrees *subtrees, const struct subtrees_of *of);
void subtrees_fini(struct subtrees *subtrees);

/* Which of them comes next in a walk in the trie's order: the first at or behind a node. */
uint32_t subtrees_find(const struct subtrees *subtrees, uint32_t node);

/* The subtree of a node, NULL where it is not told. *next is where the walk is (subtrees_find). */
static inline const struct subtree *subtree_of(const struct subtrees *subtrees, uint32_t *next,
                                               uint32_t node) {
    while (*next < subtrees->n && subtrees->at[*next].node < node)
        (*next)++;
    bool is_it = *next < subtrees->n && subtrees->at[*next].node == node;
    return is_it ? &subtrees->at[*next] : NULL;
}
