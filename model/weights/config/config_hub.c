#include "model/weights/config/config_hub.h"

#include "base/file.h"
#include "base/json/json_get.h"
#include "base/json/json_text.h"
#include "model/weights/config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *class; /* of config.json's architectures */
    const char *family;
    enum status (*read)(const struct json_get *keys, struct model_config *config);
} classes[] = {
    {"LlamaForCausalLM", "llama", config_hub_llama},
    {"MistralForCausalLM", "llama", config_hub_mistral},
    {"Qwen2ForCausalLM", "qwen2", config_hub_qwen2},
    {"Qwen3ForCausalLM", "qwen3", config_hub_qwen3},
    {"Qwen2MoeForCausalLM", "qwen2_moe", config_hub_qwen2_moe},
    {"Qwen3MoeForCausalLM", "qwen3_moe", config_hub_qwen3_moe},
    {"QWenLMHeadModel", "qwen", config_hub_qwen},
    {"ChatGLMModel", "chatglm", config_hub_chatglm},
    {"ChatGLMForConditionalGeneration", "chatglm", config_hub_chatglm},
    {"BaichuanForCausalLM", "baichuan", config_hub_baichuan},
    {"BaiChuanForCausalLM", "baichuan", config_hub_baichuan},
};

/* A file that need not be there. */
static enum status config_hub_load_if_there(const char *folder, const char *name, char *path,
                                            size_t size, json_t **object, struct error *error) {
    if (!file_is_there(folder, name, path, size))
        return STATUS_OK;
    return json_text_load(path, &json_limits_config, object, error);
}

static enum status config_hub_load_all(const char *path, struct config_hub *hub,
                                       struct error *error) {
    size_t n = strlen(path);
    if (n + 1 >= sizeof hub->folder)
        return error_set(error, STATUS_LIMIT, "the path is too long");
    memcpy(hub->folder, path, n + 1);
    if (file_is_folder(path)) {
        snprintf(hub->config_file, sizeof hub->config_file, "%s/config.json", path);
    } else {
        char *slash = strrchr(hub->folder, '/');
        snprintf(hub->config_file, sizeof hub->config_file, "%s", path);
        if (slash)
            slash[slash == hub->folder] = 0;
        else
            strcpy(hub->folder, ".");
    }
    TRY(json_text_load(hub->config_file, &json_limits_config, &hub->config, error));
    if (file_is_there(hub->folder, "generation_config.json", hub->generation_file,
                      sizeof hub->generation_file))
        TRY(json_text_load_helper(hub->generation_file, &json_limits_config, &hub->generation,
                                  &hub->remarks, error));
    TRY(config_hub_load_if_there(hub->folder, "quantize_config.json", hub->quantize_file,
                                 sizeof hub->quantize_file, &hub->quantize, error));
    if (hub->quantize)
        return STATUS_OK;
    return config_hub_load_if_there(hub->folder, "quant_config.json", hub->quantize_file,
                                    sizeof hub->quantize_file, &hub->quantize, error);
}

enum status config_hub_load(const char *path, struct config_hub *hub, struct error *error) {
    memset(hub, 0, sizeof *hub);
    enum status status = config_hub_load_all(path, hub, error);
    if (status != STATUS_OK)
        config_hub_fini(hub);
    return status;
}

void config_hub_fini(struct config_hub *hub) {
    json_decref(hub->config);
    json_decref(hub->generation);
    json_decref(hub->quantize);
    hub->config = hub->generation = hub->quantize = NULL;
}

static bool config_hub_get_id(const json_t *value, uint32_t n_vocab, uint32_t *id) {
    int64_t number;
    if (!json_get_whole(value, &number) || number < 0 || number >= n_vocab)
        return false;
    *id = (uint32_t)number;
    return true;
}

