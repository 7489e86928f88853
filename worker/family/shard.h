/* worker/family/shard.h: which part of a model one rank of a tensor-parallel group holds.
 *
 * Query heads, the inner width of the feed-forward parts and the vocabulary are cut into
 * neighbouring ranges in the order of ranks; key-value heads too, or, when there are fewer of them
 * than ranks, each is held by as many neighbours as it takes. Cuts fall where groups of quantized
 * inputs end where there are enough of these, and so need not be equal: with G groups, rank r takes
 * G / n of them, and one more while r < G mod n. Pure. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdint.h>

struct model_config;

struct range {
    uint32_t begin;
    uint32_t n;
};

struct shard {
    uint32_t rank;
    uint32_t n_ranks;
    struct range heads;    /* query heads */
    struct range kv_heads; /* what they look at */
    struct range vocab;    /* rows of embedding and head; may be none */
};

/* STATUS_UNSUPPORTED with a line that says which number of ranks would work. */
NODISCARD enum status shard_of(const struct model_config *config, uint32_t rank, uint32_t n_ranks,
                               struct shard *shard, struct error *error);

/* Rank r's share of `total` in whole units (the last unit may be cut short). */
struct range shard_cut(uint32_t total, uint32_t unit, uint32_t rank, uint32_t n_ranks);
