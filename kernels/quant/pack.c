#include "kernels/quant/pack.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

static bool quant_pack_is_float(enum weight_format format) {
    return format != WEIGHT_I4G && format != WEIGHT_I8G;
}

/* Integers are stored in the groups of 32 of their tensor: from the one that the cut begins in. */
static uint32_t quant_pack_stored_begin(uint32_t k_begin) {
    return k_begin - k_begin % GROUP;
}

static uint32_t quant_pack_stored_inputs(const struct weight_source *source) {
    return order_filled(source->k_begin % GROUP + source->k);
}

/* Neighbouring stored inputs that share a scale, every so many from the first on. */
static uint32_t quant_pack_stride_of(const struct weight_source *source,
                                     const struct quant_format *format,
                                     const struct weight_tensor *tensor) {
    uint32_t group = format->group ? format->group : tensor->group;
    if (format->group == GROUP / 2) /* each half keeps its own, whatever the cut leaves of it */
        return format->group;
    if (source->k_begin / group == (source->k_begin + source->k - 1) / group)
        return quant_pack_stored_inputs(source);
    return order_divisor(group, quant_pack_stored_begin(source->k_begin));
}

/* What one part needs to be kept exactly. */
static struct weight quant_pack_form_of(const struct weight_source *source,
                                        const struct quant_format *format,
                                        const struct weight_tensor *tensor) {
    struct weight form = {.format = format->packed};
    if (quant_pack_is_float(format->packed))
        return form;
    form.group = quant_pack_stride_of(source, format, tensor);
    form.wide = format->wide;
    form.zeros = format->zeros;
    form.fine = format->fine || format->packed == WEIGHT_I8G;
    form.has_min = format->has_min && (!format->needs_min || format->needs_min(tensor));
    return form;
}

/* Widens `form` until it also keeps `other` exactly; false when there is no such form. */
static bool quant_pack_merge(struct weight *form, const struct weight *other) {
    if (quant_pack_is_float(form->format) && quant_pack_is_float(other->format)) {
        form->format = form->format == other->format ? form->format : WEIGHT_F32;
        return true;
    }
    if (form->format != other->format)
        return false;
    form->group = order_divisor(form->group, other->group);
    form->wide |= other->wide;
    form->zeros &= other->zeros;
    form->has_min |= other->has_min;
    form->fine |= other->fine;
    return form->group >= GROUP || !form->has_min; /* Q6_K's scales per 16 have no minima */
}

static enum status quant_pack_check_inputs(const struct weight_source *source,
                                           const struct weight_tensor *tensor,
                                           struct error *error) {
    if (source->k == 0 || source->k > PACK_INPUTS_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "a matrix has %u inputs; 1 to %u are possible",
                         source->k, PACK_INPUTS_MAX);
    if (!checked_range(source->k_begin, source->k, tensor->k))
        return error_set(error, STATUS_INVALID, "inputs %u to %llu of a tensor of %u",
                         source->k_begin, (unsigned long long)source->k_begin + source->k,
                         tensor->k);
    return STATUS_OK;
}

static bool quant_pack_has_order(const struct quant_format *format,
                                 const struct weight_tensor *tensor) {
    return format->takes_order && !order_is_plain(tensor);
}

/* One part on its own, and beside the first. */
static enum status quant_pack_check_part(const struct weight_source *source, uint32_t index,
                                         const struct quant_format **format, struct error *error) {
    const struct weight_part *part = &source->parts[index];
    const struct weight_tensor *first = source->parts[0].tensor;
    TRY(quant_check(part->tensor, format, error));
    TRY(quant_pack_check_inputs(source, part->tensor, error));
    if (!checked_range(part->row_begin, part->n_rows, part->tensor->n))
        return error_set(error, STATUS_INVALID, "weight part %u: rows %u to %llu of a tensor of %u",
                         index, part->row_begin, (unsigned long long)part->row_begin + part->n_rows,
                         part->tensor->n);
    if (index == 0 || part->tensor == first)
        return STATUS_OK;
    bool ordered = quant_pack_has_order(*format, part->tensor);
    if (ordered != quant_pack_has_order(quant_find(first->format), first) ||
        (ordered && !order_is_same(part->tensor, first)))
        return error_set(error, STATUS_UNSUPPORTED,
                         "act-order differs: parts 0 and %u sort their inputs in other ways",
                         index);
    return STATUS_OK;
}

