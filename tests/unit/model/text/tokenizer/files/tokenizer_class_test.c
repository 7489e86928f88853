/* What stands around a text: by tokenizer.json's post-processor, by the class that a folder's files
 * name or imply, by add_bos_token and add_eos_token. The ids are those of transformers 4.57. */
#include "tests/support/suite.h"

#include "model/text/tokenizer/tokenizer.h"
#include "tests/unit/model/text/tokenizer/folder_rig.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_tokenizer_class";
const double suite_timeout_s = 60;

/* The folder's answer for "hi" with what stands around it, and without. */
static void expect_hi(const char *wanted, const char *what) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    char shown[512];
    ck_assert_msg(tokenizer_open_folder(folder, &tokenizer, &error) == STATUS_OK, "%s: %s", what,
                  error.text);
    encode(tokenizer, "hi", TOKENIZER_ADD_BOS, shown);
    ck_assert_msg(strcmp(shown, wanted) == 0, "%s gave %s, not %s", what, shown, wanted);
    encode(tokenizer, "hi", TOKENIZER_PLAIN, shown);
    ck_assert_str_eq(shown, "9");
    tokenizer_close(tokenizer);
}

#define ADDED(id, text) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":true},"
#define JSON(post)                                                                                 \
    "{\"added_tokens\":[" ADDED(1, "<s>") ADDED(2, "</s>") ADDED(3, "[gMASK]") ADDED(4, "<sop>")   \
        ADDED(5, "<bos>") "{\"id\":6,\"content\":\"<eos>\",\"special\":true}],"                    \
                          "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}," \
                          "\"post_processor\":" post ",\"decoder\":{\"type\":\"ByteLevel\"},"      \
                          "\"model\":{\"type\":\"BPE\",\"vocab\":{\"zz\":0,\"h\":7,\"i\":8,"       \
                          "\"hi\":9},\"merges\":[\"h i\"]}}"

#define A         "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define PUT(text) "{\"SpecialToken\":{\"id\":\"" text "\",\"type_id\":0}}"
#define IDS_OF(text, ids)                                                                          \
    "\"" text "\":{\"id\":\"" text "\",\"ids\":[" ids "],\"tokens\":[\"" text "\"]}"
#define TEMPLATE(single)                                                                           \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single                                         \
    "],\"pair\":[],\"special_tokens\":{" IDS_OF("<s>", "1") "," IDS_OF("</s>", "2") "," IDS_OF(    \
        "[gMASK]", "3") "," IDS_OF("<sop>", "4") "," IDS_OF("both", "3,4") "," IDS_OF("over",      \
                                                                                      "10") "}}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false}"
#define S2         PUT("<s>") "," PUT("<s>")
#define S8         S2 "," S2 "," S2 "," S2

START_TEST(several_tokens_stand_on_a_side) {
    static const struct {
        const char *json;
        const char *ids;
    } rows[] = {
        {JSON(TEMPLATE(PUT("[gMASK]") "," PUT("<sop>") "," A)), "3 4 9"},
        {JSON(TEMPLATE(PUT("<sop>") "," PUT("[gMASK]") "," A)), "4 3 9"},
        {JSON(TEMPLATE(PUT("<s>") "," A "," PUT("</s>") "," PUT("<sop>"))), "1 9 2 4"},
        {JSON(TEMPLATE(PUT("both") "," PUT("<s>") "," A)), "3 4 1 9"},
        {JSON(TEMPLATE(A)), "9"},
        {JSON("{\"type\":\"Sequence\",\"processors\":[" BYTE_LEVEL
              "," TEMPLATE(PUT("[gMASK]") "," PUT("<sop>") "," A "," PUT("</s>")) "]}"),
         "3 4 9 2"},
        {JSON("{\"type\":\"Sequence\",\"processors\":[]}"), "9"},
        {JSON(TEMPLATE(S8 "," A "," S8)), "1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1"},
    };
    make_folder();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("tokenizer.json", rows[i].json);
        expect_hi(rows[i].ids, rows[i].json);
    }
    remove_folder();
}
END_TEST

START_TEST(what_cannot_stand_around_a_text_is_refused) {
    static const struct {
        const char *json;
        enum status status;
        const char *line;
    } rows[] = {
        {JSON(TEMPLATE(S8 "," PUT("<s>") "," A)), STATUS_LIMIT, "more than 8 special tokens"},
        {JSON(TEMPLATE(A "," S8 "," PUT("<s>"))), STATUS_LIMIT, "more than 8 special tokens"},
        {JSON(TEMPLATE(A "," A)), STATUS_CORRUPT, "single[1] is neither"},
        {JSON(TEMPLATE(PUT("<s>") "," PUT("over") "," A)), STATUS_CORRUPT,
         "token 10 is added to every text, but is not in the vocabulary of 10"},
        {JSON("{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(A) "," TEMPLATE(A) "]}"),
         STATUS_UNSUPPORTED, "a second TemplateProcessing"},
    };
    make_folder();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error;
        write_file("tokenizer.json", rows[i].json);
        enum status status = tokenizer_open_folder(folder, &tokenizer, &error);
        ck_assert_msg(status == rows[i].status, "row %zu: %d", i, status);
        ck_assert_msg(strstr(error.text, rows[i].line) != NULL, "%s", error.text);
        ck_assert_msg(strstr(error.text, "tokenizer.json") != NULL, "%s", error.text);
    }
    remove_folder();
}
END_TEST

