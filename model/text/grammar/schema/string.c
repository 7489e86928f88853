/* Strings: any, of a length, of patterns and formats. */
#include "model/text/grammar/schema/schema.h"

#include "model/text/grammar/regex/chars.h"
#include "model/text/grammar/schema/pattern.h"

enum status pattern_compile(struct schema *schema, const json_t *node, const char *keyword,
                            struct span source, bool searches, struct chars *chars) {
    struct regex regex;
    struct chars open;
    struct error error = {0};
    uint32_t n_max = schema->program->limits.n_nodes;
    enum status status =
        regex_parse(source, REGEX_ECMA_DOT, schema->compile->depth_max, &regex, &error);
    if (status != STATUS_OK)
        return schema_fail(schema, status, node, keyword, "%s", error.text);
    chars_of_regex(&regex, n_max, &open);
    chars_anchor(&open, searches, chars);
    program_work(schema->program, chars->n_edges);
    chars_fini(&open);
    regex_parse_fini(&regex);
    if (chars->status == STATUS_OK)
        return program_status(schema->program, schema->error);
    status = chars->status;
    chars_fini(chars);
    return schema_fail(schema, status, node, keyword, "the expression is too large");
}

/* *all becomes what is of `other`, too; that is given back. */
static void schema_string_join(struct chars *all, bool *has_any, struct chars *other) {
    struct chars both;
    if (!*has_any) {
        *all = *other;
        *has_any = true;
        return;
    }
    chars_both(all, other, &both);
    chars_fini(all);
    chars_fini(other);
    *all = both;
}

static enum status schema_string_join_member(struct schema *schema, const json_t *node,
                                             struct chars *all, bool *has_any) {
    const json_t *pattern = json_object_get(node, "pattern");
    const char *format = json_string_value(json_object_get(node, "format"));
    struct chars chars;
    if (pattern) {
        struct span source = {json_string_value(pattern), json_string_length(pattern)};
        enum status status = pattern_compile(schema, node, "pattern", source, true, &chars);
        if (status == STATUS_UNSUPPORTED && schema->lenient)
            TRY(schema_cannot(schema, node, "pattern", ""));
        else if (status != STATUS_OK)
            return status;
        else
            schema_string_join(all, has_any, &chars);
    }
    if (format) {
        const char *expression = format_expression(format);
        if (!expression)
            return schema_cannot(schema, node, "format", "this format is not known");
        TRY(pattern_compile(schema, node, "format", span_of(expression), false, &chars));
        schema_string_join(all, has_any, &chars);
    }
    return STATUS_OK;
}

enum status schema_write_string(struct schema *schema, const struct conjunction *conjunction,
                                uint32_t from, uint32_t to) {
    struct program *program = schema->program;
    struct chars all = {0};
    bool has_any = false;
    uint32_t min;
    uint32_t max;
    enum status status = STATUS_OK;
    keywords_counts(conjunction, "minLength", "maxLength", &min, &max);
    for (uint32_t i = 0; status == STATUS_OK && i < conjunction->n; i++)
        status = schema_string_join_member(schema, conjunction->members[i].schema, &all, &has_any);
    uint32_t inside = program_node(program);
    if (status == STATUS_OK && min <= max)
        program_bytes(program, from, '"', '"', inside);
    if (status == STATUS_OK && !has_any) {
        uint32_t rule = value_chars(schema->compile);
        if (program_ok(program) && (min > 0 || max != UINT32_MAX))
            rule = program_count(program, rule, program->rules[rule].counted, min, max);
        program_call(program, inside, rule, to);
    } else if (status == STATUS_OK) {
        uint32_t behind = program_node(program);
        if (min > 0 || max != UINT32_MAX) {
            struct chars length;
            chars_length(min, max, program->limits.n_nodes, &length);
            schema_string_join(&all, &has_any, &length);
        }
        program_work(program, all.n_edges);
        chars_write(&all, program, true, inside, behind);
        program_bytes(program, behind, '"', '"', to);
    }
    if (has_any)
        chars_fini(&all);
    return status;
}
