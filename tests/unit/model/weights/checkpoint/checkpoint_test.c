/* Whole folders: made checkpoints, plain and quantized, and dummies. */
#include "tests/support/suite.h"

#include "model/model.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_checkpoint";
const double suite_timeout_s = 120;

/* Without its closing brace: keys may follow. */
#define CONFIG_OF_ROWS                                                                             \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":1,"        \
    "\"num_attention_heads\":4,\"intermediate_size\":96,\"max_position_embeddings\":128,"          \
    "\"rms_norm_eps\":1e-5,\"torch_dtype\":\"float16\",\"vocab_size\":"
static const char config_text[] = CONFIG_OF_ROWS "300";

#define GPTQ                                                                                       \
    ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,"            \
    "\"desc_act\":false}"
#define AWQ ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32}"

static const char *const file_names[] = {"config.json", "model.safetensors", "chat_template.jinja",
                                         "tokenizer_config.json"};

struct folder {
    char path[64];
    struct safetensors_builder builder;
};

static void put_text(const struct folder *folder, const char *name, const char *text) {
    safetensors_builder_write(folder->path, name, text, strlen(text));
}

static void folder_of_rows(struct folder *folder, uint64_t n_vocab, const void *rows,
                           const char *more) {
    char text[1024];
    strcpy(folder->path, "/tmp/tandem-model-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder->path));
    snprintf(text, sizeof text, CONFIG_OF_ROWS "%u%s}", (unsigned)n_vocab, more);
    put_text(folder, "config.json", text);
    safetensors_builder_init(&folder->builder);
    safetensors_builder_add(&folder->builder, "model.embed_tokens.weight", "F16", 2, n_vocab, 64,
                            rows);
}

static void folder_init(struct folder *folder, const char *more) {
    folder_of_rows(folder, 300, NULL, more);
}

static void folder_fini(struct folder *folder) {
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder->path, file_names[i]);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(folder->path), 0);
    safetensors_builder_fini(&folder->builder);
}

static struct model *open_folder(struct folder *folder) {
    struct model_options options = {.any_tokenizer = true};
    struct model *model = NULL;
    struct error error;
    safetensors_builder_finish(&folder->builder, 1);
    safetensors_builder_write(folder->path, "model.safetensors", folder->builder.file.data,
                              folder->builder.file.n);
    enum status status = model_open(folder->path, &options, &model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return model;
}

static void matrix_fails(const struct model *model, const char *stem, uint64_t n, uint64_t k,
                         enum status status, const char *says) {
    struct tensor_matrix matrix;
    struct error error;
    enum status got = tensors_matrix(&model->tensors, stem, n, k, &matrix, &error);
    ck_assert_msg(got == status && strstr(error.text, says), "%s, \"%s\"", status_name(got),
                  error.text);
}

START_TEST(plain_layers_are_found_by_shape) {
    struct folder folder;
    struct tensor_matrix matrix;
    struct error error;
    const struct tensor *tensor;
    folder_init(&folder, "");
    safetensors_builder_add(&folder.builder, "x.weight", "BF16", 2, 8, 64, NULL);
    safetensors_builder_add(&folder.builder, "x.bias", "F32", 4, 0, 8, NULL);
    safetensors_builder_add(&folder.builder, "odd.weight", "F64", 8, 8, 64, NULL);
    struct model *model = open_folder(&folder);
    ck_assert_str_eq(model->config.family, "llama");
    ck_assert_str_eq(model->tokenizer->kind->name, "bytes");
    ck_assert_ptr_null(model->template.kind);
    ck_assert_int_eq(tensors_matrix(&model->tensors, "x", 8, 64, &matrix, &error), STATUS_OK);
    ck_assert_str_eq(matrix.format, "bf16");
    ck_assert_uint_eq(matrix.n, 8);
    ck_assert_uint_eq(matrix.k, 64);
    ck_assert_ptr_eq(matrix.values, tensors_find(&model->tensors, "x.weight"));
    ck_assert_ptr_null(matrix.scales);
    ck_assert_int_eq(tensors_get(&model->tensors, "x.bias", 0, 8, &tensor, &error), STATUS_OK);
    matrix_fails(model, "x", 64, 8, STATUS_CORRUPT, "tensor x.weight is (8, 64), not (64, 8)");
    matrix_fails(model, "y", 8, 64, STATUS_NOT_FOUND, "tensor y.weight is missing");
    matrix_fails(model, "odd", 8, 64, STATUS_UNSUPPORTED, "tensor odd.weight has dtype F64");
    ck_assert_int_eq(model_check_files(model, &error), STATUS_OK);
    model_close(model);
    folder_fini(&folder);
}
END_TEST

/* A layer of 16 outputs and 64 inputs in groups of 32. */
static void add_gptq(struct folder *folder, const char *stem, const int32_t *order) {
    static const char *const suffixes[] = {"qweight", "qzeros", "scales"};
    static const uint64_t rows[] = {8, 2, 2};
    static const uint64_t columns[] = {16, 2, 16};
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s", stem, suffixes[i]);
        safetensors_builder_add(&folder->builder, name, i == 2 ? "F16" : "I32", i == 2 ? 2 : 4,
                                rows[i], columns[i], NULL);
    }
    snprintf(name, sizeof name, "%s.g_idx", stem);
    if (order)
        safetensors_builder_add(&folder->builder, name, "I32", 4, 0, 64, order);
}

