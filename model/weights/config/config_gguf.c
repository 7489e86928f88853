/* The numbers of a model from the keys of its GGUF file (names: llama.cpp's gguf-py/constants.py).
 * Of llama's kin the converter permutes Q and K so that rotation takes neighbours; of the others it
 * leaves them half-split. */
#include "base/span.h"
#include "model/gguf/gguf.h"
#include "model/weights/config/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys are the architecture's name and a suffix. */
struct config_gguf_keys {
    const struct gguf *gguf;
    const char *architecture;
    struct error *error;
    char text[96];
};

static const char *config_gguf_key(struct config_gguf_keys *keys, const char *suffix) {
    snprintf(keys->text, sizeof keys->text, "%s.%s", keys->architecture, suffix);
    return keys->text;
}

static bool config_gguf_has(struct config_gguf_keys *keys, const char *suffix) {
    return gguf_find(keys->gguf, config_gguf_key(keys, suffix)) != NULL;
}

/* These keep the value that is there when the key is absent. */
static enum status config_gguf_number(struct config_gguf_keys *keys, const char *suffix,
                                      uint32_t *value) {
    return gguf_u32(keys->gguf, config_gguf_key(keys, suffix), value, keys->error);
}

static enum status config_gguf_real(struct config_gguf_keys *keys, const char *suffix,
                                    double *value) {
    return gguf_f64(keys->gguf, config_gguf_key(keys, suffix), value, keys->error);
}

static enum status config_gguf_need_number(struct config_gguf_keys *keys, const char *suffix,
                                           uint32_t *value) {
    TRY(gguf_need(keys->gguf, config_gguf_key(keys, suffix), keys->error));
    return config_gguf_number(keys, suffix, value);
}

static enum status config_gguf_need_real(struct config_gguf_keys *keys, const char *suffix,
                                         double *value) {
    TRY(gguf_need(keys->gguf, config_gguf_key(keys, suffix), keys->error));
    return config_gguf_real(keys, suffix, value);
}

static enum status config_gguf_unsupported(struct config_gguf_keys *keys, const char *suffix,
                                           const char *what) {
    return error_field(keys->error, STATUS_UNSUPPORTED, config_gguf_key(keys, suffix),
                       "%s: %s is set: %s are not served", keys->gguf->name, keys->text, what);
}

static enum status config_gguf_read_heads(struct config_gguf_keys *keys,
                                          struct model_config *config) {
    TRY(config_gguf_need_number(keys, "attention.head_count", &config->n_heads));
    config->n_kv_heads = config->n_heads;
    TRY(config_gguf_number(keys, "attention.head_count_kv", &config->n_kv_heads));
    if (config_gguf_has(keys, "attention.key_length")) {
        uint32_t value_dim = 0;
        TRY(config_gguf_number(keys, "attention.key_length", &config->head_dim));
        value_dim = config->head_dim;
        TRY(config_gguf_number(keys, "attention.value_length", &value_dim));
        if (value_dim != config->head_dim)
            return config_gguf_unsupported(keys, "attention.value_length",
                                           "values unlike keys in length");
        return STATUS_OK;
    }
    if (config->n_heads == 0 || config->dim % config->n_heads != 0)
        return error_field(keys->error, STATUS_INVALID,
                           config_gguf_key(keys, "attention.head_count"),
                           "%s: %s is %u, which does not divide embedding_length %u",
                           keys->gguf->name, keys->text, config->n_heads, config->dim);
    config->head_dim = config->dim / config->n_heads;
    return STATUS_OK;
}

/* The embedding must be what the numbers say: everything else is sized by them. */
static enum status config_gguf_check_embedding(struct config_gguf_keys *keys,
                                               const struct model_config *config) {
    const struct tensor *embedding = gguf_tensor(keys->gguf, "token_embd.weight");
    if (!embedding)
        return error_set(keys->error, STATUS_CORRUPT, "%s: tensor token_embd.weight is missing",
                         keys->gguf->name);
    if (embedding->n_dims != 2 || embedding->shape[0] != config->n_vocab ||
        embedding->shape[1] != config->dim)
        return error_set(keys->error, STATUS_CORRUPT,
                         "%s: tensor token_embd.weight is (%llu, %llu), but the keys say (%u "
                         "tokens, embedding_length %u)",
                         keys->gguf->name, (unsigned long long)embedding->shape[0],
                         (unsigned long long)embedding->shape[1], config->n_vocab, config->dim);
    return STATUS_OK;
}

