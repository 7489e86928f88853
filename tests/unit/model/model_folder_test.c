/* Folders as hubs have them: what lies beside the weights helps, and never stops a start. */
#include "tests/support/suite.h"

#include "model/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_folder";
const double suite_timeout_s = 60;

static char folder[64];

static const char *const names[] = {"config.json",         "generation_config.json",
                                    "tokenizer.json",      "tokenizer_config.json",
                                    "chat_template.jinja", "special_tokens_map.json"};

static const char config_text[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":1000,\"bos_token_id\":0,\"eos_token_id\":[1,5,6]}";

static void path_of(char path[128], const char *name) {
    snprintf(path, 128, "%s/%s", folder, name);
}

static void put(const char *name, const char *text) {
    char path[128];
    path_of(path, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

static void drop(const char *name) {
    char path[128];
    path_of(path, name);
    unlink(path);
}

/* A tokenizer of the 95 printable bytes, each for itself, and two special tokens behind them. */
static void make_folder(void) {
    char text[4096];
    size_t n = 0;
    snprintf(folder, sizeof folder, "/tmp/tandem-folder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "{\"added_tokens\":[{\"id\":98,\"content\":\"<stop>\",\"special\":true},"
                          "{\"id\":99,\"content\":\"<mark>\",\"special\":true}],"
                          "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                          "\"decoder\":{\"type\":\"ByteLevel\"},"
                          "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (unsigned i = 0; i < 94; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s%c\":%u", i ? "," : "",
                              i + '!' == '"' || i + '!' == '\\' ? "\\" : "", (char)(i + '!'), i);
    snprintf(text + n, sizeof text - n, "}}}");
    put("tokenizer.json", text);
    put("config.json", config_text);
}

static void remove_folder(void) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        drop(names[i]);
    rmdir(folder);
}

static struct model *open_folder(void) {
    static const struct model_options dummy = {.dummy = true};
    struct model *model = NULL;
    struct error error;
    enum status status = model_open(folder, &dummy, &model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return model;
}

/* The ends as "1 2 3". */
static void expect_ends(const struct model *model, const char *wanted) {
    char shown[256] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < model->config.n_stop_ids; i++)
        at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %u" : "%u",
                               model->config.stop_ids[i]);
    ck_assert_str_eq(shown, wanted);
}

START_TEST(ends_come_from_all_files_together) {
    make_folder();
    put("generation_config.json", "{\"eos_token_id\":[1,3]}");
    put("tokenizer_config.json", "{\"eos_token\":\"<stop>\"}");
    struct model *model = open_folder();
    expect_ends(model, "1 3 5 6 98");
    ck_assert_uint_eq(model->config.eos_id, 1);
    ck_assert_uint_eq(model->remarks.n, 0);
    model_close(model);
    drop("generation_config.json");
    model = open_folder();
    expect_ends(model, "1 5 6 98");
    model_close(model);
    drop("tokenizer_config.json"); /* the older file says it too */
    put("special_tokens_map.json", "{\"eos_token\":{\"content\":\"<mark>\"}}");
    model = open_folder();
    expect_ends(model, "1 5 6 99");
    model_close(model);
    remove_folder();
}
END_TEST

START_TEST(ends_past_the_sixteenth_are_told) {
    static const struct {
        const char *generation, *tokenizer, *ends, *says;
    } rows[] = {
        {"[10,11,12,13,14,15,16,17,18,19,20,21,22]", "{}",
         "10 11 12 13 14 15 16 17 18 19 20 21 22 1 5 6", NULL},
        {"[10,11,12,13,14,15,16,17,18,19,20,21,22]", "{\"eos_token\":\"<stop>\"}",
         "10 11 12 13 14 15 16 17 18 19 20 21 22 1 5 6", "token 98 "},
        {"[10,11,12,13,14,15,16,17,18,19,20,21,22,23]", "{\"eos_token\":\"<stop>\"}",
         "10 11 12 13 14 15 16 17 18 19 20 21 22 23 1 5", "token 6 "},
        {"[10,11,12,13,14,15,16,17,18,19,20,21,98,6,5,1]", "{\"eos_token\":\"<stop>\"}",
         "10 11 12 13 14 15 16 17 18 19 20 21 98 6 5 1", NULL}, /* each once */
    };
    make_folder();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"eos_token_id\":%s}", rows[i].generation);
        put("generation_config.json", text);
        put("tokenizer_config.json", rows[i].tokenizer);
        struct model *model = open_folder();
        expect_ends(model, rows[i].ends);
        ck_assert_uint_eq(model->remarks.n, rows[i].says ? 1 : 0);
        if (rows[i].says)
            ck_assert_msg(strstr(model->remarks.lines[0], rows[i].says) != NULL, "%s",
                          model->remarks.lines[0]);
        model_close(model);
    }
    remove_folder();
}
END_TEST

