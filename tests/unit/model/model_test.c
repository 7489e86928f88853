/* Whole models: `hash`, made files, and the small real one where TANDEM_TEST_MODEL names it. */
#include "tests/support/suite.h"

#include "model/gguf/gguf.h"
#include "model/model.h"
#include "tests/support/gguf_builder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_model";
const double suite_timeout_s = 60;

static void write_file(const char *path, const struct buf *bytes) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes->data, 1, bytes->n, file), bytes->n);
    ck_assert_int_eq(fclose(file), 0);
}

/* A whole file with one byte of its tensor data set; the fingerprint comes back. */
static void open_made(size_t data_at, char byte, uint32_t context, uint8_t fingerprint[32]) {
    struct gguf_builder builder;
    struct model *model;
    struct error error;
    char path[] = "/tmp/tandem-model-XXXXXX.gguf";
    int fd = mkstemps(path, 5);
    ck_assert_int_ge(fd, 0);
    close(fd);
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_patch(&builder, "llama.context_length", context);
    gguf_builder_tensor(&builder, "token_embd.weight", 261, 32);
    gguf_builder_tensor(&builder, "output_norm.weight", 0, 32);
    gguf_builder_finish(&builder, 0);
    builder.bytes.data[builder.bytes.n - builder.data_bytes + data_at] = byte;
    write_file(path, &builder.bytes);
    enum status status = model_open(path, NULL, &model, &error);
    unlink(path);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    const struct tensor *tensor;
    ck_assert_int_eq(tensors_get(&model->tensors, "token_embd.weight", 261, 32, &tensor, &error),
                     STATUS_OK);
    ck_assert_int_eq(((const char *)tensor->data)[data_at], byte);
    ck_assert_int_eq(tensors_get(&model->tensors, "output_norm.weight", 0, 32, &tensor, &error),
                     STATUS_OK);
    ck_assert_int_eq(tensors_get(&model->tensors, "output_norm.weight", 32, 1, &tensor, &error),
                     STATUS_CORRUPT);
    ck_assert_int_eq(tensors_get(&model->tensors, "output_norm.weight", 0, 31, &tensor, &error),
                     STATUS_CORRUPT);
    ck_assert_int_eq(tensors_get(&model->tensors, "absent", 0, 32, &tensor, &error),
                     STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(tensors_nth(&model->tensors, 1));
    ck_assert_ptr_null(tensors_nth(&model->tensors, 2));
    ck_assert_uint_eq(model->config.n_stop_ids, 2);
    ck_assert_uint_eq(model->config.stop_ids[0], 260);
    ck_assert_uint_eq(model->config.stop_ids[1], 258);
    ck_assert_ptr_null(model->template.kind);
    memcpy(fingerprint, model->config.fingerprint, 32);
    model_close(model);
    gguf_builder_fini(&builder);
}

START_TEST(fingerprint_changes_with_weights_and_metadata) {
    uint8_t base[32];
    uint8_t same[32];
    uint8_t other[32];
    open_made(0, 0, 128, base);
    open_made(0, 0, 128, same);
    ck_assert_mem_eq(base, same, 32);
    open_made(0, 1, 128, other);
    ck_assert_mem_ne(base, other, 32);
    open_made(0, 0, 129, other);
    ck_assert_mem_ne(base, other, 32);
}
END_TEST

/* Tensors 0 and 1 of a tiny model in `n_files` files below `folder`; the path of the last comes back. */
static void put_model(const char *folder, uint32_t n_files, char path[256]) {
    static const char *const names[] = {"token_embd.weight", "output.weight"};
    for (uint32_t file = 0; file < n_files; file++) {
        struct gguf_builder builder;
        gguf_builder_init(&builder);
        if (file == 0)
            gguf_builder_llama(&builder);
        if (n_files > 1) {
            gguf_builder_u32(&builder, "split.no", file);
            gguf_builder_u32(&builder, "split.count", n_files);
            gguf_builder_u32(&builder, "split.tensors.count", 2);
        }
        for (uint32_t i = 0; i < 2; i++)
            if (n_files == 1 || i == file)
                gguf_builder_tensor(&builder, names[i], 261, 32);
        gguf_builder_finish(&builder, 0);
        snprintf(path, 256, n_files == 1 ? "%s/tiny.gguf" : "%s/tiny-%05u-of-%05u.gguf", folder,
                 file + 1, n_files);
        write_file(path, &builder.bytes);
        gguf_builder_fini(&builder);
    }
}

/* The head lies in the second part: what is found out about it must not come from the first alone. */
START_TEST(model_in_parts_is_that_of_the_whole_file) {
    char folder[] = "/tmp/tandem-model-XXXXXX";
    char paths[2][256], command[64];
    struct model *models[3];
    struct error error;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    put_model(folder, 1, paths[0]);
    put_model(folder, 2, paths[1]);
    ck_assert_int_eq(model_open(paths[0], NULL, &models[0], &error), STATUS_OK);
    for (int i = 1; i < 3; i++) {
        enum status status = model_open(paths[1], NULL, &models[i], &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        ck_assert_str_eq(models[i]->config.name, "tiny");
        paths[1][strlen(paths[1]) - strlen("2-of-00002.gguf")] = '1';
    }
    for (int i = 0; i < 3; i++) {
        const struct tensor *head = tensors_nth(&models[i]->tensors, 1);
        ck_assert_str_eq(head->name, "output.weight");
        ck_assert_ptr_eq(tensors_find(&models[i]->tensors, "output.weight"), head);
        ck_assert_ptr_null(tensors_nth(&models[i]->tensors, 2));
        ck_assert(!models[i]->config.tied_head);
        ck_assert_uint_eq(models[i]->config.stop_ids[0], 260);
        ck_assert_uint_eq(tokenizer_n_tokens(models[i]->tokenizer), 261);
        ck_assert_mem_eq(models[i]->config.tokenizer_fingerprint,
                         models[0]->config.tokenizer_fingerprint, 32);
    }
    /* Not that of the whole file, which other releases know by its own; the same from either part. */
    ck_assert_mem_ne(models[1]->config.fingerprint, models[0]->config.fingerprint, 32);
    ck_assert_mem_eq(models[1]->config.fingerprint, models[2]->config.fingerprint, 32);
    model_close(models[2]);
    FILE *second = fopen(strcat(strcpy(command, folder), "/tiny-00002-of-00002.gguf"), "r+b");
    ck_assert_int_eq(fseek(second, -1, SEEK_END), 0);
    fputc('x', second);
    fclose(second);
    ck_assert_int_eq(model_open(paths[1], NULL, &models[2], &error), STATUS_OK);
    ck_assert_mem_ne(models[1]->config.fingerprint, models[2]->config.fingerprint, 32);
    /* Bytes of no tensor count, too, in every part. */
    model_close(models[1]);
    ck_assert_int_eq(truncate(command, (off_t)models[2]->gguf->others[0]->n_bytes + 32), 0);
    ck_assert_int_eq(model_open(paths[1], NULL, &models[1], &error), STATUS_OK);
    ck_assert_mem_ne(models[1]->config.fingerprint, models[2]->config.fingerprint, 32);
    ck_assert_int_eq(truncate(command, 64), 0);
    ck_assert_int_eq(model_check_files(models[2], &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "tiny-00002-of-00002.gguf"));
    for (int i = 0; i < 3; i++)
        model_close(models[i]);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* The file's 261 tokens end with <|im_start|> 259 and <|im_end|> 260, its bos and eos. */
START_TEST(gguf_of_fewer_rows_than_tokens_opens) {
    static const struct {
        uint32_t n_rows, vocab_size; /* vocab_size 0: no key */
        unsigned n_remarks, n_stops;
        uint32_t bos_id, eos_id;
        const char *says; /* NULL: it opens */
    } cases[] = {
        {261, 0, 0, 2, 259, 260, NULL},
        {260, 0, 2, 1, 259, CONFIG_NO_TOKEN, NULL},
        {260, 260, 2, 1, 259, CONFIG_NO_TOKEN, NULL},
        {259, 259, 3, 1, CONFIG_NO_TOKEN, CONFIG_NO_TOKEN, NULL},
        {260, 261, 0, 0, 0, 0, "token_embd.weight is (260, 32), but the keys say (261 tokens"},
        {257, 0, 0, 0, 0, 0, "makes token 257 (\" ab\") of plain text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_builder builder;
        struct model *model = NULL;
        struct tokenizer *alone = NULL;
        struct error error = {0};
        char path[] = "/tmp/tandem-model-XXXXXX.gguf";
        int fd = mkstemps(path, 5);
        ck_assert_int_ge(fd, 0);
        close(fd);
        gguf_builder_init(&builder);
        gguf_builder_llama(&builder);
        if (cases[i].vocab_size > 0)
            gguf_builder_u32(&builder, "llama.vocab_size", cases[i].vocab_size);
        gguf_builder_tensor(&builder, "token_embd.weight", cases[i].n_rows, 32);
        gguf_builder_tensor(&builder, "output_norm.weight", 0, 32);
        gguf_builder_finish(&builder, 0);
        write_file(path, &builder.bytes);
        gguf_builder_fini(&builder);
        enum status status = model_open(path, NULL, &model, &error);
        enum status opened = model_open_tokenizer(path, &alone, &error);
        unlink(path);
        ck_assert_int_eq(opened, STATUS_OK);
        ck_assert_int_eq(status, cases[i].says ? STATUS_CORRUPT : STATUS_OK);
        if (cases[i].says) {
            ck_assert_msg(strstr(error.text, cases[i].says) != NULL, "%s", error.text);
        } else {
            ck_assert_uint_eq(model->config.n_vocab, cases[i].n_rows);
            ck_assert_uint_eq(tokenizer_n_tokens(model->tokenizer), cases[i].n_rows);
            ck_assert_mem_eq(alone->fingerprint, model->tokenizer->fingerprint, 32);
            ck_assert_uint_eq(model->remarks.n, cases[i].n_remarks);
            ck_assert_uint_eq(model->config.n_stop_ids, cases[i].n_stops);
            ck_assert_uint_eq(model->config.bos_id, cases[i].bos_id);
            ck_assert_uint_eq(model->config.eos_id, cases[i].eos_id);
        }
        tokenizer_close(alone);
        model_close(model);
    }
}
END_TEST

START_TEST(hash_opens_without_files) {
    struct model *model;
    struct error error;
    ck_assert_int_eq(model_open("hash", NULL, &model, &error), STATUS_OK);
    ck_assert_str_eq(model->config.family, "hash");
    ck_assert_str_eq(model->config.name, "hash");
    ck_assert_uint_eq(model->config.n_vocab, 65536);
    ck_assert_uint_eq(model->config.context, 131072);
    ck_assert_uint_eq(model->config.eos_id, CONFIG_NO_TOKEN);
    ck_assert_uint_eq(model->config.n_stop_ids, 0);
    ck_assert_str_eq(model->template.kind->name, "chatml");
    ck_assert_ptr_null(tensors_find(&model->tensors, "token_embd.weight"));
    ck_assert_ptr_null(tensors_nth(&model->tensors, 0));

    struct template_message hi = {.role = TEMPLATE_USER, .content = SPAN("hi")};
    struct template_input input = {.messages = &hi, .n_messages = 1, .add_generation_prompt = true};
    struct template_prompt prompt;
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    static const char wanted[] = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
    struct ids ids;
    ids_init(&ids, 0);
    ck_assert_int_eq(template_render(&model->template, &input, &prompt, &error), STATUS_OK);
    ck_assert_int_eq(template_prompt_encode(&prompt, model->tokenizer, scratch, &ids, &error),
                     STATUS_OK);
    ck_assert_uint_eq(ids.n, sizeof wanted - 1);
    for (size_t i = 0; i < ids.n; i++)
        ck_assert_uint_eq(ids.at[i], (unsigned char)wanted[i]);
    ids_fini(&ids);
    template_prompt_fini(&prompt);
    tokenizer_scratch_free(scratch);
    model_close(model);
}
END_TEST

START_TEST(what_cannot_be_opened_is_refused_with_a_line) {
    struct model *model = NULL;
    struct error error;
    ck_assert_int_eq(model_open("/nonexistent/model.gguf", NULL, &model, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/nonexistent/model.gguf"));
    ck_assert_int_eq(model_open("/proc", NULL, &model, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/proc/config.json"));
    ck_assert_int_eq(model_open("", NULL, &model, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_null(model);
    model_close(NULL);
}
END_TEST

START_TEST(smollm2_is_what_its_card_says) {
    const char *path = getenv("TANDEM_TEST_MODEL");
    struct model *model;
    struct error error;
    const struct tensor *tensor;
    enum status status = model_open(path, NULL, &model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    const struct model_config *config = &model->config;
    ck_assert_uint_eq(config->n_layers, 30);
    ck_assert_uint_eq(config->dim, 576);
    ck_assert_uint_eq(config->n_heads, 9);
    ck_assert_uint_eq(config->n_kv_heads, 3);
    ck_assert_uint_eq(config->head_dim, 64);
    ck_assert_uint_eq(config->ffn_dim, 1536);
    ck_assert_uint_eq(config->n_vocab, 49152);
    ck_assert_uint_eq(config->context, 8192);
    ck_assert(config->rope.theta == 100000);
    ck_assert(config->tied_head);
    ck_assert_uint_eq(config->eos_id, 2);
    ck_assert_uint_eq(config->n_stop_ids, 2);
    ck_assert_uint_eq(config->stop_ids[1], 0);
    ck_assert_int_eq(tensors_get(&model->tensors, "token_embd.weight", 49152, 576, &tensor, &error),
                     STATUS_OK);
    ck_assert_str_eq(tensor->format, "q8_0");
    ck_assert_int_eq(
        tensors_get(&model->tensors, "blk.29.ffn_down.weight", 576, 1536, &tensor, &error),
        STATUS_OK);
    ck_assert_str_eq(tensor->format, "q4_1");
    ck_assert_str_eq(model->template.kind->name, "jinja");
    model_close(model);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, fingerprint_changes_with_weights_and_metadata);
    tcase_add_test(tests, model_in_parts_is_that_of_the_whole_file);
    tcase_add_test(tests, gguf_of_fewer_rows_than_tokens_opens);
    tcase_add_test(tests, hash_opens_without_files);
    tcase_add_test(tests, what_cannot_be_opened_is_refused_with_a_line);
    const char *path = getenv("TANDEM_TEST_MODEL");
    if (path && *path)
        tcase_add_test(tests, smollm2_is_what_its_card_says);
    else
        suite_skip(
            "smollm2_is_what_its_card_says",
            "TANDEM_TEST_MODEL does not name the small real model (tools/fetch-model smollm2)");
}
