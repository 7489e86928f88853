/* config.json of Llama and what is built like it: Mistral, Qwen2, Qwen3 and their mixtures of
 * experts (keys: transformers' configuration_*.py; absent keys mean what they mean there). */
#include "base/json/json_get.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <string.h>

enum status config_hub_split_heads(const struct json_get *keys, struct model_config *config) {
    if (config->n_heads == 0 || config->dim % config->n_heads != 0)
        return json_get_fail(keys, STATUS_INVALID, "num_attention_heads",
                             "is %u, which does not divide hidden_size %u", config->n_heads,
                             config->dim);
    config->head_dim = config->dim / config->n_heads;
    return STATUS_OK;
}

static enum status config_hub_want_silu(const struct json_get *keys) {
    const char *name = "silu";
    TRY(json_get_string(keys, "hidden_act", &name));
    if (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "hidden_act",
                             "is \"%.32s\": only silu is served", name);
    return STATUS_OK;
}

enum status config_hub_common(const struct json_get *keys, struct model_config *config) {
    double eps = 1e-6;
    TRY(json_need_u32(keys, "num_hidden_layers", &config->n_layers));
    TRY(json_need_u32(keys, "hidden_size", &config->dim));
    TRY(json_need_u32(keys, "num_attention_heads", &config->n_heads));
    TRY(json_need_u32(keys, "intermediate_size", &config->ffn_dim));
    TRY(json_need_u32(keys, "vocab_size", &config->n_vocab));
    config->n_kv_heads = config->n_heads;
    TRY(json_get_u32(keys, "num_key_value_heads", &config->n_kv_heads));
    if (json_get_member(keys, "head_dim"))
        TRY(json_need_u32(keys, "head_dim", &config->head_dim));
    else
        TRY(config_hub_split_heads(keys, config));
    TRY(json_get_f64(keys, "rms_norm_eps", &eps));
    config->norm_eps = (float)eps;
    TRY(json_get_bool(keys, "tie_word_embeddings", &config->tied_head));
    return config_hub_want_silu(keys);
}

static enum status config_hub_read_rotary_model(const struct json_get *keys,
                                                struct model_config *config) {
    TRY(config_hub_common(keys, config));
    TRY(json_need_u32(keys, "max_position_embeddings", &config->context));
    return config_hub_rope(keys, config);
}

/* layer_types of newer files, layer by layer: all full, then all sliding, is what can be said in
 * struct model_config. */
static enum status config_hub_read_layer_types(const struct json_get *keys,
                                               struct model_config *config) {
    const json_t *list = json_get_member(keys, "layer_types");
    if (!list)
        return STATUS_OK;
    if (!json_is_array(list) || json_array_size(list) != config->n_layers)
        return json_get_fail(keys, STATUS_INVALID, "layer_types", "is not a list of %u texts",
                             config->n_layers);
    uint32_t n_full = 0;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        bool is_full = type && strcmp(type, "full_attention") == 0;
        if (!is_full && (!type || strcmp(type, "sliding_attention") != 0))
            return json_get_fail(keys, STATUS_UNSUPPORTED, "layer_types",
                                 "has \"%.40s\" for layer %u; full_attention and "
                                 "sliding_attention are served",
                                 type ? type : "something that is not text", i);
        if (is_full && n_full != i)
            return json_get_fail(keys, STATUS_UNSUPPORTED, "layer_types",
                                 "has layer %u without a window after one with it", i);
        n_full += is_full;
    }
    if (n_full < config->n_layers && config->window == 0)
        return json_get_fail(keys, STATUS_INVALID, "layer_types",
                             "has sliding layers, but sliding_window is missing");
    config->window_layer_begin = n_full;
    return STATUS_OK;
}

static enum status config_hub_read_window(const struct json_get *keys,
                                          struct model_config *config) {
    /* Absent and null differ: the classes' default is a window, null means no window. */
    config->window = json_object_get(keys->object, "sliding_window") ? 0 : 4096;
    TRY(json_get_u32(keys, "sliding_window", &config->window));
    TRY(config_hub_read_layer_types(keys, config));
    /* A window that no position can leave counts as no window. */
    if (config->window >= config->context || config->window_layer_begin >= config->n_layers)
        config->window = 0;
    if (config->window == 0)
        config->window_layer_begin = 0;
    return STATUS_OK;
}

enum status config_hub_llama(const struct json_get *keys, struct model_config *config) {
    uint32_t pretraining_tp = 1;
    TRY(config_hub_read_rotary_model(keys, config));
    TRY(json_get_bool(keys, "attention_bias", &config->qkv_bias));
    TRY(json_get_bool(keys, "mlp_bias", &config->ffn_bias));
    config->out_bias = config->qkv_bias;
    return json_get_u32(keys, "pretraining_tp", &pretraining_tp); /* changes rounding alone */
}

