/* A JSON schema (draft 2020-12) becomes rules: one for each conjunction of schemas. */
#include "model/text/grammar/schema/schema.h"

#include "base/json/json_read.h"
#include "base/json/json_text.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

/* One of anyOf or oneOf: each branch joins the rest. */
static enum status schema_write_branches(struct schema *schema,
                                         const struct conjunction *conjunction, uint32_t i,
                                         const char *keyword, unsigned skip, uint32_t from,
                                         uint32_t to) {
    const json_t *node = conjunction->members[i].schema;
    const json_t *branches = json_object_get(node, keyword);
    size_t k;
    json_t *branch;
    if (!json_is_array(branches) || json_array_size(branches) == 0)
        return schema_fail(schema, STATUS_INVALID, node, keyword, "must be a list of schemas");
    if (skip == SKIP_ONE_OF) {
        size_t other;
        bool is_disjoint = true;
        json_array_foreach(branches, k, branch) {
            for (other = k + 1; is_disjoint && other < json_array_size(branches); other++)
                is_disjoint = program_work(schema->program, 8) &&
                              schema_disjoint(schema, branch, json_array_get(branches, other), 0);
        }
        TRY(program_status(schema->program, schema->error));
        if (!is_disjoint)
            TRY(schema_cannot(schema, node, "oneOf",
                              "its branches are not told apart by type, constants or required "
                              "properties"));
    }
    json_array_foreach(branches, k, branch) {
        struct conjunction joined = *conjunction;
        uint32_t rule;
        joined.members[i].skip |= skip;
        TRY(conjunction_add(schema, &joined, branch, 0));
        TRY(schema_rule(schema, &joined, &rule));
        program_call(schema->program, from, rule, to);
    }
    return STATUS_OK;
}

/* The values of an enum or const that satisfy all the rest. */
static enum status schema_write_constants(struct schema *schema,
                                          const struct conjunction *conjunction,
                                          const json_t *values, uint32_t from, uint32_t to) {
    size_t k;
    size_t n_texts = 0;
    json_t *value;
    struct span *texts = calloc(json_array_size(values) + 1, sizeof *texts);
    enum status status = texts ? STATUS_OK : STATUS_NOMEM;
    json_array_foreach(values, k, value) {
        bool admits;
        if (status == STATUS_OK)
            status = schema_admits(schema, conjunction, value, &admits);
        if (status != STATUS_OK || !admits)
            continue;
        if (json_is_string(value)) /* many: their beginnings are shared */
            texts[n_texts++] = (struct span){json_string_value(value), json_string_length(value)};
        else
            value_constant(schema->compile, value, from, to);
    }
    if (status == STATUS_OK && n_texts > 0) {
        uint32_t quoted = program_node(schema->program);
        program_bytes(schema->program, from, '"', '"', quoted);
        uint32_t close = program_node(schema->program);
        program_bytes(schema->program, close, '"', '"', to);
        status = value_choice(schema->compile, texts, n_texts, quoted, close);
    }
    free(texts);
    if (status == STATUS_NOMEM)
        return error_set(schema->error, status, "out of memory");
    return status;
}

static enum status schema_write_types(struct schema *schema, const struct conjunction *conjunction,
                                      unsigned types, uint32_t from, uint32_t to) {
    struct program *program = schema->program;
    if (types & TYPE_NULL)
        program_empty(program, program_text(program, from, SPAN("null")), to);
    if (types & TYPE_BOOLEAN) {
        program_empty(program, program_text(program, from, SPAN("true")), to);
        program_empty(program, program_text(program, from, SPAN("false")), to);
    }
    if (types & (TYPE_NUMBER | TYPE_INTEGER))
        TRY(schema_write_number(schema, conjunction, !(types & TYPE_NUMBER), from, to));
    if (types & TYPE_STRING)
        TRY(schema_write_string(schema, conjunction, from, to));
    if (types & TYPE_ARRAY)
        TRY(schema_write_array(schema, conjunction, from, to));
    if (types & TYPE_OBJECT)
        TRY(schema_write_object(schema, conjunction, from, to));
    return program_status(program, schema->error);
}

