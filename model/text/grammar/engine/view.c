#include "model/text/grammar/engine/view.h"

#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/engine/letters.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define PATHS_MAX    256u /* beyond, exits are no summary any more */
#define LETTERS_MIN  64u  /* nodes of a subtree that it is worth to ask for a set's letters */
#define SUBTREE_WORK 4u   /* tokens that are taken at once for a step of work */

/* A view that is being made: a walk of the whole trie. */
struct view_making {
    struct machine *machine;
    const struct grammar_vocabulary *vocabulary;
    uint32_t *sets;          /* owned (n_bytes_max + 1): by depth */
    uint16_t *costs;         /* owned, beside */
    struct view_exit *exits; /* owned (n_exits) */
    uint32_t n_exits;
    uint32_t exits_size;
    uint32_t path_sets[PATHS_MAX];
    uint32_t paths[PATHS_MAX];
    uint32_t n_paths;
    struct inside_list inside;
    bool overflows;
};

static void grammar_view_making_fini(struct view_making *making) {
    free(making->sets);
    free(making->costs);
    free(making->exits);
    inside_list_fini(&making->inside);
}

static enum status grammar_view_making_init(struct view_making *making, struct machine *machine,
                                            const struct grammar_vocabulary *vocabulary) {
    *making = (struct view_making){.machine = machine, .vocabulary = vocabulary};
    making->sets = calloc(vocabulary->n_bytes_max + 1, sizeof *making->sets);
    making->costs = calloc(vocabulary->n_bytes_max + 1, sizeof *making->costs);
    enum status status = making->sets && making->costs
                             ? inside_list_init(&making->inside, vocabulary)
                             : STATUS_NOMEM;
    if (status != STATUS_OK)
        grammar_view_making_fini(making);
    return status;
}

static enum status grammar_view_add_exit(struct view_making *making, uint32_t node, uint32_t set,
                                         uint16_t cost) {
    uint32_t path = 0;
    while (path < making->n_paths && making->path_sets[path] != set)
        path++;
    TRY(automaton_work(&making->machine->automaton, path / 8));
    if (path == PATHS_MAX) {
        making->overflows = true;
        return STATUS_OK;
    }
    if (path == making->n_paths) {
        making->path_sets[path] = set;
        making->paths[making->n_paths++] = node;
    }
    if (making->n_exits == making->exits_size) {
        uint32_t size = making->exits_size ? making->exits_size * 2 : 1024;
        struct view_exit *grown = realloc(making->exits, size * sizeof *grown);
        if (!grown)
            return STATUS_NOMEM;
        making->exits = grown;
        making->exits_size = size;
    }
    making->exits[making->n_exits++] =
        (struct view_exit){.node = node, .path = (uint16_t)path, .cost = cost};
    return STATUS_OK;
}

/* Whether all characters of a subtree lead from a set to itself, and nothing but them can come meanwhile. */
static enum status grammar_view_is_inside(struct automaton *automaton, uint32_t set,
                                          const struct subtree *subtree, uint32_t n_nodes,
                                          bool *is_it) {
    const struct set *of = &automaton->sets[set];
    *is_it = false;
    if (of->accepts || of->n_calls > 0)
        return STATUS_OK;
    if (of->letters.to == SET_UNKNOWN && (n_nodes < LETTERS_MIN || of->width < LETTERS_MIN))
        return STATUS_OK;
    TRY(letters_find(automaton, set));
    const struct letters *letters = &automaton->sets[set].letters;
    *is_it = letters->to == set && ascii_covers(letters->ascii, subtree->ascii) &&
             (!subtree->has_points ||
              (letters->points > 0 && points_are_all(&automaton->points[letters->points])));
    return STATUS_OK;
}

