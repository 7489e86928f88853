/* worker/family/decoder.h: what all transformer families here share: pre-norm layers of attention
 * and gated feed-forward, in one forward pass.
 *
 * A family is a table of names (struct decoder_names) and a row of family_table; what differs in
 * kind (biases, norms of heads, ALiBi, windows, experts) is read from struct model_config. Every
 * rank of a tensor-parallel group opens its own share: rows of q, k, v, gate and up, the same
 * columns of the two projections back, and rows of the vocabulary. Two sums a layer and one after
 * the embedding go over the ranks. Engine thread of the rank only. */
#pragma once

#include "model/config/config.h"
#include "worker/family/family.h"
#include "worker/family/rotary.h"
#include "worker/family/shard.h"

#include <stdint.h>

/* Names of a checkpoint's tensors, without ".weight" and ".bias". Those of a layer come behind
 * `layer`, those of an expert behind `layer` and `expert`; both hold one %u. NULL: the family has
 * no such tensor. */
struct decoder_names {
    const char *embedding;
    const char *norm;
    const char *head;
    const char *layer;
    const char *attn_norm;
    const char *qkv; /* all in one, rows q | k | v; else the three below */
    const char *q;
    const char *k;
    const char *v;
    const char *q_norm; /* when config.qk_norm */
    const char *k_norm;
    const char *out;
    const char *ffn_norm;
    const char *gate_up; /* both in one, rows gate | up; else the two below */
    const char *gate;
    const char *up;
    const char *down;
    const char *router; /* the rest when config.moe.n_experts */
    const char *expert;
    const char *expert_gate;
    const char *expert_up;
    const char *expert_down;
    const char *shared_gate;
    const char *shared_up;
    const char *shared_down;
    const char *shared_router; /* (1, dim): how much of the shared expert a token takes */
};

/* The names that most checkpoints of the hubs have, and those of all GGUF files. decoder_names.c */
extern const struct decoder_names decoder_names_usual;
extern const struct decoder_names decoder_names_gguf;

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
    float *slopes;                 /* owned (heads.n) or NULL */
    float *head_scale;             /* owned (vocab.n) or NULL */
    struct decoder_layer layers[]; /* (config.n_layers) */
};

/* The hooks of struct family. `gguf`: whether the family is read from GGUF files too; `names` are
 * those of its hub checkpoints. */
NODISCARD enum status decoder_open(const struct family_options *options,
                                   const struct family *family, const struct decoder_names *names,
                                   bool gguf, struct family_model **model, struct error *error);
void decoder_close(struct family_model *model);
size_t decoder_scratch_bytes(const struct family_model *model, uint32_t n_tokens, uint32_t n_rows);
NODISCARD enum status decoder_prepare(struct family_model *model, const struct kernels *kernels,
                                      struct kernels_ctx *ctx, struct comm *comm,
                                      struct error *error);
void decoder_forward(struct family_model *model, const struct family_step *step);

/* decoder_list.c: lists all slots of this rank. */
NODISCARD enum status decoder_list(struct decoder *decoder, const struct model *model,
                                   struct error *error);
