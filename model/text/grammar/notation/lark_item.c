/* What stands in a Lark rule or terminal: alternatives of items with repeats. */
#include "model/text/grammar/notation/lark.h"

/* A rule, or a terminal (*is_terminal). */
static enum status lark_read_name(struct lark *lark, struct element *element, bool *is_terminal) {
    struct notation *notation = &lark->notation;
    struct named *named;
    struct span name = lark_name(lark);
    if (name.n == 0)
        return notation_fail(notation, STATUS_INVALID,
                             "expected a name, a string, an expression or a bracket");
    if (notation_peek(notation, 0) == '{')
        return notation_fail(notation, STATUS_UNSUPPORTED, "templates");
    *is_terminal = lark_is_terminal_name(name);
    if (lark->is_terminal && !*is_terminal)
        return notation_fail(notation, STATUS_INVALID, "a terminal cannot hold the rule \"%.*s\"",
                             span_shown(name), name.bytes);
    TRY(notation_name(notation, name, &named));
    program_call(notation->program, element->begin, named->rule, element->end);
    return STATUS_OK;
}

/* A terminal of a rule has behind it what is ignored. */
static void lark_add_skip(struct lark *lark, struct element *element) {
    uint32_t end;
    if (lark->is_terminal || lark->skip == PROGRAM_NONE)
        return;
    end = program_node(lark->notation.program);
    program_call(lark->notation.program, element->end, lark->skip, end);
    element->end = end;
}

static enum status lark_read_atom(struct lark *lark, uint32_t depth, struct element *element) {
    struct notation *notation = &lark->notation;
    struct program *program = notation->program;
    bool is_terminal;
    *element = (struct element){.begin = program_node(program), .end = program_node(program)};
    bool is_option = notation_peek(notation, 0) == '[';
    if (is_option || notation_peek(notation, 0) == '(') {
        notation->at++;
        lark_skip_blank(lark, true);
        TRY(lark_expansions(lark, depth + 1, element->begin, element->end));
        if (is_option)
            program_empty(program, element->begin, element->end);
        if (!notation_take(notation, is_option ? "]" : ")"))
            return notation_fail(notation, STATUS_INVALID, "expected '%c'", is_option ? ']' : ')');
        return STATUS_OK;
    }
    TRY(lark_literal(lark, element, &is_terminal));
    if (!is_terminal)
        TRY(lark_read_name(lark, element, &is_terminal));
    if (is_terminal)
        lark_add_skip(lark, element);
    return STATUS_OK;
}

/* x?, x*, x+, x~n, x~n..m; `takes_lines`: inside brackets. */
static enum status lark_read_repeats(struct lark *lark, bool takes_lines, struct element *element) {
    struct notation *notation = &lark->notation;
    uint32_t min = 0;
    uint32_t max = PROGRAM_NO_BOUND;
    lark_skip_blank(lark, takes_lines);
    if (notation_take(notation, "*")) {
    } else if (notation_take(notation, "+")) {
        min = 1;
    } else if (notation_take(notation, "?")) {
        max = 1;
    } else if (notation_take(notation, "~")) {
        lark_skip_blank(lark, false);
        TRY(notation_number(notation, &min));
        max = min;
        lark_skip_blank(lark, false);
        if (notation_take(notation, "..")) {
            lark_skip_blank(lark, false);
            TRY(notation_number(notation, &max));
        }
    } else {
        return STATUS_OK;
    }
    TRY(notation_repeat(notation, element, min, max));
    lark_skip_blank(lark, takes_lines);
    return STATUS_OK;
}

/* Whether the next line goes on with an alternative; then the place is at its '|'. */
static bool lark_goes_on(struct lark *lark) {
    size_t at = lark->notation.at;
    lark_skip_blank(lark, true);
    if (notation_peek(&lark->notation, 0) == '|')
        return true;
    lark->notation.at = at;
    return false;
}

static enum status lark_read_sequence(struct lark *lark, uint32_t depth, uint32_t from,
                                      uint32_t to) {
    struct notation *notation = &lark->notation;
    struct program *program = notation->program;
    bool takes_lines = depth > 0;
    for (;;) {
        struct element element;
        lark_skip_blank(lark, takes_lines);
        char c = notation_peek(notation, 0);
        if (notation_at_end(notation) || c == '|' || c == ')' || c == ']' || c == '\n' || c == '\r')
            break;
        if (notation_take(notation, "->")) { /* the name of a branch of the tree */
            lark_skip_blank(lark, false);
            if (lark_name(lark).n == 0)
                return notation_fail(notation, STATUS_INVALID, "expected a name after \"->\"");
            continue;
        }
        TRY(lark_read_atom(lark, depth, &element));
        TRY(lark_read_repeats(lark, takes_lines, &element));
        program_empty(program, from, element.begin);
        from = element.end;
        TRY(program_status(program, notation->compile->error));
    }
    program_empty(program, from, to);
    return STATUS_OK;
}

enum status lark_expansions(struct lark *lark, uint32_t depth, uint32_t from, uint32_t to) {
    struct notation *notation = &lark->notation;
    if (depth >= notation->compile->depth_max)
        return notation_fail(notation, STATUS_LIMIT, "brackets nest deeper than %u",
                             notation->compile->depth_max);
    do {
        notation_take(notation, "|");
        TRY(lark_read_sequence(lark, depth, from, to));
    } while (lark_goes_on(lark));
    return STATUS_OK;
}
