/* tools/kbench/shapes.h: keys and rotations of a Llama-shaped layer, of memory that is there. */
#pragma once

#include "kernels/kernels.h"

/* One layer of the KV cache, whose blocks begin at `base`. */
static inline struct kernels_kv shapes_kv(void *base, uint32_t n_kv_heads, uint32_t head_dim,
                                          enum kv_format format) {
    return (struct kernels_kv){.base = base,
                               .block_bytes = (size_t)2 * n_kv_heads * head_dim * KV_BLOCK_TOKENS *
                                              kv_format_bytes(format),
                               .n_kv_heads = n_kv_heads,
                               .head_dim = head_dim,
                               .format = format};
}

/* Whole heads turn, all sequences by one table. */
static inline struct rope shapes_rope(uint32_t head_dim, const float *cosines, const float *sines) {
    return (struct rope){
        .layout = ROPE_HALF_SPLIT, .dims = head_dim, .n_variants = 1, .cos = cosines, .sin = sines};
}
