#include "kernels/limits.h"

static enum status kernels_limits_bounded(const char *name, uint32_t value, uint32_t max,
                                          struct error *error) {
    if (value == 0 || value > max)
        return error_field(error, STATUS_INVALID, name, "%s is %u; 1 to %u is possible", name,
                           value, max);
    return STATUS_OK;
}

enum status limits_check(const struct kernels_options *options, struct error *error) {
    const struct kernels_limits *limits = &options->limits;
    TRY(kernels_limits_bounded("max_tokens", limits->max_tokens, TOKENS_MAX, error));
    TRY(kernels_limits_bounded("max_seqs", limits->max_seqs, TOKENS_MAX, error));
    TRY(kernels_limits_bounded("max_context", limits->max_context, 1u << 30, error));
    TRY(kernels_limits_bounded("max_dim", limits->max_dim, DIM_MAX, error));
    TRY(kernels_limits_bounded("n_vocab", limits->n_vocab, VOCAB_MAX, error));
    TRY(kernels_limits_bounded("n_heads", limits->n_heads, 1u << 16, error));
    TRY(kernels_limits_bounded("n_kv_heads", limits->n_kv_heads, limits->n_heads, error));
    TRY(kernels_limits_bounded("head_dim", limits->head_dim, HEAD_DIM_MAX, error));
    if (limits->n_heads % limits->n_kv_heads != 0)
        return error_set(error, STATUS_INVALID, "%u query heads over %u key-value heads",
                         limits->n_heads, limits->n_kv_heads);
    if (limits->head_dim < HEAD_DIM_MIN || limits->head_dim % 2 != 0)
        return error_field(error, STATUS_UNSUPPORTED, "head_dim",
                           "head_dim is %u; even numbers from %d on are possible", limits->head_dim,
                           HEAD_DIM_MIN);
    if (options->n_threads > THREADS_MAX)
        return error_set(error, STATUS_INVALID, "%u threads; at most %d are possible",
                         options->n_threads, THREADS_MAX);
    return STATUS_OK;
}
