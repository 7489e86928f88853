#include "model/text/template/jinja/syntax/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>

enum status(jinja_parse_fail)(struct jinja_parser *parser, enum status status, const char *format,
                              ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(parser->error, status, "line %u: %s", jinja_token(parser)->line, text);
}

enum status(jinja_parse_expected)(struct jinja_parser *parser, const char *what) {
    const struct jinja_token *token = jinja_token(parser);
    struct span text = token->text;
    if (token->kind == JINJA_T_END)
        text = SPAN("the end of the template");
    else if (token->kind == JINJA_T_DATA)
        text = SPAN("text");
    else if (text.n == 0)
        text = SPAN("the end of the tag");
    return jinja_parse_fail(parser, STATUS_INVALID, "%s is expected, not \"%.*s\"", what,
                            span_shown(text), text.bytes);
}

void jinja_parse_unknown(struct jinja_parser *parser, const struct jinja_node *node) {
    if (!parser->is_soft && !parser->unknown)
        parser->unknown = node;
}

enum status jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind,
                           struct jinja_node **node) {
    if (parser->n_nodes == JINJA_NODES_MAX)
        return jinja_parse_fail(parser, STATUS_LIMIT, "the template has more than %u parts",
                                JINJA_NODES_MAX);
    struct jinja_node *made = arena_alloc(&parser->program->arena, sizeof *made);
    if (!made)
        return jinja_parse_fail(parser, STATUS_NOMEM, "no memory for the template");
    parser->n_nodes++;
    made->kind = kind;
    made->line = jinja_token(parser)->line;
    *node = made;
    return STATUS_OK;
}

enum status jinja_name_copy(struct jinja_parser *parser, struct span name, const char **copy) {
    *copy = arena_copy(&parser->program->arena, name.bytes, name.n);
    return *copy ? STATUS_OK : jinja_parse_fail(parser, STATUS_NOMEM, "no memory for the template");
}

enum status jinja_atom(struct jinja_parser *parser, struct span name, struct jinja_node *node) {
    struct jinja_program *program = parser->program;
    uint32_t slot = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < name.n; i++)
        slot = (slot ^ (unsigned char)name.bytes[i]) * 16777619u;
    for (;; slot++) {
        uint32_t number = parser->atom_slots[slot % JINJA_ATOM_SLOTS];
        if (number == 0)
            break;
        if (!span_is(name, program->atoms[number - 1]))
            continue;
        node->atom = number - 1;
        node->name = program->atoms[number - 1];
        return STATUS_OK;
    }
    if (program->n_atoms == JINJA_ATOMS_MAX)
        return jinja_parse_fail(parser, STATUS_LIMIT, "the template has more than %u names",
                                JINJA_ATOMS_MAX);
    TRY(jinja_name_copy(parser, name, &node->name));
    node->atom = program->n_atoms;
    program->atoms[program->n_atoms++] = node->name;
    parser->atom_slots[slot % JINJA_ATOM_SLOTS] = program->n_atoms;
    return STATUS_OK;
}

enum status jinja_nest(struct jinja_parser *parser) {
    if (parser->nesting == JINJA_NESTING_MAX)
        return jinja_parse_fail(parser, STATUS_LIMIT, "nested more than %u deep",
                                JINJA_NESTING_MAX);
    parser->nesting++;
    return STATUS_OK;
}
