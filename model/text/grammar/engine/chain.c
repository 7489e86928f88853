#include "model/text/grammar/engine/chain.h"

#include "model/text/grammar/engine/byte_set.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 64u /* of work, to look at all bytes of a set */

/* Finds the set that most bytes of a set lead to; the first of equals. */
static enum status find_most(struct automaton *automaton, uint32_t set) {
    uint32_t to[256];
    uint32_t targets[256];
    uint32_t counts[256];
    uint32_t n = 0;
    uint32_t most = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        to[byte] = SET_DEAD;
        if (!byte_set_has(automaton->sets[set].takes, (uint8_t)byte))
            continue;
        TRY(automaton_step(automaton, set, (uint8_t)byte, &to[byte]));
        uint32_t i = 0;
        while (i < n && targets[i] != to[byte])
            i++;
        if (i == n) {
            targets[n] = to[byte];
            counts[n++] = 0;
        }
        counts[i]++;
        if (counts[i] > counts[most])
            most = i;
    }
    struct set *of = &automaton->sets[set];
    of->most_to = n > 0 ? targets[most] : SET_DEAD;
    for (unsigned byte = 0; byte < 256; byte++)
        if (of->most_to != SET_DEAD && to[byte] == of->most_to)
            byte_set_add(of->most, (uint8_t)byte);
    return automaton_work(automaton, MOST_STEPS);
}

/* Nothing of its callers can come there. */
static bool is_plain(const struct set *set) {
    return !set->accepts && set->n_calls == 0 && !set->counts;
}

/* The set behind one more byte of a chain; SET_DEAD in *to: it ends here. */
static enum status next(struct automaton *automaton, uint32_t set, const uint64_t bytes[4],
                        uint32_t *to, bool *is_one) {
    *to = SET_DEAD;
    *is_one = true;
    if (!byte_set_meets(automaton->sets[set].takes, bytes))
        return STATUS_OK;
    if (automaton->sets[set].most_to == SET_UNKNOWN)
        TRY(find_most(automaton, set));
    const struct set *of = &automaton->sets[set];
    *to = of->most_to;
    *is_one = byte_set_covers(of->most, bytes) && is_plain(&automaton->sets[*to]);
    return STATUS_OK;
}

enum status chain_bytes(struct automaton *automaton, uint32_t set, uint64_t bytes[4],
                        uint32_t *n_bytes) {
    bool is_one;
    uint32_t to;
    if (automaton->sets[set].most_to == SET_UNKNOWN)
        TRY(find_most(automaton, set));
    memcpy(bytes, automaton->sets[set].most, sizeof automaton->sets[set].most);
    TRY(next(automaton, set, bytes, &to, &is_one));
    if (is_one && to != SET_DEAD)
        TRY(next(automaton, to, bytes, &to, &is_one));
    uint32_t n = 0;
    for (unsigned word = 0; is_one && word < 4; word++)
        n += (uint32_t)__builtin_popcountll(bytes[word]);
    *n_bytes = n;
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
        status = next(automaton, to, chain->bytes, &to, is_one);
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
