/* Tensors of a model by name and shape, and the linear layers that they make up (layouts: AutoAWQ's
 * gemm.py and packing_utils.py; AutoGPTQ's and GPTQModel's qlinear modules). */
#include "model/model_parts.h"

#include "base/random.h"
#include "base/span.h"
#include "model/weights/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct tensor *model_find_tensor(const struct model *model, const char *name) {
    const struct checkpoint *checkpoint = model->checkpoint;
    return checkpoint ? checkpoint->kind->find(checkpoint, name) : NULL;
}

const struct tensor *model_nth_tensor(const struct model *model, uint32_t n) {
    const struct checkpoint *checkpoint = model->checkpoint;
    return checkpoint ? checkpoint->kind->nth(checkpoint, n) : NULL;
}

static bool is_dummy(const struct model *model) {
    return model->checkpoint && model->checkpoint->kind->make;
}

/* "(64, 32)" */
static const char *show_shape(char *text, size_t size, const uint64_t *shape, uint32_t n_dims) {
    int n = snprintf(text, size, "(");
    for (uint32_t i = 0; i < n_dims && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ")");
    return text;
}

static bool is_weight_format(const struct model *model, const char *format) {
    return model->gguf || strcmp(format, "f32") == 0 || strcmp(format, "f16") == 0 ||
           strcmp(format, "bf16") == 0;
}

/* As the files spell it. */
static const char *show_dtype(char text[16], const char *format) {
    size_t n = 0;
    for (; format[n] && n < 15; n++)
        text[n] = (char)(format[n] >= 'a' && format[n] <= 'z' ? format[n] - 'a' + 'A' : format[n]);
    text[n] = 0;
    return text;
}

static enum status check_format(const struct model *model, const struct checkpoint_want *want,
                                const struct tensor *tensor, struct error *error) {
    if (want->format ? strcmp(tensor->format, want->format) == 0
                     : is_weight_format(model, tensor->format))
        return STATUS_OK;
    char is[16];
    char wanted[16];
    return error_field(error, STATUS_UNSUPPORTED, want->name, "%s: tensor %s has dtype %s, not %s",
                       model->config.name, want->name, show_dtype(is, tensor->format),
                       want->format ? show_dtype(wanted, want->format) : "F32, F16 or BF16");
}

static enum status get(const struct model *model, const struct checkpoint_want *want,
                       const struct tensor **tensor, struct error *error) {
    const struct tensor *found = model_find_tensor(model, want->name);
    if (!found && is_dummy(model))
        return model->checkpoint->kind->make(model->checkpoint, want, tensor, error);
    if (!found)
        return error_field(error, STATUS_NOT_FOUND, want->name, "%s: tensor %s is missing",
                           model->config.name, want->name);
    if (found->n_dims != want->n_dims ||
        memcmp(found->shape, want->shape, sizeof found->shape) != 0) {
        char is[96];
        char wanted[96];
        return error_field(error, STATUS_CORRUPT, want->name, "%s: tensor %s is %s, not %s",
                           model->config.name, want->name,
                           show_shape(is, sizeof is, found->shape, found->n_dims),
                           show_shape(wanted, sizeof wanted, want->shape, want->n_dims));
    }
    TRY(check_format(model, want, found, error));
    *tensor = found;
    return STATUS_OK;
}

static struct checkpoint_want want_of(const char *name, const char *format, uint64_t n_rows,
                                      uint64_t n_columns) {
    struct checkpoint_want want = {
        .name = name, .format = format, .n_dims = n_rows == 0 ? 1 : 2, .shape = {1, 1, 1, 1}};
    want.shape[0] = n_rows == 0 ? n_columns : n_rows;
    want.shape[1] = n_rows == 0 ? 1 : n_columns;
    return want;
}

enum status model_tensor(const struct model *model, const char *name, uint64_t n_rows,
                         uint64_t n_columns, const struct tensor **tensor, struct error *error) {
    struct checkpoint_want want = want_of(name, NULL, n_rows, n_columns);
    return get(model, &want, tensor, error);
}

/* A layer that is being put together. */
struct layer {
    const struct model *model;
    const char *stem;
    uint32_t n;
    uint32_t k;
    struct error *error;
    char name[TENSOR_NAME_MAX + 16];
};

