/* Whether two branches of a oneOf can hold of one value. */
#include "model/text/grammar/schema/schema.h"

#include <string.h>

#define DEPTH_MAX  4u
#define FOLLOW_MAX 8u

/* The schema itself, where a reference stands alone. */
static const json_t *schema_resolve(struct schema *schema, const json_t *node) {
    for (unsigned i = 0; i < FOLLOW_MAX && json_object_get(node, "$ref"); i++) {
        const json_t *found;
        struct error kept = *schema->error;
        enum status status = schema_follow(schema, node, &found);
        *schema->error = kept; /* reported where the branch is written */
        if (status != STATUS_OK || !found)
            return node;
        node = found;
    }
    return node;
}

/* The values that a schema lists, as a list; NULL: none. *owned must be given back. */
static const json_t *schema_values_of(const json_t *node, json_t **owned) {
    json_t *constant = json_object_get(node, "const");
    *owned = constant ? json_pack("[O]", constant) : NULL;
    return *owned ? *owned : json_object_get(node, "enum");
}

static unsigned schema_type_bit(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
    case JSON_REAL:
        return TYPE_NUMBER | TYPE_INTEGER;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

static unsigned schema_types_of(struct schema *schema, const json_t *node) {
    unsigned types = TYPE_ANY;
    struct error kept = *schema->error;
    json_t *owned;
    size_t i;
    json_t *value;
    if (json_is_object(node) && keywords_types(schema, node, &types) != STATUS_OK) {
        *schema->error = kept;
        return TYPE_ANY;
    }
    const json_t *values = schema_values_of(node, &owned);
    if (values) {
        unsigned listed = 0;
        json_array_foreach(values, i, value) listed |= schema_type_bit(value);
        types &= listed;
    }
    json_decref(owned);
    return types;
}

/* As JSON schemas compare: 1 is 1.0. */
static bool schema_may_be_equal(const json_t *x, const json_t *y) {
    if (json_is_number(x) && json_is_number(y))
        return json_number_value(x) == json_number_value(y);
    return json_equal(x, y);
}

static bool schema_lists_apart(struct schema *schema, const json_t *left, const json_t *right) {
    json_t *owned[2];
    const json_t *a = schema_values_of(left, &owned[0]);
    const json_t *b = schema_values_of(right, &owned[1]);
    bool is_apart = a && b;
    for (size_t i = 0; is_apart && i < json_array_size(a); i++)
        for (size_t k = 0; is_apart && k < json_array_size(b); k++)
            is_apart = program_work(schema->program, 2) &&
                       !schema_may_be_equal(json_array_get(a, i), json_array_get(b, k));
    json_decref(owned[0]);
    json_decref(owned[1]);
    return is_apart;
}

/* The highest value of one is below the least of the other. */
static bool schema_bounds_apart(const json_t *low, const json_t *high) {
    const json_t *most = json_object_get(low, "maximum");
    const json_t *open = json_object_get(low, "exclusiveMaximum");
    const json_t *least = json_object_get(high, "minimum");
    const json_t *above = json_object_get(high, "exclusiveMinimum");
    const json_t *a = most ? most : open;
    const json_t *b = least ? least : above;
    if (!json_is_number(a) || !json_is_number(b))
        return false;
    bool is_open = !most || !least;
    return is_open ? json_number_value(a) <= json_number_value(b)
                   : json_number_value(a) < json_number_value(b);
}

static bool schema_requires(const json_t *node, const char *name) {
    size_t i;
    json_t *own;
    json_array_foreach(json_object_get(node, "required"), i,
                       own) if (json_is_string(own) &&
                                strcmp(json_string_value(own), name) == 0) return true;
    return false;
}

static bool schema_forbids(const json_t *node, const char *name) {
    return json_is_false(json_object_get(node, "additionalProperties")) &&
           !json_object_get(node, "patternProperties") &&
           !json_object_get(json_object_get(node, "properties"), name);
}

/* A property that one requires, and the other forbids or gives other values. */
static bool schema_properties_apart(struct schema *schema, const json_t *left, const json_t *right,
                                    uint32_t depth) {
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(left, "required"), i, name) {
        const char *key = json_string_value(name);
        if (!key)
            continue;
        if (!program_work(schema->program, 2 + json_array_size(json_object_get(right, "required"))))
            return false;
        if (schema_forbids(right, key))
            return true;
        const json_t *a = json_object_get(json_object_get(left, "properties"), key);
        const json_t *b = json_object_get(json_object_get(right, "properties"), key);
        if (a && b && schema_requires(right, key) && schema_disjoint(schema, a, b, depth + 1))
            return true;
    }
    return false;
}

bool schema_disjoint(struct schema *schema, const json_t *left, const json_t *right,
                     uint32_t depth) {
    if (depth > DEPTH_MAX || !program_work(schema->program, 8))
        return false;
    left = schema_resolve(schema, left);
    right = schema_resolve(schema, right);
    if (json_is_false(left) || json_is_false(right))
        return true;
    unsigned both = schema_types_of(schema, left) & schema_types_of(schema, right);
    if (both == 0 || schema_lists_apart(schema, left, right))
        return true;
    if (!(both & ~(unsigned)(TYPE_NUMBER | TYPE_INTEGER)))
        return schema_bounds_apart(left, right) || schema_bounds_apart(right, left);
    return both == TYPE_OBJECT && (schema_properties_apart(schema, left, right, depth) ||
                                   schema_properties_apart(schema, right, left, depth));
}
