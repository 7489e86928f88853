/* GET /: a page for people: a chat, and the cluster's picture. Open to all: what it asks for is not. */
#include "router/serve/page.h"

#include "base/http/exchange.h"
#include "router/api/about.h"
#include "router/api/openai.h"
#include "router/serve/endpoint.h"
#include "router/serve/server.h"

#include <stdio.h>

static void page_answer(struct server *server, const struct endpoint_request *request) {
    char policy[512];
    if (server->has_no_page) {
        struct api_error error = {0};
        error.status = error_set(&error.error, STATUS_NOT_FOUND, "There is nothing at /");
        endpoint_error(server, request, &error);
        return;
    }
    /* Trusted types that nobody may make: the script cannot read any text as HTML. */
    snprintf(
        policy, sizeof policy,
        "default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        page_script_hash, page_style_hash);
    const struct header headers[] = {
        {"Content-Security-Policy", policy}, {"ETag", page_tag},
        {"Cache-Control", "no-cache"},       {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
    };
    struct exchange_reply reply = {.status = 200,
                                   .content_type = "text/html; charset=utf-8",
                                   .headers = headers,
                                   .n_headers = sizeof headers / sizeof *headers,
                                   .body = page_file,
                                   .n_body = page_file_n};
    endpoint_constant(server, request, page_tag, &reply);
}

static const struct dialect_about about = {
    .summary = "A page for people: a chat, and the cluster's picture", .type = "text/html"};

const struct dialect dialect_page =
    DIALECT_ANSWER("page", "GET", "/", openai_form, page_answer, .is_open = true, .about = &about);
