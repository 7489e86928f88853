/* model/weights/decoder_names.h: how checkpoints call the tensors of a decoder. Constant data. */
#pragma once

#include "model/tensor.h"

#include <stdint.h>

struct model_config;

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

/* Those in the files of a model. NULL: it has no files, or its family is not read from files of that kind. */
const struct decoder_names *decoder_names_of(const struct model_config *config);

typedef char decoder_stem[TENSOR_NAME_MAX + 1];

/* Writes `name` with the layer's prefix before it, or that of an expert of the layer. */
void decoder_names_layer(const struct decoder_names *names, uint32_t layer, const char *name,
                         decoder_stem stem);
void decoder_names_expert(const struct decoder_names *names, uint32_t layer, uint32_t expert,
                          const char *name, decoder_stem stem);
