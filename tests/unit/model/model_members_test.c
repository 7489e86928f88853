/* Folders whose files say more than is read: every member of the files beside config.json at odd values
 * stops no start and is passed over by nobody in silence; what config.json wants and is not served stops
 * it. */
#include "tests/support/suite.h"

#include "model/members/members.h"
#include "model/model.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_look";
const double suite_timeout_s = 120;

static char folder[64];

static const char *const names[] = {
    "config.json",           "tokenizer.json",          "generation_config.json",
    "tokenizer_config.json", "special_tokens_map.json", "quantize_config.json"};

#define SIZES                                                                                      \
    "\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":1,"         \
    "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":300,"                       \
    "\"max_position_embeddings\":1000"

static void put(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/tandem-members-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    put("config.json", "{" SIZES "}");
    put("tokenizer.json",
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"c\":2}}}");
}

static void remove_folder(void) {
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static enum status open_folder(struct model **model, struct error *error) {
    static const struct model_options dummy = {.dummy = true};
    *model = NULL;
    return model_open(folder, &dummy, model, error);
}

static struct model *open_good(void) {
    struct model *model;
    struct error error;
    enum status status = open_folder(&model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return model;
}

static bool is_told(const struct model *model, const char *name) {
    if (strstr(model->generation.ignored, name))
        return true;
    for (unsigned i = 0; i < model->remarks.n; i++)
        if (strstr(model->remarks.lines[i], name))
            return true;
    return false;
}

static const struct {
    char type; /* as in members.h; n: null */
    const char *text;
} odd[] = {
    {'n', "null"},
    {'b', "true"},
    {'b', "false"},
    {'i', "0"},
    {'i', "-1"},
    {'r', "2.5"},
    {'r', "4096.0"},
    {'i', "9223372036854775807"},
    {'r', "1e300"},
    {'r', "1"
          "0000000000"
          "0000000000"
          "0000000000"},
    {'t', "\"\""},
    {'t', "\"text\""},
    {'l', "[]"},
    {'l', "[1]"},
    {'l', "[null]"},
    {'o', "{}"},
    {'o', "{\"a\":1}"},
};

static bool takes(const struct member_row *row, char type) {
    return type == 'n' || strchr(row->says, type) || (type == 'i' && strchr(row->says, 'r'));
}

static void check_value(const struct member_row *row, const char *file, const char *name,
                        size_t i) {
    char text[256];
    struct model *model;
    struct error error;
    snprintf(text, sizeof text, "{\"%s\":%s}", name, odd[i].text);
    put(file, text);
    enum status status = open_folder(&model, &error);
    /* Added tokens are part of the vocabulary. */
    bool may_stop = strcmp(name, "added_tokens_decoder") == 0;
    ck_assert_msg(status == STATUS_OK || (may_stop && strstr(error.text, name)), "%s %s: %s", file,
                  text, error.text);
    json_t *value = json_loads(odd[i].text, JSON_DECODE_ANY, NULL);
    bool is_among = row->fate == MEMBER_WANTED && value && members_is_among(value, row->says);
    bool is_passed = status == STATUS_OK && !is_told(model, name);
    json_decref(value);
    if (row->fate == MEMBER_READ || row->fate == MEMBER_TYPED)
        ck_assert_msg(!is_passed || takes(row, odd[i].type), "%s %s is passed over", file, text);
    else if (row->fate == MEMBER_WANTED)
        ck_assert_msg(is_passed == is_among, "%s %s", file, text);
    else
        ck_assert_msg(is_passed, "%s %s: %s", file, text, model->remarks.lines[0]);
    model_close(model);
}

static const struct {
    enum member_place place;
    const char *file;
} helpers[] = {{MEMBERS_GENERATION, "generation_config.json"},
               {MEMBERS_TOKENIZER, "tokenizer_config.json"},
               {MEMBERS_SPECIAL, "special_tokens_map.json"}};

START_TEST(odd_values_in_a_helper_are_told_and_stop_no_start) {
    make_folder();
    const struct member_row *row = members_rows(helpers[_i].place);
    for (; row->names; row++) {
        char *list = strdup(row->names), *rest = NULL;
        for (char *name = strtok_r(list, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
            for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
                check_value(row, helpers[_i].file, name, i);
        free(list);
    }
    remove_folder();
}
END_TEST

START_TEST(each_file_has_its_remark) {
    make_folder();
    put("config.json", "{" SIZES ",\"swirl\":1}");
    for (size_t i = 0; i < 3; i++)
        put(helpers[i].file, "{\"spin\":1}");
    struct model *model = open_good();
    ck_assert_uint_eq(model->remarks.n, 4);
    for (unsigned i = 0; i < 4; i++) {
        char wanted[160];
        snprintf(wanted, sizeof wanted, "%s/%s: %s is not known here and was not looked at", folder,
                 i ? helpers[i - 1].file : "config.json", i ? "spin" : "swirl");
        ck_assert_str_eq(model->remarks.lines[i], wanted);
    }
    model_close(model);
    remove_folder();
}
END_TEST

START_TEST(a_file_about_quantizing_has_its_remark) {
    char wanted[160];
    make_folder();
    put("quantize_config.json", "{\"bits\":4,\"group_size\":32,\"spin\":1}");
    struct model *model = open_good();
    snprintf(wanted, sizeof wanted,
             "%s/quantize_config.json: spin is not known here and was not looked at", folder);
    ck_assert_uint_eq(model->remarks.n, 1);
    ck_assert_str_eq(model->remarks.lines[0], wanted);
    model_close(model);
    remove_folder();
}
END_TEST

static void expect_prefix(const char *steps, const char *config, const char *remark) {
    char text[1024], wanted[256];
    make_folder();
    snprintf(text, sizeof text,
             "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],%s,"
             "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],"
             "\"vocab\":{\"x\":0,\"\\u0120\":1,\"\\u2581\":2}}}",
             steps);
    put("tokenizer.json", text);
    put("tokenizer_config.json", config);
    struct model *model = open_good();
    snprintf(wanted, sizeof wanted, "%s/tokenizer_config.json: add_prefix_space is %s", folder,
             remark ? remark : "");
    ck_assert_msg(model->remarks.n == (remark ? 1 : 0), "%s %s: %s", steps, config,
                  model->remarks.lines[0]);
    if (remark)
        ck_assert_str_eq(model->remarks.lines[0], wanted);
    model_close(model);
    remove_folder();
}

START_TEST(a_space_before_a_text_that_is_not_put_is_told) {
    static const char with[] =
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}";
    static const char without[] =
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
    static const char no[] = "false, but the tokenizer's own steps put a space before a text; they "
                             "are followed";
    static const char yes[] = "true, but the tokenizer's own steps put no space before a text; "
                              "they are followed";
    expect_prefix(with, "{\"add_prefix_space\":true}", NULL);
    expect_prefix(with, "{\"add_prefix_space\":false}", no);
    expect_prefix(without, "{\"add_prefix_space\":true}", yes);
    expect_prefix(without, "{\"add_prefix_space\":false}", NULL);
    expect_prefix(with, "{\"add_prefix_space\":null}", NULL);
    expect_prefix(with, "{}", NULL);
}
END_TEST

START_TEST(another_network_is_refused) {
    struct model *model;
    struct error error;
    make_folder();
    put("config.json", "{" SIZES ",\"attn_logit_softcapping\":50.0}");
    ck_assert_int_eq(open_folder(&model, &error), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(error.text, "config.json: attn_logit_softcapping is 50.0, which is not"),
                  "%s", error.text);
    remove_folder();
}
END_TEST

START_TEST(a_type_that_contradicts_the_class_is_told) {
    static const struct {
        const char *type, *remark;
    } cases[] = {{"\"llama\"", NULL},         {"null", NULL},
                 {"\"swirl\"", NULL},         {"\"mistral3\"", NULL},
                 {"\"mistral\"", "mistral"},  {"\"qwen2\"", "qwen2"},
                 {"\"baichuan\"", "baichuan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        make_folder();
        snprintf(text, sizeof text, "{" SIZES ",\"model_type\":%s}", cases[i].type);
        put("config.json", text);
        struct model *model = open_good();
        snprintf(
            text, sizeof text,
            "%s/config.json: model_type is %s, but architectures is LlamaForCausalLM, which is "
            "followed",
            folder, cases[i].remark ? cases[i].remark : "");
        ck_assert_uint_eq(model->remarks.n, cases[i].remark ? 1 : 0);
        if (cases[i].remark)
            ck_assert_str_eq(model->remarks.lines[0], text);
        model_close(model);
        remove_folder();
    }
}
END_TEST

START_TEST(config_json_says_how_to_sample_where_no_other_file_does) {
    make_folder();
    put("config.json", "{" SIZES ",\"temperature\":0.5,\"top_k\":\"x\",\"num_beams\":2}");
    struct model *model = open_good();
    ck_assert(model->generation.has[GENERATION_TEMPERATURE]);
    ck_assert(model->generation.value[GENERATION_TEMPERATURE] == 0.5);
    ck_assert(is_told(model, "config.json: top_k must be"));
    ck_assert(is_told(model, "config.json: num_beams 2 is not done here"));
    model_close(model);
    put("generation_config.json", "{\"top_p\":0.25}");
    model = open_good();
    ck_assert(!model->generation.has[GENERATION_TEMPERATURE]);
    ck_assert(model->generation.has[GENERATION_TOP_P] && model->remarks.n == 0);
    model_close(model);
    remove_folder();
}
END_TEST

/* additional_special_tokens, and as transformers 5 calls it, a list; its object names tokens. */
START_TEST(listed_tokens_are_special_under_either_name) {
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    static const char *const texts[] = {"{}", "{\"additional_special_tokens\":[\"<x>\"]}",
                                        "{\"extra_special_tokens\":[\"<x>\"]}",
                                        "{\"extra_special_tokens\":[{\"content\":\"<x>\"}]}",
                                        "{\"extra_special_tokens\":[\"<y>\"]}"};
    for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
        make_folder();
        put("added_tokens.json", "{\"<x>\":4}");
        put(files[i % 2], texts[i / 2]);
        struct model *model = open_good();
        bool is_listed = i / 2 >= 1 && i / 2 <= 3;
        ck_assert_msg(tokenizer_is_special(model->tokenizer, 4) == is_listed, "%s %s", files[i % 2],
                      texts[i / 2]);
        model_close(model);
        char path[128];
        snprintf(path, sizeof path, "%s/added_tokens.json", folder);
        unlink(path);
        remove_folder();
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, odd_values_in_a_helper_are_told_and_stop_no_start, 0, 3);
    tcase_add_test(tests, each_file_has_its_remark);
    tcase_add_test(tests, a_file_about_quantizing_has_its_remark);
    tcase_add_test(tests, a_space_before_a_text_that_is_not_put_is_told);
    tcase_add_test(tests, another_network_is_refused);
    tcase_add_test(tests, a_type_that_contradicts_the_class_is_told);
    tcase_add_test(tests, config_json_says_how_to_sample_where_no_other_file_does);
    tcase_add_test(tests, listed_tokens_are_special_under_either_name);
}