/* 16 folders: each answer to add_bos_token (absent, null, false, true) with each to add_eos_token;
 * `codes`: what stands around "hi" in each: b BOS, e EOS, x both, - neither. */
static void expect_answers(const char *class, const char *codes) {
    static const char *const answers[] = {NULL, "null", "false", "true"};
    for (unsigned i = 0; i < 16; i++) {
        char text[512];
        int n = snprintf(text, sizeof text, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"");
        if (class)
            n += snprintf(text + n, sizeof text - (size_t)n, ",\"tokenizer_class\":\"%s\"", class);
        if (answers[i / 4])
            n += snprintf(text + n, sizeof text - (size_t)n, ",\"add_bos_token\":%s",
                          answers[i / 4]);
        if (answers[i % 4])
            n += snprintf(text + n, sizeof text - (size_t)n, ",\"add_eos_token\":%s",
                          answers[i % 4]);
        snprintf(text + n, sizeof text - (size_t)n, "}");
        write_file("tokenizer_config.json", text);
        expect_hi(codes[i] == 'b'   ? "1 9"
                  : codes[i] == 'e' ? "9 2"
                  : codes[i] == 'x' ? "1 9 2"
                                    : "9",
                  text);
    }
}

#define DECIDES "bbbx---e---ebbbx"
#define NOTHING "----------------"
#define BOTH    "xxxxxxxxxxxxxxxx"

START_TEST(classes_decide_as_transformers_has_them) {
    static const struct {
        const char *class;
        const char *without; /* a post-processor */
        const char *with;    /* one that puts <s> before and </s> behind */
    } rows[] = {
        {NULL, DECIDES, DECIDES}, /* by model_type */
        {"LlamaTokenizer", DECIDES, DECIDES},
        {"LlamaTokenizerFast", DECIDES, DECIDES},
        {"CodeLlamaTokenizer", DECIDES, DECIDES},
        {"GemmaTokenizer", DECIDES, DECIDES},
        {"PreTrainedTokenizerFast", NOTHING, BOTH},
        {"GPT2Tokenizer", NOTHING, BOTH},
        {"Qwen2Tokenizer", NOTHING, BOTH},
    };
    make_folder();
    write_file("config.json", "{\"model_type\":\"llama\"}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("tokenizer.json", JSON("null"));
        expect_answers(rows[i].class, rows[i].without);
        write_file("tokenizer.json", JSON(TEMPLATE(PUT("<s>") "," A "," PUT("</s>"))));
        expect_answers(rows[i].class, rows[i].with);
    }
    remove_folder();
}
END_TEST

/* transformers 5 names a backend and no wish of add_bos_token or add_eos_token. */
START_TEST(a_folder_that_transformers_5_saved_says_it_in_tokenizer_json) {
    static const struct {
        const char *config;
        const char *without; /* a post-processor */
        const char *with;
    } rows[] = {
        {"{\"tokenizer_class\":\"LlamaTokenizer\"}", "1 9", "1 9"},
        {"{\"tokenizer_class\":\"LlamaTokenizer\",\"backend\":\"tokenizers\"}", "9", "1 9 2"},
        {"{\"tokenizer_class\":\"TokenizersBackend\",\"backend\":\"tokenizers\"}", "9", "1 9 2"},
        {"{\"backend\":\"tokenizers\"}", "9", "1 9 2"},
        {"{\"backend\":\"sentencepiece\"}", "1 9", "1 9"},
        {"{\"backend\":5}", "1 9", "1 9"},
        {"{\"backend\":null}", "1 9", "1 9"},
        /* Version 4 wrote this one: its classes put the wishes in again. */
        {"{\"backend\":\"tokenizers\",\"add_bos_token\":false}", "9", "9"},
        {"{\"backend\":\"tokenizers\",\"add_eos_token\":true}", "1 9 2", "1 9 2"},
    };
    make_folder();
    write_file("config.json", "{\"model_type\":\"llama\"}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("tokenizer_config.json", rows[i].config);
        write_file("tokenizer.json", JSON("null"));
        expect_hi(rows[i].without, rows[i].config);
        write_file("tokenizer.json", JSON(TEMPLATE(PUT("<s>") "," A "," PUT("</s>"))));
        expect_hi(rows[i].with, rows[i].config);
    }
    remove_folder();
}
END_TEST

