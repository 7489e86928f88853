/* The keywords of JSON Schema, one row each: what becomes of it. docs/structured.md has the same list
 * for readers; a test compares the two. */
#include "model/text/grammar/schema/keywords.h"

#include "model/text/grammar/schema/schema.h"

#include <string.h>

/* What a refused keyword says when it says nothing. */
static bool keyword_is_false(const json_t *value) {
    return json_is_false(value);
}

static bool keyword_is_true(const json_t *value) {
    return json_is_true(value) || (json_is_object(value) && json_object_size(value) == 0);
}

static bool keyword_is_zero(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) == 0;
}

static bool keyword_is_count(const json_t *value) {
    return (json_is_integer(value) && json_integer_value(value) >= 0) ||
           (json_is_real(value) && json_real_value(value) >= 0 && json_real_value(value) < 1e9 &&
            json_real_value(value) == (double)(int64_t)json_real_value(value));
}

static bool keyword_is_number(const json_t *value) {
    return json_is_number(value);
}

static bool keyword_is_string(const json_t *value) {
    return json_is_string(value);
}

static bool keyword_is_schemas(const json_t *value) {
    return json_is_object(value);
}

static bool keyword_is_schema(const json_t *value) {
    return json_is_object(value) || json_is_boolean(value);
}

static bool keyword_is_items(const json_t *value) {
    return keyword_is_schema(value) ||
           json_is_array(value); /* a list: as drafts before 2020-12 had it */
}

static bool keyword_is_list(const json_t *value) {
    return json_is_array(value);
}

static bool keyword_is_names(const json_t *value) {
    size_t i;
    json_t *name;
    json_array_foreach(value, i, name) if (!json_is_string(name)) return false;
    return json_is_array(value);
}

#define KEPT(name, types, fits, expected)                                                          \
    { name, KEYWORD_KEPT, types, fits, expected }
#define NOTE(name)                                                                                 \
    { name, KEYWORD_NOTE, 0, NULL, NULL }
#define REFUSED(name, types, harmless)                                                             \
    { name, KEYWORD_REFUSED, types, harmless, NULL }

static const struct keyword rows[] = {
    KEPT("type", TYPE_ANY, NULL, NULL),
    KEPT("enum", TYPE_ANY, keyword_is_list, "a list"),
    KEPT("const", TYPE_ANY, NULL, NULL),
    KEPT("anyOf", TYPE_ANY, keyword_is_list, "a list of schemas"),
    KEPT("oneOf", TYPE_ANY, keyword_is_list, "a list of schemas"),
    KEPT("allOf", TYPE_ANY, keyword_is_list, "a list of schemas"),
    KEPT("$ref", TYPE_ANY, keyword_is_string, "a string"),
    KEPT("$defs", TYPE_ANY, keyword_is_schemas, "an object"),
    KEPT("definitions", TYPE_ANY, keyword_is_schemas, "an object"),
    KEPT("$id", TYPE_ANY, keyword_is_string, "a string"),
    KEPT("$anchor", TYPE_ANY, keyword_is_string, "a string"),
    KEPT("properties", TYPE_OBJECT, keyword_is_schemas, "an object of schemas"),
    KEPT("required", TYPE_OBJECT, keyword_is_names, "a list of names"),
    KEPT("additionalProperties", TYPE_OBJECT, keyword_is_schema, "a schema"),
    KEPT("patternProperties", TYPE_OBJECT, keyword_is_schemas, "an object of schemas"),
    KEPT("items", TYPE_ARRAY, keyword_is_items, "a schema"),
    KEPT("prefixItems", TYPE_ARRAY, keyword_is_list, "a list of schemas"),
    KEPT("additionalItems", TYPE_ARRAY, keyword_is_schema, "a schema"),
    KEPT("minItems", TYPE_ARRAY, keyword_is_count, "a count"),
    KEPT("maxItems", TYPE_ARRAY, keyword_is_count, "a count"),
    KEPT("minLength", TYPE_STRING, keyword_is_count, "a count"),
    KEPT("maxLength", TYPE_STRING, keyword_is_count, "a count"),
    KEPT("pattern", TYPE_STRING, keyword_is_string, "a regular expression"),
    KEPT("format", TYPE_STRING, keyword_is_string, "a string"),
    KEPT("minimum", TYPE_INTEGER | TYPE_NUMBER, keyword_is_number, "a number"),
    KEPT("maximum", TYPE_INTEGER | TYPE_NUMBER, keyword_is_number, "a number"),
    KEPT("exclusiveMinimum", TYPE_INTEGER | TYPE_NUMBER, keyword_is_number, "a number"),
    KEPT("exclusiveMaximum", TYPE_INTEGER | TYPE_NUMBER, keyword_is_number, "a number"),
    KEPT("multipleOf", TYPE_INTEGER | TYPE_NUMBER, keyword_is_number, "a number"),
    NOTE("$schema"),
    NOTE("$comment"),
    NOTE("$vocabulary"),
    NOTE("title"),
    NOTE("description"),
    NOTE("default"),
    NOTE("examples"),
    NOTE("deprecated"),
    NOTE("readOnly"),
    NOTE("writeOnly"),
    NOTE("contentEncoding"),
    NOTE("contentMediaType"),
    NOTE("contentSchema"),
    REFUSED("not", TYPE_ANY, keyword_is_false),
    REFUSED("if", TYPE_ANY, NULL),
    REFUSED("then", 0, NULL), /* nothing without "if" */
    REFUSED("else", 0, NULL),
    REFUSED("$dynamicRef", TYPE_ANY, NULL),
    REFUSED("$recursiveRef", TYPE_ANY, NULL),
    REFUSED("dependentRequired", TYPE_OBJECT, NULL),
    REFUSED("dependentSchemas", TYPE_OBJECT, NULL),
    REFUSED("dependencies", TYPE_OBJECT, NULL),
    REFUSED("propertyNames", TYPE_OBJECT, keyword_is_true),
    REFUSED("minProperties", TYPE_OBJECT, keyword_is_zero),
    REFUSED("maxProperties", TYPE_OBJECT, NULL),
    REFUSED("unevaluatedProperties", TYPE_OBJECT, keyword_is_true),
    REFUSED("unevaluatedItems", TYPE_ARRAY, keyword_is_true),
    REFUSED("uniqueItems", TYPE_ARRAY, keyword_is_false),
    REFUSED("contains", TYPE_ARRAY, NULL),
    REFUSED("minContains", 0, NULL), /* nothing without "contains" */
    REFUSED("maxContains", 0, NULL),
};

