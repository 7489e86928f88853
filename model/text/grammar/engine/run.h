/* model/text/grammar/engine/run.h: what a vocabulary's tokens do below one node of its trie as long as
 * their characters are of one set: which have no others, and where in the trie the first other byte is.
 *
 * It knows no grammar: all places of all grammars that take these characters alike share it. In an e-mail
 * address nearly every place is a state of its own, with as many characters left as the bounds allow; all
 * of them are two runs, of which each takes the tokens that are short enough. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/inside.h"
#include "model/text/grammar/engine/store.h"

#include <stdbool.h>
#include <stdint.h>

struct automaton;
struct grammar_vocabulary;
struct points;

/* A node of the trie whose byte is the first other one. */
struct run_other {
    uint32_t node;
    uint32_t n_before; /* characters of the set before it, below the root */
};

/* So many characters of its set one behind the other a short run has at most: where each place costs a grammar much, the few
 * tokens that have more are walked by the caller. */
#define RUN_SHORT 24u

struct run {
    struct store_item item;
    struct inside inside; /* tokens without another byte; what one costs is its characters below the
                             root, the one that it ends in counted in */
    uint32_t longest;     /* characters of the set one behind the other, at most, below the root */
    struct run_other *others; /* by that byte; in the same block, as is `inside` */
    uint32_t begins[257];     /* of each byte's in `others` */
    uint32_t below[256]; /* nodes of the trie that a walk below those visits at most (RUN_NODES) */
    uint32_t
        *deep; /* (n_deep) of a short one: nodes behind RUN_SHORT characters, with others below */
    uint32_t n_deep;
};

/* From so many nodes on what is below one of them is worth a run of its own instead of a walk. */
#define RUN_NODES 2048u

/* The run of a set of characters below a node, from the vocabulary's store or made; held by the caller
 * (store_item_unref). ascii: bit b % 64 of word b / 64 is byte b; points: those beyond, or none. With
 * points no byte beyond ASCII is another one: what begins none of theirs begins no token. Work is
 * counted in `automaton`. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status run_of(struct automaton *automaton, struct grammar_vocabulary *vocabulary,
                             uint32_t root, const uint64_t ascii[2], const struct points *points,
                             bool is_short, struct run **run);
