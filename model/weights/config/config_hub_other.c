/* config.json of families with keys of their own: Qwen (the first), ChatGLM 2 and 3, Baichuan 1 and
 * 2 (keys and rules: the publishers' modeling and configuration files). */
#include "base/json/json_get.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

static enum status config_hub_read_eps(const struct json_get *keys, const char *key,
                                       struct model_config *config) {
    double eps = 1e-6;
    TRY(json_get_f64(keys, key, &eps));
    config->norm_eps = (float)eps;
    return STATUS_OK;
}

static enum status config_hub_read_qwen_reach(const struct json_get *keys,
                                              struct model_config *config) {
    bool dynamic = false;
    uint32_t longest = 0;
    TRY(json_need_u32(keys, "seq_length", &config->context));
    TRY(json_get_u32(keys, "max_position_embeddings", &longest));
    TRY(json_get_bool(keys, "use_dynamic_ntk", &dynamic));
    TRY(json_get_bool(keys, "use_logn_attn", &config->logn));
    config->rope.original_context = config->context;
    if (dynamic)
        config->rope.scaling = CONFIG_SCALING_QWEN_NTK;
    /* The model runs past seq_length, with or without what stretches it, up to the length that the
     * publisher names. */
    if (longest > config->context)
        config->context = longest;
    /* ln(seq_length) divides. */
    if (config->rope.original_context < 2 && config->logn)
        return json_get_fail(keys, STATUS_INVALID, "seq_length", "is %u, not at least 2",
                             config->rope.original_context);
    return STATUS_OK;
}

enum status config_hub_qwen(const struct json_get *keys, struct model_config *config) {
    double part = 1;
    if (json_get_member(keys, "n_layer") && !json_get_member(keys, "num_hidden_layers"))
        return json_get_fail(keys, STATUS_UNSUPPORTED, "n_layer",
                             "is of the first form of Qwen's config.json (August 2023): take the "
                             "publisher's newer one, with num_hidden_layers");
    TRY(json_need_u32(keys, "num_hidden_layers", &config->n_layers));
    TRY(json_need_u32(keys, "hidden_size", &config->dim));
    TRY(json_need_u32(keys, "num_attention_heads", &config->n_heads));
    TRY(json_need_u32(keys, "intermediate_size", &config->ffn_dim));
    TRY(json_need_u32(keys, "vocab_size", &config->n_vocab));
    if (config->ffn_dim % 2 != 0)
        return json_get_fail(keys, STATUS_INVALID, "intermediate_size",
                             "is %u, not even: w1 and w2 have half of it each", config->ffn_dim);
    config->ffn_dim /= 2;
    config->n_kv_heads = config->n_heads;
    TRY(config_hub_split_heads(keys, config));
    uint32_t channels = 0;
    TRY(json_need_u32(keys, "kv_channels", &channels));
    if (channels != config->head_dim)
        return json_get_fail(keys, STATUS_INVALID, "kv_channels",
                             "is %u, but hidden_size / num_attention_heads is %u", channels,
                             config->head_dim);
    TRY(config_hub_read_eps(keys, "layer_norm_epsilon", config));
    TRY(json_get_want(keys, "no_bias", true));
    TRY(json_get_bool(keys, "tie_word_embeddings", &config->tied_head));
    TRY(json_get_f64(keys, "rotary_pct", &part));
    if (part != 1)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "rotary_pct", "is %g: only 1 is served",
                             part);
    config->qkv_bias = true; /* of c_attn, whatever no_bias says of the others */
    config->rope.layout = CONFIG_ROPE_HALF_SPLIT;
    config->rope.dims = config->head_dim;
    config->rope.theta = 10000;
    TRY(json_get_f64(keys, "rotary_emb_base", &config->rope.theta));
    return config_hub_read_qwen_reach(keys, config);
}

/* What would make it another network. */
static enum status config_hub_check_chatglm(const struct json_get *keys) {
    TRY(json_get_want(keys, "rmsnorm", true));
    TRY(json_get_want(keys, "add_bias_linear", false));
    TRY(json_get_want(keys, "post_layer_norm", true));
    TRY(json_get_want(keys, "apply_residual_connection_post_layernorm", false));
    TRY(json_get_want(keys, "original_rope", true));
    TRY(json_get_want(keys, "position_encoding_2d", false));
    if (json_get_member(keys, "pre_seq_len"))
        return json_get_fail(keys, STATUS_UNSUPPORTED, "pre_seq_len",
                             "is set: learned prefixes are not served");
    return STATUS_OK;
}

enum status config_hub_chatglm(const struct json_get *keys, struct model_config *config) {
    bool grouped = false;
    double ratio = 1;
    TRY(config_hub_check_chatglm(keys));
    TRY(json_need_u32(keys, "num_layers", &config->n_layers));
    TRY(json_need_u32(keys, "hidden_size", &config->dim));
    TRY(json_need_u32(keys, "ffn_hidden_size", &config->ffn_dim));
    TRY(json_need_u32(keys, "num_attention_heads", &config->n_heads));
    TRY(json_need_u32(keys, "padded_vocab_size", &config->n_vocab));
    TRY(json_need_u32(keys, "seq_length", &config->context));
    config->n_kv_heads = config->n_heads;
    TRY(json_get_bool(keys, "multi_query_attention", &grouped));
    if (grouped)
        TRY(json_need_u32(keys, "multi_query_group_num", &config->n_kv_heads));
    if (json_get_member(keys, "kv_channels"))
        TRY(json_need_u32(keys, "kv_channels", &config->head_dim));
    else
        TRY(config_hub_split_heads(keys, config));
    TRY(config_hub_read_eps(keys, "layernorm_epsilon", config));
    TRY(json_get_bool(keys, "add_qkv_bias", &config->qkv_bias));
    TRY(json_get_bool(keys, "tie_word_embeddings", &config->tied_head));
    TRY(json_get_f64(keys, "rope_ratio", &ratio));
    if (!(ratio > 0 && ratio <= 1e6))
        return json_get_fail(keys, STATUS_INVALID, "rope_ratio",
                             "is %g, not above 0 and at most 1e6", ratio);
    config->rope.layout = CONFIG_ROPE_INTERLEAVED;
    /* Half of a head; where that is odd the model's code turns a last pair that reaches past it. */
    config->rope.wave_dims = config->head_dim / 2;
    config->rope.dims = config->rope.wave_dims + config->rope.wave_dims % 2;
    config->rope.theta = 10000 * ratio;
    config->rope.original_context = config->context;
    return STATUS_OK;
}

enum status config_hub_baichuan(const struct json_get *keys, struct model_config *config) {
    TRY(config_hub_common(keys, config));
    if (config->n_kv_heads != config->n_heads)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "num_key_value_heads",
                             "is %u: W_pack holds as many key heads as query heads",
                             config->n_kv_heads);
    /* The 13B says model_max_length, the 7B both. */
    if (json_get_member(keys, "model_max_length"))
        TRY(json_need_u32(keys, "model_max_length", &config->context));
    else
        TRY(json_need_u32(keys, "max_position_embeddings", &config->context));
    config->head_norm = config->n_vocab != 64000; /* Baichuan 1 has these, 2 has 125696 */
    config->alibi = config->dim != 4096;          /* the 7B alone is rotary */
    if (!config->alibi)
        return config_hub_rope(keys, config);
    return STATUS_OK;
}
