#include "kernels/pack.h"

#include "base/checked.h"

#include <stdlib.h>

static bool is_float(enum weight_format format) {
    return format != WEIGHT_I4G && format != WEIGHT_I8G;
}

/* Widens the plan's form until it also keeps this format exactly. */
static bool merge(struct weight *shape, const struct quant_format *format) {
    if (shape->format == format->packed)
        return true;
    if (!is_float(shape->format) || !is_float(format->packed))
        return false;
    shape->format = WEIGHT_F32;
    return true;
}

static enum status check_inputs(const struct weight_source *source,
                                const struct quant_format *format,
                                const struct weight_tensor *tensor, struct error *error) {
    if (source->k == 0 || source->k % GROUP != 0 || source->k_begin % GROUP != 0 ||
        source->k > PACK_INPUTS_MAX)
        return error_set(error, STATUS_UNSUPPORTED,
                         "a matrix has %u inputs from %u on; multiples of %d up to %u are needed",
                         source->k, source->k_begin, GROUP, PACK_INPUTS_MAX);
    if (!checked_range(source->k_begin, source->k, tensor->k))
        return error_set(error, STATUS_INVALID, "inputs %u to %llu of a tensor of %u",
                         source->k_begin, (unsigned long long)source->k_begin + source->k,
                         tensor->k);
    if (source->k_begin % format->block != 0 || source->k % format->block != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%u inputs from %u on cut a block of %u that %s cannot divide", source->k,
                         source->k_begin, format->block, tensor->format);
    return STATUS_OK;
}

/* The form of the matrix, and its rows counted. */
static enum status plan_shape(struct pack_plan *plan, const struct weight_source *source,
                              struct error *error) {
    if (source->n_parts == 0)
        return error_set(error, STATUS_INVALID, "a matrix needs at least one part");
    uint64_t n = 0;
    for (uint32_t i = 0; i < source->n_parts; i++) {
        const struct weight_part *part = &source->parts[i];
        const struct quant_format *format;
        TRY(quant_check(part->tensor, &format, error));
        TRY(check_inputs(source, format, part->tensor, error));
        if (!checked_range(part->row_begin, part->n_rows, part->tensor->n))
            return error_set(error, STATUS_INVALID,
                             "weight part %u: rows %u to %llu of a tensor of %u", i,
                             part->row_begin, (unsigned long long)part->row_begin + part->n_rows,
                             part->tensor->n);
        n += part->n_rows;
        if (n > PACK_ROWS_MAX)
            return error_set(error, STATUS_LIMIT, "a matrix has more than %u rows", PACK_ROWS_MAX);
        if (i == 0) {
            plan->shape.format = format->packed;
            plan->shape.group = format->group;
            plan->shape.has_min = format->has_min;
        }
        if (!merge(&plan->shape, format))
            return error_set(error, STATUS_UNSUPPORTED,
                             "parts of formats %s and %s cannot be merged into one matrix",
                             source->parts[0].tensor->format, part->tensor->format);
    }
    if (n == 0)
        return error_set(error, STATUS_INVALID, "a matrix has no rows");
    if (source->exact && is_float(plan->shape.format))
        plan->shape.format = WEIGHT_F32;
    plan->shape.n = (uint32_t)n;
    plan->shape.k = plan->shape.k_stored = source->k;
    plan->k_begin = source->k_begin;
    return STATUS_OK;
}

static enum status plan_rows(struct pack_plan *plan, const struct weight_source *source,
                             struct error *error) {
    plan->rows = calloc(plan->shape.n, sizeof *plan->rows);
    if (!plan->rows)
        return error_set(error, STATUS_NOMEM, "no memory for a list of %u rows", plan->shape.n);
    for (uint32_t i = 0; i < source->n_parts; i++) {
        const struct weight_part *part = &source->parts[i];
        for (uint32_t j = 0; j < part->n_rows; j++) {
            uint64_t to = part->out_begin + (uint64_t)j * part->out_step;
            if (to >= plan->shape.n || plan->rows[to].tensor)
                return error_set(
                    error, STATUS_INVALID, "weight part %u: its row %u becomes row %llu of %u, %s",
                    i, j, (unsigned long long)to, plan->shape.n,
                    to >= plan->shape.n ? "which is past the end" : "which was there before");
            plan->rows[to] = (struct pack_row){part->tensor, quant_find(part->tensor->format),
                                               part->row_begin + j};
        }
    }
    return STATUS_OK; /* as many rows as places, none twice: all are filled */
}

enum status pack_plan_init(struct pack_plan *plan, const struct weight_source *source,
                           struct error *error) {
    struct pack_plan made = {0};
    enum status status = plan_shape(&made, source, error);
    if (status == STATUS_OK)
        status = plan_rows(&made, source, error);
    if (status != STATUS_OK) {
        pack_plan_fini(&made);
        return status;
    }
    *plan = made;
    return STATUS_OK;
}

void pack_plan_fini(struct pack_plan *plan) {
    free(plan->rows);
    plan->rows = NULL;
}

void pack_group(const struct pack_plan *plan, uint32_t n, uint32_t g, struct quant_group *group) {
    const struct pack_row *row = &plan->rows[n];
    row->format->unpack_group(row->tensor, row->row, plan->k_begin + g * GROUP, NULL, group);
}

void pack_floats(const struct pack_plan *plan, uint32_t n, uint32_t g, float out[GROUP]) {
    const struct pack_row *row = &plan->rows[n];
    row->format->unpack_floats(row->tensor, row->row, plan->k_begin + g * GROUP, out);
}
