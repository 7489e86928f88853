/* Statements of a Lark grammar: rules, terminals, imports, what is ignored. */
#include "model/text/grammar/notation/lark.h"

#include "model/text/grammar/compile.h"
#include "model/text/grammar/regex/regex_write.h"

static enum status lark_end_statement(struct lark *lark) {
    struct notation *notation = &lark->notation;
    lark_skip_blank(lark, false);
    char c = notation_peek(notation, 0);
    if (!notation_at_end(notation) && c != '\n' && c != '\r')
        return notation_fail(notation, STATUS_INVALID, "expected the end of the line");
    lark_skip_blank(lark, true);
    return STATUS_OK;
}

/* name: ..., ?name: ..., !name.2: ..., NAME: ... */
static enum status lark_read_rule(struct lark *lark) {
    struct notation *notation = &lark->notation;
    const struct program *program = notation->program;
    uint32_t rule;
    uint32_t priority;
    while (notation_peek(notation, 0) == '?' || notation_peek(notation, 0) == '!')
        notation->at++; /* how the tree is written */
    struct span name = lark_name(lark);
    if (name.n == 0)
        return notation_fail(notation, STATUS_INVALID, "expected the name of a rule or terminal");
    if (notation_peek(notation, 0) == '{')
        return notation_fail(notation, STATUS_UNSUPPORTED, "templates");
    TRY(notation_define(notation, name, &rule));
    lark->is_terminal = lark_is_terminal_name(name);
    if (notation_take(notation, ".")) { /* which reading a parser prefers: none is lost */
        notation_take(notation, "-");
        TRY(notation_number(notation, &priority));
    }
    lark_skip_blank(lark, false);
    if (!notation_take(notation, ":"))
        return notation_fail(notation, STATUS_INVALID, "expected ':'");
    TRY(lark_expansions(lark, 0, program->rules[rule].start, program->rules[rule].end));
    return lark_end_statement(lark);
}

/* One name of `common`, which may get another. */
static enum status lark_import_name(struct lark *lark, bool has_alias) {
    struct notation *notation = &lark->notation;
    const struct program *program = notation->program;
    struct span name = lark_name(lark);
    struct span as = name;
    const char *expression = lark_common(name);
    uint32_t rule;
    if (!expression)
        return notation_fail(notation, STATUS_UNSUPPORTED, "common has no terminal \"%.*s\" here",
                             span_shown(name), name.bytes);
    lark_skip_blank(lark, false);
    if (has_alias && notation_take(notation, "->")) {
        lark_skip_blank(lark, false);
        as = lark_name(lark);
        if (as.n == 0)
            return notation_fail(notation, STATUS_INVALID, "expected a name after \"->\"");
    }
    TRY(notation_define(notation, as, &rule));
    return regex_write(notation->compile, span_of(expression), REGEX_TERMINAL,
                       program->rules[rule].start, program->rules[rule].end);
}

/* Behind "%import": common.NAME, common.NAME -> OTHER, common (A, B). */
static enum status lark_read_import(struct lark *lark) {
    struct notation *notation = &lark->notation;
    lark_skip_blank(lark, false);
    if (!span_is(lark_name(lark), "common"))
        return notation_fail(notation, STATUS_UNSUPPORTED, "imports of other modules than common");
    if (notation_take(notation, ".")) {
        TRY(lark_import_name(lark, true));
        return lark_end_statement(lark);
    }
    lark_skip_blank(lark, false);
    if (!notation_take(notation, "("))
        return notation_fail(notation, STATUS_INVALID, "expected '.' or '(' after \"common\"");
    do {
        lark_skip_blank(lark, true);
        TRY(lark_import_name(lark, false));
        lark_skip_blank(lark, true);
    } while (notation_take(notation, ","));
    if (!notation_take(notation, ")"))
        return notation_fail(notation, STATUS_INVALID, "expected ')'");
    return lark_end_statement(lark);
}

static enum status lark_read_ignore(struct lark *lark) {
    struct notation *notation = &lark->notation;
    struct program *program = notation->program;
    if (lark->n_ignored == sizeof lark->ignored / sizeof *lark->ignored)
        return notation_fail(notation, STATUS_LIMIT, "more than %u statements %%ignore",
                             lark->n_ignored);
    uint32_t rule = program_rule(program);
    TRY(program_status(program, notation->compile->error));
    lark->ignored[lark->n_ignored++] = rule;
    lark->is_terminal = true;
    TRY(lark_expansions(lark, 0, program->rules[rule].start, program->rules[rule].end));
    return lark_end_statement(lark);
}

static enum status lark_read_statement(struct lark *lark) {
    struct notation *notation = &lark->notation;
    if (notation_take(notation, "%import "))
        return lark_read_import(lark);
    if (notation_take(notation, "%ignore "))
        return lark_read_ignore(lark);
    if (notation_peek(notation, 0) == '%')
        return notation_fail(notation, STATUS_UNSUPPORTED,
                             "statements other than %%import and %%ignore");
    return lark_read_rule(lark);
}

/* Any of what is ignored, as often as wanted. */
static void lark_write_skip(struct lark *lark) {
    struct program *program = lark->notation.program;
    if (lark->skip == PROGRAM_NONE || !program_ok(program))
        return;
    uint32_t at = program->rules[lark->skip].start;
    for (uint32_t i = 0; i < lark->n_ignored; i++)
        program_call(program, at, lark->ignored[i], at);
    program_empty(program, at, program->rules[lark->skip].end);
}

static enum status lark_read_all(struct lark *lark, uint32_t from, uint32_t to) {
    struct notation *notation = &lark->notation;
    struct program *program = notation->program;
    if (memmem(notation->source.bytes, notation->source.n, "%ignore ", 8))
        lark->skip = program_rule(program);
    lark_skip_blank(lark, true);
    while (!notation_at_end(notation))
        TRY(lark_read_statement(lark));
    TRY(notation_check(notation));
    const struct named *start = notation_find(notation, SPAN("start"));
    if (!start)
        return notation_fail(notation, STATUS_INVALID, "no rule has the name \"start\"");
    if (lark->skip != PROGRAM_NONE) {
        uint32_t begin = program_node(program);
        program_call(program, from, lark->skip, begin);
        from = begin;
    }
    program_call(program, from, start->rule, to);
    lark_write_skip(lark);
    return program_status(program, notation->compile->error);
}

enum status lark_compile(struct compile *compile, struct span source, uint32_t from, uint32_t to) {
    struct lark lark = {.notation = {.compile = compile,
                                     .program = compile->program,
                                     .title = "Lark",
                                     .source = source},
                        .skip = PROGRAM_NONE};
    enum status status = lark_read_all(&lark, from, to);
    notation_fini(&lark.notation);
    return status;
}
