#include "tests/support/tiny_hub.h"

#include "model/model.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The usual keys of most families; heads 8 over 2, 16 wide. */
#define USUAL                                                                                      \
    "\"hidden_size\":128,\"num_hidden_layers\":2,\"num_attention_heads\":8,"                       \
    "\"num_key_value_heads\":2,\"intermediate_size\":192,\"max_position_embeddings\":512,"         \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,\"hidden_act\":\"silu\",\"vocab_size\":301"

static const struct {
    const char *family;
    const char *keys;
} families[] = {
    {"llama", "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
              "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
              "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":64}," USUAL},
    {"qwen2", "\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\"," USUAL},
    {"qwen3", "\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\","
              "\"attention_bias\":false,\"head_dim\":32," USUAL},
    {"qwen2_moe", "\"architectures\":[\"Qwen2MoeForCausalLM\"],\"model_type\":\"qwen2_moe\","
                  "\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":64,"
                  "\"shared_expert_intermediate_size\":96,\"norm_topk_prob\":false,"
                  "\"decoder_sparse_step\":1," USUAL},
    {"qwen3_moe", "\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\","
                  "\"num_experts\":5,\"num_experts_per_tok\":3,\"moe_intermediate_size\":64,"
                  "\"norm_topk_prob\":true,\"decoder_sparse_step\":1,\"mlp_only_layers\":[],"
                  "\"attention_bias\":false,\"head_dim\":32," USUAL},
    {"qwen", "\"architectures\":[\"QWenLMHeadModel\"],\"model_type\":\"qwen\",\"hidden_size\":128,"
             "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"kv_channels\":32,"
             "\"intermediate_size\":384,\"seq_length\":48,\"max_position_embeddings\":512,"
             "\"layer_norm_epsilon\":1e-6,\"rotary_emb_base\":10000,\"rotary_pct\":1.0,"
             "\"use_dynamic_ntk\":true,\"use_logn_attn\":true,\"no_bias\":true,"
             "\"vocab_size\":301"},
    {"chatglm", "\"architectures\":[\"ChatGLMModel\"],\"model_type\":\"chatglm\","
                "\"hidden_size\":128,\"num_layers\":2,\"num_attention_heads\":4,"
                "\"multi_query_attention\":true,\"multi_query_group_num\":2,\"kv_channels\":32,"
                "\"ffn_hidden_size\":160,\"padded_vocab_size\":301,\"seq_length\":512,"
                "\"layernorm_epsilon\":1e-5,\"add_qkv_bias\":true,\"add_bias_linear\":false,"
                "\"rmsnorm\":true,\"post_layer_norm\":true,\"original_rope\":true,"
                "\"apply_residual_connection_post_layernorm\":false"},
    {"baichuan", "\"architectures\":[\"BaichuanForCausalLM\"],\"model_type\":\"baichuan\","
                 "\"hidden_size\":192,\"num_hidden_layers\":2,\"num_attention_heads\":6,"
                 "\"intermediate_size\":160,\"model_max_length\":512,\"rms_norm_eps\":1e-6,"
                 "\"hidden_act\":\"silu\",\"vocab_size\":301"},
};

static const struct {
    const char *name;
    const char *keys;
} formats[] = {
    {"f32", "\"torch_dtype\":\"float32\""},
    {"f16", "\"torch_dtype\":\"float16\""},
    {"bf16", "\"torch_dtype\":\"bfloat16\""},
    {"awq", "\"torch_dtype\":\"float16\",\"quantization_config\":{\"quant_method\":\"awq\","
            "\"bits\":4,\"group_size\":32,\"zero_point\":true,\"version\":\"gemm\"}"},
    {"gptq4", "\"torch_dtype\":\"float16\",\"quantization_config\":{\"quant_method\":\"gptq\","
              "\"bits\":4,\"group_size\":32,\"desc_act\":false,\"sym\":true}"},
    {"gptq8", "\"torch_dtype\":\"float16\",\"quantization_config\":{\"quant_method\":\"gptq\","
              "\"bits\":8,\"group_size\":32,\"desc_act\":false,\"sym\":true}"},
};

struct model *tiny_hub_open(const char *family, const char *format) {
    const char *keys = NULL, *kind = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].family, family) == 0)
            keys = families[i].keys;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, format) == 0)
            kind = formats[i].keys;
    ck_assert_msg(keys && kind, "no tiny model of %s in %s", family, format);
    char folder[] = "/tmp/tandem-hub-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "{%s,%s}\n", keys, kind);
    ck_assert_int_eq(fclose(file), 0);
    struct model *model;
    struct error error;
    enum status status =
        model_open(folder, &(struct model_options){.dummy = true, .seed = 7}, &model, &error);
    unlink(path);
    rmdir(folder);
    ck_assert_msg(status == STATUS_OK, "%s %s: %s", family, format, error.text);
    return model;
}
