/* kernels/limits.h: the checks of a context's limits that backends share. */
#pragma once

#include "kernels/kernels.h"

#define HEAD_DIM_MIN 8
#define HEAD_DIM_MAX 256
#define DIM_MAX      (1u << 20)
#define TOKENS_MAX   (1u << 20)
#define VOCAB_MAX    (1u << 24)
#define THREADS_MAX  256
#define EXPERTS_MAX  1024 /* of one mixture; families refuse more */

/* Every limit is set, within its bound, and fits the kernels. STATUS_INVALID or _UNSUPPORTED. */
NODISCARD enum status limits_check(const struct kernels_options *options, struct error *error);

/* Query heads that share a head of keys. */
static inline uint32_t limits_heads_in_group(const struct kernels_limits *limits) {
    return limits->n_heads / limits->n_kv_heads;
}

/* Whether keys and values are those that the context was opened for. */
static inline bool limits_are_of(const struct kernels_limits *limits, const struct kernels_kv *kv) {
    return kv->n_kv_heads == limits->n_kv_heads && kv->head_dim == limits->head_dim &&
           kv->format == limits->kv_format;
}
