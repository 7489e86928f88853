/* Filters that give text or numbers. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_get.h"
#include "model/text/template/jinja/builtin/jinja_string.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The subject as a string, which keeps what `safe` said. */
static enum status jinja_soft_string(struct jinja_run *run, struct jinja_value *self) {
    const struct jinja_string *string;
    bool is_safe = jinja_is_string(*self) && self->is_safe;
    TRY(jinja_to_string(run, *self, &string));
    *self = jinja_text_value(string);
    self->is_safe = is_safe;
    return STATUS_OK;
}

JINJA_BUILTIN(string) {
    TRY(jinja_soft_string(run, &self));
    *value = self;
    return STATUS_OK;
}

JINJA_BUILTIN(safe) {
    TRY(jinja_soft_string(run, &self));
    self.is_safe = true;
    *value = self;
    return STATUS_OK;
}

#define CASE(name, change)                                                                         \
    JINJA_BUILTIN(name) {                                                                          \
        TRY(jinja_soft_string(run, &self));                                                        \
        return jinja_change_case(run, self, change, value);                                        \
    }
CASE(upper, JINJA_UPPER)
CASE(lower, JINJA_LOWER)
CASE(capitalize, JINJA_CAPITALIZE)

/* Words begin behind blanks, - ( { [ < here, unlike in the method of that name. */
JINJA_BUILTIN(title) {
    struct jinja_text text = {0};
    struct jinja_value part;
    TRY(jinja_soft_string(run, &self));
    const struct jinja_string *string = self.string;
    for (size_t at = 0; at < string->n;) {
        size_t end = at;
        bool is_between = true;
        while (end < string->n) {
            uint32_t point = jinja_char_at(string->bytes + end);
            is_between =
                jinja_is_space(point) || (point < 0x80 && point && strchr("-({[<", (int)point));
            if (is_between && end > at)
                break;
            end += jinja_char_size(string->bytes + end);
            if (is_between)
                break;
        }
        TRY(jinja_string_slice(run, string, at, end, &part));
        TRY(jinja_change_case(run, part, JINJA_CAPITALIZE, &part));
        TRY(jinja_put_string(run, &text, part.string));
        at = end;
    }
    return jinja_text_done(run, &text, value);
}

JINJA_BUILTIN(trim) {
    TRY(jinja_soft_string(run, &self));
    return jinja_strip(run, self, bound[0], JINJA_LEFT | JINJA_RIGHT, value);
}

JINJA_BUILTIN(replace) {
    struct jinja_value old = bound[0];
    struct jinja_value new = bound[1];
    TRY(jinja_soft_string(run, &self));
    TRY(jinja_soft_string(run, &old));
    TRY(jinja_soft_string(run, &new));
    self.is_safe = false;
    return jinja_replace(run, self, old, new, jinja_integer_or(bound[2], -1), value);
}

JINJA_BUILTIN(indent) {
    struct jinja_value lines;
    struct jinja_value indent = bound[0];
    struct jinja_text text = {0};
    bool first = jinja_true(bound[1]);
    bool blank = jinja_true(bound[2]);
    if (!jinja_is_string(self))
        return jinja_fail_kind(run, "indent takes a string", self);
    if (!jinja_is_string(indent)) {
        int64_t width = jinja_integer_or(indent, 4);
        if (jinja_given(indent) && !jinja_is_integral(indent))
            return jinja_fail(run, STATUS_INVALID, "indent takes a width or a string");
        if (width > 256)
            return jinja_fail(run, STATUS_LIMIT, "an indent is wider than 256");
        for (int64_t i = 0; i < width; i++)
            TRY(jinja_puts(run, &text, " "));
        TRY(jinja_text_done(run, &text, &indent));
    }
    TRY(jinja_put_string(run, &text, self.string));
    TRY(jinja_puts(run, &text, "\n"));
    TRY(jinja_text_done(run, &text, &lines));
    TRY(jinja_split_lines(run, lines, false, &lines));
    for (size_t i = 0; i < lines.list->n; i++) {
        const struct jinja_string *line = lines.list->items[i].string;
        if (i > 0)
            TRY(jinja_puts(run, &text, "\n"));
        if (i == 0 ? first : blank || line->n > 0)
            TRY(jinja_put_string(run, &text, indent.string));
        TRY(jinja_put_string(run, &text, line));
    }
    bool is_safe = self.is_safe;
    TRY(jinja_text_done(run, &text, value));
    value->is_safe = is_safe;
    return STATUS_OK;
}

JINJA_BUILTIN(join) {
    const struct jinja_list *items;
    const struct jinja_string *between = NULL;
    struct jinja_text text = {0};
    TRY(jinja_items_of(run, self, &items));
    if (jinja_given(bound[0]))
        TRY(jinja_to_string(run, bound[0], &between));
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item = items->items[i];
        TRY(jinja_charge(run, 1));
        if (jinja_is_some(bound[1]))
            TRY(jinja_get_path(run, item, bound[1], &item));
        if (i > 0 && between)
            TRY(jinja_put_string(run, &text, between));
        TRY(jinja_put_value(run, &text, item));
    }
    return jinja_text_done(run, &text, value);
}

