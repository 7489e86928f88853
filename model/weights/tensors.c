/* Tensors of a model by name and shape, and the linear layers that they make up (layouts: AutoAWQ's
 * gemm.py and packing_utils.py; AutoGPTQ's and GPTQModel's qlinear modules). */
#include "model/weights/tensors.h"

#include "base/arena.h"
#include "base/random.h"
#include "base/span.h"
#include "model/weights/checkpoint/checkpoint.h"
#include "model/weights/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS_BYTES_MAX ((size_t)1 << 30)
#define ORDERS_LISTS     2048u /* a model has an order or more for each layer */

/* What was found out about a g_idx: ranks ask for each layer, and each several times. */
struct tensors_order {
    const struct tensor *tensor;
    const int32_t *group_of; /* NULL: i / group */
    struct tensors_order *next;
};

struct tensors_orders {
    struct arena arena;
    struct tensors_order *lists[ORDERS_LISTS]; /* in the arena: act-orders by their tensor */
};

enum status tensors_init(struct tensors *tensors, const struct model_config *config) {
    struct tensors_orders *orders = calloc(1, sizeof *orders);
    if (!orders)
        return STATUS_NOMEM;
    arena_init(&orders->arena, ORDERS_BYTES_MAX);
    *tensors = (struct tensors){.config = config, .orders = orders};
    return STATUS_OK;
}

void tensors_fini(struct tensors *tensors) {
    if (tensors->checkpoint)
        tensors->checkpoint->kind->close(tensors->checkpoint);
    if (tensors->orders)
        arena_fini(&tensors->orders->arena);
    free(tensors->orders);
}

bool tensors_are_dummy(const struct tensors *tensors) {
    return tensors->checkpoint && tensors->checkpoint->kind->make;
}

const struct tensor *tensors_find(const struct tensors *tensors, const char *name) {
    const struct checkpoint *checkpoint = tensors->checkpoint;
    return checkpoint ? checkpoint->kind->find(checkpoint, name) : NULL;
}

const struct tensor *tensors_nth(const struct tensors *tensors, uint32_t n) {
    const struct checkpoint *checkpoint = tensors->checkpoint;
    return checkpoint ? checkpoint->kind->nth(checkpoint, n) : NULL;
}

/* "(64, 32)" */
static const char *tensors_show_shape(char *text, size_t size, const uint64_t *shape,
                                      uint32_t n_dims) {
    int n = snprintf(text, size, "(");
    for (uint32_t i = 0; i < n_dims && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ")");
    return text;
}

static bool tensors_is_weight_format(const struct tensors *tensors, const char *format) {
    return tensors->any_format || strcmp(format, "f32") == 0 || strcmp(format, "f16") == 0 ||
           strcmp(format, "bf16") == 0;
}

/* As the files spell it. */
static const char *tensors_show_dtype(char text[16], const char *format) {
    size_t n = 0;
    for (; format[n] && n < 15; n++)
        text[n] = (char)(format[n] >= 'a' && format[n] <= 'z' ? format[n] - 'a' + 'A' : format[n]);
    text[n] = 0;
    return text;
}

static enum status tensors_check_format(const struct tensors *tensors,
                                        const struct checkpoint_want *want,
                                        const struct tensor *tensor, struct error *error) {
    if (want->format ? strcmp(tensor->format, want->format) == 0
                     : tensors_is_weight_format(tensors, tensor->format))
        return STATUS_OK;
    char is[16];
    char wanted[16];
    return error_field(error, STATUS_UNSUPPORTED, want->name, "%s: tensor %s has dtype %s, not %s",
                       tensors->config->name, want->name, tensors_show_dtype(is, tensor->format),
                       want->format ? tensors_show_dtype(wanted, want->format)
                                    : "F32, F16 or BF16");
}

