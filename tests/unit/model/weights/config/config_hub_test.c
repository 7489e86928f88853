/* config.json of every family: what good ones give, and row M04 of the catalogue: what bad ones are
 * refused with. A case is a family's file with some keys put over it. */
#include "tests/support/suite.h"

#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_config_hub";
const double suite_timeout_s = 60;

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":300,"                       \
    "\"max_position_embeddings\":1000,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\""

static const char llama[] = "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES
                            ",\"bos_token_id\":1,\"eos_token_id\":2,\"torch_dtype\":\"bfloat16\"}";
static const char mistral[] =
    "{\"architectures\":[\"MistralForCausalLM\"]," SIZES ",\"sliding_window\":100}";
static const char qwen2[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"]," SIZES
    ",\"rope_theta\":1000000.0,\"use_sliding_window\":false,\"sliding_window\":100,"
    "\"max_window_layers\":3,\"tie_word_embeddings\":true}";
static const char qwen3[] = "{\"architectures\":[\"Qwen3ForCausalLM\"]," SIZES ",\"head_dim\":32}";
static const char moe[] =
    "{\"architectures\":[\"Qwen2MoeForCausalLM\"]," SIZES
    ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":48,"
    "\"shared_expert_intermediate_size\":80,\"norm_topk_prob\":false,\"decoder_sparse_step\":2,"
    "\"mlp_only_layers\":[3]}";
static const char qwen[] =
    "{\"architectures\":[\"QWenLMHeadModel\"],\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"intermediate_size\":192,\"vocab_size\":300,\"kv_channels\":16,"
    "\"layer_norm_epsilon\":1e-6,\"rotary_emb_base\":10000,\"seq_length\":2048,"
    "\"max_position_embeddings\":8192,\"use_dynamic_ntk\":true,\"use_logn_attn\":true,"
    "\"no_bias\":true,\"rotary_pct\":1.0}";
static const char chatglm[] =
    "{\"architectures\":[\"ChatGLMModel\"],\"num_layers\":2,\"hidden_size\":64,"
    "\"ffn_hidden_size\":96,\"num_attention_heads\":4,\"multi_query_attention\":true,"
    "\"multi_query_group_num\":2,\"kv_channels\":16,\"padded_vocab_size\":300,\"seq_length\":8192,"
    "\"layernorm_epsilon\":1e-5,\"add_qkv_bias\":true,\"add_bias_linear\":false,\"rmsnorm\":true,"
    "\"post_layer_norm\":true,\"original_rope\":true,\"eos_token_id\":2}";
static const char baichuan[] =
    "{\"architectures\":[\"BaichuanForCausalLM\"],\"hidden_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":5,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"model_max_length\":4096,\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\"}";

static json_t *object_of(const char *text) {
    json_error_t wrong;
    json_t *object = text ? json_loads(text, 0, &wrong) : NULL;
    ck_assert_msg(!text || object, "%s: %s", text ? text : "", text ? wrong.text : "");
    return object;
}

static struct remarks remarks; /* of the files that were read last */

struct files {
    const char *config;
    const char *patch;      /* keys put over the config; NULL: none */
    const char *generation; /* NULL: no such file */
    const char *quantize;   /* NULL: no such file */
};

static enum status read_files(const struct files *files, struct model_config *config,
                              struct error *error) {
    static struct config_hub hub;
    memset(&hub, 0, sizeof hub);
    json_t *patch = object_of(files->patch);
    strcpy(hub.config_file, "config.json");
    strcpy(hub.generation_file, "generation_config.json");
    strcpy(hub.quantize_file, "quantize_config.json");
    hub.config = object_of(files->config);
    hub.generation = object_of(files->generation);
    hub.quantize = object_of(files->quantize);
    if (patch)
        json_object_update(hub.config, patch);
    enum status status = config_from_hub(&hub, config, error);
    remarks = hub.remarks;
    json_decref(patch);
    config_hub_fini(&hub);
    return status;
}

static struct model_config read_good(const struct files *files) {
    struct model_config config;
    struct error error;
    enum status status = read_files(files, &config, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return config;
}

static struct model_config read_patched(const char *config, const char *patch) {
    return read_good(&(struct files){.config = config, .patch = patch});
}

START_TEST(llama_gives_its_numbers) {
    struct model_config config = read_patched(llama, NULL);
    ck_assert_str_eq(config.family, "llama");
    ck_assert_int_eq(config.files, CONFIG_FILES_HUB);
    ck_assert_uint_eq(config.n_layers, 4);
    ck_assert_uint_eq(config.dim, 64);
    ck_assert_uint_eq(config.n_heads, 4);
    ck_assert_uint_eq(config.n_kv_heads, 2);
    ck_assert_uint_eq(config.head_dim, 16);
    ck_assert_uint_eq(config.ffn_dim, 96);
    ck_assert_uint_eq(config.n_vocab, 300);
    ck_assert_uint_eq(config.context, 1000);
    ck_assert(config.norm_eps == 1e-5f);
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_HALF_SPLIT);
    ck_assert_uint_eq(config.rope.dims, 16);
    ck_assert(config.rope.theta == 10000);
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_NONE);
    ck_assert(!config.qkv_bias && !config.out_bias && !config.ffn_bias && !config.tied_head);
    ck_assert_uint_eq(config.window, 0);
    ck_assert_str_eq(config.dtype, "bf16");
    ck_assert_uint_eq(config.bos_id, 1);
    ck_assert_uint_eq(config.eos_id, 2);
    config = read_patched(llama, "{\"head_dim\":32,\"attention_bias\":true,\"mlp_bias\":true,"
                                 "\"num_key_value_heads\":null,\"tie_word_embeddings\":true}");
    ck_assert_uint_eq(config.head_dim, 32);
    ck_assert_uint_eq(config.n_kv_heads, 4);
    ck_assert(config.qkv_bias && config.out_bias && config.ffn_bias && config.tied_head);
}
END_TEST