static const char *part_name(struct layer *layer, const char *suffix) {
    snprintf(layer->name, sizeof layer->name, "%s.%s", layer->stem, suffix);
    return layer->name;
}

static enum status get_part(struct layer *layer, const char *suffix, const char *format,
                            uint64_t n_rows, uint64_t n_columns, const struct tensor **tensor) {
    struct checkpoint_want want = want_of(part_name(layer, suffix), format, n_rows, n_columns);
    return get(layer->model, &want, tensor, layer->error);
}

static enum status uneven(struct layer *layer, const char *what, uint32_t size, uint32_t unit) {
    return error_field(layer->error, STATUS_CORRUPT, layer->stem,
                       "%s: layer %s has %u %s, no multiple of %u as its quantization needs",
                       layer->model->config.name, layer->stem, size, what, unit);
}

static enum status get_awq(struct layer *layer, struct model_matrix *matrix) {
    uint32_t group = layer->model->config.quant.group;
    matrix->format = "awq";
    matrix->group = group ? group : layer->k;
    if (layer->n % 8 != 0)
        return uneven(layer, "outputs", layer->n, 8);
    if (layer->k % matrix->group != 0)
        return uneven(layer, "inputs", layer->k, matrix->group);
    uint32_t n_groups = layer->k / matrix->group;
    TRY(get_part(layer, "qweight", "i32", layer->k, layer->n / 8, &matrix->values));
    TRY(get_part(layer, "qzeros", "i32", n_groups, layer->n / 8, &matrix->zeros));
    return get_part(layer, "scales", "f16", n_groups, layer->n, &matrix->scales);
}

static int32_t item(const struct tensor *tensor, uint32_t i) {
    int32_t value;
    memcpy(&value, (const char *)tensor->data + (size_t)4 * i, sizeof value);
    return value;
}

/* What was found out about a g_idx: ranks ask for each layer, and each several times. */
struct model_order {
    const struct tensor *tensor;
    const int32_t *group_of; /* NULL: i / group */
    struct model_order *next;
};

/* Its numbers, every one checked: a copy, since the file's own need not be aligned, nor stay. */
static enum status read_order(struct layer *layer, const struct model_matrix *matrix,
                              uint32_t n_groups, struct model_order *order) {
    bool counts_up = true;
    bool all_zero = true;
    for (uint32_t i = 0; i < layer->k; i++) {
        int32_t group = item(order->tensor, i);
        counts_up = counts_up && group >= 0 && (uint32_t)group == i / matrix->group;
        all_zero = all_zero && group == 0;
    }
    if (counts_up || all_zero)
        return STATUS_OK;
    int32_t *copy = arena_alloc(&layer->model->extras->arena, (size_t)layer->k * sizeof *copy);
    if (!copy)
        return error_set(layer->error, STATUS_NOMEM, "%s: no memory for tensor %s",
                         layer->model->config.name, layer->name);
    memcpy(copy, order->tensor->data, (size_t)layer->k * sizeof *copy);
    for (uint32_t i = 0; i < layer->k; i++)
        if (copy[i] < 0 || (uint32_t)copy[i] >= n_groups)
            return error_field(layer->error, STATUS_CORRUPT, layer->name,
                               "%s: tensor %s has group %d for input %u, but there are %u",
                               layer->model->config.name, layer->name, copy[i], i, n_groups);
    order->group_of = copy;
    return STATUS_OK;
}

/* Which group each input belongs to, where that is not i / group. Writers that do not reorder leave
 * g_idx out, count it up, or leave it all zero. */
static enum status read_groups(struct layer *layer, struct model_matrix *matrix,
                               uint32_t n_groups) {
    const struct model *model = layer->model;
    const struct tensor *tensor;
    if (!model_find_tensor(model, part_name(layer, "g_idx"))) {
        if (model->config.quant.act_order && !is_dummy(model))
            return error_field(layer->error, STATUS_NOT_FOUND, layer->name,
                               "%s: tensor %s is missing, which desc_act needs", model->config.name,
                               layer->name);
        return STATUS_OK;
    }
    TRY(get_part(layer, "g_idx", "i32", 0, layer->k, &tensor));
    struct model_order **list = &model->extras->orders[mix64((uintptr_t)tensor) % MODEL_ORDERS];
    struct model_order *order = *list;
    while (order && order->tensor != tensor)
        order = order->next;
    if (!order) {
        order = arena_alloc(&model->extras->arena, sizeof *order);
        if (!order)
            return error_set(layer->error, STATUS_NOMEM, "%s: no memory for tensor %s",
                             model->config.name, layer->name);
        *order = (struct model_order){.tensor = tensor, .next = *list};
        TRY(read_order(layer, matrix, n_groups, order));
        *list = order;
    }
    matrix->group_of = order->group_of;
    return STATUS_OK;
}