const struct keyword *keywords_row(size_t i) {
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

static const struct keyword *schema_find_keyword(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

enum status keywords_check(struct schema *schema, const json_t *node, unsigned types) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)node, name, value) {
        const struct keyword *row = schema_find_keyword(name);
        if (!row || row->kind == KEYWORD_NOTE) /* unknown ones are annotations, says the draft */
            continue;
        if (row->kind == KEYWORD_KEPT && row->fits && !row->fits(value))
            return schema_fail(schema, STATUS_INVALID, node, name, "must be %s", row->expected);
        if (row->kind == KEYWORD_REFUSED && (row->types & types) &&
            !(row->fits && row->fits(value)))
            TRY(schema_cannot(schema, node, row->name, "there is no automaton for it"));
    }
    return STATUS_OK;
}

static bool schema_add_type(const json_t *name, unsigned *types) {
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {
        {"null", TYPE_NULL},       {"boolean", TYPE_BOOLEAN},
        {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER | TYPE_INTEGER},
        {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
        {"object", TYPE_OBJECT},
    };
    for (size_t i = 0; json_is_string(name) && i < sizeof names / sizeof *names; i++)
        if (strcmp(json_string_value(name), names[i].name) == 0) {
            *types |= names[i].types;
            return true;
        }
    return false;
}

enum status keywords_types(struct schema *schema, const json_t *node, unsigned *types) {
    const json_t *type = json_object_get(node, "type");
    *types = 0;
    if (!type) {
        *types = TYPE_ANY;
        return STATUS_OK;
    }
    bool is_known = json_is_string(type) ? schema_add_type(type, types) : json_array_size(type) > 0;
    for (size_t i = 0; json_is_array(type) && i < json_array_size(type); i++)
        is_known = schema_add_type(json_array_get(type, i), types) && is_known;
    if (!is_known)
        return schema_fail(schema, STATUS_INVALID, node, "type",
                           "must be a name of a type, or a list of such names");
    return STATUS_OK;
}

static uint32_t schema_count_of(const json_t *value) {
    double number = json_number_value(value);
    return number >= UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

void keywords_counts(const struct conjunction *conjunction, const char *min_name,
                     const char *max_name, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = UINT32_MAX;
    for (uint32_t i = 0; i < conjunction->n; i++) {
        const json_t *least = json_object_get(conjunction->members[i].schema, min_name);
        const json_t *most = json_object_get(conjunction->members[i].schema, max_name);
        if (least && schema_count_of(least) > *min)
            *min = schema_count_of(least);
        if (most && schema_count_of(most) < *max)
            *max = schema_count_of(most);
    }
}