START_TEST(mistral_window_is_absent_null_or_a_number) {
    ck_assert_uint_eq(read_patched(mistral, NULL).window, 100);
    ck_assert_str_eq(read_patched(mistral, NULL).family, "llama");
    ck_assert_uint_eq(read_patched(mistral, "{\"sliding_window\":null}").window, 0);
    ck_assert_uint_eq(read_patched(mistral, "{\"sliding_window\":1000}").window, 0);
    json_t *without = object_of(mistral);
    json_object_del(without, "sliding_window");
    json_object_set_new(without, "max_position_embeddings", json_integer(32768));
    char *text = json_dumps(without, 0);
    ck_assert_uint_eq(read_patched(text, NULL).window, 4096);
    free(text);
    json_decref(without);
}
END_TEST

START_TEST(qwen2_has_biases_and_a_window_where_it_is_used) {
    struct model_config config = read_patched(qwen2, NULL);
    ck_assert_str_eq(config.family, "qwen2");
    ck_assert(config.qkv_bias && !config.out_bias && config.tied_head);
    ck_assert(config.rope.theta == 1e6);
    ck_assert_uint_eq(config.window, 0);
    config = read_patched(qwen2, "{\"use_sliding_window\":true}");
    ck_assert_uint_eq(config.window, 100);
    ck_assert_uint_eq(config.window_layer_begin, 3);
    config = read_patched(qwen2, "{\"use_sliding_window\":true,\"layer_types\":[\"full_attention\","
                                 "\"sliding_attention\",\"sliding_attention\",\"sliding_attention\""
                                 "]}");
    ck_assert_uint_eq(config.window_layer_begin, 1);
    config = read_patched(qwen2, "{\"use_sliding_window\":true,\"max_window_layers\":4}");
    ck_assert_uint_eq(config.window, 0);
}
END_TEST

START_TEST(qwen3_norms_its_heads) {
    struct model_config config = read_patched(qwen3, NULL);
    ck_assert_str_eq(config.family, "qwen3");
    ck_assert(config.qk_norm && !config.qkv_bias);
    ck_assert_uint_eq(config.head_dim, 32);
    ck_assert_uint_eq(config.rope.dims, 32);
    ck_assert_uint_eq(read_patched(qwen3, "{\"head_dim\":null}").head_dim, 128);
}
END_TEST

