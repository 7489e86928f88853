/* '...'.format(...): Python's mini-language, as far as text, integers and fixed decimals go. */
#include "model/text/template/jinja/builtin/jinja_format.h"

#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <stdio.h>
#include <string.h>

#define WIDTH_MAX 1024

struct jinja_format_field {
    char align; /* '<', '>', '^', '=' or 0 */
    struct jinja_string fill;
    char sign; /* '+', ' ' or 0 */
    bool thousands;
    int64_t width;
    int64_t precision; /* -1: not given */
    char type;         /* 0: as str() */
};

static enum status jinja_format_broken(struct jinja_run *run) {
    return jinja_fail(run, STATUS_INVALID, "a format is broken");
}

static size_t jinja_format_read_number(const char *bytes, size_t n, size_t at, int64_t *number) {
    *number = 0;
    for (; at < n && bytes[at] >= '0' && bytes[at] <= '9'; at++)
        if (*number <= WIDTH_MAX)
            *number = *number * 10 + (bytes[at] - '0');
    return at;
}

/* Digits with the field's sign, commas and decimals, NUL-terminated. */
static enum status jinja_format_write_number(struct jinja_run *run,
                                             const struct jinja_format_field *field,
                                             struct jinja_value value, char digits[420]) {
    char plain[400];
    char type = field->type;
    if (value.kind == JINJA_FLOAT || type == 'f' || type == 'F') {
        if (!type || strchr("fF", type) == NULL)
            return jinja_fail(run, STATUS_UNSUPPORTED, "a number's format is not supported");
        snprintf(plain, sizeof plain, "%.*f", (int)(field->precision < 0 ? 6 : field->precision),
                 jinja_double(value));
    } else if (type == 'x' || type == 'X') {
        int64_t integer = jinja_integer(value);
        uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
        snprintf(plain, sizeof plain, type == 'x' ? "%s%llx" : "%s%llX", integer < 0 ? "-" : "",
                 (unsigned long long)magnitude);
    } else if (type == 0 || type == 'd' || type == 'i') {
        snprintf(plain, sizeof plain, "%lld", (long long)jinja_integer(value));
    } else {
        return jinja_fail(run, STATUS_UNSUPPORTED, "a number's format is not supported");
    }
    size_t at = 0;
    const char *from = plain;
    if (*from == '-')
        digits[at++] = *from++;
    else if (field->sign)
        digits[at++] = field->sign;
    size_t whole = strcspn(from, ".");
    for (size_t i = 0; from[i] && at < 418; i++) {
        if (field->thousands && i > 0 && i < whole && (whole - i) % 3 == 0)
            digits[at++] = ',';
        digits[at++] = from[i];
    }
    digits[at] = 0;
    return STATUS_OK;
}

/* Text in its field; precision cuts it. */
static enum status jinja_format_put_field(struct jinja_run *run, struct jinja_text *text,
                                          const struct jinja_format_field *field,
                                          const struct jinja_string *string, char align) {
    size_t n;
    size_t end = string->n;
    int64_t left = 0;
    TRY(jinja_count_chars(run, string, &n));
    if (field->precision >= 0 && (size_t)field->precision < n && align != '>') {
        n = (size_t)field->precision;
        for (end = 0; n > 0; n--)
            end += jinja_char_size(string->bytes + end);
        n = (size_t)field->precision;
    }
    int64_t pad = field->width > (int64_t)n ? field->width - (int64_t)n : 0;
    left = align == '>' || align == '=' ? pad : align == '^' ? pad / 2 : 0;
    size_t sign = align == '=' && end > 0 && strchr("+- ", string->bytes[0]) ? 1 : 0;
    TRY(jinja_put_slice(run, text, string, 0, sign));
    for (int64_t i = 0; i < left; i++)
        TRY(jinja_put_string(run, text, &field->fill));
    TRY(jinja_put_slice(run, text, string, sign, end));
    for (int64_t i = left; i < pad; i++)
        TRY(jinja_put_string(run, text, &field->fill));
    return STATUS_OK;
}

static enum status jinja_format_put_formatted(struct jinja_run *run, struct jinja_text *text,
                                              const struct jinja_format_field *field,
                                              struct jinja_value value) {
    bool is_text = field->type == 0 || field->type == 's' || field->type == 'r';
    struct jinja_string string = {0};
    char digits[420];
    if (field->width > WIDTH_MAX || field->precision > 300)
        return jinja_fail(run, STATUS_LIMIT, "a format is wider than %d", WIDTH_MAX);
    if (!is_text || (field->type == 0 && jinja_is_integral(value) && value.kind != JINJA_BOOL &&
                     (field->sign || field->thousands))) {
        if (!jinja_is_number(value))
            return jinja_fail_kind(run, "a format needs a number", value);
        TRY(jinja_format_write_number(run, field, value, digits));
        string =
            (struct jinja_string){.bytes = digits, .n = strlen(digits), .is_plain = value.is_plain};
        struct jinja_format_field whole = *field;
        whole.precision = -1;
        return jinja_format_put_field(run, text, &whole, &string,
                                      field->align ? field->align : '>');
    }
    struct jinja_text written = {0};
    char align = field->align ? field->align
                 : field->type == 0 && jinja_is_number(value) && value.kind != JINJA_BOOL ? '>'
                                                                                          : '<';
    if (field->type == 'r')
        TRY(jinja_put_repr(run, &written, value, 0));
    else
        TRY(jinja_put_value(run, &written, value));
    TRY(jinja_text_done(run, &written, &value));
    return jinja_format_put_field(run, text, field, value.string, align);
}

