/* Objects: properties in the order in which the schemas name them, then others. */
#include "model/text/grammar/schema/schema.h"

#include "model/text/grammar/regex/chars.h"
#include "model/text/grammar/schema/pattern.h"

#include <stdlib.h>
#include <string.h>

#define PATTERNS_MAX 4u /* of names: each combination is a kind of name of its own */

/* A pattern of names, and whose it is. */
struct name_pattern {
    const json_t *owner;
    const json_t *value;
    const char *source;
    struct chars chars; /* owned */
};

struct object {
    struct schema *schema;
    const struct conjunction *conjunction;
    const char **names; /* owned (n_names): borrowed texts, in order */
    size_t *lengths;    /* owned, beside */
    size_t n_names;
    json_t *listed; /* owned: an object whose keys are the names */
    struct name_pattern patterns[PATTERNS_MAX];
    uint32_t n_patterns;
};

static void schema_object_fini(struct object *object) {
    for (uint32_t i = 0; i < object->n_patterns; i++)
        chars_fini(&object->patterns[i].chars);
    free(object->names);
    free(object->lengths);
    json_decref(object->listed);
}

static enum status schema_add_name(struct object *object, const char *name, size_t n) {
    if (json_object_getn(object->listed, name, n))
        return STATUS_OK;
    if (json_object_setn_new(object->listed, name, n, json_true()) != 0)
        return STATUS_NOMEM;
    /* A borrowed key of the document stays where it is. */
    if ((object->n_names & (object->n_names - 1)) == 0) {
        size_t size = object->n_names ? object->n_names * 2 : 1;
        const char **names = realloc(object->names, size * sizeof *names);
        if (names)
            object->names = names;
        size_t *lengths = realloc(object->lengths, size * sizeof *lengths);
        if (lengths)
            object->lengths = lengths;
        if (!names || !lengths)
            return STATUS_NOMEM;
    }
    object->names[object->n_names] = name;
    object->lengths[object->n_names++] = n;
    return STATUS_OK;
}

static enum status schema_find_names(struct object *object) {
    const char *key;
    size_t n;
    size_t k;
    json_t *value;
    object->listed = json_object();
    if (!object->listed)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < object->conjunction->n; i++) {
        json_t *properties = json_object_get(object->conjunction->members[i].schema, "properties");
        json_object_keylen_foreach(properties, key, n, value) TRY(schema_add_name(object, key, n));
    }
    for (uint32_t i = 0; i < object->conjunction->n; i++) {
        const json_t *required =
            json_object_get(object->conjunction->members[i].schema, "required");
        json_array_foreach(required, k, value)
            TRY(schema_add_name(object, json_string_value(value), json_string_length(value)));
    }
    return STATUS_OK;
}

static enum status schema_find_patterns(struct object *object) {
    struct schema *schema = object->schema;
    for (uint32_t i = 0; i < object->conjunction->n; i++) {
        const json_t *node = object->conjunction->members[i].schema;
        const char *key;
        json_t *value;
        json_object_foreach(json_object_get(node, "patternProperties"), key, value) {
            struct name_pattern *pattern = &object->patterns[object->n_patterns];
            if (object->n_patterns == PATTERNS_MAX)
                return schema_fail(schema, STATUS_LIMIT, node, "patternProperties",
                                   "more than %u patterns apply to one object", PATTERNS_MAX);
            TRY(pattern_compile(schema, node, "patternProperties", span_of(key), true,
                                &pattern->chars));
            pattern->owner = node;
            pattern->value = value;
            pattern->source = key;
            object->n_patterns++;
        }
    }
    return STATUS_OK;
}

/* The conjunction of a value whose name is listed as `name` (NULL: not listed) and matches the
 * patterns of `matches`. */
static enum status schema_conjunction_of(struct object *object, const char *name, size_t n,
                                         unsigned matches, struct conjunction *conjunction) {
    struct schema *schema = object->schema;
    *conjunction = (struct conjunction){0};
    for (uint32_t i = 0; i < object->conjunction->n; i++) {
        const json_t *node = object->conjunction->members[i].schema;
        const json_t *own =
            name ? json_object_getn(json_object_get(node, "properties"), name, n) : NULL;
        bool is_named = own != NULL;
        if (own)
            TRY(conjunction_add(schema, conjunction, own, 0));
        for (uint32_t k = 0; k < object->n_patterns; k++)
            if (object->patterns[k].owner == node && (matches >> k & 1)) {
                is_named = true;
                TRY(conjunction_add(schema, conjunction, object->patterns[k].value, 0));
            }
        const json_t *others = json_object_get(node, "additionalProperties");
        if (!is_named && others)
            TRY(conjunction_add(schema, conjunction, others, 0));
    }
    return STATUS_OK;
}

static bool schema_is_required(const struct object *object, const char *name, size_t n) {
    for (uint32_t i = 0; i < object->conjunction->n; i++) {
        const json_t *required =
            json_object_get(object->conjunction->members[i].schema, "required");
        size_t k;
        json_t *own;
        json_array_foreach(required, k,
                           own) if (json_string_length(own) == n &&
                                    memcmp(json_string_value(own), name, n) == 0) return true;
    }
    return false;
}

/* ":" blank value, behind a name. */
static enum status schema_write_value(struct object *object, const struct conjunction *value,
                                      uint32_t from, uint32_t to) {
    struct program *program = object->schema->program;
    uint32_t rule;
    uint32_t at = program_node(program);
    TRY(schema_rule(object->schema, value, &rule));
    program_call(program, program_text(program, from, SPAN(":")),
                 value_blank(object->schema->compile), at);
    program_call(program, at, rule, to);
    return STATUS_OK;
}