static enum status tensors_get_one(const struct tensors *tensors,
                                   const struct checkpoint_want *want, const struct tensor **tensor,
                                   struct error *error) {
    const struct tensor *found = tensors_find(tensors, want->name);
    if (!found && tensors_are_dummy(tensors))
        return tensors->checkpoint->kind->make(tensors->checkpoint, want, tensor, error);
    if (!found)
        return error_field(error, STATUS_NOT_FOUND, want->name, "%s: tensor %s is missing",
                           tensors->config->name, want->name);
    if (found->n_dims != want->n_dims ||
        memcmp(found->shape, want->shape, sizeof found->shape) != 0) {
        char is[96];
        char wanted[96];
        return error_field(error, STATUS_CORRUPT, want->name, "%s: tensor %s is %s, not %s",
                           tensors->config->name, want->name,
                           tensors_show_shape(is, sizeof is, found->shape, found->n_dims),
                           tensors_show_shape(wanted, sizeof wanted, want->shape, want->n_dims));
    }
    TRY(tensors_check_format(tensors, want, found, error));
    *tensor = found;
    return STATUS_OK;
}

static struct checkpoint_want tensors_want_of(const char *name, const char *format, uint64_t n_rows,
                                              uint64_t n_columns) {
    struct checkpoint_want want = {
        .name = name, .format = format, .n_dims = n_rows == 0 ? 1 : 2, .shape = {1, 1, 1, 1}};
    want.shape[0] = n_rows == 0 ? n_columns : n_rows;
    want.shape[1] = n_rows == 0 ? 1 : n_columns;
    return want;
}

enum status tensors_get(const struct tensors *tensors, const char *name, uint64_t n_rows,
                        uint64_t n_columns, const struct tensor **tensor, struct error *error) {
    struct checkpoint_want want = tensors_want_of(name, NULL, n_rows, n_columns);
    return tensors_get_one(tensors, &want, tensor, error);
}

/* A layer that is being put together. */
struct layer {
    const struct tensors *tensors;
    const char *stem;
    uint32_t n;
    uint32_t k;
    struct error *error;
    char name[TENSOR_NAME_MAX + 16];
};

static const char *tensors_part_name(struct layer *layer, const char *suffix) {
    snprintf(layer->name, sizeof layer->name, "%s.%s", layer->stem, suffix);
    return layer->name;
}

static enum status tensors_get_part(struct layer *layer, const char *suffix, const char *format,
                                    uint64_t n_rows, uint64_t n_columns,
                                    const struct tensor **tensor) {
    struct checkpoint_want want =
        tensors_want_of(tensors_part_name(layer, suffix), format, n_rows, n_columns);
    return tensors_get_one(layer->tensors, &want, tensor, layer->error);
}

static enum status tensors_uneven(struct layer *layer, const char *what, uint32_t size,
                                  uint32_t unit) {
    return error_field(layer->error, STATUS_CORRUPT, layer->stem,
                       "%s: layer %s has %u %s, no multiple of %u as its quantization needs",
                       layer->tensors->config->name, layer->stem, size, what, unit);
}

/* Some quantizers leave them in bfloat16 or float32. */
static enum status tensors_get_scales(struct layer *layer, uint32_t n_groups,
                                      const struct tensor **scales) {
    const char *format = tensors_are_dummy(layer->tensors) ? "f16" : NULL;
    return tensors_get_part(layer, "scales", format, n_groups, layer->n, scales);
}

static enum status tensors_get_awq(struct layer *layer, struct tensor_matrix *matrix) {
    uint32_t group = layer->tensors->config->quant.group;
    matrix->format = "awq";
    matrix->group = group ? group : layer->k;
    if (layer->n % 8 != 0)
        return tensors_uneven(layer, "outputs", layer->n, 8);
    if (layer->k % matrix->group != 0)
        return tensors_uneven(layer, "inputs", layer->k, matrix->group);
    uint32_t n_groups = layer->k / matrix->group;
    TRY(tensors_get_part(layer, "qweight", "i32", layer->k, layer->n / 8, &matrix->values));
    TRY(tensors_get_part(layer, "qzeros", "i32", n_groups, layer->n / 8, &matrix->zeros));
    return tensors_get_scales(layer, n_groups, &matrix->scales);
}

