/* /openapi.json of the table of what is served and that of fields: all of both is in it, and as they have it. */
#include "router/api/openapi.h"

#include "router/api/about.h"
#include "router/api/dialect.h"
#include "router/api/field_table.h"
#include "router/api/openai.h"
#include "router/serve/api.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "router_openapi";
const double suite_timeout_s = 60;

static const struct openapi_of closed = {
    .nth = api_dialect, .model = "org/\"m\"", .needs_key = true, .needs_admin_key = true};

static json_t *document(const struct openapi_of *of) {
    struct buf text;
    json_error_t error;
    buf_init(&text, 0);
    openapi_put(of, &text);
    ck_assert_int_eq(buf_status(&text), STATUS_OK);
    json_t *root = json_loadb(text.data, text.n, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root != NULL, "%s at %d: %.60s", error.text, error.position,
                  text.data + (error.position > 30 ? error.position - 30 : 0));
    buf_fini(&text);
    return root;
}

/* The value behind the names, up to NULL. */
static const json_t *at(const json_t *value, const char *const names[]) {
    for (; *names; names++)
        value = json_object_get(value, *names);
    return value;
}
#define AT(root, ...) at((root), (const char *const[]){__VA_ARGS__, NULL})

static bool is_shown(const struct dialect *dialect) {
    return !dialect->form->needs_http2;
}

static const json_t *operation(const json_t *root, const struct dialect *dialect) {
    char path[160];
    snprintf(path, sizeof path, dialect->about->rest ? "%s{%s}" : "%s", dialect->path,
             dialect->about->rest);
    const char *method = strcmp(dialect->method, "GET") == 0 ? "get" : "post";
    return AT(root, "paths", path, method);
}

#define EACH_SHOWN(dialect)                                                                        \
    const struct dialect *dialect;                                                                 \
    for (unsigned n_ = 0; (dialect = api_dialect(n_)); n_++)                                       \
        if (is_shown(dialect))

