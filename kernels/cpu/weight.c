/* kernels/cpu/weight.c: checkpoint rows into panels (the layout: path.h), and single rows back. */
#include "kernels/cpu/cpu.h"

#include "base/assert.h"
#include "kernels/quant/pack.h"

#include <stdatomic.h>

static size_t cpu_weight_panels_bytes(const struct weight *shape) {
    return (shape->n + PANEL - 1) / PANEL * panel_bytes(shape);
}

size_t cpu_weight_size(const struct weight_source *source, struct error *error) {
    struct pack_plan plan;
    if (pack_plan_init(&plan, source, error) != STATUS_OK)
        return 0;
    size_t n_bytes = cpu_weight_panels_bytes(&plan.shape) + pack_order_bytes(&plan);
    pack_plan_fini(&plan);
    return n_bytes;
}

/* Where block b of a panel begins. */
static struct panel_place cpu_weight_place_of(const struct weight *weight, uint32_t b) {
    struct panel_form form = panel_form(weight);
    uint32_t stride = panel_stride(weight);
    struct panel_place place = panel_place(form, stride, b / stride);
    place.values += (size_t)(b % stride) * (form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES);
    return place;
}

/* Lane c of 16 scales or minima; false when they are binary16 and the value is not. */
static bool cpu_weight_put_scale(uint8_t *to, bool wide, uint32_t c, float value) {
    uint16_t half;
    if (wide) {
        memcpy(to + (size_t)4 * c, &value, 4);
        return true;
    }
    if (!pack_half(value, &half))
        return false;
    memcpy(to + (size_t)2 * c, &half, 2);
    return true;
}

static float cpu_weight_get_scale(const uint8_t *from, bool wide, uint32_t c) {
    uint16_t half;
    float value;
    if (wide) {
        memcpy(&value, from + (size_t)4 * c, 4);
        return value;
    }
    memcpy(&half, from + (size_t)2 * c, 2);
    return half_to_float(half);
}

/* Lane c of block b of a panel; false when a scale cannot be kept exactly. */
static bool cpu_weight_put_group(uint8_t *panel, const struct weight *shape, uint32_t b, uint32_t c,
                                 const struct quant_group *group) {
    struct panel_form form = panel_form(shape);
    struct panel_place place = cpu_weight_place_of(shape, b);
    uint8_t *to = panel + place.values + (size_t)4 * c;
    for (uint32_t i = 0; i < GROUP; i += 4)
        for (uint32_t j = 0; j < 4; j++)
            if (form.four)
                to[i / 8 * 64 + j] |= (uint8_t)(group->q[i + j] << i % 8);
            else
                to[i / 4 * 64 + j] = (uint8_t)(group->q[i + j] + 128);
    uint8_t *scales = panel + place.scales;
    return cpu_weight_put_scale(scales, form.wide, c, group->scale[0]) &&
           (!form.halves ||
            cpu_weight_put_scale(scales + PANEL_FLOATS, true, c, group->scale[1])) &&
           (!form.has_min || cpu_weight_put_scale(panel + place.mins, form.wide, c, group->min));
}

static void cpu_weight_put_floats(uint8_t *panel, const struct weight *shape, uint32_t g,
                                  uint32_t c, const float x[GROUP]) {
    uint32_t n_left = shape->k_stored - g * GROUP;
    for (uint32_t i = 0; i < GROUP && i < n_left; i++) {
        uint32_t k = g * GROUP + i;
        if (shape->format == WEIGHT_F32)
            ((float *)panel)[(size_t)k * PANEL + c] = x[i];
        else if (shape->format == WEIGHT_F16)
            ((uint16_t *)panel)[(size_t)k * PANEL + c] = float_to_half(x[i]);
        else
            ((uint16_t *)panel)[((size_t)(k / 2) * PANEL + c) * 2 + k % 2] = float_to_bf16(x[i]);
    }
}

struct pack_job {
    const struct pack_plan *plan;
    uint8_t *memory;
    _Atomic bool failed;
};

