#include "model/text/grammar/engine/mask.h"

#include "model/text/grammar/engine/inside.h"
#include "model/text/grammar/engine/mask_run.h"
#include "model/text/grammar/engine/mask_walk.h"
#include "model/text/grammar/engine/view.h"
#include "model/text/grammar/vocabulary.h"

#include <xxhash.h>

/* From so many bytes on that lead on, a set's view is taken instead of a walk; fewer where every grammar has the set: behind the
 * backslash of a string stands all that may stand in one. */
#define VIEW_WIDTH        64u
#define VIEW_WIDTH_SHARED 8u
#define MEMO_SLOTS        64u

/* What follows an exit, which is the same for many. */
struct memo {
    uint32_t begin; /* in `behind` */
    uint32_t n;
    uint16_t path;
    uint16_t cost;
    bool is_set;
};

/* A thread that is looked at by the view of its set. */
struct looking {
    struct masking *masking;
    struct threads behind; /* owned: of the memos */
    struct memo memos[MEMO_SLOTS];
};

/* The set that a view's path leads to, from the view's own. */
static enum status grammar_mask_set_behind(struct masking *masking, uint32_t set, uint32_t node,
                                           uint32_t *to) {
    const struct grammar_vocabulary *vocabulary = masking->vocabulary;
    uint32_t depth = vocabulary->nodes[node].depth;
    while (vocabulary->nodes[node].token == GRAMMAR_TOKEN_NONE)
        node++; /* the first token below begins with the same bytes */
    struct span text = grammar_vocabulary_bytes(vocabulary, vocabulary->nodes[node].token);
    for (uint32_t i = 0; i < depth; i++)
        TRY(automaton_step(&masking->machine->automaton, set, (uint8_t)text.bytes[i], &set));
    *to = set;
    return STATUS_OK;
}

static enum status grammar_mask_recall(struct looking *looking, const struct view *view,
                                       struct thread thread, const struct view_exit *exit,
                                       const struct memo **found) {
    struct masking *masking = looking->masking;
    struct memo *memo = &looking->memos[(exit->path * 7u + exit->cost) % MEMO_SLOTS];
    *found = memo;
    if (memo->is_set && memo->path == exit->path && memo->cost == exit->cost)
        return STATUS_OK;
    *memo = (struct memo){
        .path = exit->path, .cost = exit->cost, .is_set = true, .begin = looking->behind.n};
    bool fits;
    TRY(grammar_mask_set_behind(masking, thread.set, view->paths[exit->path], &thread.set));
    TRY(machine_count_off(masking->machine, &thread, exit->cost, &fits));
    if (fits)
        TRY(machine_behind(masking->machine, thread, &looking->behind));
    memo->n = looking->behind.n - memo->begin;
    return STATUS_OK;
}

static enum status grammar_mask_look_at_exits(struct looking *looking, const struct view *view,
                                              struct thread thread, uint32_t max) {
    struct masking *masking = looking->masking;
    const struct token_node *nodes = masking->vocabulary->nodes;
    for (uint32_t i = 0; i < view->n_exits; i++) {
        const struct view_exit *exit = &view->exits[i];
        const struct memo *memo;
        if (exit->cost > max)
            continue;
        TRY(automaton_work(&masking->machine->automaton, 1));
        TRY(grammar_mask_recall(looking, view, thread, exit, &memo));
        if (memo->n == 0)
            continue;
        masking_allow(masking, nodes[exit->node].token);
        if (nodes[exit->node].skip > exit->node + 1)
            TRY(masking_walk(masking, exit->node, looking->behind.at + memo->begin, memo->n));
    }
    return STATUS_OK;
}

/* Allows what a thread takes, by its set's view. */
static enum status grammar_mask_look(struct masking *masking, const struct view *view,
                                     struct thread thread) {
    struct looking looking = {.masking = masking};
    uint32_t max = machine_count_max(masking->machine, thread);
    TRY(masking_allow_inside(masking, &view->inside, max));
    enum status status = grammar_mask_look_at_exits(&looking, view, thread, max);
    threads_fini(&looking.behind);
    return status;
}

/* Allows what a thread takes without a walk of the whole trie; false in *is_done: it has to be walked. */
static enum status grammar_mask_thread(struct masking *masking, const uint64_t grammar[2],
                                       struct thread thread, bool *is_done) {
    struct machine *machine = masking->machine;
    struct set set = machine->automaton.sets[thread.set];
    struct view *view = NULL;
    bool is_shared = set.shared[0] != 0 || set.shared[1] != 0;
    for (uint32_t k = 0; k < set.n_tokens; k++)
        masking_allow(masking, machine->automaton.tokens[set.tokens + k].token);
    *is_done = false;
    if (!is_shared || set.accepts) /* else its view is there already, for all grammars */
        TRY(mask_run(masking, 0, thread, is_done));
    if (!*is_done && set.width >= (is_shared ? VIEW_WIDTH_SHARED : VIEW_WIDTH))
        TRY(view_of(machine, thread.set, masking->vocabulary, grammar, &view));
    if (!view)
        return STATUS_OK;
    *is_done = true;
    enum status status = grammar_mask_look(masking, view, thread);
    store_item_unref(view);
    return status;
}

static enum status grammar_mask_threads(struct masking *masking, const uint64_t grammar[2],
                                        const struct thread *from, uint32_t n) {
    struct threads narrow = {0};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        bool is_done;
        status = grammar_mask_thread(masking, grammar, from[i], &is_done);
        if (status == STATUS_OK && !is_done)
            status = threads_push(&narrow, from[i]);
    }
    if (status == STATUS_OK && narrow.n > 0)
        status = masking_walk(masking, 0, narrow.at, narrow.n);
    threads_fini(&narrow);
    return status;
}

enum status mask_make(struct machine *machine, struct grammar_vocabulary *vocabulary,
                      const uint64_t grammar[2], const struct thread *from, uint32_t n,
                      struct grammar_mask **mask) {
    uint32_t n_words = (vocabulary->n_tokens + 31) / 32;
    struct masking masking;
    struct grammar_mask *made = store_item_new(sizeof *made + n_words * sizeof(uint32_t));
    if (!made)
        return STATUS_NOMEM;
    made->n_tokens = vocabulary->n_tokens;
    enum status status = masking_init(&masking, machine, vocabulary, made);
    if (status == STATUS_OK) {
        status = grammar_mask_threads(&masking, grammar, from, n);
        masking_fini(&masking);
    }
    if (status != STATUS_OK) {
        store_item_unref(made);
        return status;
    }
    *mask = made;
    return STATUS_OK;
}

void mask_key(const struct machine *machine, const uint64_t grammar[2], const struct thread *from,
              uint32_t n, uint64_t key[2]) {
    XXH128_hash_t hash = {.low64 = grammar[0], .high64 = grammar[1]};
    for (uint32_t i = 0; i < n; i++) {
        const struct set *set = &machine->automaton.sets[from[i].set];
        const struct frame *frame = &machine->frames.at[from[i].stack];
        uint64_t fields[6] = {hash.low64,   hash.high64,    set->hash[0],
                              set->hash[1], frame->hash[0], frame->hash[1]};
        hash = XXH3_128bits(fields, sizeof fields);
    }
    key[0] = hash.low64;
    key[1] = hash.high64;
}
