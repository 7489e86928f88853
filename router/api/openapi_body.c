#include "router/api/openapi_body.h"

#include "router/api/about.h"
#include "router/api/field_table.h"
#include "router/api/json_put.h"
#include "router/api/openapi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE "taken, and means nothing here"

/* --- schemas ------------------------------------------------------------------------------- */

/* A text of SCHEMA() without its blanks, and without the suffix of C's unsigned numbers. */
void openapi_put_schema(const char *text, struct buf *out) {
    bool in_string = false;
    for (const char *at = text; *at; at++) {
        bool is_suffix = *at == 'u' && at > text && at[-1] >= '0' && at[-1] <= '9';
        if (*at == '"' && (at == text || at[-1] != '\\'))
            in_string = !in_string;
        if (in_string || (*at != ' ' && !is_suffix))
            buf_putc(out, *at);
    }
}

/* The schema, or null where that is as good as nothing. */
void openapi_put_nullable(const char *schema, bool may_be_null, struct buf *out) {
    if (may_be_null)
        buf_puts(out, "\"anyOf\":[");
    else
        buf_puts(out, "\"allOf\":[");
    openapi_put_schema(schema, out);
    buf_puts(out, may_be_null ? ",{\"type\":\"null\"}]," : "],");
}

static void openapi_put_type(const char *name, bool may_be_null, struct buf *out) {
    buf_printf(out, may_be_null ? "\"type\":[\"%s\",\"null\"]," : "\"type\":\"%s\",", name);
}

static void openapi_put_bounds(const struct field_row *row, struct buf *out) {
    if (row->min == 0 && row->max == 0)
        return;
    buf_printf(out, row->is_above ? "\"exclusiveMinimum\":%.10g," : "\"minimum\":%.10g,", row->min);
    buf_printf(out, "\"maximum\":%.10g,", row->max);
}

/* What a served field's values are. The one model's id is known. */
static void openapi_put_served(const struct openapi_of *of, const struct field_row *row,
                               bool may_be_null, struct buf *out) {
    switch (row->type) {
    case FIELD_BOOL:
        openapi_put_type("boolean", may_be_null, out);
        return;
    case FIELD_INT:
        openapi_put_type("integer", may_be_null, out);
        openapi_put_bounds(row, out);
        return;
    case FIELD_INT64:
        openapi_put_type("integer", may_be_null, out);
        buf_printf(out, "\"minimum\":%" PRId64 ",\"maximum\":%" PRId64 ",", INT64_MIN, INT64_MAX);
        return;
    case FIELD_REAL:
        openapi_put_type("number", may_be_null, out);
        openapi_put_bounds(row, out);
        return;
    case FIELD_STRING:
        openapi_put_type("string", may_be_null, out);
        if (strcmp(row->name, "model") == 0) {
            buf_puts(out, "\"enum\":[\"\",null,");
            json_put_string(out, of->model, strlen(of->model));
            buf_puts(out, "],");
        }
        if (row->max > 0)
            buf_printf(out, "\"maxLength\":%.10g,", row->max);
        return;
    case FIELD_IDS:
        openapi_put_type("array", may_be_null, out);
        buf_printf(out, "\"items\":{\"type\":\"integer\",\"minimum\":0},\"maxItems\":%.10g,",
                   row->max);
        return;
    case FIELD_ANY:
    case FIELD_LIST:
    case FIELD_OBJECT:
        if (row->schema)
            openapi_put_nullable(row->schema, may_be_null, out);
        return;
    }
}

/* What is refused may still ask for nothing; which values do, field_is_neutral() knows. */
static void openapi_put_neutral(const struct field_row *row, struct buf *out) {
    const char *neutral = row->neutral ? row->neutral : "0";
    char texts[8][80] = {"null", "false", "true", "\"\"", "[]", "{}"};
    char *end;
    (void)strtod(neutral, &end);
    snprintf(texts[6], sizeof texts[6], "\"%s\"", neutral);
    snprintf(texts[7], sizeof texts[7], *end == 0 ? "%s" : "[\"%s\"]", neutral);
    buf_puts(out, "\"enum\":[");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *value = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        out->failed |= !value;
        if (value && field_is_neutral(row, value)) {
            buf_puts(out, texts[i]);
            buf_putc(out, ',');
        }
        json_decref(value);
    }
    json_put_close(out, ']');
    buf_putc(out, ',');
}