static enum status quant_pack_plan_form(struct pack_plan *plan, const struct weight_source *source,
                                        struct error *error) {
    if (source->n_parts == 0)
        return error_set(error, STATUS_INVALID, "a matrix needs at least one part");
    uint64_t n = 0;
    for (uint32_t i = 0; i < source->n_parts; i++) {
        const struct weight_part *part = &source->parts[i];
        const struct quant_format *format;
        TRY(quant_pack_check_part(source, i, &format, error));
        n += part->n_rows;
        if (n > PACK_ROWS_MAX)
            return error_set(error, STATUS_LIMIT, "a matrix has more than %u rows", PACK_ROWS_MAX);
        struct weight form = quant_pack_form_of(source, format, part->tensor);
        if (i == 0)
            plan->shape = form;
        if (!quant_pack_merge(&plan->shape, &form))
            return error_set(error, STATUS_UNSUPPORTED,
                             "parts of formats %s and %s cannot be merged into one matrix",
                             source->parts[0].tensor->format, part->tensor->format);
    }
    if (n == 0)
        return error_set(error, STATUS_INVALID, "a matrix has no rows");
    if (quant_pack_is_float(plan->shape.format) && source->exact)
        plan->shape.format = WEIGHT_F32;
    plan->shape.n = (uint32_t)n;
    plan->shape.k = plan->shape.k_stored = source->k;
    plan->k_begin = source->k_begin;
    if (!quant_pack_is_float(plan->shape.format))
        plan->shape.k_stored = quant_pack_stored_inputs(source);
    else if (plan->shape.format == WEIGHT_BF16)
        plan->shape.k_stored = order_filled(source->k);
    return STATUS_OK;
}

static enum status quant_pack_plan_order(struct pack_plan *plan, const struct weight_source *source,
                                         struct error *error) {
    const struct weight_tensor *tensor = source->parts[0].tensor;
    if (quant_pack_has_order(quant_find(tensor->format), tensor))
        TRY(order_init(&plan->order, tensor, source->k_begin, source->k, PACK_INPUTS_MAX, error));
    else if (!quant_pack_is_float(plan->shape.format) && plan->shape.k_stored != source->k)
        TRY(order_fill(&plan->order, source->k_begin, source->k, plan->shape.group, error));
    else
        return STATUS_OK;
    plan->shape.k_stored = plan->order.k_stored;
    plan->shape.group = plan->order.group;
    return STATUS_OK;
}

static enum status quant_pack_plan_rows(struct pack_plan *plan, const struct weight_source *source,
                                        struct error *error) {
    plan->rows = calloc(plan->shape.n, sizeof *plan->rows);
    if (!plan->rows)
        return error_set(error, STATUS_NOMEM, "no memory for a list of %u rows", plan->shape.n);
    for (uint32_t i = 0; i < source->n_parts; i++) {
        const struct weight_part *part = &source->parts[i];
        const struct quant_format *format = quant_find(part->tensor->format);
        for (uint32_t j = 0; j < part->n_rows; j++) {
            uint64_t to = part->out_begin + (uint64_t)j * part->out_step;
            if (to >= plan->shape.n || plan->rows[to].tensor)
                return error_set(
                    error, STATUS_INVALID, "weight part %u: its row %u becomes row %llu of %u, %s",
                    i, j, (unsigned long long)to, plan->shape.n,
                    to >= plan->shape.n ? "which is past the end" : "which was there before");
            plan->rows[to] = (struct pack_row){part->tensor, format, part->row_begin + j};
        }
    }
    return STATUS_OK; /* as many rows as places, none twice: all are filled */
}

enum status pack_plan_init(struct pack_plan *plan, const struct weight_source *source,
                           struct error *error) {
    struct pack_plan made = {0};
    enum status status = quant_pack_plan_form(&made, source, error);
    if (status == STATUS_OK)
        status = quant_pack_plan_order(&made, source, error);
    if (status == STATUS_OK)
        status = quant_pack_plan_rows(&made, source, error);
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
    order_fini(&plan->order);
}

void pack_group(const struct pack_plan *plan, uint32_t n, uint32_t g, struct quant_group *group) {
    const struct pack_row *row = &plan->rows[n];
    uint32_t inputs[GROUP];
    if (!plan->order.is_sorted) { /* what stands where no input is is never multiplied but by 0 */
        uint32_t begin = quant_pack_stored_begin(plan->k_begin) + g * GROUP;
        row->format->unpack_group(row->tensor, row->row, begin, NULL, group);
        return;
    }
    for (uint32_t i = 0; i < GROUP; i++) {
        uint32_t input = plan->order.inputs[g * GROUP + i];
        inputs[i] = input == WEIGHT_NO_INPUT ? input : plan->k_begin + input;
    }
    row->format->unpack_group(row->tensor, row->row, 0, inputs, group);
}

void pack_floats(const struct pack_plan *plan, uint32_t n, uint32_t g, float out[GROUP]) {
    const struct pack_row *row = &plan->rows[n];
    uint32_t n_left = plan->shape.k - g * GROUP;
    memset(out, 0, GROUP * sizeof *out);
    row->format->unpack_floats(row->tensor, row->row, plan->k_begin + g * GROUP,
                               n_left < GROUP ? n_left : GROUP, out);
}
