/* Baichuan and Baichuan 2: Llama's shape with fused q|k|v; the 13B models take ALiBi instead of
 * rotary positions, and Baichuan 2 normalises the rows of its output head (Yang et al. 2023). */
#include "worker/family/decoder.h"

extern const struct family family_baichuan;

static const struct decoder_names names = {
    .embedding = "model.embed_tokens",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.%u.",
    .attn_norm = "input_layernorm",
    .qkv = "self_attn.W_pack",
    .out = "self_attn.o_proj",
    .ffn_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_baichuan, &names, false, model, error);
}

const struct family family_baichuan = {
    .name = "baichuan",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
