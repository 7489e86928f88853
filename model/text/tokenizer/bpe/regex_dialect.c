#include "model/text/tokenizer/bpe/regex_dialect.h"

#include "base/buf.h"
#include "base/hex.h"

#include <stdio.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* White_Space of Unicode. PCRE2's \s would add U+180E, which has not been a space since 6.3. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
/* Oniguruma's word characters. PCRE2's are letters, numbers and the underscore. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX  "0-9a-fA-F"

struct regex_dialect_reader {
    struct span pattern;
    size_t at;
    struct buf *out;
    struct error *error;
};

static char regex_dialect_peek(const struct regex_dialect_reader *reader, size_t ahead) {
    size_t at = reader->at + ahead;
    return at < reader->pattern.n ? reader->pattern.bytes[at] : 0;
}

static enum status dialect_refuse(const struct regex_dialect_reader *reader, const char *what) {
    return error_set(reader->error, STATUS_UNSUPPORTED,
                     "a regular expression has %s at byte %zu, which is not supported", what,
                     reader->at);
}

static bool regex_dialect_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool regex_dialect_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool regex_dialect_compiles(const char *pattern) {
    int code;
    PCRE2_SIZE at;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    pcre2_code_free(compiled);
    return compiled != NULL;
}

/* \p{Name}. PCRE2 takes a script's name for its extensions too, Oniguruma does not. */
static enum status regex_dialect_property(struct regex_dialect_reader *reader, char letter) {
    static const char *const categories[][2] = {
        {"Letter", "L"}, {"Mark", "M"},   {"Number", "N"},    {"Punctuation", "P"},
        {"Punct", "P"},  {"Symbol", "S"}, {"Separator", "Z"}, {"Other", "C"}};
    char name[48];
    char probe[64];
    size_t n = 0;
    bool negated = letter == 'P';
    if (regex_dialect_peek(reader, 0) != '{')
        return dialect_refuse(reader, "a property without braces");
    reader->at++;
    if (regex_dialect_peek(reader, 0) == '^') {
        negated = !negated;
        reader->at++;
    }
    while (regex_dialect_is_letter(regex_dialect_peek(reader, 0)) ||
           regex_dialect_is_digit(regex_dialect_peek(reader, 0)) ||
           regex_dialect_peek(reader, 0) == '_') {
        if (n + 1 == sizeof name)
            return dialect_refuse(reader, "a long property name");
        name[n++] = regex_dialect_peek(reader, 0);
        reader->at++;
    }
    name[n] = 0;
    if (n == 0 || regex_dialect_peek(reader, 0) != '}')
        return dialect_refuse(reader, "a broken property");
    reader->at++;
    const char *text = name;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (strcmp(name, categories[i][0]) == 0)
            text = categories[i][1];
    snprintf(probe, sizeof probe, "\\p{sc:%s}", text);
    const char *script = strlen(text) > 2 && regex_dialect_compiles(probe) ? "sc:" : "";
    buf_printf(reader->out, "\\%c{%s%s}", negated ? 'P' : 'p', script, text);
    return STATUS_OK;
}

/* \uHHHH, \xHH, \x{H...} */
static enum status regex_dialect_code_point(struct regex_dialect_reader *reader, char letter) {
    unsigned long point = 0;
    size_t n = 0;
    bool braces = letter == 'x' && regex_dialect_peek(reader, 0) == '{';
    size_t most = braces ? 6 : letter == 'u' ? 4 : 2;
    reader->at += braces;
    for (; n < most && hex_value(regex_dialect_peek(reader, 0)) >= 0; n++, reader->at++)
        point = point * 16 + (unsigned)hex_value(regex_dialect_peek(reader, 0));
    if (n == 0 || (letter == 'u' && n < 4) || (braces && regex_dialect_peek(reader, 0) != '}'))
        return dialect_refuse(reader, "a broken code point");
    if (letter == 'x' && !braces && point >= 0x80)
        return dialect_refuse(reader, "a single byte of UTF-8");
    reader->at += braces;
    buf_printf(reader->out, "\\x{%lx}", point);
    return STATUS_OK;
}

