#include "worker/family/slots.h"

#include "kernels/quant/quant.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_ARENA_BYTES (256u << 20)

void slots_init(struct slots *slots) {
    memset(slots, 0, sizeof *slots);
    arena_init(&slots->arena, SLOTS_ARENA_BYTES);
}

void slots_fini(struct slots *slots) {
    free(slots->slots);
    arena_fini(&slots->arena);
    memset(slots, 0, sizeof *slots);
}

static enum status slots_no_memory(struct error *error) {
    return error_set(error, STATUS_NOMEM, "no memory for the list of tensors");
}

static enum status slots_add(struct slots *slots, const char *name, struct slot **slot,
                             struct error *error) {
    if (slots->n == SLOTS_MAX)
        return error_set(error, STATUS_LIMIT, "the model has more than %u tensors", SLOTS_MAX);
    if (slots->n == slots->size) {
        uint32_t size = slots->size ? 2 * slots->size : 64;
        struct slot *grown = realloc(slots->slots, size * sizeof *grown);
        if (!grown)
            return slots_no_memory(error);
        slots->slots = grown;
        slots->size = size;
    }
    char *copy = arena_copy(&slots->arena, name, strlen(name));
    if (!copy)
        return slots_no_memory(error);
    *slot = &slots->slots[slots->n++];
    **slot = (struct slot){.name = copy};
    return STATUS_OK;
}

static struct weight_tensor slots_tensor_of(const struct tensor_matrix *matrix) {
    const struct tensor *scales = matrix->scales, *zeros = matrix->zeros;
    return (struct weight_tensor){
        .format = matrix->format,
        .n = matrix->n,
        .k = matrix->k,
        .group = matrix->group,
        .values = matrix->values->data,
        .n_value_bytes = (size_t)matrix->values->n_bytes,
        .scales = scales ? scales->data : NULL,
        .n_scale_bytes = scales ? (size_t)scales->n_bytes : 0,
        .scale_kind = quant_scale_kind(scales ? scales->format : NULL),
        .zeros = zeros ? zeros->data : NULL,
        .n_zero_bytes = zeros ? (size_t)zeros->n_bytes : 0,
        .group_of = matrix->group_of,
    };
}

enum status slots_matrix(struct slots *slots, const struct model *model, struct weight *weight,
                         const struct slot_rows *rows, uint32_t n_parts,
                         const struct slot_inputs *inputs, bool exact, struct error *error) {
    struct slot *slot;
    TRY(slots_add(slots, rows[0].stem, &slot, error));
    struct weight_part *parts = arena_alloc(&slots->arena, n_parts * sizeof *parts);
    struct weight_tensor *tensors = arena_alloc(&slots->arena, n_parts * sizeof *tensors);
    if (!parts || !tensors)
        return slots_no_memory(error);
    for (uint32_t i = 0; i < n_parts; i++) {
        struct tensor_matrix matrix;
        TRY(tensors_matrix(&model->tensors, rows[i].stem, rows[i].n_all, inputs->n_all, &matrix,
                           error));
        tensors[i] = slots_tensor_of(&matrix);
        parts[i] = (struct weight_part){.tensor = &tensors[i],
                                        .row_begin = rows[i].row_begin,
                                        .n_rows = rows[i].n_rows,
                                        .out_begin = rows[i].out_begin,
                                        .out_step = rows[i].out_step};
    }
    slot->kind = SLOT_MATRIX;
    slot->weight = weight;
    slot->source = (struct weight_source){.parts = parts,
                                          .n_parts = n_parts,
                                          .k_begin = inputs->begin,
                                          .k = inputs->n,
                                          .exact = exact};
    return STATUS_OK;
}

enum status slots_mergeable(const struct model *model, const struct slot_rows *rows,
                            uint32_t n_parts, uint32_t n_inputs, bool *mergeable,
                            struct error *error) {
    struct tensor_matrix first, other;
    *mergeable = true;
    TRY(tensors_matrix(&model->tensors, rows[0].stem, rows[0].n_all, n_inputs, &first, error));
    for (uint32_t i = 1; i < n_parts; i++) {
        TRY(tensors_matrix(&model->tensors, rows[i].stem, rows[i].n_all, n_inputs, &other, error));
        bool same = strcmp(first.format, other.format) == 0 && first.group == other.group &&
                    !first.group_of == !other.group_of;
        if (same && first.group_of)
            same = memcmp(first.group_of, other.group_of, n_inputs * sizeof *first.group_of) == 0;
        *mergeable = *mergeable && same;
    }
    return STATUS_OK;
}

static enum status slots_add_vector(struct slots *slots, const char *name, const float **vector,
                                    uint32_t n, uint32_t n_pieces, struct slot_piece **pieces,
                                    struct error *error) {
    struct slot *slot;
    TRY(slots_add(slots, name, &slot, error));
    *pieces = arena_alloc(&slots->arena, n_pieces * sizeof **pieces);
    if (!*pieces)
        return slots_no_memory(error);
    slot->kind = SLOT_VECTOR;
    slot->vector = vector;
    slot->n = n;
    slot->pieces = *pieces;
    slot->n_pieces = n_pieces;
    return STATUS_OK;
}

static struct slot_piece slots_piece_of(const struct tensor *tensor) {
    return (struct slot_piece){
        .format = tensor->format, .data = tensor->data, .n_bytes = (size_t)tensor->n_bytes};
}

enum status slots_vector(struct slots *slots, const struct model *model, const float **vector,
                         const char *name, uint32_t n, struct error *error) {
    struct slot_piece *pieces;
    const struct tensor *tensor;
    TRY(tensors_get(&model->tensors, name, 0, n, &tensor, error));
    TRY(slots_add_vector(slots, name, vector, n, 1, &pieces, error));
    pieces[0] = slots_piece_of(tensor);
    pieces[0].n = n;
    pieces[0].out_step = 1;
    return STATUS_OK;
}

enum status slots_bias(struct slots *slots, const struct model *model, const float **vector,
                       uint32_t n, const struct slot_rows *rows, uint32_t n_parts, bool required,
                       struct error *error) {
    struct slot_piece *pieces = NULL;
    char name[TENSOR_NAME_MAX + 1];
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct tensor *tensor;
        snprintf(name, sizeof name, "%s.bias", rows[i].stem);
        if (!required && !tensors_find(&model->tensors, name))
            continue;
        TRY(tensors_get(&model->tensors, name, 0, rows[i].n_all, &tensor, error));
        if (!pieces)
            TRY(slots_add_vector(slots, name, vector, n, n_parts, &pieces, error));
        pieces[i] = slots_piece_of(tensor);
        pieces[i].begin = rows[i].row_begin;
        pieces[i].n = rows[i].n_rows;
        pieces[i].out_begin = rows[i].out_begin;
        pieces[i].out_step = rows[i].out_step;
    }
    return STATUS_OK;
}