START_TEST(moe_knows_its_experts_and_its_dense_layers) {
    struct model_config config = read_patched(moe, NULL);
    ck_assert_str_eq(config.family, "qwen2_moe");
    ck_assert_uint_eq(config.moe.n_experts, 8);
    ck_assert_uint_eq(config.moe.n_active, 2);
    ck_assert_uint_eq(config.moe.expert_dim, 48);
    ck_assert_uint_eq(config.moe.shared_dim, 80);
    ck_assert(!config.moe.normalise && config.qkv_bias);
    /* Steps of 2 make layers 1 and 3 sparse; 3 is listed as dense. */
    ck_assert(!config_is_moe_layer(&config, 0) && config_is_moe_layer(&config, 1));
    ck_assert(!config_is_moe_layer(&config, 2) && !config_is_moe_layer(&config, 3));
    config = read_patched(moe, "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"head_dim\":16,"
                               "\"norm_topk_prob\":true,\"decoder_sparse_step\":1}");
    ck_assert_str_eq(config.family, "qwen3_moe");
    ck_assert(config.moe.normalise && config.qk_norm);
    ck_assert_uint_eq(config.moe.shared_dim, 0);
    ck_assert(config_is_moe_layer(&config, 0));
}
END_TEST

START_TEST(first_qwen_halves_its_feed_forward_and_stretches) {
    struct model_config config = read_patched(qwen, NULL);
    ck_assert_str_eq(config.family, "qwen");
    ck_assert_uint_eq(config.ffn_dim, 96);
    ck_assert_uint_eq(config.n_kv_heads, 4);
    ck_assert(config.qkv_bias && config.logn);
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_QWEN_NTK);
    ck_assert_uint_eq(config.rope.original_context, 2048);
    ck_assert_uint_eq(config.context, 8192);
    config = read_patched(qwen, "{\"use_dynamic_ntk\":false,\"use_logn_attn\":false}");
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_NONE);
    ck_assert_uint_eq(config.context, 8192); /* the publisher's, with or without */
}
END_TEST

START_TEST(chatglm_turns_half_of_a_head) {
    struct model_config config = read_patched(chatglm, "{\"rope_ratio\":50}");
    ck_assert_str_eq(config.family, "chatglm");
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_INTERLEAVED);
    ck_assert_uint_eq(config.rope.dims, 8);
    ck_assert(config.rope.theta == 500000);
    ck_assert_uint_eq(config.n_kv_heads, 2);
    ck_assert_uint_eq(config.context, 8192);
    ck_assert(config.qkv_bias);
    ck_assert_uint_eq(read_patched(chatglm, "{\"multi_query_attention\":false}").n_kv_heads, 4);
    config = read_patched(chatglm, "{\"kv_channels\":50}"); /* 25: a 13th pair, and its angle */
    ck_assert_uint_eq(config.rope.dims, 26);
    ck_assert_uint_eq(config.rope.wave_dims, 25);
}
END_TEST

START_TEST(baichuan_kinds_are_told_by_their_sizes) {
    struct model_config config = read_patched(baichuan, NULL);
    ck_assert_str_eq(config.family, "baichuan");
    ck_assert(config.alibi && config.head_norm);
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_NONE);
    ck_assert_uint_eq(config.context, 4096);
    config = read_patched(baichuan, "{\"architectures\":[\"BaiChuanForCausalLM\"],"
                                    "\"hidden_size\":4096,\"num_attention_heads\":32,"
                                    "\"vocab_size\":64000}");
    ck_assert(!config.alibi && !config.head_norm);
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_HALF_SPLIT);
    ck_assert_uint_eq(config.rope.dims, 128);
}
END_TEST

START_TEST(scalings_of_both_spellings_are_read) {
    struct model_config config =
        read_patched(llama, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}");
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_LINEAR);
    ck_assert_uint_eq(config.rope.original_context, 1000);
    ck_assert_uint_eq(config.context, 4000);
    config = read_patched(llama, "{\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.5}}");
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_DYNAMIC);
    ck_assert_uint_eq(config.context, 2500);
    config = read_patched(llama, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
                                 "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                                 "\"original_max_position_embeddings\":128}}");
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_LLAMA3);
    ck_assert_uint_eq(config.rope.original_context, 128);
    ck_assert_uint_eq(config.context, 1000);
    config = read_patched(qwen2, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
                                 "\"original_max_position_embeddings\":1000}}");
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_YARN);
    ck_assert_uint_eq(config.context, 4000);
    ck_assert(config.rope.beta_fast == 32 && config.rope.beta_slow == 1);
    ck_assert(config.rope.attention_factor == 0);
    config = read_patched(llama, "{\"rope_parameters\":{\"rope_type\":\"default\","
                                 "\"rope_theta\":5e5}}");
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_NONE);
    ck_assert(config.rope.theta == 5e5);
    static const char *const unscaled[] = {
        "{\"rope_parameters\":{\"rope_theta\":7e5}}",
        "{\"rope_parameters\":{\"rope_theta\":7e5,\"rope_type\":null,\"factor\":null}}",
        "{\"rope_parameters\":{\"rope_theta\":7e5,\"partial_rotary_factor\":1.0}}"};
    for (size_t i = 0; i < 3; i++) {
        config = read_patched(llama, unscaled[i]);
        ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_NONE);
        ck_assert(config.rope.theta == 7e5);
    }
    ck_assert_int_eq(read_patched(llama, "{\"rope_scaling\":null}").rope.scaling,
                     CONFIG_SCALING_NONE);
}
END_TEST

