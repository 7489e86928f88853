/* The numbers of a model from the keys of its GGUF file. */
#include "model/config.h"
#include "model/gguf.h"
#include "model/span.h"

#include <stdio.h>

/* Keys are the architecture's name and a suffix. */
struct keys {
    const struct gguf *gguf;
    const char *family;
    struct error *error;
    char text[96];
};

static const char *key(struct keys *keys, const char *suffix) {
    snprintf(keys->text, sizeof keys->text, "%s.%s", keys->family, suffix);
    return keys->text;
}

static bool has(struct keys *keys, const char *suffix) {
    return gguf_find(keys->gguf, key(keys, suffix)) != NULL;
}

static enum status number(struct keys *keys, const char *suffix, uint32_t *value) {
    return gguf_u32(keys->gguf, key(keys, suffix), value, keys->error);
}

/* Keeps the value that is there when the key is absent. */
static enum status optional(struct keys *keys, const char *suffix, uint32_t *value) {
    return has(keys, suffix) ? number(keys, suffix, value) : STATUS_OK;
}

static enum status unsupported(struct keys *keys, const char *suffix, const char *what) {
    return error_field(keys->error, STATUS_UNSUPPORTED, key(keys, suffix),
                       "%s: %s is set: %s are not served", keys->gguf->name, keys->text, what);
}

/* What would change the arithmetic in ways that no family here computes. */
static enum status refuse_extras(struct keys *keys, const struct model_config *config) {
    uint32_t value = 0;
    struct span type;
    TRY(optional(keys, "expert_count", &value));
    if (value > 0)
        return unsupported(keys, "expert_count", "mixtures of experts");
    if (has(keys, "rope.scaling.type")) {
        TRY(gguf_string(keys->gguf, key(keys, "rope.scaling.type"), &type, keys->error));
        if (!span_is(type, "none"))
            return unsupported(keys, "rope.scaling.type", "scaled rotary embeddings");
    }
    if (gguf_tensor(keys->gguf, "rope_freqs.weight"))
        return error_set(keys->error, STATUS_UNSUPPORTED,
                         "%s: tensor rope_freqs.weight: scaled rotary embeddings are not served",
                         keys->gguf->name);
    value = 0;
    TRY(optional(keys, "attention.sliding_window", &value));
    if (value > 0 && value < config->context)
        return unsupported(keys, "attention.sliding_window", "sliding windows");
    return STATUS_OK;
}

static enum status read_heads(struct keys *keys, struct model_config *config) {
    TRY(number(keys, "attention.head_count", &config->n_heads));
    config->n_kv_heads = config->n_heads;
    TRY(optional(keys, "attention.head_count_kv", &config->n_kv_heads));
    if (has(keys, "attention.key_length")) {
        uint32_t value_dim = 0;
        TRY(number(keys, "attention.key_length", &config->head_dim));
        value_dim = config->head_dim;
        TRY(optional(keys, "attention.value_length", &value_dim));
        if (value_dim != config->head_dim)
            return unsupported(keys, "attention.value_length", "values unlike keys in length");
        return STATUS_OK;
    }
    if (config->n_heads == 0 || config->dim % config->n_heads != 0)
        return error_field(keys->error, STATUS_INVALID, "n_heads",
                           "%s: %u heads do not divide the width %u", keys->gguf->name,
                           config->n_heads, config->dim);
    config->head_dim = config->dim / config->n_heads;
    return STATUS_OK;
}

/* The embedding must be what the numbers say: everything else is sized by them. */
static enum status check_embedding(struct keys *keys, const struct model_config *config) {
    const struct tensor *embedding = gguf_tensor(keys->gguf, "token_embd.weight");
    if (!embedding)
        return error_set(keys->error, STATUS_CORRUPT, "%s: tensor token_embd.weight is missing",
                         keys->gguf->name);
    if (embedding->n_dims != 2 || embedding->shape[0] != config->n_vocab ||
        embedding->shape[1] != config->dim)
        return error_set(keys->error, STATUS_CORRUPT,
                         "%s: tensor token_embd.weight is (%llu, %llu), not (n_vocab %u, dim %u)",
                         keys->gguf->name, (unsigned long long)embedding->shape[0],
                         (unsigned long long)embedding->shape[1], config->n_vocab, config->dim);
    return STATUS_OK;
}

