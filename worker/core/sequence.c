#include "worker/core/sequence.h"

#include "base/assert.h"
#include "base/random.h"
#include "worker/core/block_hash.h"

#include <stdlib.h>
#include <string.h>

static struct map_key sequence_request_key(struct request_id req) {
    return (struct map_key){.hi = req.hi, .lo = req.lo};
}

static void sequence_init_slots(struct sequence_table *table) {
    for (uint32_t i = 0; i < table->n_slots; i++) {
        struct sequence *sequence = &table->slots[i];
        sequence->slot = i;
        list_init(&sequence->of_session);
        list_init(&sequence->dirty);
        list_init(&sequence->of_link);
        list_init(&sequence->leased);
        list_push_back(&table->free, &sequence->at);
        sequence->ids = table->ids + (size_t)i * table->context;
        sequence->blocks = table->blocks + (size_t)i * table->n_blocks_max;
        sequence->logprobs = table->logprobs + (size_t)i * SEQUENCE_LOGPROBS_MAX;
        sequence->handoff.cells = table->cells + (size_t)i * table->n_cell_words;
    }
}

enum status sequence_table_init(struct sequence_table *table, uint32_t n_slots, uint32_t context,
                                uint32_t n_layers, uint64_t seed) {
    uint32_t n_blocks = (context + BLOCK_HASH_TOKENS - 1) / BLOCK_HASH_TOKENS;
    *table = (struct sequence_table){.n_slots = n_slots,
                                     .context = context,
                                     .n_blocks_max = n_blocks,
                                     .n_cell_words = (n_blocks * n_layers + 63) / 64};
    list_init(&table->free);
    if (map_init(&table->by_request, n_slots, seed) != STATUS_OK)
        goto fail;
    table->slots = calloc(n_slots, sizeof *table->slots);
    table->ids = calloc((size_t)n_slots * context, sizeof *table->ids);
    table->blocks = calloc((size_t)n_slots * n_blocks, sizeof *table->blocks);
    table->cells = calloc((size_t)n_slots * table->n_cell_words, sizeof *table->cells);
    table->logprobs = calloc((size_t)n_slots * SEQUENCE_LOGPROBS_MAX, sizeof *table->logprobs);
    table->arrays = calloc(n_slots, sizeof *table->arrays);
    if (!table->slots || !table->ids || !table->blocks || !table->cells || !table->logprobs ||
        !table->arrays)
        goto fail;
    sequence_init_slots(table);
    return STATUS_OK;

fail:
    sequence_table_fini(table);
    return STATUS_NOMEM;
}

void sequence_table_fini(struct sequence_table *table) {
    if (!table)
        return;
    map_fini(&table->by_request);
    free(table->slots);
    free(table->ids);
    free(table->blocks);
    free(table->cells);
    free(table->logprobs);
    free(table->arrays);
    *table = (struct sequence_table){0};
}

struct sequence *sequence_find(struct sequence_table *table, struct request_id req) {
    uint32_t slot;
    if (map_get(&table->by_request, sequence_request_key(req), &slot) != STATUS_OK)
        return NULL;
    return &table->slots[slot];
}

struct sequence *sequence_take(struct sequence_table *table, struct request_id req,
                               uint32_t attempt) {
    struct list *first = list_first(&table->free);
    if (!first || map_put(&table->by_request, sequence_request_key(req), 0) != STATUS_OK)
        return NULL;
    struct sequence *sequence = list_entry(first, struct sequence, at);
    list_remove(first);
    enum status status = map_put(&table->by_request, sequence_request_key(req), sequence->slot);
    ASSERT(status == STATUS_OK);
    table->n_used++;
    sequence->serial = ++table->next_serial;
    sequence->req = req;
    sequence->attempt = attempt;
    sequence->peer_link = SEQUENCE_NONE;
    sequence->handoff.peer_link = SEQUENCE_NONE;
    return sequence;
}

void sequence_unname(struct sequence_table *table, struct sequence *sequence) {
    struct sequence *named = sequence_find(table, sequence->req);
    if (named == sequence)
        map_remove(&table->by_request, sequence_request_key(sequence->req));
}

void sequence_give(struct sequence_table *table, struct sequence *sequence) {
    ASSERT(sequence->n_blocks == 0);
    ASSERT(sequence->queue == QUEUE_NONE);
    sequence_unname(table, sequence);
    struct sequence empty = {.slot = sequence->slot,
                             .ids = sequence->ids,
                             .blocks = sequence->blocks,
                             .logprobs = sequence->logprobs};
    empty.handoff.cells = sequence->handoff.cells;
    list_remove(&sequence->of_session);
    list_remove(&sequence->dirty);
    list_remove(&sequence->of_link);
    list_remove(&sequence->leased);
    list_remove(&sequence->at);
    *sequence = empty;
    list_init(&sequence->of_session);
    list_init(&sequence->dirty);
    list_init(&sequence->of_link);
    list_init(&sequence->leased);
    list_push_front(&table->free, &sequence->at);
    table->n_used--;
}

static bool sequence_ids_valid(const uint32_t *ids, uint32_t n, uint32_t n_vocab) {
    if (n > 0 && !ids)
        return false;
    if (n_vocab == 0)
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= n_vocab)
            return false;
    return true;
}