/* Of 32 or 64 bits; -1: no group has that number. */
static int32_t tensors_item(const struct tensor *tensor, uint32_t i) {
    int32_t value;
    int64_t wide;
    if (strcmp(tensor->format, "i64") == 0) {
        memcpy(&wide, (const char *)tensor->data + (size_t)8 * i, sizeof wide);
        return wide >= 0 && wide <= INT32_MAX ? (int32_t)wide : -1;
    }
    memcpy(&value, (const char *)tensor->data + (size_t)4 * i, sizeof value);
    return value;
}

/* Its numbers, every one checked: a copy, since the file's own need not be aligned, nor stay. */
static enum status tensors_read_order(struct layer *layer, const struct tensor_matrix *matrix,
                                      uint32_t n_groups, struct tensors_order *order) {
    bool counts_up = true;
    bool all_zero = true;
    for (uint32_t i = 0; i < layer->k; i++) {
        int32_t group = tensors_item(order->tensor, i);
        counts_up = counts_up && group >= 0 && (uint32_t)group == i / matrix->group;
        all_zero = all_zero && group == 0;
    }
    if (counts_up || all_zero)
        return STATUS_OK;
    int32_t *copy = arena_alloc(&layer->tensors->orders->arena, (size_t)layer->k * sizeof *copy);
    if (!copy)
        return error_set(layer->error, STATUS_NOMEM, "%s: no memory for tensor %s",
                         layer->tensors->config->name, layer->name);
    for (uint32_t i = 0; i < layer->k; i++) {
        copy[i] = tensors_item(order->tensor, i);
        if (copy[i] < 0 || (uint32_t)copy[i] >= n_groups)
            return error_field(layer->error, STATUS_CORRUPT, layer->name,
                               "%s: tensor %s has group %d for input %u, but there are %u",
                               layer->tensors->config->name, layer->name, copy[i], i, n_groups);
    }
    order->group_of = copy;
    return STATUS_OK;
}

/* Which group each input belongs to, where that is not i / group. Writers that do not reorder leave
 * g_idx out, count it up, or leave it all zero. */
static enum status tensors_read_groups(struct layer *layer, struct tensor_matrix *matrix,
                                       uint32_t n_groups) {
    const struct tensors *tensors = layer->tensors;
    const struct tensor *tensor;
    const struct tensor *found = tensors_find(tensors, tensors_part_name(layer, "g_idx"));
    if (!found) {
        if (tensors->config->quant.act_order && !tensors_are_dummy(tensors))
            return error_field(layer->error, STATUS_NOT_FOUND, layer->name,
                               "%s: tensor %s is missing, which desc_act needs",
                               tensors->config->name, layer->name);
        return STATUS_OK;
    }
    bool is_wide = strcmp(found->format, "i64") == 0;
    TRY(tensors_get_part(layer, "g_idx", is_wide ? "i64" : "i32", 0, layer->k, &tensor));
    struct tensors_order **list = &tensors->orders->lists[mix64((uintptr_t)tensor) % ORDERS_LISTS];
    struct tensors_order *order = *list;
    while (order && order->tensor != tensor)
        order = order->next;
    if (!order) {
        order = arena_alloc(&tensors->orders->arena, sizeof *order);
        if (!order)
            return error_set(layer->error, STATUS_NOMEM, "%s: no memory for tensor %s",
                             tensors->config->name, layer->name);
        *order = (struct tensors_order){.tensor = tensor, .next = *list};
        TRY(tensors_read_order(layer, matrix, n_groups, order));
        *list = order;
    }
    matrix->group_of = order->group_of;
    return STATUS_OK;
}

