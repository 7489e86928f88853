/* Automata over characters as sets of texts: both, not, matching, emptiness. */
#include "model/text/grammar/regex/chars.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Pairs of nodes by number: open addressing. */
struct pairs {
    uint64_t *keys; /* owned (n_slots); UINT64_MAX: none */
    uint32_t *nodes;
    uint32_t n_slots;
    uint32_t n;
};

static bool regex_sets_pairs_grow(struct pairs *pairs) {
    struct pairs grown = {.n_slots = pairs->n_slots ? pairs->n_slots * 2 : 64};
    grown.keys = malloc(grown.n_slots * sizeof *grown.keys);
    grown.nodes = malloc(grown.n_slots * sizeof *grown.nodes);
    if (!grown.keys || !grown.nodes) {
        free(grown.keys);
        free(grown.nodes);
        return false;
    }
    memset(grown.keys, 0xff, grown.n_slots * sizeof *grown.keys);
    for (uint32_t i = 0; i < pairs->n_slots; i++) {
        if (pairs->keys[i] == UINT64_MAX)
            continue;
        uint32_t at = (uint32_t)(pairs->keys[i] * 0x9e3779b97f4a7c15u >> 32) & (grown.n_slots - 1);
        while (grown.keys[at] != UINT64_MAX)
            at = (at + 1) & (grown.n_slots - 1);
        grown.keys[at] = pairs->keys[i];
        grown.nodes[at] = pairs->nodes[i];
    }
    grown.n = pairs->n;
    free(pairs->keys);
    free(pairs->nodes);
    *pairs = grown;
    return true;
}

/* A product that is being made: which pairs there are and which were not looked at yet. */
struct product {
    struct chars *made;
    struct pairs pairs;
    uint64_t *work; /* owned (n_work) */
    uint32_t n_work;
    uint32_t work_size;
};

static uint32_t regex_sets_node_of(struct product *product, uint32_t left, uint32_t right) {
    struct chars *made = product->made;
    struct pairs *pairs = &product->pairs;
    uint64_t key = (uint64_t)left << 32 | right;
    if (made->status == STATUS_OK && pairs->n * 2 >= pairs->n_slots &&
        !regex_sets_pairs_grow(pairs))
        made->status = STATUS_NOMEM;
    if (made->status != STATUS_OK)
        return 0;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & (pairs->n_slots - 1);
    for (; pairs->keys[at] != UINT64_MAX; at = (at + 1) & (pairs->n_slots - 1))
        if (pairs->keys[at] == key)
            return pairs->nodes[at];
    if (product->n_work == product->work_size) {
        uint32_t size = product->work_size ? product->work_size * 2 : 64;
        uint64_t *grown = realloc(product->work, size * sizeof *grown);
        if (!grown) {
            made->status = STATUS_NOMEM;
            return 0;
        }
        product->work = grown;
        product->work_size = size;
    }
    product->work[product->n_work++] = key;
    pairs->keys[at] = key;
    pairs->nodes[at] = chars_node(made);
    pairs->n++;
    return pairs->nodes[at];
}

static void regex_sets_join(struct product *product, const struct chars *left,
                            const struct chars *right, uint32_t a, uint32_t b) {
    struct chars *made = product->made;
    uint32_t from = regex_sets_node_of(product, a, b);
    if (a == left->end && b == right->end)
        chars_edge(made, from, CHARS_EMPTY, 0, 0, made->end);
    for (uint32_t e = left->first[a]; e != NONE; e = left->edges[e].next) {
        const struct chars_edge *x = &left->edges[e];
        if (x->kind == CHARS_EMPTY) {
            chars_edge(made, from, CHARS_EMPTY, 0, 0, regex_sets_node_of(product, x->to, b));
            continue;
        }
        for (uint32_t f = right->first[b]; f != NONE; f = right->edges[f].next) {
            const struct chars_edge *y = &right->edges[f];
            uint32_t low = x->low > y->low ? x->low : y->low;
            uint32_t high = x->high < y->high ? x->high : y->high;
            if (y->kind == CHARS_RANGE && low <= high)
                chars_edge(made, from, CHARS_RANGE, low, high,
                           regex_sets_node_of(product, x->to, y->to));
        }
    }
    for (uint32_t f = right->first[b]; f != NONE; f = right->edges[f].next)
        if (right->edges[f].kind == CHARS_EMPTY)
            chars_edge(made, from, CHARS_EMPTY, 0, 0,
                       regex_sets_node_of(product, a, right->edges[f].to));
}

