#include "model/text/grammar/engine/mask.h"

#include "model/text/grammar/engine/view.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* From so many bytes on that lead on, a set's view is taken instead of a walk; fewer where every grammar has the set: behind the
 * backslash of a string stands all that may stand in one. */
#define VIEW_WIDTH        64u
#define VIEW_WIDTH_SHARED 8u
#define MEMO_SLOTS        64u

struct level {
    uint32_t begin; /* of this depth's threads */
    uint32_t end;
    uint64_t takes[4];
};

/* What follows an exit, which is the same for many. */
struct memo {
    uint32_t begin; /* in `behind` */
    uint32_t n;
    uint16_t path;
    uint16_t cost;
    bool is_set;
};

struct masking {
    struct machine *machine;
    struct grammar_vocabulary *vocabulary;
    const uint64_t *grammar;
    struct grammar_mask *mask;
    struct level *levels;  /* owned (n_bytes_max + 2) */
    struct threads walked; /* of the levels */
    struct threads behind; /* of the memos */
    struct memo memos[MEMO_SLOTS];
    uint32_t *inside; /* owned (n_words), or NULL: nobody needed it yet */
};

static void allow(struct masking *masking, uint32_t token) {
    for (; token != GRAMMAR_TOKEN_NONE; token = masking->vocabulary->same[token])
        masking->mask->bits[token / 32] |= 1u << token % 32;
}

/* What the threads of a level take. */
static void open_level(struct masking *masking, struct level *level) {
    const struct set *sets = masking->machine->automaton.sets;
    memset(level->takes, 0, sizeof level->takes);
    for (uint32_t i = level->begin; i < level->end; i++)
        for (unsigned word = 0; word < 4; word++)
            level->takes[word] |= sets[masking->walked.at[i].set].takes[word];
}

/* Allows the tokens below a node of the trie that from[0..n) take. */
static enum status walk(struct masking *masking, uint32_t root, const struct thread *from,
                        uint32_t n) {
    struct machine *machine = masking->machine;
    const struct token_node *nodes = masking->vocabulary->nodes;
    struct threads *walked = &masking->walked;
    uint32_t depth = nodes[root].depth;
    struct level *levels = masking->levels;
    walked->n = 0;
    for (uint32_t i = 0; i < n; i++)
        TRY(threads_push(walked, from[i]));
    levels[depth] = (struct level){.begin = 0, .end = n};
    open_level(masking, &levels[depth]);
    for (uint32_t i = root + 1; i < nodes[root].skip;) {
        const struct token_node *node = &nodes[i];
        const struct level *above = &levels[node->depth - 1];
        if ((above->takes[node->byte / 64] >> node->byte % 64 & 1) == 0) {
            i = node->skip;
            continue;
        }
        uint32_t n_above = above->end - above->begin;
        TRY(automaton_work(&machine->automaton, n_above));
        walked->n = above->end;
        TRY(threads_reserve(walked, machine_room(machine)));
        TRY(machine_byte(machine, walked->at + above->begin, n_above, node->byte, walked, NULL, 0));
        struct level *level = &levels[node->depth];
        *level = (struct level){.begin = above->end, .end = walked->n};
        if (level->begin == level->end) {
            i = node->skip;
            continue;
        }
        allow(masking, node->token);
        i++;
        if (node->skip > i)
            open_level(masking, level);
    }
    return STATUS_OK;
}

