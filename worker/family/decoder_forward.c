/* The forward pass of a decoder: one rank's part of a step. */
#include "worker/comm/comm.h"
#include "worker/family/decoder.h"

#include <math.h>

/* Where each activation lies in the scratch memory, in floats. */
struct layout {
    size_t x;      /* (T, dim) residual stream */
    size_t normed; /* (T, dim) */
    size_t qkv;    /* (T, qkv_dim) */
    size_t attn;   /* (T, heads * head_dim) */
    size_t ffn;    /* (T, ffn_max) */
    size_t split;  /* (T, 2, split_max): gate and up where they are two matrices */
    size_t mixed;  /* (T, dim) what the experts answer */
    size_t shared; /* (T, dim) what the shared expert answers */
    size_t routes; /* (T, n_experts) logits; (T) of the shared expert */
    size_t chosen; /* (T, n_active) ids */
    size_t shares; /* (T, n_active) weights */
    size_t moe;    /* moe_scratch() of the kernels */
    size_t last;   /* (n_rows, dim) rows that are sampled from */
    size_t part;   /* (n_rows, vocab.n) logits of this rank, when there are others */
    size_t n;      /* all of it */
};

static size_t decoder_scratch_place(size_t *at, size_t n) {
    size_t begin = *at;
    *at += (n + 15) / 16 * 16; /* 64 bytes */
    return begin;
}

static struct layout decoder_layout_of(const struct decoder *decoder, const struct kernels *kernels,
                                       uint32_t n_tokens, uint32_t n_rows) {
    const struct model_config *config = &decoder->config;
    const struct shard *shard = &decoder->shard;
    size_t n = n_tokens;
    struct layout layout = {0};
    size_t at = 0;
    layout.x = decoder_scratch_place(&at, n * config->dim);
    layout.normed = decoder_scratch_place(&at, n * config->dim);
    layout.qkv =
        decoder_scratch_place(&at, n * (shard->heads.n + 2 * shard->kv_heads.n) * config->head_dim);
    layout.attn = decoder_scratch_place(&at, n * shard->heads.n * config->head_dim);
    layout.ffn = decoder_scratch_place(&at, n * decoder->ffn_max);
    layout.split = decoder_scratch_place(&at, n * 2 * decoder->split_max);
    if (config->moe.n_experts) {
        layout.mixed = decoder_scratch_place(&at, n * config->dim);
        layout.shared = decoder_scratch_place(&at, n * config->dim);
        layout.routes = decoder_scratch_place(&at, n * (config->moe.n_experts + 1));
        layout.chosen = decoder_scratch_place(&at, n * config->moe.n_active);
        layout.shares = decoder_scratch_place(&at, n * config->moe.n_active);
        layout.moe =
            decoder_scratch_place(&at, kernels->moe_scratch(n_tokens, config->moe.n_active,
                                                            config->dim, decoder->expert_inner.n));
    }
    layout.last = decoder_scratch_place(&at, (size_t)n_rows * config->dim);
    layout.part =
        decoder_scratch_place(&at, shard->n_ranks > 1 ? (size_t)n_rows * shard->vocab.n : 0);
    layout.n = at;
    return layout;
}

size_t decoder_scratch_bytes(const struct family_model *model, const struct kernels *kernels,
                             uint32_t n_tokens, uint32_t n_rows) {
    return decoder_layout_of((const struct decoder *)model, kernels, n_tokens, n_rows).n *
           sizeof(float);
}

/* What a pass hands from layer to layer. */
struct pass {
    const struct decoder *decoder;
    const struct kernels *kernels;
    struct kernels_ctx *ctx;
    const struct family_step *step;
    struct layout at;
    float *base;
    uint32_t n_tokens;
};

/* Where a rank writes what it adds to the residual stream, and how. Rank 0 adds it to the stream at once, and the others write it
 * there alone, so that one sum over the ranks is the new stream; or, where it crosses rounded, which must not happen to the stream,
 * all ranks write it beside that. */
struct decoder_part {
    float *at;
    enum epilogue epilogue;
};

/* `beside` is free until the layer's next norm. */
static struct decoder_part decoder_part_of(const struct pass *pass, float *beside) {
    const struct comm *comm = pass->decoder->comm;
    if (comm && comm->rounds)
        return (struct decoder_part){beside, EPILOGUE_NONE};
    bool adds = pass->decoder->shard.rank == 0;
    return (struct decoder_part){pass->base + pass->at.x, adds ? EPILOGUE_ADD : EPILOGUE_NONE};
}

