/* Llama, Mistral 0.1-0.3 and what shares their shape (SmolLM2): RMSNorm before attention and before
 * the feed-forward part, grouped-query attention with rotary positions, gated SiLU (Touvron et al.
 * 2023; Jiang et al. 2023). GGUF files of this architecture keep q and k in the interleaved rotary
 * form; the rows stay as they are and the kernels rotate neighbours, so packing needs no
 * permutation. */
#include "base/checked.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "worker/family/family.h"
#include "worker/family/rotary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct llama_layer {
    const float *attn_norm; /* (dim) */
    struct weight qkv;      /* ((n_heads + 2 n_kv_heads) * head_dim, dim) */
    struct weight out;      /* (dim, n_heads * head_dim) */
    const float *ffn_norm;  /* (dim) */
    struct weight gate_up;  /* (2 ffn_dim, dim), rows alternate */
    struct weight down;     /* (dim, ffn_dim) */
};

struct llama_model {
    struct family_model head;
    struct model_config config;
    const struct kernels *kernels; /* borrowed */
    struct kernels_ctx *ctx;       /* borrowed */
    struct weight embedding;       /* (n_vocab, dim) */
    struct weight own_head;        /* (n_vocab, dim) unless tied */
    const float *norm;             /* (dim) */
    struct rotary rotary;
    struct llama_layer layers[]; /* (config.n_layers) */
};

extern const struct family family_llama;

static uint32_t qkv_dim(const struct model_config *config) {
    return (config->n_heads + 2 * config->n_kv_heads) * config->head_dim;
}

static uint32_t max_of(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static enum status list_layer(struct llama_model *llama, const struct model *model, uint32_t index,
                              struct error *error) {
    const struct model_config *config = &llama->config;
    struct llama_layer *layer = &llama->layers[index];
    struct slots *slots = &llama->head.slots;
    enum { ATTN_NORM, Q, K, V, OUT, FFN_NORM, GATE, UP, DOWN, N_TENSORS };
    static const char *const names[N_TENSORS] = {"attn_norm", "attn_q",      "attn_k",
                                                 "attn_v",    "attn_output", "ffn_norm",
                                                 "ffn_gate",  "ffn_up",      "ffn_down"};
    char name[N_TENSORS][64];
    for (int i = 0; i < N_TENSORS; i++)
        snprintf(name[i], sizeof name[i], "blk.%u.%s.weight", index, names[i]);
    uint32_t q_dim = config->n_heads * config->head_dim;
    uint32_t kv_dim = config->n_kv_heads * config->head_dim;
    const struct slot_tensor qkv[] = {{name[Q], q_dim}, {name[K], kv_dim}, {name[V], kv_dim}};
    const struct slot_tensor out[] = {{name[OUT], config->dim}};
    const struct slot_tensor down[] = {{name[DOWN], config->dim}};
    TRY(slots_vector(slots, model, &layer->attn_norm, name[ATTN_NORM], config->dim, error));
    TRY(slots_matrix(slots, model, &layer->qkv, qkv, 3, config->dim, error));
    TRY(slots_matrix(slots, model, &layer->out, out, 1, q_dim, error));
    TRY(slots_vector(slots, model, &layer->ffn_norm, name[FFN_NORM], config->dim, error));
    TRY(slots_alternate(slots, model, &layer->gate_up, name[GATE], name[UP], config->ffn_dim,
                        config->dim, error));
    return slots_matrix(slots, model, &layer->down, down, 1, config->ffn_dim, error);
}

static enum status list_slots(struct llama_model *llama, const struct model *model,
                              struct error *error) {
    const struct model_config *config = &llama->config;
    struct slots *slots = &llama->head.slots;
    const struct slot_tensor embedding[] = {{"token_embd.weight", config->n_vocab}};
    const struct slot_tensor output[] = {{"output.weight", config->n_vocab}};
    TRY(slots_matrix(slots, model, &llama->embedding, embedding, 1, config->dim, error));
    if (!config->tied_head)
        TRY(slots_matrix(slots, model, &llama->own_head, output, 1, config->dim, error));
    TRY(slots_vector(slots, model, &llama->norm, "output_norm.weight", config->dim, error));
    for (uint32_t i = 0; i < config->n_layers; i++)
        TRY(list_layer(llama, model, i, error));
    return STATUS_OK;
}

static void close_model(struct family_model *model) {
    struct llama_model *llama = (struct llama_model *)model;
    rotary_fini(&llama->rotary);
    slots_fini(&llama->head.slots);
    free(llama);
}

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    const struct model_config *config = &options->model->config;
    uint64_t block_bytes = (uint64_t)2 * config->n_kv_heads * config->head_dim * KV_BLOCK_TOKENS *
                           sizeof(uint16_t); /* config_check() bounds the factors */
    if (block_bytes > UINT32_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s: a KV block of one layer is over 4 GiB",
                         config->name);
    struct llama_model *llama =
        calloc(1, sizeof *llama + config->n_layers * sizeof llama->layers[0]);
    if (!llama)
        return error_set(error, STATUS_NOMEM, "%s: no memory for the model", config->name);
    llama->head.family = &family_llama;
    llama->config = *config;
    slots_init(&llama->head.slots);
    uint32_t context = config->context;
    if (options->context_max && options->context_max < context)
        context = options->context_max;
    llama->head.facts = (struct family_facts){
        .n_vocab = config->n_vocab,
        .n_layers = config->n_layers,
        .block_bytes = (uint32_t)block_bytes,
        .context = context,
        .max_dim = max_of(max_of(config->dim, config->ffn_dim), qkv_dim(config)),
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
    };
    enum status status = list_slots(llama, options->model, error);
    if (status != STATUS_OK)
        close_model(&llama->head);
    else
        *model = &llama->head;
    return status;
}

