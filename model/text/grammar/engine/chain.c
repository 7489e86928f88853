#include "model/text/grammar/engine/chain.h"

#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/engine/letters.h"

#include <stdlib.h>
#include <string.h>

/* Whether a set takes the first byte of any letter. */
static bool grammar_chain_takes_some(const struct set *set, const struct chain *chain) {
    uint64_t beyond = chain->points > 0 ? UINT64_MAX : 0;
    const uint64_t firsts[4] = {chain->ascii[0], chain->ascii[1], beyond, beyond};
    return byte_set_meets(set->takes, firsts);
}

/* What counts does so at each letter, and goes round. */
static bool grammar_chain_counts_alike(const struct automaton *automaton, uint32_t set,
                                       uint32_t to) {
    return automaton->sets[to].counts ? to == set : !automaton->sets[set].counts;
}

/* The set behind one more letter of a chain; SET_DEAD in *to: it ends here. */
static enum status grammar_chain_next(struct automaton *automaton, uint32_t set,
                                      const struct chain *chain, uint32_t *to, bool *is_one) {
    *to = SET_DEAD;
    *is_one = true;
    if (!grammar_chain_takes_some(&automaton->sets[set], chain))
        return STATUS_OK;
    TRY(letters_find(automaton, set));
    const struct letters *letters = &automaton->sets[set].letters;
    *to = letters->to;
    *is_one = ascii_covers(letters->ascii, chain->ascii) && letters->points == chain->points &&
              grammar_chain_counts_alike(automaton, set, *to);
    return STATUS_OK;
}

enum status chain_letters(struct automaton *automaton, uint32_t set, struct chain *chain,
                          uint32_t *n_ascii) {
    bool is_one;
    uint32_t to;
    TRY(letters_find(automaton, set));
    const struct letters *letters = &automaton->sets[set].letters;
    memcpy(chain->ascii, letters->ascii, sizeof chain->ascii);
    chain->points = letters->points;
    chain->is_loop = letters->to == set;
    TRY(grammar_chain_next(automaton, set, chain, &to, &is_one));
    if (is_one && to != SET_DEAD)
        TRY(grammar_chain_next(automaton, to, chain, &to, &is_one));
    *n_ascii = is_one ? (uint32_t)(__builtin_popcountll(chain->ascii[0]) +
                                   __builtin_popcountll(chain->ascii[1]))
                      : 0;
    return STATUS_OK;
}

enum status chain_init(struct chain *chain, struct automaton *automaton, uint32_t set,
                       uint32_t n_max, bool *is_one) {
    chain->n = 0;
    chain->sets = malloc(((size_t)n_max + 1) * sizeof *chain->sets);
    if (!chain->sets)
        return STATUS_NOMEM;
    enum status status = STATUS_OK;
    uint32_t to = set;
    *is_one = true;
    chain->sets[0] = set;
    while (status == STATUS_OK && *is_one && to != SET_DEAD && chain->n < n_max) {
        status = grammar_chain_next(automaton, to, chain, &to, is_one);
        if (status == STATUS_OK && *is_one && to != SET_DEAD)
            chain->sets[++chain->n] = to;
    }
    if (status != STATUS_OK || !*is_one)
        chain_fini(chain);
    return status;
}

void chain_fini(struct chain *chain) {
    free(chain->sets);
    chain->sets = NULL;
}