/* Llama 3.1's division of the frequency of a rotary pair, which rope_freqs.weight holds ready
 * made. */
static double config_gguf_llama3_divisor(const struct model_config *config, double factor,
                                         uint32_t pair) {
    double turn = 2 * 3.14159265358979323846;
    double wave = turn * pow(config->rope.theta, 2.0 * pair / config->rope.dims);
    double low = 8192 / 1.0;
    double high = 8192 / 4.0;
    if (wave < high)
        return 1;
    if (wave > low)
        return factor;
    double smooth = (8192 / wave - 1) / (4 - 1);
    return 1 / ((1 - smooth) / factor + smooth);
}

/* The tensor says the divisors alone, all published ones come from the same numbers: with those the
 * divisors are made anew and must agree. */
static enum status config_gguf_read_divisors(struct config_gguf_keys *keys,
                                             struct model_config *config) {
    const struct tensor *tensor = gguf_tensor(keys->gguf, "rope_freqs.weight");
    if (!tensor)
        return STATUS_OK;
    uint32_t n = config->rope.dims / 2;
    bool agrees = strcmp(tensor->format, "f32") == 0 && tensor->n_dims == 1 && n > 0 &&
                  tensor->shape[0] == n && config->rope.scaling == CONFIG_SCALING_NONE;
    float last = 0;
    if (agrees)
        memcpy(&last, (const char *)tensor->data + (size_t)4 * (n - 1), sizeof last);
    agrees = agrees && last >= 1 && last <= 1024;
    for (uint32_t i = 0; agrees && i < n; i++) {
        float divisor;
        memcpy(&divisor, (const char *)tensor->data + (size_t)4 * i, sizeof divisor);
        agrees = fabs(divisor - config_gguf_llama3_divisor(config, last, i)) <= 1e-3 * last;
    }
    if (!agrees)
        return error_set(keys->error, STATUS_UNSUPPORTED,
                         "%s: tensor rope_freqs.weight: these scaled rotary embeddings are not "
                         "served; Llama 3.1's are",
                         keys->gguf->name);
    if (last == 1)
        return STATUS_OK;
    config->rope.scaling = CONFIG_SCALING_LLAMA3;
    config->rope.factor = last;
    config->rope.low_factor = 1;
    config->rope.high_factor = 4;
    config->rope.original_context = 8192;
    return STATUS_OK;
}

static enum status config_gguf_read_yarn(struct config_gguf_keys *keys,
                                         struct model_config *config) {
    config->rope.scaling = CONFIG_SCALING_YARN;
    config->rope.beta_fast = 32;
    config->rope.beta_slow = 1;
    TRY(config_gguf_real(keys, "rope.scaling.yarn_beta_fast", &config->rope.beta_fast));
    TRY(config_gguf_real(keys, "rope.scaling.yarn_beta_slow", &config->rope.beta_slow));
    if (!(config->rope.beta_slow > 0) || !(config->rope.beta_fast > config->rope.beta_slow))
        return error_set(keys->error, STATUS_INVALID, "%s: %s.rope.scaling: yarn betas %g and %g",
                         keys->gguf->name, keys->architecture, config->rope.beta_fast,
                         config->rope.beta_slow);
    return STATUS_OK;
}

static enum status config_gguf_read_scaling(struct config_gguf_keys *keys,
                                            struct model_config *config) {
    struct span type = SPAN("none");
    TRY(gguf_string(keys->gguf, config_gguf_key(keys, "rope.scaling.type"), &type, keys->error));
    if (span_is(type, "none"))
        return STATUS_OK;
    if (span_is(type, "linear"))
        config->rope.scaling = CONFIG_SCALING_LINEAR;
    else if (span_is(type, "yarn"))
        TRY(config_gguf_read_yarn(keys, config));
    else
        return error_field(keys->error, STATUS_UNSUPPORTED,
                           config_gguf_key(keys, "rope.scaling.type"),
                           "%s: %s is \"%.*s\"; none, linear and yarn are served", keys->gguf->name,
                           keys->text, span_shown(type), type.bytes);
    TRY(config_gguf_number(keys, "rope.scaling.original_context_length",
                           &config->rope.original_context));
    TRY(config_gguf_need_real(keys, "rope.scaling.factor", &config->rope.factor));
    if (!(config->rope.factor >= 1 && config->rope.factor <= 1024) ||
        config->rope.original_context == 0)
        return error_field(keys->error, STATUS_INVALID, keys->text,
                           "%s: %s is %g, not from 1 to 1024, or its original context is 0",
                           keys->gguf->name, keys->text, config->rope.factor);
    double scaled = floor(config->rope.original_context * config->rope.factor);
    if (scaled > config->context && scaled <= CONFIG_CONTEXT_MAX)
        config->context = (uint32_t)scaled;
    return STATUS_OK;
}