START_TEST(gptq_layers_know_their_groups) {
    int32_t zero[64] = {0};
    int32_t up[64];
    int32_t shuffled[64];
    int32_t beyond[64] = {2};
    struct folder folder;
    struct tensor_matrix matrix;
    struct error error;
    for (int i = 0; i < 64; i++) {
        up[i] = i / 32;
        shuffled[i] = i % 2;
    }
    folder_init(&folder, GPTQ);
    add_gptq(&folder, "absent", NULL);
    add_gptq(&folder, "zero", zero);
    add_gptq(&folder, "up", up);
    add_gptq(&folder, "shuffled", shuffled);
    add_gptq(&folder, "beyond", beyond);
    safetensors_builder_add(&folder.builder, "plain.weight", "F16", 2, 16, 64, NULL);
    safetensors_builder_add(&folder.builder, "half.qweight", "I32", 4, 8, 16, NULL);
    struct model *model = open_folder(&folder);
    static const char *const counted[] = {"absent", "zero", "up"};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(tensors_matrix(&model->tensors, counted[i], 16, 64, &matrix, &error),
                         STATUS_OK);
        ck_assert_str_eq(matrix.format, "gptq4");
        ck_assert_uint_eq(matrix.group, 32);
        ck_assert_ptr_nonnull(matrix.scales);
        ck_assert_ptr_nonnull(matrix.zeros);
        ck_assert_ptr_null(matrix.group_of);
    }
    ck_assert_int_eq(tensors_matrix(&model->tensors, "shuffled", 16, 64, &matrix, &error),
                     STATUS_OK);
    ck_assert_mem_eq(matrix.group_of, shuffled, sizeof shuffled);
    const int32_t *first = matrix.group_of;
    ck_assert_int_eq(tensors_matrix(&model->tensors, "shuffled", 16, 64, &matrix, &error),
                     STATUS_OK);
    ck_assert_ptr_eq(matrix.group_of, first); /* ranks ask many times: there is one copy */
    /* The tensors decide what is quantized. */
    ck_assert_int_eq(tensors_matrix(&model->tensors, "plain", 16, 64, &matrix, &error), STATUS_OK);
    ck_assert_str_eq(matrix.format, "f16");
    matrix_fails(model, "beyond", 16, 64, STATUS_CORRUPT,
                 "beyond.g_idx has group 2 for input 0, but there are 2");
    matrix_fails(model, "absent", 24, 64, STATUS_CORRUPT, "absent.qweight is (8, 16), not (8, 24)");
    matrix_fails(model, "absent", 12, 64, STATUS_CORRUPT, "12 outputs, no multiple of 8");
    matrix_fails(model, "half", 16, 64, STATUS_NOT_FOUND, "tensor half.qzeros is missing");
    model_close(model);
    folder_fini(&folder);
}
END_TEST

