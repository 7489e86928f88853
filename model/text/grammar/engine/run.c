#include "model/text/grammar/engine/run.h"

#include "model/text/grammar/engine/automaton.h"
#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/engine/letters.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SUBTREE_WORK 4u /* tokens that are taken at once for a step of work */

/* Where a walk is behind a node. */
struct walked {
    struct begun begun;
    uint32_t n_chars;
};

/* A run that is being made. */
struct run_making {
    const struct grammar_vocabulary *vocabulary;
    uint32_t root;
    const uint64_t *ascii; /* (2) */
    const struct points *points;
    bool has_all;   /* of the points */
    uint32_t n_max; /* characters that are followed */
    struct inside_list inside;
    struct walked *walked;    /* owned (n_bytes_max + 1): by depth */
    struct run_other *others; /* owned (n_others) in the trie's order */
    uint32_t n_others;
    uint32_t others_size;
    uint32_t *deep; /* owned (n_deep), in the trie's order */
    uint32_t n_deep;
    uint32_t deep_size;
    uint32_t longest;
};

/* Room for one more item of `unit` bytes. */
static enum status grammar_run_grow(void *array, uint32_t n, uint32_t *size, size_t unit) {
    void **at = array;
    if (n < *size)
        return STATUS_OK;
    uint32_t wanted = *size ? *size * 2 : 1024;
    void *grown = realloc(*at, wanted * unit);
    if (!grown)
        return STATUS_NOMEM;
    *at = grown;
    *size = wanted;
    return STATUS_OK;
}

static enum status grammar_run_add_other(struct run_making *making, uint32_t node,
                                         uint32_t n_before) {
    TRY(grammar_run_grow(&making->others, making->n_others, &making->others_size,
                         sizeof *making->others));
    making->others[making->n_others++] = (struct run_other){node, n_before};
    return STATUS_OK;
}

static enum status grammar_run_add_deep(struct run_making *making, uint32_t node) {
    TRY(grammar_run_grow(&making->deep, making->n_deep, &making->deep_size, sizeof *making->deep));
    making->deep[making->n_deep++] = node;
    return STATUS_OK;
}

/* What a byte is where the bytes before it are of the set. */
enum found { INSIDE, OTHER, NOBODYS };

static enum found grammar_run_look_at(const struct run_making *making, const struct walked *before,
                                      uint8_t byte, struct walked *after) {
    *after = *before;
    if (before->begun.n_more > 0) {
        bool is_next = begun_next(&after->begun, byte);
        return is_next && points_begin(making->points, after->begun) ? INSIDE : NOBODYS;
    }
    after->n_chars++;
    if (byte < 0x80)
        return byte_set_has(making->ascii, byte) ? INSIDE : OTHER;
    if (making->points->n == 0)
        return OTHER;
    bool is_first = begun_first(&after->begun, byte);
    return is_first && points_begin(making->points, after->begun) ? INSIDE : NOBODYS;
}

/* Takes a subtree all of which is of the set; false: it is not known to be. */
static bool grammar_run_take_subtree(struct run_making *making, const struct subtree *subtree,
                                     const struct walked *before) {
    if (before->begun.n_more > 0 || !ascii_covers(making->ascii, subtree->ascii) ||
        (subtree->has_points && !making->has_all))
        return false;
    uint32_t longest = before->n_chars + subtree->n_longest - subtree->n_before;
    if (longest > making->n_max)
        return false;
    inside_add_subtree(&making->inside, subtree, true, (uint16_t)before->n_chars);
    if (longest > making->longest)
        making->longest = longest;
    return true;
}