/* The rule's text, of a conjunction that is flat. */
static enum status schema_write_rule(struct schema *schema, const struct conjunction *conjunction,
                                     uint32_t rule) {
    uint32_t from = schema->program->rules[rule].start;
    uint32_t to = schema->program->rules[rule].end;
    unsigned types = TYPE_ANY;
    const json_t *values = NULL;
    json_t *constant = NULL;
    if (conjunction->is_false)
        return STATUS_OK;
    for (uint32_t i = 0; i < conjunction->n; i++) {
        unsigned own;
        TRY(keywords_types(schema, conjunction->members[i].schema, &own));
        types &= own;
    }
    for (uint32_t i = 0; i < conjunction->n; i++)
        TRY(keywords_check(schema, conjunction->members[i].schema, types));
    for (uint32_t i = 0; i < conjunction->n; i++) {
        const json_t *node = conjunction->members[i].schema;
        unsigned skip = conjunction->members[i].skip;
        if (json_object_get(node, "anyOf") && !(skip & SKIP_ANY_OF))
            return schema_write_branches(schema, conjunction, i, "anyOf", SKIP_ANY_OF, from, to);
        if (json_object_get(node, "oneOf") && !(skip & SKIP_ONE_OF))
            return schema_write_branches(schema, conjunction, i, "oneOf", SKIP_ONE_OF, from, to);
    }
    for (uint32_t i = 0; i < conjunction->n && !constant; i++) {
        const json_t *node = conjunction->members[i].schema;
        json_t *only = json_object_get(node, "const");
        const json_t *one_of = json_object_get(node, "enum");
        if (only)
            constant = json_pack("[O]", only);
        else if (one_of && !values)
            values = one_of;
    }
    if (constant)
        values = constant;
    enum status status = values ? schema_write_constants(schema, conjunction, values, from, to)
                                : schema_write_types(schema, conjunction, types, from, to);
    json_decref(constant);
    return status;
}

static enum status schema_write_all(struct schema *schema, uint32_t from, uint32_t to) {
    struct conjunction conjunction = {0};
    uint32_t rule;
    TRY(schema_enter(schema));
    TRY(conjunction_add(schema, &conjunction, schema->root, 0));
    TRY(schema_rule(schema, &conjunction, &rule));
    program_call(schema->program, from, rule, to);
    for (uint32_t i = 0; i < schema->n_known; i++) {
        const struct known_rule *known = &schema->known[i];
        conjunction = (struct conjunction){.n = known->n, .is_false = known->is_false};
        memcpy(conjunction.members, known->members, known->n * sizeof *known->members);
        TRY(schema_write_rule(schema, &conjunction, known->rule));
        TRY(program_status(schema->program, schema->error));
    }
    return STATUS_OK;
}

static enum status schema_parse(struct compile *compile, struct span source, json_t **root) {
    uint64_t n_values;
    size_t at;
    json_error_t wrong;
    if (!json_text_count(source, compile->depth_max, &n_values, &at))
        return error_set(compile->error, STATUS_LIMIT,
                         "the schema nests deeper than %u, at byte %zu", compile->depth_max, at);
    *root = json_read(source.bytes, source.n,
                      JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &wrong);
    if (!*root)
        return error_set(compile->error, STATUS_INVALID,
                         "the schema is not JSON: line %d, column "
                         "%d: %s",
                         wrong.line, wrong.column, wrong.text);
    return STATUS_OK;
}

enum status schema_compile(struct compile *compile, struct span source, bool lenient, uint32_t from,
                           uint32_t to) {
    struct schema schema = {.compile = compile,
                            .program = compile->program,
                            .error = compile->error,
                            .lenient = lenient};
    TRY(schema_parse(compile, source, &schema.root));
    arena_init(&schema.arena, ARENA_BYTES);
    enum status status = schema_write_all(&schema, from, to);
    arena_fini(&schema.arena);
    free(schema.known);
    free(schema.slots);
    free(schema.order_slots);
    free(schema.resources);
    json_decref(schema.targets);
    json_decref(schema.root);
    return status;
}

void schema_any_object(struct compile *compile, uint32_t from, uint32_t to) {
    value_any(compile);
    program_call(compile->program, from, compile->rule_object, to);
}