START_TEST(a_helper_file_never_stops_a_start) {
    static const struct {
        const char *name, *text, *says;
    } rows[] = {
        {"generation_config.json", "", "line 1"},
        {"generation_config.json", "[]", "no JSON object"},
        {"generation_config.json", "{\"eos_token_id\":[300,301]}", "eos_token_id"},
        {"generation_config.json", "{\"bos_token_id\":300}", "bos_token_id"},
        {"tokenizer_config.json", "", "line 1"},
        {"tokenizer_config.json", "{\"bos_token\":", "line 1"},
        {"tokenizer_config.json", "null", "'[' or '{' expected"},
        {"tokenizer_config.json", "{\"eos_token\":5}", "eos_token is not text"},
        {"tokenizer_config.json", "{\"add_bos_token\":1}", "add_bos_token must be true or false"},
        {"tokenizer_config.json", "{\"a\":1,\"a\":2}", "duplicate object key"},
        {"special_tokens_map.json", "", "line 1"},
        {"special_tokens_map.json", "{\"pad_token\":[]}", "pad_token is not text"},
        {"chat_template.jinja", NULL, "bytes, which are the most that are read"},
    };
    char *large = malloc((1u << 20) + 2);
    memset(large, ' ', (1u << 20) + 1);
    large[(1u << 20) + 1] = 0;
    make_folder();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(rows[i].name, rows[i].text ? rows[i].text : large);
        struct model *model = open_folder();
        ck_assert_msg(model->remarks.n == 1 && strstr(model->remarks.lines[0], rows[i].name) &&
                          strstr(model->remarks.lines[0], rows[i].says) &&
                          strstr(model->remarks.lines[0], "not used"),
                      "%s: %s: %u: %s", rows[i].name, rows[i].text, model->remarks.n,
                      model->remarks.lines[0]);
        expect_ends(model, "1 5 6");
        model_close(model);
        drop(rows[i].name);
    }
    free(large);
    remove_folder();
}
END_TEST

START_TEST(one_wrong_member_takes_nothing_else_with_it) {
    make_folder();
    put("tokenizer_config.json", "{\"bos_token\":7,\"eos_token\":\"<stop>\",\"legacy\":\"no\","
                                 "\"model_max_length\":1000000000000000019884624838656}");
    struct model *model = open_folder();
    expect_ends(model, "1 5 6 98");
    ck_assert_uint_eq(model->remarks.n, 2);
    model_close(model);
    remove_folder();
}
END_TEST

static void put_config(unsigned n_rows) {
    char text[512];
    snprintf(text, sizeof text, "%s", config_text);
    char *at = strstr(text, "300");
    ck_assert_ptr_nonnull(at);
    snprintf(at, 4, "%3u", n_rows);
    at[3] = ',';
    put("config.json", text);
}