static enum status config_hub_read_id(const struct json_get *keys, const json_t *value,
                                      const char *key, uint32_t n_vocab, uint32_t *id) {
    if (!config_hub_get_id(value, n_vocab, id))
        return json_get_fail(keys, STATUS_INVALID, key, "is not a token id below vocab_size %u",
                             n_vocab);
    return STATUS_OK;
}

/* eos_token_id: a number or a list of them, the first of which is the model's eos. */
static enum status config_hub_read_ends(const struct json_get *keys, struct model_config *config) {
    const json_t *bos = json_get_member(keys, "bos_token_id");
    const json_t *eos = json_get_member(keys, "eos_token_id");
    if (bos)
        TRY(config_hub_read_id(keys, bos, "bos_token_id", config->n_vocab, &config->bos_id));
    if (!eos)
        return STATUS_OK;
    bool is_list = json_is_array(eos);
    size_t n = is_list ? json_array_size(eos) : 1;
    if (n > CONFIG_STOPS_MAX)
        return json_get_fail(keys, STATUS_LIMIT, "eos_token_id", "has more than %u ids",
                             CONFIG_STOPS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = 0;
        TRY(config_hub_read_id(keys, is_list ? json_array_get(eos, i) : eos, "eos_token_id",
                               config->n_vocab, &id));
        config_add_stop(config, id);
    }
    config->eos_id = config->n_stop_ids ? config->stop_ids[0] : CONFIG_NO_TOKEN;
    return STATUS_OK;
}

/* Ends of generation_config.json go before those of config.json, which stay. */
static void config_hub_add_helper_ends(struct config_hub *hub, const json_t *eos,
                                       struct model_config *config) {
    const struct model_config before = *config;
    bool is_list = json_is_array(eos), all_ids = true;
    size_t n = is_list ? json_array_size(eos) : 1;
    if (n > CONFIG_STOPS_MAX) {
        remarks_add(&hub->remarks, "%s: eos_token_id has more than %u ids; they are not used",
                    hub->generation_file, CONFIG_STOPS_MAX);
        return;
    }
    config->n_stop_ids = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = is_list ? json_array_get(eos, i) : eos;
        uint32_t id;
        if (config_hub_get_id(item, config->n_vocab, &id))
            config_add_stop(config, id);
        else
            all_ids = false;
    }
    if (!all_ids)
        remarks_add(&hub->remarks,
                    "%s: eos_token_id contains a value that is not a token id below vocab_size %u; "
                    "it is not used",
                    hub->generation_file, config->n_vocab);
    for (uint32_t i = 0; i < before.n_stop_ids; i++)
        config_add_stop(config, before.stop_ids[i]);
    config->eos_id = config->n_stop_ids ? config->stop_ids[0] : before.eos_id;
}

/* generation_config.json helps: what cannot be used of it is left out. */
static void config_hub_read_helper_ends(struct config_hub *hub, struct model_config *config) {
    const json_t *bos = json_object_get(hub->generation, "bos_token_id");
    const json_t *eos = json_object_get(hub->generation, "eos_token_id");
    if (!config_hub_get_id(bos, config->n_vocab, &config->bos_id) && bos && !json_is_null(bos))
        remarks_add(&hub->remarks,
                    "%s: bos_token_id is not a token id below vocab_size %u; it is not used",
                    hub->generation_file, config->n_vocab);
    if (eos && !json_is_null(eos))
        config_hub_add_helper_ends(hub, eos, config);
}

/* Informational, but a dummy model takes it. */
static enum status config_hub_read_dtype(const struct json_get *keys, struct model_config *config) {
    static const char *const names[][2] = {
        {"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
    const char *name = NULL;
    TRY(json_get_string(keys, "torch_dtype", &name));
    TRY(json_get_string(keys, "dtype", &name)); /* the newer name wins */
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0)
            snprintf(config->dtype, sizeof config->dtype, "%s", names[i][1]);
    return STATUS_OK;
}

/* Every class once, with commas between. */
static const char *config_hub_classes_text(char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof classes / sizeof *classes && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i > 0 ? ", " : "", classes[i].class);
    return text;
}

