/* Which tensors a decoder's rank takes, and which part of each. */
#include "worker/family/decoder.h"

#include "kernels/quant/quant.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_UNIT 32u /* inputs of the smallest group of any format */

struct lister {
    struct decoder *decoder;
    const struct model *model;
    struct slots *slots;
    struct error *error;
};

static void decoder_list_stem_of(const struct lister *list, uint32_t layer, const char *name,
                                 decoder_stem out) {
    decoder_names_layer(list->decoder->names, layer, name, out);
}

static enum status decoder_list_vector(const struct lister *list, const float **to, uint32_t layer,
                                       const char *name, uint32_t n) {
    decoder_stem whole, prefix;
    decoder_list_stem_of(list, layer, name, prefix);
    snprintf(whole, sizeof whole, "%.*s.weight", (int)sizeof whole - 8, prefix);
    return slots_vector(list->slots, list->model, to, whole, n, list->error);
}

/* Rows on the same inputs, merged where that can be and they need not stand apart. The rows'
 * out_begin and out_step say how they stand in the merged matrix of n rows, `begins` where each
 * starts when they stand alone. */
static enum status decoder_list_joined(const struct lister *list, struct joined *to,
                                       const struct slot_rows *rows, uint32_t n_parts, uint32_t n,
                                       const uint32_t *begins, const struct slot_inputs *inputs,
                                       bool apart, bool bias) {
    bool mergeable;
    TRY(slots_mergeable(list->model, rows, n_parts, inputs->n_all, &mergeable, list->error));
    if (mergeable && !apart) {
        to->n_parts = 1;
        TRY(slots_matrix(list->slots, list->model, &to->weights[0], rows, n_parts, inputs, false,
                         list->error));
        return slots_bias(list->slots, list->model, &to->weights[0].bias, n, rows, n_parts, bias,
                          list->error);
    }
    to->n_parts = n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        struct slot_rows alone = rows[i];
        alone.out_begin = 0;
        alone.out_step = 1;
        to->begin[i] = begins[i];
        TRY(slots_matrix(list->slots, list->model, &to->weights[i], &alone, 1, inputs, false,
                         list->error));
        TRY(slots_bias(list->slots, list->model, &to->weights[i].bias, alone.n_rows, &alone, 1,
                       bias, list->error));
    }
    return STATUS_OK;
}

static enum status decoder_list_qkv(const struct lister *list, struct decoder_layer *layer,
                                    uint32_t index) {
    const struct decoder *decoder = list->decoder;
    const struct decoder_names *names = decoder->names;
    const struct model_config *config = &decoder->config;
    const struct shard *shard = &decoder->shard;
    uint32_t dim = config->head_dim;
    uint32_t q_all = config->n_heads * dim, kv_all = config->n_kv_heads * dim;
    uint32_t q_n = shard->heads.n * dim, kv_n = shard->kv_heads.n * dim;
    uint32_t q_begin = shard->heads.begin * dim, kv_begin = shard->kv_heads.begin * dim;
    const uint32_t begins[] = {0, q_n, q_n + kv_n};
    struct slot_inputs inputs = {config->dim, 0, config->dim};
    decoder_stem q, k, v;
    decoder_list_stem_of(list, index, names->qkv ? names->qkv : names->q, q);
    decoder_list_stem_of(list, index, names->qkv ? names->qkv : names->k, k);
    decoder_list_stem_of(list, index, names->qkv ? names->qkv : names->v, v);
    struct slot_rows rows[] = {
        {q, q_all, q_begin, q_n, begins[0], 1},
        {k, kv_all, kv_begin, kv_n, begins[1], 1},
        {v, kv_all, kv_begin, kv_n, begins[2], 1},
    };
    if (names->qkv) { /* one tensor, rows q | k | v */
        for (int i = 0; i < 3; i++)
            rows[i].n_all = q_all + 2 * kv_all;
        rows[1].row_begin += q_all;
        rows[2].row_begin += q_all + kv_all;
    }
    return decoder_list_joined(list, &layer->qkv, rows, 3, q_n + 2 * kv_n, begins, &inputs, false,
                               config->qkv_bias);
}