/* What holds without it, where that is a value; else words for the description. */
static const char *openapi_put_default(const struct field_row *row, struct buf *out) {
    json_t *value = row->otherwise ? json_loads(row->otherwise, JSON_DECODE_ANY, NULL) : NULL;
    bool is_one = json_is_boolean(value) ? row->type == FIELD_BOOL : json_is_number(value);
    json_decref(value);
    if (is_one)
        buf_printf(out, "\"default\":%s,", row->otherwise);
    return is_one ? NULL : row->otherwise;
}

static void openapi_put_words(const struct field_row *row, const char *otherwise, struct buf *out) {
    const char *says = row->says ? row->says : "";
    char text[512];
    int n = snprintf(text, sizeof text, "%s%s%s%s", says, *says && otherwise ? "; " : "",
                     otherwise ? "without it: " : "", otherwise ? otherwise : "");
    if (n > 0)
        json_put_member(out, "description", text);
}

static void openapi_put_row(const struct openapi_of *of, const struct field_row *row, unsigned bits,
                            bool may_be_null, struct buf *out) {
    buf_putc(out, '{');
    if (row->idle & bits) {
        json_put_member(out, "description", IDLE);
    } else if (row->served & bits) {
        openapi_put_served(of, row, may_be_null, out);
        openapi_put_words(row, openapi_put_default(row, out), out);
    } else {
        openapi_put_neutral(row, out);
        json_put_member(out, "description", "not served: only a value that asks for nothing");
    }
    json_put_close(out, '}');
}

/* --- bodies of requests -------------------------------------------------------------------- */

static const struct dialect_member *openapi_find(const struct dialect_about *about,
                                                 const char *name) {
    for (const struct dialect_member *member = about->members; member && member->name; member++)
        if (strcmp(member->name, name) == 0)
            return member;
    return NULL;
}

static bool openapi_needs(const struct dialect_about *about, const char *name) {
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    return about->needs && strstr(about->needs, quoted);
}

static void openapi_put_member(const struct openapi_of *of, const struct dialect_about *about,
                               const struct dialect_member *member, struct buf *out) {
    const struct field_row *row = member->schema || !member->as ? NULL : field_find(member->as);
    bool may_be_null = !openapi_needs(about, member->name);
    if (row) {
        openapi_put_row(of, row, row->served, may_be_null, out);
        return;
    }
    buf_putc(out, '{');
    char idle[512];
    snprintf(idle, sizeof idle, IDLE "%s%s", member->says ? ": " : "",
             member->says ? member->says : "");
    if (member->schema)
        openapi_put_nullable(member->schema, may_be_null, out);
    if (member->says || !member->schema)
        json_put_member(out, "description", member->schema ? member->says : idle);
    json_put_close(out, '}');
}

static void openapi_put_name(const char *name, struct buf *out) {
    json_put_string(out, name, strlen(name));
    buf_putc(out, ':');
}

static void openapi_put_members(const struct openapi_of *of, const struct dialect_about *about,
                                struct buf *out) {
    const struct field_row *row;
    for (size_t i = 0; (row = field_nth(i)) != NULL; i++) {
        if (!((row->served | row->refused | row->idle) & about->fields) ||
            openapi_find(about, row->name))
            continue;
        openapi_put_name(row->name, out);
        openapi_put_row(of, row, about->fields, !openapi_needs(about, row->name), out);
        buf_putc(out, ',');
    }
    for (const struct dialect_member *member = about->members; member && member->name; member++) {
        openapi_put_name(member->name, out);
        openapi_put_member(of, about, member, out);
        buf_putc(out, ',');
    }
}

void openapi_put_body(const struct openapi_of *of, const struct dialect_about *about,
                      struct buf *out) {
    buf_puts(out, "{\"type\":\"object\",");
    if (about->needs) {
        buf_puts(out, "\"required\":");
        openapi_put_schema(about->needs, out);
        buf_putc(out, ',');
    }
    if (about->either) {
        buf_puts(out, "\"allOf\":[");
        openapi_put_schema(about->either, out);
        buf_puts(out, "],");
    }
    buf_puts(out, "\"properties\":{");
    openapi_put_members(of, about, out);
    json_put_close(out, '}');
    buf_putc(out, '}');
}
