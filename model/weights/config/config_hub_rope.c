/* Rotary embeddings in config.json: rope_theta with rope_scaling (either spelling of its type), or
 * rope_parameters, which holds both. What the numbers mean: transformers' modeling_rope_utils.py;
 * YaRN: Peng et al. 2023. */
#include "base/json/json_get.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum status config_hub_rope_read_factor(const struct json_get *scaling,
                                               struct model_config *config) {
    TRY(json_need_f64(scaling, "factor", &config->rope.factor));
    if (!(config->rope.factor >= 1 && config->rope.factor <= 1024))
        return json_get_fail(scaling, STATUS_INVALID, "factor", "is %g, not from 1 to 1024",
                             config->rope.factor);
    return STATUS_OK;
}

/* Publishers state the context before scaling, except where original_max_position_embeddings says
 * that they do not. */
static void config_hub_rope_scale_context(struct model_config *config) {
    double scaled = floor((double)config->rope.original_context * config->rope.factor);
    config->context = scaled < CONFIG_CONTEXT_MAX ? (uint32_t)scaled : CONFIG_CONTEXT_MAX;
}

static enum status config_hub_rope_read_original(const struct json_get *scaling,
                                                 struct model_config *config) {
    config->rope.original_context = config->context;
    TRY(json_get_u32(scaling, "original_max_position_embeddings", &config->rope.original_context));
    if (config->rope.original_context == 0 || config->rope.original_context > CONFIG_CONTEXT_MAX)
        return json_get_fail(scaling, STATUS_INVALID, "original_max_position_embeddings",
                             "is %u, not from 1 to %u", config->rope.original_context,
                             CONFIG_CONTEXT_MAX);
    return STATUS_OK;
}

static enum status config_hub_rope_read_none(const struct json_get *scaling,
                                             struct model_config *config) {
    (void)scaling;
    config->rope.scaling = CONFIG_SCALING_NONE;
    return STATUS_OK;
}

static enum status config_hub_rope_read_linear(const struct json_get *scaling,
                                               struct model_config *config) {
    config->rope.scaling = CONFIG_SCALING_LINEAR;
    config->rope.original_context = config->context;
    TRY(config_hub_rope_read_factor(scaling, config));
    config_hub_rope_scale_context(config);
    return STATUS_OK;
}

static enum status config_hub_rope_read_dynamic(const struct json_get *scaling,
                                                struct model_config *config) {
    TRY(config_hub_rope_read_linear(scaling, config));
    config->rope.scaling = CONFIG_SCALING_DYNAMIC;
    return STATUS_OK;
}

static enum status config_hub_rope_read_llama3(const struct json_get *scaling,
                                               struct model_config *config) {
    config->rope.scaling = CONFIG_SCALING_LLAMA3;
    TRY(config_hub_rope_read_factor(scaling, config));
    TRY(json_need_f64(scaling, "low_freq_factor", &config->rope.low_factor));
    TRY(json_need_f64(scaling, "high_freq_factor", &config->rope.high_factor));
    if (!(config->rope.low_factor > 0) || !(config->rope.high_factor > config->rope.low_factor))
        return json_get_fail(scaling, STATUS_INVALID, "high_freq_factor",
                             "is %g; it must be above low_freq_factor, %g, and both above 0",
                             config->rope.high_factor, config->rope.low_factor);
    if (!json_get_member(scaling, "original_max_position_embeddings"))
        return json_get_fail(scaling, STATUS_INVALID, "original_max_position_embeddings",
                             "is missing");
    return config_hub_rope_read_original(scaling, config);
}