static bool is_str(const json_t *value, const char *text) {
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

START_TEST(each_dialect_of_http_is_in_the_document) {
    json_t *root = document(&closed);
    size_t n = 0, n_shown = 0;
    ck_assert(is_str(AT(root, "openapi"), "3.1.0"));
    EACH_SHOWN(dialect) {
        n_shown++;
        ck_assert_msg(dialect->about && dialect->about->summary[0], "%s says nothing of itself",
                      dialect->name);
        ck_assert_msg(dialect->form->error_name && dialect->form->error, "%s: no form of errors",
                      dialect->name);
        const json_t *found = operation(root, dialect);
        ck_assert_msg(found != NULL, "%s is missing", dialect->name);
        ck_assert(is_str(AT(found, "operationId"), dialect->name));
        ck_assert(is_str(AT(found, "summary"), dialect->about->summary));
        ck_assert(AT(found, "responses", "4XX") && AT(found, "responses", "5XX"));
        bool has_path_member = json_array_size(AT(found, "parameters")) == 1;
        size_t path_n = strlen(dialect->path);
        ck_assert_int_eq(has_path_member, path_n > 1 && dialect->path[path_n - 1] == '/');
        bool has_body = AT(found, "requestBody") != NULL;
        ck_assert_int_eq(has_body, strcmp(dialect->method, "POST") == 0);
    }
    const char *path;
    json_t *methods;
    json_object_foreach(json_object_get(root, "paths"), path, methods) n +=
        json_object_size(methods);
    ck_assert_uint_eq(n, n_shown);
    json_decref(root);
}
END_TEST

START_TEST(answers_have_their_statuses_and_types) {
    json_t *root = document(&closed);
    EACH_SHOWN(dialect) {
        char status[8];
        const struct dialect_about *about = dialect->about;
        snprintf(status, sizeof status, "%u", about->status ? about->status : 200);
        const json_t *content = AT(operation(root, dialect), "responses", status, "content");
        const char *form = dialect->form->content_type;
        if (about->answer)
            ck_assert_msg(AT(content, about->type ? about->type : form, "schema", "allOf") != NULL,
                          "%s", dialect->name);
        if (dialect->writer)
            ck_assert_msg(AT(content, "text/event-stream", "schema", "description") != NULL, "%s",
                          dialect->name);
    }
    ck_assert(AT(root, "paths", "/health", "get", "responses", "503", "content"));
    ck_assert(AT(root, "paths", "/v1/embeddings", "post", "responses", "501", "content"));
    ck_assert(AT(root, "paths", "/metrics", "get", "responses", "200", "content", "text/plain"));
    ck_assert(!AT(root, "paths", "/admin/events", "get", "responses", "200", "content",
                  "application/json"));
    json_decref(root);
}
END_TEST

/* Is `name` the type, alone or beside null? */
static bool is_type(const json_t *schema, const char *name) {
    const json_t *type = json_object_get(schema, "type");
    return is_str(type, name) || is_str(json_array_get(type, 0), name);
}

static double number(const json_t *schema, const char *name) {
    const json_t *value = json_object_get(schema, name);
    ck_assert_msg(json_is_number(value), "%s is missing", name);
    return json_number_value(value);
}

static void check_served(const struct field_row *row, const json_t *schema) {
    static const char *const types[] = {
        [FIELD_BOOL] = "boolean", [FIELD_INT] = "integer",   [FIELD_INT64] = "integer",
        [FIELD_REAL] = "number",  [FIELD_STRING] = "string", [FIELD_IDS] = "array",
        [FIELD_OBJECT] = NULL};
    if (types[row->type])
        ck_assert_msg(is_type(schema, types[row->type]), "%s", row->name);
    else
        ck_assert_msg(!row->schema || AT(schema, "anyOf") || AT(schema, "allOf"), "%s", row->name);
    bool has_bounds = row->min != 0 || row->max != 0;
    if (has_bounds && (row->type == FIELD_INT || row->type == FIELD_REAL)) {
        ck_assert(number(schema, row->is_above ? "exclusiveMinimum" : "minimum") == row->min);
        ck_assert(number(schema, "maximum") == row->max);
    }
    if (row->type == FIELD_INT64)
        ck_assert(json_integer_value(AT(schema, "minimum")) == INT64_MIN &&
                  json_integer_value(AT(schema, "maximum")) == INT64_MAX);
    if (has_bounds && row->type == FIELD_STRING)
        ck_assert(number(schema, "maxLength") == row->max);
    if (row->type == FIELD_IDS)
        ck_assert(number(schema, "maxItems") == row->max);
    const char *words = json_string_value(AT(schema, "description"));
    ck_assert_msg(!row->says || (words && strstr(words, row->says)), "%s", row->name);
    if (row->otherwise && !AT(schema, "default"))
        ck_assert_msg(words && strstr(words, row->otherwise), "%s", row->name);
}

/* The values that stand there are those that ask for nothing. */
static void check_refused(const struct field_row *row, const json_t *schema) {
    const json_t *values = AT(schema, "enum"), *value;
    size_t i;
    ck_assert_uint_gt(json_array_size(values), 2);
    json_array_foreach((json_t *)(uintptr_t)values, i, value)
        ck_assert_msg(field_is_neutral(row, value), "%s: value %zu", row->name, i);
    json_t *neutral =
        row->neutral ? json_loads(row->neutral, JSON_DECODE_ANY, NULL) : json_string("");
    bool found = false;
    if (!neutral)
        neutral = json_string(row->neutral);
    json_array_foreach((json_t *)(uintptr_t)values, i, value) found |= json_equal(value, neutral);
    ck_assert_msg(found, "%s: %s is missing", row->name, row->neutral);
    json_decref(neutral);
}

static bool is_member(const struct dialect_about *about, const char *name) {
    for (const struct dialect_member *member = about->members; member && member->name; member++)
        if (strcmp(member->name, name) == 0)
            return true;
    return false;
}

START_TEST(each_row_of_each_dialect_is_in_its_body) {
    json_t *root = document(&closed);
    unsigned n = 0;
    EACH_SHOWN(dialect) {
        const struct dialect_about *about = dialect->about;
        const json_t *body = AT(root, "components", "schemas", dialect->name, "properties");
        const struct field_row *row;
        for (size_t i = 0; (row = field_nth(i)) != NULL; i++) {
            const json_t *schema = json_object_get(body, row->name);
            if (!((row->served | row->refused | row->idle) & about->fields)) {
                ck_assert_msg(!schema || is_member(about, row->name), "%s", row->name);
                continue;
            }
            ck_assert_msg(schema != NULL, "%s lacks %s", dialect->name, row->name);
            if (is_member(about, row->name))
                continue;
            if (row->idle & about->fields) /* anything */
                ck_assert(!AT(schema, "enum") && !AT(schema, "type") && AT(schema, "description"));
            else if (row->served & about->fields)
                check_served(row, schema);
            else
                check_refused(row, schema);
            n++;
        }
        for (const struct dialect_member *member = about->members; member && member->name; member++)
            ck_assert_msg(json_object_get(body, member->name), "%s lacks %s", dialect->name,
                          member->name);
    }
    ck_assert_uint_gt(n, 300);
    json_decref(root);
}
END_TEST

START_TEST(what_a_body_needs_is_there_and_not_null) {
    json_t *root = document(&closed);
    EACH_SHOWN(dialect) {
        const json_t *body = AT(root, "components", "schemas", dialect->name), *name;
        size_t i;
        ck_assert_int_eq(json_array_size(AT(body, "required")) > 0, dialect->about->needs != NULL);
        json_array_foreach((json_t *)(uintptr_t)AT(body, "required"), i, name) {
            const json_t *schema = AT(body, "properties", json_string_value(name));
            ck_assert_msg(schema && !AT(schema, "anyOf") && !json_is_array(AT(schema, "type")),
                          "%s.%s", dialect->name, json_string_value(name));
        }
    }
    ck_assert(AT(root, "components", "schemas", "tokenize", "properties", "prompt", "anyOf"));
    ck_assert(AT(root, "components", "schemas", "tokenize", "allOf"));
    json_decref(root);
}
END_TEST

/* What the document says, the parsers hold. */
START_TEST(defaults_are_taken) {
    static const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4096};
    static const struct {
        const struct dialect *dialect;
        const char *begin;
    } cases[] = {
        {&dialect_chat, "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"},
        {&dialect_completions, "\"prompt\":\"a\""},
    };
    json_t *root = document(&closed);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name;
        json_t *schema;
        unsigned n = 0;
        json_object_foreach((json_t *)(uintptr_t)AT(root, "components", "schemas",
                                                    cases[i].dialect->name, "properties"),
                            name, schema) {
            const json_t *value = AT(schema, "default");
            struct api_error error = {0};
            struct ask ask;
            char body[256];
            if (!value)
                continue;
            char *text = json_dumps(value, JSON_ENCODE_ANY);
            snprintf(body, sizeof body, "{%s,\"%s\":%s}", cases[i].begin, name, text);
            free(text);
            ask_init(&ask);
            const struct span bytes = {body, strlen(body)};
            ck_assert_msg(cases[i].dialect->parse(&bytes, &limits, &ask, &error) == STATUS_OK,
                          "%s: %s", body, error.error.text);
            ask_fini(&ask);
            n++;
        }
        ck_assert_uint_gt(n, 15);
    }
    json_decref(root);
}
END_TEST