/* By inputs first: in AWQ's and GPTQ's files neighbouring outputs share a cache line. */
static void cpu_weight_pack_panel(void *arg, uint32_t index, uint32_t thread) {
    (void)thread;
    struct pack_job *job = arg;
    const struct pack_plan *plan = job->plan;
    const struct weight *shape = &plan->shape;
    uint8_t *panel = job->memory + index * panel_bytes(shape);
    uint32_t n_lanes = shape->n - index * PANEL < PANEL ? shape->n - index * PANEL : PANEL;
    memset(panel, 0, panel_bytes(shape));
    for (uint32_t g = 0; g < pack_n_groups(shape); g++)
        for (uint32_t c = 0; c < n_lanes; c++) {
            uint32_t n = index * PANEL + c;
            struct quant_group group;
            float x[GROUP];
            if (pack_has_floats(shape)) {
                pack_floats(plan, n, g, x);
                cpu_weight_put_floats(panel, shape, g, c, x);
                continue;
            }
            pack_group(plan, n, g, &group);
            if (!cpu_weight_put_group(panel, shape, g, c, &group))
                atomic_store(&job->failed, true);
        }
}

enum status cpu_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                            void *memory, struct weight *weight, struct error *error) {
    ASSERT((uintptr_t)memory % 64 == 0);
    struct pack_plan plan;
    TRY(pack_plan_init(&plan, source, error));
    struct pack_job job = {.plan = &plan, .memory = memory};
    struct weight packed = plan.shape;
    packed.data = memory;
    if (plan.order.inputs) {
        uint8_t *order = (uint8_t *)memory + cpu_weight_panels_bytes(&plan.shape);
        memcpy(order, plan.order.inputs, pack_order_bytes(&plan));
        packed.order = (const uint32_t *)order;
    }
    thread_pool_run(ctx->pool, (plan.shape.n + PANEL - 1) / PANEL, cpu_weight_pack_panel, &job);
    pack_plan_fini(&plan);
    if (atomic_load(&job.failed))
        return error_set(error, STATUS_UNSUPPORTED,
                         "a scale of the matrix is too large to be kept exactly");
    TRY(cpu_reserve(ctx, &packed, error));
    *weight = packed;
    return STATUS_OK;
}

static float cpu_weight_float_at(const struct weight *table, const uint8_t *panel, uint32_t k,
                                 uint32_t c) {
    size_t index = (size_t)k * PANEL + c;
    if (table->format == WEIGHT_F32)
        return ((const float *)panel)[index];
    if (table->format == WEIGHT_F16)
        return half_to_float(((const uint16_t *)panel)[index]);
    return bf16_to_float(((const uint16_t *)panel)[((size_t)(k / 2) * PANEL + c) * 2 + k % 2]);
}

static void cpu_embed_block(float out[GROUP], const struct weight *table, const uint8_t *panel,
                            uint32_t b, uint32_t c) {
    struct panel_form form = panel_form(table);
    struct panel_place place = cpu_weight_place_of(table, b);
    const uint8_t *from = panel + place.values + (size_t)4 * c;
    float scale[2];
    scale[0] = scale[1] = cpu_weight_get_scale(panel + place.scales, form.wide, c);
    if (form.halves)
        scale[1] = cpu_weight_get_scale(panel + place.scales + PANEL_FLOATS, true, c);
    float min = form.has_min ? cpu_weight_get_scale(panel + place.mins, form.wide, c) : 0.0f;
    for (uint32_t i = 0; i < GROUP; i++) {
        int q =
            form.four ? from[i / 8 * 64 + i % 4] >> (i & 4) & 15 : from[i / 4 * 64 + i % 4] - 128;
        out[i] = fmaf(scale[i / (GROUP / 2)], (float)q, min);
    }
}

static void cpu_embed_row(float *out, const struct weight *table, uint32_t id) {
    uint32_t c = id % PANEL;
    const uint8_t *panel = (const uint8_t *)table->data + id / PANEL * panel_bytes(table);
    if (pack_has_floats(table)) {
        for (uint32_t k = 0; k < table->k; k++)
            out[k] = cpu_weight_float_at(table, panel, k, c);
        return;
    }
    for (uint32_t b = 0; b < table->k_stored / GROUP; b++) {
        float block[GROUP];
        cpu_embed_block(block, table, panel, b, c);
        for (uint32_t i = 0; i < GROUP; i++) {
            uint32_t input = table->order ? table->order[b * GROUP + i] : b * GROUP + i;
            if (input != WEIGHT_NO_INPUT)
                out[input] = block[i];
        }
    }
}

void cpu_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
               const struct kernels_batch *batch, uint32_t id_begin) {
    (void)ctx;
    uint32_t saved = numbers_enter();
    for (uint32_t t = 0; t < batch->n_tokens; t++) {
        uint32_t id = batch->ids[t] - id_begin; /* a lower one wraps around, past the end */
        if (id < table->n)
            cpu_embed_row(out + (size_t)t * table->k, table, id);
        else
            memset(out + (size_t)t * table->k, 0, table->k * sizeof *out);
    }
    numbers_leave(saved);
}
