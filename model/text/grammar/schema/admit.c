/* Whether a constant satisfies schemas: the values of an enum that a sibling keyword or another schema
 * of an allOf leaves. */
#include "model/text/grammar/schema/schema.h"

#include "base/utf8.h"
#include "model/text/grammar/regex/chars.h"
#include "model/text/grammar/schema/pattern.h"

#include <math.h>
#include <string.h>

#define DEPTH_MAX 64u

static enum status schema_admits_node(struct schema *schema, const json_t *node, unsigned skip,
                                      const json_t *value, uint32_t depth, bool *admits);

static unsigned schema_type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return json_real_value(value) == floor(json_real_value(value)) ? TYPE_INTEGER : TYPE_NUMBER;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

static bool schema_admits_number(const json_t *node, const json_t *value) {
    long double number = json_is_integer(value) ? (long double)json_integer_value(value)
                                                : (long double)json_real_value(value);
    static const struct {
        const char *name;
        bool is_least;
        bool is_open;
    } rows[] = {{"minimum", true, false},
                {"exclusiveMinimum", true, true},
                {"maximum", false, false},
                {"exclusiveMaximum", false, true}};
    for (size_t i = 0; i < 4; i++) {
        const json_t *bound = json_object_get(node, rows[i].name);
        long double at = json_is_integer(bound) ? (long double)json_integer_value(bound)
                                                : (long double)json_real_value(bound);
        if (bound && (rows[i].is_least ? number < at : number > at))
            return false;
        if (bound && rows[i].is_open && number == at)
            return false;
    }
    const json_t *multiple = json_object_get(node, "multipleOf");
    return !multiple || fmodl(number, (long double)json_number_value(multiple)) == 0;
}

static bool schema_admits_count(const json_t *node, const char *min, const char *max, size_t n) {
    const json_t *least = json_object_get(node, min);
    const json_t *most = json_object_get(node, max);
    return (!least || (double)n >= json_number_value(least)) &&
           (!most || (double)n <= json_number_value(most));
}

static enum status schema_admits_expression(struct schema *schema, const json_t *node,
                                            const char *keyword, const char *source, bool searches,
                                            struct span text, bool *admits) {
    struct chars chars;
    enum status status = pattern_compile(schema, node, keyword, span_of(source), searches, &chars);
    if (status == STATUS_UNSUPPORTED && schema->lenient)
        return schema_cannot(schema, node, "pattern", "");
    TRY(status);
    *admits = *admits && chars_match(&chars, text);
    chars_fini(&chars);
    return STATUS_OK;
}

static enum status schema_admits_string(struct schema *schema, const json_t *node,
                                        const json_t *value, bool *admits) {
    struct span text = {json_string_value(value), json_string_length(value)};
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += !utf8_is_tail(text.bytes[i]);
    *admits = schema_admits_count(node, "minLength", "maxLength", n);
    const char *pattern = json_string_value(json_object_get(node, "pattern"));
    const char *format = json_string_value(json_object_get(node, "format"));
    if (pattern)
        TRY(schema_admits_expression(schema, node, "pattern", pattern, true, text, admits));
    if (!format)
        return STATUS_OK;
    const char *expression = format_expression(format);
    if (!expression)
        return schema_cannot(schema, node, "format", "this format is not known");
    return schema_admits_expression(schema, node, "format", expression, false, text, admits);
}

static enum status schema_admits_array(struct schema *schema, const json_t *node,
                                       const json_t *value, uint32_t depth, bool *admits) {
    const json_t *items = json_object_get(node, "items");
    const json_t *places = json_is_array(items) ? items : json_object_get(node, "prefixItems");
    const json_t *rest = json_is_array(items) ? json_object_get(node, "additionalItems") : items;
    *admits = schema_admits_count(node, "minItems", "maxItems", json_array_size(value));
    for (size_t i = 0; *admits && i < json_array_size(value); i++) {
        const json_t *own = json_array_get(places, i);
        own = own ? own : rest;
        if (own)
            TRY(schema_admits_node(schema, own, 0, json_array_get(value, i), depth, admits));
    }
    return STATUS_OK;
}

static enum status schema_admits_member(struct schema *schema, const json_t *node, const char *key,
                                        const json_t *value, uint32_t depth, bool *admits) {
    const json_t *own = json_object_get(json_object_get(node, "properties"), key);
    const json_t *others = json_object_get(node, "additionalProperties");
    const char *pattern;
    json_t *of_pattern;
    bool is_named = own != NULL;
    if (own)
        TRY(schema_admits_node(schema, own, 0, value, depth, admits));
    json_object_foreach(json_object_get(node, "patternProperties"), pattern, of_pattern) {
        bool matches = true;
        TRY(schema_admits_expression(schema, node, "patternProperties", pattern, true, span_of(key),
                                     &matches));
        is_named |= matches;
        if (matches && *admits)
            TRY(schema_admits_node(schema, of_pattern, 0, value, depth, admits));
    }
    if (!is_named && others && *admits)
        TRY(schema_admits_node(schema, others, 0, value, depth, admits));
    return STATUS_OK;
}

