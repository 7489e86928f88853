/* What a folder's JSON files say that no reader takes: each member of each is looked up
 * (members/members.h). */
#include "base/file.h"
#include "base/json/json_text.h"
#include "model/members/members.h"
#include "model/model_parts.h"
#include "model/text/tokenizer/vocabulary/ids.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <limits.h>

/* transformers goes by model_type, other programs by the class, as here. */
static void model_type_compare(const struct config_hub *hub, const char *class,
                               struct remarks *remarks) {
    const char *type = json_string_value(json_object_get(hub->config, "model_type"));
    unsigned kin = members_kin_of_type(type);
    if (kin != 0 && kin != members_kin(class))
        remarks_add(remarks, "%s: model_type is %s, but architectures is %.64s, which is followed",
                    hub->config_file, type, class);
}

enum status model_look_at_config(const struct config_hub *hub, struct remarks *remarks,
                                 struct error *error) {
    const json_t *classes = json_object_get(hub->config, "architectures");
    const char *class = json_string_value(json_array_get(classes, 0));
    struct members_file files[] = {
        {.place = MEMBERS_CONFIG,
         .kin = members_kin(class),
         .name = hub->config_file,
         .object = hub->config,
         .generates = !hub->generation},
        {MEMBERS_QUANT, KIN_ALL, hub->quantize_file, hub->quantize, false},
        {MEMBERS_GENERATION, KIN_ALL, hub->generation_file, hub->generation, false},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        TRY(members_look(&files[i], remarks, error));
    model_type_compare(hub, class, remarks);
    return STATUS_OK;
}

/* Does the tokenizer put a space before a text? */
static enum status json_begins_with_space(const struct tokenizer *tokenizer, bool *begins) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct ids ids = {.limit = 8};
    struct error ignored;
    enum status status = STATUS_NOMEM;
    if (scratch)
        status = tokenizer_encode(tokenizer, scratch, SPAN("x"), TOKENIZER_PLAIN, &ids, &ignored);
    if (status == STATUS_OK && ids.n > 0)
        *begins = span_begins(tokenizer_bytes(tokenizer, ids.at[0]), " ");
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    return status == STATUS_NOMEM ? status : STATUS_OK;
}

/* transformers' releases follow add_prefix_space for some classes and steps, and for others not. */
static enum status model_members_look_at_prefix(const struct tokenizer *tokenizer,
                                                const json_t *config, const char *path,
                                                struct remarks *remarks) {
    const json_t *wanted = json_object_get(config, "add_prefix_space");
    bool begins = json_is_true(wanted);
    if (!json_is_boolean(wanted))
        return STATUS_OK;
    TRY(json_begins_with_space(tokenizer, &begins));
    if (begins != json_is_true(wanted))
        remarks_add(remarks,
                    "%s: add_prefix_space is %s, but the tokenizer's own steps put %s space before "
                    "a text; they are followed",
                    path, begins ? "false" : "true", begins ? "a" : "no");
    return STATUS_OK;
}

/* The file's readers have said what is wrong with it as a whole. */
static enum status model_members_load(const char *folder, const char *name, char path[PATH_MAX],
                                      json_t **object) {
    struct error ignored;
    *object = NULL;
    if (!file_is_there(folder, name, path, PATH_MAX))
        return STATUS_OK;
    enum status status = json_text_load(path, &json_limits_tokenizer, object, &ignored);
    return status == STATUS_NOMEM ? status : STATUS_OK;
}

enum status model_look_at_text(struct model *model, const char *folder, struct error *error) {
    static const struct {
        const char *name;
        enum member_place place;
    } files[] = {{"tokenizer_config.json", MEMBERS_TOKENIZER},
                 {"special_tokens_map.json", MEMBERS_SPECIAL}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == STATUS_OK; i++) {
        char path[PATH_MAX];
        json_t *object;
        status = model_members_load(folder, files[i].name, path, &object);
        struct members_file file = {files[i].place, KIN_ALL, path, object, false};
        if (status == STATUS_OK)
            status = members_look(&file, &model->remarks, error);
        if (status == STATUS_OK && file.place == MEMBERS_TOKENIZER)
            status = model_members_look_at_prefix(model->tokenizer, object, path, &model->remarks);
        json_decref(object);
    }
    return status == STATUS_NOMEM ? error_set(error, status, "%s: no memory", folder) : status;
}
