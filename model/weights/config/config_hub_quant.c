/* How a checkpoint was quantized: quantization_config in config.json, or quantize_config.json
 * (AutoGPTQ) and quant_config.json (AutoAWQ) of older quantizers. Where both are there config.json
 * wins, and they must not contradict each other. Which layers are quantized the tensors say.
 * Sources: GPTQModel's quantization/config.py, AutoRound's export_to_autogptq and export_to_awq. */
#include "base/json/json_get.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

static enum status config_hub_read_number(const struct json_get *keys, const char *key,
                                          const char *old_key, int64_t *value) {
    const char *name =
        json_get_member(keys, old_key) && !json_get_member(keys, key) ? old_key : key;
    const json_t *found = json_get_member(keys, name);
    if (!json_get_whole(found, value))
        return json_get_fail(keys, STATUS_INVALID, name, "%s",
                             found ? "is not a whole number" : "is missing");
    return STATUS_OK;
}

static enum status config_hub_read_sizes(const struct json_get *keys, struct config_quant *quant) {
    int64_t bits;
    int64_t group;
    TRY(config_hub_read_number(keys, "bits", "w_bit", &bits));
    TRY(config_hub_read_number(keys, "group_size", "q_group_size", &group));
    bool is_served = bits == 4 || (bits == 8 && quant->method == CONFIG_METHOD_GPTQ);
    if (!is_served)
        return json_get_fail(keys, STATUS_UNSUPPORTED,
                             json_get_member(keys, "bits") ? "bits" : "w_bit", "is %lld: %s",
                             (long long)bits,
                             quant->method == CONFIG_METHOD_AWQ ? "AWQ is served with 4"
                                                                : "GPTQ is served with 4 and 8");
    quant->bits = (uint32_t)bits;
    quant->group = group == -1 ? 0 : (uint32_t)group;
    bool is_power = group >= 8 && group <= CONFIG_DIM_MAX && (group & (group - 1)) == 0;
    if (group != -1 && !is_power)
        return json_get_fail(keys, STATUS_INVALID,
                             json_get_member(keys, "group_size") ? "group_size" : "q_group_size",
                             "is %lld, neither -1 nor a power of two from 8 to %u",
                             (long long)group, CONFIG_DIM_MAX);
    return STATUS_OK;
}

static enum status config_hub_read_awq(const struct json_get *keys, struct config_quant *quant) {
    const char *version = "gemm";
    quant->method = CONFIG_METHOD_AWQ;
    TRY(json_get_string(keys, "version", &version));
    if (strcasecmp(version, "gemm") != 0)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "version",
                             "is \"%.32s\": only AWQ's gemm layout is served", version);
    TRY(json_get_want(keys, "zero_point", true));
    return config_hub_read_sizes(keys, quant);
}

static enum status config_hub_read_gptq(const struct json_get *keys, struct config_quant *quant) {
    const char *format = "gptq";
    quant->method = CONFIG_METHOD_GPTQ;
    TRY(json_get_string(keys, "checkpoint_format", &format));
    quant->zero_as_is = strcmp(format, "gptq_v2") == 0;
    if (!quant->zero_as_is && strcmp(format, "gptq") != 0)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "checkpoint_format",
                             "is \"%.32s\"; gptq and gptq_v2 are served", format);
    TRY(json_get_want(keys, "is_marlin_format", false));
    TRY(json_get_bool(keys, "desc_act", &quant->act_order));
    TRY(json_get_bool(keys, "sym", &quant->symmetric));
    TRY(config_hub_read_sizes(keys, quant));
    return config_hub_layers(keys, "dynamic", quant);
}

/* AutoRound writes its own layouts, GPTQ's and AWQ's; the last two byte for byte. */
static enum status config_hub_read_auto_round(const struct json_get *keys,
                                              struct config_quant *quant) {
    const char *packing = "auto_round:auto_gptq";
    const char *type = "int";
    uint32_t act_bits = 16;
    TRY(json_get_string(keys, "packing_format", &packing));
    bool is_gptq = strcmp(packing, "auto_round:auto_gptq") == 0;
    if (!is_gptq && strcmp(packing, "auto_round:auto_awq") != 0)
        return json_get_fail(
            keys, STATUS_UNSUPPORTED, "packing_format",
            "is \"%.48s\"; auto_round:auto_gptq and auto_round:auto_awq are served", packing);
    TRY(json_get_string(keys, "data_type", &type));
    if (strcmp(type, "int") != 0)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "data_type", "is \"%.32s\"; int is served",
                             type);
    TRY(json_get_u32(keys, "act_bits", &act_bits));
    if (act_bits < 16)
        return json_get_fail(keys, STATUS_UNSUPPORTED, "act_bits",
                             "is %u: activations of 16 bits and more are served", act_bits);
    TRY(is_gptq ? config_hub_read_gptq(keys, quant) : config_hub_read_awq(keys, quant));
    return config_hub_layers(keys, "extra_config", quant);
}

/* `method` is what the file's own name says where the key is absent. */
static enum status config_hub_read_quant(const struct json_get *keys, const char *method,
                                         struct config_quant *quant) {
    TRY(json_get_string(keys, "quant_method", &method));
    if (method && strcmp(method, "awq") == 0)
        return config_hub_read_awq(keys, quant);
    if (method && strcmp(method, "gptq") == 0)
        return config_hub_read_gptq(keys, quant);
    if (method && (strcmp(method, "auto-round") == 0 || strcmp(method, "intel/auto-round") == 0))
        return config_hub_read_auto_round(keys, quant);
    if (!method)
        return json_get_fail(keys, STATUS_INVALID, "quant_method", "is missing");
    return json_get_fail(keys, STATUS_UNSUPPORTED, "quant_method",
                         "is \"%.32s\"; awq, gptq and auto-round are served", method);
}

static enum status config_hub_quant_compare(const struct json_get *keys,
                                            const struct config_quant *of_config,
                                            const struct config_quant *of_file) {
    const char *key = of_config->method != of_file->method ? "quant_method"
                      : of_config->bits != of_file->bits   ? "bits"
                      : of_config->group != of_file->group ? "group_size"
                                                           : NULL;
    if (!key)
        return STATUS_OK;
    return json_get_fail(keys, STATUS_INVALID, key,
                         "contradicts quantization_config of config.json");
}

enum status config_hub_quant(const struct config_hub *hub, const struct json_get *keys,
                             struct model_config *config) {
    struct json_get inner;
    struct json_get outer = {
        .object = hub->quantize, .file = hub->quantize_file, .error = keys->error};
    struct config_quant of_config = {0};
    struct config_quant of_file = {0};
    const char *of_name = strstr(hub->quantize_file, "quantize_config") ? "gptq" : "awq";
    TRY(json_get_object(keys, "quantization_config", &inner));
    if (inner.object)
        TRY(config_hub_read_quant(&inner, NULL, &of_config));
    if (hub->quantize)
        TRY(config_hub_read_quant(&outer, of_name, &of_file));
    if (inner.object && hub->quantize)
        TRY(config_hub_quant_compare(&outer, &of_config, &of_file));
    config->quant = inner.object ? of_config : of_file;
    return STATUS_OK;
}
