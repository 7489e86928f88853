/* Literals: strings with Python's escapes, integers in four bases, floats. */
#include "base/hex.h"
#include "base/utf8.h"
#include "model/text/template/jinja/syntax/jinja_parser.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum status jinja_constant_string(struct jinja_parser *parser, const char *bytes, size_t n,
                                  struct jinja_value *value) {
    struct jinja_string *string = arena_alloc(&parser->program->arena, sizeof *string);
    if (!string)
        return jinja_parse_fail(parser, STATUS_NOMEM, "no memory for the template");
    *string = (struct jinja_string){.bytes = bytes, .n = n};
    *value = jinja_text_value(string);
    return STATUS_OK;
}

/* n hexadecimal digits at *at as a character. */
static enum status jinja_read_hex(struct jinja_parser *parser, const char *bytes, size_t n,
                                  size_t *at, int n_digits, char **out) {
    uint32_t point = 0;
    for (int i = 0; i < n_digits; i++, ++*at) {
        int digit = *at < n ? hex_value(bytes[*at]) : -1;
        if (digit < 0)
            return jinja_parse_fail(parser, STATUS_INVALID, "a string has a broken escape");
        point = point << 4 | (uint32_t)digit;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return jinja_parse_fail(parser, STATUS_INVALID, "a string's escape is not a character");
    *out += utf8_encode(point, *out);
    return STATUS_OK;
}

/* Behind a backslash at bytes[*at]. No escape is shorter than what it stands for. */
static enum status jinja_read_escape(struct jinja_parser *parser, const char *bytes, size_t n,
                                     size_t *at, char **out) {
    static const char from[] = "\\'\"abfnrtv";
    static const char to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = bytes[(*at)++];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        *(*out)++ = to[simple - from];
    } else if (c == 'x' || c == 'u' || c == 'U') {
        return jinja_read_hex(parser, bytes, n, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    } else if (c >= '0' && c <= '7') {
        uint32_t point = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < n && bytes[*at] >= '0' && bytes[*at] <= '7'; i++)
            point = point * 8 + (uint32_t)(bytes[(*at)++] - '0');
        *out += utf8_encode(point, *out);
    } else if (c == 'N') {
        return jinja_parse_fail(parser, STATUS_UNSUPPORTED, "\\N escapes are not supported");
    } else if (c != '\n') {
        *(*out)++ = '\\';
        *(*out)++ = c;
    }
    return STATUS_OK;
}

static enum status jinja_read_string(struct jinja_parser *parser, struct span text,
                                     struct jinja_value *value) {
    const char *bytes = text.bytes + 1;
    size_t n = text.n - 2;
    if (n == 0 || !memchr(bytes, '\\', n))
        return jinja_constant_string(parser, bytes, n, value);
    char *made = arena_alloc(&parser->program->arena, n + 4);
    char *out = made;
    if (!made)
        return jinja_parse_fail(parser, STATUS_NOMEM, "no memory for the template");
    for (size_t at = 0; at < n;) {
        if (bytes[at] != '\\') {
            *out++ = bytes[at++];
            continue;
        }
        at++; /* the lexer leaves no backslash at the end */
        TRY(jinja_read_escape(parser, bytes, n, &at, &out));
    }
    return jinja_constant_string(parser, made, (size_t)(out - made), value);
}

/* Digits without the underscores, NUL-terminated. */
static enum status jinja_copy_digits(struct jinja_parser *parser, struct span text,
                                     char digits[400]) {
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.bytes[i] == '_')
            continue;
        if (n == 399)
            return jinja_parse_fail(parser, STATUS_LIMIT, "a number has too many digits");
        digits[n++] = text.bytes[i];
    }
    digits[n] = 0;
    return STATUS_OK;
}

static enum status jinja_read_integer(struct jinja_parser *parser, struct span text,
                                      struct jinja_value *value) {
    char digits[400];
    TRY(jinja_copy_digits(parser, text, digits));
    int base = digits[0] != '0' || !digits[1]         ? 10
               : digits[1] == 'x' || digits[1] == 'X' ? 16
               : digits[1] == 'o' || digits[1] == 'O' ? 8
               : digits[1] == 'b' || digits[1] == 'B' ? 2
                                                      : 10;
    char *end;
    errno = 0;
    long long number = strtoll(base == 10 ? digits : digits + 2, &end, base);
    if (*end || (base != 10 && !digits[2]))
        return jinja_parse_fail(parser, STATUS_INVALID, "a number is broken");
    if (errno == ERANGE)
        return jinja_parse_fail(parser, STATUS_LIMIT, "a number has more than 64 bits");
    *value = jinja_int(number);
    return STATUS_OK;
}

enum status jinja_parse_literal(struct jinja_parser *parser, struct jinja_value *value) {
    struct span text = jinja_token(parser)->text;
    char digits[400];
    switch (jinja_token(parser)->kind) {
    case JINJA_T_STRING:
        return jinja_read_string(parser, text, value);
    case JINJA_T_INTEGER:
        return jinja_read_integer(parser, text, value);
    default:
        TRY(jinja_copy_digits(parser, text, digits));
        *value = jinja_float(strtod(digits, NULL));
        return STATUS_OK;
    }
}
