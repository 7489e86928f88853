/* Row M04 of the catalogue of hostile input, and what a good file gives. */
#include "tests/support/suite.h"

#include "model/gguf/gguf.h"
#include "model/text/tokenizer/tokenizer.h"
#include "model/weights/config/config.h"
#include "tests/support/gguf_builder.h"

#include <math.h>
#include <string.h>

const char *const suite_name = "model_config";
const double suite_timeout_s = 60;

#define MILLION 1000000u

/* A llama file with one number changed. */
static enum status read_patched(const char *key, uint32_t value, struct model_config *config,
                                struct error *error) {
    struct gguf_builder builder;
    struct gguf *gguf;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_u32(&builder, "llama.vocab_size", 261);
    gguf_builder_u32(&builder, "llama.rope.dimension_count", 8);
    gguf_builder_f32(&builder, "llama.rope.freq_base", 5000);
    gguf_builder_u32(&builder, "llama.expert_count", 0);
    gguf_builder_u32(&builder, "llama.attention.sliding_window", 0);
    if (key)
        gguf_builder_patch(&builder, key, value);
    gguf_builder_tensor(&builder, "token_embd.weight", 261, 32);
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, error), STATUS_OK);
    enum status status = config_from_gguf(gguf, config, error);
    gguf_close(gguf);
    gguf_builder_fini(&builder);
    return status;
}

START_TEST(good_file_gives_its_numbers) {
    struct model_config config;
    struct error error;
    enum status status = read_patched(NULL, 0, &config, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_str_eq(config.family, "llama");
    ck_assert_uint_eq(config.n_layers, 2);
    ck_assert_uint_eq(config.dim, 32);
    ck_assert_uint_eq(config.n_heads, 4);
    ck_assert_uint_eq(config.n_kv_heads, 2);
    ck_assert_uint_eq(config.head_dim, 8);
    ck_assert_uint_eq(config.ffn_dim, 64);
    ck_assert_uint_eq(config.n_vocab, 261);
    ck_assert_uint_eq(config.context, 128);
    ck_assert(config.norm_eps == 1e-5f);
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_INTERLEAVED);
    ck_assert_uint_eq(config.rope.dims, 8);
    ck_assert(config.rope.theta == 5000);
    ck_assert(config.tied_head);
    ck_assert_uint_eq(config.bos_id, 259);
    ck_assert_uint_eq(config.eos_id, 260);
}
END_TEST