static enum status schema_admits_object(struct schema *schema, const json_t *node,
                                        const json_t *value, uint32_t depth, bool *admits) {
    const char *key;
    size_t k;
    json_t *member;
    *admits = true;
    json_array_foreach(json_object_get(node, "required"), k, member) *admits =
        *admits && json_object_get(value, json_string_value(member));
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        if (*admits)
            TRY(schema_admits_member(schema, node, key, member, depth, admits));
    }
    return STATUS_OK;
}

static bool schema_is_listed(const json_t *node, const json_t *value) {
    const json_t *constant = json_object_get(node, "const");
    const json_t *values = json_object_get(node, "enum");
    size_t i;
    json_t *own;
    bool is_in = !values;
    json_array_foreach(values, i, own) is_in = is_in || json_equal(own, value);
    return is_in && (!constant || json_equal(constant, value));
}

/* anyOf and oneOf. */
static enum status schema_admits_branches(struct schema *schema, const json_t *branches,
                                          const json_t *value, bool is_one, uint32_t depth,
                                          bool *admits) {
    unsigned n = 0;
    size_t i;
    json_t *branch;
    json_array_foreach(branches, i, branch) {
        bool fits;
        TRY(schema_admits_node(schema, branch, 0, value, depth, &fits));
        n += fits;
    }
    *admits = *admits && (is_one ? n == 1 : n > 0);
    return STATUS_OK;
}

static enum status schema_admits_parts(struct schema *schema, const json_t *node, unsigned skip,
                                       const json_t *value, uint32_t depth, bool *admits) {
    const json_t *any = json_object_get(node, "anyOf");
    const json_t *one = json_object_get(node, "oneOf");
    size_t i;
    json_t *part;
    if (!(skip & SKIP_REF) && json_object_get(node, "$ref")) {
        const json_t *found;
        TRY(schema_follow(schema, node, &found));
        if (found)
            TRY(schema_admits_node(schema, found, 0, value, depth, admits));
    }
    json_array_foreach(skip & SKIP_ALL_OF ? NULL : json_object_get(node, "allOf"), i, part) {
        if (*admits)
            TRY(schema_admits_node(schema, part, 0, value, depth, admits));
    }
    if (any && *admits && !(skip & SKIP_ANY_OF))
        TRY(schema_admits_branches(schema, any, value, false, depth, admits));
    if (one && *admits && !(skip & SKIP_ONE_OF))
        TRY(schema_admits_branches(schema, one, value, true, depth, admits));
    return STATUS_OK;
}

static enum status schema_admits_node(struct schema *schema, const json_t *node, unsigned skip,
                                      const json_t *value, uint32_t depth, bool *admits) {
    unsigned types;
    *admits = json_is_true(node) || (json_is_object(node) && schema_is_listed(node, value));
    if (!json_is_object(node) || !*admits)
        return STATUS_OK;
    if (depth >= DEPTH_MAX || !program_work(schema->program, 8))
        return schema_fail(schema, STATUS_LIMIT, node, NULL, "constants are checked too deep");
    TRY(keywords_types(schema, node, &types));
    unsigned own = schema_type_of(value);
    if (!(types & own)) { /* an integer is a number, too: its bit is in both */
        *admits = false;
        return STATUS_OK;
    }
    TRY(keywords_check(schema, node, own));
    if (json_is_number(value))
        *admits = schema_admits_number(node, value);
    else if (json_is_string(value))
        TRY(schema_admits_string(schema, node, value, admits));
    else if (json_is_array(value))
        TRY(schema_admits_array(schema, node, value, depth + 1, admits));
    else if (json_is_object(value))
        TRY(schema_admits_object(schema, node, value, depth + 1, admits));
    if (*admits)
        TRY(schema_admits_parts(schema, node, skip, value, depth + 1, admits));
    return STATUS_OK;
}

enum status schema_admits(struct schema *schema, const struct conjunction *conjunction,
                          const json_t *value, bool *admits) {
    *admits = true;
    for (uint32_t i = 0; *admits && i < conjunction->n; i++)
        TRY(schema_admits_node(schema, conjunction->members[i].schema, conjunction->members[i].skip,
                               value, 0, admits));
    return STATUS_OK;
}