START_TEST(ends_of_a_helper_file_that_are_none_are_left_out) {
    static const char *const bad[] = {
        "{\"eos_token_id\":[300,301]}",
        "{\"eos_token_id\":300}",
        "{\"eos_token_id\":-1}",
        "{\"eos_token_id\":2.5}",
        "{\"eos_token_id\":{}}",
        "{\"eos_token_id\":\"</s>\"}",
        "{\"eos_token_id\":1e30}",
        "{\"eos_token_id\":[3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}",
        "{\"bos_token_id\":300}",
        "{\"bos_token_id\":[1]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model_config config =
            read_good(&(struct files){.config = llama, .generation = bad[i]});
        ck_assert_msg(config.n_stop_ids == 1 && config.stop_ids[0] == 2 && config.eos_id == 2 &&
                          config.bos_id == 1,
                      "%s", bad[i]);
        ck_assert_msg(remarks.n == 1 &&
                          strncmp(remarks.lines[0], "generation_config.json: ", 24) == 0,
                      "%s: %u remarks", bad[i], remarks.n);
    }
    static const char *const good[] = {"{\"eos_token_id\":null,\"bos_token_id\":null}",
                                       "{}",
                                       "{\"eos_token_id\":[]}",
                                       "{\"eos_token_id\":2.0}",
                                       "{\"bos_token_id\":1e0}",
                                       "{\"eos_token_id\":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct model_config config =
            read_good(&(struct files){.config = llama, .generation = good[i]});
        ck_assert_uint_eq(config.n_stop_ids, 1);
        ck_assert_uint_eq(config.eos_id, 2);
        ck_assert_uint_eq(remarks.n, 0);
    }
}
END_TEST

START_TEST(quantizations_are_read_from_either_file) {
    static const char awq[] = "{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,"
                              "\"group_size\":128,\"zero_point\":true,\"version\":\"gemm\","
                              "\"modules_to_not_convert\":null}}";
    struct model_config config = read_patched(llama, awq);
    ck_assert_int_eq(config.quant.method, CONFIG_METHOD_AWQ);
    ck_assert_uint_eq(config.quant.bits, 4);
    ck_assert_uint_eq(config.quant.group, 128);
    config = read_good(&(struct files){
        .config = llama,
        .quantize = "{\"bits\":8,\"group_size\":-1,\"desc_act\":true,\"sym\":false}"});
    ck_assert_int_eq(config.quant.method, CONFIG_METHOD_GPTQ);
    ck_assert_uint_eq(config.quant.bits, 8);
    ck_assert_uint_eq(config.quant.group, 0);
    ck_assert(config.quant.act_order && !config.quant.zero_as_is && !config.quant.symmetric);
    config = read_good(&(struct files){
        .config = llama,
        .patch = "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,"
                 "\"checkpoint_format\":\"gptq_v2\"}}",
        .quantize = "{\"bits\":4,\"group_size\":32}"});
    ck_assert(config.quant.zero_as_is && !config.quant.symmetric);
    config = read_good(&(struct files){.config = llama,
                                       .quantize = "{\"bits\":4,\"group_size\":32,\"sym\":true}"});
    ck_assert(config.quant.symmetric);
}
END_TEST

