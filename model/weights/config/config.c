#include "model/weights/config/config.h"

#include "base/part_name.h"

#include <math.h>
#include <string.h>

static enum status config_in_range(const char *field, uint32_t value, uint32_t most,
                                   struct error *error) {
    if (value == 0)
        return error_field(error, STATUS_INVALID, field, "%s is 0", field);
    if (value > most)
        return error_field(error, STATUS_LIMIT, field, "%s is %u, at most %u are served", field,
                           value, most);
    return STATUS_OK;
}

static enum status config_check_heads(const struct model_config *config, struct error *error) {
    TRY(config_in_range("n_heads", config->n_heads, CONFIG_HEADS_MAX, error));
    TRY(config_in_range("n_kv_heads", config->n_kv_heads, CONFIG_HEADS_MAX, error));
    if (config->head_dim < CONFIG_HEAD_MIN || config->head_dim > CONFIG_HEAD_MAX ||
        config->head_dim % 2 != 0)
        return error_field(error, STATUS_UNSUPPORTED, "head_dim",
                           "head_dim is %u: even sizes from %u to %u are served", config->head_dim,
                           CONFIG_HEAD_MIN, CONFIG_HEAD_MAX);
    if (config->n_heads % config->n_kv_heads != 0)
        return error_field(error, STATUS_INVALID, "n_kv_heads",
                           "n_kv_heads is %u, which does not divide the %u query heads",
                           config->n_kv_heads, config->n_heads);
    return STATUS_OK;
}

static enum status config_check_rope(const struct model_config *config, struct error *error) {
    if (config->rope.layout == CONFIG_ROPE_NONE)
        return STATUS_OK;
    uint32_t dims = config->rope.dims;
    if (dims == 0 || dims % 2 != 0 || dims > config->head_dim)
        return error_field(error, STATUS_INVALID, "rope_dims",
                           "%u rotary dimensions, not an even number up to the %u of a head", dims,
                           config->head_dim);
    if (!isfinite(config->rope.theta) || config->rope.theta <= 1 || config->rope.theta > 1e12)
        return error_field(error, STATUS_INVALID, "rope_theta",
                           "rope_theta is %g, not above 1 and at most 1e12", config->rope.theta);
    return STATUS_OK;
}

static enum status config_check_experts(const struct model_config *config, struct error *error) {
    if (config->moe.n_experts == 0)
        return STATUS_OK;
    TRY(config_in_range("n_experts", config->moe.n_experts, CONFIG_EXPERTS_MAX, error));
    TRY(config_in_range("n_active", config->moe.n_active, config->moe.n_experts, error));
    TRY(config_in_range("expert_dim", config->moe.expert_dim, CONFIG_FFN_MAX, error));
    if (config->moe.shared_dim > CONFIG_FFN_MAX)
        return config_in_range("shared_dim", config->moe.shared_dim, CONFIG_FFN_MAX, error);
    return STATUS_OK;
}

enum status config_check(const struct model_config *config, struct error *error) {
    TRY(config_in_range("n_vocab", config->n_vocab, CONFIG_VOCAB_MAX, error));
    TRY(config_in_range("context", config->context, CONFIG_CONTEXT_MAX, error));
    if (config->bos_id != CONFIG_NO_TOKEN && config->bos_id >= config->n_vocab)
        return error_field(error, STATUS_INVALID, "bos_id",
                           "bos_id is %u, not below the vocabulary's %u", config->bos_id,
                           config->n_vocab);
    if (config->eos_id != CONFIG_NO_TOKEN && config->eos_id >= config->n_vocab)
        return error_field(error, STATUS_INVALID, "eos_id",
                           "eos_id is %u, not below the vocabulary's %u", config->eos_id,
                           config->n_vocab);
    if (strcmp(config->family, "hash") == 0)
        return STATUS_OK;
    TRY(config_in_range("n_layers", config->n_layers, CONFIG_LAYERS_MAX, error));
    TRY(config_in_range("dim", config->dim, CONFIG_DIM_MAX, error));
    TRY(config_in_range("ffn_dim", config->ffn_dim, CONFIG_FFN_MAX, error));
    TRY(config_check_heads(config, error));
    if (!isfinite(config->norm_eps) || config->norm_eps < 0 || config->norm_eps > 1)
        return error_field(error, STATUS_INVALID, "norm_eps", "norm_eps is %g, not from 0 to 1",
                           (double)config->norm_eps);
    TRY(config_check_experts(config, error));
    return config_check_rope(config, error);
}

void config_add_stop(struct model_config *config, uint32_t id) {
    if (id >= config->n_vocab)
        return;
    for (uint32_t i = 0; i < config->n_stop_ids; i++)
        if (config->stop_ids[i] == id)
            return;
    if (config->n_stop_ids < CONFIG_STOPS_MAX) {
        config->stop_ids[config->n_stop_ids++] = id;
        return;
    }
    if (!config->lacks_stops)
        config->first_lacked = id;
    config->lacks_stops = true;
}

void config_set_name(struct model_config *config, const char *text, size_t n) {
    size_t length = n < sizeof config->name ? n : sizeof config->name - 1;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        config->name[i] =
            byte > 0x20 && byte < 0x7f && byte != '"' && byte != '\\' ? (char)byte : '_';
    }
    config->name[length] = 0;
}

void config_name_from_path(struct model_config *config, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    struct part_name part;
    if (part_name_read(path, ".gguf", &part) && part.count > 1 && part.n_stem > begin)
        n = part.n_stem; /* one of them is named */
    else if (n - begin > 5 && memcmp(path + n - 5, ".gguf", 5) == 0)
        n -= 5;
    config_set_name(config, path + begin, n - begin);
}
