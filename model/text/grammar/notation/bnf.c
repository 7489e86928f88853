/* Rules of the two BNF notations. In GBNF a rule ends with its line, unless a bracket is open or an
 * alternative was begun; in EBNF it ends where the next one begins. GBNF begins with "root"; EBNF with a
 * rule of that name, or its first. */
#include "model/text/grammar/notation/bnf.h"

#include "model/text/grammar/compile.h"

struct bnf {
    struct notation notation;
    bool is_ebnf;
};

static bool gbnf_is_name_char(const struct bnf *bnf, char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || (bnf->is_ebnf && (c == '.' || c == ':'));
}

static enum status gbnf_skip_blank(struct bnf *bnf, bool takes_lines) {
    struct notation *notation = &bnf->notation;
    for (;;) {
        char c = notation_peek(notation, 0);
        size_t begin = notation->at;
        if (c == ' ' || c == '\t' || (takes_lines && (c == '\n' || c == '\r'))) {
            notation->at++;
        } else if (!bnf->is_ebnf && c == '#') {
            while (!notation_at_end(notation) && notation_peek(notation, 0) != '\n')
                notation->at++;
        } else if (bnf->is_ebnf && notation_take(notation, "/*")) {
            while (!notation_at_end(notation) && !notation_take(notation, "*/"))
                notation->at++;
            if (notation_at_end(notation) &&
                !span_ends((struct span){notation->source.bytes + begin, notation->at - begin},
                           "*/")) {
                notation->at = begin;
                return notation_fail(notation, STATUS_INVALID, "a comment without its end");
            }
        } else {
            return STATUS_OK;
        }
    }
}

static struct span gbnf_read_name(struct bnf *bnf) {
    struct notation *notation = &bnf->notation;
    size_t begin = notation->at;
    while (gbnf_is_name_char(bnf, notation_peek(notation, 0))) {
        if (span_begins((struct span){notation->source.bytes + notation->at,
                                      notation->source.n - notation->at},
                        "::="))
            break;
        notation->at++;
    }
    return (struct span){notation->source.bytes + begin, notation->at - begin};
}

/* Whether a name stands here that is being defined: "name ::=". The place stays. */
static enum status gbnf_at_definition(struct bnf *bnf, bool *is_definition) {
    size_t at = bnf->notation.at;
    struct span name = gbnf_read_name(bnf);
    *is_definition = false;
    if (name.n > 0) {
        TRY(gbnf_skip_blank(bnf, true));
        *is_definition = notation_take(&bnf->notation, "::=");
    }
    bnf->notation.at = at;
    return STATUS_OK;
}

static enum status gbnf_read_either(struct bnf *bnf, uint32_t depth, uint32_t from, uint32_t to);

static enum status gbnf_read_atom(struct bnf *bnf, uint32_t depth, struct element *element) {
    struct notation *notation = &bnf->notation;
    struct program *program = notation->program;
    if (bnf_at_terminal(notation, bnf->is_ebnf))
        return bnf_terminal(notation, bnf->is_ebnf, element);
    *element = (struct element){.begin = program_node(program), .end = program_node(program)};
    if (notation_take(notation, "(")) {
        TRY(gbnf_skip_blank(bnf, true));
        TRY(gbnf_read_either(bnf, depth + 1, element->begin, element->end));
        return notation_take(notation, ")")
                   ? STATUS_OK
                   : notation_fail(notation, STATUS_INVALID, "expected ')'");
    }
    struct named *named;
    struct span name = gbnf_read_name(bnf);
    if (name.n == 0)
        return notation_fail(notation, STATUS_INVALID, "expected a name, a literal, a set or '('");
    TRY(notation_name(notation, name, &named));
    program_call(program, element->begin, named->rule, element->end);
    return STATUS_OK;
}

/* Behind the brace: {m}, {m,}, {m,n}. */
static enum status gbnf_read_braces(struct bnf *bnf, uint32_t *min, uint32_t *max) {
    struct notation *notation = &bnf->notation;
    TRY(gbnf_skip_blank(bnf, true));
    TRY(notation_number(notation, min));
    TRY(gbnf_skip_blank(bnf, true));
    *max = *min;
    if (notation_take(notation, ",")) {
        TRY(gbnf_skip_blank(bnf, true));
        *max = PROGRAM_NO_BOUND;
        if (notation_peek(notation, 0) != '}')
            TRY(notation_number(notation, max));
        TRY(gbnf_skip_blank(bnf, true));
    }
    return notation_take(notation, "}") ? STATUS_OK
                                        : notation_fail(notation, STATUS_INVALID, "expected '}'");
}

