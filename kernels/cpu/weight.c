/* kernels/cpu/weight.c: checkpoint rows into panels (the layout: path.h), and single rows back. */
#include "kernels/cpu/cpu.h"

#include "base/assert.h"
#include "base/checked.h"
#include "kernels/pack.h"

#include <stdatomic.h>

size_t cpu_weight_size(const struct weight_source *source, struct error *error) {
    struct pack_plan plan;
    if (pack_plan_init(&plan, source, error) != STATUS_OK)
        return 0;
    size_t n_panels = (plan.shape.n + PANEL - 1) / PANEL;
    pack_plan_fini(&plan);
    return n_panels * panel_bytes(plan.shape.format, plan.shape.k);
}

static uint16_t load_u16(const uint8_t *from) {
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Lane c of group g of a panel; false when a scale cannot be kept exactly. */
static bool put_group(uint8_t *panel, const struct pack_plan *plan, uint32_t g, uint32_t c,
                      const struct quant_group *group) {
    uint16_t scale;
    uint16_t min;
    if (!pack_half(group->scale[0], &scale) || !pack_half(group->min, &min))
        return false;
    if (plan->shape.format == WEIGHT_I4G) {
        uint8_t *to = panel + (size_t)g * PANEL_I4_BYTES;
        for (uint32_t j = 0; j < 4; j++)
            for (uint32_t b = 0; b < 4; b++)
                to[64 * j + 4 * c + b] =
                    (uint8_t)(group->q[8 * j + b] | group->q[8 * j + 4 + b] << 4);
        memcpy(to + PANEL_I4_SCALES + 2 * c, &scale, 2);
        memcpy(to + PANEL_I4_MINS + 2 * c, &min, 2);
        return true;
    }
    uint8_t *to = panel + (size_t)g * PANEL_I8_BYTES;
    for (uint32_t j = 0; j < 8; j++)
        for (uint32_t b = 0; b < 4; b++)
            to[64 * j + 4 * c + b] = (uint8_t)(group->q[4 * j + b] + 128);
    uint8_t *scales = panel + (size_t)(plan->shape.k / GROUP) * PANEL_I8_BYTES;
    memcpy(scales + ((size_t)g * PANEL + c) * 2, &scale, 2);
    return true;
}

static void put_floats(uint8_t *panel, const struct pack_plan *plan, uint32_t g, uint32_t c,
                       const float x[GROUP]) {
    for (uint32_t i = 0; i < GROUP; i++) {
        uint32_t k = g * GROUP + i;
        if (plan->shape.format == WEIGHT_F32)
            ((float *)panel)[(size_t)k * PANEL + c] = x[i];
        else if (plan->shape.format == WEIGHT_F16)
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

static void pack_panel(void *arg, uint32_t index, uint32_t thread) {
    (void)thread;
    struct pack_job *job = arg;
    const struct pack_plan *plan = job->plan;
    uint8_t *panel = job->memory + index * panel_bytes(plan->shape.format, plan->shape.k);
    memset(panel, 0, panel_bytes(plan->shape.format, plan->shape.k));
    for (uint32_t c = 0; c < PANEL; c++) {
        uint32_t n = index * PANEL + c;
        for (uint32_t g = 0; n < plan->shape.n && g < plan->shape.k / GROUP; g++) {
            if (!pack_has_floats(&plan->shape)) {
                struct quant_group group;
                pack_group(plan, n, g, &group);
                if (!put_group(panel, plan, g, c, &group))
                    atomic_store(&job->failed, true);
                continue;
            }
            float x[GROUP];
            pack_floats(plan, n, g, x);
            put_floats(panel, plan, g, c, x);
        }
    }
}

enum status cpu_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                            void *memory, struct weight *weight, struct error *error) {
    ASSERT((uintptr_t)memory % 64 == 0);
    struct pack_plan plan;
    TRY(pack_plan_init(&plan, source, error));
    struct pack_job job = {.plan = &plan, .memory = memory};
    team_run(ctx->team, (plan.shape.n + PANEL - 1) / PANEL, pack_panel, &job);
    pack_plan_fini(&plan);
    if (atomic_load(&job.failed))
        return error_set(error, STATUS_UNSUPPORTED,
                         "a scale of the matrix is too large to be kept exactly");
    *weight = plan.shape;
    weight->data = memory;
    return STATUS_OK;
}

static float float_at(const struct weight *table, const uint8_t *panel, uint32_t k, uint32_t c) {
    size_t index = (size_t)k * PANEL + c;
    if (table->format == WEIGHT_F32)
        return ((const float *)panel)[index];
    if (table->format == WEIGHT_F16)
        return half_to_float(((const uint16_t *)panel)[index]);
    return bf16_to_float(((const uint16_t *)panel)[((size_t)(k / 2) * PANEL + c) * 2 + k % 2]);
}

static void embed_i4(float out[GROUP], const uint8_t *group, uint32_t c) {
    float scale = half_to_float(load_u16(group + PANEL_I4_SCALES + 2 * c));
    float min = half_to_float(load_u16(group + PANEL_I4_MINS + 2 * c));
    for (uint32_t i = 0; i < GROUP; i++) {
        uint8_t nibbles = group[i / 8 * 64 + 4 * c + i % 4];
        out[i] = fmaf(scale, (float)(i % 8 < 4 ? nibbles & 15 : nibbles >> 4), min);
    }
}

static void embed_row(float *out, const struct weight *table, uint32_t id) {
    uint32_t n_groups = table->k / GROUP;
    uint32_t c = id % PANEL;
    const uint8_t *panel =
        (const uint8_t *)table->data + (size_t)(id / PANEL) * panel_bytes(table->format, table->k);
    for (uint32_t g = 0; g < n_groups; g++, out += GROUP) {
        if (table->format == WEIGHT_I4G) {
            embed_i4(out, panel + (size_t)g * PANEL_I4_BYTES, c);
        } else if (table->format == WEIGHT_I8G) {
            const uint8_t *q = panel + (size_t)g * PANEL_I8_BYTES;
            const uint8_t *scales = panel + (size_t)n_groups * PANEL_I8_BYTES;
            float scale = half_to_float(load_u16(scales + ((size_t)g * PANEL + c) * 2));
            for (uint32_t i = 0; i < GROUP; i++)
                out[i] = fmaf(scale, (float)(q[i / 4 * 64 + 4 * c + i % 4] - 128), 0.0f);
        } else {
            for (uint32_t i = 0; i < GROUP; i++)
                out[i] = float_at(table, panel, g * GROUP + i, c);
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
            embed_row(out + (size_t)t * table->k, table, id);
        else
            memset(out + (size_t)t * table->k, 0, table->k * sizeof *out);
    }
    numbers_leave(saved);
}