START_TEST(awq_layers_are_packed_along_the_outputs) {
    struct folder folder;
    struct tensor_matrix matrix;
    struct error error;
    folder_init(&folder, AWQ);
    safetensors_builder_add(&folder.builder, "x.qweight", "I32", 4, 64, 2, NULL);
    safetensors_builder_add(&folder.builder, "x.qzeros", "I32", 4, 2, 2, NULL);
    safetensors_builder_add(&folder.builder, "x.scales", "F16", 2, 2, 16, NULL);
    struct model *model = open_folder(&folder);
    ck_assert_int_eq(tensors_matrix(&model->tensors, "x", 16, 64, &matrix, &error), STATUS_OK);
    ck_assert_str_eq(matrix.format, "awq");
    ck_assert_uint_eq(matrix.group, 32);
    ck_assert_ptr_null(matrix.group_of);
    matrix_fails(model, "x", 16, 48, STATUS_CORRUPT, "48 inputs, no multiple of 32");
    model_close(model);
    folder_fini(&folder);
}
END_TEST

START_TEST(quantized_tensors_without_a_config_are_refused) {
    struct folder folder;
    folder_init(&folder, "");
    add_gptq(&folder, "x", NULL);
    struct model *model = open_folder(&folder);
    matrix_fails(model, "x", 16, 64, STATUS_CORRUPT,
                 "has tensor x.qweight, but config.json has no quantization_config");
    model_close(model);
    folder_fini(&folder);
}
END_TEST

