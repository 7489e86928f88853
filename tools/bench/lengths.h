/* tools/bench/lengths.h: learns what words and texts cost in tokens on a server, so that prompts have
 * the length that was asked for.
 *
 * Tokens are counted by a tokenizer of ours, else by the server's /tokenize, else by the usage of
 * requests for one token. Before any level runs; main thread. */
#pragma once

#include "base/error.h"
#include "tools/bench/core/workload.h"
#include "tools/bench/counter.h"

struct lengths {
    struct piece *pieces; /* owned (n_pieces), their texts too */
    uint32_t n_pieces;
    const char *counted_by; /* constant: "tokenizer", "/tokenize", "usage", "nothing" */
};

/* Fills the workload's words, overhead and pieces, which it borrows from *lengths. texts: (n_texts),
 * each with a word at least; of SOURCE_TEXTS. A server that counts nothing leaves each word at one
 * token. Errors: those of --tokenizer, STATUS_NOMEM. */
NODISCARD enum status lengths_learn(const struct counter_spec *by, char *const *texts,
                                    uint32_t n_texts, struct workload *workload,
                                    struct lengths *lengths, struct error *error);
void lengths_fini(struct lengths *lengths);
