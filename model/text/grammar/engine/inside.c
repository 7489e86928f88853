#include "model/text/grammar/engine/inside.h"

#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

static size_t grammar_bits_words(const struct inside_list *list) {
    return (list->vocabulary->n_tokens + 31) / 32;
}

enum status inside_list_init(struct inside_list *list,
                             const struct grammar_vocabulary *vocabulary) {
    *list = (struct inside_list){.vocabulary = vocabulary};
    list->bits = calloc(grammar_bits_words(list) + 1, sizeof *list->bits);
    list->tokens = malloc(((size_t)vocabulary->n_tokens + 1) * sizeof *list->tokens);
    list->costs = malloc(((size_t)vocabulary->n_tokens + 1) * sizeof *list->costs);
    if (list->bits && list->tokens && list->costs)
        return STATUS_OK;
    inside_list_fini(list);
    return STATUS_NOMEM;
}

void inside_list_fini(struct inside_list *list) {
    free(list->bits);
    free(list->tokens);
    free(list->costs);
    *list = (struct inside_list){0};
}

static void grammar_inside_add(struct inside_list *list, uint32_t token, uint16_t cost) {
    list->bits[token / 32] |= 1u << token % 32;
    if (cost == 0) {
        list->has_free = true;
        return;
    }
    list->tokens[list->n] = token;
    list->costs[list->n++] = cost;
    if (cost > list->cost_max)
        list->cost_max = cost;
}

void inside_add(struct inside_list *list, uint32_t token, uint16_t cost) {
    for (; token != GRAMMAR_TOKEN_NONE; token = list->vocabulary->same[token])
        grammar_inside_add(list, token, cost);
}

void inside_add_subtree(struct inside_list *list, const struct subtree *subtree, bool costs,
                        uint16_t cost_before) {
    const uint32_t *tokens = list->vocabulary->subtrees.order + subtree->first;
    const uint16_t *n_chars = list->vocabulary->subtrees.n_chars + subtree->first;
    for (uint32_t i = 0; i < subtree->n; i++)
        grammar_inside_add(list, tokens[i],
                           costs ? (uint16_t)(cost_before + n_chars[i] - subtree->n_before)
                                 : cost_before);
}

size_t inside_bytes(const struct inside_list *list) {
    size_t n_listed = list->n > 0 ? (size_t)list->n + list->cost_max + 1 : 0;
    return (grammar_bits_words(list) + n_listed) * sizeof(uint32_t);
}

/* Tokens in rising cost: counting sort. */
static void grammar_inside_sort_by_cost(const struct inside_list *list, struct inside *inside) {
    memset(inside->ends, 0, ((size_t)list->cost_max + 1) * sizeof *inside->ends);
    for (uint32_t i = 0; i < list->n; i++)
        inside->ends[list->costs[i]]++;
    uint32_t sum = 0;
    for (uint32_t cost = 0; cost <= list->cost_max; cost++) {
        uint32_t n = inside->ends[cost];
        inside->ends[cost] = sum;
        sum += n;
    }
    for (uint32_t i = 0; i < list->n; i++)
        inside->tokens[inside->ends[list->costs[i]]++] = list->tokens[i];
}

struct inside inside_pack(const struct inside_list *list, void *at) {
    struct inside inside = {
        .n = list->n, .cost_max = list->cost_max, .has_free = list->has_free, .bits = at};
    memcpy(inside.bits, list->bits, grammar_bits_words(list) * sizeof *inside.bits);
    if (list->n > 0) {
        inside.tokens = inside.bits + grammar_bits_words(list);
        inside.ends = inside.tokens + list->n;
        grammar_inside_sort_by_cost(list, &inside);
    }
    return inside;
}
