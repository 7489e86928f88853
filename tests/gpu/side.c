#include "tests/gpu/side.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void give_up(const char *what, const char *why) {
    fprintf(stderr, "error: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

void side_open(struct side *side, const char *backend, const struct kernels_options *options) {
    struct error error = {0};
    *side = (struct side){.kernels = kernels_find(backend)};
    if (!side->kernels)
        give_up(backend, "there is no such backend in this build");
    if (side->kernels->open(options, &side->ctx, &error) != STATUS_OK)
        give_up(backend, error.text);
}

void side_close(struct side *side) {
    side_clear(side);
    side->kernels->close(side->ctx);
}

void side_drop(struct side *side, uint32_t n) {
    while (side->n_arrays > n) {
        side->n_arrays--;
        side->kernels->dealloc(side->ctx, side->arrays[side->n_arrays],
                               side->n_bytes[side->n_arrays]);
    }
}

void side_clear(struct side *side) {
    side_drop(side, 0);
}

void *side_take(struct side *side, size_t n_bytes) {
    n_bytes += n_bytes == 0;
    void *memory = side->kernels->alloc(side->ctx, n_bytes);
    if (!memory || side->n_arrays == SIDE_ARRAYS_MAX)
        give_up(side->kernels->name, "no memory for a test's arrays");
    side->n_bytes[side->n_arrays] = n_bytes;
    side->arrays[side->n_arrays++] = memory;
    return memory;
}

void *side_put(struct side *side, const void *from, size_t n_bytes) {
    void *memory = side_take(side, n_bytes);
    if (from) {
        side->kernels->put(side->ctx, memory, from, n_bytes);
        return memory;
    }
    void *poison = malloc(n_bytes);
    if (!poison)
        give_up("poison", "no memory");
    memset(poison, 0xee, n_bytes);
    side->kernels->put(side->ctx, memory, poison, n_bytes);
    free(poison);
    return memory;
}

void side_copy(struct side *side, void *to, const void *from, size_t n_bytes) {
    void *bytes = malloc(n_bytes);
    if (!bytes)
        give_up("a copy", "no memory");
    side->kernels->get(side->ctx, bytes, from, n_bytes);
    side->kernels->put(side->ctx, to, bytes, n_bytes);
    free(bytes);
}

float *side_floats(struct side *side, const float *from, size_t n) {
    return side_put(side, from, n * sizeof *from);
}

static struct weight pack(struct side *side, const struct weight_source *source) {
    struct error error = {0};
    struct weight weight;
    size_t n_bytes = side->kernels->weight_size(source, &error);
    if (n_bytes == 0)
        give_up("packing", error.text);
    void *memory = side_take(side, n_bytes);
    if (side->kernels->weight_pack(side->ctx, source, memory, &weight, &error) != STATUS_OK)
        give_up("packing", error.text);
    return weight;
}

struct weight side_pack(struct side *side, const struct weight_tensor *tensor) {
    struct weight_part part = {.tensor = tensor, .n_rows = tensor->n, .out_step = 1};
    return pack(side, &(struct weight_source){.parts = &part, .n_parts = 1, .k = tensor->k});
}

struct weight side_pack_pair(struct side *side, const struct weight_tensor *a,
                             const struct weight_tensor *b) {
    struct weight_part parts[] = {{.tensor = a, .n_rows = a->n, .out_step = 2},
                                  {.tensor = b, .n_rows = b->n, .out_begin = 1, .out_step = 2}};
    return pack(side, &(struct weight_source){.parts = parts, .n_parts = 2, .k = a->k});
}

void side_embed(struct side *side, float *out, const struct weight *table, const uint32_t *ids,
                uint32_t n, uint32_t id_begin) {
    uint32_t positions[SIDE_EMBEDS], blocks[1] = {0}, begin[] = {0, n};
    for (uint32_t i = 0; i < SIDE_EMBEDS; i++)
        positions[i] = i;
    struct kernels_step step = {.batch = {.n_tokens = n,
                                          .n_seqs = 1,
                                          .ids = ids,
                                          .positions = positions,
                                          .seq_begin = begin,
                                          .block_tables = blocks,
                                          .block_table_stride = 1}};
    side->kernels->step_begin(side->ctx, &step);
    side->kernels->embed(side->ctx, out, table, &step.batch, id_begin);
    side_end_step(side);
}

void side_end_step(struct side *side) {
    if (side->kernels->step_end(side->ctx) != STATUS_OK)
        give_up(side->kernels->name, "the device failed");
}