/* The tokenizer has 100 tokens, <stop> 98 and <mark> 99 the last. Whoever opens it agrees. */
START_TEST(tokens_without_rows_stop_no_start) {
    static const struct {
        unsigned n_rows, n_tokens, n_remarks;
        const char *ends;
    } rows[] = {{101, 100, 0, "1 5 6 98"},
                {100, 100, 0, "1 5 6 98"},
                {99, 99, 1, "1 5 6 98"},
                {98, 98, 2, "1 5 6"}};
    make_folder();
    put("tokenizer_config.json", "{\"eos_token\":\"<stop>\"}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_config(rows[i].n_rows);
        struct model *model = open_folder();
        struct model *other = open_folder();
        struct tokenizer *alone = NULL;
        struct error error;
        ck_assert_uint_eq(model->config.n_vocab, rows[i].n_rows);
        ck_assert_uint_eq(tokenizer_n_tokens(model->tokenizer), rows[i].n_tokens);
        ck_assert_uint_eq(model->remarks.n, rows[i].n_remarks);
        ck_assert_msg(rows[i].n_remarks == 0 || strstr(model->remarks.lines[0], "99 \"<mark>\""),
                      "%s", model->remarks.lines[0]);
        expect_ends(model, rows[i].ends);
        ck_assert_mem_eq(model->config.tokenizer_fingerprint, other->config.tokenizer_fingerprint,
                         32);
        ck_assert_int_eq(model_open_tokenizer(folder, &alone, &error), STATUS_OK);
        ck_assert_mem_eq(alone->fingerprint, model->tokenizer->fingerprint, 32);
        tokenizer_close(alone);
        model_close(other);
        model_close(model);
    }
    remove_folder();
}
END_TEST

START_TEST(a_vocabulary_without_rows_stops_it) {
    static const struct model_options dummy = {.dummy = true};
    struct model *model = NULL;
    struct tokenizer *alone = NULL;
    struct error error;
    make_folder();
    put_config(93); /* '~' is 93 */
    ck_assert_int_eq(model_open(folder, &dummy, &model, &error), STATUS_CORRUPT);
    ck_assert_msg(strstr(error.text, folder) && strstr(error.text, "93 (\"~\")") &&
                      strstr(error.text, "the embedding has 93 rows"),
                  "%s", error.text);
    /* By itself it can be looked at. */
    ck_assert_int_eq(model_open_tokenizer(folder, &alone, &error), STATUS_OK);
    ck_assert_uint_eq(tokenizer_n_tokens(alone), 100);
    tokenizer_close(alone);
    put_config(94);
    model_close(open_folder());
    remove_folder();
}
END_TEST

/* The model of a .gguf file, the tokenizer of tokenizer.*, else the folder's model. */
static enum status open_by(const char *name, struct error *error) {
    char path[128];
    struct model *model = NULL;
    struct tokenizer *tokenizer = NULL;
    const struct model_options how = {.dummy = strcmp(name, "config.json") == 0};
    path_of(path, name);
    if (strncmp(name, "tokenizer", 9) == 0)
        return model_open_tokenizer(folder, &tokenizer, error);
    return model_open(strstr(name, ".gguf") ? path : folder, &how, &model, error);
}

/* Every opener of a model's file. */
START_TEST(a_pointer_in_a_files_place_is_named) {
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 98000000\n";
    static const char *const files[] = {
        "config.json",    "model.safetensors", "model.safetensors.index.json",
        "tokenizer.json", "tokenizer.model",   "m.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct error error;
        char path[128];
        make_folder();
        if (strcmp(files[i], "tokenizer.model") == 0)
            drop("tokenizer.json");
        put(files[i], pointer);
        path_of(path, files[i]);
        enum status status = open_by(files[i], &error);
        ck_assert_msg(status == STATUS_CORRUPT && strstr(error.text, files[i]) &&
                          strstr(error.text, "Git LFS") && strstr(error.text, "git lfs pull"),
                      "%s: %s", files[i], error.text);
        drop(files[i]);
        ck_assert_int_eq(symlink("../../blobs/12ab", path), 0);
        status = open_by(files[i], &error);
        ck_assert_msg(status == STATUS_NOT_FOUND && strstr(error.text, files[i]) &&
                          strstr(error.text, "a link to ../../blobs/12ab, which does not exist"),
                      "%s: %s", files[i], error.text);
        drop(files[i]);
        remove_folder();
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, ends_come_from_all_files_together);
    tcase_add_test(tests, ends_past_the_sixteenth_are_told);
    tcase_add_test(tests, a_helper_file_never_stops_a_start);
    tcase_add_test(tests, a_pointer_in_a_files_place_is_named);
    tcase_add_test(tests, tokens_without_rows_stop_no_start);
    tcase_add_test(tests, a_vocabulary_without_rows_stops_it);
    tcase_add_test(tests, one_wrong_member_takes_nothing_else_with_it);
}
