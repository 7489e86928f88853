#include "router/api/ask.h"

#include "base/assert.h"
#include "router/api/json_tree.h"

#include <stdlib.h>

void ask_init(struct ask *ask) {
    *ask = (struct ask){.n_choices = 1, .skip_special = true};
    arena_init(&ask->arena, ASK_ARENA_BYTES);
    sampling_init(&ask->sampling);
}

void ask_drop_body(struct ask *ask) {
    template_request_fini(&ask->chat);
    if (ask->tree)
        json_tree_free(ask->tree);
    else
        json_decref(ask->body);
    ask->tree = NULL;
    ask->body = NULL;
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ask->prompts[i].text = (struct span){0};
}

void ask_fini(struct ask *ask) {
    if (!ask)
        return;
    ask_drop_body(ask);
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ids_fini(&ask->prompts[i].ids);
    free(ask->prompts);
    ask->prompts = NULL;
    ask->n_prompts = 0;
    grammar_unref(ask->calls_grammar);
    ask->calls_grammar = NULL;
    arena_fini(&ask->arena);
}

enum status ask_set_prompts(struct ask *ask, uint32_t n) {
    ASSERT(!ask->prompts && n > 0 && n <= ASK_PROMPTS_MAX);
    ask->prompts = calloc(n, sizeof *ask->prompts);
    if (!ask->prompts)
        return STATUS_NOMEM;
    ask->n_prompts = n;
    return STATUS_OK;
}

void ask_limit_time(struct ask *ask, uint64_t timeout_ns) {
    if (timeout_ns > 0 && (ask->timeout_ns == 0 || timeout_ns < ask->timeout_ns))
        ask->timeout_ns = timeout_ns;
}
