#include "model/weights/decoder_names.h"

#include "model/weights/config/config.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What most checkpoints of the hubs have. */
static const struct decoder_names usual = {
    .embedding = "model.embed_tokens",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.%u.",
    .attn_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .out = "self_attn.o_proj",
    .ffn_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .router = "mlp.gate",
    .expert = "mlp.experts.%u.",
    .expert_gate = "gate_proj",
    .expert_up = "up_proj",
    .expert_down = "down_proj",
    .shared_gate = "mlp.shared_expert.gate_proj",
    .shared_up = "mlp.shared_expert.up_proj",
    .shared_down = "mlp.shared_expert.down_proj",
    .shared_router = "mlp.shared_expert_gate",
};

/* Experts stand in one three-dimensional tensor there, which is not read. */
static const struct decoder_names gguf = {
    .embedding = "token_embd",
    .norm = "output_norm",
    .head = "output",
    .layer = "blk.%u.",
    .attn_norm = "attn_norm",
    .q = "attn_q",
    .k = "attn_k",
    .v = "attn_v",
    .q_norm = "attn_q_norm",
    .k_norm = "attn_k_norm",
    .out = "attn_output",
    .ffn_norm = "ffn_norm",
    .gate = "ffn_gate",
    .up = "ffn_up",
    .down = "ffn_down",
};

/* Fused q|k|v; w2 is the gate and w1 is up. */
static const struct decoder_names qwen = {
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

/* Fused q|k|v and gate|up. */
static const struct decoder_names chatglm = {
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

/* Fused q|k|v. */
static const struct decoder_names baichuan = {
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

/* The names in a family's hub checkpoints, and whether its GGUF files are read too. */
static const struct {
    const char *family;
    const struct decoder_names *names;
    bool gguf;
} families[] = {
    {"llama", &usual, true},      {"qwen", &qwen, false},         {"qwen2", &usual, true},
    {"qwen3", &usual, true},      {"qwen2_moe", &usual, false},   {"qwen3_moe", &usual, false},
    {"chatglm", &chatglm, false}, {"baichuan", &baichuan, false},
};

const struct decoder_names *decoder_names_of(const struct model_config *config) {
    bool from_gguf = config->files == CONFIG_FILES_GGUF;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].family, config->family) == 0)
            return !from_gguf ? families[i].names : families[i].gguf ? &gguf : NULL;
    return NULL;
}

/* The pattern's %u becomes the number. */
static void decoder_names_fill(const char *pattern, uint32_t number, const char *name,
                               decoder_stem stem) {
    const char *at = strstr(pattern, "%u");
    snprintf(stem, sizeof(decoder_stem), "%.*s%u%s%s", (int)(at - pattern), pattern, number, at + 2,
             name);
}

void decoder_names_layer(const struct decoder_names *names, uint32_t layer, const char *name,
                         decoder_stem stem) {
    decoder_names_fill(names->layer, layer, name, stem);
}

void decoder_names_expert(const struct decoder_names *names, uint32_t layer, uint32_t expert,
                          const char *name, decoder_stem stem) {
    decoder_stem tail;
    decoder_names_fill(names->expert, expert, name, tail);
    decoder_names_fill(names->layer, layer, tail, stem);
}