static enum status tensors_get_gptq(struct layer *layer, struct tensor_matrix *matrix) {
    static const char *const formats[2][3] = {{"gptq4", "gptq4_v2", "gptq4_sym"},
                                              {"gptq8", "gptq8_v2", "gptq8_sym"}};
    const struct model_config *config = layer->tensors->config;
    uint32_t per_word = 32 / config->quant.bits;
    unsigned zeros = config->quant.symmetric ? 2 : config->quant.zero_as_is;
    matrix->format = formats[config->quant.bits == 8][zeros];
    matrix->group = config->quant.group ? config->quant.group : layer->k;
    if (layer->n % per_word != 0)
        return tensors_uneven(layer, "outputs", layer->n, per_word);
    if (layer->k % per_word != 0)
        return tensors_uneven(layer, "inputs", layer->k, per_word);
    uint32_t n_groups = (layer->k - 1) / matrix->group + 1;
    TRY(tensors_get_part(layer, "qweight", "i32", layer->k / per_word, layer->n, &matrix->values));
    TRY(tensors_get_part(layer, "qzeros", "i32", n_groups, layer->n / per_word, &matrix->zeros));
    TRY(tensors_get_scales(layer, n_groups, &matrix->scales));
    return tensors_read_groups(layer, matrix, n_groups);
}

/* Quantizers leave the embedding, the head and the routers of experts as they are. */
static bool tensors_is_left_plain(const char *stem) {
    static const char *const ends[] = {"embed_tokens", "wte",      "word_embeddings",   "lm_head",
                                       "output_layer", "mlp.gate", "shared_expert_gate"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (span_ends(span_of(stem), ends[i]))
            return true;
    return false;
}

/* The tensors decide, since quantizers may leave any layer out. */
static bool tensors_is_quantized(struct layer *layer) {
    const struct tensors *tensors = layer->tensors;
    if (tensors_are_dummy(tensors))
        return tensors->config->quant.method != CONFIG_METHOD_NONE &&
               !tensors_is_left_plain(layer->stem);
    return tensors_find(tensors, tensors_part_name(layer, "qweight")) != NULL;
}

static enum status tensors_check_sizes(const struct layer *layer, uint64_t n, uint64_t k) {
    if (n == 0 || k == 0 || n > INT32_MAX || k > INT32_MAX)
        return error_field(layer->error, STATUS_LIMIT, layer->stem,
                           "%s: layer %s of %" PRIu64 " outputs and %" PRIu64 " inputs",
                           layer->tensors->config->name, layer->stem, n, k);
    if (strlen(layer->stem) + sizeof ".qweight" > TENSOR_NAME_MAX)
        return error_field(layer->error, STATUS_LIMIT, layer->stem,
                           "%s: the name of layer %.128s is too long", layer->tensors->config->name,
                           layer->stem);
    return STATUS_OK;
}

enum status tensors_matrix(const struct tensors *tensors, const char *stem, uint64_t n, uint64_t k,
                           struct tensor_matrix *matrix, struct error *error) {
    struct layer layer = {
        .tensors = tensors, .stem = stem, .n = (uint32_t)n, .k = (uint32_t)k, .error = error};
    struct tensor_matrix made = {.n = layer.n, .k = layer.k};
    TRY(tensors_check_sizes(&layer, n, k));
    if (tensors_is_quantized(&layer)) {
        switch (tensors->config->quant.method) {
        case CONFIG_METHOD_AWQ:
            TRY(tensors_get_awq(&layer, &made));
            break;
        case CONFIG_METHOD_GPTQ:
            TRY(tensors_get_gptq(&layer, &made));
            break;
        case CONFIG_METHOD_NONE:
            return error_field(error, STATUS_CORRUPT, layer.name,
                               "%s: has tensor %s, but config.json has no quantization_config",
                               tensors->config->name, layer.name);
        }
    } else {
        TRY(tensors_get_part(&layer, "weight", NULL, n, k, &made.values));
        made.format = made.values->format;
    }
    *matrix = made;
    return STATUS_OK;
}
