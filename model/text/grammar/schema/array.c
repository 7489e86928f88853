/* Arrays: places with schemas of their own, then items. */
#include "model/text/grammar/schema/schema.h"

/* The list of a schema's first places: prefixItems, or items of drafts before 2020-12. */
static const json_t *schema_array_prefix_of(const json_t *node) {
    const json_t *prefix = json_object_get(node, "prefixItems");
    const json_t *items = json_object_get(node, "items");
    return prefix ? prefix : json_is_array(items) ? items : NULL;
}

static const json_t *schema_array_rest_of(const json_t *node) {
    const json_t *items = json_object_get(node, "items");
    return json_is_array(items) ? json_object_get(node, "additionalItems") : items;
}

/* The rule of the i-th place; UINT32_MAX for those behind all lists. */
static enum status schema_array_place_rule(struct schema *schema,
                                           const struct conjunction *conjunction, size_t i,
                                           uint32_t *rule, bool *is_false) {
    struct conjunction place = {0};
    for (uint32_t k = 0; k < conjunction->n; k++) {
        const json_t *node = conjunction->members[k].schema;
        const json_t *own = json_array_get(schema_array_prefix_of(node), i);
        if (!own)
            own = schema_array_rest_of(node);
        if (own)
            TRY(conjunction_add(schema, &place, own, 0));
    }
    *is_false = place.is_false;
    return schema_rule(schema, &place, rule);
}

/* Items behind the first places: each behind a comma, but the very first of all. */
static enum status schema_array_write_rest(struct schema *schema,
                                           const struct conjunction *conjunction, uint32_t n_places,
                                           uint32_t min, uint32_t max, uint32_t from, uint32_t to) {
    struct program *program = schema->program;
    uint32_t element;
    bool is_false;
    min = min > n_places ? min - n_places : 0;
    max = max == UINT32_MAX ? max : max - n_places;
    TRY(schema_array_place_rule(schema, conjunction, UINT32_MAX, &element, &is_false));
    if (min == 0)
        program_empty(program, from, to);
    if (is_false || max == 0)
        return STATUS_OK;
    if (n_places == 0) {
        uint32_t next = program_node(program);
        program_call(program, from, element, next);
        from = next;
        min -= min > 0;
        max -= max != UINT32_MAX;
        if (min == 0)
            program_empty(program, from, to);
    }
    uint32_t inner = program_rule(program); /* "," blank element */
    TRY(program_status(program, schema->error));
    uint32_t behind = program_text(program, program->rules[inner].start, SPAN(","));
    uint32_t at = program_node(program);
    program_call(program, behind, value_blank(schema->compile), at);
    program_call(program, at, element, program->rules[inner].end);
    if (min == 0 && max == UINT32_MAX) {
        program_call(program, from, inner, from);
        return STATUS_OK;
    }
    if (max > 0)
        program_call(program, from, program_repeat(program, inner, min, max), to);
    return STATUS_OK;
}

enum status schema_write_array(struct schema *schema, const struct conjunction *conjunction,
                               uint32_t from, uint32_t to) {
    struct program *program = schema->program;
    uint32_t blank = value_blank(schema->compile);
    size_t n_places = 0;
    uint32_t min;
    uint32_t max;
    keywords_counts(conjunction, "minItems", "maxItems", &min, &max);
    for (uint32_t i = 0; i < conjunction->n; i++) {
        size_t n = json_array_size(schema_array_prefix_of(conjunction->members[i].schema));
        n_places = n > n_places ? n : n_places;
    }
    n_places = n_places > max ? max : n_places;
    if (min > max)
        return STATUS_OK; /* no array */
    uint32_t open = program_text(program, from, SPAN("["));
    uint32_t at = program_node(program);
    uint32_t last = program_node(program); /* behind the last item */
    uint32_t close = program_node(program);
    program_call(program, open, blank, at);
    program_call(program, last, blank, close);
    program_bytes(program, close, ']', ']', to);
    if (min == 0) /* blanks stand before, already */
        program_bytes(program, at, ']', ']', to);
    bool is_false = false;
    for (size_t i = 0; i < n_places && !is_false && program_work(program, 4); i++) {
        uint32_t rule;
        uint32_t behind = program_node(program);
        if (i > 0) {
            uint32_t next = program_node(program);
            if (i >= min)
                program_empty(program, at, last);
            program_call(program, program_text(program, at, SPAN(",")), blank, next);
            at = next;
        }
        TRY(schema_array_place_rule(schema, conjunction, i, &rule, &is_false));
        program_call(program, at, rule, behind);
        at = behind;
    }
    if (is_false) /* what was written up to here may still end before */
        return program_status(program, schema->error);
    if (n_places > 0)
        return schema_array_write_rest(schema, conjunction, (uint32_t)n_places, min, max, at, last);
    /* Without places and items the brackets were closed above. */
    uint32_t first = program_node(program);
    program_empty(program, at, first);
    return schema_array_write_rest(schema, conjunction, 0, min > 0 ? min : 1, max, first, last);
}