static const struct {
    const char *key;
    uint32_t value;
    enum status status;
    const char *says;
} hostile[] = {
    {"llama.attention.head_count", 0, STATUS_INVALID, "llama.attention.head_count is 0"},
    {"llama.attention.head_count", 5, STATUS_INVALID,
     "head_count is 5, which does not divide embedding_length 32"},
    {"llama.attention.head_count", 32, STATUS_UNSUPPORTED, "is 1: even sizes from 8 to 256"},
    {"llama.attention.head_count_kv", 0, STATUS_INVALID, "f: llama.attention.head_count_kv is 0"},
    {"llama.attention.head_count_kv", 3, STATUS_INVALID,
     "head_count_kv is 3, which does not divide the 4 query"},
    {"llama.block_count", 1000 * MILLION, STATUS_LIMIT, "llama.block_count is 1000000000"},
    {"llama.block_count", 0, STATUS_INVALID, "llama.block_count is 0"},
    {"llama.embedding_length", 0, STATUS_INVALID, "llama.embedding_length is 0"},
    {"llama.embedding_length", 4000 * MILLION, STATUS_LIMIT, "embedding_length is 4000000000"},
    {"llama.embedding_length", 64, STATUS_CORRUPT, "token_embd.weight is (261, 32)"},
    {"llama.feed_forward_length", UINT32_MAX, STATUS_LIMIT, "llama.feed_forward_length is"},
    {"llama.context_length", 0, STATUS_INVALID, "llama.context_length is 0"},
    {"llama.context_length", UINT32_MAX, STATUS_LIMIT, "llama.context_length is"},
    {"llama.vocab_size", 260, STATUS_CORRUPT, "(260 tokens, embedding_length 32)"},
    {"llama.vocab_size", 262, STATUS_CORRUPT, "(262 tokens, embedding_length 32)"},
    {"llama.vocab_size", UINT32_MAX, STATUS_LIMIT, "llama.vocab_size is 4294967295"},
    {"llama.rope.dimension_count", 0, STATUS_INVALID, "llama.rope.dimension_count: 0 rotary"},
    {"llama.rope.dimension_count", 7, STATUS_INVALID, "7 rotary dimensions"},
    {"llama.rope.dimension_count", 10, STATUS_INVALID, "10 rotary dimensions"},
    {"llama.rope.freq_base", 0x7fc00000, STATUS_INVALID, "llama.rope.freq_base is nan"},
    {"llama.rope.freq_base", 0x7f800000, STATUS_INVALID, "freq_base is inf"},
    {"llama.rope.freq_base", 0xc61c4000, STATUS_INVALID, "freq_base is -10000"},
    {"llama.attention.layer_norm_rms_epsilon", 0x7fc00000, STATUS_INVALID,
     "layer_norm_rms_epsilon is nan"},
    {"llama.attention.layer_norm_rms_epsilon", 0xbf800000, STATUS_INVALID, "rms_epsilon is -1"},
    {"llama.expert_count", 8, STATUS_UNSUPPORTED, "mixtures of experts"},
    {"tokenizer.ggml.eos_token_id", 261, STATUS_INVALID,
     "tokenizer.ggml.eos_token_id is 261, not below"},
    {"tokenizer.ggml.bos_token_id", UINT32_MAX - 1, STATUS_INVALID, "bos_token_id is"},
};

START_TEST(m04_bad_number_is_refused_by_name) {
    struct model_config config = {.n_layers = 77};
    struct error error;
    enum status status = read_patched(hostile[_i].key, hostile[_i].value, &config, &error);
    ck_assert_msg(status == hostile[_i].status && strstr(error.text, hostile[_i].says),
                  "%s = %u: %s, \"%s\"", hostile[_i].key, hostile[_i].value, status_name(status),
                  error.text);
    ck_assert_uint_eq(config.n_layers, 77);
}
END_TEST

START_TEST(another_architecture_is_refused_by_name) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct model_config config;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_string(&builder, "general.architecture", "mamba");
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, &error),
                     STATUS_OK);
    ck_assert_int_eq(config_from_gguf(gguf, &config, &error), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.text,
                     "f: architecture \"mamba\" is not served; llama, qwen2 and qwen3 are");
    gguf_close(gguf);
    gguf_builder_fini(&builder);
}
END_TEST

/* A file of any architecture with what `add` puts into it: keys first, then tensors. */
static enum status read_made(const char *architecture, void (*add_keys)(struct gguf_builder *),
                             void (*add_tensors)(struct gguf_builder *),
                             struct model_config *config, struct error *error) {
    struct gguf_builder builder;
    struct gguf *gguf;
    gguf_builder_init(&builder);
    gguf_builder_model(&builder, architecture);
    if (add_keys)
        add_keys(&builder);
    gguf_builder_tensor(&builder, "token_embd.weight", 261, 32);
    if (add_tensors)
        add_tensors(&builder);
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, error), STATUS_OK);
    enum status status = config_from_gguf(gguf, config, error);
    gguf_close(gguf);
    gguf_builder_fini(&builder);
    return status;
}

