#include "tools/cli/chat/chat_model.h"

#include "tools/lib/http_fetch.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_S 10.0

static void chat_model_take_defaults(const json_t *sampling, struct chat_model *model) {
    size_t n = 0;
    const char *name;
    json_t *value;
    model->brings_nothing = json_is_object(sampling) && json_object_size(sampling) == 0;
    json_object_foreach((json_t *)(uintptr_t)sampling, name, value) {
        if (json_is_number(value) && n < sizeof model->defaults)
            n += (size_t)snprintf(model->defaults + n, sizeof model->defaults - n, "%s%.40s %g",
                                  n > 0 ? ", " : "", name, json_number_value(value));
    }
}

enum status chat_model_ask(const struct http_url *url, const char *api_key,
                           struct chat_model *model, struct error *error) {
    const struct http_ask ask = {.method = "GET", .path = "/v1/models", .api_key = api_key};
    json_t *root = NULL;
    int http_status = 0;
    TRY(http_fetch_json(url, &ask, ANSWER_S, &http_status, &root, error));
    const json_t *first = json_array_get(json_object_get(root, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    if (http_status == 200 && id) {
        snprintf(model->id, sizeof model->id, "%s", id);
        chat_model_take_defaults(json_object_get(first, "sampling"), model);
    }
    json_decref(root);
    return STATUS_OK;
}

double chat_model_temperature(const struct chat_model *model) {
    return model->temperature < 0 && model->brings_nothing ? CHAT_TEMPERATURE : model->temperature;
}

double chat_model_top_p(const struct chat_model *model) {
    return model->top_p < 0 && model->brings_nothing ? CHAT_TOP_P : model->top_p;
}

void chat_model_say_sampling(const struct chat_model *model, FILE *out) {
    double temperature = chat_model_temperature(model), top_p = chat_model_top_p(model);
    if (temperature >= 0)
        fprintf(out, "temperature %g", temperature);
    if (top_p >= 0)
        fprintf(out, "%stop_p %g", temperature >= 0 ? ", " : "", top_p);
    if (model->defaults[0])
        fprintf(out, "%sthe model's own: %s", temperature >= 0 || top_p >= 0 ? "; " : "",
                model->defaults);
    else if (model->brings_nothing)
        fprintf(out, " (the model brings no defaults)");
    fputc('\n', out);
}

void chat_model_say(const struct chat_model *model, const char *server, FILE *out) {
    if (!model->id[0])
        return;
    fprintf(out, "%s at %s\n", model->id, server);
    chat_model_say_sampling(model, out);
}
