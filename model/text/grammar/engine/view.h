/* model/text/grammar/engine/view.h: what a vocabulary's tokens do to one set of one rule, whoever
 * calls that rule: which stay inside it, and where in the trie others leave it.
 *
 * Inside a string nearly every token stays inside, and only those with a quote are walked again for
 * each mask. A view of a rule that many grammars have (a JSON string) is made once for a vocabulary. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/inside.h"
#include "model/text/grammar/engine/store.h"
#include "model/text/grammar/engine/threads.h"

#include <stdint.h>

struct grammar_vocabulary;

/* A node of the trie where the rule may give way: it may end there, or calls another one. */
struct view_exit {
    uint32_t node;
    uint16_t path; /* which of view->paths: to which set its bytes lead */
    uint16_t cost; /* how often the bytes before left the rule's counted node */
};

struct view {
    struct store_item item;
    uint32_t n_exits;
    uint32_t n_paths;
    struct inside inside; /* tokens that stay inside; these lie in the same block */
    struct view_exit *exits;
    uint32_t *paths; /* (n_paths) a node whose bytes lead to that set */
};

/* The view of a set, from the vocabulary's store or made; held by the caller (store_item_unref). NULL
 * where it has none: too many ways out. `grammar`: the hash of the grammar, for sets of its own. */
NODISCARD enum status view_of(struct machine *machine, uint32_t set,
                              struct grammar_vocabulary *vocabulary, const uint64_t grammar[2],
                              struct view **view);