static enum status config_gguf_read_rope(struct config_gguf_keys *keys,
                                         struct model_config *config) {
    bool is_llama = strcmp(keys->architecture, "llama") == 0;
    config->rope.layout = is_llama ? CONFIG_ROPE_INTERLEAVED : CONFIG_ROPE_HALF_SPLIT;
    config->rope.dims = config->head_dim;
    config->rope.theta = 10000;
    config->rope.original_context = config->context;
    TRY(config_gguf_number(keys, "rope.dimension_count", &config->rope.dims));
    TRY(config_gguf_real(keys, "rope.freq_base", &config->rope.theta));
    TRY(config_gguf_read_scaling(keys, config));
    return config_gguf_read_divisors(keys, config);
}

/* What the architecture leaves open the tensors of the first layer tell. */
static enum status config_gguf_read_parts(struct config_gguf_keys *keys,
                                          struct model_config *config) {
    const struct gguf *gguf = keys->gguf;
    uint32_t n_experts = 0;
    TRY(config_gguf_number(keys, "attention.sliding_window", &config->window));
    if (config->window >= config->context)
        config->window = 0;
    config->qkv_bias = gguf_tensor(gguf, "blk.0.attn_q.bias") != NULL;
    config->out_bias = gguf_tensor(gguf, "blk.0.attn_output.bias") != NULL;
    config->ffn_bias = gguf_tensor(gguf, "blk.0.ffn_up.bias") != NULL;
    config->qk_norm = gguf_tensor(gguf, "blk.0.attn_q_norm.weight") != NULL;
    TRY(config_gguf_number(keys, "expert_count", &n_experts));
    if (n_experts > 0 && strcmp(keys->architecture, "qwen2moe") != 0)
        return config_gguf_unsupported(keys, "expert_count", "mixtures of experts");
    return STATUS_OK;
}

/* Experts lie stacked: (n_experts, expert_dim, dim). */
static enum status config_gguf_read_experts(struct config_gguf_keys *keys,
                                            struct model_config *config) {
    const struct tensor *gate = gguf_tensor(keys->gguf, "blk.0.ffn_gate_exps.weight");
    const struct tensor *shared = gguf_tensor(keys->gguf, "blk.0.ffn_gate_shexp.weight");
    TRY(config_gguf_need_number(keys, "expert_count", &config->moe.n_experts));
    TRY(config_gguf_need_number(keys, "expert_used_count", &config->moe.n_active));
    if (gate && gate->n_dims == 3 && gate->shape[1] <= CONFIG_FFN_MAX)
        config->moe.expert_dim = (uint32_t)gate->shape[1];
    if (shared && shared->n_dims == 2 && shared->shape[0] <= CONFIG_FFN_MAX)
        config->moe.shared_dim = (uint32_t)shared->shape[0];
    TRY(config_gguf_number(keys, "expert_feed_forward_length", &config->moe.expert_dim));
    TRY(config_gguf_number(keys, "expert_shared_feed_forward_length", &config->moe.shared_dim));
    if (config->moe.n_experts == 0)
        return error_field(keys->error, STATUS_INVALID, config_gguf_key(keys, "expert_count"),
                           "%s: %s is 0", keys->gguf->name, keys->text);
    return STATUS_OK;
}

/* A token without a row counts as none: tokenizer_limit() says so. */
static enum status config_gguf_read_end(struct config_gguf_keys *keys,
                                        const struct model_config *config, uint64_t n_tokens,
                                        const char *name, uint32_t *id) {
    *id = CONFIG_NO_TOKEN;
    TRY(gguf_u32(keys->gguf, name, id, keys->error));
    if (*id >= config->n_vocab && *id < n_tokens)
        *id = CONFIG_NO_TOKEN;
    return STATUS_OK;
}