enum status config_hub_mistral(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_read_rotary_model(keys, config));
    return config_hub_read_window(keys, config);
}

/* Layers from max_window_layers on have the window; in Qwen3's mixture of experts all have it. */
static enum status config_hub_read_qwen_window(const struct json_get *keys, bool is_everywhere,
                                               struct model_config *config) {
    bool is_used = false;
    TRY(json_get_bool(keys, "use_sliding_window", &is_used));
    if (!is_used)
        return STATUS_OK;
    config->window_layer_begin = is_everywhere ? 0 : 28;
    if (!is_everywhere)
        TRY(json_get_u32(keys, "max_window_layers", &config->window_layer_begin));
    return config_hub_read_window(keys, config);
}

enum status config_hub_qwen2(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_read_rotary_model(keys, config));
    config->qkv_bias = true;
    return config_hub_read_qwen_window(keys, false, config);
}

static enum status config_hub_read_qwen3(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_common(keys, config));
    /* Its class derives nothing: 128 unless the file says otherwise. */
    if (!json_get_member(keys, "head_dim"))
        config->head_dim = 128;
    TRY(json_need_u32(keys, "max_position_embeddings", &config->context));
    TRY(config_hub_rope(keys, config));
    TRY(json_get_bool(keys, "attention_bias", &config->qkv_bias));
    config->out_bias = config->qkv_bias;
    config->qk_norm = true;
    return STATUS_OK;
}

enum status config_hub_qwen3(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_read_qwen3(keys, config));
    return config_hub_read_qwen_window(keys, false, config);
}

static enum status config_hub_mark_dense(const struct json_get *keys, struct model_config *config) {
    uint32_t step = 1;
    TRY(json_get_u32(keys, "decoder_sparse_step", &step));
    if (step == 0)
        return json_get_fail(keys, STATUS_INVALID, "decoder_sparse_step", "is 0");
    if (config->n_layers > CONFIG_LAYERS_MAX)
        return STATUS_OK; /* config_check() refuses it by name */
    for (uint32_t i = 0; i < config->n_layers; i++)
        if ((i + 1) % step != 0)
            config->moe.dense_layers[i / 8] |= (uint8_t)(1u << i % 8);
    const json_t *list = json_get_member(keys, "mlp_only_layers");
    if (list && !json_is_array(list))
        return json_get_fail(keys, STATUS_INVALID, "mlp_only_layers", "is not a list of layers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        int64_t layer;
        if (!json_get_whole(item, &layer) || layer < 0 || layer >= config->n_layers)
            return json_get_fail(keys, STATUS_INVALID, "mlp_only_layers",
                                 "holds something that is not a layer below %u", config->n_layers);
        config->moe.dense_layers[layer / 8] |= (uint8_t)(1u << layer % 8);
    }
    return STATUS_OK;
}

/* transformers 5 saves Qwen3's number under another name. */
static enum status config_hub_read_n_experts(const struct json_get *keys, uint32_t *n) {
    static const char name[] = "num_experts", new_name[] = "num_local_experts";
    bool is_new = json_get_member(keys, new_name);
    uint32_t n_new = 0;
    TRY(json_get_u32(keys, new_name, &n_new));
    if (!is_new || json_get_member(keys, name))
        TRY(json_need_u32(keys, name, n));
    else
        *n = n_new;
    if (is_new && *n != n_new)
        return json_get_fail(keys, STATUS_INVALID, new_name, "is %u, but num_experts is %u", n_new,
                             *n);
    return STATUS_OK;
}

static enum status config_hub_read_experts(const struct json_get *keys,
                                           struct model_config *config) {
    TRY(config_hub_read_n_experts(keys, &config->moe.n_experts));
    TRY(json_need_u32(keys, "num_experts_per_tok", &config->moe.n_active));
    TRY(json_need_u32(keys, "moe_intermediate_size", &config->moe.expert_dim));
    TRY(json_get_bool(keys, "norm_topk_prob", &config->moe.normalise));
    if (config->moe.n_experts == 0)
        return json_get_fail(keys, STATUS_INVALID, "num_experts", "is 0");
    return config_hub_mark_dense(keys, config);
}

enum status config_hub_qwen2_moe(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_qwen2(keys, config));
    TRY(json_get_bool(keys, "qkv_bias", &config->qkv_bias));
    TRY(json_need_u32(keys, "shared_expert_intermediate_size", &config->moe.shared_dim));
    return config_hub_read_experts(keys, config);
}

enum status config_hub_qwen3_moe(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_read_qwen3(keys, config));
    TRY(config_hub_read_qwen_window(keys, true, config));
    return config_hub_read_experts(keys, config);
}
