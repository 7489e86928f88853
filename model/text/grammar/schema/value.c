/* JSON text (RFC 8259) as rules, which all schemas of a grammar share. */
#include "model/text/grammar/schema/schema.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS_MAX      2u  /* within a line */
#define INDENTATION_MAX 32u /* at the front of one */
#define EXPONENT_DIGITS 3u

static uint32_t json_value_known(uint32_t *rule, struct compile *compile, bool *is_new) {
    *is_new = *rule == PROGRAM_NONE;
    if (*is_new)
        *rule = program_rule(compile->program);
    if (!program_ok(compile->program))
        *is_new = false;
    return *rule;
}

/* Up to n blanks or tabs from a node, each the end, too. */
static void json_value_write_blanks(struct program *program, uint32_t from, uint32_t n,
                                    uint32_t to) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = program_node(program);
        program_empty(program, from, to);
        program_bytes(program, from, ' ', ' ', next);
        program_bytes(program, from, '\t', '\t', next);
        from = next;
    }
    program_empty(program, from, to);
}

uint32_t value_blank(struct compile *compile) {
    struct program *program = compile->program;
    bool is_new;
    uint32_t rule = json_value_known(&compile->rule_blank, compile, &is_new);
    if (!is_new)
        return rule;
    uint32_t from = program->rules[rule].start;
    uint32_t to = program->rules[rule].end;
    uint32_t line = program_node(program);
    uint32_t behind = program_node(program);
    json_value_write_blanks(program, from, BLANKS_MAX, to);
    program_bytes(program, from, '\n', '\n', line);
    program_bytes(program, from, '\r', '\r', behind);
    program_bytes(program, behind, '\n', '\n', line);
    json_value_write_blanks(program, line, INDENTATION_MAX, to);
    program_close(program, rule);
    return rule;
}

static void json_value_write_hex(struct program *program, uint32_t from, uint32_t to) {
    program_bytes(program, from, '0', '9', to);
    program_bytes(program, from, 'a', 'f', to);
    program_bytes(program, from, 'A', 'F', to);
}

/* \u with four digits: any but half a surrogate pair, or both halves. */
static void json_value_write_unicode(struct program *program, uint32_t from, uint32_t to) {
    uint32_t d = program_node(program);
    uint32_t rest[3];
    for (unsigned i = 0; i < 3; i++)
        rest[i] = program_node(program);
    program_bytes(program, from, '0', '9', rest[0]);
    for (const char *hex = "abcefABCEF"; *hex; hex++)
        program_bytes(program, from, (uint8_t)*hex, (uint8_t)*hex, rest[0]);
    program_bytes(program, from, 'd', 'd', d);
    program_bytes(program, from, 'D', 'D', d);
    program_bytes(program, d, '0', '7', rest[1]);
    json_value_write_hex(program, rest[0], rest[1]);
    json_value_write_hex(program, rest[1], rest[2]);
    json_value_write_hex(program, rest[2], to);
    /* d800 to dbff, then dc00 to dfff. */
    uint32_t path[10];
    for (unsigned i = 0; i < 8; i++)
        path[i] = program_node(program);
    for (const char *hex = "89abAB"; *hex; hex++)
        program_bytes(program, d, (uint8_t)*hex, (uint8_t)*hex, path[0]);
    json_value_write_hex(program, path[0], path[1]);
    json_value_write_hex(program, path[1], path[2]);
    program_bytes(program, path[2], '\\', '\\', path[3]);
    program_bytes(program, path[3], 'u', 'u', path[4]);
    program_bytes(program, path[4], 'd', 'd', path[5]);
    program_bytes(program, path[4], 'D', 'D', path[5]);
    for (const char *hex = "cdefCDEF"; *hex; hex++)
        program_bytes(program, path[5], (uint8_t)*hex, (uint8_t)*hex, path[6]);
    json_value_write_hex(program, path[6], path[7]);
    json_value_write_hex(program, path[7], to);
}

uint32_t value_chars(struct compile *compile) {
    struct program *program = compile->program;
    bool is_new;
    uint32_t rule = json_value_known(&compile->rule_chars, compile, &is_new);
    if (!is_new)
        return rule;
    uint32_t loop = program->rules[rule].start;
    uint32_t escape = program_node(program);
    uint32_t unicode = program_node(program);
    program_points(program, loop, ' ', '!', loop);
    program_points(program, loop, '#', '[', loop);
    program_points(program, loop, ']', 0x10ffff, loop);
    program_bytes(program, loop, '\\', '\\', escape);
    for (const char *letter = "\"\\/bfnrt"; *letter; letter++)
        program_bytes(program, escape, (uint8_t)*letter, (uint8_t)*letter, loop);
    program_bytes(program, escape, 'u', 'u', unicode);
    json_value_write_unicode(program, unicode, loop);
    program_bytes(program, loop, '"', '"', program->rules[rule].end);
    program->rules[rule].counted = loop;
    program_close(program, rule);
    return rule;
}

