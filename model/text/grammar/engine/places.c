#include "model/text/grammar/engine/places.h"

#include <stdlib.h>

/* The thread behind i letters, and the callers' behind the first. */
static enum status grammar_places_add_threads(struct places *places, struct machine *machine,
                                              const struct chain *chain, struct thread thread,
                                              uint32_t i) {
    const struct set *set = &machine->automaton.sets[chain->sets[i]];
    bool fits = true;
    thread.set = chain->sets[i];
    if (set->counts)
        TRY(machine_count_off(machine, &thread, i, &fits));
    TRY(threads_push(&places->threads, thread));
    bool is_open = set->accepts || set->n_calls > 0;
    if (i == 0 || !is_open) /* of the first, they are looked at by themselves */
        return STATUS_OK;
    TRY(threads_reserve(&places->threads, machine_room(machine)));
    return machine_behind(machine, thread, &places->threads);
}

static enum status grammar_places_fill(struct places *places, struct machine *machine,
                                       const struct chain *chain, struct thread thread,
                                       bool *are_apart) {
    uint64_t beyond = chain->points > 0 ? UINT64_MAX : 0;
    const uint64_t letters[4] = {chain->ascii[0], chain->ascii[1], beyond, beyond};
    *are_apart = true;
    for (uint32_t i = 0; i < places->n && *are_apart; i++) {
        struct place *place = &places->at[i];
        place->begin = places->threads.n;
        TRY(grammar_places_add_threads(places, machine, chain, thread, i));
        place->n = places->threads.n - place->begin;
        for (uint32_t k = 0; k < place->n; k++) {
            const struct thread *at = &places->threads.at[place->begin + k];
            const uint64_t *takes = machine->automaton.sets[at->set].takes;
            for (unsigned word = 0; word < 4; word++) {
                *are_apart &= k == 0 || (takes[word] & letters[word]) == 0;
                place->takes[word] |= takes[word];
                places->others[word] |= takes[word] & ~letters[word];
            }
        }
    }
    return STATUS_OK;
}

enum status places_init(struct places *places, struct machine *machine, const struct chain *chain,
                        struct thread thread, bool *are_apart) {
    *places = (struct places){.n = chain->n + 1};
    places->at = calloc(places->n, sizeof *places->at);
    if (!places->at)
        return STATUS_NOMEM;
    enum status status = grammar_places_fill(places, machine, chain, thread, are_apart);
    if (status != STATUS_OK || !*are_apart)
        places_fini(places);
    return status;
}

void places_fini(struct places *places) {
    free(places->at);
    threads_fini(&places->threads);
    *places = (struct places){0};
}