static enum status config_hub_read_class(const struct json_get *keys, struct model_config *config) {
    const json_t *list = json_get_member(keys, "architectures");
    const json_t *first = json_array_get(list, 0);
    const char *name = json_string_value(first);
    if (!name)
        return json_get_fail(keys, STATUS_INVALID, "architectures",
                             "is not a list that begins with the name of a class");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i].class, name) != 0)
            continue;
        snprintf(config->family, sizeof config->family, "%s", classes[i].family);
        return classes[i].read(keys, config);
    }
    char served[320];
    return json_get_fail(keys, STATUS_UNSUPPORTED, "architectures",
                         "is %.64s, which is not served; %s are", name,
                         config_hub_classes_text(served, sizeof served));
}

/* config_check() knows no files: its field as the key that it was read from. */
static const char *config_hub_key_of(const struct model_config *config, const char *field) {
    static const struct {
        const char *family; /* NULL: all that have no line of their own */
        const char *field;
        const char *key;
    } keys[] = {
        {"chatglm", "n_vocab", "padded_vocab_size"},
        {"chatglm", "context", "seq_length"},
        {"chatglm", "n_layers", "num_layers"},
        {"chatglm", "ffn_dim", "ffn_hidden_size"},
        {"chatglm", "n_kv_heads", "multi_query_group_num"},
        {"chatglm", "head_dim", "kv_channels"},
        {"chatglm", "norm_eps", "layernorm_epsilon"},
        {"chatglm", "rope_dims", "kv_channels"},
        {"chatglm", "rope_theta", "rope_ratio"},
        {"qwen", "context", "seq_length"},
        {"qwen", "head_dim", "kv_channels"},
        {"qwen", "norm_eps", "layer_norm_epsilon"},
        {"qwen", "rope_dims", "kv_channels"},
        {"qwen", "rope_theta", "rotary_emb_base"},
        {NULL, "n_vocab", "vocab_size"},
        {NULL, "context", "max_position_embeddings"},
        {NULL, "n_layers", "num_hidden_layers"},
        {NULL, "dim", "hidden_size"},
        {NULL, "ffn_dim", "intermediate_size"},
        {NULL, "n_heads", "num_attention_heads"},
        {NULL, "n_kv_heads", "num_key_value_heads"},
        {NULL, "norm_eps", "rms_norm_eps"},
        {NULL, "rope_dims", "head_dim"},
        {NULL, "n_experts", "num_experts"},
        {NULL, "n_active", "num_experts_per_tok"},
        {NULL, "expert_dim", "moe_intermediate_size"},
        {NULL, "shared_dim", "shared_expert_intermediate_size"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(field, keys[i].field) == 0 &&
            (!keys[i].family || strcmp(config->family, keys[i].family) == 0))
            return keys[i].key;
    return field; /* head_dim and rope_theta are the keys' names; ids have been checked by theirs */
}

enum status config_from_hub(struct config_hub *hub, struct model_config *config,
                            struct error *error) {
    struct model_config read = {
        .files = CONFIG_FILES_HUB, .bos_id = CONFIG_NO_TOKEN, .eos_id = CONFIG_NO_TOKEN};
    struct json_get keys = {.object = hub->config, .file = hub->config_file, .error = error};
    TRY(config_hub_read_class(&keys, &read));
    TRY(config_hub_read_dtype(&keys, &read));
    TRY(config_hub_quant(hub, &keys, &read));
    TRY(config_hub_read_ends(&keys, &read));
    config_hub_read_helper_ends(hub, &read);
    enum status status = config_check(&read, error);
    if (status != STATUS_OK) {
        error_rename(error, config_hub_key_of(&read, error->field));
        error_prefix(error, "%s", hub->config_file);
        return status;
    }
    *config = read;
    return STATUS_OK;
}
