/* kernels/cpu/quantize.h: a tile of activations as integers (the layout: path.h), and a path's table.
 * Compiled once per path, after its quantize_group() and all else. */
#pragma once

/* One group of row r of the n_rows that the tile has. */
static void quantize_row(uint8_t *tile, uint32_t n_rows, uint32_t r, const float *x) {
    float *scales = (float *)(tile + (size_t)n_rows * GROUP);
    float *sums = scales + n_rows;
    int32_t *corrections = (int32_t *)(sums + n_rows);
    int32_t *firsts = corrections + n_rows;
    int32_t first;
    int32_t sum = quantize_group((int8_t *)tile + (size_t)r * GROUP, &scales[r], x, &first);
    sums[r] = scales[r] * (float)sum;
    corrections[r] = -128 * sum;
    firsts[r] = -128 * first;
}

/* The same of what row r leaves, as a row behind those of the first terms. */
static void quantize_rest(uint8_t *tile, uint32_t n_rows, uint32_t r, const float *x) {
    const int8_t *q = (const int8_t *)tile + (size_t)r * GROUP;
    float scale = ((const float *)(tile + (size_t)n_rows * GROUP))[r];
    float rest[GROUP];
    for (uint32_t i = 0; i < GROUP; i++)
        rest[i] = numbers_rest(x[i], scale, q[i]);
    quantize_row(tile, n_rows, n_rows / 2 + r, rest);
}

static void path_quantize(uint8_t *tile, const float *x, uint32_t n_rows, uint32_t k, bool fine) {
    uint32_t n_terms = fine ? 2 * n_rows : n_rows;
    for (uint32_t g = 0; g < k / GROUP; g++, tile += (size_t)n_terms * TILE_ROW_BYTES)
        for (uint32_t r = 0; r < n_rows; r++) {
            const float *from = x + (size_t)r * k + (size_t)g * GROUP;
            quantize_row(tile, n_terms, r, from);
            if (fine)
                quantize_rest(tile, n_terms, r, from);
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
