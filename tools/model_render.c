#include "tools/model_render.h"

#include "base/exit.h"
#include "model/model.h"
#include "model/template.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_LINE = 1 };

#define TEMPLATE_FILE_MAX ((size_t)1 << 20)

static enum status read_message(const json_t *value, struct template_message *message,
                                struct error *error) {
    const json_t *role = json_object_get(value, "role");
    const json_t *content = json_object_get(value, "content");
    if (!json_is_string(role) || !json_is_string(content))
        return error_field(error, STATUS_INVALID, "messages",
                           "a message needs role and content as strings");
    struct span name = {json_string_value(role), json_string_length(role)};
    if (template_role_parse(name, &message->role) != STATUS_OK)
        return error_field(error, STATUS_INVALID, "role", "the role \"%.*s\" is not known",
                           span_shown(name), name.bytes);
    message->content = (struct span){json_string_value(content), json_string_length(content)};
    message->name = (struct span){0};
    return STATUS_OK;
}

/* What changes a prompt but is not rendered here must not be dropped in silence. */
static enum status refuse_unknown(json_t *request, struct error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(request, key, value) {
        bool harmless = strcmp(key, "messages") == 0 || strcmp(key, "bos_token") == 0 ||
                        strcmp(key, "eos_token") == 0 ||
                        strcmp(key, "add_generation_prompt") == 0 || json_is_null(value) ||
                        (json_is_array(value) && json_array_size(value) == 0) ||
                        (json_is_object(value) && json_object_size(value) == 0);
        if (!harmless)
            return error_field(error, STATUS_UNSUPPORTED, key, "%s is not supported here", key);
    }
    return STATUS_OK;
}

static enum status render_request(const struct template *chosen, json_t *request, struct buf *out,
                                  struct error *error) {
    struct template_message messages[64];
    const json_t *list = json_object_get(request, "messages");
    size_t n = json_array_size(list);
    struct template_message *all = messages;
    struct template_prompt prompt;
    enum status status = STATUS_OK;
    TRY(refuse_unknown(request, error));
    if (n > TEMPLATE_MESSAGES_MAX)
        return error_field(error, STATUS_LIMIT, "messages", "too many messages");
    if (n > sizeof messages / sizeof *messages)
        all = calloc(n, sizeof *all);
    if (!all)
        return error_set(error, STATUS_NOMEM, "no memory");
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = read_message(json_array_get(list, i), &all[i], error);
    struct template_input input = {
        .messages = all,
        .n_messages = n,
        .add_generation_prompt = json_is_true(json_object_get(request, "add_generation_prompt"))};
    if (status == STATUS_OK)
        status = template_render(chosen, &input, &prompt, error);
    if (status == STATUS_OK) {
        template_prompt_text(&prompt, out);
        template_prompt_fini(&prompt);
        status = buf_status(out);
    }
    if (all != messages)
        free(all);
    return status;
}

static bool render_line(const struct template *chosen, const char *line, size_t n, FILE *out) {
    json_error_t problem;
    struct error error = {0};
    struct buf text;
    json_t *request = json_loadb(line, n, JSON_ALLOW_NUL, &problem);
    buf_init(&text, 0);
    enum status status;
    if (!request)
        status = error_set(&error, STATUS_INVALID, "%s", problem.text);
    else
        status = render_request(chosen, request, &text, &error);
    json_t *reply = status == STATUS_OK ? json_stringn(text.data ? text.data : "", text.n)
                                        : json_pack("{s:s}", "error", error.text);
    char *written = reply ? json_dumps(reply, JSON_ENCODE_ANY) : NULL;
    fprintf(out, "%s\n", written ? written : "{\"error\": \"the prompt cannot be shown\"}");
    free(written);
    json_decref(reply);
    json_decref(request);
    buf_fini(&text);
    return status == STATUS_OK;
}

int model_render_lines(const struct template *chosen, FILE *in, FILE *out) {
    char *line = NULL;
    size_t size = 0;
    int code = EXIT_SUCCESS;
    for (ssize_t n; (n = getline(&line, &size, in)) >= 0;)
        if (!render_line(chosen, line, (size_t)n, out))
            code = EXIT_LINE;
    free(line);
    return fflush(out) == 0 ? code : EXIT_LINE;
}

/* A file that holds nothing but a template. */
static enum status open_template_file(const char *path, struct template *chosen,
                                      struct error *error) {
    enum status status = STATUS_NOMEM;
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(TEMPLATE_FILE_MAX);
    error_set(error, STATUS_IO, "%s: cannot be read", path);
    if (file && bytes) {
        size_t n = fread(bytes, 1, TEMPLATE_FILE_MAX, file);
        status = template_choose(chosen, (struct span){bytes, n}, error);
        if (status != STATUS_OK)
            error_prefix(error, "%s", path);
    }
    free(bytes);
    if (file)
        fclose(file);
    return status;
}

int model_render(const char *path, FILE *in, FILE *out) {
    struct model *model = NULL;
    struct template from_file;
    struct error error;
    size_t n = strlen(path);
    struct stat info;
    bool is_model = strcmp(path, "hash") == 0 || (n > 5 && strcmp(path + n - 5, ".gguf") == 0) ||
                    (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
    enum status status = is_model ? model_open(path, NULL, &model, &error)
                                  : open_template_file(path, &from_file, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_CONFIG;
    }
    int code = model_render_lines(model ? &model->template : &from_file, in, out);
    model_close(model);
    return code;
}