START_TEST(ends_come_from_both_files) {
    struct model_config config = read_good(&(struct files){
        .config = llama, .generation = "{\"eos_token_id\":[7,9,7,300],\"bos_token_id\":5}"});
    ck_assert_uint_eq(config.eos_id, 7);
    ck_assert_uint_eq(config.bos_id, 5);
    ck_assert_uint_eq(config.n_stop_ids, 3);
    ck_assert_uint_eq(config.stop_ids[1], 9);
    ck_assert_uint_eq(config.stop_ids[2], 2); /* config.json's own */
    config = read_good(&(struct files){.config = llama,
                                       .patch = "{\"eos_token_id\":[256,5,6]}",
                                       .generation = "{\"eos_token_id\":[256,3]}"});
    static const uint32_t all[] = {256, 3, 5, 6};
    ck_assert_uint_eq(config.n_stop_ids, 4);
    ck_assert_mem_eq(config.stop_ids, all, sizeof all);
    config = read_patched(qwen3, NULL);
    ck_assert_uint_eq(config.eos_id, CONFIG_NO_TOKEN);
    ck_assert_uint_eq(config.n_stop_ids, 0);
}
END_TEST

static const struct {
    const char *config;
    const char *patch;
    enum status status;
    const char *says;
} hostile[] = {
    {llama, "{\"architectures\":null}", STATUS_INVALID, "config.json: architectures is not a list"},
    {llama, "{\"architectures\":[\"MambaForCausalLM\"]}", STATUS_UNSUPPORTED,
     "architectures is MambaForCausalLM, which is not served"},
    {llama, "{\"hidden_size\":null}", STATUS_INVALID, "config.json: hidden_size is missing"},
    {llama, "{\"hidden_size\":\"64\"}", STATUS_INVALID,
     "hidden_size must be an integer, not \"64\""},
    {llama, "{\"hidden_size\":-64}", STATUS_INVALID,
     "hidden_size must be between 0 and 4294967295, not -64"},
    {llama, "{\"hidden_size\":6.5}", STATUS_INVALID, "hidden_size must be an integer, not 6.5"},
    {llama, "{\"hidden_size\":66}", STATUS_INVALID, "does not divide hidden_size 66"},
    {llama, "{\"num_attention_heads\":0}", STATUS_INVALID, "num_attention_heads is 0"},
    {llama, "{\"num_key_value_heads\":3}", STATUS_INVALID,
     "num_key_value_heads is 3, which does not divide"},
    {llama, "{\"num_hidden_layers\":1000000000}", STATUS_LIMIT, "n_layers is 1000000000"},
    {llama, "{\"vocab_size\":4294967296}", STATUS_INVALID,
     "vocab_size must be between 0 and 4294967295, not"},
    {llama, "{\"vocab_size\":0}", STATUS_INVALID, "below vocab_size 0"},
    {llama, "{\"rope_theta\":\"x\"}", STATUS_INVALID, "rope_theta must be a number, not \"x\""},
    {llama, "{\"rope_theta\":-1}", STATUS_INVALID, "rope_theta is -1"},
    {llama, "{\"rms_norm_eps\":-1}", STATUS_INVALID, "norm_eps is -1"},
    {llama, "{\"hidden_act\":\"gelu\"}", STATUS_UNSUPPORTED, "hidden_act is \"gelu\""},
    {llama, "{\"tie_word_embeddings\":1}", STATUS_INVALID,
     "tie_word_embeddings must be true or false, not 1"},
    {llama, "{\"eos_token_id\":300}", STATUS_INVALID, "eos_token_id is not a token id below"},
    {llama, "{\"eos_token_id\":[1,\"x\"]}", STATUS_INVALID, "eos_token_id is not a token id below"},
    {llama, "{\"bos_token_id\":-1}", STATUS_INVALID, "bos_token_id is not a token id"},
    {llama, "{\"rope_scaling\":{\"type\":\"longrope\"}}", STATUS_UNSUPPORTED,
     "rope_scaling.type is \"longrope\""},
    {llama, "{\"rope_scaling\":{\"rope_type\":\"mrope\"}}", STATUS_UNSUPPORTED,
     "rope_scaling.rope_type is \"mrope\""},
    {llama, "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"type\":\"linear\",\"factor\":2}}",
     STATUS_INVALID, "rope_scaling.rope_type is yarn, but type is linear"},
    {llama, "{\"rope_scaling\":{\"factor\":2}}", STATUS_INVALID, "rope_type is missing"},
    {llama, "{\"rope_parameters\":{\"factor\":2}}", STATUS_INVALID,
     "rope_parameters.rope_type is missing"},
    {llama, "{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}",
     STATUS_UNSUPPORTED, "rope_parameters.full_attention is for one kind of layers"},
    {llama, "{\"rope_scaling\":{\"type\":\"linear\"}}", STATUS_INVALID,
     "rope_scaling.factor is missing"},
    {llama, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}", STATUS_INVALID,
     "rope_scaling.factor is 0.5"},
    {llama, "{\"rope_scaling\":7}", STATUS_INVALID, "rope_scaling must be an object, not 7"},
    {llama,
     "{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":1,\"original_max_position_embeddings\":8}}",
     STATUS_INVALID, "high_freq_factor is 1; it must be above low_freq_factor, 4"},
    {llama, "{\"partial_rotary_factor\":0.5}", STATUS_UNSUPPORTED, "partial_rotary_factor is 0.5"},
    {qwen2, "{\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\"]}", STATUS_INVALID,
     "layer_types is not a list of 4"},
    {qwen2,
     "{\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\",\"full_attention\","
     "\"sliding_attention\",\"full_attention\"]}",
     STATUS_UNSUPPORTED, "layer_types has layer 1 without a window after one with it"},
    {moe, "{\"num_experts\":2000}", STATUS_LIMIT, "num_experts is 2000"},
    {moe, "{\"num_experts\":0}", STATUS_INVALID, "num_experts is 0"},
    {moe, "{\"num_experts_per_tok\":9}", STATUS_LIMIT, "num_experts_per_tok is 9"},
    {moe, "{\"decoder_sparse_step\":0}", STATUS_INVALID, "decoder_sparse_step is 0"},
    {moe, "{\"mlp_only_layers\":[4]}", STATUS_INVALID, "mlp_only_layers holds something"},
    {moe, "{\"num_hidden_layers\":100000}", STATUS_LIMIT, "n_layers is 100000"},
    {qwen, "{\"intermediate_size\":191}", STATUS_INVALID, "intermediate_size is 191, not even"},
    {qwen, "{\"kv_channels\":8}", STATUS_INVALID, "kv_channels is 8"},
    {qwen, "{\"no_bias\":false}", STATUS_UNSUPPORTED, "no_bias is false: only true is served"},
    {qwen, "{\"num_hidden_layers\":null,\"n_layer\":32}", STATUS_UNSUPPORTED,
     "n_layer is of the first form of Qwen's config.json"},
    {qwen, "{\"num_hidden_layers\":null}", STATUS_INVALID, "num_hidden_layers is missing"},
    {qwen, "{\"rotary_pct\":0.25}", STATUS_UNSUPPORTED, "rotary_pct is 0.25"},
    {chatglm, "{\"rmsnorm\":false}", STATUS_UNSUPPORTED, "rmsnorm is false"},
    {chatglm, "{\"add_bias_linear\":true}", STATUS_UNSUPPORTED, "add_bias_linear is true"},
    {chatglm, "{\"post_layer_norm\":false}", STATUS_UNSUPPORTED, "post_layer_norm is false"},
    {chatglm, "{\"pre_seq_len\":128}", STATUS_UNSUPPORTED, "pre_seq_len is set"},
    {chatglm, "{\"rope_ratio\":0}", STATUS_INVALID, "rope_ratio is 0"},
    {chatglm, "{\"padded_vocab_size\":null}", STATUS_INVALID, "padded_vocab_size is missing"},
    {baichuan, "{\"model_max_length\":null}", STATUS_INVALID, "max_position_embeddings is missing"},
    {llama, "{\"quantization_config\":{\"bits\":4}}", STATUS_INVALID,
     "quantization_config.quant_method is missing"},
    {llama, "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}", STATUS_UNSUPPORTED,
     "quantization_config.quant_method is \"bitsandbytes\""},
    {llama,
     "{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,"
     "\"version\":\"gemv\"}}",
     STATUS_UNSUPPORTED, "version is \"gemv\""},
    {llama, "{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":8,\"group_size\":128}}",
     STATUS_UNSUPPORTED, "bits is 8: AWQ is served with 4"},
    {llama, "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":128}}",
     STATUS_UNSUPPORTED, "bits is 3: GPTQ is served with 4 and 8"},
    {llama, "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":0}}",
     STATUS_INVALID, "group_size is 0"},
    {llama,
     "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,"
     "\"checkpoint_format\":\"marlin\"}}",
     STATUS_UNSUPPORTED, "checkpoint_format is \"marlin\""},
};

