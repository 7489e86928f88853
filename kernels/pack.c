#include "kernels/pack.h"

#include "base/checked.h"

#include <stdlib.h>

static bool is_float(enum weight_format format) {
    return format == WEIGHT_F32 || format == WEIGHT_F16 || format == WEIGHT_BF16;
}

static enum status check_order(const struct weight_part *part, uint32_t index, uint64_t n_total,
                               struct error *error) {
    if (!part->row_order) {
        if (!checked_range(part->row_begin, part->n_rows, n_total))
            return error_set(error, STATUS_INVALID,
                             "weight part %u: rows %u to %llu of a tensor of %llu", index,
                             part->row_begin, (unsigned long long)part->row_begin + part->n_rows,
                             (unsigned long long)n_total);
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < part->n_rows; i++)
        if ((uint64_t)part->row_begin + part->row_order[i] >= n_total)
            return error_set(error, STATUS_INVALID,
                             "weight part %u: its row order names row %llu of %llu", index,
                             (unsigned long long)part->row_begin + part->row_order[i],
                             (unsigned long long)n_total);
    return STATUS_OK;
}

static enum status check_part(const struct weight_part *part, uint32_t index, uint32_t k,
                              const struct quant_format **format, struct error *error) {
    *format = part->format ? quant_find(part->format) : NULL;
    if (!*format)
        return error_set(error, STATUS_UNSUPPORTED, "weight format '%s' is not known",
                         part->format ? part->format : "");
    if (part->k != k)
        return error_set(error, STATUS_INVALID, "weight part %u has %u inputs, the first has %u",
                         index, part->k, k);
    if (k == 0 || k % GROUP != 0 || k > PACK_INPUTS_MAX)
        return error_set(error, STATUS_UNSUPPORTED,
                         "a matrix has %u inputs; a multiple of %d up to %u is needed", k, GROUP,
                         PACK_INPUTS_MAX);
    uint64_t row_bytes;
    if (!quant_row_bytes(*format, k, &row_bytes))
        return error_set(error, STATUS_INVALID, "%u inputs are no whole number of %s blocks", k,
                         part->format);
    if (!part->data || part->n_bytes % row_bytes != 0)
        return error_set(error, STATUS_INVALID,
                         "weight part %u: %zu bytes are no whole number of %llu-byte rows", index,
                         part->n_bytes, (unsigned long long)row_bytes);
    return check_order(part, index, part->n_bytes / row_bytes, error);
}

/* The format that keeps both exactly; false when there is none. */
static bool merge(enum weight_format a, enum weight_format b, enum weight_format *merged) {
    if (a != b && !(is_float(a) && is_float(b)))
        return false;
    *merged = a == b ? a : WEIGHT_F32;
    return true;
}

enum status pack_plan_shape(struct pack_plan *plan, const struct weight_part *parts,
                            uint32_t n_parts, struct error *error) {
    if (n_parts == 0)
        return error_set(error, STATUS_INVALID, "a matrix needs at least one part");
    struct pack_plan made = {.k = parts[0].k};
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct quant_format *format;
        TRY(check_part(&parts[i], i, made.k, &format, error));
        n += parts[i].n_rows;
        if (n > PACK_ROWS_MAX)
            return error_set(error, STATUS_LIMIT, "a matrix has more than %u rows", PACK_ROWS_MAX);
        if (i == 0)
            made.format = format->packed;
        if (!merge(made.format, format->packed, &made.format))
            return error_set(error, STATUS_UNSUPPORTED,
                             "parts of formats %s and %s cannot be merged into one matrix",
                             parts[0].format, parts[i].format);
    }
    if (n == 0)
        return error_set(error, STATUS_INVALID, "a matrix has no rows");
    made.n = (uint32_t)n;
    *plan = made;
    return STATUS_OK;
}

enum status pack_plan_init(struct pack_plan *plan, const struct weight_part *parts,
                           uint32_t n_parts, struct error *error) {
    struct pack_plan made;
    TRY(pack_plan_shape(&made, parts, n_parts, error));
    made.rows = calloc(made.n, sizeof *made.rows);
    if (!made.rows)
        return error_set(error, STATUS_NOMEM, "no memory for a list of %u rows", made.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct weight_part *part = &parts[i];
        const struct quant_format *format = quant_find(part->format);
        uint64_t row_bytes = 0;
        (void)quant_row_bytes(format, made.k, &row_bytes); /* checked by pack_plan_shape */
        for (uint32_t j = 0; j < part->n_rows; j++) {
            size_t row = (size_t)part->row_begin + (part->row_order ? part->row_order[j] : j);
            made.rows[n].bytes = (const uint8_t *)part->data + row * row_bytes;
            made.rows[n].format = format;
            n++;
        }
    }
    *plan = made;
    return STATUS_OK;
}

void pack_plan_fini(struct pack_plan *plan) {
    free(plan->rows);
    plan->rows = NULL;
}

bool pack_group(const struct pack_plan *plan, uint32_t n, uint32_t g, struct quant_group *group) {
    const struct quant_format *format = plan->rows[n].format;
    uint32_t element = g * GROUP;
    const uint8_t *block =
        plan->rows[n].bytes + (size_t)(element / format->block_elems) * format->block_bytes;
    return format->unpack_group(block, element % format->block_elems / GROUP, group);
}

void pack_floats(const struct pack_plan *plan, uint32_t n, uint32_t g, float out[GROUP]) {
    const struct quant_format *format = plan->rows[n].format;
    format->unpack_floats(plan->rows[n].bytes + (size_t)g * GROUP * format->block_bytes, GROUP,
                          out);
}
