#include "model/text/grammar/subtrees.h"

#include "model/text/grammar/engine/begun.h"

#include <stdlib.h>

/* A node whose subtree is being read, and what is known of that. */
struct subtrees_reading {
    struct subtree told;
    struct begun begun; /* behind the node's byte */
    uint32_t end;       /* the node behind the subtree */
    uint32_t slot;      /* of subtrees->at, or UINT32_MAX */
    uint16_t n_chars;   /* up to here */
    bool is_other;      /* not UTF-8, from this node's byte on */
    bool cuts;          /* the character before is not whole */
};

struct subtrees_making {
    const struct subtrees_of *of;
    struct subtrees *subtrees;
    uint32_t n_tokens;
    struct subtrees_reading *open; /* owned (of->depth + 1): by depth; [0] is the root */
    uint32_t depth;
};

static void grammar_subtrees_count_nodes(const struct subtrees_of *of, uint32_t *n_large,
                                         uint32_t *n_tokens) {
    *n_large = *n_tokens = 0;
    for (uint32_t i = 1; i < of->n_nodes; i++) {
        const struct token_node *node = &of->nodes[i];
        *n_large += node->skip - i >= SUBTREE_NODES && !begun_is_tail(node->byte);
        for (uint32_t token = node->token; token != GRAMMAR_TOKEN_NONE; token = of->same[token])
            (*n_tokens)++;
    }
}

static void grammar_subtrees_close_deepest(struct subtrees_making *making) {
    struct subtrees_reading *deepest = &making->open[making->depth];
    struct subtrees_reading *above = deepest - 1;
    struct subtree *told = &deepest->told;
    if (deepest->slot != UINT32_MAX) {
        told->n = making->n_tokens - told->first;
        making->subtrees->at[deepest->slot] = *told;
        if (deepest->is_other) /* left out at the end */
            making->subtrees->at[deepest->slot].n = 0;
    }
    above->told.ascii[0] |= told->ascii[0];
    above->told.ascii[1] |= told->ascii[1];
    above->told.has_points |= told->has_points;
    above->is_other |= deepest->is_other || deepest->cuts;
    if (told->n_longest > above->told.n_longest)
        above->told.n_longest = told->n_longest;
    making->depth--;
}

static void grammar_subtrees_open_node(struct subtrees_making *making, uint32_t i) {
    const struct token_node *node = &making->of->nodes[i];
    const struct subtrees_reading *above = &making->open[making->depth];
    struct subtrees_reading *reading = &making->open[++making->depth];
    bool is_tail = begun_is_tail(node->byte);
    *reading = (struct subtrees_reading){.end = node->skip, .slot = UINT32_MAX};
    reading->n_chars = (uint16_t)(above->n_chars + !is_tail);
    reading->told = (struct subtree){.node = i,
                                     .first = making->n_tokens,
                                     .n_before = above->n_chars,
                                     .n_longest = reading->n_chars};
    if (is_tail) {
        reading->begun = above->begun;
        reading->is_other = !begun_next(&reading->begun, node->byte);
        reading->told.has_points = true;
    } else {
        reading->cuts = above->begun.n_more > 0;
        if (node->byte < 0x80)
            reading->told.ascii[node->byte / 64] = UINT64_C(1) << node->byte % 64;
        else
            reading->is_other = !begun_first(&reading->begun, node->byte);
        reading->told.has_points = node->byte >= 0x80;
        if (node->skip - i >= SUBTREE_NODES)
            reading->slot = making->subtrees->n++;
    }
    for (uint32_t token = node->token; token != GRAMMAR_TOKEN_NONE;
         token = making->of->same[token]) {
        making->subtrees->order[making->n_tokens] = token;
        making->subtrees->n_chars[making->n_tokens++] = reading->n_chars;
    }
}

/* Those that are not UTF-8 go. */
static void grammar_subtrees_keep_told(struct subtrees *subtrees) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < subtrees->n; i++)
        if (subtrees->at[i].n > 0)
            subtrees->at[n++] = subtrees->at[i];
    subtrees->n = n;
}

enum status subtrees_init(struct subtrees *subtrees, const struct subtrees_of *of) {
    struct subtrees_making making = {.of = of, .subtrees = subtrees};
    uint32_t n_large;
    uint32_t n_tokens;
    *subtrees = (struct subtrees){0};
    grammar_subtrees_count_nodes(of, &n_large, &n_tokens);
    subtrees->at = malloc(((size_t)n_large + 1) * sizeof *subtrees->at);
    subtrees->order = malloc(((size_t)n_tokens + 1) * sizeof *subtrees->order);
    subtrees->n_chars = malloc(((size_t)n_tokens + 1) * sizeof *subtrees->n_chars);
    making.open = calloc((size_t)of->depth + 1, sizeof *making.open);
    if (!subtrees->at || !subtrees->order || !subtrees->n_chars || !making.open) {
        free(making.open);
        subtrees_fini(subtrees);
        return STATUS_NOMEM;
    }
    for (uint32_t i = 1; i < of->n_nodes; i++) {
        while (making.depth > 0 && making.open[making.depth].end <= i)
            grammar_subtrees_close_deepest(&making);
        grammar_subtrees_open_node(&making, i);
    }
    while (making.depth > 0)
        grammar_subtrees_close_deepest(&making);
    grammar_subtrees_keep_told(subtrees);
    free(making.open);
    return STATUS_OK;
}

void subtrees_fini(struct subtrees *subtrees) {
    free(subtrees->at);
    free(subtrees->order);
    free(subtrees->n_chars);
    *subtrees = (struct subtrees){0};
}

uint32_t subtrees_find(const struct subtrees *subtrees, uint32_t node) {
    uint32_t low = 0;
    uint32_t high = subtrees->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (subtrees->at[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