/* Where the inputs of a layer that goes back to the residual stream are cut: between the groups of
 * its scales where there is one for each rank, else between blocks, else within them: then each of
 * the ranks that share a group has a copy of its scale. */
static enum status decoder_list_cut_unit(const struct lister *list, const char *name,
                                         uint32_t n_inputs, uint32_t *unit) {
    uint32_t n_ranks = list->decoder->shard.n_ranks;
    struct tensor_matrix matrix;
    TRY(tensors_matrix(&list->model->tensors, name, list->decoder->config.dim, n_inputs, &matrix,
                       list->error));
    const struct quant_format *format = quant_find(matrix.format);
    uint32_t units[] = {matrix.group, format ? format->block : 0, CUT_UNIT};
    *unit = 1;
    for (int i = 2; i >= 0; i--)
        if (units[i] >= CUT_UNIT && n_inputs / units[i] >= n_ranks)
            *unit = units[i];
    return STATUS_OK;
}

/* A projection back to the residual stream: a rank takes its own inputs; the bias is added once. */
static enum status decoder_list_back(const struct lister *list, struct weight *to, const char *name,
                                     uint32_t n_inputs, struct range inputs, bool bias) {
    uint32_t dim = list->decoder->config.dim;
    struct slot_rows rows = {name, dim, 0, dim, 0, 1};
    TRY(slots_matrix(list->slots, list->model, to, &rows, 1,
                     &(struct slot_inputs){n_inputs, inputs.begin, inputs.n}, false, list->error));
    if (list->decoder->shard.rank != 0)
        return STATUS_OK;
    return slots_bias(list->slots, list->model, &to->bias, dim, &rows, 1, bias, list->error);
}

/* This rank's part of an inner width, by the layer that takes it back. */
static enum status decoder_list_inner_of(const struct lister *list, const char *down,
                                         uint32_t n_inner, struct range *inner) {
    const struct shard *shard = &list->decoder->shard;
    uint32_t unit;
    *inner = (struct range){0, n_inner};
    if (shard->n_ranks == 1)
        return STATUS_OK;
    if (n_inner < shard->n_ranks)
        return error_field(list->error, STATUS_UNSUPPORTED, "tp",
                           "%s: tensor %s: %u inputs cannot be cut for tp %u: each rank needs one",
                           list->decoder->config.name, down, n_inner, shard->n_ranks);
    TRY(decoder_list_cut_unit(list, down, n_inner, &unit));
    *inner = shard_cut(n_inner, unit, shard->rank, shard->n_ranks);
    return STATUS_OK;
}

/* A product of two outputs takes its activations in one 8-bit term: too coarse for formats that
 * were made for 16-bit ones, whose gate and up therefore stand apart. */
static enum status decoder_list_stands_apart(const struct lister *list,
                                             const struct slot_rows *rows, bool *apart) {
    struct tensor_matrix matrix;
    TRY(tensors_matrix(&list->model->tensors, rows->stem, rows->n_all, list->decoder->config.dim,
                       &matrix, list->error));
    const struct quant_format *format = quant_find(matrix.format);
    *apart = format && format->fine;
    return STATUS_OK;
}

/* This rank's rows of gate and up, alternating; `fused`: one tensor, rows gate | up. */
static void decoder_list_gate_up_rows(struct slot_rows rows[2], const char *gate, const char *up,
                                      bool fused, uint32_t n_inner, struct range inner) {
    uint32_t n_all = fused ? 2 * n_inner : n_inner;
    rows[0] = (struct slot_rows){gate, n_all, inner.begin, inner.n, 0, 2};
    rows[1] = (struct slot_rows){up, n_all, inner.begin + (fused ? n_inner : 0), inner.n, 1, 2};
}

