#include "tools/cli/model/model_info.h"

#include "model/gguf/gguf.h"
#include "model/model.h"
#include "model/text/template/tool_format.h"
#include "model/weights/checkpoint/checkpoint.h"

#include <jansson.h>
#include <string.h>

#define FORMATS_MAX 32

/* What the tensors are, all together. */
struct model_info_sums {
    uint32_t n_tensors;
    uint64_t n_bytes;
    uint64_t n_weights; /* parameters: packed integers count as what they hold */
    unsigned n_formats;
    const char *formats[FORMATS_MAX];
    uint32_t counts[FORMATS_MAX];
};

static uint64_t model_info_n_items(const struct tensor *tensor) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        n *= tensor->shape[i];
    return n;
}

/* Scales, zero points and orders are a layer's means, no parameters of the network. */
static uint64_t model_info_n_weights(const struct model_config *config,
                                     const struct tensor *tensor) {
    struct span name = span_of(tensor->name);
    if (span_ends(name, ".qweight") && config->quant.bits > 0)
        return model_info_n_items(tensor) * (32 / config->quant.bits);
    if (span_ends(name, ".scales") || span_ends(name, ".qzeros") || span_ends(name, ".g_idx") ||
        span_ends(name, ".inv_freq"))
        return 0;
    return model_info_n_items(tensor);
}

static void model_info_count_format(struct model_info_sums *sums, const char *format) {
    unsigned at = 0;
    while (at < sums->n_formats && strcmp(sums->formats[at], format) != 0)
        at++;
    if (at == FORMATS_MAX)
        return;
    if (at == sums->n_formats)
        sums->formats[sums->n_formats++] = format;
    sums->counts[at]++;
}

static struct model_info_sums model_info_add_up(const struct model *model) {
    struct model_info_sums sums = {0};
    const struct tensor *tensor;
    for (; (tensor = tensors_nth(&model->tensors, sums.n_tensors)); sums.n_tensors++) {
        sums.n_bytes += tensor->n_bytes;
        sums.n_weights += model_info_n_weights(&model->config, tensor);
        model_info_count_format(&sums, tensor->format);
    }
    return sums;
}

static const char *model_info_scaling_name(enum config_scaling scaling) {
    static const char *const names[] = {"none", "linear", "dynamic", "llama3", "yarn", "qwen_ntk"};
    return names[scaling];
}

static const char *model_info_layout_name(const struct model_config *config) {
    if (config->alibi)
        return "alibi";
    return config->rope.layout == CONFIG_ROPE_NONE          ? "none"
           : config->rope.layout == CONFIG_ROPE_INTERLEAVED ? "interleaved"
                                                            : "half-split";
}

static const char *model_info_method_name(enum config_method method) {
    return method == CONFIG_METHOD_AWQ ? "awq" : method == CONFIG_METHOD_GPTQ ? "gptq" : "none";
}

static uint64_t model_info_kv_bytes(const struct model_config *config) {
    return 4ull * config->n_layers * config->n_kv_heads * config->head_dim;
}

static const char *model_info_kind_name(const struct model *model) {
    return model->tensors.checkpoint ? model->tensors.checkpoint->kind->name : "none";
}

static void model_info_print_rope(const struct model_config *config, FILE *out) {
    if (config->alibi || config->rope.layout == CONFIG_ROPE_NONE) {
        fprintf(out, "positions     %s\n", model_info_layout_name(config));
        return;
    }
    fprintf(out, "rope          %s, %u of %u dimensions, base %g\n", model_info_layout_name(config),
            config->rope.dims, config->head_dim, config->rope.theta);
    if (config->rope.scaling != CONFIG_SCALING_NONE)
        fprintf(out, "scaling       %s, factor %g, from %u tokens\n",
                model_info_scaling_name(config->rope.scaling), config->rope.factor,
                config->rope.original_context);
}

static void model_info_print_head(const struct model *model, FILE *out) {
    const struct model_config *config = &model->config;
    fprintf(out, "head          %s%s\n", config->tied_head ? "tied to the embedding" : "its own",
            config->head_norm ? ", rows normalised" : "");
}

