/* tests/support/prompt_cli.c: the ids that the router makes of prompts, for a whole model.
 *
 * usage: prompt_cli MODEL
 * MODEL is what model_open() takes, with its weights. Each line of standard input is a JSON object,
 * answered with a list of ids or {"error": "..."}: {"prompt": TEXT, "add_special_tokens": BOOLEAN}, where
 * with "trusted": true special tokens' texts become them; or a chat request as template_request.h
 * has it. What is not used of the model's files goes to standard error. */
#include "model/model.h"
#include "model/text/template/template_request.h"
#include "router/call/text.h"
#include "tests/support/json_lines.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status encode_text(struct text *text, const json_t *line, struct ids *ids,
                               struct error *error) {
    const json_t *prompt = json_object_get(line, "prompt");
    const struct span bytes = {json_string_value(prompt), json_string_length(prompt)};
    bool special = json_is_true(json_object_get(line, "add_special_tokens"));
    const struct text_reading reading = {special, json_is_true(json_object_get(line, "trusted"))};
    return text_encode(text, bytes, reading, ids, error);
}

static enum status encode_chat(struct text *text, const json_t *line, struct ids *ids,
                               struct error *error) {
    struct template_request request;
    TRY(template_request_read(line, true, &request, error));
    enum status status = text_encode_chat(text, &request.input, false, ids, NULL, error);
    template_request_fini(&request);
    return status;
}

static json_t *answer(void *context, const json_t *line) {
    struct text *text = context;
    struct ids ids;
    struct error error = {.text = "the line is no object"};
    enum status status = STATUS_INVALID;
    ids_init(&ids, 0);
    if (json_is_string(json_object_get(line, "prompt")))
        status = encode_text(text, line, &ids, &error);
    else if (json_is_object(line))
        status = encode_chat(text, line, &ids, &error);
    json_t *list = status == STATUS_OK ? json_array() : json_pack("{s:s}", "error", error.text);
    for (size_t i = 0; status == STATUS_OK && i < ids.n; i++)
        json_array_append_new(list, json_integer(ids.at[i]));
    ids_fini(&ids);
    return list;
}

int main(int argc, char **argv) {
    struct model *model = NULL;
    struct text *text = NULL;
    struct error error;
    if (argc != 2) {
        fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }
    if (model_open(argv[1], NULL, &model, &error) != STATUS_OK) {
        fprintf(stderr, "error: %s\n", error.text);
        return 1;
    }
    for (unsigned i = 0; i < model->remarks.n; i++)
        fprintf(stderr, "remark: %s\n", model->remarks.lines[i]);
    bool done = text_new(model, 0, &text) == STATUS_OK && json_lines(answer, text);
    text_free(text);
    model_close(model);
    return done ? 0 : 1;
}
