/* config.json as different releases write it: names that changed, and what a class of a mixture asks for
 * that its dense kin do not. */
#include "tests/support/suite.h"

#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "model_config_releases";
const double suite_timeout_s = 60;

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":300,\"head_dim\":16,"       \
    "\"max_position_embeddings\":1000"
#define WINDOW  ",\"use_sliding_window\":true,\"sliding_window\":100,\"max_window_layers\":2"
#define EXPERTS ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":48"

static const char llama[] = "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES "}";
static const char qwen3[] = "{\"architectures\":[\"Qwen3ForCausalLM\"]," SIZES WINDOW "}";
static const char qwen2_moe[] = "{\"architectures\":[\"Qwen2MoeForCausalLM\"]," SIZES WINDOW EXPERTS
                                ",\"shared_expert_intermediate_size\":80}";
static const char qwen3_moe[] =
    "{\"architectures\":[\"Qwen3MoeForCausalLM\"]," SIZES WINDOW EXPERTS "}";

static struct error error;

static enum status read_patched(const char *base, const char *patch, struct model_config *config) {
    static struct config_hub hub;
    memset(&hub, 0, sizeof hub);
    strcpy(hub.config_file, "config.json");
    hub.config = json_loads(base, 0, NULL);
    json_t *over = json_loads(patch, 0, NULL);
    ck_assert(hub.config && over);
    json_object_update(hub.config, over);
    json_decref(over);
    enum status status = config_from_hub(&hub, config, &error);
    config_hub_fini(&hub);
    return status;
}

static const struct model_config *read_with(const char *base, const char *patch) {
    static struct model_config config;
    enum status status = read_patched(base, patch, &config);
    ck_assert_msg(status == STATUS_OK, "%s: %s", patch, error.text);
    return &config;
}

START_TEST(biases_of_a_mixture_are_where_its_config_has_them) {
    ck_assert(read_with(qwen2_moe, "{}")->qkv_bias);
    ck_assert(read_with(qwen2_moe, "{\"qkv_bias\":null}")->qkv_bias);
    ck_assert(read_with(qwen2_moe, "{\"qkv_bias\":true}")->qkv_bias);
    ck_assert(!read_with(qwen2_moe, "{\"qkv_bias\":false}")->qkv_bias);
}
END_TEST

/* transformers 4.57 and 5: Qwen3's mixture does not ask for max_window_layers. */
START_TEST(a_window_of_a_mixture_is_in_all_layers) {
    ck_assert_uint_eq(read_with(qwen3, "{}")->window_layer_begin, 2);
    ck_assert_uint_eq(read_with(qwen2_moe, "{}")->window_layer_begin, 2);
    for (int i = 0; i < 3; i++) {
        static const char *const patches[] = {"{}", "{\"max_window_layers\":28}",
                                              "{\"max_window_layers\":\"all\"}"};
        const struct model_config *config = read_with(qwen3_moe, patches[i]);
        ck_assert_uint_eq(config->window, 100);
        ck_assert_uint_eq(config->window_layer_begin, 0);
    }
}
END_TEST

/* As transformers 5 saves them. */
START_TEST(newer_names_are_read) {
    static struct model_config config;
    ck_assert_uint_eq(
        read_with(qwen3_moe, "{\"num_experts\":null,\"num_local_experts\":16}")->moe.n_experts, 16);
    ck_assert_uint_eq(read_with(qwen3_moe, "{\"num_local_experts\":8}")->moe.n_experts, 8);
    ck_assert_int_eq(read_patched(qwen3_moe, "{\"num_local_experts\":9}", &config), STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: num_local_experts is 9, but num_experts is 8");
    ck_assert_int_eq(read_patched(qwen3_moe, "{\"num_experts\":null}", &config), STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: num_experts is missing");
    ck_assert(read_with(llama, "{\"rope_scaling\":{\"rope_type\":\"default\","
                               "\"rope_theta\":5e5}}")
                  ->rope.theta == 5e5);
    ck_assert_str_eq(read_with(llama, "{\"torch_dtype\":\"float32\",\"dtype\":\"float16\"}")->dtype,
                     "f16");
}
END_TEST

/* Older AWQ files say w_bit and q_group_size. */
START_TEST(what_is_missing_has_its_newer_name) {
    static struct model_config config;
    static const char *const patches[] = {
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"group_size\":128}}",
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":null,\"group_size\":128}}",
        "{\"quantization_config\":{\"quant_method\":\"awq\",\"w_bit\":null,\"group_size\":128}}"};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(read_patched(llama, patches[i], &config), STATUS_INVALID);
        ck_assert_str_eq(error.text, "config.json: quantization_config.bits is missing");
    }
    ck_assert_int_eq(
        read_patched(llama,
                     "{\"quantization_config\":{\"quant_method\":\"awq\",\"w_bit\":4.5,"
                     "\"group_size\":128}}",
                     &config),
        STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: quantization_config.w_bit is not a whole number");
}
END_TEST

START_TEST(whole_reals_are_integers) {
    const struct model_config *config = read_with(
        llama,
        "{\"hidden_size\":64.0,\"num_hidden_layers\":4e0,\"eos_token_id\":[5.0,6],"
        "\"bos_token_id\":3.0,\"quantization_config\":{\"quant_method\":\"gptq\","
        "\"bits\":4.0,\"group_size\":32.0,\"sym\":true,\"dynamic\":{\"a\":{\"bits\":4.0}}}}");
    ck_assert(config->dim == 64 && config->n_layers == 4 && config->bos_id == 3);
    ck_assert(config->n_stop_ids == 2 && config->stop_ids[0] == 5 && config->stop_ids[1] == 6);
    ck_assert(config->quant.bits == 4 && config->quant.group == 32);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, whole_reals_are_integers);
    tcase_add_test(tests, biases_of_a_mixture_are_where_its_config_has_them);
    tcase_add_test(tests, a_window_of_a_mixture_is_in_all_layers);
    tcase_add_test(tests, newer_names_are_read);
    tcase_add_test(tests, what_is_missing_has_its_newer_name);
}
