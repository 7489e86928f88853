#include "tools/cli/model/model_tokenize.h"

#include "base/buf.h"
#include "base/exit.h"
#include "model/model.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>

enum { EXIT_LINE = 1 };

static void model_tokenize_write_error(FILE *out, const char *text) {
    json_t *object = json_pack("{s:s}", "error", text);
    char *line = object ? json_dumps(object, 0) : NULL;
    fprintf(out, "%s\n", line ? line : "{\"error\": \"the line cannot be shown\"}");
    free(line);
    json_decref(object);
}

static void model_tokenize_write_ids(FILE *out, const struct ids *ids) {
    fputc('[', out);
    for (size_t i = 0; i < ids->n; i++)
        fprintf(out, i == 0 ? "%u" : ", %u", ids->at[i]);
    fputs("]\n", out);
}

static bool model_tokenize_tokenize_line(const struct tokenizer *tokenizer,
                                         struct tokenizer_scratch *scratch, unsigned flags,
                                         const char *line, size_t n, struct ids *ids, FILE *out) {
    json_error_t problem;
    struct error error;
    bool done = false;
    json_t *value = json_loadb(line, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    ids_clear(ids);
    if (!value) {
        model_tokenize_write_error(out, problem.text);
    } else if (!json_is_string(value)) {
        model_tokenize_write_error(out, "the line is not a JSON string");
    } else {
        struct span text = {json_string_value(value), json_string_length(value)};
        done = tokenizer_encode(tokenizer, scratch, text, flags, ids, &error) == STATUS_OK;
        if (done)
            model_tokenize_write_ids(out, ids);
        else
            model_tokenize_write_error(out, error.text);
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
        if (!model_tokenize_tokenize_line(tokenizer, scratch, flags, line, (size_t)n, &ids, out))
            code = EXIT_LINE;
    free(line);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    return fflush(out) == 0 ? code : EXIT_LINE;
}

int model_tokenize(const char *path, unsigned flags, FILE *in, FILE *out) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    if (model_open_tokenizer(path, &tokenizer, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_CONFIG;
    }
    int code = model_tokenize_lines(tokenizer, flags, in, out);
    tokenizer_close(tokenizer);
    return code;
}

/* Token by token, as answers are streamed: the parts joined must be the whole. */
static enum status model_tokenize_detokenize_list(const struct tokenizer *tokenizer,
                                                  const json_t *list, bool skip_special,
                                                  struct buf *text) {
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, skip_special);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id >= tokenizer_n_tokens(tokenizer))
            return STATUS_INVALID;
        TRY(detokenizer_push(&detokenizer, tokenizer, (uint32_t)id, text));
    }
    return detokenizer_flush(&detokenizer, text);
}

static bool model_tokenize_detokenize_line(const struct tokenizer *tokenizer, bool skip_special,
                                           const char *line, size_t n, FILE *out) {
    json_error_t problem;
    struct buf text;
    json_t *list = json_loadb(line, n, 0, &problem);
    buf_init(&text, 0);
    bool done = json_is_array(list) &&
                model_tokenize_detokenize_list(tokenizer, list, skip_special, &text) == STATUS_OK;
    json_t *value = done ? json_stringn(text.data ? text.data : "", text.n) : NULL;
    char *shown = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    done = shown != NULL;
    if (done)
        fprintf(out, "%s\n", shown);
    else
        model_tokenize_write_error(out, "the line is not a list of token ids");
    free(shown);
    json_decref(value);
    json_decref(list);
    buf_fini(&text);
    return done;
}

int model_detokenize(const char *path, bool skip_special, FILE *in, FILE *out) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    char *line = NULL;
    size_t size = 0;
    int code = EXIT_SUCCESS;
    if (model_open_tokenizer(path, &tokenizer, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_CONFIG;
    }
    for (ssize_t n; (n = getline(&line, &size, in)) >= 0;)
        if (!model_tokenize_detokenize_line(tokenizer, skip_special, line, (size_t)n, out))
            code = EXIT_LINE;
    free(line);
    tokenizer_close(tokenizer);
    return fflush(out) == 0 ? code : EXIT_LINE;
}