/* [[fill]align][sign][0][width][,][.precision][type] */
static enum status jinja_format_read_spec(struct jinja_run *run, struct span spec,
                                          struct jinja_format_field *field) {
    size_t at = 0;
    size_t fill = spec.n > 0 ? jinja_char_size(spec.bytes) : 0;
    *field = (struct jinja_format_field){.fill = {.bytes = " ", .n = 1}, .precision = -1};
    if (spec.n > fill && fill > 0 && spec.bytes[fill] && strchr("<>^=", spec.bytes[fill])) {
        field->fill = (struct jinja_string){.bytes = spec.bytes, .n = fill};
        field->align = spec.bytes[fill];
        at = fill + 1;
    } else if (spec.n > 0 && spec.bytes[0] && strchr("<>^=", spec.bytes[0])) {
        field->align = spec.bytes[at++];
    }
    if (at < spec.n && spec.bytes[at] && strchr("+- ", spec.bytes[at])) {
        field->sign = spec.bytes[at] == '-' ? 0 : spec.bytes[at];
        at++;
    }
    if (at < spec.n && spec.bytes[at] == '0' && !field->align) {
        field->align = '=';
        field->fill = (struct jinja_string){.bytes = "0", .n = 1};
    }
    at = jinja_format_read_number(spec.bytes, spec.n, at, &field->width);
    if (at < spec.n && spec.bytes[at] == ',') {
        field->thousands = true;
        at++;
    }
    if (at < spec.n && spec.bytes[at] == '.')
        at = jinja_format_read_number(spec.bytes, spec.n, at + 1, &field->precision);
    if (at < spec.n)
        field->type = spec.bytes[at++];
    if (at < spec.n || (field->type && !strchr("sdfFxX", field->type)))
        return jinja_fail(run, STATUS_UNSUPPORTED, "a format is not supported");
    return STATUS_OK;
}

/* The value that `{name}`, `{0}` or `{}` names. */
static enum status jinja_format_find_value(struct jinja_run *run, const struct jinja_args *args,
                                           struct span name, size_t *next,
                                           struct jinja_value *value) {
    int64_t index = 0;
    if (name.n == 0) {
        index = (int64_t)(*next)++;
    } else if (jinja_format_read_number(name.bytes, name.n, 0, &index) != name.n) {
        for (size_t i = 0; i < args->n_named; i++) {
            if (!span_is(name, args->named[i].name))
                continue;
            *value = args->named[i].value;
            return STATUS_OK;
        }
        return jinja_fail(run, STATUS_INVALID, "a format names \"%.*s\", which is not given",
                          span_shown(name), name.bytes);
    }
    if ((size_t)index >= args->n)
        return jinja_fail(run, STATUS_INVALID, "a format has too few values");
    *value = args->values[index];
    return STATUS_OK;
}

static enum status jinja_format_put_braces(struct jinja_run *run, struct jinja_text *text,
                                           struct span inside, const struct jinja_args *args,
                                           size_t *next) {
    struct jinja_format_field field;
    struct jinja_value value = {0};
    const char *colon = inside.n ? memchr(inside.bytes, ':', inside.n) : NULL;
    struct span name = {inside.bytes, colon ? (size_t)(colon - inside.bytes) : inside.n};
    struct span spec = colon ? (struct span){colon + 1, inside.n - name.n - 1} : SPAN("");
    bool is_repr = name.n >= 2 && memcmp(name.bytes + name.n - 2, "!r", 2) == 0;
    if (is_repr || (name.n >= 2 && memcmp(name.bytes + name.n - 2, "!s", 2) == 0))
        name.n -= 2;
    TRY(jinja_format_find_value(run, args, name, next, &value));
    TRY(jinja_format_read_spec(run, spec, &field));
    if (is_repr)
        field.type = 'r';
    return jinja_format_put_formatted(run, text, &field, value);
}

enum status jinja_format_method(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_value *bound, const struct jinja_args *args,
                                struct jinja_value *value) {
    const struct jinja_string *format = self.string;
    struct jinja_text text = {0};
    size_t next = 0;
    (void)bound;
    TRY(jinja_charge(run, format->n / 16));
    for (size_t at = 0; at < format->n;) {
        char c = format->bytes[at];
        if ((c == '{' || c == '}') && at + 1 < format->n && format->bytes[at + 1] == c) {
            TRY(jinja_put_slice(run, &text, format, at, at + 1));
            at += 2;
        } else if (c == '{') {
            const char *end = memchr(format->bytes + at, '}', format->n - at);
            if (!end)
                return jinja_format_broken(run);
            size_t n = (size_t)(end - format->bytes) - at - 1;
            TRY(jinja_format_put_braces(run, &text, (struct span){format->bytes + at + 1, n}, args,
                                        &next));
            at += n + 2;
        } else if (c == '}') {
            return jinja_format_broken(run);
        } else {
            size_t from = at;
            while (at < format->n && format->bytes[at] != '{' && format->bytes[at] != '}')
                at++;
            TRY(jinja_put_slice(run, &text, format, from, at));
        }
    }
    TRY(jinja_text_done(run, &text, value));
    value->is_safe = self.is_safe;
    return STATUS_OK;
}
