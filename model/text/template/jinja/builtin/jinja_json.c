/* json.dumps() as Python writes it, with the settings that templates give: the filter tojson. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/value/jinja_compare.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct style {
    bool ensure_ascii;
    bool sort_keys;
    bool has_indent;
    struct jinja_string indent;                /* one level of it */
    const struct jinja_string *item_separator; /* NULL: as json.dumps() */
    const struct jinja_string *key_separator;
};

/* STATUS_INVALID for what JSON cannot say. */
static enum status jinja_put_json(struct jinja_run *run, struct jinja_text *text,
                                  const struct style *style, struct jinja_value value,
                                  unsigned depth);

static void jinja_escape_json(uint32_t point, const void *how, char out[16]) {
    const struct style *style = how;
    static const char simple[] = "\"\\\n\r\t\b\f";
    const char *place = point < 0x80 && point ? strchr(simple, (int)point) : NULL;
    if (place)
        snprintf(out, 16, "\\%c", "\"\\nrtbf"[place - simple]);
    else if (point < 0x20 || (style->ensure_ascii && point >= 0x7f && point < 0x10000))
        snprintf(out, 16, "\\u%04x", point);
    else if (style->ensure_ascii && point >= 0x10000)
        snprintf(out, 16, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                 0xdc00 + ((point - 0x10000) & 0x3ff));
}

static enum status jinja_put_json_string(struct jinja_run *run, struct jinja_text *text,
                                         const struct style *style,
                                         const struct jinja_string *string) {
    TRY(jinja_puts(run, text, "\""));
    TRY(jinja_put_escaped(run, text, string, jinja_escape_json, style));
    return jinja_puts(run, text, "\"");
}

static enum status jinja_json_put_line(struct jinja_run *run, struct jinja_text *text,
                                       const struct style *style, unsigned depth) {
    if (!style->has_indent)
        return STATUS_OK;
    TRY(jinja_puts(run, text, "\n"));
    for (unsigned i = 0; i < depth; i++)
        TRY(jinja_put_string(run, text, &style->indent));
    return STATUS_OK;
}

static enum status jinja_json_put_separator(struct jinja_run *run, struct jinja_text *text,
                                            const struct jinja_string *separator,
                                            const char *otherwise) {
    return separator ? jinja_put_string(run, text, separator) : jinja_puts(run, text, otherwise);
}

static enum status jinja_json_put_between(struct jinja_run *run, struct jinja_text *text,
                                          const struct style *style, bool is_first,
                                          unsigned depth) {
    if (!is_first)
        TRY(jinja_json_put_separator(run, text, style->item_separator,
                                     style->has_indent ? "," : ", "));
    return jinja_json_put_line(run, text, style, depth);
}

static enum status jinja_put_json_list(struct jinja_run *run, struct jinja_text *text,
                                       const struct style *style, const struct jinja_list *list,
                                       unsigned depth) {
    if (list->n == 0)
        return jinja_puts(run, text, "[]");
    TRY(jinja_puts(run, text, "["));
    for (size_t i = 0; i < list->n; i++) {
        TRY(jinja_json_put_between(run, text, style, i == 0, depth + 1));
        TRY(jinja_put_json(run, text, style, list->items[i], depth + 1));
    }
    TRY(jinja_json_put_line(run, text, style, depth));
    return jinja_puts(run, text, "]");
}

/* Keys become texts as in Python: True is "true", 1 is "1". */
static enum status jinja_put_json_key(struct jinja_run *run, struct jinja_text *text,
                                      const struct style *style, struct jinja_value key) {
    struct jinja_text written = {0};
    if (jinja_is_string(key))
        return jinja_put_json_string(run, text, style, key.string);
    if (!jinja_is_number(key) && key.kind != JINJA_NONE)
        return jinja_fail(run, STATUS_INVALID, "%s cannot be a key in JSON", jinja_type_name(key));
    TRY(jinja_put_json(run, &written, style, key, 0));
    TRY(jinja_text_done(run, &written, &key));
    return jinja_put_json_string(run, text, style, key.string);
}