START_TEST(the_class_follows_from_the_type_of_model) {
    static const struct {
        const char *config;
        const char *answers;
        const char *ids;
    } rows[] = {
        {"{\"model_type\":\"llama\"}", "{}", "1 9"},
        {"{\"model_type\":\"mistral\"}", "{}", "1 9"},
        {"{\"model_type\":\"mistral\"}", "{\"tokenizer_class\":null}", "1 9"},
        {"{\"model_type\":\"qwen2\"}", "{\"add_bos_token\":true,\"bos_token\":\"<s>\"}", "9"},
        {"{\"model_type\":\"qwen2\",\"tokenizer_class\":\"LlamaTokenizer\"}", "{}", "1 9"},
        {"{\"model_type\":\"llama\",\"tokenizer_class\":\"GemmaTokenizer\"}", "{}", "5 9"},
        {"{\"model_type\":\"llama\"}", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", "9"},
        {"{\"model_type\":\"llama\"}", "{\"bos_token\":\"<eos>\"}", "6 9"},
        {"{\"model_type\":7}", "{}", "9"},
        {"{\"model_type\":\"llama\"", "{}", "9"}, /* the model's reader refuses it */
        {"{\"model_type\":\"chatglm\"}", "{\"add_bos_token\":true}", "3 4 9"},
    };
    make_folder();
    write_file("tokenizer.json", JSON("null"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("config.json", rows[i].config);
        write_file("tokenizer_config.json", rows[i].answers);
        expect_hi(rows[i].ids, rows[i].config);
    }
    remove_folder();
}
END_TEST

/* A class's own BOS may be no token of this vocabulary (Llama 3's): the post-processor's counts. */
START_TEST(a_default_that_is_no_token_is_not_added) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<|begin|>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" PUT(
            "<|begin|>") "," A
                         "],\"special_tokens\":{" IDS_OF(
                             "<|begin|>", "0") "}},\"decoder\":{\"type\":\"ByteLevel\"},"
                                               "\"model\":{\"vocab\":{\"h\":7,\"i\":8,\"hi\":9},"
                                               "\"merges\":[\"h i\"]}}";
    make_folder();
    write_file("tokenizer.json", json);
    write_file("config.json", "{\"model_type\":\"llama\"}");
    expect_hi("0 9", "a vocabulary without <s>");
    remove_folder();
}
END_TEST

START_TEST(chatglm_keeps_what_a_post_processor_says) {
    make_folder();
    write_file("config.json", "{\"model_type\":\"chatglm\"}");
    write_file("tokenizer.json", JSON(TEMPLATE(A)));
    expect_hi("9", "a template of nothing but the text");
    write_file("tokenizer.json", JSON(TEMPLATE(PUT("[gMASK]") "," PUT("<sop>") "," A)));
    expect_hi("3 4 9", "a template with both");
    remove_folder();
}
END_TEST

START_TEST(vocab_json_has_the_pattern_of_the_type_of_model) {
    static const char vocabulary[] = "{\"h\":7,\"i\":8,\"hi\":9,\"1\":0,\"2\":1,\"12\":2}";
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    static const char *const types[] = {"qwen2", "llama"};
    make_folder();
    write_file("vocab.json", vocabulary);
    write_file("merges.txt", "h i\n1 2\n");
    for (size_t i = 0; i < 2; i++) {
        char config[64];
        struct tokenizer *tokenizer = NULL;
        struct error error;
        struct ids ids;
        ids_init(&ids, 0);
        snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", types[i]);
        write_file("config.json", config);
        ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_OK);
        ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("12"), 0, &ids, &error),
                         STATUS_OK);
        ck_assert_uint_eq(ids.n, i == 0 ? 2 : 1); /* Qwen cuts each digit */
        ids_fini(&ids);
        tokenizer_close(tokenizer);
    }
    tokenizer_scratch_free(scratch);
    remove_folder();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, several_tokens_stand_on_a_side);
    tcase_add_test(tests, what_cannot_stand_around_a_text_is_refused);
    tcase_add_test(tests, classes_decide_as_transformers_has_them);
    tcase_add_test(tests, a_folder_that_transformers_5_saved_says_it_in_tokenizer_json);
    tcase_add_test(tests, the_class_follows_from_the_type_of_model);
    tcase_add_test(tests, a_default_that_is_no_token_is_not_added);
    tcase_add_test(tests, chatglm_keeps_what_a_post_processor_says);
    tcase_add_test(tests, vocab_json_has_the_pattern_of_the_type_of_model);
}
