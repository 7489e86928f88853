/* What a quantization says of single layers: GPTQModel's `dynamic` and AutoRound's `extra_config`,
 * objects of members by the layer's name or a pattern of names. Layers that are left out need
 * nothing of it, since the tensors show them. */
#include "base/json/json_get.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_BITS 16 /* from here on a layer is not quantized */

/* Members of quantizers at work: they say nothing of how the tensors are read, nor does desc_act,
 * since g_idx holds the order. */
static const char *const meaningless[] = {
    "desc_act",    "static_groups", "true_sequential", "damp_percent", "damp_auto_increment",
    "mse",         "act_sym",       "act_data_type",   "act_dynamic",  "act_group_size",
    "scale_dtype", "in_blocks",     "fixed_by_user",
};

static bool config_hub_is_meaningless(const char *member) {
    for (size_t i = 0; i < sizeof meaningless / sizeof *meaningless; i++)
        if (strcmp(member, meaningless[i]) == 0)
            return true;
    return false;
}

/* Does the member say of the layer what is so of all? */
static bool config_hub_layers_repeat(const char *member, const json_t *value,
                                     const struct config_quant *quant) {
    int64_t number;
    bool is_whole = json_get_whole(value, &number);
    if (json_is_null(value) || config_hub_is_meaningless(member))
        return true;
    if (strcmp(member, "bits") == 0)
        return is_whole && number == quant->bits;
    if (strcmp(member, "group_size") == 0)
        return is_whole && number == (quant->group ? (int64_t)quant->group : -1);
    if (strcmp(member, "sym") == 0) /* fields of zero points are read where not all are symmetric */
        return json_is_true(value) || (json_is_false(value) && !quant->symmetric);
    if (strcmp(member, "data_type") == 0)
        return json_is_string(value) && strcmp(json_string_value(value), "int") == 0;
    return strcmp(member, "act_bits") == 0 && is_whole && number >= PLAIN_BITS;
}

static enum status config_hub_layers_refuse(const struct json_get *layer, const char *member,
                                            const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    enum status status = json_get_fail(
        layer, STATUS_UNSUPPORTED, member,
        "is %.64s: layers that are quantized in other ways than the rest are not served",
        text ? text : "another value");
    free(text);
    return status;
}

enum status config_hub_layers(const struct json_get *keys, const char *key,
                              const struct config_quant *quant) {
    struct json_get layers;
    const char *name;
    json_t *members;
    TRY(json_get_object(keys, key, &layers));
    json_object_foreach((json_t *)(uintptr_t)layers.object, name, members) {
        char parent[160];
        const char *member;
        json_t *value;
        if (strncmp(name, "-:", 2) == 0 || json_is_null(members)) /* left out */
            continue;
        if (!json_is_object(members))
            return json_get_fail(&layers, STATUS_INVALID, name, "is not an object");
        if (json_number_value(json_object_get(members, "bits")) >= PLAIN_BITS)
            continue;
        snprintf(parent, sizeof parent, "%s.%.128s", key, name);
        struct json_get layer = layers;
        layer.object = members;
        layer.parent = parent;
        json_object_foreach(members, member, value) {
            if (!config_hub_layers_repeat(member, value, quant))
                return config_hub_layers_refuse(&layer, member, value);
        }
    }
    return STATUS_OK;
}