static void check_references(const json_t *root, const json_t *value) {
    const char *key;
    json_t *inner;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)value, i, inner) check_references(root, inner);
    json_object_foreach((json_t *)(uintptr_t)value, key, inner) {
        char a[32], b[32], c[64];
        if (strcmp(key, "$ref") == 0) {
            ck_assert_int_eq(sscanf(json_string_value(inner), "#/%31[^/]/%31[^/]/%63s", a, b, c),
                             3);
            ck_assert_msg(AT(root, a, b, c) != NULL, "%s", json_string_value(inner));
        }
        check_references(root, inner);
    }
}

START_TEST(references_lead_somewhere) {
    json_t *root = document(&closed);
    check_references(root, root);
    ck_assert(AT(root, "components", "responses", "Error"));
    ck_assert(AT(root, "components", "responses", "MessagesError"));
    json_decref(root);
}
END_TEST

static const char *scheme(const json_t *root, const char *path, const char *method) {
    const json_t *first = json_array_get(AT(root, "paths", path, method, "security"), 0);
    return first ? json_object_iter_key(json_object_iter((json_t *)(uintptr_t)first)) : "";
}

START_TEST(keys_are_told_where_they_are_needed) {
    const struct openapi_of open = {.nth = api_dialect, .model = "m"};
    json_t *root = document(&closed), *other = document(&open);
    ck_assert_str_eq(scheme(root, "/v1/completions", "post"), "api_key");
    ck_assert_str_eq(scheme(root, "/openapi.json", "get"), "api_key");
    ck_assert_str_eq(scheme(root, "/admin/status", "get"), "admin_key");
    ck_assert_str_eq(scheme(root, "/health", "get"), "");
    ck_assert_str_eq(scheme(other, "/v1/completions", "post"), "");
    ck_assert_str_eq(scheme(other, "/admin/status", "get"), "");
    ck_assert(AT(root, "components", "securitySchemes", "api_key"));
    ck_assert(AT(root, "components", "securitySchemes", "x_admin_key"));
    const json_t *ids = AT(root, "components", "schemas", "chat", "properties", "model", "enum");
    ck_assert(is_str(json_array_get(ids, 2), "org/\"m\""));
    json_decref(root);
    json_decref(other);
}
END_TEST

