#include "tools/cli/model/model_render.h"

#include "base/exit.h"
#include "base/file.h"
#include "base/json/json_get.h"
#include "base/span.h"
#include "model/model.h"
#include "model/text/template/template.h"
#include "model/text/template/template_request.h"
#include "model/text/template/tool_format.h"
#include "model/weights/hub.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_LINE = 1 };

#define TEMPLATE_FILE_MAX ((size_t)1 << 20)
#define TOKEN_TEXT_MAX    ((size_t)4096)

/* What is rendered for: a model, or a template alone. */
struct renderer {
    const struct template *chosen; /* borrowed */
    struct span bos;               /* the model's own, where a request names no other */
    struct span eos;
};

/* What changes a prompt but is not rendered must not be dropped in silence. */
static enum status model_render_refuse_others(json_t *object, struct error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool is_known = template_request_reads(key) || strcmp(key, "bos_token") == 0 ||
                        strcmp(key, "eos_token") == 0;
        if (!is_known && !json_is_null(value))
            return error_field(error, STATUS_UNSUPPORTED, key, "`%s` is not rendered", key);
    }
    return STATUS_OK;
}

static enum status model_render_render_request(const struct renderer *renderer, json_t *object,
                                               struct buf *out, struct error *error) {
    struct template_request request;
    struct template_prompt prompt;
    struct json_get get = {.object = object, .error = error};
    struct span bos = renderer->bos;
    struct span eos = renderer->eos;
    TRY(model_render_refuse_others(object, error));
    TRY(json_get_text(&get, "bos_token", TOKEN_TEXT_MAX, &bos));
    TRY(json_get_text(&get, "eos_token", TOKEN_TEXT_MAX, &eos));
    TRY(template_request_read(object, false, &request, error));
    request.input.now_s = time(NULL);
    request.input.bos = bos;
    request.input.eos = eos;
    enum status status = template_render(renderer->chosen, &request.input, &prompt, error);
    if (status == STATUS_OK) {
        template_prompt_text(&prompt, out);
        template_prompt_fini(&prompt);
        status = buf_status(out);
    }
    template_request_fini(&request);
    return status;
}

static bool model_render_render_line(const struct renderer *renderer, const char *line, size_t n,
                                     FILE *out) {
    struct error error = {0};
    struct buf text;
    json_t *request = NULL;
    buf_init(&text, 0);
    enum status status = json_get_parse(line, n, &request, &error);
    if (status == STATUS_OK)
        status = model_render_render_request(renderer, request, &text, &error);
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

static int model_render_render_lines(const struct renderer *renderer, FILE *in, FILE *out) {
    char *line = NULL;
    size_t size = 0;
    int code = EXIT_SUCCESS;
    for (ssize_t n; (n = getline(&line, &size, in)) >= 0;)
        if (!model_render_render_line(renderer, line, (size_t)n, out))
            code = EXIT_LINE;
    free(line);
    return fflush(out) == 0 ? code : EXIT_LINE;
}

/* A file that holds nothing but a template. *calls: how that writes calls of tools, for people. */
static enum status model_render_open_template_file(const char *path, struct template *chosen,
                                                   const char **calls, struct error *error) {
    enum status status = STATUS_NOMEM;
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(TEMPLATE_FILE_MAX);
    error_set(error, STATUS_IO, "%s: cannot be read", path);
    if (file && bytes) {
        size_t n = fread(bytes, 1, TEMPLATE_FILE_MAX, file);
        status = template_choose(chosen, &(struct template_source){.text = {bytes, n}}, error);
        if (status == STATUS_OK)
            *calls = tool_format_shown(chosen->tool_format, (struct span){bytes, n});
        if (status != STATUS_OK)
            error_prefix(error, "%s", path);
    }
    free(bytes);
    if (file)
        fclose(file);
    return status;
}

int model_render_about(const char *path, FILE *out) {
    struct template chosen;
    struct error error;
    const char *calls;
    if (model_render_open_template_file(path, &chosen, &calls, &error) != STATUS_OK)
        return exit_fail(EXIT_CONFIG, "%s", error.text);
    fprintf(out, "template      %s\ntool calls    %s\n", chosen.kind ? chosen.kind->name : "none",
            calls);
    template_fini(&chosen);
    return fflush(out) == 0 ? EXIT_SUCCESS : EXIT_LINE;
}

int model_render(const char *path, FILE *in, FILE *out) {
    struct model *model = NULL;
    struct template from_file;
    struct error error;
    const char *calls;
    bool is_model = strcmp(path, "hash") == 0 || span_ends(span_of(path), ".gguf") ||
                    (access(path, F_OK) == 0 ? file_is_folder(path) : hub_is_id(path));
    enum status status = is_model
                             ? model_open(path, NULL, &model, &error)
                             : model_render_open_template_file(path, &from_file, &calls, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_CONFIG;
    }
    struct renderer renderer = {.chosen = model ? &model->template : &from_file};
    if (model && model->tokenizer->bos_id != TOKEN_NONE)
        renderer.bos = tokenizer_bytes(model->tokenizer, model->tokenizer->bos_id);
    if (model && model->tokenizer->eos_id != TOKEN_NONE)
        renderer.eos = tokenizer_bytes(model->tokenizer, model->tokenizer->eos_id);
    int code = model_render_render_lines(&renderer, in, out);
    if (model)
        model_close(model);
    else
        template_fini(&from_file);
    return code;
}