static enum status jinja_put_json_dict(struct jinja_run *run, struct jinja_text *text,
                                       const struct style *style, const struct jinja_dict *dict,
                                       unsigned depth) {
    size_t *order = NULL;
    if (dict->n == 0)
        return jinja_puts(run, text, "{}");
    if (style->sort_keys)
        TRY(jinja_sort(run, dict->keys, dict->n, false, &order));
    TRY(jinja_puts(run, text, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = order ? order[i] : i;
        TRY(jinja_json_put_between(run, text, style, i == 0, depth + 1));
        TRY(jinja_put_json_key(run, text, style, dict->keys[at]));
        TRY(jinja_json_put_separator(run, text, style->key_separator, ": "));
        TRY(jinja_put_json(run, text, style, dict->values[at], depth + 1));
    }
    TRY(jinja_json_put_line(run, text, style, depth));
    return jinja_puts(run, text, "}");
}

static enum status jinja_put_json_float(struct jinja_run *run, struct jinja_text *text,
                                        struct jinja_value value) {
    char number[32];
    if (isnan(value.number))
        return jinja_puts(run, text, "NaN");
    if (isinf(value.number))
        return jinja_puts(run, text, value.number < 0 ? "-Infinity" : "Infinity");
    jinja_float_text(value.number, number);
    return jinja_put(run, text, number, strlen(number), value.is_plain);
}

static enum status jinja_put_json(struct jinja_run *run, struct jinja_text *text,
                                  const struct style *style, struct jinja_value value,
                                  unsigned depth) {
    TRY(jinja_charge(run, 1));
    if (depth > JINJA_VALUE_DEPTH_MAX)
        return jinja_fail(run, STATUS_LIMIT, "a value is nested more than %u deep",
                          JINJA_VALUE_DEPTH_MAX);
    switch (value.kind) {
    case JINJA_NONE:
        return jinja_puts(run, text, "null");
    case JINJA_BOOL:
        return jinja_puts(run, text, value.boolean ? "true" : "false");
    case JINJA_INT:
        return jinja_put_value(run, text, value);
    case JINJA_FLOAT:
        return jinja_put_json_float(run, text, value);
    case JINJA_STRING:
        return jinja_put_json_string(run, text, style, value.string);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return jinja_put_json_list(run, text, style, value.list, depth);
    case JINJA_DICT:
        return jinja_put_json_dict(run, text, style, value.dict, depth);
    default:
        return jinja_fail(run, STATUS_INVALID, "%s cannot be written as JSON",
                          jinja_type_name(value));
    }
}

static enum status jinja_read_separators(struct jinja_run *run, struct jinja_value given,
                                         struct style *style) {
    if (!jinja_is_some(given))
        return STATUS_OK;
    if ((given.kind != JINJA_TUPLE && given.kind != JINJA_LIST) || given.list->n != 2 ||
        !jinja_is_string(given.list->items[0]) || !jinja_is_string(given.list->items[1]))
        return jinja_fail(run, STATUS_INVALID, "separators are two strings");
    style->item_separator = given.list->items[0].string;
    style->key_separator = given.list->items[1].string;
    return STATUS_OK;
}

/* tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False), as transformers has
 * it: no HTML escapes. */
JINJA_BUILTIN(tojson) {
    struct style style = {.ensure_ascii = jinja_true(bound[0]), .sort_keys = jinja_true(bound[3])};
    struct jinja_text text = {0};
    struct jinja_value indent;
    TRY(jinja_read_separators(run, bound[2], &style));
    if (jinja_is_string(bound[1])) {
        style.has_indent = true;
        style.indent = *bound[1].string;
    } else if (jinja_is_integral(bound[1])) {
        int64_t width = jinja_integer(bound[1]);
        if (width > 64)
            return jinja_fail(run, STATUS_LIMIT, "an indent is wider than 64");
        style.has_indent = true;
        for (int64_t i = 0; i < width; i++)
            TRY(jinja_puts(run, &text, " "));
        TRY(jinja_text_done(run, &text, &indent));
        style.indent = *indent.string;
    } else if (jinja_is_some(bound[1])) {
        return jinja_fail(run, STATUS_INVALID, "tojson's indent is a width or a string");
    }
    TRY(jinja_put_json(run, &text, &style, self, 0));
    return jinja_text_done(run, &text, value);
}

const struct jinja_builtin jinja_json_filters[] = {
    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, JINJA_NAMED, tojson},
    {0},
};
