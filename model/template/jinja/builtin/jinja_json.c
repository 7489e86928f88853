/* json.dumps() as Python writes it, with the settings that templates give. */
#include "model/template/jinja/builtin/jinja_json.h"

#include "model/template/jinja/value/jinja_compare.h"
#include "model/template/jinja/value/jinja_run.h"
#include "model/template/jinja/value/jinja_str.h"
#include "model/template/jinja/value/jinja_text.h"
#include "model/template/jinja/value/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status put_json_string(struct jinja_run *run, struct jinja_text *text,
                                   const struct jinja_json_style *style,
                                   const struct jinja_string *string) {
    size_t from = 0;
    TRY(jinja_puts(run, text, "\""));
    for (size_t at = 0; at < string->n;) {
        char escape[16] = "";
        size_t size = jinja_char_size(string->bytes + at);
        uint32_t point = jinja_char_at(string->bytes + at);
        const char *place = point < 0x80 && point ? strchr("\"\\\n\r\t\b\f", (int)point) : NULL;
        if (place)
            snprintf(escape, sizeof escape, "\\%c",
                     "\"\\nrtbf"[place - strchr("\"\\\n\r\t\b\f", '"')]);
        else if (point < 0x20 || (style->ensure_ascii && point >= 0x7f && point < 0x10000))
            snprintf(escape, sizeof escape, "\\u%04x", point);
        else if (style->ensure_ascii && point >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                     0xdc00 + ((point - 0x10000) & 0x3ff));
        if (escape[0]) {
            TRY(jinja_put_slice(run, text, string, from, at));
            TRY(jinja_put(run, text, escape, strlen(escape), jinja_plain_at(string, at)));
            from = at + size;
        }
        at += size;
    }
    TRY(jinja_put_slice(run, text, string, from, string->n));
    return jinja_puts(run, text, "\"");
}

static enum status put_line(struct jinja_run *run, struct jinja_text *text,
                            const struct jinja_json_style *style, unsigned depth) {
    if (!style->has_indent)
        return STATUS_OK;
    TRY(jinja_puts(run, text, "\n"));
    for (unsigned i = 0; i < depth; i++)
        TRY(jinja_put_string(run, text, &style->indent));
    return STATUS_OK;
}

static enum status put_separator(struct jinja_run *run, struct jinja_text *text,
                                 const struct jinja_string *separator, const char *otherwise) {
    return separator ? jinja_put_string(run, text, separator) : jinja_puts(run, text, otherwise);
}

static enum status put_between(struct jinja_run *run, struct jinja_text *text,
                               const struct jinja_json_style *style, bool is_first,
                               unsigned depth) {
    if (!is_first)
        TRY(put_separator(run, text, style->item_separator, style->has_indent ? "," : ", "));
    return put_line(run, text, style, depth);
}

static enum status put_json_list(struct jinja_run *run, struct jinja_text *text,
                                 const struct jinja_json_style *style,
                                 const struct jinja_list *list, unsigned depth) {
    if (list->n == 0)
        return jinja_puts(run, text, "[]");
    TRY(jinja_puts(run, text, "["));
    for (size_t i = 0; i < list->n; i++) {
        TRY(put_between(run, text, style, i == 0, depth + 1));
        TRY(jinja_put_json(run, text, style, list->items[i], depth + 1));
    }
    TRY(put_line(run, text, style, depth));
    return jinja_puts(run, text, "]");
}

/* Keys become texts as in Python: True is "true", 1 is "1". */
static enum status put_json_key(struct jinja_run *run, struct jinja_text *text,
                                const struct jinja_json_style *style, struct jinja_value key) {
    struct jinja_text written = {0};
    if (jinja_is_string(key))
        return put_json_string(run, text, style, key.string);
    if (!jinja_is_number(key) && key.kind != JINJA_NONE)
        return jinja_fail(run, STATUS_INVALID, "%s cannot be a key in JSON", jinja_type_name(key));
    TRY(jinja_put_json(run, &written, style, key, 0));
    TRY(jinja_text_done(run, &written, &key));
    return put_json_string(run, text, style, key.string);
}

/* Indexes of a dict's keys in order of their texts: an insertion sort would be quadratic. */
static enum status sort_keys(struct jinja_run *run, const struct jinja_dict *dict, size_t *order) {
    size_t *other;
    TRY(jinja_alloc(run, dict->n, sizeof *other, &other));
    for (size_t i = 0; i < dict->n; i++)
        order[i] = i;
    for (size_t width = 1; width < dict->n; width *= 2) {
        for (size_t begin = 0; begin < dict->n; begin += 2 * width) {
            size_t middle = begin + width < dict->n ? begin + width : dict->n;
            size_t end = begin + 2 * width < dict->n ? begin + 2 * width : dict->n;
            size_t a = begin;
            size_t b = middle;
            for (size_t i = begin; i < end; i++) {
                int above = 0;
                if (a < middle && b < end)
                    TRY(jinja_order(run, dict->keys[order[a]], dict->keys[order[b]], &above));
                other[i] = b == end || (a < middle && above <= 0) ? order[a++] : order[b++];
            }
        }
        memcpy(order, other, dict->n * sizeof *order);
    }
    return STATUS_OK;
}

static enum status put_json_dict(struct jinja_run *run, struct jinja_text *text,
                                 const struct jinja_json_style *style,
                                 const struct jinja_dict *dict, unsigned depth) {
    size_t *order = NULL;
    if (dict->n == 0)
        return jinja_puts(run, text, "{}");
    if (style->sort_keys) {
        TRY(jinja_alloc(run, dict->n, sizeof *order, &order));
        TRY(sort_keys(run, dict, order));
    }
    TRY(jinja_puts(run, text, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = order ? order[i] : i;
        TRY(put_between(run, text, style, i == 0, depth + 1));
        TRY(put_json_key(run, text, style, dict->keys[at]));
        TRY(put_separator(run, text, style->key_separator, ": "));
        TRY(jinja_put_json(run, text, style, dict->values[at], depth + 1));
    }
    TRY(put_line(run, text, style, depth));
    return jinja_puts(run, text, "}");
}

static enum status put_json_float(struct jinja_run *run, struct jinja_text *text,
                                  struct jinja_value value) {
    char number[32];
    if (isnan(value.number))
        return jinja_puts(run, text, "NaN");
    if (isinf(value.number))
        return jinja_puts(run, text, value.number < 0 ? "-Infinity" : "Infinity");
    jinja_float_text(value.number, number);
    return jinja_put(run, text, number, strlen(number), value.is_plain);
}

enum status jinja_put_json(struct jinja_run *run, struct jinja_text *text,
                           const struct jinja_json_style *style, struct jinja_value value,
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
        return put_json_float(run, text, value);
    case JINJA_STRING:
        return put_json_string(run, text, style, value.string);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return put_json_list(run, text, style, value.list, depth);
    case JINJA_DICT:
        return put_json_dict(run, text, style, value.dict, depth);
    default:
        return jinja_fail(run, STATUS_INVALID, "%s cannot be written as JSON",
                          jinja_type_name(value));
    }
}