static enum status gbnf_read_repeats(struct bnf *bnf, bool takes_lines, struct element *element) {
    struct notation *notation = &bnf->notation;
    for (;;) {
        uint32_t min = 0;
        uint32_t max = PROGRAM_NO_BOUND;
        TRY(gbnf_skip_blank(bnf, takes_lines));
        if (notation_take(notation, "*")) {
        } else if (notation_take(notation, "+")) {
            min = 1;
        } else if (notation_take(notation, "?")) {
            max = 1;
        } else if (!bnf->is_ebnf && notation_take(notation, "{")) {
            TRY(gbnf_read_braces(bnf, &min, &max));
        } else {
            return STATUS_OK;
        }
        TRY(notation_repeat(notation, element, min, max));
    }
}

static enum status gbnf_read_sequence(struct bnf *bnf, uint32_t depth, uint32_t from, uint32_t to) {
    struct notation *notation = &bnf->notation;
    struct program *program = notation->program;
    bool takes_lines = bnf->is_ebnf || depth > 0;
    for (;;) {
        struct element element;
        char c = notation_peek(notation, 0);
        bool ends = notation_at_end(notation) || c == '|' || c == ')' ||
                    (!takes_lines && (c == '\n' || c == '\r'));
        if (!ends && bnf->is_ebnf)
            TRY(gbnf_at_definition(bnf, &ends));
        if (ends)
            break;
        if (bnf->is_ebnf && c == '-')
            return notation_fail(notation, STATUS_UNSUPPORTED, "differences (A - B)");
        TRY(gbnf_read_atom(bnf, depth, &element));
        TRY(gbnf_read_repeats(bnf, takes_lines, &element));
        program_empty(program, from, element.begin);
        if (element.is_set)
            notation_set_write(notation, element.begin, element.end);
        from = element.end;
        TRY(program_status(program, notation->compile->error));
    }
    program_empty(program, from, to);
    return STATUS_OK;
}

static enum status gbnf_read_either(struct bnf *bnf, uint32_t depth, uint32_t from, uint32_t to) {
    struct notation *notation = &bnf->notation;
    if (depth >= notation->compile->depth_max)
        return notation_fail(notation, STATUS_LIMIT, "brackets nest deeper than %u",
                             notation->compile->depth_max);
    TRY(gbnf_read_sequence(bnf, depth, from, to));
    while (notation_take(notation, "|")) {
        TRY(gbnf_skip_blank(bnf, true));
        TRY(gbnf_read_sequence(bnf, depth, from, to));
    }
    return STATUS_OK;
}

static enum status gbnf_read_rule(struct bnf *bnf) {
    struct notation *notation = &bnf->notation;
    const struct program *program = notation->program;
    struct span name = gbnf_read_name(bnf);
    uint32_t rule;
    if (name.n == 0)
        return notation_fail(notation, STATUS_INVALID, "expected the name of a rule");
    TRY(notation_define(notation, name, &rule));
    TRY(gbnf_skip_blank(bnf, bnf->is_ebnf));
    if (!notation_take(notation, "::="))
        return notation_fail(notation, STATUS_INVALID, "expected \"::=\"");
    TRY(gbnf_skip_blank(bnf, true));
    TRY(gbnf_read_either(bnf, 0, program->rules[rule].start, program->rules[rule].end));
    if (notation_peek(notation, 0) == ')')
        return notation_fail(notation, STATUS_INVALID, "a ')' too many");
    return gbnf_skip_blank(bnf, true);
}

static enum status gbnf_read_rules(struct bnf *bnf, uint32_t from, uint32_t to) {
    struct notation *notation = &bnf->notation;
    TRY(gbnf_skip_blank(bnf, true));
    if (notation_at_end(notation))
        return notation_fail(notation, STATUS_INVALID, "a grammar has at least one rule");
    while (!notation_at_end(notation))
        TRY(gbnf_read_rule(bnf));
    TRY(notation_check(notation));
    const struct named *root = notation_find(notation, SPAN("root"));
    if (!root && !bnf->is_ebnf)
        return notation_fail(notation, STATUS_INVALID, "no rule has the name \"root\"");
    program_call(notation->program, from, root ? root->rule : notation->names[0].rule, to);
    return program_status(notation->program, notation->compile->error);
}

enum status bnf_compile(struct compile *compile, struct span source, bool is_ebnf, uint32_t from,
                        uint32_t to) {
    struct bnf bnf = {.notation = {.compile = compile,
                                   .program = compile->program,
                                   .title = is_ebnf ? "EBNF" : "GBNF",
                                   .source = source},
                      .is_ebnf = is_ebnf};
    enum status status = gbnf_read_rules(&bnf, from, to);
    notation_fini(&bnf.notation);
    return status;
}
