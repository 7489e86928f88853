#include "model/text/grammar/engine/inside.h"

#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>

enum status inside_list_init(struct inside_list *list,
                             const struct grammar_vocabulary *vocabulary) {
    *list = (struct inside_list){.vocabulary = vocabulary};
    list->tokens = malloc(((size_t)vocabulary->n_tokens + 1) * sizeof *list->tokens);
    list->costs = malloc(((size_t)vocabulary->n_tokens + 1) * sizeof *list->costs);
    if (list->tokens && list->costs)
        return STATUS_OK;
    inside_list_fini(list);
    return STATUS_NOMEM;
}

void inside_list_fini(struct inside_list *list) {
    free(list->tokens);
    free(list->costs);
    *list = (struct inside_list){0};
}

void inside_add(struct inside_list *list, uint32_t token, uint16_t cost) {
    if (token != GRAMMAR_TOKEN_NONE && cost > list->cost_max)
        list->cost_max = cost;
    for (; token != GRAMMAR_TOKEN_NONE; token = list->vocabulary->same[token]) {
        list->tokens[list->n] = token;
        list->costs[list->n++] = cost;
    }
}

static size_t bits_words(const struct inside_list *list) {
    return (list->vocabulary->n_tokens + 31) / 32;
}

size_t inside_bytes(const struct inside_list *list) {
    size_t n_listed = list->cost_max > 0 ? (size_t)list->n + list->cost_max + 1 : 0;
    return (bits_words(list) + n_listed) * sizeof(uint32_t);
}

/* Tokens in rising cost: counting sort. */
static void sort_by_cost(const struct inside_list *list, struct inside *inside) {
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
    struct inside inside = {.n = list->n, .cost_max = list->cost_max, .bits = at};
    for (uint32_t i = 0; i < list->n; i++)
        inside.bits[list->tokens[i] / 32] |= 1u << list->tokens[i] % 32;
    if (list->cost_max > 0) {
        inside.tokens = inside.bits + bits_words(list);
        inside.ends = inside.tokens + list->n;
        sort_by_cost(list, &inside);
    }
    return inside;
}