#define GPTQ_AND(more)                                                                             \
    "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,"           \
    "\"sym\":true," more "}}"
#define ROUND_AND(method, more)                                                                    \
    "{\"quantization_config\":{\"quant_method\":\"" method                                         \
    "\",\"bits\":4,\"group_size\":128," more "}}"

static const struct {
    const char *patch;
    const char *says;
} other_layers[] = {
    {GPTQ_AND("\"dynamic\":{\"+:.*\":{\"bits\":8}}"), "dynamic.+:.*.bits is 8: layers that are"},
    {GPTQ_AND("\"dynamic\":{\"-:a\":{},\"lm_head\":{\"bits\":4,\"group_size\":64}}"),
     "dynamic.lm_head.group_size is 64"},
    {GPTQ_AND("\"dynamic\":{\"a\":{\"bits\":4.5}}"), "dynamic.a.bits is 4.5"},
    {GPTQ_AND("\"dynamic\":{\"a\":{\"bits\":\"4\"}}"), "dynamic.a.bits is \"4\""},
    {GPTQ_AND("\"dynamic\":{\"a\":{\"sym\":false}}"), "dynamic.a.sym is false"},
    {GPTQ_AND("\"dynamic\":{\"a\":{\"pack_dtype\":\"int8\"}}"), "dynamic.a.pack_dtype is \"int8\""},
    {GPTQ_AND("\"dynamic\":{\"a\":7}"), "dynamic.a is not an object"},
    {GPTQ_AND("\"dynamic\":[]"), "dynamic must be an object"},
    {ROUND_AND("auto-round", "\"extra_config\":{\"a\":{\"bits\":15}}"),
     "extra_config.a.bits is 15"},
    {ROUND_AND("auto-round", "\"extra_config\":{\"a\":{\"data_type\":\"mx_fp\"}}"),
     "extra_config.a.data_type is \"mx_fp\""},
    {ROUND_AND("auto-round", "\"extra_config\":{\"a\":{\"act_bits\":8}}"),
     "extra_config.a.act_bits is 8"},
    {ROUND_AND("auto-round", "\"packing_format\":\"auto_round:llm_compressor\""),
     "packing_format is \"auto_round:llm_compressor\"; auto_round:auto_gptq and"},
    {ROUND_AND("auto-round", "\"data_type\":\"nv_fp4\""), "data_type is \"nv_fp4\"; int is"},
    {ROUND_AND("auto-round", "\"act_bits\":15"), "act_bits is 15: activations of 16"},
    {ROUND_AND("auto_round", "\"sym\":true"), "quant_method is \"auto_round\"; awq, gptq and auto"},
};

