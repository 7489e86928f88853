#include "model/text/grammar/engine/mask_run.h"

#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/engine/chain.h"
#include "model/text/grammar/engine/mask_walk.h"
#include "model/text/grammar/engine/places.h"
#include "model/text/grammar/engine/run.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>

#define RUN_WIDTH  16u /* letters of ASCII of a chain, from which on its run is less than its walk */
#define RUN_NESTED 4u  /* runs within each other: a recursion */

static enum status grammar_mask_run_below(struct masking *masking, uint32_t root,
                                          struct thread thread, uint32_t n_nested, bool *is_done);

/* Allows what from[0..n) take below a node, by runs where much is below. */
static enum status grammar_mask_below(struct masking *masking, uint32_t root,
                                      const struct thread *from, uint32_t n, uint32_t n_nested) {
    uint32_t n_nodes = masking->vocabulary->nodes[root].skip - root;
    struct threads others = {0};
    enum status status = STATUS_OK;
    if (n_nodes == 1)
        return STATUS_OK;
    if (n_nodes < RUN_NODES || n_nested == RUN_NESTED)
        return masking_walk(masking, root, from, n);
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        bool is_done;
        status = grammar_mask_run_below(masking, root, from[i], n_nested, &is_done);
        if (status == STATUS_OK && !is_done)
            status = threads_push(&others, from[i]);
    }
    if (status == STATUS_OK && others.n > 0)
        status = masking_walk(masking, root, others.at, others.n);
    threads_fini(&others);
    return status;
}

/* A run below a node, and the places of the chain that takes it. */
struct running {
    struct masking *masking;
    const struct run *run;
    const struct places *places;
    uint32_t n_nested;
    struct threads behind; /* owned: behind places of the chain and one other byte */
    struct left {
        uint32_t begin; /* in `behind` */
        uint32_t n;
        bool is_known;
    } * left; /* owned (places->n) */
};

/* The threads behind a place of the chain and another byte. */
static enum status grammar_mask_leave(struct running *running, uint32_t at, uint8_t byte) {
    struct machine *machine = running->masking->machine;
    const struct place *place = &running->places->at[at];
    struct left *left = &running->left[at];
    if (left->is_known)
        return STATUS_OK;
    left->is_known = true;
    left->begin = running->behind.n;
    TRY(threads_reserve(&running->behind, machine_room(machine)));
    TRY(machine_byte(machine, running->places->threads.at + place->begin, place->n, byte,
                     &running->behind, NULL, 0));
    left->n = running->behind.n - left->begin;
    return STATUS_OK;
}

static enum status grammar_mask_leave_over(struct running *running, uint8_t byte) {
    struct masking *masking = running->masking;
    const struct token_node *nodes = masking->vocabulary->nodes;
    const struct run *run = running->run;
    const struct places *places = running->places;
    running->behind.n = 0;
    for (uint32_t i = 0; i < places->n; i++)
        running->left[i] = (struct left){0};
    for (uint32_t i = run->begins[byte]; i < run->begins[byte + 1]; i++) {
        uint32_t node = run->others[i].node;
        uint32_t at = run->others[i].n_before;
        TRY(automaton_work(&masking->machine->automaton, 1));
        if (at >= places->n || !byte_set_has(places->at[at].takes, byte))
            continue;
        TRY(grammar_mask_leave(running, at, byte));
        const struct left *left = &running->left[at];
        if (left->n == 0)
            continue;
        masking_allow(masking, nodes[node].token);
        TRY(grammar_mask_below(masking, node, running->behind.at + left->begin, left->n,
                               running->n_nested + 1));
    }
    return STATUS_OK;
}

/* What is longer than a short run, from its last place on. */
static enum status grammar_mask_go_deep(struct running *running) {
    const struct places *places = running->places;
    if (places->n <= RUN_SHORT)
        return STATUS_OK;
    const struct place *last = &places->at[RUN_SHORT];
    for (uint32_t i = 0; i < running->run->n_deep; i++)
        TRY(masking_walk(running->masking, running->run->deep[i], places->threads.at + last->begin,
                         last->n));
    return STATUS_OK;
}

/* How many nodes are walked behind the bytes that lead out of a chain. */
static uint64_t grammar_mask_nodes_behind(const struct run *run, const struct places *places) {
    uint64_t n_nodes = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        if (byte_set_has(places->others, (uint8_t)byte))
            n_nodes += run->below[byte];
    return n_nodes;
}

static enum status grammar_mask_take_byte(struct masking *masking, const struct run *run,
                                          const struct places *places, uint32_t n_nested,
                                          bool *is_done) {
    struct running running = {
        .masking = masking, .run = run, .places = places, .n_nested = n_nested};
    if (grammar_mask_nodes_behind(run, places) > masking->vocabulary->n_nodes / 8 + RUN_NODES)
        return STATUS_OK;
    *is_done = true;
    running.left = malloc(places->n * sizeof *running.left);
    if (!running.left)
        return STATUS_NOMEM;
    enum status status = masking_allow_inside(masking, &run->inside, places->n - 1);
    for (unsigned byte = 0; status == STATUS_OK && byte < 256; byte++)
        if (byte_set_has(places->others, (uint8_t)byte))
            status = grammar_mask_leave_over(&running, (uint8_t)byte);
    if (status == STATUS_OK)
        status = grammar_mask_go_deep(&running);
    threads_fini(&running.behind);
    free(running.left);
    return status;
}

/* The chain of a thread along a run. */
static enum status grammar_mask_run_along(struct masking *masking, struct chain *chain,
                                          const struct run *run, struct thread thread,
                                          uint32_t n_nested, bool *is_done) {
    struct machine *machine = masking->machine;
    struct places places;
    uint32_t n_max = run->longest;
    bool is_one;
    if (machine->automaton.sets[thread.set].counts && machine_count_max(machine, thread) < n_max)
        n_max = machine_count_max(machine, thread);
    TRY(chain_init(chain, &machine->automaton, thread.set, n_max, &is_one));
    if (!is_one)
        return STATUS_OK;
    enum status status = places_init(&places, machine, chain, thread, &is_one);
    if (status == STATUS_OK && is_one) {
        status = grammar_mask_take_byte(masking, run, &places, n_nested, is_done);
        places_fini(&places);
    }
    chain_fini(chain);
    return status;
}

static enum status grammar_mask_run_below(struct masking *masking, uint32_t root,
                                          struct thread thread, uint32_t n_nested, bool *is_done) {
    static const struct points none;
    struct automaton *automaton = &masking->machine->automaton;
    struct chain chain;
    struct run *run;
    uint32_t n_ascii;
    *is_done = false;
    if (automaton->sets[thread.set].width < RUN_WIDTH)
        return STATUS_OK;
    TRY(chain_letters(automaton, thread.set, &chain, &n_ascii));
    if (n_ascii < RUN_WIDTH)
        return STATUS_OK;
    const struct points *points = chain.points > 0 ? &automaton->points[chain.points] : &none;
    bool is_short = chain.points > 0 && !chain.is_loop; /* sets within characters, at each place */
    TRY(run_of(automaton, masking->vocabulary, root, chain.ascii, points, is_short, &run));
    enum status status = grammar_mask_run_along(masking, &chain, run, thread, n_nested, is_done);
    store_item_unref(run);
    return status;
}

enum status mask_run(struct masking *masking, uint32_t root, struct thread thread, bool *is_done) {
    return grammar_mask_run_below(masking, root, thread, 0, is_done);
}
