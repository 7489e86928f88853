#include "model/text/grammar/engine/run.h"

#include "model/text/grammar/engine/automaton.h"
#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A run that is being made. */
struct making {
    const struct grammar_vocabulary *vocabulary;
    struct inside_list inside;
    uint32_t *nodes; /* owned (n_nodes) in the trie's order */
    uint32_t n_nodes;
    uint32_t nodes_size;
    uint32_t longest;
};

static enum status add_node(struct making *making, uint32_t node) {
    if (making->n_nodes == making->nodes_size) {
        uint32_t size = making->nodes_size ? making->nodes_size * 2 : 1024;
        uint32_t *grown = realloc(making->nodes, size * sizeof *grown);
        if (!grown)
            return STATUS_NOMEM;
        making->nodes = grown;
        making->nodes_size = size;
    }
    making->nodes[making->n_nodes++] = node;
    return STATUS_OK;
}

static enum status walk(struct making *making, struct automaton *automaton, uint32_t root,
                        const uint64_t bytes[4]) {
    const struct token_node *nodes = making->vocabulary->nodes;
    for (uint32_t i = root + 1; i < nodes[root].skip;) {
        const struct token_node *node = &nodes[i];
        TRY(automaton_work(automaton, 1));
        if (!byte_set_has(bytes, node->byte)) {
            TRY(add_node(making, i));
            i = node->skip;
            continue;
        }
        uint32_t n_bytes = (uint32_t)node->depth - nodes[root].depth;
        inside_add(&making->inside, node->token, (uint16_t)n_bytes);
        if (n_bytes > making->longest)
            making->longest = n_bytes;
        i++;
    }
    return STATUS_OK;
}

/* Nodes by their bytes: counting sort. */
static void sort_by_byte(const struct making *making, struct run *run) {
    const struct token_node *nodes = making->vocabulary->nodes;
    for (uint32_t i = 0; i < making->n_nodes; i++) {
        uint32_t node = making->nodes[i];
        uint32_t n_below = nodes[node].skip - node;
        run->begins[nodes[node].byte + 1]++;
        run->below[nodes[node].byte] += n_below < RUN_NODES ? n_below : RUN_NODES;
    }
    for (unsigned byte = 0; byte < 256; byte++)
        run->begins[byte + 1] += run->begins[byte];
    uint32_t next[256];
    memcpy(next, run->begins, sizeof next);
    for (uint32_t i = 0; i < making->n_nodes; i++)
        run->nodes[next[nodes[making->nodes[i]].byte]++] = making->nodes[i];
}

static struct run *pack(const struct making *making) {
    size_t n_inside = inside_bytes(&making->inside);
    struct run *run = store_item_new(sizeof *run + n_inside + making->n_nodes * sizeof(uint32_t));
    if (!run)
        return NULL;
    char *at = (char *)(run + 1);
    run->inside = inside_pack(&making->inside, at);
    run->nodes = (uint32_t *)(void *)(at + n_inside);
    run->longest = making->longest;
    sort_by_byte(making, run);
    return run;
}

enum status run_of(struct automaton *automaton, struct grammar_vocabulary *vocabulary,
                   uint32_t root, const uint64_t bytes[4], struct run **run) {
    uint64_t fields[6] = {3, root, bytes[0], bytes[1], bytes[2], bytes[3]}; /* 1 and 2: view.c */
    XXH128_hash_t hash = XXH3_128bits(fields, sizeof fields);
    uint64_t key[2] = {hash.low64, hash.high64};
    *run = store_get(&vocabulary->store, key);
    if (*run)
        return STATUS_OK;
    struct making making = {.vocabulary = vocabulary};
    TRY(inside_list_init(&making.inside, vocabulary));
    enum status status = walk(&making, automaton, root, bytes);
    if (status == STATUS_OK) {
        *run = pack(&making);
        if (*run)
            store_put(&vocabulary->store, key, *run);
        else
            status = STATUS_NOMEM;
    }
    inside_list_fini(&making.inside);
    free(making.nodes);
    return status;
}