START_TEST(layers_of_other_kinds_are_refused_by_name_and_value) {
    struct model_config config;
    struct error error;
    struct files files = {.config = llama, .patch = other_layers[_i].patch};
    enum status status = read_files(&files, &config, &error);
    ck_assert_msg(status != STATUS_OK && strstr(error.text, other_layers[_i].says), "%s: %s",
                  files.patch, status == STATUS_OK ? "it is served" : error.text);
}
END_TEST

START_TEST(m04_bad_value_is_refused_with_file_and_key) {
    struct model_config config = {.n_layers = 77};
    struct error error;
    struct files files = {.config = hostile[_i].config, .patch = hostile[_i].patch};
    enum status status = read_files(&files, &config, &error);
    ck_assert_msg(status == hostile[_i].status && strstr(error.text, hostile[_i].says) &&
                      strstr(error.text, "config.json"),
                  "%s: %s, \"%s\"", hostile[_i].patch, status_name(status), error.text);
    ck_assert_uint_eq(config.n_layers, 77);
}
END_TEST

/* What is said of single layers and differs in nothing from the rest. */
START_TEST(layers_that_are_skipped_or_like_the_rest_are_served) {
    static const char *const patches[] = {
        GPTQ_AND("\"dynamic\":{\"-:.*mlp.gate\":{}}"),
        GPTQ_AND("\"dynamic\":{\"-:.*\":{\"bits\":8,\"group_size\":32}}"),
        GPTQ_AND("\"dynamic\":{\"+:.*\":{\"bits\":4,\"group_size\":128}}"),
        GPTQ_AND("\"dynamic\":{\"lm_head\":{\"bits\":4,\"desc_act\":true,\"mse\":2.4}}"),
        GPTQ_AND("\"dynamic\":{\".*down.*\":{\"sym\":true,\"bits\":null},\"-:x\":null}"),
        GPTQ_AND("\"dynamic\":{}"),
        GPTQ_AND("\"dynamic\":null"),
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":-1,"
        "\"dynamic\":{\"a\":{\"group_size\":-1,\"bits\":8,\"sym\":false}}}}",
        ROUND_AND("auto-round",
                  "\"extra_config\":{\"lm_head\":{\"bits\":16,\"data_type\":\"fp\"}}"),
        ROUND_AND("auto-round", "\"extra_config\":{\"a\":{\"bits\":4,\"data_type\":\"int\"}}"),
        ROUND_AND("intel/auto-round", "\"extra_config\":{\"a\":{\"bits\":32,\"act_bits\":8}}"),
    };
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++)
        ck_assert_int_eq(read_patched(llama, patches[i]).quant.method, CONFIG_METHOD_GPTQ);
}
END_TEST

