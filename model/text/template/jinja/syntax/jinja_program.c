/* From source to program. */
#include "base/utf8.h"
#include "model/text/template/jinja/syntax/jinja_parser.h"

#include <stdlib.h>
#include <string.h>

/* Nodes and strings: more than what the other bounds allow. */
#define PROGRAM_BYTES_MAX ((size_t)64 << 20)

/* A copy with one kind of line break, and without the one at the end. */
static enum status jinja_copy_source(struct jinja_program *program, struct span source,
                                     struct span *copy, struct error *error) {
    char *bytes = arena_alloc(&program->arena, source.n + 1);
    size_t n = 0;
    if (!bytes)
        return error_set(error, STATUS_NOMEM, "no memory for the template");
    for (size_t i = 0; i < source.n; i++) {
        char c = source.bytes[i];
        if (c == '\r' && i + 1 < source.n && source.bytes[i + 1] == '\n')
            continue;
        bytes[n++] = c == '\r' ? '\n' : c;
    }
    if (n > 0 && bytes[n - 1] == '\n')
        n--;
    *copy = (struct span){bytes, n};
    return STATUS_OK;
}

static enum status jinja_program_fill(struct jinja_parser *parser, struct span source) {
    struct jinja_program *program = parser->program;
    static const char *const known[JINJA_ATOMS] = {"loop", "caller", "varargs", "kwargs"};
    struct jinja_node node;
    TRY(jinja_copy_source(program, source, &source, parser->error));
    program->atoms = arena_alloc(&program->arena, JINJA_ATOMS_MAX * sizeof *program->atoms);
    parser->atom_slots = calloc(JINJA_ATOM_SLOTS, sizeof *parser->atom_slots);
    if (!program->atoms || !parser->atom_slots)
        return error_set(parser->error, STATUS_NOMEM, "no memory for the template");
    TRY(jinja_lex(source, &program->arena, &parser->tokens, parser->error));
    for (size_t i = 0; i < JINJA_ATOMS; i++)
        TRY(jinja_atom(parser, (struct span){known[i], strlen(known[i])}, &node));
    TRY(jinja_parse_statements(parser, &program->body));
    if (parser->unknown)
        return error_set(parser->error, STATUS_UNSUPPORTED, "line %u: there is no %s \"%.96s\"",
                         parser->unknown->line,
                         parser->unknown->kind == JINJA_FILTER ? "filter" : "test",
                         parser->unknown->name);
    return STATUS_OK;
}

enum status jinja_parse(struct span source, struct jinja_program **program, struct error *error) {
    if (source.n > JINJA_SOURCE_MAX)
        return error_set(error, STATUS_LIMIT, "the template has more than %zu bytes",
                         JINJA_SOURCE_MAX);
    if (!utf8_valid(source.bytes, source.n))
        return error_set(error, STATUS_INVALID, "the template is not valid UTF-8");
    struct jinja_program *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for the template");
    arena_init(&made->arena, PROGRAM_BYTES_MAX);
    struct jinja_parser parser = {.program = made, .error = error};
    enum status status = jinja_program_fill(&parser, source);
    free(parser.atom_slots);
    if (status != STATUS_OK)
        jinja_free(made);
    else
        *program = made;
    return status;
}

void jinja_free(struct jinja_program *program) {
    if (!program)
        return;
    arena_fini(&program->arena);
    free(program);
}