static void model_info_print_extras(const struct model *model, FILE *out) {
    const struct model_config *config = &model->config;
    if (config->window > 0)
        fprintf(out, "window        %u keys, from layer %u on\n", config->window,
                config->window_layer_begin);
    if (config->logn)
        fprintf(out, "logn          queries grow past %u tokens\n", config->rope.original_context);
    if (config->moe.n_experts > 0)
        fprintf(out, "experts       %u of %u, %u wide, shared %u wide, weights %s\n",
                config->moe.n_active, config->moe.n_experts, config->moe.expert_dim,
                config->moe.shared_dim, config->moe.normalise ? "normalised" : "as they are");
    model_info_print_head(model, out);
    if (config->quant.method == CONFIG_METHOD_NONE)
        return;
    fprintf(out, "quantization  %s, %u bits, ", model_info_method_name(config->quant.method),
            config->quant.bits);
    if (config->quant.group > 0)
        fprintf(out, "groups of %u", config->quant.group);
    else
        fprintf(out, "one group");
    fprintf(out, "%s%s%s\n", config->quant.act_order ? ", act-order" : "",
            config->quant.symmetric ? ", symmetric" : "",
            config->quant.zero_as_is ? ", v2 zero points" : "");
}

static void model_info_print_tensors(const struct model_info_sums *sums, const struct model *model,
                                     FILE *out) {
    fprintf(out, "files         %s", model_info_kind_name(model));
    if (model->gguf && model->gguf->n_others > 0)
        fprintf(out, ", %u parts", model->gguf->n_others + 1);
    fputc('\n', out);
    if (sums->n_tensors == 0) /* a dummy's are made when a worker asks for them */
        return;
    fprintf(out, "parameters    %llu\n", (unsigned long long)sums->n_weights);
    fprintf(out, "tensors       %u, %.1f MiB\n", sums->n_tensors,
            (double)sums->n_bytes / (1 << 20));
    fprintf(out, "formats       ");
    for (unsigned i = 0; i < sums->n_formats; i++)
        fprintf(out, "%s%s %u", i ? ", " : "", sums->formats[i], sums->counts[i]);
    fprintf(out, "%s\n", sums->n_formats ? "" : "none");
}

static void model_info_print_generation(const struct generation *generation, FILE *out) {
    const char *between = "";
    fprintf(out, "sampling      ");
    for (unsigned field = 0; field < GENERATION_FIELDS; field++) {
        if (!generation->has[field])
            continue;
        fprintf(out, "%s%s %g", between, generation_name(field), generation->value[field]);
        between = ", ";
    }
    fprintf(out, "%s\n", between[0] ? "" : "no defaults of its own");
    if (generation->ignored[0])
        fprintf(out, "              %s\n", generation->ignored);
}

static json_t *model_info_generation_json(const struct generation *generation) {
    json_t *object = json_object();
    for (unsigned field = 0; field < GENERATION_FIELDS; field++)
        if (generation->has[field])
            json_object_set_new(object, generation_name(field),
                                json_real(generation->value[field]));
    return object;
}

static void model_info_print_text(const struct model *model, const struct model_info_sums *sums,
                                  FILE *out) {
    const struct model_config *config = &model->config;
    fprintf(out, "name          %s\nfamily        %s\n", config->name, config->family);
    fprintf(out, "layers        %u\nwidth         %u\nheads         %u, kv %u, %u wide\n",
            config->n_layers, config->dim, config->n_heads, config->n_kv_heads, config->head_dim);
    fprintf(out, "feed-forward  %u\nvocabulary    %u\ncontext       %u\n", config->ffn_dim,
            config->n_vocab, config->context);
    model_info_print_rope(config, out);
    model_info_print_extras(model, out);
    model_info_print_tensors(sums, model, out);
    fprintf(out, "tokenizer     %s, %u tokens\n", model->tokenizer->kind->name,
            tokenizer_n_tokens(model->tokenizer));
    fprintf(out, "template      %s\n",
            model->template.kind         ? model->template.kind->name
            : model->template.refusal[0] ? model->template.refusal
                                         : "none");
    fprintf(out, "tool calls    %s\n",
            tool_format_shown(model->template.tool_format, model->template_source));
    model_info_print_generation(&model->generation, out);
    for (unsigned i = 0; i < model->remarks.n; i++)
        fprintf(out, "not used      %s\n", model->remarks.lines[i]);
    fprintf(out, "stop ids     ");
    for (uint32_t i = 0; i < config->n_stop_ids; i++)
        fprintf(out, " %u", config->stop_ids[i]);
    fprintf(out, "%s\n", config->n_stop_ids ? "" : " none");
    fprintf(out, "kv per token  %llu bytes in f16\n",
            (unsigned long long)model_info_kv_bytes(config));
}