/* The ranks' parts come to the stream; false when the group is lost. */
static bool decoder_reduce(const struct pass *pass, float *part) {
    struct comm *comm = pass->decoder->comm;
    size_t n = (size_t)pass->n_tokens * pass->decoder->config.dim;
    float *x = pass->base + pass->at.x;
    if (!comm)
        return true;
    return (part == x ? comm->kind->all_reduce(comm, x, n)
                      : comm->kind->add_parts(comm, x, part, n)) == STATUS_OK;
}

static void decoder_run_joined(const struct pass *pass, float *out, size_t stride, const float *x,
                               const struct joined *joined) {
    for (uint32_t i = 0; i < joined->n_parts; i++)
        pass->kernels->linear(pass->ctx, out + (joined->n_parts > 1 ? joined->begin[i] : 0), stride,
                              x, &joined->weights[i], pass->n_tokens, EPILOGUE_NONE);
}

static bool decoder_attention(const struct pass *pass, uint32_t index) {
    const struct decoder *decoder = pass->decoder;
    const struct decoder_layer *layer = &decoder->layers[index];
    const struct model_config *config = &decoder->config;
    const struct kernels *k = pass->kernels;
    const struct family_step *step = pass->step;
    const struct family_facts *facts = &decoder->head.facts;
    float *x = pass->base + pass->at.x, *normed = pass->base + pass->at.normed;
    float *qkv = pass->base + pass->at.qkv, *attn = pass->base + pass->at.attn;
    struct kernels_kv kv = {.base = step->kv->base + index * step->kv->layer_bytes,
                            .block_bytes = step->kv->block_bytes,
                            .n_kv_heads = facts->n_kv_heads,
                            .head_dim = facts->head_dim,
                            .format = facts->kv_format};
    struct rope rope = decoder->rotary.rope;
    rope.q_norm = layer->q_norm;
    rope.k_norm = layer->k_norm;
    uint32_t width = (facts->n_heads + 2 * facts->n_kv_heads) * facts->head_dim;
    uint32_t window = index >= config->window_layer_begin ? config->window : 0;

    k->norm(pass->ctx, normed, x, layer->attn_norm, config->norm_eps, pass->n_tokens, config->dim);
    decoder_run_joined(pass, qkv, width, normed, &layer->qkv);
    k->rope_kv(pass->ctx, qkv, step->batch, &rope, &kv);
    if (step->layers_done && !decoder->comm)
        step->layers_done(step->context, index, index + 1);
    k->attend(pass->ctx, attn, qkv, step->batch, &kv, 1.0f / sqrtf((float)facts->head_dim),
              decoder->slopes.at, window);
    struct decoder_part part = decoder_part_of(pass, normed);
    k->linear(pass->ctx, part.at, config->dim, attn, &layer->out, pass->n_tokens, part.epilogue);
    return decoder_reduce(pass, part.at);
}

/* out (+)= the layer of normed. */
static void decoder_feed_forward(const struct pass *pass, float *out,
                                 const struct feed_forward *ffn, enum epilogue epilogue) {
    const struct kernels *k = pass->kernels;
    const float *normed = pass->base + pass->at.normed;
    float *inner = pass->base + pass->at.ffn, *gate = pass->base + pass->at.split;
    size_t n = (size_t)pass->n_tokens * ffn->inner.n;
    if (ffn->gate_up.n_parts == 1) {
        k->linear(pass->ctx, inner, ffn->inner.n, normed, &ffn->gate_up.weights[0], pass->n_tokens,
                  EPILOGUE_SILU_MUL);
    } else {
        k->linear(pass->ctx, gate, ffn->inner.n, normed, &ffn->gate_up.weights[0], pass->n_tokens,
                  EPILOGUE_NONE);
        k->linear(pass->ctx, gate + n, ffn->inner.n, normed, &ffn->gate_up.weights[1],
                  pass->n_tokens, EPILOGUE_NONE);
        k->silu_mul(pass->ctx, inner, gate, gate + n, n);
    }
    k->linear(pass->ctx, out, pass->decoder->config.dim, inner, &ffn->down, pass->n_tokens,
              epilogue);
}

