#include "model/weights/decoder_tensors.h"

#include "model/weights/config/config.h"
#include "model/weights/decoder_names.h"
#include "model/weights/tensors.h"

#include <stdio.h>

struct decoder_tensors_walk {
    const struct tensors *tensors;
    const struct model_config *config;
    const struct decoder_names *names;
    struct error *error;
};

static enum status decoder_tensors_vector(const struct decoder_tensors_walk *walk, const char *stem,
                                          const char *kind, uint32_t n) {
    const struct tensor *tensor;
    char name[TENSOR_NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s.%s", TENSOR_NAME_MAX - 8, stem, kind);
    return tensors_get(walk->tensors, name, 0, n, &tensor, walk->error);
}

/* A bias that no config asks for is read all the same where it is there. */
static enum status decoder_tensors_bias(const struct decoder_tensors_walk *walk, const char *stem,
                                        uint32_t n, bool required) {
    char name[TENSOR_NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s.bias", TENSOR_NAME_MAX - 8, stem);
    return required || tensors_find(walk->tensors, name)
               ? decoder_tensors_vector(walk, stem, "bias", n)
               : STATUS_OK;
}

static enum status decoder_tensors_matrix(const struct decoder_tensors_walk *walk, const char *stem,
                                          uint32_t n, uint32_t k) {
    struct tensor_matrix ignored;
    return tensors_matrix(walk->tensors, stem, n, k, &ignored, walk->error);
}

static enum status decoder_tensors_norm(const struct decoder_tensors_walk *walk, uint32_t layer,
                                        const char *name, uint32_t n) {
    decoder_stem stem;
    decoder_names_layer(walk->names, layer, name, stem);
    return decoder_tensors_vector(walk, stem, "weight", n);
}

static enum status decoder_tensors_linear(const struct decoder_tensors_walk *walk, uint32_t layer,
                                          const char *name, uint32_t n, uint32_t k, bool has_bias) {
    decoder_stem stem;
    decoder_names_layer(walk->names, layer, name, stem);
    TRY(decoder_tensors_matrix(walk, stem, n, k));
    return decoder_tensors_bias(walk, stem, n, has_bias);
}

static enum status decoder_tensors_attention(const struct decoder_tensors_walk *walk,
                                             uint32_t layer) {
    const struct model_config *config = walk->config;
    const struct decoder_names *names = walk->names;
    uint32_t dim = config->dim;
    uint32_t q = config->n_heads * config->head_dim, kv = config->n_kv_heads * config->head_dim;
    if (config->qk_norm) {
        TRY(decoder_tensors_norm(walk, layer, names->q_norm, config->head_dim));
        TRY(decoder_tensors_norm(walk, layer, names->k_norm, config->head_dim));
    }
    if (names->qkv) {
        TRY(decoder_tensors_linear(walk, layer, names->qkv, q + 2 * kv, dim, config->qkv_bias));
    } else {
        TRY(decoder_tensors_linear(walk, layer, names->q, q, dim, config->qkv_bias));
        TRY(decoder_tensors_linear(walk, layer, names->k, kv, dim, config->qkv_bias));
        TRY(decoder_tensors_linear(walk, layer, names->v, kv, dim, config->qkv_bias));
    }
    return decoder_tensors_linear(walk, layer, names->out, dim, q, config->out_bias);
}

static enum status decoder_tensors_dense(const struct decoder_tensors_walk *walk, uint32_t layer) {
    const struct model_config *config = walk->config;
    const struct decoder_names *names = walk->names;
    uint32_t dim = config->dim, inner = config->ffn_dim;
    if (names->gate_up) {
        TRY(decoder_tensors_linear(walk, layer, names->gate_up, 2 * inner, dim, config->ffn_bias));
    } else {
        TRY(decoder_tensors_linear(walk, layer, names->gate, inner, dim, config->ffn_bias));
        TRY(decoder_tensors_linear(walk, layer, names->up, inner, dim, config->ffn_bias));
    }
    return decoder_tensors_linear(walk, layer, names->down, dim, inner, config->ffn_bias);
}

static enum status decoder_tensors_one_expert(const struct decoder_tensors_walk *walk,
                                              uint32_t layer, uint32_t expert) {
    const struct decoder_names *names = walk->names;
    uint32_t dim = walk->config->dim, inner = walk->config->moe.expert_dim;
    decoder_stem gate, up, down;
    decoder_names_expert(names, layer, expert, names->expert_gate, gate);
    decoder_names_expert(names, layer, expert, names->expert_up, up);
    decoder_names_expert(names, layer, expert, names->expert_down, down);
    TRY(decoder_tensors_matrix(walk, gate, inner, dim));
    TRY(decoder_tensors_matrix(walk, up, inner, dim));
    TRY(decoder_tensors_matrix(walk, down, dim, inner));
    return decoder_tensors_bias(walk, down, dim, false);
}

static enum status decoder_tensors_mixture(const struct decoder_tensors_walk *walk,
                                           uint32_t layer) {
    const struct model_config *config = walk->config;
    const struct decoder_names *names = walk->names;
    uint32_t dim = config->dim, shared = config->moe.shared_dim;
    decoder_stem router, shared_router;
    decoder_names_layer(names, layer, names->router, router);
    TRY(decoder_tensors_matrix(walk, router, config->moe.n_experts, dim));
    for (uint32_t i = 0; i < config->moe.n_experts; i++)
        TRY(decoder_tensors_one_expert(walk, layer, i));
    if (shared == 0)
        return STATUS_OK;
    TRY(decoder_tensors_linear(walk, layer, names->shared_gate, shared, dim, config->ffn_bias));
    TRY(decoder_tensors_linear(walk, layer, names->shared_up, shared, dim, config->ffn_bias));
    TRY(decoder_tensors_linear(walk, layer, names->shared_down, dim, shared, false));
    decoder_names_layer(names, layer, names->shared_router, shared_router);
    return decoder_tensors_matrix(walk, shared_router, 1, dim);
}

static enum status decoder_tensors_one_layer(const struct decoder_tensors_walk *walk,
                                             uint32_t layer) {
    const struct model_config *config = walk->config;
    TRY(decoder_tensors_norm(walk, layer, walk->names->attn_norm, config->dim));
    TRY(decoder_tensors_attention(walk, layer));
    TRY(decoder_tensors_norm(walk, layer, walk->names->ffn_norm, config->dim));
    return config_is_moe_layer(config, layer) ? decoder_tensors_mixture(walk, layer)
                                              : decoder_tensors_dense(walk, layer);
}

enum status decoder_tensors_check(const struct tensors *tensors, struct error *error) {
    const struct model_config *config = tensors->config;
    struct decoder_tensors_walk walk = {tensors, config, decoder_names_of(config), error};
    if (!walk.names)
        return error_set(error, STATUS_UNSUPPORTED, "%s: family %s is not read from GGUF files",
                         config->name, config->family);
    TRY(decoder_tensors_matrix(&walk, walk.names->embedding, config->n_vocab, config->dim));
    if (!config->tied_head)
        TRY(decoder_tensors_matrix(&walk, walk.names->head, config->n_vocab, config->dim));
    TRY(decoder_tensors_vector(&walk, walk.names->norm, "weight", config->dim));
    for (uint32_t i = 0; i < config->n_layers; i++)
        TRY(decoder_tensors_one_layer(&walk, i));
    return STATUS_OK;
}