static enum status decoder_list_gate_up(const struct lister *list, struct joined *to,
                                        const char *gate, const char *up, bool fused,
                                        uint32_t n_inner, struct range inner) {
    const struct model_config *config = &list->decoder->config;
    struct slot_inputs inputs = {config->dim, 0, config->dim};
    const uint32_t begins[] = {0, 0};
    struct slot_rows rows[2];
    bool apart;
    decoder_list_gate_up_rows(rows, gate, up, fused, n_inner, inner);
    TRY(decoder_list_stands_apart(list, &rows[0], &apart));
    return decoder_list_joined(list, to, rows, 2, 2 * inner.n, begins, &inputs, apart,
                               config->ffn_bias);
}

static enum status decoder_list_dense(const struct lister *list, struct feed_forward *ffn,
                                      uint32_t index) {
    struct decoder *decoder = list->decoder;
    const struct decoder_names *names = decoder->names;
    decoder_stem gate, up, down;
    decoder_list_stem_of(list, index, names->gate_up ? names->gate_up : names->gate, gate);
    decoder_list_stem_of(list, index, names->gate_up ? names->gate_up : names->up, up);
    decoder_list_stem_of(list, index, names->down, down);
    TRY(decoder_list_inner_of(list, down, decoder->config.ffn_dim, &ffn->inner));
    TRY(decoder_list_gate_up(list, &ffn->gate_up, gate, up, names->gate_up != NULL,
                             decoder->config.ffn_dim, ffn->inner));
    return decoder_list_back(list, &ffn->down, down, decoder->config.ffn_dim, ffn->inner,
                             decoder->config.ffn_bias);
}

static enum status decoder_list_one_expert(const struct lister *list, struct experts *experts,
                                           uint32_t index, uint32_t expert) {
    struct decoder *decoder = list->decoder;
    const struct decoder_names *names = decoder->names;
    uint32_t n_inner = decoder->config.moe.expert_dim;
    decoder_stem gate, up, down;
    decoder_names_expert(names, index, expert, names->expert_gate, gate);
    decoder_names_expert(names, index, expert, names->expert_up, up);
    decoder_names_expert(names, index, expert, names->expert_down, down);
    TRY(decoder_list_inner_of(list, down, n_inner, &decoder->expert_inner));
    struct range inner = decoder->expert_inner;
    struct slot_inputs inputs = {decoder->config.dim, 0, decoder->config.dim};
    struct slot_rows rows[2];
    bool mergeable;
    decoder_list_gate_up_rows(rows, gate, up, false, n_inner, inner);
    TRY(slots_mergeable(list->model, rows, 2, inputs.n_all, &mergeable, list->error));
    if (!mergeable)
        return error_set(list->error, STATUS_UNSUPPORTED,
                         "%s: tensors %s and %s differ in format or act-order: not served in a "
                         "mixture of experts",
                         decoder->config.name, gate, up);
    TRY(slots_matrix(list->slots, list->model, &experts->gate_up[expert], rows, 2, &inputs, false,
                     list->error));
    return decoder_list_back(list, &experts->down[expert], down, n_inner, inner, false);
}

static enum status decoder_list_shared_expert(const struct lister *list, struct experts *experts,
                                              uint32_t index) {
    const struct decoder *decoder = list->decoder;
    const struct decoder_names *names = decoder->names;
    uint32_t dim = decoder->config.dim, n_inner = decoder->config.moe.shared_dim;
    decoder_stem gate, up, down, router;
    decoder_list_stem_of(list, index, names->shared_gate, gate);
    decoder_list_stem_of(list, index, names->shared_up, up);
    decoder_list_stem_of(list, index, names->shared_down, down);
    decoder_list_stem_of(list, index, names->shared_router, router);
    TRY(decoder_list_inner_of(list, down, n_inner, &experts->shared.inner));
    TRY(decoder_list_gate_up(list, &experts->shared.gate_up, gate, up, false, n_inner,
                             experts->shared.inner));
    TRY(decoder_list_back(list, &experts->shared.down, down, n_inner, experts->shared.inner,
                          false));
    return slots_matrix(list->slots, list->model, &experts->shared_router,
                        &(struct slot_rows){router, 1, 0, 1, 0, 1}, 1,
                        &(struct slot_inputs){dim, 0, dim}, true, list->error);
}