static enum status get_gptq(struct layer *layer, struct model_matrix *matrix) {
    static const char *const formats[2][2] = {{"gptq4", "gptq4_v2"}, {"gptq8", "gptq8_v2"}};
    const struct model_config *config = &layer->model->config;
    uint32_t per_word = 32 / config->quant.bits;
    matrix->format = formats[config->quant.bits == 8][config->quant.zero_as_is];
    matrix->group = config->quant.group ? config->quant.group : layer->k;
    if (layer->n % per_word != 0)
        return uneven(layer, "outputs", layer->n, per_word);
    if (layer->k % per_word != 0)
        return uneven(layer, "inputs", layer->k, per_word);
    uint32_t n_groups = (layer->k - 1) / matrix->group + 1;
    TRY(get_part(layer, "qweight", "i32", layer->k / per_word, layer->n, &matrix->values));
    TRY(get_part(layer, "qzeros", "i32", n_groups, layer->n / per_word, &matrix->zeros));
    TRY(get_part(layer, "scales", "f16", n_groups, layer->n, &matrix->scales));
    return read_groups(layer, matrix, n_groups);
}

/* Quantizers leave the embedding, the head and the routers of experts as they are. */
static bool is_left_plain(const char *stem) {
    static const char *const ends[] = {"embed_tokens", "wte",      "word_embeddings",   "lm_head",
                                       "output_layer", "mlp.gate", "shared_expert_gate"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (span_ends(span_of(stem), ends[i]))
            return true;
    return false;
}

/* The tensors decide, since quantizers may leave any layer out. */
static bool is_quantized(struct layer *layer) {
    const struct model *model = layer->model;
    if (is_dummy(model))
        return model->config.quant.method != CONFIG_METHOD_NONE && !is_left_plain(layer->stem);
    return model_find_tensor(model, part_name(layer, "qweight")) != NULL;
}

static enum status check_sizes(const struct layer *layer, uint64_t n, uint64_t k) {
    if (n == 0 || k == 0 || n > INT32_MAX || k > INT32_MAX)
        return error_field(layer->error, STATUS_LIMIT, layer->stem,
                           "%s: layer %s of %" PRIu64 " outputs and %" PRIu64 " inputs",
                           layer->model->config.name, layer->stem, n, k);
    if (strlen(layer->stem) + sizeof ".qweight" > TENSOR_NAME_MAX)
        return error_field(layer->error, STATUS_LIMIT, layer->stem,
                           "%s: the name of layer %.128s is too long", layer->model->config.name,
                           layer->stem);
    return STATUS_OK;
}

enum status model_matrix(const struct model *model, const char *stem, uint64_t n, uint64_t k,
                         struct model_matrix *matrix, struct error *error) {
    struct layer layer = {
        .model = model, .stem = stem, .n = (uint32_t)n, .k = (uint32_t)k, .error = error};
    struct model_matrix made = {.n = layer.n, .k = layer.k};
    TRY(check_sizes(&layer, n, k));
    if (is_quantized(&layer)) {
        switch (model->config.quant.method) {
        case CONFIG_METHOD_AWQ:
            TRY(get_awq(&layer, &made));
            break;
        case CONFIG_METHOD_GPTQ:
            TRY(get_gptq(&layer, &made));
            break;
        case CONFIG_METHOD_NONE:
            return error_field(error, STATUS_CORRUPT, layer.name,
                               "%s: tensor %s is there, but config.json has no quantization_config",
                               model->config.name, layer.name);
        }
    } else {
        TRY(get_part(&layer, "weight", NULL, n, k, &made.values));
        made.format = made.values->format;
    }
    *matrix = made;
    return STATUS_OK;
}
