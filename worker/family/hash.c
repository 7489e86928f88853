/* The oracle (docs/architecture/overview.md, "Oracles"): a family that is not a neural network and needs no files.
 *
 * The KV entry of token t at position i is e_i = mix(e_{i-1} ^ (t + 1)), e_{-1} = 0. It is kept as
 * four layers of 8 bytes whose XOR it is: layers 0 to 2 hold mix(e_i + layer + 1). The next token
 * is 256 + s mod 65280, where s = mix(s ^ e_j) folds all entries as they are read back from the
 * blocks. So one lost, repeated, swapped or stale token or block shows at the first wrong token. */
#include "base/clock.h"
#include "base/random.h"
#include "model/model.h"
#include "worker/family/family.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    N_LAYERS = 4,
    ENTRY_BYTES = 8,
    N_VOCAB = 65536,
    N_BYTES = 256 /* ids below it are bytes; generated ids are above */
};

extern const struct family_network family_hash;

struct hash_model {
    struct family_model head;
    uint32_t step_us;
};

static enum status hash_family_open_model(const struct family *family,
                                          const struct family_options *options,
                                          struct family_model **model, struct error *error) {
    if (options->n_ranks > 1)
        return error_field(error, STATUS_UNSUPPORTED, "tp", "hash cannot be cut for tp %u",
                           options->n_ranks);
    struct hash_model *hash = calloc(1, sizeof *hash);
    if (!hash)
        return error_set(error, STATUS_NOMEM, "no memory for the model");
    hash->head.family = family;
    uint32_t context = options->model->config.context;
    if (options->context_max && options->context_max < context)
        context = options->context_max;
    hash->head.facts = (struct family_facts){
        .n_vocab = N_VOCAB,
        .n_layers = N_LAYERS,
        .block_bytes = KV_BLOCK_TOKENS * ENTRY_BYTES,
        .context = context,
        .n_variants = 1,
        .variant_limits = {UINT32_MAX},
        .forced = true,
    };
    hash->step_us = options->step_us;
    slots_init(&hash->head.slots);
    *model = &hash->head;
    return STATUS_OK;
}

static void hash_family_close_model(struct family_model *model) {
    slots_fini(&model->slots);
    free(model);
}

static size_t hash_family_scratch_bytes(const struct family_model *model,
                                        const struct kernels *kernels, uint32_t n_tokens,
                                        uint32_t n_rows) {
    (void)model, (void)kernels, (void)n_rows;
    return (size_t)n_tokens * sizeof(uint64_t);
}

static enum status hash_family_prepare(struct family_model *model, const struct kernels *kernels,
                                       struct kernels_ctx *ctx, struct comm *comm,
                                       struct error *error) {
    (void)kernels, (void)ctx, (void)comm, (void)error;
    strcpy(model->numerics, "hash v1");
    return STATUS_OK;
}

static unsigned char *hash_family_entry_at(const struct family_kv *kv, uint32_t layer,
                                           const uint32_t *blocks, uint32_t position) {
    return kv->base + layer * kv->layer_bytes +
           (size_t)blocks[position / KV_BLOCK_TOKENS] * kv->block_bytes +
           (size_t)(position % KV_BLOCK_TOKENS) * ENTRY_BYTES;
}

static uint64_t hash_family_entry_read(const struct family_kv *kv, const uint32_t *blocks,
                                       uint32_t position) {
    uint64_t entry = 0;
    for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
        uint64_t share;
        memcpy(&share, hash_family_entry_at(kv, layer, blocks, position), sizeof share);
        entry ^= share;
    }
    return entry;
}

/* What one layer holds of an entry. */
static uint64_t hash_family_entry_share(uint64_t entry, uint32_t layer) {
    if (layer < N_LAYERS - 1)
        return mix64(entry + layer + 1);
    uint64_t rest = entry;
    for (uint32_t other = 0; other < N_LAYERS - 1; other++)
        rest ^= mix64(entry + other + 1);
    return rest;
}

static const uint32_t *hash_family_blocks_of(const struct kernels_batch *batch, uint32_t seq) {
    return batch->block_tables + (size_t)seq * batch->block_table_stride;
}

/* entries (T): the chain of each sequence goes on from the entry before its first token, as it lies
 * in the blocks. */
static void hash_family_make_entries(const struct family_step *step, uint64_t *entries) {
    const struct kernels_batch *batch = step->batch;
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++) {
        uint32_t begin = batch->seq_begin[seq];
        uint32_t position = batch->positions[begin];
        uint64_t entry = 0;
        if (position > 0)
            entry =
                hash_family_entry_read(step->kv, hash_family_blocks_of(batch, seq), position - 1);
        for (uint32_t t = begin; t < batch->seq_begin[seq + 1]; t++) {
            entry = mix64(entry ^ ((uint64_t)batch->ids[t] + 1));
            entries[t] = entry;
        }
    }
}

static void hash_family_write_layer(const struct family_step *step, const uint64_t *entries,
                                    uint32_t layer) {
    const struct kernels_batch *batch = step->batch;
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++) {
        const uint32_t *blocks = hash_family_blocks_of(batch, seq);
        for (uint32_t t = batch->seq_begin[seq]; t < batch->seq_begin[seq + 1]; t++) {
            uint64_t share = hash_family_entry_share(entries[t], layer);
            memcpy(hash_family_entry_at(step->kv, layer, blocks, batch->positions[t]), &share,
                   sizeof share);
        }
    }
}

static uint32_t hash_family_next_token(const struct family_step *step, uint32_t seq,
                                       uint32_t last) {
    const uint32_t *blocks = hash_family_blocks_of(step->batch, seq);
    uint64_t s = 0;
    for (uint32_t position = 0; position <= last; position++)
        s = mix64(s ^ hash_family_entry_read(step->kv, blocks, position));
    return (uint32_t)(N_BYTES + s % (N_VOCAB - N_BYTES));
}

static void hash_family_sleep_until(uint64_t at_ns) {
    struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S),
                          .tv_nsec = (long)(at_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

static void hash_family_forward(struct family_model *model, const struct family_step *step) {
    const struct hash_model *hash = (const struct hash_model *)model;
    const struct kernels_batch *batch = step->batch;
    uint64_t *entries = step->scratch;
    uint64_t begin_ns = hash->step_us ? clock_now_ns() : 0;
    hash_family_make_entries(step, entries);
    for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
        hash_family_write_layer(step, entries, layer);
        /* The step's time passes evenly over its layers, as a real one's does. */
        if (hash->step_us)
            hash_family_sleep_until(begin_ns +
                                    (uint64_t)hash->step_us * NS_PER_US * (layer + 1) / N_LAYERS);
        if (step->layers_done)
            step->layers_done(step->context, layer, layer + 1);
    }
    for (uint32_t i = 0, seq = 0; i < step->n_rows; i++) {
        while (batch->seq_begin[seq + 1] <= step->rows[i])
            seq++;
        step->forced[i] = hash_family_next_token(step, seq, batch->positions[step->rows[i]]);
    }
}

const struct family_network family_hash = {
    .open = hash_family_open_model,
    .close = hash_family_close_model,
    .scratch_bytes = hash_family_scratch_bytes,
    .prepare = hash_family_prepare,
    .forward = hash_family_forward,
};
