#include "kernels/ref/ref.h"

#include "kernels/quant/pack.h"

static size_t ref_weight_data_bytes(const struct weight *shape) {
    if (pack_has_floats(shape))
        return (size_t)shape->n * shape->k_stored * sizeof(float);
    return (size_t)shape->n * (shape->k_stored / GROUP) * sizeof(struct ref_group);
}

size_t ref_weight_size(const struct weight_source *source, struct error *error) {
    struct pack_plan plan;
    if (pack_plan_init(&plan, source, error) != STATUS_OK)
        return 0;
    size_t n_bytes = ref_weight_data_bytes(&plan.shape) + pack_order_bytes(&plan);
    pack_plan_fini(&plan);
    return n_bytes;
}

static void ref_weight_pack_rows(const struct pack_plan *plan, float *out) {
    uint32_t k = plan->shape.k_stored;
    for (uint32_t n = 0; n < plan->shape.n; n++, out += k)
        for (uint32_t g = 0; g < pack_n_groups(&plan->shape); g++) {
            float group[GROUP];
            uint32_t n_left = k - g * GROUP;
            pack_floats(plan, n, g, group);
            memcpy(out + (size_t)g * GROUP, group,
                   (n_left < GROUP ? n_left : GROUP) * sizeof *group);
        }
}

static enum status ref_weight_pack_ints(const struct pack_plan *plan, struct ref_group *out,
                                        struct error *error) {
    uint32_t n_groups = plan->shape.k_stored / GROUP;
    for (uint32_t n = 0; n < plan->shape.n; n++)
        for (uint32_t g = 0; g < n_groups; g++) {
            struct quant_group group;
            uint16_t half;
            pack_group(plan, n, g, &group);
            if (!plan->shape.wide &&
                (!pack_half(group.scale[0], &half) || !pack_half(group.min, &half)))
                return error_set(error, STATUS_UNSUPPORTED,
                                 "row %u: a scale is too large to be kept exactly", n);
            struct ref_group *to = &out[(size_t)n * n_groups + g];
            memcpy(to->q, group.q, sizeof to->q);
            memcpy(to->scale, group.scale, sizeof to->scale);
            to->min = plan->shape.has_min ? group.min : 0.0f; /* never -0 */
        }
    return STATUS_OK;
}

enum status ref_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                            void *memory, struct weight *weight, struct error *error) {
    struct pack_plan plan;
    TRY(pack_plan_init(&plan, source, error));
    enum status status = STATUS_OK;
    if (pack_has_floats(&plan.shape))
        ref_weight_pack_rows(&plan, memory);
    else
        status = ref_weight_pack_ints(&plan, memory, error);
    if (status == STATUS_OK && ref_reserve(ctx, plan.shape.k_stored) != STATUS_OK)
        status =
            error_set(error, STATUS_NOMEM, "no memory for rows of %u inputs", plan.shape.k_stored);
    if (status == STATUS_OK) {
        *weight = plan.shape;
        weight->data = memory;
    }
    if (status == STATUS_OK && plan.order.inputs) {
        uint8_t *order = (uint8_t *)memory + ref_weight_data_bytes(&plan.shape);
        memcpy(order, plan.order.inputs, pack_order_bytes(&plan));
        weight->order = (const uint32_t *)order;
    }
    pack_plan_fini(&plan);
    return status;
}

void ref_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
               const struct kernels_batch *batch, uint32_t id_begin) {
    (void)ctx;
    uint32_t saved = numbers_enter();
    for (uint32_t t = 0; t < batch->n_tokens; t++) {
        uint32_t id = batch->ids[t] - id_begin; /* a lower one wraps around, past the end */
        float *row = out + (size_t)t * table->k;
        if (id >= table->n) {
            memset(row, 0, table->k * sizeof *row);
            continue;
        }
        if (pack_has_floats(table)) {
            const float *from = (const float *)table->data + (size_t)id * table->k_stored;
            memcpy(row, from, table->k * sizeof *row);
            continue;
        }
        const struct ref_group *groups = table->data;
        groups += (size_t)id * (table->k_stored / GROUP);
        for (uint32_t i = 0; i < table->k_stored; i++) {
            const struct ref_group *group = &groups[i / GROUP];
            uint32_t input = table->order ? table->order[i] : i;
            float scale = group->scale[i % GROUP / (GROUP / 2)];
            if (input != WEIGHT_NO_INPUT)
                row[input] = fmaf(scale, (float)group->q[i % GROUP], group->min);
        }
    }
    numbers_leave(saved);
}