/* One digit or more, and from the last of them to `to`. */
static void json_value_write_digits(struct program *program, uint32_t from, uint32_t to) {
    uint32_t digits = program_node(program);
    program_bytes(program, from, '0', '9', digits);
    program_bytes(program, digits, '0', '9', digits);
    program_empty(program, digits, to);
}

static void json_value_write_exponent(struct program *program, uint32_t from, uint32_t to) {
    uint32_t sign = program_node(program);
    uint32_t at = program_node(program);
    program_bytes(program, from, 'e', 'e', sign);
    program_bytes(program, from, 'E', 'E', sign);
    program_bytes(program, sign, '+', '+', at);
    program_bytes(program, sign, '-', '-', at);
    program_empty(program, sign, at);
    for (unsigned i = 0; i < EXPONENT_DIGITS; i++) {
        uint32_t next = program_node(program);
        program_bytes(program, at, '0', '9', next);
        program_empty(program, next, to);
        at = next;
    }
}

uint32_t value_number(struct compile *compile, bool is_integer) {
    struct program *program = compile->program;
    bool is_new;
    uint32_t rule = json_value_known(is_integer ? &compile->rule_integer : &compile->rule_number,
                                     compile, &is_new);
    if (!is_new)
        return rule;
    uint32_t from = program->rules[rule].start;
    uint32_t to = program->rules[rule].end;
    uint32_t first = program_node(program);
    uint32_t whole = program_node(program);
    uint32_t digits = program_node(program);
    program_bytes(program, from, '-', '-', first);
    program_empty(program, from, first);
    program_bytes(program, first, '0', '0', whole);
    program_bytes(program, first, '1', '9', digits);
    program_bytes(program, digits, '0', '9', digits);
    program_empty(program, digits, whole);
    program_empty(program, whole, to);
    if (!is_integer) {
        uint32_t point = program_node(program);
        uint32_t fraction = program_node(program);
        program_bytes(program, whole, '.', '.', point);
        json_value_write_digits(program, point, fraction);
        program_empty(program, fraction, to);
        json_value_write_exponent(program, whole, to);
        json_value_write_exponent(program, fraction, to);
    }
    program_close(program, rule);
    return rule;
}

/* `open` blank [pair or value {"," blank ...}] blank `close`. */
static void json_value_write_list(struct compile *compile, uint32_t rule, char open, char close,
                                  uint32_t element) {
    struct program *program = compile->program;
    if (!program_ok(program))
        return;
    uint32_t blank = value_blank(compile);
    uint32_t inside = program_node(program);
    uint32_t first = program_node(program);
    uint32_t behind = program_node(program);
    uint32_t comma = program_node(program);
    uint32_t last = program_node(program);
    program_bytes(program, program->rules[rule].start, (uint8_t)open, (uint8_t)open, inside);
    program_call(program, inside, blank, first);
    program_bytes(program, first, (uint8_t)close, (uint8_t)close, program->rules[rule].end);
    program_call(program, first, element, behind);
    program_bytes(program, behind, ',', ',', comma);
    uint32_t next = program_node(program);
    program_call(program, comma, blank, next);
    program_call(program, next, element, behind);
    program_call(program, behind, blank, last);
    program_bytes(program, last, (uint8_t)close, (uint8_t)close, program->rules[rule].end);
}

/* "name": value */
static uint32_t json_value_write_pair(struct compile *compile, uint32_t value) {
    struct program *program = compile->program;
    uint32_t rule = program_rule(program);
    if (!program_ok(program))
        return 0;
    uint32_t name = program_node(program);
    uint32_t colon = program_node(program);
    uint32_t blank = program_node(program);
    uint32_t at = program_node(program);
    program_bytes(program, program->rules[rule].start, '"', '"', name);
    program_call(program, name, value_chars(compile), colon);
    program_bytes(program, colon, ':', ':', blank);
    program_call(program, blank, value_blank(compile), at);
    program_call(program, at, value, program->rules[rule].end);
    return rule;
}

