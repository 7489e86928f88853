/* kernels/cpu/quantize.h: a tile of activations as integers (the layout: path.h), and a path's table.
 * Compiled once per path, after its quantize_group() and all else. */
#pragma once

static void path_quantize(uint8_t *tile, const float *x, uint32_t n_rows, uint32_t k) {
    for (uint32_t g = 0; g < k / GROUP; g++, tile += (size_t)n_rows * TILE_ROW_BYTES) {
        float *scales = (float *)(tile + (size_t)n_rows * GROUP);
        float *sums = scales + n_rows;
        int32_t *corrections = (int32_t *)(sums + n_rows);
        int32_t *firsts = corrections + n_rows;
        for (uint32_t r = 0; r < n_rows; r++) {
            int32_t first;
            int32_t sum = quantize_group((int8_t *)tile + (size_t)r * GROUP, &scales[r],
                                         x + (size_t)r * k + (size_t)g * GROUP, &first);
            sums[r] = scales[r] * (float)sum;
            corrections[r] = -128 * sum;
            firsts[r] = -128 * first;
        }
    }
}

/* What this path is made of, all of it compiled above. */
#define PATH_TABLE(its_name, rows)                                                                 \
    {                                                                                              \
        .name = (its_name), .tile_rows = (rows), .quantize = path_quantize,                        \
        .round_bf16 = path_round_bf16, .gemm = path_gemm, .norm = path_norm,                       \
        .silu_mul = path_silu_mul, .add_scaled = path_add_scaled, .softmax = path_softmax,         \
        .rope_kv = path_rope_kv, .attend = path_attend, .mask = path_mask,                         \
        .block_maxima = path_block_maxima, .block_exps = path_block_exps,                          \
        .find_at_least = path_find_at_least                                                        \
    }
