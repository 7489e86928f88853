/* tools/kbench/model.h: the operations of one step of a Llama-shaped model with random weights, as
 * an engine would call them: a model's speed without a model. */
#pragma once

#include "tools/kbench/machine.h"

struct model_shape {
    const char *name;
    const char *format; /* of the layers' matrices */
    const char *head_format;
    uint32_t n_layers;
    uint32_t dim;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t ffn;
    uint32_t n_vocab;
};

extern const struct model_shape model_smollm2;

struct model;

/* For at most max_seqs sequences of max_context tokens. NULL after a line on standard error. */
struct model *model_open(const struct model_shape *shape, const struct subject *subject,
                         uint32_t max_seqs, uint32_t max_context, uint32_t max_tokens);
void model_close(struct model *model);

/* One step: n_seqs sequences, each n_tokens tokens from `position` on; one token
 * chosen for each. */
void model_step(struct model *model, uint32_t n_seqs, uint32_t n_tokens, uint32_t position);

/* Seconds spent in each operation since the last call; names in model_op_names. */
#define MODEL_OPS 10
extern const char *const model_op_names[MODEL_OPS];
void model_times(struct model *model, double seconds[MODEL_OPS]);