/* Where each activation lies in the scratch memory, in floats. */
struct layout {
    size_t x;      /* (T, dim) residual stream */
    size_t normed; /* (T, dim) */
    size_t qkv;    /* (T, qkv_dim) */
    size_t attn;   /* (T, n_heads * head_dim) */
    size_t ffn;    /* (T, ffn_dim) */
    size_t last;   /* (n_rows, dim) rows that are sampled from */
    size_t n;      /* all of it */
};

static size_t place(size_t *at, size_t n) {
    size_t begin = *at;
    *at += (n + 15) / 16 * 16; /* 64 bytes */
    return begin;
}

static struct layout layout_of(const struct model_config *config, size_t n_tokens, size_t n_rows) {
    struct layout layout;
    size_t at = 0;
    layout.x = place(&at, n_tokens * config->dim);
    layout.normed = place(&at, n_tokens * config->dim);
    layout.qkv = place(&at, n_tokens * qkv_dim(config));
    layout.attn = place(&at, n_tokens * config->n_heads * config->head_dim);
    layout.ffn = place(&at, n_tokens * config->ffn_dim);
    layout.last = place(&at, n_rows * config->dim);
    layout.n = at;
    return layout;
}

static size_t scratch_bytes(const struct family_model *model, uint32_t n_tokens, uint32_t n_rows) {
    const struct llama_model *llama = (const struct llama_model *)model;
    return layout_of(&llama->config, n_tokens, n_rows).n * sizeof(float);
}

static enum status prepare(struct family_model *model, const struct kernels *kernels,
                           struct kernels_ctx *ctx, struct error *error) {
    struct llama_model *llama = (struct llama_model *)model;
    llama->kernels = kernels;
    llama->ctx = ctx;
    TRY(rotary_init(&llama->rotary, &llama->config, model->facts.context, error));
    snprintf(model->numerics, sizeof model->numerics, "llama v1 rope %016llx",
             (unsigned long long)llama->rotary.hash);
    return STATUS_OK;
}

static void forward_layer(struct llama_model *llama, const struct family_step *step, uint32_t index,
                          const struct layout *at) {
    const struct llama_layer *layer = &llama->layers[index];
    const struct model_config *config = &llama->config;
    const struct kernels *k = llama->kernels;
    const struct kernels_batch *batch = step->batch;
    float *base = step->scratch;
    float *x = base + at->x, *normed = base + at->normed, *qkv = base + at->qkv;
    float *attn = base + at->attn, *ffn = base + at->ffn;
    struct kernels_kv kv = {.base = step->kv->base + index * step->kv->layer_bytes,
                            .block_bytes = step->kv->block_bytes,
                            .n_kv_heads = config->n_kv_heads,
                            .head_dim = config->head_dim};
    float scale = 1.0f / sqrtf((float)config->head_dim);

    k->norm(llama->ctx, normed, x, layer->attn_norm, config->norm_eps, batch->n_tokens,
            config->dim);
    k->linear(llama->ctx, qkv, normed, &layer->qkv, batch->n_tokens, EPILOGUE_NONE);
    k->rope_kv(llama->ctx, qkv, batch, &llama->rotary.rope, &kv);
    if (step->layers_done)
        step->layers_done(step->context, index, index + 1);
    k->attend(llama->ctx, attn, qkv, batch, &kv, scale, NULL, 0);
    k->linear(llama->ctx, x, attn, &layer->out, batch->n_tokens, EPILOGUE_ADD);
    k->norm(llama->ctx, normed, x, layer->ffn_norm, config->norm_eps, batch->n_tokens, config->dim);
    k->linear(llama->ctx, ffn, normed, &layer->gate_up, batch->n_tokens, EPILOGUE_SILU_MUL);
    k->linear(llama->ctx, x, ffn, &layer->down, batch->n_tokens, EPILOGUE_ADD);
}

static void forward(struct family_model *model, const struct family_step *step) {
    struct llama_model *llama = (struct llama_model *)model;
    const struct model_config *config = &llama->config;
    const struct kernels *k = llama->kernels;
    struct layout at = layout_of(config, step->batch->n_tokens, step->n_rows);
    float *base = step->scratch;
    float *last = base + at.last, *normed = base + at.normed;

    k->embed(llama->ctx, base + at.x, &llama->embedding, step->batch);
    for (uint32_t i = 0; i < config->n_layers; i++)
        forward_layer(llama, step, i, &at);
    if (step->n_rows == 0)
        return;
    /* Only rows that choose a token need the last norm and the head. */
    k->gather_rows(llama->ctx, last, base + at.x, step->rows, step->n_rows, config->dim);
    k->norm(llama->ctx, normed, last, llama->norm, config->norm_eps, step->n_rows, config->dim);
    k->linear(llama->ctx, step->logits, normed,
              config->tied_head ? &llama->embedding : &llama->own_head, step->n_rows,
              EPILOGUE_NONE);
}

const struct family family_llama = {
    .name = "llama",
    .open = open_model,
    .close = close_model,
    .scratch_bytes = scratch_bytes,
    .prepare = prepare,
    .forward = forward,
};
