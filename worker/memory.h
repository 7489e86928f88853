/* worker/memory.h: the memory plan: what a model takes here, and how many KV blocks fit beside it. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct forward_bytes;
struct model;

/* Sizes that follow from config and model. */
struct worker_sizes {
    uint32_t n_blocks;
    uint32_t context;
    uint32_t chunk_tokens; /* most of a step: the prompts' share is found while running */
    uint32_t max_batch;
    uint32_t max_seqs; /* held, waiting ones included */
    uint32_t layer_groups;
    uint32_t chunk_bytes;
    uint64_t available_bytes; /* that n_blocks came of: free on the host, or on the fullest of the
                                 devices; 0 where the config says n_blocks */
};

/* Sizes by config and model: what is 0 in the config gets its default here. */
NODISCARD enum status memory_sizes(const struct config *config, const struct model *model,
                                   struct worker_sizes *sizes, struct forward_bytes *bytes,
                                   struct error *error);

/* Whether the context is shorter than the model's for want of memory, not by the config: the numbers, as
 * fields of the log, go into `text`. */
bool memory_cuts(const struct config *config, const struct worker_sizes *sizes,
                 const struct forward_bytes *bytes, char *text, size_t size);

/* Whether weights, activations and KV fit in the share of `n_bytes` that the config grants: KV of its kv_blocks, or of
 * 2,048 tokens where it leaves them open. Of one rank, or of all that are here where they share the bytes. */
bool memory_fits(const struct config *config, const struct forward_bytes *bytes, uint64_t n_bytes,
                 bool is_shared);

/* Prints the plan for --dry-run on standard output. STATUS_INVALID: no such device. */
NODISCARD enum status memory_print(const struct config *config, const struct model *model,
                                   struct error *error);
