#include "worker/step/batch.h"

#include "base/assert.h"
#include "worker/core/engine.h"

#include <stdlib.h>
#include <string.h>

static uint32_t batch_blocks_for(uint32_t n_tokens) {
    return n_tokens / KV_BLOCK_TOKENS + (n_tokens % KV_BLOCK_TOKENS != 0);
}

enum status batch_init(struct batch *batch, uint32_t max_tokens, uint32_t max_seqs,
                       uint32_t max_context) {
    ASSERT(max_tokens > 0 && max_seqs > 0 && max_context > 0);
    *batch = (struct batch){.max_tokens = max_tokens,
                            .max_seqs = max_seqs,
                            .max_context = max_context,
                            .max_blocks = batch_blocks_for(max_context)};
    batch->ids = calloc(max_tokens, sizeof(uint32_t));
    batch->positions = calloc(max_tokens, sizeof(uint32_t));
    batch->seq_begin = calloc((size_t)max_seqs + 1, sizeof(uint32_t));
    batch->block_tables = calloc((size_t)max_seqs * batch->max_blocks, sizeof(uint32_t));
    batch->variants = calloc(max_seqs, sizeof(uint32_t));
    batch->rows = calloc(max_seqs, sizeof(uint32_t));
    batch->slots = calloc(max_seqs, sizeof(uint32_t));
    if (!batch->ids || !batch->positions || !batch->seq_begin || !batch->block_tables ||
        !batch->variants || !batch->rows || !batch->slots) {
        batch_fini(batch);
        return STATUS_NOMEM;
    }
    return STATUS_OK;
}

void batch_fini(struct batch *batch) {
    free(batch->ids);
    free(batch->positions);
    free(batch->seq_begin);
    free(batch->block_tables);
    free(batch->variants);
    free(batch->rows);
    free(batch->slots);
    memset(batch, 0, sizeof *batch);
}

/* The longest block table of this step: tables lie as densely as the step allows. */
static uint32_t batch_stride_of(const struct plan *plan) {
    uint32_t stride = 1;
    for (uint32_t i = 0; i < plan->n_rows; i++) {
        uint32_t n = batch_blocks_for(plan->rows[i].begin + plan->rows[i].n_tokens);
        stride = n > stride ? n : stride;
    }
    return stride;
}

void batch_build(struct batch *batch, const struct plan *plan) {
    uint32_t stride = batch_stride_of(plan);
    uint32_t n_tokens = 0;
    bool is_ahead = plan->n_rows > 0 && !plan->rows[0].ids;
    ASSERT(plan->n_rows <= batch->max_seqs);
    ASSERT(plan->n_tokens <= batch->max_tokens);
    ASSERT(stride <= batch->max_blocks);
    batch->n_rows = 0;
    for (uint32_t i = 0; i < plan->n_rows; i++) {
        const struct plan_row *row = &plan->rows[i];
        ASSERT(row->n_tokens > 0 && row->n_tokens <= batch->max_tokens - n_tokens);
        batch->seq_begin[i] = n_tokens;
        batch->variants[i] = row->variant;
        ASSERT((row->ids == NULL) == is_ahead);
        if (!is_ahead)
            memcpy(batch->ids + n_tokens, row->ids, row->n_tokens * sizeof(uint32_t));
        for (uint32_t t = 0; t < row->n_tokens; t++)
            batch->positions[n_tokens + t] = row->begin + t;
        memcpy(batch->block_tables + (size_t)i * stride, row->blocks,
               batch_blocks_for(row->begin + row->n_tokens) * sizeof(uint32_t));
        n_tokens += row->n_tokens;
        if (row->sample) {
            batch->rows[batch->n_rows] = n_tokens - 1;
            batch->slots[batch->n_rows++] = row->slot;
        }
    }
    batch->seq_begin[plan->n_rows] = n_tokens;
    ASSERT(n_tokens == plan->n_tokens);
    batch->view = (struct kernels_batch){
        .n_tokens = n_tokens,
        .n_seqs = plan->n_rows,
        .ids = is_ahead ? NULL : batch->ids,
        .positions = batch->positions,
        .seq_begin = batch->seq_begin,
        .block_tables = batch->block_tables,
        .block_table_stride = stride,
        .variants = batch->variants,
    };
}