static enum status grammar_run_walk(struct run_making *making, struct automaton *automaton) {
    const struct token_node *nodes = making->vocabulary->nodes;
    const struct subtrees *subtrees = &making->vocabulary->subtrees;
    uint32_t root = making->root;
    uint32_t next = subtrees_find(subtrees, root + 1);
    making->walked[0] = (struct walked){0};
    for (uint32_t i = root + 1; i < nodes[root].skip;) {
        const struct token_node *node = &nodes[i];
        const struct walked *before = &making->walked[node->depth - nodes[root].depth - 1];
        struct walked *after = &making->walked[node->depth - nodes[root].depth];
        const struct subtree *subtree = subtree_of(subtrees, &next, i);
        TRY(automaton_work(automaton, 1));
        if (subtree && grammar_run_take_subtree(making, subtree, before)) {
            TRY(automaton_work(automaton, subtree->n / SUBTREE_WORK));
            i = node->skip;
            continue;
        }
        enum found found = grammar_run_look_at(making, before, node->byte, after);
        if (found == OTHER)
            TRY(grammar_run_add_other(making, i, before->n_chars));
        if (found != INSIDE) {
            i = node->skip;
            continue;
        }
        inside_add(&making->inside, node->token, (uint16_t)after->n_chars);
        if (after->n_chars > making->longest)
            making->longest = after->n_chars;
        i++;
        if (after->n_chars < making->n_max || after->begun.n_more > 0 || i == node->skip)
            continue;
        TRY(grammar_run_add_deep(making, i - 1));
        i = node->skip;
    }
    return STATUS_OK;
}

/* Others by their bytes: counting sort. */
static void grammar_run_sort_by_byte(const struct run_making *making, struct run *run) {
    const struct token_node *nodes = making->vocabulary->nodes;
    for (uint32_t i = 0; i < making->n_others; i++) {
        uint32_t node = making->others[i].node;
        uint32_t n_below = nodes[node].skip - node;
        run->begins[nodes[node].byte + 1]++;
        run->below[nodes[node].byte] += n_below < RUN_NODES ? n_below : RUN_NODES;
    }
    for (unsigned byte = 0; byte < 256; byte++)
        run->begins[byte + 1] += run->begins[byte];
    uint32_t next[256];
    memcpy(next, run->begins, sizeof next);
    for (uint32_t i = 0; i < making->n_others; i++)
        run->others[next[nodes[making->others[i].node].byte]++] = making->others[i];
}

static struct run *grammar_run_pack(const struct run_making *making) {
    size_t n_inside = inside_bytes(&making->inside);
    size_t n_others = making->n_others * sizeof(struct run_other);
    size_t n_deep = making->n_deep * sizeof(uint32_t);
    struct run *run = store_item_new(sizeof *run + n_inside + n_others + n_deep);
    if (!run)
        return NULL;
    char *at = (char *)(run + 1);
    run->inside = inside_pack(&making->inside, at);
    run->others = (struct run_other *)(void *)(at + n_inside);
    run->deep = (uint32_t *)(void *)(at + n_inside + n_others);
    run->n_deep = making->n_deep;
    run->longest = making->longest;
    if (n_deep > 0)
        memcpy(run->deep, making->deep, n_deep);
    grammar_run_sort_by_byte(making, run);
    return run;
}

static enum status grammar_run_make(struct run_making *making, struct automaton *automaton,
                                    struct run **run) {
    TRY(inside_list_init(&making->inside, making->vocabulary));
    making->walked = malloc(((size_t)making->vocabulary->n_bytes_max + 1) * sizeof *making->walked);
    enum status status = making->walked ? grammar_run_walk(making, automaton) : STATUS_NOMEM;
    if (status == STATUS_OK) {
        *run = grammar_run_pack(making);
        if (!*run)
            status = STATUS_NOMEM;
    }
    inside_list_fini(&making->inside);
    free(making->walked);
    free(making->others);
    free(making->deep);
    return status;
}

enum status run_of(struct automaton *automaton, struct grammar_vocabulary *vocabulary,
                   uint32_t root, const uint64_t ascii[2], const struct points *points,
                   bool is_short, struct run **run) {
    uint64_t fields[5] = {is_short ? 4 : 3, root, ascii[0], ascii[1], /* 1 and 2: view.c */
                          XXH3_64bits(points->ranges, points->n * sizeof *points->ranges)};
    XXH128_hash_t hash = XXH3_128bits(fields, sizeof fields);
    uint64_t key[2] = {hash.low64, hash.high64};
    struct run_making making = {.vocabulary = vocabulary,
                                .root = root,
                                .ascii = ascii,
                                .points = points,
                                .has_all = points_are_all(points),
                                .n_max = is_short ? RUN_SHORT : UINT32_MAX};
    *run = store_get(&vocabulary->store, key);
    if (*run)
        return STATUS_OK;
    TRY(grammar_run_make(&making, automaton, run));
    store_put(&vocabulary->store, key, *run);
    return STATUS_OK;
}
