/* tests/support/weights_cli.c: packs one tensor and writes its weights back, for scripts.
 *
 *   weights_cli BACKEND FORMAT N K GROUP < values, scales, zeros, groups > float32 (n, k)
 *
 * GROUP is 0 where the format has none. The list of groups (int32, k) may be left away. */
#include "base/exit.h"
#include "kernels/quant/quant.h"

#include <stdio.h>
#include <stdlib.h>

static void fail(const char *reason) {
    fprintf(stderr, "weights_cli: %s\n", reason);
    exit(EXIT_FAILURE);
}

/* NULL where nothing is left to read. */
static void *read_array(size_t n_bytes) {
    void *bytes = malloc(n_bytes ? n_bytes : 1);
    size_t n = bytes ? fread(bytes, 1, n_bytes, stdin) : 0;
    if (n == n_bytes && n > 0)
        return bytes;
    free(bytes);
    if (n > 0)
        fail("an array is too short");
    return NULL;
}

static void write_rows(const struct kernels *kernels, const struct weight_source *source,
                       uint32_t n) {
    struct kernels_options options = {.n_threads = 2,
                                      .limits = {.max_tokens = 1,
                                                 .max_seqs = 1,
                                                 .max_context = 16,
                                                 .max_dim = source->k,
                                                 .n_vocab = 16,
                                                 .n_heads = 1,
                                                 .n_kv_heads = 1,
                                                 .head_dim = 16,
                                                 .kv_format = KV_F16}};
    struct kernels_ctx *ctx;
    struct weight weight;
    struct error error;
    if (kernels->open(&options, &ctx, &error) != STATUS_OK)
        fail(error.text);
    size_t n_bytes = kernels->weight_size(source, &error);
    void *memory = n_bytes ? kernels->alloc(ctx, n_bytes) : NULL;
    float *row = malloc(source->k * sizeof *row);
    float *at_row = kernels->alloc(ctx, source->k * sizeof *row);
    if (n_bytes == 0 || kernels->weight_pack(ctx, source, memory, &weight, &error) != STATUS_OK)
        fail(error.text);
    for (uint32_t id = 0; row && at_row && id < n; id++) {
        static const uint32_t zero, seq_begin[] = {0, 1};
        struct kernels_step step = {.batch = {.n_tokens = 1,
                                              .n_seqs = 1,
                                              .ids = &id,
                                              .positions = &zero,
                                              .seq_begin = seq_begin,
                                              .block_tables = &zero,
                                              .block_table_stride = 1}};
        kernels->step_begin(ctx, &step);
        kernels->embed(ctx, at_row, &weight, &step.batch, 0);
        if (kernels->step_end(ctx) != STATUS_OK)
            fail("the device failed");
        kernels->get(ctx, row, at_row, source->k * sizeof *row);
        if (fwrite(row, sizeof *row, source->k, stdout) != source->k)
            fail("cannot write");
    }
    free(row);
    kernels->dealloc(ctx, at_row, source->k * sizeof *row);
    kernels->dealloc(ctx, memory, n_bytes);
    kernels->close(ctx);
}

int main(int argc, char **argv) {
    const struct kernels *kernels = argc == 6 ? kernels_find(argv[1]) : NULL;
    if (!kernels) {
        fprintf(stderr, "usage: weights_cli BACKEND FORMAT N K GROUP\n");
        return EXIT_CONFIG;
    }
    struct weight_tensor tensor = {.format = argv[2],
                                   .n = (uint32_t)strtoul(argv[3], NULL, 10),
                                   .k = (uint32_t)strtoul(argv[4], NULL, 10),
                                   .group = (uint32_t)strtoul(argv[5], NULL, 10)};
    struct quant_sizes sizes;
    struct error error;
    if (quant_sizes(&tensor, &sizes, &error) != STATUS_OK)
        fail(error.text);
    tensor.n_value_bytes = sizes.values;
    tensor.n_scale_bytes = sizes.scales;
    tensor.n_zero_bytes = sizes.zeros;
    tensor.values = read_array(sizes.values);
    tensor.scales = read_array(sizes.scales);
    tensor.zeros = read_array(sizes.zeros);
    tensor.group_of = tensor.group ? read_array((size_t)tensor.k * 4) : NULL;
    struct weight_part part = {.tensor = &tensor, .n_rows = tensor.n, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = tensor.k};
    write_rows(kernels, &source, tensor.n);
    free((void *)(uintptr_t)tensor.values);
    free((void *)(uintptr_t)tensor.scales);
    free((void *)(uintptr_t)tensor.zeros);
    free((void *)(uintptr_t)tensor.group_of);
    return EXIT_SUCCESS;
}