/* What stands for itself or the same in both dialects. */
static bool regex_dialect_is_shared(char c) {
    return !regex_dialect_is_letter(c) || strchr("dDnrtfae", c);
}

static enum status regex_dialect_shorthand(struct regex_dialect_reader *reader, char c,
                                           bool in_class) {
    static const struct {
        char letter;
        const char *alone;
        const char *in_class; /* NULL: cannot be said there */
    } table[] = {
        {'s', "[" SPACE "]", SPACE},
        {'S', "[^" SPACE "]", "\\S\\x{180e}"},
        {'w', "[" WORD "]", WORD},
        {'W', "[^" WORD "]", NULL},
        {'h', "[" HEX "]", HEX},
        {'H', "[^" HEX "]", NULL},
        {'v', "\\x{b}", "\\x{b}"},
        {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", "\\x{8}"},
        {'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL},
        {'A', "\\A", NULL},
        {'z', "\\z", NULL},
        {'Z', "\\Z", NULL},
        {'R', "\\R", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *text = in_class ? table[i].in_class : table[i].alone;
        if (table[i].letter != c || !text)
            continue;
        buf_puts(reader->out, text);
        return STATUS_OK;
    }
    char what[16];
    snprintf(what, sizeof what, "\\%c%s", c >= ' ' && c < 0x7f ? c : '?', in_class ? " in []" : "");
    return dialect_refuse(reader, what);
}

static enum status regex_dialect_escape(struct regex_dialect_reader *reader, bool in_class) {
    char c = regex_dialect_peek(reader, 1);
    if (reader->at + 1 >= reader->pattern.n)
        return dialect_refuse(reader, "a backslash at its end");
    reader->at += 2;
    if (c == 'p' || c == 'P')
        return regex_dialect_property(reader, c);
    if (c == 'u' || c == 'x')
        return regex_dialect_code_point(reader, c);
    if (!regex_dialect_is_shared(c))
        return regex_dialect_shorthand(reader, c, in_class);
    if (!((unsigned char)c & 0x80)) /* an escaped character beyond ASCII is that character */
        buf_putc(reader->out, '\\');
    buf_putc(reader->out, c);
    return STATUS_OK;
}

/* [:name:], or a class within a class, which adds its members: so its brackets may go. */
static enum status regex_dialect_inner_class(struct regex_dialect_reader *reader, unsigned *depth) {
    size_t n = 2;
    if (regex_dialect_peek(reader, 1) != ':') {
        if (regex_dialect_peek(reader, 1) == '^' || regex_dialect_peek(reader, 1) == ']')
            return dialect_refuse(reader, "such a class within a class");
        ++*depth;
        reader->at++;
        return STATUS_OK;
    }
    while (regex_dialect_is_letter(regex_dialect_peek(reader, n)) ||
           (n == 2 && regex_dialect_peek(reader, n) == '^'))
        n++;
    if (n == 2 || regex_dialect_peek(reader, n) != ':' || regex_dialect_peek(reader, n + 1) != ']')
        return dialect_refuse(reader, "a broken [:name:]");
    buf_append(reader->out, reader->pattern.bytes + reader->at, n + 2);
    reader->at += n + 2;
    return STATUS_OK;
}

static enum status regex_dialect_bracketed(struct regex_dialect_reader *reader) {
    unsigned depth = 0;
    buf_putc(reader->out, '[');
    reader->at++;
    if (regex_dialect_peek(reader, 0) == '^') {
        buf_putc(reader->out, '^');
        reader->at++;
    }
    if (regex_dialect_peek(reader, 0) == ']')
        return dialect_refuse(reader, "an empty class");
    while (reader->at < reader->pattern.n) {
        char c = regex_dialect_peek(reader, 0);
        if (c == ']' && depth == 0)
            break;
        if (c == '&' && regex_dialect_peek(reader, 1) == '&')
            return dialect_refuse(reader, "&& in a class");
        if (c == '\\') {
            TRY(regex_dialect_escape(reader, true));
            continue;
        }
        /* Without its brackets a class beside a hyphen would become a range. */
        if ((c == '-' && regex_dialect_peek(reader, 1) == '[' &&
             regex_dialect_peek(reader, 2) != ':') ||
            (c == ']' && regex_dialect_peek(reader, 1) == '-'))
            return dialect_refuse(reader, "a class within a class next to a hyphen");
        if (c == '[') {
            TRY(regex_dialect_inner_class(reader, &depth));
            continue;
        }
        if (c == ']')
            depth--;
        else
            buf_putc(reader->out, c);
        reader->at++;
    }
    if (reader->at == reader->pattern.n)
        return dialect_refuse(reader, "a class without an end");
    buf_putc(reader->out, ']');
    reader->at++;
    return STATUS_OK;
}

/* Groups that mean the same in both; Ruby's option m is PCRE2's s, the others differ more. */
static enum status regex_dialect_group(struct regex_dialect_reader *reader) {
    static const char *const openings[] = {"(?:", "(?=",  "(?!",   "(?<=", "(?<!",
                                           "(?>", "(?i:", "(?-i:", "(?i)"};
    const char *text = reader->pattern.bytes + reader->at;
    size_t left = reader->pattern.n - reader->at;
    if (regex_dialect_peek(reader, 1) != '?' && regex_dialect_peek(reader, 1) != '*') {
        buf_putc(reader->out, '(');
        reader->at++;
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        size_t n = strlen(openings[i]);
        if (n > left || memcmp(text, openings[i], n) != 0)
            continue;
        buf_append(reader->out, text, n);
        reader->at += n;
        return STATUS_OK;
    }
    char what[24];
    snprintf(what, sizeof what, "a group %.*s", left < 4 ? (int)left : 4, text);
    return dialect_refuse(reader, what);
}

/* {n}, {n,}, {,m}, {n,m}: not possessive with a + behind it, as it would be in PCRE2. */
static enum status regex_dialect_interval(struct regex_dialect_reader *reader) {
    size_t n = 1;
    bool has_comma = false;
    bool has_digit = false;
    for (; regex_dialect_is_digit(regex_dialect_peek(reader, n)) ||
           regex_dialect_peek(reader, n) == ',';
         n++) {
        has_comma |= regex_dialect_peek(reader, n) == ',';
        has_digit |= regex_dialect_is_digit(regex_dialect_peek(reader, n));
    }
    if (!has_digit || regex_dialect_peek(reader, n) != '}') {
        buf_puts(reader->out, "\\{");
        reader->at++;
        return STATUS_OK;
    }
    if (regex_dialect_peek(reader, n + 1) == '+' ||
        (regex_dialect_peek(reader, n + 1) == '?' && !has_comma))
        return dialect_refuse(reader, "a repeated repetition");
    buf_puts(reader->out, regex_dialect_peek(reader, 1) == ',' ? "{0" : "{");
    buf_append(reader->out, reader->pattern.bytes + reader->at + 1, n);
    reader->at += n + 1;
    return STATUS_OK;
}

enum status regex_translate(struct span pattern, struct buf *out, struct error *error) {
    struct regex_dialect_reader reader = {.pattern = pattern, .out = out, .error = error};
    while (reader.at < pattern.n) {
        switch (regex_dialect_peek(&reader, 0)) {
        case '\\':
            TRY(regex_dialect_escape(&reader, false));
            break;
        case '[':
            TRY(regex_dialect_bracketed(&reader));
            break;
        case '(':
            TRY(regex_dialect_group(&reader));
            break;
        case '{':
            TRY(regex_dialect_interval(&reader));
            break;
        default:
            buf_putc(out, regex_dialect_peek(&reader, 0));
            reader.at++;
        }
    }
    return STATUS_OK;
}

void regex_quote(struct span text, struct buf *out) {
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\x{%x}", c);
        else if (c < 0x80 && !regex_dialect_is_letter((char)c) && !regex_dialect_is_digit((char)c))
            buf_printf(out, "\\%c", c);
        else
            buf_putc(out, (char)c);
    }
}
