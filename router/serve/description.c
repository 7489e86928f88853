#include "router/serve/description.h"

#include "base/http/exchange.h"
#include "router/api/about.h"
#include "router/api/openai.h"
#include "router/api/openapi.h"
#include "router/call/serving.h"
#include "router/serve/endpoint.h"
#include "router/serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct description {
    struct buf text;
    char tag[24]; /* an ETag, quotes included */
};

enum status description_new(const struct server *server, const struct dialect *(*nth)(unsigned n),
                            struct description **out) {
    const struct openapi_of of = {.nth = nth,
                                  .model = server->serving.model,
                                  .needs_key = server->guard.keys,
                                  .needs_admin_key = server->guard.admin_keys};
    struct description *description = calloc(1, sizeof *description);
    if (!description)
        return STATUS_NOMEM;
    buf_init(&description->text, 0);
    openapi_put(&of, &description->text);
    if (buf_status(&description->text) != STATUS_OK) {
        description_free(description);
        return STATUS_NOMEM;
    }
    snprintf(description->tag, sizeof description->tag, "\"%016llx\"",
             (unsigned long long)XXH3_64bits(description->text.data, description->text.n));
    *out = description;
    return STATUS_OK;
}

void description_free(struct description *description) {
    if (!description)
        return;
    buf_fini(&description->text);
    free(description);
}

static void serve_answer_openapi(struct server *server, const struct endpoint_request *request) {
    const struct description *description = server->description;
    const char *origin = request->origin;
    const struct header headers[] = {{"ETag", description->tag},
                                     {"Cache-Control", "no-cache"},
                                     {"Vary", "Origin"},
                                     {"Access-Control-Allow-Origin", origin ? origin : ""}};
    struct exchange_reply reply = {.status = 200,
                                   .content_type = request->form->content_type,
                                   .headers = headers,
                                   .n_headers = origin ? 4 : 2,
                                   .body = description->text.data,
                                   .n_body = description->text.n};
    endpoint_constant(server, request, description->tag, &reply);
}

static const struct dialect_about about = {
    .summary = "This document",
    .answer = SCHEMA({"type" : "object", "required" : [ "openapi", "info", "paths" ]}),
};

const struct dialect dialect_openapi = DIALECT_ANSWER(
    "openapi", "GET", "/openapi.json", openai_form, serve_answer_openapi, .about = &about);