/* Without a key, an embedding of fewer rows than there are tokens says how many the model has. */
static enum status config_gguf_read_vocabulary(struct config_gguf_keys *keys,
                                               struct model_config *config) {
    const struct tensor *embedding = gguf_tensor(keys->gguf, "token_embd.weight");
    struct gguf_array tokens;
    TRY(gguf_array_of(keys->gguf, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, keys->error));
    config->n_vocab = tokens.n > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens.n;
    if (embedding && embedding->n_dims == 2 && embedding->shape[0] < config->n_vocab)
        config->n_vocab = (uint32_t)embedding->shape[0];
    TRY(config_gguf_number(keys, "vocab_size", &config->n_vocab));
    TRY(config_gguf_read_end(keys, config, tokens.n, "tokenizer.ggml.bos_token_id",
                             &config->bos_id));
    return config_gguf_read_end(keys, config, tokens.n, "tokenizer.ggml.eos_token_id",
                                &config->eos_id);
}

/* config_check() knows no files: its field as the key that it was read from. */
static void config_gguf_name_key(struct config_gguf_keys *keys) {
    static const char *const names[][2] = {
        {"context", "context_length"},
        {"n_layers", "block_count"},
        {"dim", "embedding_length"},
        {"ffn_dim", "feed_forward_length"},
        {"n_heads", "attention.head_count"},
        {"n_kv_heads", "attention.head_count_kv"},
        {"head_dim", "attention.key_length"},
        {"norm_eps", "attention.layer_norm_rms_epsilon"},
        {"rope_dims", "rope.dimension_count"},
        {"rope_theta", "rope.freq_base"},
        {"n_vocab", "vocab_size"},
        {"n_experts", "expert_count"},
        {"n_active", "expert_used_count"},
        {"expert_dim", "expert_feed_forward_length"},
        {"shared_dim", "expert_shared_feed_forward_length"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(keys->error->field, names[i][0]) == 0) {
            error_rename(keys->error, config_gguf_key(keys, names[i][1]));
            return;
        }
    if (strcmp(keys->error->field, "bos_id") == 0)
        error_rename(keys->error, "tokenizer.ggml.bos_token_id");
    else if (strcmp(keys->error->field, "eos_id") == 0)
        error_rename(keys->error, "tokenizer.ggml.eos_token_id");
}

static enum status config_gguf_read_all(struct config_gguf_keys *keys,
                                        struct model_config *config) {
    double eps;
    TRY(config_gguf_need_number(keys, "block_count", &config->n_layers));
    TRY(config_gguf_need_number(keys, "embedding_length", &config->dim));
    TRY(config_gguf_need_number(keys, "feed_forward_length", &config->ffn_dim));
    TRY(config_gguf_need_number(keys, "context_length", &config->context));
    TRY(config_gguf_read_heads(keys, config));
    TRY(config_gguf_need_real(keys, "attention.layer_norm_rms_epsilon", &eps));
    config->norm_eps = (float)eps;
    TRY(config_gguf_read_rope(keys, config));
    TRY(config_gguf_read_vocabulary(keys, config));
    TRY(config_gguf_read_parts(keys, config));
    if (strcmp(keys->architecture, "qwen2moe") == 0)
        TRY(config_gguf_read_experts(keys, config));
    enum status status = config_check(config, keys->error);
    if (status != STATUS_OK) {
        config_gguf_name_key(keys);
        error_prefix(keys->error, "%s", keys->gguf->name);
        return status;
    }
    TRY(config_gguf_check_embedding(keys, config));
    config->tied_head = gguf_tensor(keys->gguf, "output.weight") == NULL;
    return STATUS_OK;
}

static const struct {
    const char *architecture;
    const char *family;
} architectures[] = {
    {"llama", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}, {"qwen2moe", "qwen2_moe"}};

enum status config_from_gguf(const struct gguf *gguf, struct model_config *config,
                             struct error *error) {
    struct model_config read = {.files = CONFIG_FILES_GGUF};
    struct span name;
    TRY(gguf_need(gguf, "general.architecture", error));
    TRY(gguf_string(gguf, "general.architecture", &name, error));
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        if (!span_is(name, architectures[i].architecture))
            continue;
        struct config_gguf_keys keys = {
            .gguf = gguf, .architecture = architectures[i].architecture, .error = error};
        snprintf(read.family, sizeof read.family, "%s", architectures[i].family);
        TRY(config_gguf_read_all(&keys, &read));
        *config = read;
        return STATUS_OK;
    }
    return error_field(error, STATUS_UNSUPPORTED, "general.architecture",
                       "%s: architecture \"%.*s\" is not served; llama, qwen2 and qwen3 are",
                       gguf->name, span_shown(name), name.bytes);
}
