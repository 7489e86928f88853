/* worker/family/decoder.h: what all transformer families here share: pre-norm layers of attention
 * and gated feed-forward, in one forward pass.
 *
 * A family has names of its tensors (model/weights/decoder_names.h); what differs in
 * kind (biases, norms of heads, ALiBi, windows, experts) is read from struct model_config. Every
 * rank of a tensor-parallel group opens its own share: rows of q, k, v, gate and up, the same
 * columns of the two projections back, and rows of the vocabulary. Two sums a layer and one after
 * the embedding go over the ranks. Engine thread of the rank only. */
#pragma once

#include "model/weights/config/config.h"
#include "model/weights/decoder_names.h"
#include "worker/family/constants.h"
#include "worker/family/family.h"
#include "worker/family/rotary.h"
#include "worker/family/shard.h"

#include <stdint.h>

/* Layers on the same input, in one matrix where the checkpoint's formats allow it, else one beside
 * the other: part i writes from column begin[i] on. */
#define JOINED_MAX 3
struct joined {
    uint32_t n_parts;
    struct weight weights[JOINED_MAX];
    uint32_t begin[JOINED_MAX];
};

/* silu(gate x) * (up x), then back. */
struct feed_forward {
    struct joined gate_up; /* one matrix of alternating rows, or gate and up */
    struct weight down;
    struct range inner; /* this rank's part of the inner width */
};

struct experts {
    struct weight router;        /* (n_experts, dim) */
    struct weight *gate_up;      /* owned (n_experts), rows alternate */
    struct weight *down;         /* owned (n_experts) */
    struct feed_forward shared;  /* when config.moe.shared_dim */
    struct weight shared_router; /* (1, dim) */
};

struct decoder_layer {
    const float *attn_norm; /* (dim) */
    const float *q_norm;    /* (head_dim) or NULL */
    const float *k_norm;
    struct joined qkv;
    struct weight out;
    const float *ffn_norm; /* (dim) */
    struct feed_forward ffn;
    struct experts *experts; /* owned, or NULL: ffn it is */
};

struct decoder {
    struct family_model head;
    struct model_config config;
    const struct decoder_names *names;
    struct shard shard;
    const struct kernels *kernels; /* borrowed */
    struct kernels_ctx *ctx;       /* borrowed */
    struct comm *comm;             /* borrowed, or NULL */
    struct range expert_inner;     /* this rank's part of an expert's width */
    uint32_t ffn_max;              /* widest inner activation */
    uint32_t split_max;            /* widest where gate and up are two matrices; 0: nowhere */
    struct weight embedding;       /* (vocab.n, dim) */
    struct weight own_head;        /* (vocab.n, dim) unless tied */
    const float *norm;             /* (dim) */
    struct rotary rotary;
    struct constants slopes;       /* (heads.n) or none */
    struct constants head_scale;   /* (vocab.n) or none */
    uint32_t max_tokens;           /* of a step */
    struct decoder_layer layers[]; /* (config.n_layers) */
};

/* decoder_forward.c: two hooks of family_decoder (decoder.c). */
size_t decoder_scratch_bytes(const struct family_model *model, const struct kernels *kernels,
                             uint32_t n_tokens, uint32_t n_rows);
void decoder_forward(struct family_model *model, const struct family_step *step);

/* decoder_list.c: lists all slots of this rank. */
NODISCARD enum status decoder_list(struct decoder *decoder, const struct model *model,
                                   struct error *error);
