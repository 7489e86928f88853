/* Literals, sets, special tokens. GBNF has escapes in both; in EBNF every character stands for itself,
 * and #xN for the one of that number. */
#include "model/text/grammar/notation/bnf.h"

#include "base/utf8.h"
#include "model/text/grammar/notation/special.h"

bool bnf_at_terminal(const struct notation *notation, bool is_ebnf) {
    char c = notation_peek(notation, 0);
    if (c == 0)
        return false;
    return strchr(is_ebnf ? "\"'[#" : "\"[.<!", c) != NULL;
}

/* A character of a GBNF literal or set. */
static enum status gbnf_read_char(struct notation *notation, uint32_t *point) {
    static const char letters[] = "nrt\\\"[]-^.";
    static const char values[] = "\n\r\t\\\"[]-^.";
    if (!notation_take(notation, "\\"))
        return notation_point(notation, point);
    if (notation_take(notation, "x"))
        return notation_hex(notation, 2, point);
    if (notation_take(notation, "u"))
        return notation_hex(notation, 4, point);
    if (notation_take(notation, "U"))
        return notation_hex(notation, 8, point);
    char c = notation_peek(notation, 0);
    const char *known = c != 0 ? strchr(letters, c) : NULL;
    if (!known)
        return notation_fail(notation, STATUS_INVALID, "this escape is not known");
    notation->at++;
    *point = (uint8_t)values[known - letters];
    return STATUS_OK;
}

/* Behind the quote. */
static enum status gbnf_read_literal(struct notation *notation, bool is_ebnf, char quote,
                                     struct element *element) {
    struct program *program = notation->program;
    uint32_t at = element->begin;
    size_t begin = notation->at - 1;
    while (notation_peek(notation, 0) != quote) {
        uint32_t point;
        char bytes[4];
        if (notation_at_end(notation) || notation_peek(notation, 0) == '\n') {
            notation->at = begin;
            return notation_fail(notation, STATUS_INVALID, "a literal without its end");
        }
        TRY(is_ebnf ? notation_point(notation, &point) : gbnf_read_char(notation, &point));
        at = program_text(program, at, (struct span){bytes, utf8_encode(point, bytes)});
    }
    notation->at++;
    program_empty(program, at, element->end);
    return STATUS_OK;
}

static enum status gbnf_read_set_char(struct notation *notation, bool is_ebnf, uint32_t *point) {
    if (!is_ebnf)
        return gbnf_read_char(notation, point);
    return notation_take(notation, "#x") ? notation_hex(notation, 0, point)
                                         : notation_point(notation, point);
}

/* Behind the bracket. */
static enum status gbnf_read_set(struct notation *notation, bool is_ebnf, struct element *element) {
    size_t begin = notation->at - 1;
    bool is_negated = notation_take(notation, "^");
    notation_set_begin(notation);
    while (notation_peek(notation, 0) != ']') {
        uint32_t low;
        uint32_t high;
        if (notation_at_end(notation) || notation_peek(notation, 0) == '\n') {
            notation->at = begin;
            return notation_fail(notation, STATUS_INVALID, "a set without its end");
        }
        TRY(gbnf_read_set_char(notation, is_ebnf, &low));
        high = low;
        if (notation_peek(notation, 0) == '-' && notation_peek(notation, 1) != ']') {
            notation->at++;
            TRY(gbnf_read_set_char(notation, is_ebnf, &high));
        }
        TRY(notation_set_add(notation, low, high));
    }
    notation->at++;
    element->is_set = true;
    return notation_set_end(notation, is_negated);
}

enum status bnf_terminal(struct notation *notation, bool is_ebnf, struct element *element) {
    char c = notation_peek(notation, 0);
    *element = (struct element){.begin = program_node(notation->program),
                                .end = program_node(notation->program)};
    if (c == '<')
        return special_read(notation, element);
    if (c == '!')
        return notation_fail(notation, STATUS_UNSUPPORTED, "all tokens but one");
    notation->at++;
    if (c == '"' || c == '\'')
        return gbnf_read_literal(notation, is_ebnf, c, element);
    if (c == '[')
        return gbnf_read_set(notation, is_ebnf, element);
    notation_set_begin(notation);
    element->is_set = true;
    if (c == '.')
        return notation_set_add(notation, 0, 0x10ffff);
    uint32_t point;
    if (!notation_take(notation, "x"))
        return notation_fail(notation, STATUS_INVALID, "expected 'x' after '#'");
    TRY(notation_hex(notation, 0, &point));
    return notation_set_add(notation, point, point);
}
