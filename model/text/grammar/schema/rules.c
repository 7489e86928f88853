/* Conjunctions and their rules: what applies to one value, each conjunction once. */
#include "model/text/grammar/schema/schema.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum status conjunction_add(struct schema *schema, struct conjunction *conjunction,
                            const json_t *node, unsigned skip) {
    if (json_is_true(node) || (json_is_object(node) && json_object_size(node) == 0))
        return STATUS_OK;
    if (json_is_false(node)) {
        conjunction->is_false = true;
        return STATUS_OK;
    }
    if (!json_is_object(node))
        return schema_fail(schema, STATUS_INVALID, node, NULL,
                           "a schema must be an object or a boolean");
    for (uint32_t i = 0; i < conjunction->n; i++)
        if (conjunction->members[i].schema == node) {
            conjunction->members[i].skip |= skip;
            return STATUS_OK;
        }
    if (conjunction->n == CONJUNCTION_MAX)
        return schema_fail(schema, STATUS_LIMIT, node, NULL,
                           "more than %u schemas apply to one value", CONJUNCTION_MAX);
    conjunction->members[conjunction->n++] =
        (struct member){.schema = node, .number = schema_number(schema, node), .skip = skip};
    return STATUS_OK;
}

/* Follows $ref and allOf until nothing is left of them. */
static enum status schema_flatten(struct schema *schema, struct conjunction *conjunction) {
    for (uint32_t i = 0; i < conjunction->n; i++) {
        const json_t *node = conjunction->members[i].schema;
        const json_t *all = json_object_get(node, "allOf");
        if (json_object_get(node, "$ref") && !(conjunction->members[i].skip & SKIP_REF)) {
            const json_t *found;
            conjunction->members[i].skip |= SKIP_REF;
            TRY(schema_follow(schema, node, &found));
            if (found)
                TRY(conjunction_add(schema, conjunction, found, 0));
        }
        if (all && !(conjunction->members[i].skip & SKIP_ALL_OF)) {
            size_t k;
            json_t *part;
            conjunction->members[i].skip |= SKIP_ALL_OF;
            if (!json_is_array(all) || json_array_size(all) == 0)
                return schema_fail(schema, STATUS_INVALID, node, "allOf", "must be a list");
            json_array_foreach(all, k, part) TRY(conjunction_add(schema, conjunction, part, 0));
        }
    }
    return STATUS_OK;
}

static int schema_compare_members(const void *left, const void *right) {
    const struct member *a = left;
    const struct member *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

static uint64_t schema_hash_members(const struct member *members, uint32_t n, bool is_false) {
    uint64_t hash = is_false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t fields[2] = {members[i].number, members[i].skip};
        hash = XXH3_64bits_withSeed(fields, sizeof fields, hash);
    }
    return hash;
}

static enum status schema_rules_grow(struct schema *schema) {
    if (schema->n_known == schema->known_size) {
        uint32_t size = schema->known_size ? schema->known_size * 2 : 64;
        struct known_rule *grown = realloc(schema->known, size * sizeof *grown);
        if (!grown)
            return STATUS_NOMEM;
        schema->known = grown;
        schema->known_size = size;
    }
    if (schema->n_known * 2 < schema->n_slots)
        return STATUS_OK;
    uint32_t n_slots = schema->n_slots ? schema->n_slots * 2 : 128;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < schema->n_known; i++) {
        const struct known_rule *known = &schema->known[i];
        uint32_t at = (uint32_t)schema_hash_members(known->members, known->n, known->is_false) &
                      (n_slots - 1);
        while (slots[at] != 0)
            at = (at + 1) & (n_slots - 1);
        slots[at] = i + 1;
    }
    free(schema->slots);
    schema->slots = slots;
    schema->n_slots = n_slots;
    return STATUS_OK;
}

static bool schema_is_same(const struct known_rule *known, const struct conjunction *conjunction) {
    if (known->n != conjunction->n || known->is_false != conjunction->is_false)
        return false;
    for (uint32_t i = 0; i < known->n; i++)
        if (known->members[i].schema != conjunction->members[i].schema ||
            known->members[i].skip != conjunction->members[i].skip)
            return false;
    return true;
}

enum status schema_rule(struct schema *schema, const struct conjunction *asked, uint32_t *rule) {
    struct conjunction conjunction = *asked;
    TRY(schema_flatten(schema, &conjunction));
    if (conjunction.n == 0 && !conjunction.is_false) {
        *rule = value_any(schema->compile);
        return STATUS_OK;
    }
    qsort(conjunction.members, conjunction.n, sizeof *conjunction.members, schema_compare_members);
    program_work(schema->program, conjunction.n + 4);
    if (schema_rules_grow(schema) != STATUS_OK)
        return error_set(schema->error, STATUS_NOMEM, "out of memory");
    uint32_t at =
        (uint32_t)schema_hash_members(conjunction.members, conjunction.n, conjunction.is_false) &
        (schema->n_slots - 1);
    for (; schema->slots[at] != 0; at = (at + 1) & (schema->n_slots - 1))
        if (schema_is_same(&schema->known[schema->slots[at] - 1], &conjunction)) {
            *rule = schema->known[schema->slots[at] - 1].rule;
            return STATUS_OK;
        }
    struct known_rule known = {.n = conjunction.n, .is_false = conjunction.is_false};
    size_t n_bytes = conjunction.n * sizeof *known.members;
    known.members = arena_alloc(&schema->arena, n_bytes + 1);
    if (!known.members)
        return error_set(schema->error, STATUS_LIMIT, "the schema is too large");
    memcpy(known.members, conjunction.members, n_bytes);
    known.rule = program_rule(schema->program);
    schema->known[schema->n_known++] = known;
    schema->slots[at] = schema->n_known;
    *rule = known.rule;
    return program_status(schema->program, schema->error);
}
