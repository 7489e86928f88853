/* ChatGLM3 (and ChatGLM2, GLM-4 of the same layout): two key-value heads, biases on fused q|k|v,
 * fused gate|up, rotary positions on neighbouring pairs of the first half of each head (Du et al.
 * 2022; the layout is that of the model's own code). */
#include "worker/family/decoder.h"

extern const struct family family_chatglm;

static const struct decoder_names names = {
    .embedding = "transformer.embedding.word_embeddings",
    .norm = "transformer.encoder.final_layernorm",
    .head = "transformer.output_layer",
    .layer = "transformer.encoder.layers.%u.",
    .attn_norm = "input_layernorm",
    .qkv = "self_attention.query_key_value",
    .out = "self_attention.dense",
    .ffn_norm = "post_attention_layernorm",
    .gate_up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
};

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_chatglm, &names, false, model, error);
}

const struct family family_chatglm = {
    .name = "chatglm",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