/* The set that a view's path leads to, from the view's own. */
static enum status set_behind(struct masking *masking, uint32_t set, uint32_t node, uint32_t *to) {
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

static enum status recall(struct masking *masking, const struct view *view, struct thread thread,
                          const struct view_exit *exit, const struct memo **found) {
    struct memo *memo = &masking->memos[(exit->path * 7u + exit->cost) % MEMO_SLOTS];
    *found = memo;
    if (memo->is_set && memo->path == exit->path && memo->cost == exit->cost)
        return STATUS_OK;
    *memo = (struct memo){
        .path = exit->path, .cost = exit->cost, .is_set = true, .begin = masking->behind.n};
    bool fits;
    TRY(set_behind(masking, thread.set, view->paths[exit->path], &thread.set));
    TRY(machine_count_off(masking->machine, &thread, exit->cost, &fits));
    if (fits)
        TRY(machine_behind(masking->machine, thread, &masking->behind));
    memo->n = masking->behind.n - memo->begin;
    return STATUS_OK;
}

/* Allows the tokens of a view that cost at most `max`: those one by one, or all without the others,
 * whichever are fewer. */
static enum status allow_inside(struct masking *masking, const struct view *view, uint32_t max) {
    uint32_t n_words = (masking->vocabulary->n_tokens + 31) / 32;
    uint32_t *bits = masking->mask->bits;
    const uint32_t *inside = view->bits;
    uint32_t n = view->cost_max > max ? view->ends[max] : view->n_inside;
    if (n < view->n_inside / 2) {
        for (uint32_t i = 0; i < n; i++)
            bits[view->tokens[i] / 32] |= 1u << view->tokens[i] % 32;
        return STATUS_OK;
    }
    if (n < view->n_inside) {
        if (!masking->inside)
            masking->inside = malloc((n_words + 1) * sizeof *masking->inside);
        if (!masking->inside)
            return STATUS_NOMEM;
        memcpy(masking->inside, inside, n_words * sizeof *inside);
        for (uint32_t i = n; i < view->n_inside; i++)
            masking->inside[view->tokens[i] / 32] &= ~(1u << view->tokens[i] % 32);
        inside = masking->inside;
    }
    for (uint32_t i = 0; i < n_words; i++)
        bits[i] |= inside[i];
    return STATUS_OK;
}

/* Allows what a thread takes, by its set's view. */
static enum status look(struct masking *masking, const struct view *view, struct thread thread) {
    uint32_t max = machine_count_max(masking->machine, thread);
    TRY(allow_inside(masking, view, max));
    memset(masking->memos, 0, sizeof masking->memos);
    masking->behind.n = 0;
    for (uint32_t i = 0; i < view->n_exits; i++) {
        const struct view_exit *exit = &view->exits[i];
        const struct memo *memo;
        if (exit->cost > max)
            continue;
        TRY(automaton_work(&masking->machine->automaton, 1));
        TRY(recall(masking, view, thread, exit, &memo));
        if (memo->n == 0)
            continue;
        allow(masking, masking->vocabulary->nodes[exit->node].token);
        if (masking->vocabulary->nodes[exit->node].skip > exit->node + 1)
            TRY(walk(masking, exit->node, masking->behind.at + memo->begin, memo->n));
    }
    return STATUS_OK;
}

static enum status mask_threads(struct masking *masking, const struct thread *from, uint32_t n) {
    struct machine *machine = masking->machine;
    struct threads narrow = {0};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        struct set set = machine->automaton.sets[from[i].set];
        struct view *view = NULL;
        for (uint32_t k = 0; k < set.n_tokens; k++)
            allow(masking, machine->automaton.tokens[set.tokens + k].token);
        bool is_shared = set.shared[0] != 0 || set.shared[1] != 0;
        if (set.width >= (is_shared ? VIEW_WIDTH_SHARED : VIEW_WIDTH))
            status = view_of(machine, from[i].set, masking->vocabulary, masking->grammar, &view);
        if (status == STATUS_OK && view)
            status = look(masking, view, from[i]);
        else if (status == STATUS_OK)
            status = threads_push(&narrow, from[i]);
        store_item_unref(view);
    }
    if (status == STATUS_OK && narrow.n > 0)
        status = walk(masking, 0, narrow.at, narrow.n);
    threads_fini(&narrow);
    return status;
}

enum status mask_make(struct machine *machine, struct grammar_vocabulary *vocabulary,
                      const uint64_t grammar[2], const struct thread *from, uint32_t n,
                      struct grammar_mask **mask) {
    uint32_t n_words = (vocabulary->n_tokens + 31) / 32;
    struct masking *masking = calloc(1, sizeof *masking);
    struct level *levels = calloc(vocabulary->n_bytes_max + 2, sizeof *levels);
    struct grammar_mask *made = store_item_new(sizeof *made + n_words * sizeof(uint32_t));
    enum status status = STATUS_NOMEM;
    if (masking && levels && made) {
        made->n_tokens = vocabulary->n_tokens;
        *masking = (struct masking){.machine = machine,
                                    .vocabulary = vocabulary,
                                    .grammar = grammar,
                                    .mask = made,
                                    .levels = levels};
        status = mask_threads(masking, from, n);
        threads_fini(&masking->walked);
        threads_fini(&masking->behind);
        free(masking->inside);
    }
    free(levels);
    free(masking);
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
