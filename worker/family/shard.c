#include "worker/family/shard.h"

#include "model/weights/config/config.h"

#define VOCAB_UNIT 16u /* rows that are packed together */

struct range shard_cut(uint32_t total, uint32_t unit, uint32_t rank, uint32_t n_ranks) {
    uint32_t n_units = total / unit + (total % unit != 0);
    uint32_t share = n_units / n_ranks, rest = n_units % n_ranks;
    uint64_t first = (uint64_t)rank * share + (rank < rest ? rank : rest);
    uint64_t begin = first * unit;
    uint64_t end = begin + (uint64_t)(share + (rank < rest)) * unit;
    begin = begin < total ? begin : total;
    end = end < total ? end : total;
    return (struct range){(uint32_t)begin, (uint32_t)(end - begin)};
}

enum status shard_of(const struct model_config *config, uint32_t rank, uint32_t n_ranks,
                     struct shard *shard, struct error *error) {
    uint32_t n_heads = config->n_heads, n_kv = config->n_kv_heads;
    if (n_heads % n_ranks != 0)
        return error_field(error, STATUS_UNSUPPORTED, "tp",
                           "%s: %u query heads cannot be cut for tp %u: it must divide them",
                           config->name, n_heads, n_ranks);
    if (n_kv % n_ranks != 0 && n_ranks % n_kv != 0)
        return error_field(error, STATUS_UNSUPPORTED, "tp",
                           "%s: %u key-value heads cannot be cut for tp %u: one of the two must "
                           "divide the other",
                           config->name, n_kv, n_ranks);
    uint32_t kv_share = n_kv < n_ranks ? 1 : n_kv / n_ranks;
    uint32_t unit = config->n_vocab >= VOCAB_UNIT * n_ranks ? VOCAB_UNIT : 1;
    *shard = (struct shard){
        .rank = rank,
        .n_ranks = n_ranks,
        .heads = {rank * (n_heads / n_ranks), n_heads / n_ranks},
        .kv_heads = {(uint32_t)((uint64_t)rank * n_kv / n_ranks), kv_share},
        .vocab = shard_cut(config->n_vocab, unit, rank, n_ranks),
    };
    if (shard->vocab.n == 0)
        return error_field(error, STATUS_UNSUPPORTED, "tp",
                           "%s: a vocabulary of %u cannot be cut for tp %u", config->name,
                           config->n_vocab, n_ranks);
    return STATUS_OK;
}