void chars_both(const struct chars *left, const struct chars *right, struct chars *made) {
    chars_init(made, left->n_max > right->n_max ? left->n_max : right->n_max);
    if (left->status != STATUS_OK || right->status != STATUS_OK) {
        made->status = left->status != STATUS_OK ? left->status : right->status;
        return;
    }
    struct product product = {.made = made};
    chars_edge(made, made->start, CHARS_EMPTY, 0, 0,
               regex_sets_node_of(&product, left->start, right->start));
    while (product.n_work > 0 && made->status == STATUS_OK) {
        uint64_t key = product.work[--product.n_work];
        regex_sets_join(&product, left, right, (uint32_t)(key >> 32), (uint32_t)key);
    }
    free(product.pairs.keys);
    free(product.pairs.nodes);
    free(product.work);
}

/* The nodes that a text so far may have led to. */
struct chars_places {
    uint32_t *at; /* owned (n) */
    uint32_t n;
    bool *is_in; /* owned (n_nodes) */
};

static void regex_sets_places_fini(struct chars_places *places) {
    free(places->at);
    free(places->is_in);
}

static bool regex_sets_places_init(struct chars_places *places, const struct chars *chars) {
    *places = (struct chars_places){.at = malloc((chars->n_nodes + 1) * sizeof *places->at),
                                    .is_in = calloc(chars->n_nodes + 1, sizeof *places->is_in)};
    if (places->at && places->is_in)
        return true;
    regex_sets_places_fini(places);
    *places = (struct chars_places){0};
    return false;
}

static void regex_sets_places_clear(struct chars_places *places) {
    for (uint32_t i = 0; i < places->n; i++)
        places->is_in[places->at[i]] = false;
    places->n = 0;
}

static void regex_sets_places_add(struct chars_places *places, uint32_t node) {
    if (places->is_in[node])
        return;
    places->is_in[node] = true;
    places->at[places->n++] = node;
}

static void regex_sets_places_close(struct chars_places *places, const struct chars *chars) {
    for (uint32_t i = 0; i < places->n; i++)
        for (uint32_t e = chars->first[places->at[i]]; e != NONE; e = chars->edges[e].next)
            if (chars->edges[e].kind == CHARS_EMPTY)
                regex_sets_places_add(places, chars->edges[e].to);
}

static void regex_sets_places_step(const struct chars_places *from, const struct chars *chars,
                                   uint32_t point, struct chars_places *to) {
    regex_sets_places_clear(to);
    for (uint32_t i = 0; i < from->n; i++)
        for (uint32_t e = chars->first[from->at[i]]; e != NONE; e = chars->edges[e].next) {
            const struct chars_edge *edge = &chars->edges[e];
            if (edge->kind == CHARS_RANGE && edge->low <= point && point <= edge->high)
                regex_sets_places_add(to, edge->to);
        }
    regex_sets_places_close(to, chars);
}

bool chars_match(const struct chars *chars, struct span text) {
    struct chars_places now;
    struct chars_places next;
    if (chars->status != STATUS_OK || !regex_sets_places_init(&now, chars))
        return false;
    bool is_in = regex_sets_places_init(&next, chars);
    regex_sets_places_add(&now, chars->start);
    regex_sets_places_close(&now, chars);
    for (size_t at = 0; is_in && at < text.n;) {
        uint32_t point;
        unsigned n = utf8_decode(text.bytes + at, text.n - at, &point);
        is_in = n > 0;
        at += n;
        if (is_in) {
            regex_sets_places_step(&now, chars, point, &next);
            struct chars_places swap = now;
            now = next;
            next = swap;
        }
    }
    is_in = is_in && now.is_in[chars->end];
    regex_sets_places_fini(&now);
    regex_sets_places_fini(&next);
    return is_in;
}

