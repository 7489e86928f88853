#include "model/text/grammar/engine/mask_run.h"

#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/engine/chain.h"
#include "model/text/grammar/engine/mask_walk.h"
#include "model/text/grammar/engine/run.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>

#define RUN_WIDTH  16u /* bytes of a chain, from which on its run is less than its walk */
#define RUN_NESTED 4u  /* runs within each other: a recursion */

static enum status run_below(struct masking *masking, uint32_t root, struct thread thread,
                             uint32_t n_nested, bool *is_done);

/* Allows what from[0..n) take below a node, by runs where much is below. */
static enum status mask_below(struct masking *masking, uint32_t root, const struct thread *from,
                              uint32_t n, uint32_t n_nested) {
    uint32_t n_nodes = masking->vocabulary->nodes[root].skip - root;
    struct threads others = {0};
    enum status status = STATUS_OK;
    if (n_nodes == 1)
        return STATUS_OK;
    if (n_nodes < RUN_NODES || n_nested == RUN_NESTED)
        return masking_walk(masking, root, from, n);
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        bool is_done;
        status = run_below(masking, root, from[i], n_nested, &is_done);
        if (status == STATUS_OK && !is_done)
            status = threads_push(&others, from[i]);
    }
    if (status == STATUS_OK && others.n > 0)
        status = masking_walk(masking, root, others.at, others.n);
    threads_fini(&others);
    return status;
}

/* A run below a node, and the chain that takes it. */
struct running {
    struct masking *masking;
    const struct run *run;
    const struct chain *chain;
    uint32_t root;
    uint32_t stack;
    uint32_t n_nested;
    struct threads behind; /* owned: behind places of the chain and one other byte */
    struct place {
        uint32_t begin; /* in `behind` */
        uint32_t n;
        bool is_known;
    } * places; /* owned (chain->n + 1) */
};

/* The threads behind a place of the chain and another byte. */
static enum status leave(struct running *running, uint32_t at, uint8_t byte) {
    struct machine *machine = running->masking->machine;
    struct place *place = &running->places[at];
    struct thread thread = {.set = running->chain->sets[at], .stack = running->stack};
    if (place->is_known)
        return STATUS_OK;
    place->is_known = true;
    place->begin = running->behind.n;
    TRY(threads_reserve(&running->behind, machine_room(machine)));
    TRY(machine_byte(machine, &thread, 1, byte, &running->behind, NULL, 0));
    place->n = running->behind.n - place->begin;
    return STATUS_OK;
}

static enum status leave_over(struct running *running, uint8_t byte) {
    struct masking *masking = running->masking;
    struct automaton *automaton = &masking->machine->automaton;
    const struct token_node *nodes = masking->vocabulary->nodes;
    const struct run *run = running->run;
    const struct chain *chain = running->chain;
    running->behind.n = 0;
    for (uint32_t i = 0; i <= chain->n; i++)
        running->places[i] = (struct place){0};
    for (uint32_t i = run->begins[byte]; i < run->begins[byte + 1]; i++) {
        uint32_t node = run->nodes[i];
        uint32_t at = (uint32_t)nodes[node].depth - nodes[running->root].depth - 1;
        TRY(automaton_work(automaton, 1));
        if (at > chain->n || !byte_set_has(automaton->sets[chain->sets[at]].takes, byte))
            continue;
        TRY(leave(running, at, byte));
        const struct place *place = &running->places[at];
        if (place->n == 0)
            continue;
        masking_allow(masking, nodes[node].token);
        TRY(mask_below(masking, node, running->behind.at + place->begin, place->n,
                       running->n_nested + 1));
    }
    return STATUS_OK;
}

/* Bytes that lead out of a chain (byte_set.h). Answers how many nodes are walked behind
 * them. */
static uint64_t ways_out(const struct automaton *automaton, const struct run *run,
                         const struct chain *chain, uint64_t ways[4]) {
    uint64_t n_nodes = 0;
    for (unsigned word = 0; word < 4; word++) {
        ways[word] = 0;
        for (uint32_t i = 0; i <= chain->n; i++)
            ways[word] |= automaton->sets[chain->sets[i]].takes[word];
        ways[word] &= ~chain->bytes[word];
    }
    for (unsigned byte = 0; byte < 256; byte++)
        if (byte_set_has(ways, (uint8_t)byte))
            n_nodes += run->below[byte];
    return n_nodes;
}

static enum status take(struct running *running, bool *is_done) {
    struct masking *masking = running->masking;
    const struct chain *chain = running->chain;
    uint64_t ways[4];
    uint64_t n_nodes = ways_out(&masking->machine->automaton, running->run, chain, ways);
    if (n_nodes > masking->vocabulary->n_nodes / 8 + RUN_NODES)
        return STATUS_OK;
    *is_done = true;
    running->places = malloc(((size_t)chain->n + 1) * sizeof *running->places);
    if (!running->places)
        return STATUS_NOMEM;
    enum status status = masking_allow_inside(masking, &running->run->inside, chain->n);
    for (unsigned byte = 0; status == STATUS_OK && byte < 256; byte++)
        if (byte_set_has(ways, (uint8_t)byte))
            status = leave_over(running, (uint8_t)byte);
    threads_fini(&running->behind);
    free(running->places);
    return status;
}

static enum status run_below(struct masking *masking, uint32_t root, struct thread thread,
                             uint32_t n_nested, bool *is_done) {
    struct automaton *automaton = &masking->machine->automaton;
    struct chain chain;
    struct run *run;
    uint32_t n_bytes;
    bool is_one;
    *is_done = false;
    if (automaton->sets[thread.set].width < RUN_WIDTH || automaton->sets[thread.set].counts)
        return STATUS_OK;
    TRY(chain_bytes(automaton, thread.set, chain.bytes, &n_bytes));
    if (n_bytes < RUN_WIDTH)
        return STATUS_OK;
    TRY(run_of(automaton, masking->vocabulary, root, chain.bytes, &run));
    enum status status = chain_init(&chain, automaton, thread.set, run->longest, &is_one);
    if (status == STATUS_OK && is_one) {
        struct running running = {.masking = masking,
                                  .run = run,
                                  .chain = &chain,
                                  .root = root,
                                  .stack = thread.stack,
                                  .n_nested = n_nested};
        status = take(&running, is_done);
        chain_fini(&chain);
    }
    store_item_unref(run);
    return status;
}

enum status mask_run(struct masking *masking, uint32_t root, struct thread thread, bool *is_done) {
    return run_below(masking, root, thread, 0, is_done);
}
