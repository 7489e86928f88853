/* model/text/grammar/engine/inside.h: tokens that stay where they are looked at, in rising cost, and
 * the same as bits: what is below a bound of the cost is a beginning of the list. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar_vocabulary;
struct subtree;

/* Lies in a block of somebody else's. */
struct inside {
    uint32_t n;        /* of those that cost anything */
    uint32_t cost_max; /* of any of them */
    bool has_free;     /* others, too */
    uint32_t *bits;    /* of all, by id */
    uint32_t *tokens;  /* (n) in rising cost */
    uint32_t *ends;    /* (cost_max + 1) how many of them cost at most so much */
};

/* One that is being made. */
struct inside_list {
    const struct grammar_vocabulary *vocabulary; /* borrowed */
    uint32_t *bits;                              /* owned (n_words) */
    uint32_t *tokens;                            /* owned (n), in the order of inside_add() */
    uint16_t *costs;                             /* owned, beside */
    uint32_t n;
    uint32_t cost_max;
    bool has_free;
};

/* Room for all of a vocabulary. STATUS_NOMEM. */
NODISCARD enum status inside_list_init(struct inside_list *list,
                                       const struct grammar_vocabulary *vocabulary);
void inside_list_fini(struct inside_list *list);

/* A token and all others of its bytes; GRAMMAR_TOKEN_NONE is none. Each token once. */
void inside_add(struct inside_list *list, uint32_t token, uint16_t cost);

/* All tokens of a subtree of the vocabulary's; each of their characters that is not before the node costs 1, beside
 * what was paid before, or nothing does. */
void inside_add_subtree(struct inside_list *list, const struct subtree *subtree, bool costs,
                        uint16_t cost_before);

/* How many bytes inside_pack() lays at `at`, which are aligned for uint32_t. */
size_t inside_bytes(const struct inside_list *list);
struct inside inside_pack(const struct inside_list *list, void *at);
