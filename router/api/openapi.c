#include "router/api/openapi.h"

#include "router/api/about.h"
#include "router/api/dialect.h"
#include "router/api/json_put.h"
#include "router/api/openapi_body.h"

#include <string.h>

/* What answers in OpenAI's form count. */
#define USAGE                                                                                      \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "prompt_tokens", "total_tokens", "completion_tokens" ],                     \
        "properties" : {                                                                           \
            "prompt_tokens" : {"type" : "integer", "minimum" : 0},                                 \
            "total_tokens" : {"type" : "integer", "minimum" : 0},                                  \
            "completion_tokens" : {"type" : "integer", "minimum" : 0},                             \
            "prompt_tokens_details" : {                                                            \
                "type" : "object",                                                                 \
                "properties" : {"cached_tokens" : {"type" : "integer", "minimum" : 0}}             \
            },                                                                                     \
            "completion_tokens_details" : {                                                        \
                "type" : "object",                                                                 \
                "properties" : {"reasoning_tokens" : {"type" : "integer", "minimum" : 0}}          \
            }                                                                                      \
        }                                                                                          \
    })

static const struct dialect_about nothing_said = {.summary = ""};

static const struct dialect_about *openapi_about_of(const struct dialect *dialect) {
    return dialect->about ? dialect->about : &nothing_said;
}

/* gRPC's paths are told by its reflection. */
static bool openapi_is_shown(const struct dialect *dialect) {
    return !dialect->form->needs_http2;
}

/* --- operations ---------------------------------------------------------------------------- */

static void openapi_put_security(const struct openapi_of *of, const struct dialect *dialect,
                                 struct buf *out) {
    bool needed = dialect->is_admin ? of->needs_admin_key : of->needs_key && !dialect->is_open;
    buf_puts(out, "\"security\":[");
    if (needed && dialect->is_admin)
        buf_puts(out, "{\"admin_key\":[]},{\"x_admin_key\":[]}");
    else if (needed)
        buf_puts(out, "{\"api_key\":[]},{\"x_api_key\":[]}");
    buf_puts(out, "],");
}

/* "text/plain; charset=utf-8" is "text/plain" here. */
static void openapi_put_content(const char *type, const char *schema, const char *description,
                                struct buf *out) {
    json_put_string(out, type, strcspn(type, ";"));
    buf_puts(out, ":{\"schema\":{");
    if (schema)
        openapi_put_nullable(schema, false, out);
    else
        json_put_member(out, "type", "string");
    if (description)
        json_put_member(out, "description", description);
    json_put_close(out, '}');
    buf_puts(out, "},");
}

static void openapi_put_answer(const struct dialect *dialect, unsigned status, struct buf *out) {
    const struct dialect_about *about = openapi_about_of(dialect);
    const struct dialect_form *form = dialect->form;
    const char *type = about->type ? about->type : form->content_type;
    const char *schema = status >= 400 && !about->answer ? form->error : about->answer;
    buf_printf(out, "\"%u\":{\"description\":\"%s\",\"content\":{", status,
               status < 400 ? "the answer" : "not now, or not here");
    if (about->type || schema)
        openapi_put_content(type, schema, about->answer ? NULL : about->events, out);
    if (about->events && about->answer)
        openapi_put_content(form->stream_type, NULL, about->events, out);
    json_put_close(out, '}');
    buf_puts(out, "},");
}

static void openapi_put_answers(const struct dialect *dialect, struct buf *out) {
    const struct dialect_about *about = openapi_about_of(dialect);
    buf_puts(out, "\"responses\":{");
    openapi_put_answer(dialect, about->status ? about->status : 200, out);
    if (about->also)
        openapi_put_answer(dialect, about->also, out);
    for (unsigned i = 4; i <= 5; i++)
        buf_printf(out, "\"%uXX\":{\"$ref\":\"#/components/responses/%s\"},", i,
                   dialect->form->error_name);
    json_put_close(out, '}');
}