static int regex_sets_compare_points(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Deterministic states of a complement: sets of nodes, one behind the other. */
struct subsets {
    uint32_t *members; /* owned (n_members) */
    uint32_t n_members;
    uint32_t members_size;
    uint32_t *begins; /* owned (n + 1) */
    uint32_t *nodes;  /* owned (n): of the automaton that is made */
    uint32_t n;
    uint32_t size;
};

static void regex_sets_subsets_fini(struct subsets *subsets) {
    free(subsets->members);
    free(subsets->begins);
    free(subsets->nodes);
}

/* The node of a set of places, found by comparison or made. Sets are few: patterns of names. */
static uint32_t regex_sets_subset_of(struct subsets *subsets, struct chars_places *places,
                                     const struct chars *chars, struct chars *made) {
    qsort(places->at, places->n, sizeof *places->at, regex_sets_compare_points);
    for (uint32_t i = 0; i < subsets->n; i++)
        if (subsets->begins[i + 1] - subsets->begins[i] == places->n &&
            (places->n == 0 || memcmp(subsets->members + subsets->begins[i], places->at,
                                      places->n * sizeof *places->at) == 0))
            return subsets->nodes[i];
    if (subsets->n_members + places->n > made->n_max * 4 || subsets->n >= 20000)
        made->status = STATUS_LIMIT;
    if (subsets->n + 2 > subsets->size) {
        uint32_t size = subsets->size ? subsets->size * 2 : 64;
        uint32_t *begins = realloc(subsets->begins, size * sizeof *begins);
        if (begins)
            subsets->begins = begins;
        uint32_t *nodes = realloc(subsets->nodes, size * sizeof *nodes);
        if (nodes)
            subsets->nodes = nodes;
        if (!begins || !nodes)
            made->status = STATUS_NOMEM;
        else
            subsets->size = size;
    }
    while (made->status == STATUS_OK && subsets->n_members + places->n > subsets->members_size) {
        uint32_t size = subsets->members_size ? subsets->members_size * 2 : 256;
        uint32_t *grown = realloc(subsets->members, size * sizeof *grown);
        if (!grown)
            made->status = STATUS_NOMEM;
        else
            subsets->members = grown;
        subsets->members_size = grown ? size : subsets->members_size;
    }
    uint32_t node = chars_node(made);
    if (made->status != STATUS_OK)
        return 0;
    subsets->begins[subsets->n] = subsets->n_members;
    if (places->n > 0)
        memcpy(subsets->members + subsets->n_members, places->at, places->n * sizeof *places->at);
    subsets->n_members += places->n;
    subsets->nodes[subsets->n++] = node;
    subsets->begins[subsets->n] = subsets->n_members;
    if (!places->is_in[chars->end])
        chars_edge(made, node, CHARS_EMPTY, 0, 0, made->end);
    return node;
}

/* The edges of one deterministic state: the characters fall into runs at which nothing changes. */
static void regex_sets_expand(struct subsets *subsets, uint32_t i, const struct chars *chars,
                              struct chars *made, struct chars_places *now,
                              struct chars_places *next, uint32_t *cuts) {
    uint32_t n_cuts = 0;
    regex_sets_places_clear(now);
    for (uint32_t k = subsets->begins[i]; k < subsets->begins[i + 1]; k++)
        regex_sets_places_add(now, subsets->members[k]);
    cuts[n_cuts++] = 0;
    for (uint32_t k = 0; k < now->n; k++)
        for (uint32_t e = chars->first[now->at[k]]; e != NONE; e = chars->edges[e].next)
            if (chars->edges[e].kind == CHARS_RANGE) {
                cuts[n_cuts++] = chars->edges[e].low;
                cuts[n_cuts++] = chars->edges[e].high + 1;
            }
    qsort(cuts, n_cuts, sizeof *cuts, regex_sets_compare_points);
    for (uint32_t k = 0; k < n_cuts && made->status == STATUS_OK; k++) {
        uint32_t low = cuts[k];
        uint32_t high = k + 1 < n_cuts ? cuts[k + 1] - 1 : 0x10ffff;
        if ((k + 1 < n_cuts && cuts[k + 1] == low) || low > 0x10ffff)
            continue;
        regex_sets_places_step(now, chars, low, next);
        uint32_t from = subsets->nodes[i];
        uint32_t to = regex_sets_subset_of(subsets, next, chars, made);
        chars_edge(made, from, CHARS_RANGE, low, high, to);
    }
}

void chars_not(const struct chars *chars, struct chars *made) {
    struct chars_places now = {0};
    struct chars_places next = {0};
    struct subsets subsets = {0};
    chars_init(made, chars->n_max);
    uint32_t *cuts = malloc(((size_t)chars->n_edges * 2 + 2) * sizeof *cuts);
    if (chars->status != STATUS_OK)
        made->status = chars->status;
    else if (!cuts || !regex_sets_places_init(&now, chars) || !regex_sets_places_init(&next, chars))
        made->status = STATUS_NOMEM;
    if (made->status == STATUS_OK) {
        regex_sets_places_add(&now, chars->start);
        regex_sets_places_close(&now, chars);
        chars_edge(made, made->start, CHARS_EMPTY, 0, 0,
                   regex_sets_subset_of(&subsets, &now, chars, made));
    }
    for (uint32_t i = 0; made->status == STATUS_OK && i < subsets.n; i++)
        regex_sets_expand(&subsets, i, chars, made, &now, &next, cuts);
    regex_sets_places_fini(&now);
    regex_sets_places_fini(&next);
    regex_sets_subsets_fini(&subsets);
    free(cuts);
}
