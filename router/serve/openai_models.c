/* /v1/models: the one model that is served. Answers while the cluster loads, too. */
#include "base/http/exchange.h"
#include "model/text/generation.h"
#include "router/api/about.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/call/serving.h"
#include "router/serve/endpoint.h"
#include "router/serve/server.h"

#include <string.h>

/* What holds where a request is silent, by the names that requests have; {} of a model that brings no defaults. */
static void openai_models_put_sampling(const struct generation *generation, struct buf *out) {
    buf_puts(out, "\"sampling\":{");
    for (unsigned i = 0; generation && i < GENERATION_MAX_NEW; i++)
        if (generation->has[i])
            buf_printf(out, "\"%s\":%.9g,", generation_name((enum generation_field)i),
                       generation->value[i]);
    json_put_close(out, '}');
    buf_putc(out, ',');
}

static void openai_models_put_model(const struct server *server, struct buf *out) {
    buf_putc(out, '{');
    json_put_member(out, "id", server->serving.model);
    json_put_member(out, "object", "model");
    json_put_number(out, "created", (uint64_t)server->created_s);
    json_put_member(out, "owned_by", "tandem");
    json_put_member(out, "root", server->serving.model);
    json_put_number(out, "max_model_len", serving_context(&server->serving));
    openai_models_put_sampling(server->serving.limits.generation, out);
    buf_puts(out, "\"parent\":null,\"permission\":[]}");
}

static void openai_models_answer_list(struct server *server,
                                      const struct endpoint_request *request) {
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, "{\"object\":\"list\",\"data\":[");
    openai_models_put_model(server, &body);
    buf_puts(&body, "]}");
    endpoint_reply(server, request, 200, "application/json", &body);
}

static void openai_models_answer_one(struct server *server,
                                     const struct endpoint_request *request) {
    if (strcmp(request->rest, server->serving.model) != 0) {
        struct api_error error = {.code = "model_not_found"};
        error.status = error_field(&error.error, STATUS_NOT_FOUND, "model",
                                   "The model `%.256s` does not exist", request->rest);
        endpoint_error(server, request, &error);
        return;
    }
    struct buf body;
    buf_init(&body, 0);
    openai_models_put_model(server, &body);
    endpoint_reply(server, request, 200, "application/json", &body);
}

#define MODEL                                                                                      \
    {                                                                                              \
        "type" : "object",                                                                         \
                 "required" : [ "id", "object", "created", "owned_by" ],                           \
                              "properties" : {                                                     \
            "id" : {"type" : "string"},                                                            \
                   "object" : {"const" : "model"},                                                 \
                              "created" : {"type" : "integer"},                                    \
                                          "owned_by" : {"type" : "string"},                        \
                                                       "root" : {"type" : "string"},               \
                                                                "max_model_len"                    \
                : {"type" : "integer", "minimum" : 1},                                             \
                  "sampling" : {"type" : "object"},                                                \
                               "parent" : {"type" : "null"},                                       \
                                          "permission" : {                                         \
                "type" : "array"                                                                   \
            }                                                                                      \
        }                                                                                          \
    }

static const struct dialect_about about_list = {
    .summary = "The one model that is served",
    .answer = SCHEMA({
        "type" : "object",
        "required" : [ "object", "data" ],
        "properties" : {
            "object" : {"const" : "list"},
            "data" : {"type" : "array", "minItems" : 1, "maxItems" : 1, "items" : MODEL}
        }
    }),
};

static const struct dialect_about about_one = {
    .summary = "The model of that id, which may have slashes",
    .rest = "model",
    .answer = SCHEMA(MODEL),
};

const struct dialect dialect_models = DIALECT_ANSWER(
    "models", "GET", "/v1/models", openai_form, openai_models_answer_list, .about = &about_list);
const struct dialect dialect_model = DIALECT_ANSWER("model", "GET", "/v1/models/", openai_form,
                                                    openai_models_answer_one, .about = &about_one);