/* Chosen experts and, by its own gate, the one that all tokens take. */
static void decoder_mixture(const struct pass *pass, const struct decoder_part *part,
                            const struct experts *experts) {
    const struct decoder *decoder = pass->decoder;
    const struct model_config *config = &decoder->config;
    const struct kernels *k = pass->kernels;
    uint32_t n = pass->n_tokens, n_experts = config->moe.n_experts, dim = config->dim;
    const float *normed = pass->base + pass->at.normed;
    float *routes = pass->base + pass->at.routes, *shares = pass->base + pass->at.shares;
    float *shared = pass->base + pass->at.shared;
    uint32_t *chosen = (uint32_t *)(void *)(pass->base + pass->at.chosen);
    bool adds = part->epilogue == EPILOGUE_ADD;
    float *mixed = adds ? pass->base + pass->at.mixed : part->at;

    k->linear(pass->ctx, routes, n_experts, normed, &experts->router, n, EPILOGUE_NONE);
    k->moe_route(pass->ctx, chosen, shares, routes, n, n_experts, config->moe.n_active,
                 config->moe.normalise);
    k->moe_ffn(pass->ctx, mixed, normed, chosen, shares, n, config->moe.n_active, experts->gate_up,
               experts->down, n_experts, pass->base + pass->at.moe);
    if (config->moe.shared_dim) {
        float *gates = routes + (size_t)n * n_experts;
        k->linear(pass->ctx, gates, 1, normed, &experts->shared_router, n, EPILOGUE_NONE);
        decoder_feed_forward(pass, shared, &experts->shared, EPILOGUE_NONE);
        k->add_gated(pass->ctx, mixed, shared, gates, n, dim);
    }
    if (adds)
        k->add_gated(pass->ctx, part->at, mixed, NULL, n, dim);
}

static bool decoder_run_layer(const struct pass *pass, uint32_t index) {
    const struct decoder_layer *layer = &pass->decoder->layers[index];
    const struct model_config *config = &pass->decoder->config;
    float *x = pass->base + pass->at.x, *normed = pass->base + pass->at.normed;
    if (!decoder_attention(pass, index))
        return false;
    pass->kernels->norm(pass->ctx, normed, x, layer->ffn_norm, config->norm_eps, pass->n_tokens,
                        config->dim);
    /* Of several ranks all have written theirs. Nothing stands between a sum and its norm, which ranks may compute as one. */
    if (pass->step->layers_done && pass->decoder->comm)
        pass->step->layers_done(pass->step->context, index, index + 1);
    struct decoder_part part =
        decoder_part_of(pass, layer->experts ? pass->base + pass->at.mixed : normed);
    if (layer->experts)
        decoder_mixture(pass, &part, layer->experts);
    else
        decoder_feed_forward(pass, part.at, &layer->ffn, part.epilogue);
    return decoder_reduce(pass, part.at);
}

/* Only rows that choose a token need the last norm and the head. False when the group is lost. */
static bool decoder_run_head(const struct pass *pass) {
    const struct decoder *decoder = pass->decoder;
    const struct model_config *config = &decoder->config;
    const struct kernels *k = pass->kernels;
    const struct family_step *step = pass->step;
    const struct weight *weight = config->tied_head ? &decoder->embedding : &decoder->own_head;
    struct comm *comm = decoder->comm;
    float *last = pass->base + pass->at.last, *normed = pass->base + pass->at.normed;
    float *part = comm ? pass->base + pass->at.part : step->logits;
    struct range vocab = decoder->shard.vocab;
    k->gather_rows(pass->ctx, last, pass->base + pass->at.x, step->rows, step->n_rows, config->dim);
    k->norm(pass->ctx, normed, last, decoder->norm, config->norm_eps, step->n_rows, config->dim);
    k->linear(pass->ctx, part, vocab.n, normed, weight, step->n_rows, EPILOGUE_NONE);
    return !comm || comm->kind->gather(comm, step->logits, config->n_vocab, part, step->n_rows,
                                       vocab.begin, vocab.n) == STATUS_OK;
}

void decoder_forward(struct family_model *model, const struct family_step *step) {
    const struct decoder *decoder = (const struct decoder *)model;
    struct pass pass = {
        .decoder = decoder,
        .kernels = decoder->kernels,
        .ctx = decoder->ctx,
        .step = step,
        .at = decoder_layout_of(decoder, decoder->kernels, step->batch->n_tokens, step->n_rows),
        .base = step->scratch,
        .n_tokens = step->batch->n_tokens};
    float *x = pass.base + pass.at.x;
    pass.kernels->embed(pass.ctx, x, &decoder->embedding, step->batch, decoder->shard.vocab.begin);
    bool whole = decoder_reduce(&pass, x);
    for (uint32_t i = 0; whole && i < decoder->config.n_layers; i++)
        whole = decoder_run_layer(&pass, i);
    if (whole && step->n_rows > 0)
        whole = decoder_run_head(&pass);
    (void)whole; /* the runner of the group asks its comm */
}
