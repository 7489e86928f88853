/* Strings, ranges and regular expressions of Lark. */
#include "model/text/grammar/notation/lark.h"

#include "base/utf8.h"
#include "model/text/grammar/notation/special.h"
#include "model/text/grammar/regex/regex_write.h"

/* A character of a string. As in Lark, a backslash before any other letter is itself. */
static enum status lark_read_char(struct notation *notation, uint32_t *point) {
    static const char letters[] = "nftr\\\"";
    static const char values[] = "\n\f\t\r\\\"";
    char next = notation_peek(notation, 1);
    const char *known = next != 0 ? strchr(letters, next) : NULL;
    if (notation_peek(notation, 0) != '\\')
        return notation_point(notation, point);
    notation->at++;
    if (notation_take(notation, "x"))
        return notation_hex(notation, 2, point);
    if (notation_take(notation, "u"))
        return notation_hex(notation, 4, point);
    if (notation_take(notation, "U"))
        return notation_hex(notation, 8, point);
    *point = known ? (uint8_t)values[known - letters] : '\\';
    notation->at += known != NULL;
    return STATUS_OK;
}

/* An ASCII letter in both cases, any other character as it is. */
static uint32_t lark_write_char(struct program *program, uint32_t point, bool folds, uint32_t at) {
    char bytes[4];
    bool is_letter = ((point | 0x20) >= 'a' && (point | 0x20) <= 'z');
    if (!folds || !is_letter)
        return program_text(program, at, (struct span){bytes, utf8_encode(point, bytes)});
    uint32_t to = program_node(program);
    program_bytes(program, at, (uint8_t)(point & ~0x20u), (uint8_t)(point & ~0x20u), to);
    program_bytes(program, at, (uint8_t)(point | 0x20), (uint8_t)(point | 0x20), to);
    return to;
}

/* Finds the closing mark of a literal; its place is left behind the literal's flags. */
static enum status lark_find_end(struct notation *notation, char mark, struct span *text,
                                 struct span *flags) {
    size_t begin = ++notation->at;
    while (notation_peek(notation, 0) != mark) {
        bool is_escape = notation_peek(notation, 0) == '\\';
        if (notation->at + is_escape + 1 >= notation->source.n ||
            notation_peek(notation, 0) == '\n') {
            notation->at = begin - 1;
            return notation_fail(notation, STATUS_INVALID, "a literal without its end");
        }
        notation->at += 1 + is_escape;
        if (notation_at_end(notation)) {
            notation->at = begin - 1;
            return notation_fail(notation, STATUS_INVALID, "a literal without its end");
        }
    }
    *text = (struct span){notation->source.bytes + begin, notation->at - begin};
    size_t end = ++notation->at;
    while (notation_peek(notation, 0) >= 'a' && notation_peek(notation, 0) <= 'z')
        notation->at++;
    *flags = (struct span){notation->source.bytes + end, notation->at - end};
    return STATUS_OK;
}

/* The only character of a string that stands in a range. */
static enum status lark_read_bound(struct notation *notation, uint32_t *point) {
    if (notation_peek(notation, 0) != '"')
        return notation_fail(notation, STATUS_INVALID, "expected a string of one character");
    notation->at++;
    TRY(lark_read_char(notation, point));
    return notation_take(notation, "\"")
               ? STATUS_OK
               : notation_fail(notation, STATUS_INVALID, "a range has strings of one character");
}

static enum status lark_read_string(struct lark *lark, struct element *element) {
    struct notation *notation = &lark->notation;
    struct program *program = notation->program;
    size_t begin = notation->at;
    struct span text;
    struct span flags;
    TRY(lark_find_end(notation, '"', &text, &flags));
    size_t end = notation->at;
    lark_skip_blank(lark, false);
    if (flags.n == 0 && notation_take(notation, "..")) {
        uint32_t low;
        uint32_t high;
        notation->at = begin;
        TRY(lark_read_bound(notation, &low));
        lark_skip_blank(lark, false);
        notation->at += 2;
        lark_skip_blank(lark, false);
        TRY(lark_read_bound(notation, &high));
        if (low > high)
            return notation_fail(notation, STATUS_INVALID, "a range whose end is below its start");
        program_points(program, element->begin, low, high, element->end);
        return STATUS_OK;
    }
    notation->at = begin + 1;
    bool folds = span_is(flags, "i");
    if (flags.n > 0 && !folds)
        return notation_fail(notation, STATUS_INVALID, "a string's only flag is i");
    uint32_t at = element->begin;
    while (notation->at < begin + 1 + text.n && program_ok(program)) {
        uint32_t point;
        TRY(lark_read_char(notation, &point));
        at = lark_write_char(program, point, folds, at);
    }
    notation->at = end;
    program_empty(program, at, element->end);
    return STATUS_OK;
}

static enum status lark_read_regex(struct lark *lark, struct element *element) {
    struct notation *notation = &lark->notation;
    struct compile *compile = notation->compile;
    size_t begin = notation->at;
    unsigned bits = REGEX_TERMINAL;
    struct span text;
    struct span flags;
    TRY(lark_find_end(notation, '/', &text, &flags));
    size_t end = notation->at;
    notation->at = begin;
    for (size_t i = 0; i < flags.n; i++) {
        char c = flags.bytes[i];
        if (c != 'i' && c != 's' && c != 'u')
            return notation_fail(notation, STATUS_UNSUPPORTED,
                                 "flags of an expression other than i, s and u");
        bits |= c == 'i' ? REGEX_IGNORE_CASE : c == 's' ? REGEX_DOT_ALL : 0u;
    }
    enum status status = regex_write(compile, text, bits, element->begin, element->end);
    if (status != STATUS_OK) {
        struct error of = *compile->error;
        return status == STATUS_NOMEM ? status : notation_fail(notation, status, "%s", of.text);
    }
    notation->at = end;
    return STATUS_OK;
}

enum status lark_literal(struct lark *lark, struct element *element, bool *is_literal) {
    char c = notation_peek(&lark->notation, 0);
    *is_literal = c == '"' || c == '/' || c == '<';
    if (c == '"')
        return lark_read_string(lark, element);
    if (c == '/')
        return lark_read_regex(lark, element);
    return c == '<' ? special_read(&lark->notation, element) : STATUS_OK;
}