/* null where the model has none. */
static json_t *model_info_id_or_null(uint32_t id) {
    return id == CONFIG_NO_TOKEN ? json_null() : json_integer(id);
}

static json_t *model_info_rope_json(const struct model_config *config) {
    return json_pack("{s:s, s:I, s:f, s:s, s:f, s:I}", "layout", model_info_layout_name(config),
                     "dims", (json_int_t)config->rope.dims, "theta", config->rope.theta, "scaling",
                     model_info_scaling_name(config->rope.scaling), "factor", config->rope.factor,
                     "original_context", (json_int_t)config->rope.original_context);
}

static json_t *model_info_experts_json(const struct model_config *config) {
    return json_pack("{s:I, s:I, s:I, s:I, s:b}", "count", (json_int_t)config->moe.n_experts,
                     "active", (json_int_t)config->moe.n_active, "width",
                     (json_int_t)config->moe.expert_dim, "shared_width",
                     (json_int_t)config->moe.shared_dim, "normalised", config->moe.normalise);
}

static json_t *model_info_quant_json(const struct model_config *config) {
    return json_pack("{s:s, s:I, s:I, s:b, s:b, s:b}", "method",
                     model_info_method_name(config->quant.method), "bits",
                     (json_int_t)config->quant.bits, "group", (json_int_t)config->quant.group,
                     "act_order", config->quant.act_order, "symmetric", config->quant.symmetric,
                     "zero_as_is", config->quant.zero_as_is);
}

static void model_info_set(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *model_info_build_json(const struct model *model,
                                     const struct model_info_sums *sums) {
    const struct model_config *config = &model->config;
    json_t *object = json_object();
    json_t *stops = json_array();
    json_t *formats = json_object();
    const char *template = model->template.kind ? model->template.kind->name : NULL;
    const struct tool_format *format = model->template.tool_format;
    for (uint32_t i = 0; i < config->n_stop_ids; i++)
        json_array_append_new(stops, json_integer(config->stop_ids[i]));
    for (unsigned i = 0; i < sums->n_formats; i++)
        json_object_set_new(formats, sums->formats[i], json_integer(sums->counts[i]));
    json_object_set_new(object, "name", json_string(config->name));
    json_object_set_new(object, "family", json_string(config->family));
    json_object_set_new(object, "files", json_string(model_info_kind_name(model)));
    model_info_set(object, "layers", config->n_layers);
    model_info_set(object, "width", config->dim);
    model_info_set(object, "heads", config->n_heads);
    model_info_set(object, "kv_heads", config->n_kv_heads);
    model_info_set(object, "head_width", config->head_dim);
    model_info_set(object, "feed_forward", config->ffn_dim);
    model_info_set(object, "vocabulary", config->n_vocab);
    model_info_set(object, "context", config->context);
    json_object_set_new(object, "rope", model_info_rope_json(config));
    model_info_set(object, "window", config->window);
    model_info_set(object, "window_layer_begin", config->window_layer_begin);
    json_object_set_new(object, "logn", json_boolean(config->logn));
    json_object_set_new(object, "tied_head", json_boolean(config->tied_head));
    json_object_set_new(object, "experts", model_info_experts_json(config));
    json_object_set_new(object, "quantization", model_info_quant_json(config));
    model_info_set(object, "parameters", sums->n_weights);
    model_info_set(object, "tensors", sums->n_tensors);
    model_info_set(object, "bytes", sums->n_bytes);
    json_object_set_new(object, "formats", formats);
    json_object_set_new(object, "tokenizer", json_string(model->tokenizer->kind->name));
    model_info_set(object, "tokens", tokenizer_n_tokens(model->tokenizer));
    json_object_set_new(object, "template", template ? json_string(template) : json_null());
    json_object_set_new(object, "tool_format", format ? json_string(format->name) : json_null());
    json_object_set_new(object, "bos_id", model_info_id_or_null(config->bos_id));
    json_object_set_new(object, "eos_id", model_info_id_or_null(config->eos_id));
    json_object_set_new(object, "stop_ids", stops);
    json_object_set_new(object, "sampling", model_info_generation_json(&model->generation));
    model_info_set(object, "kv_bytes_per_token", model_info_kv_bytes(config));
    return object;
}

void model_info_print(const struct model *model, bool json, FILE *out) {
    struct model_info_sums sums = model_info_add_up(model);
    if (!json) {
        model_info_print_text(model, &sums, out);
        return;
    }
    json_t *object = model_info_build_json(model, &sums);
    json_dumpf(object, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(object);
}
