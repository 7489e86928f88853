#include "model/text/template/jinja/value/jinja_text.h"

#include "base/utf8.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

static enum status jinja_text_add_mark(struct jinja_run *run, struct jinja_text *text, size_t end,
                                       bool is_plain) {
    struct jinja_mark *last = text->n_marks ? &text->marks[text->n_marks - 1] : NULL;
    if (last && last->is_plain == is_plain) {
        last->end = end;
        return STATUS_OK;
    }
    TRY(jinja_grow(run, &text->marks, text->n_marks, &text->marks_size, sizeof *text->marks));
    text->marks[text->n_marks++] = (struct jinja_mark){end, is_plain};
    return STATUS_OK;
}

enum status jinja_put(struct jinja_run *run, struct jinja_text *text, const char *bytes, size_t n,
                      bool is_plain) {
    if (n == 0)
        return STATUS_OK;
    if (n > run->output_max || text->n > run->output_max - n)
        return jinja_fail(run, STATUS_LIMIT, "the text has more than %zu bytes", run->output_max);
    if (n > 4096)
        TRY(jinja_charge(run, n / 256));
    if (text->size - text->n < n) {
        size_t size = text->size ? 2 * text->size : 64;
        char *grown;
        while (size - text->n < n)
            size *= 2;
        TRY(jinja_alloc(run, size, 1, &grown));
        if (text->n > 0)
            memcpy(grown, text->bytes, text->n);
        text->bytes = grown;
        text->size = size;
    }
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    return jinja_text_add_mark(run, text, text->n, is_plain);
}

enum status jinja_puts(struct jinja_run *run, struct jinja_text *text, const char *string) {
    return jinja_put(run, text, string, strlen(string), false);
}

/* The first mark that ends behind `at`. */
static size_t jinja_text_mark_of(const struct jinja_string *string, size_t at) {
    size_t low = 0;
    size_t high = string->n_marks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (string->marks[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

enum status jinja_put_slice(struct jinja_run *run, struct jinja_text *text,
                            const struct jinja_string *string, size_t from, size_t to) {
    if (from >= to)
        return STATUS_OK;
    if (!string->marks)
        return jinja_put(run, text, string->bytes + from, to - from, string->is_plain);
    for (size_t i = jinja_text_mark_of(string, from); from < to; i++) {
        size_t end = string->marks[i].end < to ? string->marks[i].end : to;
        TRY(jinja_put(run, text, string->bytes + from, end - from, string->marks[i].is_plain));
        from = end;
    }
    return STATUS_OK;
}

enum status jinja_put_string(struct jinja_run *run, struct jinja_text *text,
                             const struct jinja_string *string) {
    return jinja_put_slice(run, text, string, 0, string->n);
}

enum status jinja_put_escaped(struct jinja_run *run, struct jinja_text *text,
                              const struct jinja_string *string, jinja_escape *escape,
                              const void *how) {
    size_t from = 0;
    size_t size;
    for (size_t at = 0; at < string->n; at += size) {
        char out[16] = "";
        size = jinja_char_size(string->bytes + at);
        escape(jinja_char_at(string->bytes + at), how, out);
        if (!out[0])
            continue;
        TRY(jinja_put_slice(run, text, string, from, at));
        TRY(jinja_put(run, text, out, strlen(out), jinja_plain_at(string, at)));
        from = at + size;
    }
    return jinja_put_slice(run, text, string, from, string->n);
}

void jinja_escape_html(uint32_t point, const void *how, char out[16]) {
    (void)how;
    strcpy(out, point == '&'    ? "&amp;"
                : point == '<'  ? "&lt;"
                : point == '>'  ? "&gt;"
                : point == '\'' ? "&#39;"
                : point == '"'  ? "&#34;"
                                : "");
}

static enum status jinja_new_string(struct jinja_run *run, struct jinja_string made,
                                    struct jinja_value *value) {
    struct jinja_string *string;
    TRY(jinja_alloc(run, 1, sizeof *string, &string));
    *string = made;
    *value = jinja_text_value(string);
    return STATUS_OK;
}

enum status jinja_text_done(struct jinja_run *run, struct jinja_text *text,
                            struct jinja_value *value) {
    struct jinja_string made = {.bytes = text->n ? text->bytes : "", .n = text->n};
    if (text->n_marks == 1) {
        made.is_plain = text->marks[0].is_plain;
    } else if (text->n_marks > 1) {
        made.marks = text->marks;
        made.n_marks = text->n_marks;
    }
    *text = (struct jinja_text){0};
    return jinja_new_string(run, made, value);
}

enum status jinja_string_new(struct jinja_run *run, const char *bytes, size_t n, bool is_plain,
                             struct jinja_value *value) {
    return jinja_new_string(
        run, (struct jinja_string){.bytes = bytes, .n = n, .is_plain = is_plain}, value);
}

enum status jinja_string_slice(struct jinja_run *run, const struct jinja_string *string,
                               size_t from, size_t to, struct jinja_value *value) {
    if (from >= to)
        return jinja_string_new(run, "", 0, false, value);
    struct jinja_string made = {.bytes = string->bytes + from, .n = to - from};
    size_t first = jinja_text_mark_of(string, from);
    if (!string->marks) {
        made.is_plain = string->is_plain;
        return jinja_new_string(run, made, value);
    }
    if (string->marks[first].end >= to) {
        made.is_plain = string->marks[first].is_plain;
        return jinja_new_string(run, made, value);
    }
    size_t n = jinja_text_mark_of(string, to - 1) - first + 1;
    struct jinja_mark *marks;
    TRY(jinja_alloc(run, n, sizeof *marks, &marks));
    for (size_t i = 0; i < n; i++) {
        marks[i] = string->marks[first + i];
        marks[i].end = (marks[i].end < to ? marks[i].end : to) - from;
    }
    made.marks = marks;
    made.n_marks = n;
    return jinja_new_string(run, made, value);
}

bool jinja_plain_at(const struct jinja_string *string, size_t at) {
    if (at >= string->n)
        return false;
    return string->marks ? string->marks[jinja_text_mark_of(string, at)].is_plain
                         : string->is_plain;
}

bool jinja_any_plain(const struct jinja_string *string) {
    return string->marks ? true : string->n > 0 && string->is_plain;
}

enum status jinja_count_chars(struct jinja_run *run, const struct jinja_string *string, size_t *n) {
    size_t count = 0;
    TRY(jinja_charge(run, string->n / 256));
    for (size_t i = 0; i < string->n; i++)
        count += ((unsigned char)string->bytes[i] & 0xc0) != 0x80;
    *n = count;
    return STATUS_OK;
}

uint32_t jinja_char_at(const char *bytes) {
    uint32_t point = 0;
    utf8_decode(bytes, jinja_char_size(bytes), &point);
    return point;
}

bool jinja_is_space(uint32_t point) {
    return (point >= 0x09 && point <= 0x0d) || (point >= 0x1c && point <= 0x20) || point == 0x85 ||
           point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) ||
           point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f ||
           point == 0x3000;
}

size_t jinja_skip_space(const char *bytes, size_t n, size_t from) {
    while (from < n && jinja_is_space(jinja_char_at(bytes + from)))
        from += jinja_char_size(bytes + from);
    return from;
}

size_t jinja_trim_space(const char *bytes, size_t n) {
    while (n > 0) {
        size_t at = n - 1;
        while (at > 0 && ((unsigned char)bytes[at] & 0xc0) == 0x80)
            at--;
        if (!jinja_is_space(jinja_char_at(bytes + at)))
            break;
        n = at;
    }
    return n;
}