START_TEST(embedding_that_is_not_the_configs_is_refused) {
    struct folder folder;
    struct model *model = NULL;
    struct error error;
    folder_init(&folder, "");
    safetensors_builder_fini(&folder.builder);
    safetensors_builder_init(&folder.builder);
    safetensors_builder_add(&folder.builder, "model.embed_tokens.weight", "F16", 2, 299, 64, NULL);
    safetensors_builder_finish(&folder.builder, 8);
    safetensors_builder_write(folder.path, "model.safetensors", folder.builder.file.data,
                              folder.builder.file.n);
    ck_assert_int_eq(model_open(folder.path, NULL, &model, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(
        strstr(error.text, "tensor model.embed_tokens.weight is (299, 64), but config.json says "
                           "(vocab_size 300, hidden_size 64)"));
    folder_fini(&folder);
}
END_TEST

/* A tied model of `n_rows` tokens whose head is its embedding but for one byte, or for none. */
static struct model *open_with_head(struct folder *folder, uint64_t n_rows, uint64_t changed) {
    size_t n_bytes = n_rows * 128;
    unsigned char *head = calloc(n_bytes, 1);
    ck_assert_ptr_nonnull(head);
    folder_of_rows(folder, n_rows, head, ",\"tie_word_embeddings\":true");
    if (changed < n_bytes)
        head[changed] = 1;
    safetensors_builder_add(&folder->builder, "lm_head.weight", "F16", 2, n_rows, 64, head);
    free(head);
    return open_folder(folder);
}

/* 131072 rows are the bytes that are compared at once. */
START_TEST(head_beside_a_tied_one_is_used_where_a_byte_differs) {
    static const struct {
        uint64_t n_rows;
        uint64_t changed;
    } cases[] = {{300, 0},
                 {300, 300 * 128 - 1},
                 {131072, 131072 * 128 - 1},
                 {131073, 131072 * 128},
                 {131073, 131073 * 128 - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        struct model *model = open_with_head(&folder, cases[i].n_rows, cases[i].changed);
        ck_assert(!model->config.tied_head);
        ck_assert_uint_eq(model->remarks.n, 1);
        ck_assert_str_eq(model->remarks.lines[0],
                         "config.json: tie_word_embeddings is not used and should be false: "
                         "lm_head.weight is not the embedding");
        model_close(model);
        folder_fini(&folder);
        model = open_with_head(&folder, cases[i].n_rows, UINT64_MAX);
        ck_assert(model->config.tied_head);
        ck_assert_uint_eq(model->remarks.n, 0);
        model_close(model);
        folder_fini(&folder);
    }
}
END_TEST

START_TEST(folder_without_tokenizer_opens_only_when_asked) {
    struct folder folder;
    struct model *model = NULL;
    struct error error;
    folder_init(&folder, "");
    model_close(open_folder(&folder));
    ck_assert_int_eq(model_open(folder.path, NULL, &model, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "no tokenizer"));
    folder_fini(&folder);
}
END_TEST

START_TEST(template_comes_from_its_file_or_the_tokenizers_config) {
    static const char chatml[] = "{{'<|im_start|>'}}";
    struct folder folder;
    folder_init(&folder, "");
    put_text(&folder, "tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"t\"},"
             "{\"name\":\"default\",\"template\":\"<|im_start|>d\"}]}");
    struct model *model = open_folder(&folder);
    ck_assert(span_is(model->template_source, "<|im_start|>d"));
    ck_assert_ptr_nonnull(model->template.kind);
    model_close(model);
    put_text(&folder, "chat_template.jinja", chatml);
    model = open_folder(&folder);
    ck_assert(span_is(model->template_source, chatml));
    model_close(model);
    folder_fini(&folder);
}
END_TEST

/* A text as long as this is not on the heap (buf.h): it is the model's all the same, and goes with it. */
START_TEST(long_template_is_owned_by_the_model) {
    enum { N = 300000 };
    struct folder folder;
    char *text = malloc(N + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', N);
    text[N] = 0;
    folder_init(&folder, "");
    put_text(&folder, "chat_template.jinja", text);
    struct model *model = open_folder(&folder);
    ck_assert_uint_eq(model->template_source.n, N);
    ck_assert_mem_eq(model->template_source.bytes, text, N);
    model_close(model);
    folder_fini(&folder);
    free(text);
}
END_TEST

START_TEST(fingerprint_changes_with_weights_and_shards) {
    uint8_t one[32];
    struct folder folder;
    folder_init(&folder, "");
    struct model *model = open_folder(&folder);
    memcpy(one, model->config.fingerprint, 32);
    model_close(model);
    model = open_folder(&folder);
    ck_assert_mem_eq(one, model->config.fingerprint, 32);
    model_close(model);
    folder.builder.data.data[0] = 1;
    model = open_folder(&folder);
    ck_assert_mem_ne(one, model->config.fingerprint, 32);
    model_close(model);
    folder_fini(&folder);
}
END_TEST

/* Kilobytes of memory that are resident and not shared with a file. */
static long resident_kb(void) {
    long kb = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return kb;
}

static const char large[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":8192,\"num_hidden_layers\":80,"
    "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"intermediate_size\":29568,"
    "\"vocab_size\":152064,\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-6,"
    "\"rope_theta\":1000000.0,\"torch_dtype\":\"bfloat16\",\"eos_token_id\":151645";

static struct model *open_dummy(struct folder *folder, const char *base, const char *more,
                                uint64_t seed) {
    struct model_options options = {.dummy = true, .seed = seed};
    struct model *model = NULL;
    struct error error;
    char text[1024];
    snprintf(text, sizeof text, "%s%s}", base, more);
    put_text(folder, "config.json", text);
    enum status status = model_open(folder->path, &options, &model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return model;
}

/* Every tensor of a layer, as a family asks for them. */
static void ask_layer(const struct model *model, uint32_t layer) {
    static const struct {
        const char *stem;
        uint32_t n, k;
    } matrices[] = {
        {"self_attn.q_proj", 8192, 8192}, {"self_attn.k_proj", 1024, 8192},
        {"self_attn.v_proj", 1024, 8192}, {"self_attn.o_proj", 8192, 8192},
        {"mlp.gate_proj", 29568, 8192},   {"mlp.up_proj", 29568, 8192},
        {"mlp.down_proj", 8192, 29568},
    };
    struct tensor_matrix matrix;
    const struct tensor *tensor;
    struct error error;
    char name[128];
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        snprintf(name, sizeof name, "model.layers.%u.%s", layer, matrices[i].stem);
        ck_assert_int_eq(
            tensors_matrix(&model->tensors, name, matrices[i].n, matrices[i].k, &matrix, &error),
            STATUS_OK);
        ck_assert_str_eq(matrix.format, "bf16");
        const unsigned char *data = matrix.values->data;
        ck_assert_uint_eq(matrix.values->n_bytes, 2ull * matrices[i].n * matrices[i].k);
        /* Both ends are there. A bf16 of these sizes has not all bits of its exponent set. */
        ck_assert_uint_ne(data[matrix.values->n_bytes - 1] & 0x7f, 0x7f);
        ck_assert_uint_ne(data[1] & 0x7f, 0x7f);
    }
    snprintf(name, sizeof name, "model.layers.%u.input_layernorm.weight", layer);
    ck_assert_int_eq(tensors_get(&model->tensors, name, 0, 8192, &tensor, &error), STATUS_OK);
    ck_assert_mem_eq(tensor->data, "\x80\x3f\x80\x3f", 4);
}

START_TEST(dummy_of_72_billion_costs_next_to_nothing) {
    struct folder folder;
    struct tensor_matrix matrix;
    struct error error;
    folder_init(&folder, "");
    long before = resident_kb();
    struct model *model = open_dummy(&folder, large, "", 1);
    ck_assert_str_eq(model->config.family, "qwen2");
    ck_assert_str_eq(model->template.kind->name, "chatml");
    ck_assert_uint_eq(tokenizer_n_tokens(model->tokenizer), 152064);
    ck_assert(span_is(tokenizer_bytes(model->tokenizer, 65), "A"));
    ck_assert(span_is(tokenizer_bytes(model->tokenizer, 152063), "<251ff>"));
    ck_assert_int_eq(tensors_matrix(&model->tensors, "lm_head", 152064, 8192, &matrix, &error),
                     STATUS_OK);
    uint64_t n_bytes = 0;
    const struct tensor *tensor;
    for (uint32_t layer = 0; layer < model->config.n_layers; layer++)
        ask_layer(model, layer);
    for (uint32_t layer = 0; layer < model->config.n_layers; layer++)
        ask_layer(model, layer); /* these are there now: none is made a second time */
    uint32_t n = 0;
    for (; (tensor = tensors_nth(&model->tensors, n)); n++)
        n_bytes += tensor->n_bytes;
    ck_assert_uint_eq(n, 80 * 8 + 1);
    ck_assert_uint_gt(n_bytes, 100ull << 30);
    ck_assert_int_lt(resident_kb() - before, 128 << 10);
    model_close(model);
    folder_fini(&folder);
}
END_TEST

START_TEST(dummy_is_the_same_for_the_same_seed) {
    struct folder folder;
    struct error error;
    const struct tensor *a, *b, *c, *other;
    folder_init(&folder, "");
    struct model *one = open_dummy(&folder, config_text, "", 1);
    struct model *same = open_dummy(&folder, config_text, "", 1);
    struct model *two = open_dummy(&folder, config_text, "", 2);
    ck_assert_int_eq(tensors_get(&one->tensors, "a.weight", 64, 64, &a, &error), STATUS_OK);
    ck_assert_int_eq(tensors_get(&one->tensors, "b.weight", 64, 64, &other, &error), STATUS_OK);
    ck_assert_int_eq(tensors_get(&same->tensors, "a.weight", 64, 64, &b, &error), STATUS_OK);
    ck_assert_int_eq(tensors_get(&two->tensors, "a.weight", 64, 64, &c, &error), STATUS_OK);
    ck_assert_str_eq(a->format, "f16");
    ck_assert_mem_eq(a->data, b->data, a->n_bytes);
    ck_assert_mem_ne(a->data, c->data, a->n_bytes);
    ck_assert_mem_ne(a->data, other->data, a->n_bytes);
    ck_assert_mem_eq(one->config.fingerprint, same->config.fingerprint, 32);
    ck_assert_mem_ne(one->config.fingerprint, two->config.fingerprint, 32);
    /* Asked again it is the same tensor, and has to be of the same shape. */
    ck_assert_int_eq(tensors_get(&one->tensors, "a.weight", 64, 64, &b, &error), STATUS_OK);
    ck_assert_ptr_eq(a, b);
    ck_assert_int_eq(tensors_get(&one->tensors, "a.weight", 32, 64, &b, &error), STATUS_CORRUPT);
    model_close(one);
    model_close(same);
    model_close(two);
    folder_fini(&folder);
}
END_TEST

START_TEST(dummy_is_quantized_as_its_config_says) {
    struct folder folder;
    struct tensor_matrix matrix;
    struct error error;
    folder_init(&folder, "");
    struct model *model = open_dummy(&folder, config_text, GPTQ, 1);
    ck_assert_int_eq(tensors_matrix(&model->tensors, "x.q_proj", 16, 64, &matrix, &error),
                     STATUS_OK);
    ck_assert_str_eq(matrix.format, "gptq4");
    ck_assert_mem_eq(matrix.zeros->data, "\x77\x77\x77\x77", 4);
    ck_assert_uint_eq(matrix.scales->shape[0], 2);
    ck_assert_int_eq(tensors_matrix(&model->tensors, "lm_head", 300, 64, &matrix, &error),
                     STATUS_OK);
    ck_assert_str_eq(matrix.format, "f16");
    matrix_fails(model, "y", 12, 64, STATUS_CORRUPT, "12 outputs");
    model_close(model);
    model = open_dummy(&folder, config_text, AWQ, 1);
    ck_assert_int_eq(tensors_matrix(&model->tensors, "x.q_proj", 16, 64, &matrix, &error),
                     STATUS_OK);
    ck_assert_str_eq(matrix.format, "awq");
    ck_assert_mem_eq(matrix.zeros->data, "\x88\x88\x88\x88", 4);
    model_close(model);
    folder_fini(&folder);
}
END_TEST

START_TEST(dummy_needs_a_folder) {
    struct model_options options = {.dummy = true};
    struct model *model = NULL;
    struct error error;
    ck_assert_int_eq(model_open("model.gguf", &options, &model, &error), STATUS_UNSUPPORTED);
    ck_assert_int_eq(model_open("/nonexistent/config.json", &options, &model, &error),
                     STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/nonexistent/config.json"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, plain_layers_are_found_by_shape);
    tcase_add_test(tests, gptq_layers_know_their_groups);
    tcase_add_test(tests, awq_layers_are_packed_along_the_outputs);
    tcase_add_test(tests, quantized_tensors_without_a_config_are_refused);
    tcase_add_test(tests, embedding_that_is_not_the_configs_is_refused);
    tcase_add_test(tests, head_beside_a_tied_one_is_used_where_a_byte_differs);
    tcase_add_test(tests, folder_without_tokenizer_opens_only_when_asked);
    tcase_add_test(tests, template_comes_from_its_file_or_the_tokenizers_config);
    tcase_add_test(tests, long_template_is_owned_by_the_model);
    tcase_add_test(tests, fingerprint_changes_with_weights_and_shards);
    tcase_add_test(tests, dummy_of_72_billion_costs_next_to_nothing);
    tcase_add_test(tests, dummy_is_the_same_for_the_same_seed);
    tcase_add_test(tests, dummy_is_quantized_as_its_config_says);
    tcase_add_test(tests, dummy_needs_a_folder);
}
