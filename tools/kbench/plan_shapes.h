/* tools/kbench/plan_shapes.h: the reference models and the steps that `kbench --plan` looks at. */
#pragma once

#include <stdint.h>

struct plan_shape {
    const char *name, *format, *head_format;
    uint32_t dim, n_heads, n_kv_heads, head_dim, inner, n_layers, n_vocab;
    uint32_t n_experts, n_active, expert_inner;
};
#define PLAN_SHAPES 8
extern const struct plan_shape plan_shapes[PLAN_SHAPES];

struct plan_load {
    const char *name;
    uint32_t n_seqs, n_tokens, position; /* tokens of each sequence, the first one's position */
};
#define PLAN_LOADS      4
#define PLAN_TOKENS_MAX 2048
#define PLAN_SEQS_MAX   64
extern const struct plan_load plan_loads[PLAN_LOADS];