/* Names that are not listed and match just the patterns of `matches`. */
static void schema_other_names(const struct object *object, unsigned matches, struct chars *names) {
    uint32_t n_max = object->schema->program->limits.n_nodes;
    struct chars other;
    struct chars both;
    struct span *texts = calloc(object->n_names + 1, sizeof *texts);
    for (size_t i = 0; texts && i < object->n_names; i++)
        texts[i] = (struct span){object->names[i], object->lengths[i]};
    chars_of_texts(texts, texts ? object->n_names : 0, n_max, &other);
    if (!texts)
        other.status = STATUS_NOMEM;
    free(texts);
    chars_not(&other, names);
    chars_fini(&other);
    for (uint32_t i = 0; i < object->n_patterns; i++) {
        struct chars without = {0};
        const struct chars *pattern = &object->patterns[i].chars;
        if (!(matches >> i & 1)) {
            chars_not(pattern, &without);
            pattern = &without;
        }
        chars_both(names, pattern, &both);
        chars_fini(names);
        chars_fini(&without);
        *names = both;
    }
    program_work(object->schema->program, (uint64_t)names->n_edges + object->n_names);
}

/* A rule of one pair whose name is not listed; *has_any: there are such. */
static enum status schema_write_others(struct object *object, uint32_t *rule, bool *has_any) {
    struct schema *schema = object->schema;
    struct program *program = schema->program;
    *has_any = false;
    *rule = program_rule(program);
    TRY(program_status(program, schema->error));
    for (unsigned matches = 0; matches < 1u << object->n_patterns; matches++) {
        struct conjunction value;
        TRY(schema_conjunction_of(object, NULL, 0, matches, &value));
        if (value.is_false)
            continue;
        *has_any = true;
        uint32_t colon = program_node(program);
        uint32_t inside = program_text(program, program->rules[*rule].start, SPAN("\""));
        if (object->n_names == 0 && object->n_patterns == 0) {
            program_call(program, inside, value_chars(schema->compile), colon);
        } else {
            struct chars names;
            uint32_t close = program_node(program);
            schema_other_names(object, matches, &names);
            chars_write(&names, program, true, inside, close);
            chars_fini(&names);
            program_bytes(program, close, '"', '"', colon);
        }
        TRY(schema_write_value(object, &value, colon, program->rules[*rule].end));
    }
    return program_status(program, schema->error);
}

static unsigned schema_patterns_of(const struct object *object, struct span name) {
    unsigned matches = 0;
    for (uint32_t i = 0; i < object->n_patterns; i++)
        matches |= (unsigned)chars_match(&object->patterns[i].chars, name) << i;
    return matches;
}

/* Each property that is listed: nodes before any pair (`none`) and behind some (`some`) move on. */
static enum status schema_write_listed(struct object *object, uint32_t *none, uint32_t *some) {
    struct program *program = object->schema->program;
    uint32_t blank = value_blank(object->schema->compile);
    for (size_t i = 0; i < object->n_names && program_work(program, 16); i++) {
        struct span name = {object->names[i], object->lengths[i]};
        struct conjunction value;
        bool must = schema_is_required(object, name.bytes, name.n);
        TRY(schema_conjunction_of(object, name.bytes, name.n, schema_patterns_of(object, name),
                                  &value));
        if (value.is_false && !must)
            continue; /* it must not be there */
        uint32_t key = program_node(program);
        uint32_t colon = program_node(program);
        uint32_t behind = program_node(program);
        program_empty(program, *none, key);
        if (*some != PROGRAM_NONE)
            program_call(program, program_text(program, *some, SPAN(",")), blank, key);
        value_quote(program, name, key, colon);
        TRY(schema_write_value(object, &value, colon, behind));
        if (must) {
            *none = program_node(program); /* no way past it */
        } else {
            uint32_t past = program_node(program);
            program_empty(program, *none, past);
            if (*some != PROGRAM_NONE)
                program_empty(program, *some, behind);
            *none = past;
        }
        *some = behind;
    }
    return STATUS_OK;
}

static enum status schema_write_members(struct object *object, uint32_t from, uint32_t to) {
    struct schema *schema = object->schema;
    struct program *program = schema->program;
    uint32_t blank = value_blank(schema->compile);
    uint32_t none = program_node(program);
    uint32_t some = PROGRAM_NONE;
    uint32_t others;
    bool has_others;
    program_call(program, program_text(program, from, SPAN("{")), blank, none);
    TRY(schema_write_listed(object, &none, &some));
    TRY(schema_write_others(object, &others, &has_others));
    uint32_t last = program_node(program);
    uint32_t close = program_node(program);
    if (has_others) {
        uint32_t pair = program_node(program);
        program_empty(program, none, pair);
        program_call(program, program_text(program, last, SPAN(",")), blank, pair);
        program_call(program, pair, others, last);
    }
    if (some != PROGRAM_NONE)
        program_empty(program, some, last);
    program_bytes(program, none, '}', '}', to); /* blanks stand before, already */
    program_call(program, last, blank, close);
    program_bytes(program, close, '}', '}', to);
    return program_status(program, schema->error);
}

enum status schema_write_object(struct schema *schema, const struct conjunction *conjunction,
                                uint32_t from, uint32_t to) {
    struct object object = {.schema = schema, .conjunction = conjunction};
    enum status status = schema_find_names(&object);
    if (status == STATUS_NOMEM)
        error_set(schema->error, status, "out of memory");
    if (status == STATUS_OK)
        status = schema_find_patterns(&object);
    if (status == STATUS_OK)
        status = schema_write_members(&object, from, to);
    schema_object_fini(&object);
    return status;
}
