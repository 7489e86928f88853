/* What the user of a virtual cluster asks: prompts, which the routers borrow, and how they end. */
#include "base/random.h"
#include "proto/prefix.h"
#include "tools/cell/node.h"

#include <stdlib.h>
#include <string.h>

static void asks_forget(struct asked *asked) {
    free(asked->tokens);
    free(asked->hashes);
    asked->tokens = NULL;
    asked->hashes = NULL;
}

void asks_fini(struct cell *cell) {
    for (uint32_t i = 0; i < cell->size; i++)
        asks_forget(&cell->asked[i]);
    free(cell->asked);
}

static enum status cell_asks_make_room(struct cell *cell, uint32_t request) {
    if (request < cell->size)
        return STATUS_OK;
    uint32_t size = 2 * request + 64;
    struct asked *asked = realloc(cell->asked, size * sizeof *asked);
    if (!asked)
        return STATUS_NOMEM;
    memset(asked + cell->size, 0, (size - cell->size) * sizeof *asked);
    cell->asked = asked;
    cell->size = size;
    return STATUS_OK;
}

/* The prompts of those that are over: never while a router's own event is handled. */
static void cell_asks_clean(struct cell *cell, uint32_t request) {
    while (cell->n_over < request && cell->asked[cell->n_over].over)
        asks_forget(&cell->asked[cell->n_over++]);
}

static void cell_asks_draw(uint32_t *tokens, uint32_t n, uint64_t serial) {
    struct random random = {.state = mix64(serial + 1)};
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)random_below(&random, CELL_VOCABULARY);
}

enum status cell_request(struct cell *cell, uint32_t router, uint32_t request,
                         const struct cell_ask *ask) {
    static const struct prefix_key key;
    struct node *node = &cell->nodes[router];
    uint32_t capacity = ask->n_prompt + ask->n_output + 1;
    TRY(cell_asks_make_room(cell, request));
    cell_asks_clean(cell, request);
    struct asked *asked = &cell->asked[request];
    asked->router = router;
    asked->tokens = malloc(capacity * sizeof *asked->tokens);
    asked->hashes = malloc((ask->n_prompt / PREFIX_BLOCK_TOKENS + 1) * sizeof *asked->hashes);
    if (!asked->tokens || !asked->hashes)
        return STATUS_NOMEM;
    cell_asks_draw(asked->tokens, ask->n_prompt, ask->serial);
    size_t n_hashes =
        prefix_hash_chain(&key, 0, PREFIX_START, asked->tokens, ask->n_prompt, asked->hashes);
    struct request_spec spec = {
        .user = request,
        .tokens = asked->tokens,
        .n_prompt = ask->n_prompt,
        .capacity = capacity,
        .hashes = asked->hashes,
        .n_hashes = (uint32_t)n_hashes,
        .sampling = {.max_new = ask->n_output, .seed = request + 1, .repetition = 1, .top_p = 1}};
    if (router_request(node->router, cell->now_ns, &spec, &asked->id) != STATUS_OK) {
        asked->over = true;
        cell->spec.user.end(cell->spec.user.context, request, cell->now_ns,
                            &(struct cell_end){.busy = true});
    }
    router_node_after(node);
    return STATUS_OK;
}

void cell_cancel(struct cell *cell, uint32_t request) {
    struct asked *asked = &cell->asked[request];
    struct node *node = &cell->nodes[asked->router];
    if (asked->over)
        return;
    router_cancel(node->router, cell->now_ns, asked->id);
    router_node_after(node);
}
