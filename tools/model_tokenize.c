#include "tools/model_tokenize.h"

#include "base/exit.h"
#include "model/model.h"

#include <jansson.h>
#include <stdlib.h>

enum { EXIT_LINE = 1 };

static void write_error(FILE *out, const char *text) {
    json_t *object = json_pack("{s:s}", "error", text);
    char *line = object ? json_dumps(object, 0) : NULL;
    fprintf(out, "%s\n", line ? line : "{\"error\": \"the line cannot be shown\"}");
    free(line);
    json_decref(object);
}

static void write_ids(FILE *out, const struct ids *ids) {
    fputc('[', out);
    for (size_t i = 0; i < ids->n; i++)
        fprintf(out, i == 0 ? "%u" : ", %u", ids->at[i]);
    fputs("]\n", out);
}

static bool tokenize_line(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                          unsigned flags, const char *line, size_t n, struct ids *ids, FILE *out) {
    json_error_t problem;
    struct error error;
    bool done = false;
    json_t *value = json_loadb(line, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    ids_clear(ids);
    if (!value) {
        write_error(out, problem.text);
    } else if (!json_is_string(value)) {
        write_error(out, "the line is no JSON string");
    } else {
        struct span text = {json_string_value(value), json_string_length(value)};
        done = tokenizer_encode(tokenizer, scratch, text, flags, ids, &error) == STATUS_OK;
        if (done)
            write_ids(out, ids);
        else
            write_error(out, error.text);
    }
    json_decref(value);
    return done;
}

int model_tokenize_lines(const struct tokenizer *tokenizer, unsigned flags, FILE *in, FILE *out) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct ids ids;
    char *line = NULL;
    size_t size = 0;
    int code = EXIT_SUCCESS;
    if (!scratch)
        return EXIT_LINE;
    ids_init(&ids, 0);
    for (ssize_t n; (n = getline(&line, &size, in)) >= 0;)
        if (!tokenize_line(tokenizer, scratch, flags, line, (size_t)n, &ids, out))
            code = EXIT_LINE;
    free(line);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    return fflush(out) == 0 ? code : EXIT_LINE;
}

int model_tokenize(const char *path, unsigned flags, FILE *in, FILE *out) {
    struct model *model = NULL;
    struct error error;
    if (model_open(path, NULL, &model, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_CONFIG;
    }
    int code = model_tokenize_lines(model->tokenizer, flags, in, out);
    model_close(model);
    return code;
}