static enum status decoder_list_mixture(const struct lister *list, struct decoder_layer *layer,
                                        uint32_t index) {
    const struct decoder *decoder = list->decoder;
    const struct model_config *config = &decoder->config;
    uint32_t n = config->moe.n_experts;
    decoder_stem router;
    struct experts *experts = calloc(1, sizeof *experts);
    layer->experts = experts;
    if (experts) {
        experts->gate_up = calloc(n, sizeof *experts->gate_up);
        experts->down = calloc(n, sizeof *experts->down);
    }
    if (!experts || !experts->gate_up || !experts->down)
        return error_set(list->error, STATUS_NOMEM, "%s: no memory for %u experts", config->name,
                         n);
    decoder_list_stem_of(list, index, decoder->names->router, router);
    TRY(slots_matrix(list->slots, list->model, &experts->router,
                     &(struct slot_rows){router, n, 0, n, 0, 1}, 1,
                     &(struct slot_inputs){config->dim, 0, config->dim}, true, list->error));
    for (uint32_t i = 0; i < n; i++)
        TRY(decoder_list_one_expert(list, experts, index, i));
    return config->moe.shared_dim ? decoder_list_shared_expert(list, experts, index) : STATUS_OK;
}

static enum status decoder_list_layer(const struct lister *list, uint32_t index) {
    const struct decoder *decoder = list->decoder;
    const struct decoder_names *names = decoder->names;
    const struct model_config *config = &decoder->config;
    struct decoder_layer *layer = &list->decoder->layers[index];
    uint32_t head_dim = config->head_dim;
    struct range heads = {decoder->shard.heads.begin * head_dim, decoder->shard.heads.n * head_dim};
    decoder_stem out;
    TRY(decoder_list_vector(list, &layer->attn_norm, index, names->attn_norm, config->dim));
    if (config->qk_norm) {
        TRY(decoder_list_vector(list, &layer->q_norm, index, names->q_norm, head_dim));
        TRY(decoder_list_vector(list, &layer->k_norm, index, names->k_norm, head_dim));
    }
    TRY(decoder_list_qkv(list, layer, index));
    decoder_list_stem_of(list, index, names->out, out);
    TRY(decoder_list_back(list, &layer->out, out, config->n_heads * head_dim, heads,
                          config->out_bias));
    TRY(decoder_list_vector(list, &layer->ffn_norm, index, names->ffn_norm, config->dim));
    if (config_is_moe_layer(config, index))
        return decoder_list_mixture(list, layer, index);
    return decoder_list_dense(list, &layer->ffn, index);
}

static enum status decoder_list_vocabulary(const struct lister *list, struct weight *to,
                                           const char *name) {
    const struct model_config *config = &list->decoder->config;
    struct range rows = list->decoder->shard.vocab;
    return slots_matrix(list->slots, list->model, to,
                        &(struct slot_rows){name, config->n_vocab, rows.begin, rows.n, 0, 1}, 1,
                        &(struct slot_inputs){config->dim, 0, config->dim}, false, list->error);
}

enum status decoder_list(struct decoder *decoder, const struct model *model, struct error *error) {
    const struct model_config *config = &decoder->config;
    const struct decoder_names *names = decoder->names;
    struct lister list = {decoder, model, &decoder->head.slots, error};
    decoder_stem norm;
    TRY(decoder_list_vocabulary(&list, &decoder->embedding, names->embedding));
    if (!config->tied_head)
        TRY(decoder_list_vocabulary(&list, &decoder->own_head, names->head));
    snprintf(norm, sizeof norm, "%s.weight", names->norm);
    TRY(slots_vector(list.slots, model, &decoder->norm, norm, config->dim, error));
    for (uint32_t i = 0; i < config->n_layers; i++)
        TRY(decoder_list_layer(&list, i));
    return STATUS_OK;
}