START_TEST(auto_round_is_what_its_packing_says) {
    struct model_config config = read_patched(
        llama, ROUND_AND("auto-round", "\"packing_format\":\"auto_round:auto_gptq\",\"sym\":true"));
    ck_assert_int_eq(config.quant.method, CONFIG_METHOD_GPTQ);
    ck_assert(config.quant.symmetric && config.quant.bits == 4 && config.quant.group == 128);
    config = read_patched(llama, ROUND_AND("intel/auto-round",
                                           "\"packing_format\":\"auto_round:auto_awq\","
                                           "\"data_type\":\"int\",\"act_bits\":16"));
    ck_assert_int_eq(config.quant.method, CONFIG_METHOD_AWQ);
    ck_assert_uint_eq(config.quant.group, 128);
}
END_TEST

START_TEST(m04_files_that_contradict_each_other_are_refused) {
    static const char patch[] = "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                                "\"group_size\":128}}";
    static const struct {
        const char *quantize;
        const char *says;
    } cases[] = {
        {"{\"bits\":8,\"group_size\":128}", "quantize_config.json: bits contradicts"},
        {"{\"bits\":4,\"group_size\":64}", "quantize_config.json: group_size contradicts"},
        {"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128}",
         "quantize_config.json: quant_method contradicts"},
        {"{\"bits\":\"4\",\"group_size\":64}", "quantize_config.json: bits is not a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config;
        struct error error;
        struct files files = {.config = llama, .patch = patch, .quantize = cases[i].quantize};
        ck_assert_int_eq(read_files(&files, &config, &error), STATUS_INVALID);
        ck_assert_msg(strstr(error.text, cases[i].says), "%s", error.text);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, llama_gives_its_numbers);
    tcase_add_test(tests, mistral_window_is_absent_null_or_a_number);
    tcase_add_test(tests, qwen2_has_biases_and_a_window_where_it_is_used);
    tcase_add_test(tests, qwen3_norms_its_heads);
    tcase_add_test(tests, moe_knows_its_experts_and_its_dense_layers);
    tcase_add_test(tests, first_qwen_halves_its_feed_forward_and_stretches);
    tcase_add_test(tests, chatglm_turns_half_of_a_head);
    tcase_add_test(tests, baichuan_kinds_are_told_by_their_sizes);
    tcase_add_test(tests, scalings_of_both_spellings_are_read);
    tcase_add_test(tests, quantizations_are_read_from_either_file);
    tcase_add_test(tests, ends_come_from_both_files);
    tcase_add_test(tests, ends_of_a_helper_file_that_are_none_are_left_out);
    tcase_add_loop_test(tests, m04_bad_value_is_refused_with_file_and_key, 0,
                        sizeof hostile / sizeof *hostile);
    tcase_add_test(tests, layers_that_are_skipped_or_like_the_rest_are_served);
    tcase_add_test(tests, auto_round_is_what_its_packing_says);
    tcase_add_loop_test(tests, layers_of_other_kinds_are_refused_by_name_and_value, 0,
                        sizeof other_layers / sizeof *other_layers);
    tcase_add_test(tests, m04_files_that_contradict_each_other_are_refused);
}
