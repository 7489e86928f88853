#include "worker/family/slots.h"

#include "model/model.h"

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

/* Adds a slot and its parts; their content is the caller's to write. */
static enum status add(struct slots *slots, const char *name, uint32_t n_parts, struct slot **slot,
                       struct weight_part **parts, struct error *error) {
    if (slots->n == SLOTS_MAX)
        return error_set(error, STATUS_LIMIT, "the model has more than %u tensors", SLOTS_MAX);
    if (slots->n == slots->size) {
        uint32_t size = slots->size ? 2 * slots->size : 64;
        struct slot *grown = realloc(slots->slots, size * sizeof *grown);
        if (!grown)
            return error_set(error, STATUS_NOMEM, "no memory for the list of tensors");
        slots->slots = grown;
        slots->size = size;
    }
    char *copy = arena_copy(&slots->arena, name, strlen(name));
    *parts = arena_alloc(&slots->arena, n_parts * sizeof **parts);
    if (!copy || !*parts)
        return error_set(error, STATUS_NOMEM, "no memory for the list of tensors");
    *slot = &slots->slots[slots->n++];
    **slot = (struct slot){.name = copy, .parts = *parts, .n_parts = n_parts};
    return STATUS_OK;
}

static struct weight_part part_of(const struct tensor *tensor, uint32_t row_begin,
                                  uint32_t n_rows) {
    return (struct weight_part){
        .format = tensor->format,
        .data = tensor->data,
        .n_bytes = (size_t)tensor->n_bytes,
        .k = (uint32_t)tensor->shape[tensor->n_dims - 1],
        .row_begin = row_begin,
        .n_rows = n_rows,
    };
}

enum status slots_matrix(struct slots *slots, const struct model *model, struct weight *weight,
                         const struct slot_tensor *tensors, uint32_t n_tensors, uint32_t k,
                         struct error *error) {
    struct slot *slot;
    struct weight_part *parts;
    TRY(add(slots, tensors[0].name, n_tensors, &slot, &parts, error));
    for (uint32_t i = 0; i < n_tensors; i++) {
        const struct tensor *tensor;
        TRY(model_tensor(model, tensors[i].name, tensors[i].n_rows, k, &tensor, error));
        parts[i] = part_of(tensor, 0, tensors[i].n_rows);
    }
    slot->kind = SLOT_MATRIX;
    slot->weight = weight;
    return STATUS_OK;
}

enum status slots_alternate(struct slots *slots, const struct model *model, struct weight *weight,
                            const char *even, const char *odd, uint32_t n_rows, uint32_t k,
                            struct error *error) {
    struct slot *slot;
    struct weight_part *parts;
    const struct tensor *evens, *odds;
    TRY(model_tensor(model, even, n_rows, k, &evens, error));
    TRY(model_tensor(model, odd, n_rows, k, &odds, error));
    /* A part takes rows of one tensor only, so each row is a part of its own. */
    TRY(add(slots, even, 2 * n_rows, &slot, &parts, error));
    for (uint32_t i = 0; i < n_rows; i++) {
        parts[2 * (size_t)i] = part_of(evens, i, 1);
        parts[2 * (size_t)i + 1] = part_of(odds, i, 1);
    }
    slot->kind = SLOT_MATRIX;
    slot->weight = weight;
    return STATUS_OK;
}

enum status slots_vector(struct slots *slots, const struct model *model, const float **vector,
                         const char *name, uint32_t n, struct error *error) {
    struct slot *slot;
    struct weight_part *parts;
    const struct tensor *tensor;
    TRY(model_tensor(model, name, 0, n, &tensor, error));
    TRY(add(slots, name, 1, &slot, &parts, error));
    parts[0] = part_of(tensor, 0, 1);
    slot->kind = SLOT_VECTOR;
    slot->vector = vector;
    slot->n = n;
    return STATUS_OK;
}
