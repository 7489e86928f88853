/* Qwen, the first generation: Llama's shape with fused q|k|v, of which w2 is the gate and w1 is up,
 * logn attention and a rotary base that depends on the prompt's length (Bai et al. 2023; the rules
 * are those of the model's own code). */
#include "worker/family/decoder.h"

extern const struct family family_qwen;

static const struct decoder_names names = {
    .embedding = "transformer.wte",
    .norm = "transformer.ln_f",
    .head = "lm_head",
    .layer = "transformer.h.%u.",
    .attn_norm = "ln_1",
    .qkv = "attn.c_attn",
    .out = "attn.c_proj",
    .ffn_norm = "ln_2",
    .gate = "mlp.w2",
    .up = "mlp.w1",
    .down = "mlp.c_proj",
};

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_qwen, &names, false, model, error);
}

const struct family family_qwen = {
    .name = "qwen",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
