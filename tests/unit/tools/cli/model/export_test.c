/* A GGUF file's tokenizer as files: what is read back is what the model is served with. */
#include "tests/support/suite.h"

#include "model/model.h"
#include "tests/support/gguf_builder.h"
#include "tools/cli/model/model_export.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_export";
const double suite_timeout_s = 60;

/* Ids of the text's bytes and joins, as "1 2 3". */
static void expect(const struct tokenizer *tokenizer, const char *text, const char *wanted) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    char shown[256] = "";
    struct error error;
    struct ids ids;
    ids_init(&ids, 0);
    ck_assert_int_eq(
        tokenizer_encode(tokenizer, scratch, span_of(text), TOKENIZER_PARSE_SPECIAL, &ids, &error),
        STATUS_OK);
    for (size_t i = 0, at = 0; i < ids.n; i++)
        at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %u" : "%u", ids.at[i]);
    ck_assert_str_eq(shown, wanted);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
}

/* The builder's 261 tokens in a file of so many rows, "ab" (256) as user-defined, " ab" as unused. */
static void write_model(const char *path, uint32_t n_rows) {
    static const char key[] = "tokenizer.ggml.token_type";
    struct gguf_builder builder;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_tensor(&builder, "token_embd.weight", n_rows, 32);
    gguf_builder_tensor(&builder, "output_norm.weight", 0, 32);
    gguf_builder_finish(&builder, 0);
    char *at = memmem(builder.bytes.data, builder.bytes.n, key, sizeof key - 1);
    ck_assert_ptr_nonnull(at);
    at += sizeof key - 1 + 4 + 4 + 8; /* behind types and a length */
    at[256 * 4] = TOKEN_USER_DEFINED;
    at[257 * 4] = TOKEN_UNUSED;
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(builder.bytes.data, 1, builder.bytes.n, file), builder.bytes.n);
    ck_assert_int_eq(fclose(file), 0);
    gguf_builder_fini(&builder);
}

START_TEST(tokens_without_rows_are_not_exported) {
    static const struct {
        uint32_t n_rows;
        const char *ids; /* of "ab<|im_start|>" */
    } cases[] = {
        {261, "256 259"},
        {260, "256 259"},
        {257, "256 60 124 105 109 95 115 116 97 114 116 124 62"},
        {256, "97 98 60 124 105 109 95 115 116 97 114 116 124 62"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[] = "/tmp/tandem-export-XXXXXX";
        char path[64], file[64];
        struct model *model = NULL;
        struct tokenizer *read = NULL;
        struct error error = {0};
        ck_assert_ptr_nonnull(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        write_model(path, cases[i].n_rows);
        ck_assert_msg(model_open(path, NULL, &model, &error) == STATUS_OK, "%s", error.text);
        expect(model->tokenizer, "ab<|im_start|>", cases[i].ids);
        ck_assert_int_eq(model_export_tokenizer(model, folder, &error), STATUS_OK);
        enum status status = tokenizer_open_folder(folder, &read, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        ck_assert_uint_eq(tokenizer_n_tokens(read), cases[i].n_rows);
        expect(read, "ab<|im_start|>", cases[i].ids);
        tokenizer_close(read);
        model_close(model);
        unlink(path);
        snprintf(file, sizeof file, "%s/tokenizer.json", folder);
        unlink(file);
        snprintf(file, sizeof file, "%s/tokenizer_config.json", folder);
        unlink(file);
        rmdir(folder);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, tokens_without_rows_are_not_exported);
}