static struct model_config read_good(const char *architecture,
                                     void (*add_keys)(struct gguf_builder *),
                                     void (*add_tensors)(struct gguf_builder *)) {
    struct model_config config;
    struct error error;
    enum status status = read_made(architecture, add_keys, add_tensors, &config, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return config;
}

static void add_linear(struct gguf_builder *builder) {
    gguf_builder_string(builder, "llama.rope.scaling.type", "linear");
    gguf_builder_f32(builder, "llama.rope.scaling.factor", 4);
    gguf_builder_u32(builder, "llama.attention.sliding_window", 64);
}

static void add_yarn(struct gguf_builder *builder) {
    gguf_builder_string(builder, "qwen2.rope.scaling.type", "yarn");
    gguf_builder_f32(builder, "qwen2.rope.scaling.factor", 4);
    gguf_builder_u32(builder, "qwen2.rope.scaling.original_context_length", 64);
}

static void add_longrope(struct gguf_builder *builder) {
    gguf_builder_string(builder, "llama.rope.scaling.type", "longrope");
}

static void add_bias(struct gguf_builder *builder) {
    gguf_builder_tensor(builder, "blk.0.attn_q.bias", 0, 32);
}

static void add_zero_divisors(struct gguf_builder *builder) {
    gguf_builder_tensor(builder, "rope_freqs.weight", 0, 4);
}

static void add_expert_keys(struct gguf_builder *builder) {
    gguf_builder_u32(builder, "qwen2moe.expert_count", 6);
    gguf_builder_u32(builder, "qwen2moe.expert_used_count", 2);
}

static void add_expert_tensors(struct gguf_builder *builder) {
    static const uint64_t dims[] = {32, 16, 6};
    gguf_builder_tensor_raw(builder, "blk.0.ffn_gate_exps.weight", 3, dims, 0, builder->data_bytes);
    builder->data_bytes += sizeof(float) * 32 * 16 * 6;
    gguf_builder_tensor(builder, "blk.0.ffn_gate_shexp.weight", 48, 32);
}

START_TEST(scalings_and_windows_of_a_file_are_read) {
    struct model_config config = read_good("llama", add_linear, NULL);
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_LINEAR);
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_INTERLEAVED);
    ck_assert(config.rope.factor == 4);
    ck_assert_uint_eq(config.rope.original_context, 128);
    ck_assert_uint_eq(config.context, 512);
    ck_assert_uint_eq(config.window, 64);
    config = read_good("qwen2", add_yarn, NULL);
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_YARN);
    ck_assert_uint_eq(config.rope.original_context, 64);
    ck_assert_uint_eq(config.context, 256);
}
END_TEST

START_TEST(other_architectures_keep_their_halves) {
    struct model_config config = read_good("qwen2", NULL, add_bias);
    ck_assert_str_eq(config.family, "qwen2");
    ck_assert_int_eq(config.files, CONFIG_FILES_GGUF);
    ck_assert_int_eq(config.rope.layout, CONFIG_ROPE_HALF_SPLIT);
    ck_assert(config.qkv_bias && !config.out_bias && !config.qk_norm);
    ck_assert_str_eq(read_good("qwen3", NULL, NULL).family, "qwen3");
}
END_TEST

START_TEST(experts_of_a_file_are_stacked) {
    struct model_config config = read_good("qwen2moe", add_expert_keys, add_expert_tensors);
    ck_assert_str_eq(config.family, "qwen2_moe");
    ck_assert_uint_eq(config.moe.n_experts, 6);
    ck_assert_uint_eq(config.moe.n_active, 2);
    ck_assert_uint_eq(config.moe.expert_dim, 16);
    ck_assert_uint_eq(config.moe.shared_dim, 48);
    ck_assert(config_is_moe_layer(&config, 1));
}
END_TEST

START_TEST(scalings_that_are_not_served_are_refused_by_name) {
    struct model_config config;
    struct error error;
    ck_assert_int_eq(read_made("llama", add_longrope, NULL, &config, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "rope.scaling.type is \"longrope\""));
    ck_assert_int_eq(read_made("llama", NULL, add_zero_divisors, &config, &error),
                     STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "rope_freqs.weight"));
}
END_TEST

