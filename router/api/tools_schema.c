#include "router/api/tools_schema.h"

#include "base/buf.h"
#include "model/text/grammar/pack.h"
#include "router/api/form.h"
#include "router/api/json_put.h"

#include <string.h>

/* Keywords that say nothing about values: they are only for readers. */
static const char *const told[] = {"title",      "description", "default",   "examples", "$comment",
                                   "deprecated", "readOnly",    "writeOnly", NULL};

/* The maps of schemas that references point into, and the names of a schema as a whole. */
static const char *const definitions[] = {"$defs", "definitions", NULL};
static const char *const titles[] = {"$schema", "$id", NULL};

static bool tools_schema_is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static const char *tools_schema_find_other(const json_t *schema, const char *const *known,
                                           bool is_root) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
        bool is_of_root = is_root && (tools_schema_is_one_of(key, definitions) ||
                                      tools_schema_is_one_of(key, titles));
        if (!is_of_root && !tools_schema_is_one_of(key, known) &&
            !tools_schema_is_one_of(key, told))
            return key;
    }
    return NULL;
}

const char *tools_schema_other(const json_t *schema, const char *const *known) {
    return tools_schema_find_other(schema, known, false);
}

const char *tools_schema_other_of_root(const json_t *schema, const char *const *known) {
    return tools_schema_find_other(schema, known, true);
}

const json_t *tools_schema_pointed(const json_t *root, const char *to) {
    if (!to || strncmp(to, "#/", 2) != 0)
        return NULL;
    for (const char *const *map = definitions; *map; map++) {
        const size_t n = strlen(*map);
        if (strncmp(to + 2, *map, n) == 0 && to[2 + n] == '/')
            return json_object_get(json_object_get(root, *map), to + 2 + n + 1);
    }
    return NULL;
}

enum place { IN_SCHEMA, IN_NAMED_SCHEMAS, IN_VALUE };

static enum place tools_schema_place_of(enum place place, const char *key) {
    static const char *const maps[] = {"properties", "patternProperties", "dependentSchemas", NULL};
    static const char *const values[] = {"enum", "const", "required", "type", NULL};
    if (place == IN_NAMED_SCHEMAS)
        return IN_SCHEMA;
    if (place == IN_VALUE || tools_schema_is_one_of(key, values))
        return IN_VALUE;
    return tools_schema_is_one_of(key, maps) || tools_schema_is_one_of(key, definitions)
               ? IN_NAMED_SCHEMAS
               : IN_SCHEMA;
}

/* The value, without what is only for readers where it is a schema. */
static void tools_schema_put_one(const json_t *value, enum place place, struct buf *out) {
    const char *key;
    json_t *entry;
    size_t i;
    if (json_is_object(value)) {
        bool any = false;
        buf_putc(out, '{');
        json_object_foreach((json_t *)(uintptr_t)value, key, entry) {
            if (place == IN_SCHEMA && tools_schema_is_one_of(key, told))
                continue;
            if (any)
                buf_putc(out, ',');
            any = true;
            json_put_string(out, key, strlen(key));
            buf_putc(out, ':');
            tools_schema_put_one(entry, tools_schema_place_of(place, key), out);
        }
        buf_putc(out, '}');
    } else if (json_is_array(value)) {
        buf_putc(out, '[');
        json_array_foreach((json_t *)(uintptr_t)value, i, entry) {
            if (i > 0)
                buf_putc(out, ',');
            tools_schema_put_one(entry, place, out);
        }
        buf_putc(out, ']');
    } else if (json_is_string(value)) {
        json_put_string(out, json_string_value(value), json_string_length(value));
    } else if (json_is_integer(value)) {
        json_put_int(out, json_integer_value(value));
    } else if (json_is_real(value)) {
        buf_printf(out, "%.17g", json_real_value(value));
    } else {
        buf_puts(out, json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
    }
}

/* A schema that points into the root's definitions takes them along; its own go before. */
static void tools_schema_put_with_definitions(const json_t *schema, const json_t *root,
                                              struct buf *out) {
    tools_schema_put_one(schema, IN_SCHEMA, out);
    for (const char *const *name = definitions; *name; name++) {
        const json_t *map = json_object_get(root, *name);
        if (!json_is_object(schema) || !map || json_object_get(schema, *name) ||
            !memmem(out->data, out->n, "$ref", 4))
            continue;
        out->n--; /* the bracket */
        buf_puts(out, json_object_size(schema) > 0 ? "," : "");
        json_put_string(out, *name, strlen(*name));
        buf_putc(out, ':');
        tools_schema_put_one(map, IN_NAMED_SCHEMAS, out);
        buf_putc(out, '}');
    }
}

/* Whether a schema of all arguments lists them and leaves open whether others may come. A call's arguments go to a function by
 * name, which takes no others. Beside other words about an object's members it cannot be told what else is meant to come. */
static bool tools_schema_lists_arguments(const json_t *schema) {
    static const char *const words[] = {"additionalProperties",
                                        "unevaluatedProperties",
                                        "patternProperties",
                                        "propertyNames",
                                        "minProperties",
                                        "dependentSchemas",
                                        "dependencies",
                                        "allOf",
                                        "anyOf",
                                        "oneOf",
                                        "not",
                                        "if",
                                        "$ref",
                                        "$dynamicRef",
                                        "$recursiveRef",
                                        NULL};
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required"), *name;
    const char *key;
    json_t *value;
    size_t i;
    if (!json_is_object(properties))
        return false;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
        if (tools_schema_is_one_of(key, words))
            return false;
    }
    json_array_foreach((json_t *)(uintptr_t)required, i, name) {
        if (!json_is_string(name) ||
            !json_object_getn(properties, json_string_value(name), json_string_length(name)))
            return false;
    }
    return true;
}

enum status tools_schema_part(struct ask *ask, const json_t *schema, const json_t *root,
                              bool lenient, struct grammar_part *part) {
    struct buf text;
    buf_init(&text, GRAMMAR_PACKED_MAX);
    tools_schema_put_with_definitions(schema, root, &text);
    if (buf_status(&text) == STATUS_OK && !root && tools_schema_lists_arguments(schema)) {
        text.n--; /* the bracket */
        buf_puts(&text, ",\"additionalProperties\":false}");
    }
    *part = (struct grammar_part){.kind = GRAMMAR_JSON_SCHEMA, .lenient = lenient};
    return form_keep(ask, &text, &part->text);
}