static void openapi_put_operation(const struct openapi_of *of, const struct dialect *dialect,
                                  struct buf *out) {
    const struct dialect_about *about = openapi_about_of(dialect);
    bool is_get = strcmp(dialect->method, "GET") == 0;
    buf_puts(out, is_get ? "\"get\":{" : "\"post\":{");
    json_put_member(out, "operationId", dialect->name);
    json_put_member(out, "summary", about->summary);
    openapi_put_security(of, dialect, out);
    if (about->rest) {
        buf_puts(out, "\"parameters\":[{\"in\":\"path\",\"required\":true,");
        json_put_member(out, "name", about->rest);
        buf_puts(out, "\"schema\":{\"type\":\"string\",\"enum\":[");
        json_put_string(out, of->model, strlen(of->model));
        buf_puts(out, "]}}],");
    }
    if (!is_get) {
        buf_puts(out, "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{"
                      "\"schema\":{\"$ref\":\"#/components/schemas/");
        buf_printf(out, "%s\"}}}},", dialect->name);
    }
    openapi_put_answers(dialect, out);
    buf_puts(out, "},");
}

/* --- the document -------------------------------------------------------------------------- */

static bool openapi_is_same_path(const struct dialect *dialect, const struct dialect *other) {
    return openapi_is_shown(other) && strcmp(dialect->path, other->path) == 0;
}

/* A path is there once, with all of its methods. */
static void openapi_put_path(const struct openapi_of *of, unsigned n, struct buf *out) {
    const struct dialect *dialect = of->nth(n), *other;
    const char *rest = openapi_about_of(dialect)->rest;
    for (unsigned i = 0; i < n; i++)
        if (openapi_is_same_path(dialect, of->nth(i)))
            return;
    buf_printf(out, rest ? "\"%s{%s}\":{" : "\"%s\":{", dialect->path, rest);
    for (unsigned i = n; (other = of->nth(i)) != NULL; i++)
        if (openapi_is_same_path(dialect, other))
            openapi_put_operation(of, other, out);
    json_put_close(out, '}');
    buf_putc(out, ',');
}

static void openapi_put_errors(const struct openapi_of *of, struct buf *out) {
    const struct dialect *dialect;
    const char *seen[8] = {NULL}; /* forms may share their errors */
    unsigned n = 0;
    for (unsigned i = 0; (dialect = of->nth(i)) != NULL; i++) {
        bool is_new = openapi_is_shown(dialect) && n < sizeof seen / sizeof *seen;
        for (unsigned k = 0; k < n; k++)
            is_new = is_new && seen[k] != dialect->form->error;
        if (!is_new)
            continue;
        seen[n++] = dialect->form->error;
        buf_printf(out, "\"%s\":{\"description\":\"an error\",\"content\":{",
                   dialect->form->error_name);
        openapi_put_content(dialect->form->content_type, dialect->form->error, NULL, out);
        json_put_close(out, '}');
        buf_puts(out, "},");
    }
}

static void openapi_put_components(const struct openapi_of *of, struct buf *out) {
    const struct dialect *dialect;
    buf_puts(out, "\"components\":{\"securitySchemes\":{"
                  "\"api_key\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                  "\"x_api_key\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"x-api-key\"},"
                  "\"admin_key\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                  "\"x_admin_key\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"x-api-key\"}},"
                  "\"responses\":{");
    openapi_put_errors(of, out);
    json_put_close(out, '}');
    buf_puts(out, ",\"schemas\":{\"Usage\":");
    openapi_put_schema(USAGE, out);
    buf_putc(out, ',');
    for (unsigned i = 0; (dialect = of->nth(i)) != NULL; i++) {
        if (!openapi_is_shown(dialect) || strcmp(dialect->method, "GET") == 0)
            continue;
        buf_printf(out, "\"%s\":", dialect->name);
        openapi_put_body(of, openapi_about_of(dialect), out);
        buf_putc(out, ',');
    }
    json_put_close(out, '}');
    buf_putc(out, '}');
}

void openapi_put(const struct openapi_of *of, struct buf *out) {
    const struct dialect *dialect;
    buf_puts(out,
             "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Tandem\",\"version\":\"" TANDEM_VERSION
             "\"},\"servers\":[{\"url\":\"/\"}],\"paths\":{");
    for (unsigned i = 0; (dialect = of->nth(i)) != NULL; i++)
        if (openapi_is_shown(dialect))
            openapi_put_path(of, i, out);
    json_put_close(out, '}');
    buf_putc(out, ',');
    openapi_put_components(of, out);
    buf_putc(out, '}');
}
