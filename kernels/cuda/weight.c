/* kernels/cuda/weight.c: checkpoint rows into the layouts of kernels/cuda/launch.h, through pinned memory. */
#include "kernels/cuda/weight.h"

#include "kernels/cuda/lane.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/memory.h"
#include "kernels/quant/pack.h"

#include <string.h>

#define ALIGNMENT 256

static size_t cuda_weight_align_part(size_t n_bytes) {
    return (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool cuda_weight_has_min(const struct weight *shape) {
    return shape->format == WEIGHT_I4G || (shape->format == WEIGHT_I8G && shape->has_min);
}

/* Rows of 16 bytes an output: planes of integers, or inputs 4 or 8 at a time. */
static uint32_t cuda_weight_count_planes(const struct weight *shape) {
    uint32_t n_groups = shape->k_stored / GROUP;
    if (shape->format == WEIGHT_I4G)
        return n_groups;
    if (shape->format == WEIGHT_I8G)
        return 2 * n_groups;
    uint32_t per_plane = shape->format == WEIGHT_F32 ? 4 : 8;
    return (shape->k_stored + per_plane - 1) / per_plane;
}

static uint32_t cuda_weight_count_scales(const struct weight *shape) {
    uint32_t n_groups = shape->k_stored / GROUP;
    if (pack_has_floats(shape))
        return 0;
    return shape->group < GROUP ? 2 * n_groups
                                : (n_groups + shape->group / GROUP - 1) / (shape->group / GROUP);
}

static uint32_t cuda_weight_pad_outputs(uint32_t n) {
    return (n + GPU_OUTPUTS - 1) / GPU_OUTPUTS * GPU_OUTPUTS;
}

/* Zeros say what minima are, and binary16 is enough for their scales. */
static bool cuda_weight_is_wide(const struct weight *shape) {
    return shape->wide && !shape->zeros;
}

static size_t cuda_weight_scale_bytes(const struct weight *shape) {
    return cuda_weight_is_wide(shape) ? 4 : 2;
}

static size_t cuda_weight_min_bytes(const struct weight *shape) {
    return shape->zeros ? 1 : cuda_weight_scale_bytes(shape);
}

/* Offsets of the parts. */
struct weight_places {
    size_t scales;
    size_t mins;
    size_t order;
};

static struct weight_places cuda_weight_places_of(const struct weight *shape) {
    struct weight_places at;
    size_t row = cuda_weight_pad_outputs(shape->n);
    size_t n_scales = cuda_weight_count_scales(shape) * row;
    at.scales = cuda_weight_align_part(cuda_weight_count_planes(shape) * row * 16);
    at.mins = at.scales + cuda_weight_align_part(n_scales * cuda_weight_scale_bytes(shape));
    at.order = at.mins + (cuda_weight_has_min(shape)
                              ? cuda_weight_align_part(n_scales * cuda_weight_min_bytes(shape))
                              : 0);
    return at;
}

struct gpu_matrix cuda_matrix(const struct weight *weight) {
    struct weight_places at = cuda_weight_places_of(weight);
    const char *memory = weight->data;
    bool ints = !pack_has_floats(weight);
    return (struct gpu_matrix){
        .data = memory,
        .scales = ints ? memory + at.scales : NULL,
        .mins = cuda_weight_has_min(weight) ? memory + at.mins : NULL,
        .order = weight->order,
        .scale = weight->scale,
        .bias = weight->bias,
        .n = weight->n,
        .n_padded = cuda_weight_pad_outputs(weight->n),
        .k = weight->k,
        .k_stored = weight->k_stored,
        .n_scales = cuda_weight_count_scales(weight),
        .groups_per_scale = ints ? weight->group / GROUP : 0,
        .format = weight->format,
        .wide = cuda_weight_is_wide(weight),
        .zeros = weight->zeros,
        .zero_base = weight->format == WEIGHT_I8G ? 128 : 0,
        .fine = weight->fine,
    };
}

size_t cuda_weight_size(const struct weight_source *source, struct error *error) {
    struct pack_plan plan;
    if (pack_plan_init(&plan, source, error) != STATUS_OK)
        return 0;
    size_t n_bytes = cuda_weight_places_of(&plan.shape).order + pack_order_bytes(&plan);
    pack_plan_fini(&plan);
    return n_bytes;
}

/* The planes of one group of 32 inputs of one output; `row` bytes lie between planes. */
static void cuda_weight_put_ints(unsigned char *to, size_t row, const struct weight *shape,
                                 const struct quant_group *group) {
    for (uint32_t i = 0; i < GROUP / 2; i++)
        if (shape->format == WEIGHT_I4G) {
            to[i] = (unsigned char)(group->q[i] | group->q[i + 16] << 4);
        } else {
            to[i] = (unsigned char)group->q[i];
            to[row + i] = (unsigned char)group->q[i + 16];
        }
}

static void cuda_weight_put_floats(unsigned char *to, size_t row, const struct weight *shape,
                                   uint32_t n, const float x[GROUP]) {
    for (uint32_t i = 0; i < n; i++) {
        uint16_t bits = shape->format == WEIGHT_F16 ? float_to_half(x[i]) : float_to_bf16(x[i]);
        if (shape->format == WEIGHT_F32)
            memcpy(to + i / 4 * row + i % 4 * 4, &x[i], 4);
        else
            memcpy(to + i / 8 * row + i % 8 * 2, &bits, 2);
    }
}

/* False when the value cannot be kept exactly. */
static bool cuda_weight_put_scale(unsigned char *to, bool wide, float value) {
    uint16_t half;
    if (wide) {
        memcpy(to, &value, 4);
        return true;
    }
    if (!pack_half(value, &half))
        return false;
    memcpy(to, &half, 2);
    return true;
}

#define PIECE_OUTPUTS 8192
#define PIECE_GROUPS  4 /* of 32 inputs: of float32 these are 4 MiB */

/* A part of a matrix that goes through pinned memory at once. */
struct weight_piece {
    uint32_t out_begin;
    uint32_t n_outs;   /* in the matrix */
    uint32_t n_padded; /* as stored: with the zeros behind the last */
    uint32_t begin;    /* groups of 32 inputs */
    uint32_t n;
};

static void cuda_weight_send_groups(struct kernels_ctx *ctx, const struct pack_plan *plan,
                                    unsigned char *memory, struct weight_piece piece) {
    const struct weight *shape = &plan->shape;
    bool floats = pack_has_floats(shape);
    size_t row = (size_t)piece.n_padded * 16,
           whole_row = (size_t)cuda_weight_pad_outputs(shape->n) * 16;
    uint32_t per_group =
        floats ? (shape->format == WEIGHT_F32 ? 8 : 4) : (shape->format == WEIGHT_I4G ? 1 : 2);
    uint32_t first = piece.begin * per_group, end = first + piece.n * per_group;
    end = end < cuda_weight_count_planes(shape) ? end : cuda_weight_count_planes(shape);
    unsigned char *staged = cuda_stage(ctx, &ctx->main, (end - first) * row);
    memset(staged, 0, (end - first) * row);
    for (uint32_t i = 0; i < piece.n_outs; i++)
        for (uint32_t g = piece.begin; g < piece.begin + piece.n; g++) {
            unsigned char *to = staged + (g - piece.begin) * per_group * row + (size_t)i * 16;
            uint32_t left = shape->k_stored - g * GROUP;
            struct quant_group group;
            float x[GROUP];
            if (floats) {
                pack_floats(plan, piece.out_begin + i, g, x);
                cuda_weight_put_floats(to, row, shape, left < GROUP ? left : GROUP, x);
            } else {
                pack_group(plan, piece.out_begin + i, g, &group);
                cuda_weight_put_ints(to, row, shape, &group);
            }
        }
    for (uint32_t plane = first; plane < end; plane++)
        cuda_send(ctx, &ctx->main, memory + plane * whole_row + (size_t)piece.out_begin * 16,
                  staged + (plane - first) * row, row);
}

/* Scale number `number` of the piece's outputs, and their minima; false when one is not kept exactly. */
static bool cuda_weight_send_scales(struct kernels_ctx *ctx, const struct pack_plan *plan,
                                    unsigned char *memory, struct weight_piece piece,
                                    uint32_t number) {
    const struct weight *shape = &plan->shape;
    struct weight_places at = cuda_weight_places_of(shape);
    size_t width = cuda_weight_scale_bytes(shape), row = piece.n_padded * width;
    size_t min_width = cuda_weight_min_bytes(shape), min_row = piece.n_padded * min_width;
    size_t to = (size_t)number * cuda_weight_pad_outputs(shape->n) + piece.out_begin;
    bool halves = shape->group < GROUP, exact = true;
    uint32_t g = halves ? number / 2 : number * (shape->group / GROUP);
    unsigned char *staged = cuda_stage(ctx, &ctx->main, 2 * row), *mins = staged + row;
    memset(staged, 0, 2 * row);
    for (uint32_t i = 0; i < piece.n_outs; i++) {
        struct quant_group group;
        pack_group(plan, piece.out_begin + i, g, &group);
        exact &= cuda_weight_put_scale(staged + i * width, cuda_weight_is_wide(shape),
                                       group.scale[halves ? number % 2 : 0]);
        if (shape->zeros)
            mins[i] = group.zero;
        else if (cuda_weight_has_min(shape))
            exact &=
                cuda_weight_put_scale(mins + i * min_width, cuda_weight_is_wide(shape), group.min);
    }
    cuda_send(ctx, &ctx->main, memory + at.scales + to * width, staged, row);
    if (cuda_weight_has_min(shape))
        cuda_send(ctx, &ctx->main, memory + at.mins + to * min_width, mins, min_row);
    return exact;
}

static bool cuda_weight_send_all(struct kernels_ctx *ctx, const struct pack_plan *plan,
                                 void *memory) {
    const struct weight *shape = &plan->shape;
    uint32_t n_groups = pack_n_groups(shape), n_all = cuda_weight_pad_outputs(shape->n);
    bool exact = true;
    for (uint32_t out = 0; out < n_all; out += PIECE_OUTPUTS) {
        struct weight_piece piece = {.out_begin = out};
        piece.n_padded = n_all - out < PIECE_OUTPUTS ? n_all - out : PIECE_OUTPUTS;
        piece.n_outs = shape->n - out < piece.n_padded ? shape->n - out : piece.n_padded;
        for (piece.begin = 0; piece.begin < n_groups; piece.begin += PIECE_GROUPS) {
            uint32_t left = n_groups - piece.begin;
            piece.n = left < PIECE_GROUPS ? left : PIECE_GROUPS;
            cuda_weight_send_groups(ctx, plan, memory, piece);
        }
        for (uint32_t number = 0; number < cuda_weight_count_scales(shape); number++)
            exact &= cuda_weight_send_scales(ctx, plan, memory, piece, number);
    }
    return exact;
}

enum status cuda_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                             void *memory, struct weight *weight, struct error *error) {
    struct pack_plan plan;
    cuda_flush(ctx);
    TRY(pack_plan_init(&plan, source, error));
    struct weight packed = plan.shape;
    packed.data = memory;
    if (plan.order.inputs) {
        unsigned char *order = (unsigned char *)memory + cuda_weight_places_of(&plan.shape).order;
        cuda_put(ctx, order, plan.order.inputs, pack_order_bytes(&plan));
        packed.order = (const uint32_t *)(void *)order;
    }
    bool exact = cuda_weight_send_all(ctx, &plan, memory);
    pack_plan_fini(&plan);
    if (!exact)
        return error_set(error, STATUS_UNSUPPORTED,
                         "a scale of the matrix is too large to be kept exactly");
    if (cuda_reserve(ctx, packed.k_stored) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for rows of %u inputs", packed.k_stored);
    *weight = packed;
    return STATUS_OK;
}
