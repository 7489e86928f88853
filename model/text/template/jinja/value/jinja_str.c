#include "model/text/template/jinja/value/jinja_str.h"

#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The shortest digits that read back as the same number; plain between 1e-4 and 1e16. */
void jinja_float_text(double number, char out[32]) {
    char shortest[32];
    if (!isfinite(number)) {
        snprintf(out, 32, "%s", isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        snprintf(shortest, sizeof shortest, "%.*e", precision, number);
        if (strtod(shortest, NULL) == number)
            break;
    }
    char *e = strchr(shortest, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    *e = 0;
    const char *sign = shortest[0] == '-' ? "-" : "";
    char digits[24];
    int n = 0;
    for (const char *at = shortest; *at && n < 20; at++)
        if (*at >= '0' && *at <= '9')
            digits[n++] = *at;
    digits[n] = 0;
    if (exponent < -4 || exponent >= 16)
        snprintf(out, 32, "%s%c%s%.20se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(out, 32, "%s0.%.*s%.20s", sign, -exponent - 1, "000", digits);
    else if (n <= exponent + 1)
        snprintf(out, 32, "%s%.20s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    else
        snprintf(out, 32, "%s%.*s.%.20s", sign, exponent + 1, digits, digits + exponent + 1);
}

/* As Python's str.isprintable() for one character. */
static bool jinja_is_printable(uint32_t point) {
    if (point < 0x7f)
        return point >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

/* `how`: the quote around the text. */
static void jinja_escape_repr(uint32_t point, const void *how, char out[16]) {
    const char *quote = how;
    if (point == '\\' || point == (uint32_t)(unsigned char)*quote)
        snprintf(out, 16, "\\%c", (char)point);
    else if (point == '\n' || point == '\r' || point == '\t')
        snprintf(out, 16, "\\%c", point == '\n' ? 'n' : point == '\r' ? 'r' : 't');
    else if (!jinja_is_printable(point))
        snprintf(out, 16,
                 point < 0x100     ? "\\x%02x"
                 : point < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                 point);
}

static enum status jinja_put_repr_string(struct jinja_run *run, struct jinja_text *text,
                                         const struct jinja_string *string) {
    bool has_single = string->n && memchr(string->bytes, '\'', string->n);
    bool has_double = string->n && memchr(string->bytes, '"', string->n);
    char quote = has_single && !has_double ? '"' : '\'';
    TRY(jinja_put(run, text, &quote, 1, false));
    TRY(jinja_put_escaped(run, text, string, jinja_escape_repr, &quote));
    return jinja_put(run, text, &quote, 1, false);
}

static enum status jinja_put_repr_list(struct jinja_run *run, struct jinja_text *text,
                                       struct jinja_value value, unsigned depth) {
    bool is_list = value.kind == JINJA_LIST;
    TRY(jinja_puts(run, text, is_list ? "[" : "("));
    for (size_t i = 0; i < value.list->n; i++) {
        TRY(jinja_puts(run, text, i ? ", " : ""));
        TRY(jinja_put_repr(run, text, value.list->items[i], depth + 1));
    }
    if (!is_list && value.list->n == 1)
        TRY(jinja_puts(run, text, ","));
    return jinja_puts(run, text, is_list ? "]" : ")");
}

static enum status jinja_put_repr_dict(struct jinja_run *run, struct jinja_text *text,
                                       const struct jinja_dict *dict, unsigned depth) {
    TRY(jinja_puts(run, text, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        TRY(jinja_puts(run, text, i ? ", " : ""));
        TRY(jinja_put_repr(run, text, dict->keys[i], depth + 1));
        TRY(jinja_puts(run, text, ": "));
        TRY(jinja_put_repr(run, text, dict->values[i], depth + 1));
    }
    return jinja_puts(run, text, "}");
}

enum status jinja_put_repr(struct jinja_run *run, struct jinja_text *text, struct jinja_value value,
                           unsigned depth) {
    TRY(jinja_charge(run, 1));
    if (depth > JINJA_VALUE_DEPTH_MAX)
        return jinja_fail(run, STATUS_LIMIT, "a value is nested more than %u deep",
                          JINJA_VALUE_DEPTH_MAX);
    switch (value.kind) {
    case JINJA_STRING:
        if (value.is_safe)
            TRY(jinja_puts(run, text, "Markup("));
        TRY(jinja_put_repr_string(run, text, value.string));
        return value.is_safe ? jinja_puts(run, text, ")") : STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return jinja_put_repr_list(run, text, value, depth);
    case JINJA_DICT:
        return jinja_put_repr_dict(run, text, value.dict, depth);
    case JINJA_UNDEFINED:
        return jinja_puts(run, text, "Undefined");
    default:
        return jinja_put_value(run, text, value);
    }
}

enum status jinja_put_value(struct jinja_run *run, struct jinja_text *text,
                            struct jinja_value value) {
    char number[32];
    switch (value.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        return STATUS_OK;
    case JINJA_NONE:
        return jinja_puts(run, text, "None");
    case JINJA_BOOL:
        return jinja_puts(run, text, value.boolean ? "True" : "False");
    case JINJA_INT:
        snprintf(number, sizeof number, "%lld", (long long)value.integer);
        return jinja_put(run, text, number, strlen(number), value.is_plain);
    case JINJA_FLOAT:
        jinja_float_text(value.number, number);
        return jinja_put(run, text, number, strlen(number), value.is_plain);
    case JINJA_STRING:
        return jinja_put_string(run, text, value.string);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        return jinja_put_repr(run, text, value, 0);
    default:
        return jinja_fail(run, STATUS_UNSUPPORTED, "%s has no text", jinja_type_name(value));
    }
}

enum status jinja_to_string(struct jinja_run *run, struct jinja_value value,
                            const struct jinja_string **string) {
    struct jinja_text text = {0};
    if (jinja_is_string(value)) {
        *string = value.string;
        return STATUS_OK;
    }
    TRY(jinja_put_value(run, &text, value));
    TRY(jinja_text_done(run, &text, &value));
    *string = value.string;
    return STATUS_OK;
}
