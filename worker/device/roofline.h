/* worker/device/roofline.h: how long a step takes on a device, from the shapes of a model alone.
 *
 * After Williams, Waterman and Patterson 2009 (Roofline): each part of a step is bound by a rate of the device, of
 * which a program reaches a share (struct efficiencies). Each term stands by itself, so that a row of a table can say
 * what decides it. Pure; no allocation. */
#pragma once

#include "worker/device/device.h"
#include "worker/device/efficiencies.h"

#include <stdint.h>

/* Numbers of a model as its config.json has them. */
struct roofline_shape {
    uint32_t n_layers;
    uint32_t dim;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t ffn_dim; /* inner width of the feed-forward part that all tokens take; 0: none */
    uint32_t n_vocab;
    uint32_t n_experts; /* 0: none */
    uint32_t n_active;  /* experts of a token */
    uint32_t expert_dim;
    uint32_t bits;  /* of a weight of the layers: 16, 8 or 4 */
    uint32_t group; /* weights that share a scale; 0: there are no scales */
};

/* What the terms need of a model; of the whole, however it is cut. */
struct roofline_model {
    uint32_t n_layers;
    uint32_t dim;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    double n_weights; /* of all layers' matrices that every token passes */
    uint32_t n_experts;
    uint32_t n_active;
    double n_expert;               /* weights of one expert, all layers together */
    double n_head;                 /* of the output head */
    double n_table;                /* of the token embedding, of which a step reads a row a token */
    enum efficiency_format format; /* of the layers; the head has 16 bits */
    double weight_bytes;           /* of a weight of the layers, scales included */
    double kv_bytes;               /* of a token of the KV cache, all layers and heads */
};

struct roofline {
    struct roofline_model model;
    const struct device *device; /* borrowed */
    struct efficiencies efficiencies;
    uint32_t tp; /* devices that share the model */
};

/* What a step has to compute. */
struct roofline_step {
    uint32_t n_tokens;  /* decode rows included */
    uint32_t n_sampled; /* rows of the output head */
    uint32_t n_seqs;
    double n_keys;  /* tokens of KV that decode rows read, all sequences together */
    double n_pairs; /* of a query and a key, of the prompts' tokens */
};

enum roofline_term {
    ROOFLINE_WEIGHTS,  /* reading the layers' matrices, */
    ROOFLINE_PRODUCTS, /* and computing with them: the two overlap */
    ROOFLINE_HEAD,     /* the output head, either way */
    ROOFLINE_KV,       /* reading KV for decode rows */
    ROOFLINE_ATTEND,   /* attention of prompts */
    ROOFLINE_SUMS,     /* between the devices that share the model */
    ROOFLINE_LAYERS,   /* small kernels of each layer */
    ROOFLINE_STEP,     /* once a step, of any contents */
    ROOFLINE_SEQS,     /* for each sequence of the step */
    ROOFLINE_TERMS
};
const char *roofline_term_name(enum roofline_term term);

/* Microseconds of each term by itself, and of the step. */
struct roofline_terms {
    double us[ROOFLINE_TERMS];
    double total_us; /* of WEIGHTS and PRODUCTS the larger counts, or what lies a little above it */
};

void roofline_model(struct roofline_model *model, const struct roofline_shape *shape);
void roofline_terms(struct roofline_terms *terms, const struct roofline *roofline,
                    const struct roofline_step *step);

/* Adds up what decides: each term of `terms`, but of weights and products the larger alone. */
void roofline_add(double us[ROOFLINE_TERMS], const struct roofline_terms *terms);

/* Bytes of all weights, head and embedding included, of the whole model. */
double roofline_weight_bytes(const struct roofline_model *model);

/* Tokens of KV that a group of `tp` devices holds beside its weights, of `share` of each device's memory; 0: none.
 * spare_bytes: what else each device needs, activations for example. */
double roofline_kv_tokens(const struct roofline *roofline, double share, double spare_bytes);
