/* tools/kbench/parts.h: attention and mixtures of experts by themselves, at the shapes of real
 * models. */
#pragma once

#include "tools/kbench/machine.h"

struct attend_shape {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t n_seqs;
    uint32_t n_tokens; /* of each sequence, from `position` on */
    uint32_t position;
    enum kv_format format;
};

/* Seconds of one attend(), median. Aborts when there is no memory. */
double parts_time_attend(const struct subject *subject, const struct attend_shape *shape);

struct moe_shape {
    uint32_t n_experts;
    uint32_t n_active;
    uint32_t dim;
    uint32_t expert_dim;
};

struct moe_figures {
    double seconds;        /* of one moe_ffn(), median */
    double linear_seconds; /* of the same products called one by one */
    double bytes;          /* weights of the experts that are read */
};

struct kbench_moe;

/* A mixture with random weights of a format; experts share memory beyond what leaves the caches.
 * For at most max_tokens. NULL when the backend cannot be opened. */
struct kbench_moe *parts_moe_open(const struct subject *subject, const struct moe_shape *shape,
                                  const char *format, uint32_t max_tokens);
void parts_moe_close(struct kbench_moe *moe);
struct moe_figures parts_time_moe(struct kbench_moe *moe, uint32_t n_tokens);
