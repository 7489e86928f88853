/* model/text/grammar/engine/run.h: what a vocabulary's tokens do below one node of its trie as long as
 * their bytes are of one set: which have no others, and where in the trie the first other byte stands.
 *
 * It knows no grammar: all places of all grammars that take these bytes alike share it. In an e-mail
 * address nearly every place is a state of its own, with as many bytes left as the bounds allow; all
 * of them are two runs, of which each takes the tokens that are short enough. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/inside.h"
#include "model/text/grammar/engine/store.h"

#include <stdint.h>

struct automaton;
struct grammar_vocabulary;

struct run {
    struct store_item item;
    struct inside
        inside;       /* tokens without another byte; what one costs is its bytes below the root */
    uint32_t longest; /* bytes of the set one behind the other, at most, below the root */
    uint32_t *nodes;  /* the first other byte's, by that byte; in the same block, as is `inside` */
    uint32_t begins[257]; /* of each byte's nodes in `nodes` */
    uint32_t
        below[256]; /* nodes of the trie that a walk below those visits at most (run_walks_all) */
};

/* From so many nodes on what is below one of them is worth a run of its own instead of a walk. */
#define RUN_NODES 2048u

/* The run of a set of bytes (byte_set.h) below a node, from the vocabulary's
 * store or made; held by the caller (store_item_unref). Work is counted in `automaton`. STATUS_LIMIT,
 * STATUS_NOMEM. */
NODISCARD enum status run_of(struct automaton *automaton, struct grammar_vocabulary *vocabulary,
                             uint32_t root, const uint64_t bytes[4], struct run **run);