JINJA_BUILTIN(length) {
    size_t n;
    TRY(jinja_length(run, self, &n));
    *value = jinja_int((int64_t)n);
    return STATUS_OK;
}

/* ---- numbers ---- */

/* A string as Python's float() reads it; false when it is not a number. */
static bool jinja_read_float(const struct jinja_string *string, double *number) {
    char digits[64];
    size_t from = jinja_skip_space(string->bytes, string->n, 0);
    size_t to = jinja_trim_space(string->bytes, string->n);
    char *end;
    if (to <= from || to - from >= sizeof digits)
        return false;
    memcpy(digits, string->bytes + from, to - from);
    digits[to - from] = 0;
    if (strpbrk(digits, "xXpP") || strlen(digits) != to - from)
        return false;
    *number = strtod(digits, &end);
    return *end == 0;
}

/* A string as Python's int() reads it. */
static bool jinja_read_int(const struct jinja_string *string, int base, int64_t *number) {
    char digits[80];
    size_t n = 0;
    size_t from = jinja_skip_space(string->bytes, string->n, 0);
    size_t to = jinja_trim_space(string->bytes, string->n);
    char *end;
    for (size_t i = from; i < to; i++) {
        bool is_between =
            string->bytes[i] == '_' && n > 0 && i + 1 < to && string->bytes[i + 1] != '_';
        if (n == sizeof digits - 1 || string->bytes[i] == 0)
            return false;
        if (!is_between)
            digits[n++] = string->bytes[i];
    }
    digits[n] = 0;
    if (n == 0 || jinja_is_space((unsigned char)digits[0]))
        return false;
    errno = 0;
    *number = strtoll(digits, &end, base);
    return *end == 0 && errno == 0 && end != digits;
}

static bool jinja_float_fits(double number) {
    return number > -9.2e18 && number < 9.2e18;
}

JINJA_BUILTIN(to_int) {
    struct jinja_value otherwise = jinja_given(bound[0]) ? bound[0] : jinja_int(0);
    int64_t base = jinja_integer_or(bound[1], 10);
    int64_t number;
    double real;
    *value = otherwise;
    if (self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (base < 2 || base > 36)
        return jinja_fail(run, STATUS_INVALID, "a base is from 2 to 36");
    if (jinja_is_integral(self)) {
        *value = jinja_int(jinja_integer(self));
    } else if (self.kind == JINJA_FLOAT) {
        if (jinja_float_fits(self.number))
            *value = jinja_int((int64_t)self.number);
        else if (isfinite(self.number))
            return jinja_fail(run, STATUS_LIMIT, "a number has more than 64 bits");
        else if (isinf(self.number))
            return jinja_fail(run, STATUS_INVALID, "an infinite number is not an integer");
    } else if (jinja_is_string(self)) {
        if (jinja_read_int(self.string, (int)base, &number))
            *value = jinja_int(number);
        else if (jinja_read_float(self.string, &real) && isfinite(real) && jinja_float_fits(real))
            *value = jinja_int((int64_t)real);
        value->is_plain = value->kind == JINJA_INT && jinja_any_plain(self.string);
    }
    value->is_plain |= self.is_plain;
    return STATUS_OK;
}

JINJA_BUILTIN(to_float) {
    double real;
    *value = jinja_given(bound[0]) ? bound[0] : jinja_float(0);
    if (self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (jinja_is_number(self))
        *value = jinja_float(jinja_double(self));
    else if (jinja_is_string(self) && jinja_read_float(self.string, &real))
        *value = jinja_float(real);
    value->is_plain = self.is_plain || (jinja_is_string(self) && jinja_any_plain(self.string));
    return STATUS_OK;
}

const struct jinja_builtin jinja_text_filters[] = {
    {"trim", {"chars"}, 0, JINJA_NAMED, trim},
    {"length", {0}, 0, JINJA_NAMED, length},
    {"count", {0}, 0, JINJA_NAMED, length},
    {"string", {0}, 0, JINJA_NAMED, string},
    {"safe", {0}, 0, JINJA_NAMED, safe},
    {"join", {"d", "attribute"}, 0, JINJA_NAMED, join},
    {"replace", {"old", "new", "count"}, 2, JINJA_NAMED, replace},
    {"upper", {0}, 0, JINJA_NAMED, upper},
    {"lower", {0}, 0, JINJA_NAMED, lower},
    {"title", {0}, 0, JINJA_NAMED, title},
    {"capitalize", {0}, 0, JINJA_NAMED, capitalize},
    {"indent", {"width", "first", "blank"}, 0, JINJA_NAMED, indent},
    {"int", {"default", "base"}, 0, JINJA_NAMED, to_int},
    {"float", {"default"}, 0, JINJA_NAMED, to_float},
    {0},
};