static enum status read_rope(struct keys *keys, struct model_config *config) {
    config->rope.layout = CONFIG_ROPE_INTERLEAVED; /* the converter permutes Q and K to it */
    config->rope.dims = config->head_dim;
    config->rope.theta = 10000;
    TRY(optional(keys, "rope.dimension_count", &config->rope.dims));
    if (has(keys, "rope.freq_base"))
        TRY(gguf_f64(keys->gguf, key(keys, "rope.freq_base"), &config->rope.theta, keys->error));
    return STATUS_OK;
}

static enum status read_vocabulary(struct keys *keys, struct model_config *config) {
    struct gguf_array tokens;
    TRY(gguf_array_of(keys->gguf, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, keys->error));
    config->n_vocab = tokens.n > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens.n;
    TRY(optional(keys, "vocab_size", &config->n_vocab));
    if (tokens.n > config->n_vocab)
        return error_field(keys->error, STATUS_CORRUPT, "vocab_size",
                           "%s: %llu tokens, but a vocab_size of %u", keys->gguf->name,
                           (unsigned long long)tokens.n, config->n_vocab);
    config->bos_id = config->eos_id = CONFIG_NO_TOKEN;
    if (gguf_find(keys->gguf, "tokenizer.ggml.bos_token_id"))
        TRY(gguf_u32(keys->gguf, "tokenizer.ggml.bos_token_id", &config->bos_id, keys->error));
    if (gguf_find(keys->gguf, "tokenizer.ggml.eos_token_id"))
        TRY(gguf_u32(keys->gguf, "tokenizer.ggml.eos_token_id", &config->eos_id, keys->error));
    return STATUS_OK;
}

static enum status read_llama(const struct gguf *gguf, struct model_config *config,
                              struct error *error) {
    struct keys keys = {.gguf = gguf, .family = "llama", .error = error};
    double eps;
    snprintf(config->family, sizeof config->family, "llama");
    TRY(number(&keys, "block_count", &config->n_layers));
    TRY(number(&keys, "embedding_length", &config->dim));
    TRY(number(&keys, "feed_forward_length", &config->ffn_dim));
    TRY(number(&keys, "context_length", &config->context));
    TRY(read_heads(&keys, config));
    TRY(gguf_f64(gguf, key(&keys, "attention.layer_norm_rms_epsilon"), &eps, error));
    config->norm_eps = (float)eps;
    TRY(read_rope(&keys, config));
    TRY(read_vocabulary(&keys, config));
    TRY(refuse_extras(&keys, config));
    enum status status = config_check(config, error);
    if (status != STATUS_OK) {
        error_prefix(error, "%s", gguf->name);
        return status;
    }
    TRY(check_embedding(&keys, config));
    config->tied_head = gguf_tensor(gguf, "output.weight") == NULL;
    config->files = CONFIG_FILES_GGUF;
    return STATUS_OK;
}

enum status config_from_gguf(const struct gguf *gguf, struct model_config *config,
                             struct error *error) {
    struct model_config read = {0};
    struct span family;
    TRY(gguf_string(gguf, "general.architecture", &family, error));
    if (!span_is(family, "llama"))
        return error_field(error, STATUS_UNSUPPORTED, "general.architecture",
                           "%s: architecture \"%.*s\" is not served; llama is", gguf->name,
                           span_shown(family), family.bytes);
    TRY(read_llama(gguf, &read, error));
    *config = read;
    return STATUS_OK;
}
