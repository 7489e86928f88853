#include "worker/forward.h"

#include "base/assert.h"
#include "base/checked.h"
#include "model/model.h"
#include "worker/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *memory_take(const struct forward *forward, size_t n_bytes) {
    if (forward->kernels)
        return forward->kernels->alloc(forward->ctx, n_bytes);
    void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void memory_give(const struct forward *forward, void *memory, size_t n_bytes) {
    if (!memory)
        return;
    if (forward->kernels)
        forward->kernels->dealloc(forward->ctx, memory, n_bytes);
    else
        munmap(memory, n_bytes);
}

static enum status open_family(const struct forward_options *options, struct family_model **model,
                               struct error *error) {
    const struct model_config *config = &options->model->config;
    const struct family *family = family_find(config->family);
    if (!family)
        return error_set(error, STATUS_UNSUPPORTED, "%s: no model family \"%s\" here", config->name,
                         config->family);
    struct family_options family_options = {.model = options->model,
                                            .kv_format = options->kv_format,
                                            .context_max = options->context_max,
                                            .step_us = options->step_us};
    return family->open(&family_options, model, error);
}

static enum status find_kernels(const struct forward_options *options,
                                const struct family_facts *facts, const struct kernels **kernels,
                                struct error *error) {
    *kernels = NULL;
    if (facts->forced)
        return STATUS_OK;
    *kernels = kernels_find(options->backend);
    if (!*kernels)
        return error_field(error, STATUS_NOT_FOUND, "backend", "there is no backend \"%s\"",
                           options->backend);
    return STATUS_OK;
}

static size_t logits_bytes_of(const struct family_facts *facts, uint32_t max_seqs) {
    return facts->forced ? 0 : (size_t)max_seqs * facts->n_vocab * sizeof(float);
}

enum status forward_measure(const struct forward_options *options, struct forward_bytes *bytes,
                            struct error *error) {
    const struct kernels *kernels;
    struct family_model *model;
    struct forward_bytes result = {0};
    TRY(open_family(options, &model, error));
    enum status status = find_kernels(options, &model->facts, &kernels, error);
    if (status == STATUS_OK && kernels)
        status = weights_measure(&model->slots, kernels, &result.weights, error);
    if (status == STATUS_OK) {
        result.facts = model->facts;
        result.scratch =
            model->family->scratch_bytes(model, options->max_tokens, options->max_seqs) +
            logits_bytes_of(&model->facts, options->max_seqs);
        result.kv_per_token =
            (size_t)model->facts.n_layers * model->facts.block_bytes / KV_BLOCK_TOKENS;
        *bytes = result;
    }
    family_close(model);
    return status;
}

static enum status open_kernels(struct forward *forward, const struct forward_options *options,
                                struct error *error) {
    const struct family_facts *facts = &forward->model->facts;
    TRY(find_kernels(options, facts, &forward->kernels, error));
    if (!forward->kernels)
        return STATUS_OK;
    struct kernels_options kernels_options = {
        .n_threads = options->n_threads,
        .isa = options->isa,
        .limits = {.max_tokens = options->max_tokens,
                   .max_seqs = options->max_seqs,
                   .max_context = facts->context,
                   .max_dim = facts->max_dim,
                   .n_vocab = facts->n_vocab,
                   .n_heads = facts->n_heads,
                   .n_kv_heads = facts->n_kv_heads,
                   .head_dim = facts->head_dim},
    };
    enum status status = forward->kernels->open(&kernels_options, &forward->ctx, error);
    if (status != STATUS_OK)
        forward->kernels = NULL; /* there is no context to close */
    return status;
}

static enum status take_memory(struct forward *forward, const struct forward_options *options,
                               struct error *error) {
    const struct family_model *model = forward->model;
    const struct family_facts *facts = &model->facts;
    uint64_t kv_bytes;
    forward->kv = (struct family_kv){.layer_bytes = (size_t)options->n_blocks * facts->block_bytes,
                                     .block_bytes = facts->block_bytes,
                                     .n_layers = facts->n_layers,
                                     .n_blocks = options->n_blocks};
    if (!checked_mul(forward->kv.layer_bytes, facts->n_layers, &kv_bytes) ||
        kv_bytes > SIZE_MAX / 2)
        return error_field(error, STATUS_LIMIT, "kv-blocks",
                           "%u KV blocks are more than memory can be", options->n_blocks);
    forward->kv_bytes = (size_t)kv_bytes;
    forward->kv.base = memory_take(forward, forward->kv_bytes);
    forward->scratch_bytes =
        model->family->scratch_bytes(model, options->max_tokens, options->max_seqs);
    forward->scratch = memory_take(forward, forward->scratch_bytes);
    forward->logits_bytes = logits_bytes_of(facts, options->max_seqs);
    if (facts->forced)
        forward->forced = calloc(options->max_seqs, sizeof *forward->forced);
    else
        forward->logits = memory_take(forward, forward->logits_bytes);
    if (!forward->kv.base || !forward->scratch || (!forward->logits && !forward->forced))
        return error_set(error, STATUS_NOMEM,
                         "no memory for %zu bytes of KV cache and %zu of activations",
                         forward->kv_bytes, forward->scratch_bytes + forward->logits_bytes);
    return STATUS_OK;
}

static enum status open_all(struct forward *forward, const struct forward_options *options,
                            struct error *error) {
    TRY(open_family(options, &forward->model, error));
    TRY(open_kernels(forward, options, error));
    /* Packing reads every byte of the files: the last look at their sizes. */
    TRY(model_check_files(options->model, error));
    if (forward->kernels)
        TRY(weights_load(&forward->weights, &forward->model->slots, forward->kernels, forward->ctx,
                         error));
    TRY(take_memory(forward, options, error));
    return forward->model->family->prepare(forward->model, forward->kernels, forward->ctx, NULL,
                                           error);
}

enum status forward_open(struct forward *forward, const struct forward_options *options,
                         struct error *error) {
    ASSERT(options->max_tokens > 0 && options->max_seqs > 0 && options->n_blocks > 0);
    *forward = (struct forward){.max_tokens = options->max_tokens, .max_seqs = options->max_seqs};
    enum status status = open_all(forward, options, error);
    if (status != STATUS_OK)
        forward_close(forward);
    return status;
}

void forward_close(struct forward *forward) {
    memory_give(forward, forward->kv.base, forward->kv_bytes);
    memory_give(forward, forward->scratch, forward->scratch_bytes);
    memory_give(forward, forward->logits, forward->logits_bytes);
    free(forward->forced);
    weights_fini(&forward->weights);
    family_close(forward->model);
    if (forward->kernels)
        forward->kernels->close(forward->ctx);
    memset(forward, 0, sizeof *forward);
}

void forward_numerics(const struct forward *forward, char *text, size_t size) {
    const char *kernels =
        forward->kernels ? forward->kernels->numerics(forward->ctx) : "no arithmetic";
    snprintf(text, size, "%s; %s", kernels, forward->model->numerics);
}

void forward_run(struct forward *forward, const struct batch *batch,
                 void (*layers_done)(void *context, uint32_t layer_begin, uint32_t layer_end),
                 void *context) {
    ASSERT(batch->view.n_tokens <= forward->max_tokens);
    ASSERT(batch->n_rows <= forward->max_seqs);
    struct family_step step = {
        .batch = &batch->view,
        .kv = &forward->kv,
        .rows = batch->rows,
        .n_rows = batch->n_rows,
        .logits = forward->logits,
        .forced = forward->forced,
        .scratch = forward->scratch,
        .layers_done = layers_done,
        .context = context,
    };
    forward->model->family->forward(forward->model, &step);
}