/* The divisors as the converter writes them for Llama 3.1's numbers. */
START_TEST(llama3_divisors_are_recognised) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct model_config config;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_model(&builder, "llama");
    gguf_builder_u32(&builder, "llama.rope.dimension_count", 8);
    gguf_builder_f32(&builder, "llama.rope.freq_base", 500000);
    gguf_builder_tensor(&builder, "token_embd.weight", 261, 32);
    gguf_builder_tensor(&builder, "rope_freqs.weight", 0, 4);
    gguf_builder_finish(&builder, 0);
    /* Waves of 6.3, 167, 4443 and 118143 positions: the third lies between 2048 and 8192. */
    double wave = 2 * 3.14159265358979323846 * pow(500000, 0.5);
    double smooth = (8192 / wave - 1) / 3;
    float divisors[4] = {1, 1, (float)(1 / ((1 - smooth) / 8 + smooth)), 8};
    for (int wrong = 0; wrong < 2; wrong++) {
        if (wrong)
            divisors[2] += 1;
        memcpy(builder.bytes.data + builder.bytes.n - 32, divisors, sizeof divisors);
        ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, &error),
                         STATUS_OK);
        ck_assert_int_eq(config_from_gguf(gguf, &config, &error),
                         wrong ? STATUS_UNSUPPORTED : STATUS_OK);
        gguf_close(gguf);
    }
    ck_assert_int_eq(config.rope.scaling, CONFIG_SCALING_LLAMA3);
    ck_assert(config.rope.factor == 8);
    ck_assert_uint_eq(config.rope.original_context, 8192);
    gguf_builder_fini(&builder);
}
END_TEST

START_TEST(checked_config_needs_finite_rope_for_any_source) {
    struct model_config config = {.family = "llama",
                                  .n_layers = 1,
                                  .dim = 8,
                                  .n_heads = 2,
                                  .n_kv_heads = 1,
                                  .head_dim = 8,
                                  .ffn_dim = 8,
                                  .n_vocab = 10,
                                  .context = 16,
                                  .norm_eps = 1e-5f,
                                  .rope = {CONFIG_ROPE_HALF_SPLIT, 4, 10000},
                                  .bos_id = CONFIG_NO_TOKEN,
                                  .eos_id = CONFIG_NO_TOKEN};
    struct error error;
    ck_assert_int_eq(config_check(&config, &error), STATUS_OK);
    config.rope.theta = NAN;
    ck_assert_int_eq(config_check(&config, &error), STATUS_INVALID);
    ck_assert_str_eq(error.field, "rope_theta");
    config.rope.layout = CONFIG_ROPE_NONE;
    ck_assert_int_eq(config_check(&config, &error), STATUS_OK);
    for (uint32_t dim = 0; dim < 300; dim++) {
        config.head_dim = dim;
        bool is_served = dim % 2 == 0 && dim >= 8 && dim <= 256;
        enum status status = config_check(&config, &error);
        ck_assert_int_eq(status, is_served ? STATUS_OK : STATUS_UNSUPPORTED);
        if (is_served)
            continue;
        ck_assert_str_eq(error.field, "head_dim");
        ck_assert_ptr_nonnull(strstr(error.text, "even sizes from 8 to 256 are served"));
    }
}
END_TEST

START_TEST(name_is_the_stem_and_printable) {
    static const char *const cases[][2] = {
        {"/models/SmolLM2-135M.Q4_1.gguf", "SmolLM2-135M.Q4_1"},
        {"a.gguf", "a"},
        {"/models/folder/", "folder"},
        {".gguf", ".gguf"},
        {"evil\n\"name\\.gguf", "evil__name_"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config = {0};
        config_name_from_path(&config, cases[i][0]);
        ck_assert_str_eq(config.name, cases[i][1]);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, scalings_and_windows_of_a_file_are_read);
    tcase_add_test(tests, other_architectures_keep_their_halves);
    tcase_add_test(tests, experts_of_a_file_are_stacked);
    tcase_add_test(tests, scalings_that_are_not_served_are_refused_by_name);
    tcase_add_test(tests, llama3_divisors_are_recognised);
    tcase_add_test(tests, good_file_gives_its_numbers);
    tcase_add_loop_test(tests, m04_bad_number_is_refused_by_name, 0,
                        (int)(sizeof hostile / sizeof *hostile));
    tcase_add_test(tests, another_architecture_is_refused_by_name);
    tcase_add_test(tests, checked_config_needs_finite_rope_for_any_source);
    tcase_add_test(tests, name_is_the_stem_and_printable);
}
