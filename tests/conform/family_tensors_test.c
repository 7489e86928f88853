/* Every family that has files: what it lists of a checkpoint is what model_check_tensors() looks for, tensor by tensor. */
#include "worker/family/family.h"

#include "model/model.h"
#include "model/weights/checkpoint/checkpoint.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "tests/support/tiny_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "family_tensors";
const double suite_timeout_s = 60;

static const struct {
    const char *family;
    const char *format;
    bool gguf;
} models[] = {
    {"llama", "bf16", false},    {"llama", "awq", false},      {"qwen", "gptq4", false},
    {"qwen2", "f32", false},     {"qwen2", "gptq8", false},    {"qwen3", "f16", false},
    {"qwen2_moe", "f16", false}, {"qwen2_moe", "awq", false},  {"qwen3_moe", "gptq4", false},
    {"chatglm", "f16", false},   {"baichuan", "gptq4", false}, {"llama", "q8_0", true},
};

/* The tensors of a checkpoint but for one, which is hidden or has a row less. */
struct part {
    struct checkpoint head;
    struct checkpoint *whole; /* borrowed */
    const char *hidden;       /* or NULL */
    const char *short_name;   /* or NULL */
};

static struct tensor short_one;

static const struct tensor *find_in_part(const struct checkpoint *checkpoint, const char *name) {
    const struct part *part = (const struct part *)checkpoint;
    const struct tensor *found = part->whole->kind->find(part->whole, name);
    if (part->hidden && strcmp(part->hidden, name) == 0)
        return NULL;
    if (!found || !part->short_name || strcmp(part->short_name, name) != 0)
        return found;
    short_one = *found;
    short_one.shape[0]--;
    return &short_one;
}

static const struct checkpoint_kind kind_part = {.name = "part", .find = find_in_part};

static enum status open_family(const struct model *model, struct error *error) {
    struct family_model *opened = NULL;
    const struct family *family = family_find(model->config.family);
    struct family_options options = {.model = model, .n_ranks = 1, .max_tokens = 16};
    enum status status = family->network->open(family, &options, &opened, error);
    family_close(opened);
    return status;
}

/* Layers that are quantized are missed by their plain weight. */
static bool is_named(const char *text, const char *name) {
    size_t n_stem = strlen(name) - strlen(strrchr(name, '.'));
    char stem[TENSOR_NAME_MAX + 1];
    snprintf(stem, sizeof stem, "tensor %.*s.", (int)n_stem, name);
    return strstr(text, stem) != NULL;
}

/* The line that both have of it, or "": both do without. */
static enum status refusal(const struct model *model, struct error *error) {
    struct error other = {0};
    enum status status = model_check_tensors(model, error);
    ck_assert_int_eq(open_family(model, &other), status);
    ck_assert_str_eq(other.text, status == STATUS_OK ? "" : error->text);
    return status;
}

START_TEST(what_a_family_takes_is_what_is_looked_for) {
    struct model *model = models[_i].gguf
                              ? tiny_gguf_open(&(struct tiny_gguf){.format = models[_i].format})
                              : tiny_hub_open(models[_i].family, models[_i].format);
    struct error error = {0};
    struct part part = {.head.kind = &kind_part, .whole = model->tensors.checkpoint};
    ck_assert_int_eq(open_family(model, &error), STATUS_OK); /* makes a dummy's tensors */
    model->tensors.checkpoint = &part.head;
    ck_assert_msg(refusal(model, &error) == STATUS_OK, "%s", error.text);
    const struct tensor *tensor;
    uint32_t n_optional = 0;
    for (uint32_t i = 0; (tensor = part.whole->kind->nth(part.whole, i)); i++) {
        part.hidden = tensor->name;
        error = (struct error){0};
        enum status status = refusal(model, &error);
        ck_assert_msg(status == STATUS_NOT_FOUND || status == STATUS_OK, "%s", error.text);
        n_optional += status == STATUS_OK;
        ck_assert_msg(status == STATUS_OK || is_named(error.text, tensor->name), "%s: %s",
                      tensor->name, error.text);
        part.hidden = NULL;
        part.short_name = tensor->name;
        status = refusal(model, &error);
        ck_assert_msg(status == STATUS_CORRUPT && strstr(error.text, tensor->name), "%s: %s",
                      tensor->name, error.text);
        part.short_name = NULL;
    }
    /* Only GPTQ's g_idx of groups in order may be left out of what a dummy has. */
    ck_assert_uint_eq(n_optional, 0);
    model->tensors.checkpoint = part.whole;
    model_close(model);
}
END_TEST

START_TEST(every_family_but_the_oracle_is_looked_at) {
    for (uint32_t i = 0; family_table[i].name; i++) {
        bool found = strcmp(family_table[i].name, "hash") == 0;
        for (size_t m = 0; m < sizeof models / sizeof *models; m++)
            found = found || strcmp(models[m].family, family_table[i].name) == 0;
        ck_assert_msg(found, "family %s is not tested", family_table[i].name);
    }
}
END_TEST

START_TEST(a_family_without_names_in_gguf_is_refused) {
    struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = "f32"});
    struct error error = {0};
    snprintf(model->config.family, sizeof model->config.family, "qwen2_moe");
    ck_assert_int_eq(refusal(model, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "family qwen2_moe is not read from GGUF files"));
    model_close(model);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, what_a_family_takes_is_what_is_looked_for, 0,
                        sizeof models / sizeof *models);
    tcase_add_test(tests, every_family_but_the_oracle_is_looked_at);
    tcase_add_test(tests, a_family_without_names_in_gguf_is_refused);
}