/* 0.1 m ln(factor) + 1, as DeepSeek's mscale keys mean it. */
static double config_hub_rope_yarn_scale(double factor, double m) {
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static enum status config_hub_rope_read_yarn_attention(const struct json_get *scaling,
                                                       struct model_config *config) {
    double over = 0;
    double under = 0;
    TRY(json_get_f64(scaling, "attention_factor", &config->rope.attention_factor));
    TRY(json_get_f64(scaling, "mscale", &over));
    TRY(json_get_f64(scaling, "mscale_all_dim", &under));
    if (config->rope.attention_factor == 0 && over != 0 && under != 0)
        config->rope.attention_factor = config_hub_rope_yarn_scale(config->rope.factor, over) /
                                        config_hub_rope_yarn_scale(config->rope.factor, under);
    if (!(config->rope.attention_factor >= 0 && config->rope.attention_factor <= 16))
        return json_get_fail(scaling, STATUS_INVALID, "attention_factor", "is %g, not from 0 to 16",
                             config->rope.attention_factor);
    return STATUS_OK;
}

static enum status config_hub_rope_read_yarn(const struct json_get *scaling,
                                             struct model_config *config) {
    config->rope.scaling = CONFIG_SCALING_YARN;
    config->rope.beta_fast = 32;
    config->rope.beta_slow = 1;
    TRY(config_hub_rope_read_factor(scaling, config));
    TRY(config_hub_rope_read_original(scaling, config));
    TRY(json_get_f64(scaling, "beta_fast", &config->rope.beta_fast));
    TRY(json_get_f64(scaling, "beta_slow", &config->rope.beta_slow));
    if (!(config->rope.beta_slow > 0) || !(config->rope.beta_fast > config->rope.beta_slow))
        return json_get_fail(scaling, STATUS_INVALID, "beta_fast",
                             "is %g; it must be above beta_slow, %g, and both above 0",
                             config->rope.beta_fast, config->rope.beta_slow);
    TRY(json_get_want(scaling, "truncate", true));
    TRY(config_hub_rope_read_yarn_attention(scaling, config));
    config_hub_rope_scale_context(config);
    return STATUS_OK;
}

static const struct {
    const char *name;
    enum status (*read)(const struct json_get *scaling, struct model_config *config);
} types[] = {
    {"default", config_hub_rope_read_none},  {"none", config_hub_rope_read_none},
    {"linear", config_hub_rope_read_linear}, {"dynamic", config_hub_rope_read_dynamic},
    {"llama3", config_hub_rope_read_llama3}, {"yarn", config_hub_rope_read_yarn},
};

static enum status config_hub_rope_read_type(const struct json_get *scaling, bool is_needed,
                                             struct model_config *config) {
    const char *name = NULL;
    const char *old_name = NULL;
    TRY(json_get_string(scaling, "rope_type", &name));
    TRY(json_get_string(scaling, "type", &old_name));
    if (name && old_name && strcmp(name, old_name) != 0)
        return json_get_fail(scaling, STATUS_INVALID, "rope_type", "is %.32s, but type is %.32s",
                             name, old_name);
    const char *key = name || !old_name ? "rope_type" : "type";
    name = name ? name : old_name;
    if (!name && is_needed)
        return json_get_fail(scaling, STATUS_INVALID, key, "is missing");
    if (!name)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return types[i].read(scaling, config);
    return json_get_fail(scaling, STATUS_UNSUPPORTED, key,
                         "is \"%.32s\"; none, linear, dynamic, llama3 and yarn are served", name);
}

static enum status config_hub_rope_want_whole(const struct json_get *keys) {
    double part = 1;
    TRY(json_get_f64(keys, "partial_rotary_factor", &part));
    if (part != 1)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "partial_rotary_factor",
                             "is %g: only 1 is served here", part);
    return STATUS_OK;
}

static enum status config_hub_rope_read_parameters(const struct json_get *parameters, bool is_alone,
                                                   struct model_config *config) {
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)parameters->object, name, member) {
        if (json_is_object(member))
            return json_get_fail(parameters, STATUS_UNSUPPORTED, name,
                                 "is for one kind of layers: one rope for all is served");
    }
    TRY(json_get_f64(parameters, "rope_theta", &config->rope.theta));
    TRY(config_hub_rope_want_whole(parameters));
    /* Without a type nothing is scaled, unless something says by how much. */
    bool wants_type = is_alone && json_get_member(parameters, "factor");
    return config_hub_rope_read_type(parameters, wants_type, config);
}

enum status config_hub_rope(const struct json_get *keys, struct model_config *config) {
    struct json_get scaling;
    struct json_get parameters;
    config->rope.layout = CONFIG_ROPE_HALF_SPLIT;
    config->rope.dims = config->head_dim;
    config->rope.theta = 10000;
    config->rope.original_context = config->context;
    TRY(json_get_f64(keys, "rope_theta", &config->rope.theta));
    TRY(config_hub_rope_want_whole(keys));
    TRY(json_get_object(keys, "rope_scaling", &scaling));
    TRY(json_get_object(keys, "rope_parameters", &parameters));
    if (parameters.object)
        TRY(config_hub_rope_read_parameters(&parameters, !scaling.object, config));
    /* transformers 5 takes rope_scaling for rope_parameters, base and all. */
    TRY(json_get_f64(&scaling, "rope_theta", &config->rope.theta));
    TRY(config_hub_rope_want_whole(&scaling));
    if (scaling.object && config->rope.scaling == CONFIG_SCALING_NONE)
        return config_hub_rope_read_type(&scaling, json_object_size(scaling.object) > 0, config);
    return STATUS_OK;
}