static enum status grammar_view_walk(struct view_making *making, uint32_t from) {
    struct automaton *automaton = &making->machine->automaton;
    const struct grammar_vocabulary *vocabulary = making->vocabulary;
    uint32_t next = 0;
    making->sets[0] = from;
    making->costs[0] = 0;
    for (uint32_t i = 1; i < vocabulary->n_nodes && !making->overflows;) {
        const struct token_node *node = &vocabulary->nodes[i];
        uint32_t before = making->sets[node->depth - 1];
        const struct subtree *subtree = subtree_of(&vocabulary->subtrees, &next, i);
        bool is_taken = false;
        uint32_t to;
        TRY(automaton_work(automaton, 1));
        if (subtree)
            TRY(grammar_view_is_inside(automaton, before, subtree, node->skip - i, &is_taken));
        if (is_taken) {
            inside_add_subtree(&making->inside, subtree, automaton->sets[before].counts,
                               making->costs[node->depth - 1]);
            TRY(automaton_work(automaton, subtree->n / SUBTREE_WORK));
            i = node->skip;
            continue;
        }
        TRY(automaton_step(automaton, before, node->byte, &to));
        if (to == SET_DEAD) {
            i = node->skip;
            continue;
        }
        const struct set *set = &automaton->sets[to];
        bool goes_on = set->takes_text || set->n_tokens > 0;
        bool costs = automaton->sets[before].counts && !set_is_end(set);
        uint16_t cost = (uint16_t)(making->costs[node->depth - 1] + costs);
        making->sets[node->depth] = to;
        making->costs[node->depth] = cost;
        if (goes_on)
            inside_add(&making->inside, node->token, cost);
        /* A leaf that is inside anyhow tells nothing more. */
        if ((set->accepts || set->n_calls > 0) && !(goes_on && node->skip == i + 1))
            TRY(grammar_view_add_exit(making, i, to, cost));
        i = set->takes_text ? i + 1 : node->skip;
    }
    return STATUS_OK;
}

static struct view *grammar_view_pack(const struct view_making *making) {
    size_t n_exits = making->n_exits * sizeof(struct view_exit);
    size_t n_paths = making->n_paths * sizeof(uint32_t);
    struct view *view =
        store_item_new(sizeof *view + n_exits + n_paths + inside_bytes(&making->inside));
    if (!view)
        return NULL;
    char *at = (char *)(view + 1);
    view->exits = (struct view_exit *)(void *)at;
    view->paths = (uint32_t *)(void *)(at + n_exits);
    view->inside = inside_pack(&making->inside, at + n_exits + n_paths);
    view->n_exits = making->n_exits;
    view->n_paths = making->n_paths;
    if (n_exits > 0)
        memcpy(view->exits, making->exits, n_exits);
    memcpy(view->paths, making->paths, n_paths);
    return view;
}

enum status view_of(struct machine *machine, uint32_t set, struct grammar_vocabulary *vocabulary,
                    const uint64_t grammar[2], struct view **view) {
    const struct set *of = &machine->automaton.sets[set];
    bool is_shared = of->shared[0] != 0 || of->shared[1] != 0;
    uint64_t fields[5] = {is_shared ? 1 : 2, is_shared ? of->shared[0] : of->hash[0],
                          is_shared ? of->shared[1] : of->hash[1], is_shared ? 0 : grammar[0],
                          is_shared ? 0 : grammar[1]};
    XXH128_hash_t hash = XXH3_128bits(fields, sizeof fields);
    uint64_t key[2] = {hash.low64, hash.high64};
    *view = store_get(&vocabulary->store, key);
    if (*view)
        return STATUS_OK;
    struct view_making making;
    TRY(grammar_view_making_init(&making, machine, vocabulary));
    enum status status = grammar_view_walk(&making, set);
    if (status == STATUS_OK && !making.overflows) {
        *view = grammar_view_pack(&making);
        if (*view)
            store_put(&vocabulary->store, key, *view);
        else
            status = STATUS_NOMEM;
    }
    grammar_view_making_fini(&making);
    return status;
}
