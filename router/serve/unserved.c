/* Paths that clients of OpenAI's API know and that a server of text models does not serve: each is told by its name. */
#include "router/api/about.h"
#include "router/api/openai.h"
#include "router/serve/endpoint.h"

static void unserved_answer_embeddings(struct server *server,
                                       const struct endpoint_request *request) {
    struct api_error error = {.code = "not_implemented"};
    error.status = error_set(&error.error, STATUS_UNSUPPORTED,
                             "Embeddings are not served: Tandem's models continue text");
    endpoint_error(server, request, &error);
}

static const struct dialect_about about = {.summary = "Embeddings are not served", .status = 501};

const struct dialect dialect_embeddings =
    DIALECT_ANSWER("embeddings", "POST", "/v1/embeddings", openai_form, unserved_answer_embeddings,
                   .about = &about);