/* A dialect is a file and a row: this one has what a file would say of it, and nothing else knows it. */
static const struct dialect_about about_more = {
    .summary = "A test's own",
    .fields = FIELD_COMPLETIONS,
    .members = (const struct dialect_member[]){{"tone", .as = "cache_salt"},
                                               {"pitch", .schema = SCHEMA({"type" : "number"})},
                                               {.name = NULL}},
    .needs = SCHEMA(["pitch"]),
    .answer = SCHEMA({"type" : "object"}),
    .events = "a test's own",
};
static const struct dialect more = {.name = "more",
                                    .method = "POST",
                                    .path = "/test/more",
                                    .form = &openai_form,
                                    .about = &about_more};

static const struct dialect_about about_less = {.summary = "The same path, by another method"};
static const struct dialect less = {.name = "less",
                                    .method = "GET",
                                    .path = "/test/more",
                                    .form = &openai_form,
                                    .about = &about_less};

static const struct dialect *with_more(unsigned n) {
    if (n < 2)
        return n == 0 ? &more : &less;
    return api_dialect(n - 2);
}

START_TEST(a_dialect_more_is_in_the_document_by_its_row) {
    const struct openapi_of of = {.nth = with_more, .model = "m"};
    json_t *root = document(&of);
    const json_t *found = operation(root, &more);
    const json_t *body = AT(root, "components", "schemas", "more", "properties");
    ck_assert(is_str(AT(found, "operationId"), "more"));
    ck_assert(AT(found, "responses", "200", "content", "text/event-stream"));
    ck_assert(AT(found, "responses", "200", "content", "application/json", "schema", "allOf"));
    ck_assert(number(AT(body, "tone"), "maxLength") == ASK_NAME_BYTES_MAX);
    ck_assert(AT(body, "pitch", "allOf") && AT(body, "temperature") && !AT(body, "tools", "type"));
    ck_assert(is_str(AT(operation(root, &less), "operationId"), "less"));
    check_references(root, root);
    json_decref(root);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, each_dialect_of_http_is_in_the_document);
    tcase_add_test(tests, answers_have_their_statuses_and_types);
    tcase_add_test(tests, each_row_of_each_dialect_is_in_its_body);
    tcase_add_test(tests, what_a_body_needs_is_there_and_not_null);
    tcase_add_test(tests, defaults_are_taken);
    tcase_add_test(tests, references_lead_somewhere);
    tcase_add_test(tests, keys_are_told_where_they_are_needed);
    tcase_add_test(tests, a_dialect_more_is_in_the_document_by_its_row);
}