uint32_t value_any(struct compile *compile) {
    struct program *program = compile->program;
    bool is_new;
    uint32_t rule = json_value_known(&compile->rule_value, compile, &is_new);
    if (!is_new)
        return rule;
    uint32_t array = program_rule(program);
    compile->rule_object = program_rule(program);
    if (!program_ok(program))
        return 0;
    uint32_t from = program->rules[rule].start;
    uint32_t to = program->rules[rule].end;
    uint32_t quote = program_node(program);
    program_empty(program, program_text(program, from, SPAN("null")), to);
    program_empty(program, program_text(program, from, SPAN("true")), to);
    program_empty(program, program_text(program, from, SPAN("false")), to);
    program_call(program, from, value_number(compile, false), to);
    program_bytes(program, from, '"', '"', quote);
    program_call(program, quote, value_chars(compile), to);
    program_call(program, from, array, to);
    program_call(program, from, compile->rule_object, to);
    json_value_write_list(compile, array, '[', ']', rule);
    json_value_write_list(compile, compile->rule_object, '{', '}',
                          json_value_write_pair(compile, rule));
    return rule;
}

/* A text with the shortest escapes. */
static void json_value_escape(struct span text, struct buf *out) {
    static const char letters[] = "btn fr"; /* 8 to 13; 11 has none */
    for (size_t i = 0; i < text.n; i++) {
        uint8_t byte = (uint8_t)text.bytes[i];
        if (byte == '"' || byte == '\\')
            buf_printf(out, "\\%c", byte);
        else if (byte >= 8 && byte <= 13 && byte != 11)
            buf_printf(out, "\\%c", letters[byte - 8]);
        else if (byte < ' ')
            buf_printf(out, "\\u%04x", byte);
        else
            buf_putc(out, (char)byte);
    }
}

enum status value_choice(struct compile *compile, struct span *texts, size_t n, uint32_t from,
                         uint32_t to) {
    struct buf all;
    size_t *ends = calloc(n + 1, sizeof *ends);
    buf_init(&all, 0);
    for (size_t i = 0; ends && i < n; i++) {
        json_value_escape(texts[i], &all);
        ends[i] = all.n;
    }
    enum status status = ends ? buf_status(&all) : STATUS_NOMEM;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        size_t begin = i > 0 ? ends[i - 1] : 0;
        texts[i] = (struct span){all.data ? all.data + begin : "", ends[i] - begin};
    }
    if (status == STATUS_OK)
        program_choice(compile->program, from, texts, n, to);
    free(ends);
    buf_fini(&all);
    return status;
}

void value_quote(struct program *program, struct span text, uint32_t from, uint32_t to) {
    struct buf quoted;
    buf_init(&quoted, 0);
    buf_putc(&quoted, '"');
    json_value_escape(text, &quoted);
    buf_putc(&quoted, '"');
    if (buf_status(&quoted) != STATUS_OK)
        program_fail(program, STATUS_NOMEM, "memory");
    else
        program_empty(program, program_text(program, from, (struct span){quoted.data, quoted.n}),
                      to);
    buf_fini(&quoted);
}

/* A list of values, or of names and values. */
static void json_value_write_constants(struct compile *compile, const json_t *value, uint32_t from,
                                       uint32_t to) {
    struct program *program = compile->program;
    uint32_t blank = value_blank(compile);
    bool is_array = json_is_array(value);
    uint32_t at = program_text(program, from, is_array ? SPAN("[") : SPAN("{"));
    bool is_first = true;
    const char *key;
    size_t n_key;
    json_t *member;
    size_t i;
    if (is_array) {
        json_array_foreach(value, i, member) {
            uint32_t next = program_node(program);
            uint32_t behind = program_node(program);
            at = is_first ? at : program_text(program, at, SPAN(","));
            program_call(program, at, blank, next);
            value_constant(compile, member, next, behind);
            at = behind;
            is_first = false;
        }
    } else {
        json_object_keylen_foreach((json_t *)(uintptr_t)value, key, n_key, member) {
            uint32_t next = program_node(program);
            uint32_t colon = program_node(program);
            uint32_t before = program_node(program);
            uint32_t behind = program_node(program);
            at = is_first ? at : program_text(program, at, SPAN(","));
            program_call(program, at, blank, next);
            value_quote(program, (struct span){key, n_key}, next, colon);
            program_call(program, program_text(program, colon, SPAN(":")), blank, before);
            value_constant(compile, member, before, behind);
            at = behind;
            is_first = false;
        }
    }
    uint32_t last = program_node(program);
    program_call(program, at, blank, last);
    program_empty(program, program_text(program, last, is_array ? SPAN("]") : SPAN("}")), to);
}

void value_constant(struct compile *compile, const json_t *value, uint32_t from, uint32_t to) {
    struct program *program = compile->program;
    if (json_is_string(value)) {
        value_quote(program, (struct span){json_string_value(value), json_string_length(value)},
                    from, to);
        return;
    }
    if (json_is_array(value) || json_is_object(value)) {
        json_value_write_constants(compile, value, from, to);
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (text)
        program_empty(program, program_text(program, from, span_of(text)), to);
    else
        program_fail(program, STATUS_NOMEM, "memory");
    free(text);
}
