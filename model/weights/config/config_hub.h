/* model/weights/config/config_hub.h: a model's numbers from the JSON files that lie beside hub
 * checkpoints: config.json, generation_config.json, and quantize_config.json or quant_config.json
 * of older quantizers. Start-up only. */
#pragma once

#include "base/error.h"
#include "base/remarks.h"
#include "base/status.h"

#include <stdint.h>

#define CONFIG_HUB_PATH_MAX 4096

typedef struct json_t json_t; /* jansson's */
struct json_get;
struct config_quant;
struct model_config;

/* The files' objects; NULL: there is no such file. */
struct config_hub {
    char folder[CONFIG_HUB_PATH_MAX];
    char config_file[CONFIG_HUB_PATH_MAX + 32]; /* the four names stand in messages */
    char generation_file[CONFIG_HUB_PATH_MAX + 32];
    char quantize_file[CONFIG_HUB_PATH_MAX + 32];
    json_t *config;         /* owned; there is always one */
    json_t *generation;     /* owned */
    json_t *quantize;       /* owned */
    struct remarks remarks; /* what of generation_config.json is not used */
};

/* Loads the files of a folder, or of the folder of a config.json. A generation_config.json that cannot
 * be read counts as absent, with a remark. STATUS_NOT_FOUND, STATUS_IO,
 * STATUS_CORRUPT, STATUS_LIMIT, STATUS_NOMEM, naming the file. */
NODISCARD enum status config_hub_load(const char *path, struct config_hub *hub,
                                      struct error *error);
void config_hub_fini(struct config_hub *hub); /* fine on a zeroed one */

/* Reads and checks the numbers. Fills stop_ids from eos_token_id of both files, generation_config.json's
 * first; what is no id there is left out with a remark. Names and fingerprints come later
 * (model_open). STATUS_INVALID for a value of a wrong type or out of range,
 * STATUS_UNSUPPORTED for a class, a quantization or a feature that is not served; both name file
 * and key. */
NODISCARD enum status config_from_hub(struct config_hub *hub, struct model_config *config,
                                      struct error *error);

/* What config_hub*.c share. `keys` are config.json's. */

/* The inverse frequencies' scaling: rope_theta, rope_scaling or rope_parameters. The context has
 * been read, and grows as the scaling says. */
NODISCARD enum status config_hub_rope(const struct json_get *keys, struct model_config *config);

/* quantization_config and the older file. */
NODISCARD enum status config_hub_quant(const struct config_hub *hub, const struct json_get *keys,
                                       struct model_config *config);

/* `key`, an object of what single layers' quantization is by name or pattern, after `quant` was read:
 * what it says of quantized layers must be what is so of all. STATUS_UNSUPPORTED with pattern, member
 * and value. */
NODISCARD enum status config_hub_layers(const struct json_get *keys, const char *key,
                                        const struct config_quant *quant);

/* Keys that Llama and its kin share: sizes, heads, norm, activation, head. */
NODISCARD enum status config_hub_common(const struct json_get *keys, struct model_config *config);

/* head_dim = dim / n_heads, which has to come out even. */
NODISCARD enum status config_hub_split_heads(const struct json_get *keys,
                                             struct model_config *config);

/* One per class of config.json. */
NODISCARD enum status config_hub_llama(const struct json_get *keys, struct model_config *config);
NODISCARD enum status config_hub_mistral(const struct json_get *keys, struct model_config *config);
NODISCARD enum status config_hub_qwen(const struct json_get *keys, struct model_config *config);
NODISCARD enum status config_hub_qwen2(const struct json_get *keys, struct model_config *config);
NODISCARD enum status config_hub_qwen3(const struct json_get *keys, struct model_config *config);
NODISCARD enum status config_hub_qwen2_moe(const struct json_get *keys,
                                           struct model_config *config);
NODISCARD enum status config_hub_qwen3_moe(const struct json_get *keys,
                                           struct model_config *config);
NODISCARD enum status config_hub_chatglm(const struct json_get *keys, struct model_config *config);
NODISCARD enum status config_hub_baichuan(const struct json_get *keys, struct model_config *config);