enum status sequence_check_submit(const struct submit *submit, uint32_t n_vocab) {
    const struct sampling *sampling = &submit->sampling;
    if (submit->n_prompt == 0 || submit->n_tokens < submit->n_prompt ||
        submit->n_tokens > MESSAGE_TOKENS_MAX)
        return STATUS_INVALID;
    if (!sequence_ids_valid(submit->tokens, submit->n_tokens, n_vocab))
        return STATUS_INVALID;
    /* An answer that is full already has no next token. */
    if (submit->n_tokens - submit->n_prompt >= sampling->max_new)
        return STATUS_INVALID;
    if ((submit->phase == PHASE_BOTH) == submit->has_xfer || submit->phase > PHASE_BOTH)
        return STATUS_INVALID;
    if (sampling->n_stop_ids > MESSAGE_STOP_IDS_MAX || sampling->n_bias > MESSAGE_BIAS_MAX ||
        sampling->n_allowed > MESSAGE_ALLOWED_MAX || sampling->n_top > MESSAGE_TOP_MAX ||
        sampling->n_grammar > MESSAGE_GRAMMAR_MAX)
        return STATUS_INVALID;
    /* Stop ids only compare, so one outside the vocabulary is harmless; the others are indexes. */
    if (!sequence_ids_valid(sampling->stop_ids, sampling->n_stop_ids, 0) ||
        !sequence_ids_valid(sampling->bias_ids, sampling->n_bias, n_vocab) ||
        !sequence_ids_valid(sampling->allowed_ids, sampling->n_allowed, n_vocab) ||
        (sampling->n_bias > 0 && !sampling->bias) ||
        (sampling->n_grammar > 0 && !sampling->grammar))
        return STATUS_INVALID;
    return STATUS_OK;
}

static void sequence_copy_array(void *to, const void *from, size_t size, uint32_t n) {
    if (n > 0)
        memcpy(to, from, size * n);
}

void sequence_fill(struct sequence_table *table, struct sequence *sequence,
                   const struct submit *submit, uint32_t variant, uint64_t now_ns) {
    struct sequence_arrays *arrays = &table->arrays[sequence->slot];
    struct sampling *sampling = &sequence->sampling;
    ASSERT(submit->n_tokens < table->context);
    sequence->phase = submit->phase;
    sequence->priority = submit->priority;
    sequence->tenant = submit->tenant;
    sequence->trace = submit->has_trace ? submit->trace : (struct trace){.flags = 0};
    sequence->variant = variant;
    sequence->salt = variant ? mix64(submit->salt + variant) : submit->salt;
    sequence->deadline_ns = submit->budget_ms ? now_ns + submit->budget_ms * 1000000ull : 0;
    sequence->n_prompt = submit->n_prompt;
    sequence->n_tokens = submit->n_tokens;
    sequence->n_sent = submit->n_tokens;
    sequence->n_given = submit->n_tokens;
    sequence->submit_ns = now_ns;
    sequence->logprobs_from = submit->n_tokens;
    sequence->hashed = BLOCK_HASH_START;
    memcpy(sequence->ids, submit->tokens, submit->n_tokens * sizeof *sequence->ids);
    *sampling = submit->sampling;
    sequence_copy_array(arrays->stop_ids, sampling->stop_ids, sizeof(uint32_t),
                        sampling->n_stop_ids);
    sequence_copy_array(arrays->bias_ids, sampling->bias_ids, sizeof(uint32_t), sampling->n_bias);
    sequence_copy_array(arrays->bias, sampling->bias, sizeof(float), sampling->n_bias);
    sequence_copy_array(arrays->allowed_ids, sampling->allowed_ids, sizeof(uint32_t),
                        sampling->n_allowed);
    sampling->stop_ids = arrays->stop_ids;
    sampling->bias_ids = arrays->bias_ids;
    sampling->bias = arrays->bias;
    sampling->allowed_ids = arrays->allowed_ids;
    sampling->grammar = NULL; /* the message's */
}

void sequence_name_blocks(struct sequence *sequence, struct prefix_cache *cache, uint64_t key) {
    uint32_t n_full = sequence->n_computed / BLOCK_HASH_TOKENS;
    for (; sequence->n_hashed < n_full; sequence->n_hashed++) {
        const uint32_t *ids = sequence->ids + (size_t)sequence->n_hashed * BLOCK_HASH_TOKENS;
        sequence->hashed = block_hash(key, sequence->salt, sequence->hashed, ids);
        prefix_cache_name(cache, sequence->hashed, sequence->blocks[sequence->n_hashed]);
    }
}

void sequence_give_blocks(struct sequence *sequence, struct prefix_cache *cache) {
    while (sequence->n_blocks > 0)
        prefix_cache_give(cache, sequence->blocks[--sequence->n_blocks]);
    sequence->n_computed = 0;
    sequence->n_hashed = 0;
    sequence->hashed = BLOCK_HASH_START;
}

void sequence_append(struct sequence *sequence, uint32_t id,
                     const struct token_logprobs *logprobs) {
    if (logprobs)
        sequence->logprobs[sequence->n_tokens % SEQUENCE_LOGPROBS_MAX] = *logprobs;
    else
        sequence->logprobs_from = sequence->n_tokens + 1;
    sequence->ids[sequence->n_tokens++] = id;
    if (sequence->n_tokens - sequence->logprobs_from > SEQUENCE_LOGPROBS_MAX)
        sequence->logprobs_from = sequence->n_tokens - SEQUENCE_LOGPROBS_MAX;
}

bool sequence_bans_ends(const struct sequence *sequence, uint32_t n_tokens) {
    uint32_t n_output = n_tokens > sequence->n_prompt ? n_tokens - sequence->n_prompt : 0;
    return n_output < sequence->sampling.min_new;
}
