#include "kernels/ref/ref.h"

#include "base/assert.h"
#include "kernels/pack.h"

static bool has_floats(enum weight_format format) {
    return format == WEIGHT_F32 || format == WEIGHT_F16 || format == WEIGHT_BF16;
}

size_t ref_weight_size(const struct weight_part *parts, uint32_t n_parts, struct error *error) {
    struct pack_plan plan;
    if (pack_plan_shape(&plan, parts, n_parts, error) != STATUS_OK)
        return 0;
    if (has_floats(plan.format))
        return (size_t)plan.n * plan.k * sizeof(float);
    return (size_t)plan.n * (plan.k / GROUP) * sizeof(struct ref_group);
}

static enum status pack_ints(const struct pack_plan *plan, struct ref_group *out,
                             struct error *error) {
    uint32_t n_groups = plan->k / GROUP;
    for (uint32_t n = 0; n < plan->n; n++)
        for (uint32_t g = 0; g < n_groups; g++) {
            struct quant_group group;
            if (!pack_group(plan, n, g, &group))
                return error_set(error, STATUS_UNSUPPORTED,
                                 "row %u: a scale is too large to be kept exactly", n);
            struct ref_group *to = &out[(size_t)n * n_groups + g];
            memcpy(to->q, group.q, sizeof to->q);
            to->scale = half_to_float(group.scale);
            to->min = half_to_float(group.min);
        }
    return STATUS_OK;
}

enum status ref_weight_pack(struct kernels_ctx *ctx, const struct weight_part *parts,
                            uint32_t n_parts, void *memory, struct weight *weight,
                            struct error *error) {
    (void)ctx;
    struct pack_plan plan;
    TRY(pack_plan_init(&plan, parts, n_parts, error));
    enum status status = STATUS_OK;
    if (has_floats(plan.format)) {
        float *out = memory;
        for (uint32_t n = 0; n < plan.n; n++)
            for (uint32_t g = 0; g < plan.k / GROUP; g++, out += GROUP)
                pack_floats(&plan, n, g, out);
    } else {
        status = pack_ints(&plan, memory, error);
    }
    if (status == STATUS_OK)
        *weight = (struct weight){.format = plan.format,
                                  .n = plan.n,
                                  .k = plan.k,
                                  .group = has_floats(plan.format) ? 0 : GROUP,
                                  .data = memory};
    pack_plan_fini(&plan);
    return status;
}

void ref_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
               const struct kernels_batch *batch) {
    (void)ctx;
    uint32_t saved = numbers_enter();
    for (uint32_t t = 0; t < batch->n_tokens; t++) {
        ASSERT(batch->ids[t] < table->n);
        float *row = out + (size_t)t * table->k;
        if (has_floats(table->format)) {
            const float *from = (const float *)table->data + (size_t)batch->ids[t] * table->k;
            memcpy(row, from, table->k * sizeof *row);
            continue;
        }
        const struct ref_group *groups = table->data;
        groups += (size_t)batch->ids[t] * (table->k / GROUP);
        for (uint32_t i = 0; i < table->k; i++) {
            const struct ref_group *group = &groups[i / GROUP];
            row[i] = fmaf(group->scale, (float)group->q[i % GROUP], group->min);
        }
    }
    numbers_leave(saved);
}
