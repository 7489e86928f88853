#include "router/api/json_put.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that can be copied as they are: printable ASCII without quote and backslash. */
static inline bool json_is_plain_byte(unsigned char c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void json_put_escape(struct buf *out, unsigned char c) {
    static const char hex[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    size_t n = 2;
    switch (c) {
    case '"':
    case '\\':
        escape[1] = (char)c;
        break;
    case '\n':
        escape[1] = 'n';
        break;
    case '\r':
        escape[1] = 'r';
        break;
    case '\t':
        escape[1] = 't';
        break;
    default:
        n = 6;
    }
    buf_append(out, escape, n);
}

/* The length of the longest part of a character that begins at bytes[0] and cannot go on: that much
 * becomes one U+FFFD (Unicode 15, section 3.9). At least 1. */
static size_t json_bad_utf8_length(const char *bytes, size_t n) {
    for (size_t length = n < 3 ? n : 3; length > 1; length--)
        if (utf8_cut_tail(bytes, length) == length)
            return length;
    return 1;
}

void json_put_text(struct buf *out, const char *bytes, size_t n) {
    size_t i = 0;
    while (i < n) {
        size_t run = i;
        while (run < n && json_is_plain_byte((unsigned char)bytes[run]))
            run++;
        if (run > i) {
            buf_append(out, bytes + i, run - i);
            i = run;
            continue;
        }
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x80) {
            json_put_escape(out, c);
            i++;
            continue;
        }
        uint32_t point;
        unsigned length = utf8_decode(bytes + i, n - i, &point);
        if (length > 0) {
            buf_append(out, bytes + i, length);
            i += length;
        } else {
            buf_append(out, "\xef\xbf\xbd", 3);
            i += json_bad_utf8_length(bytes + i, n - i);
        }
    }
}

void json_put_string(struct buf *out, const char *bytes, size_t n) {
    buf_putc(out, '"');
    json_put_text(out, bytes, n);
    buf_putc(out, '"');
}

void json_put_string_or_null(struct buf *out, const char *text) {
    if (text)
        json_put_string(out, text, strlen(text));
    else
        buf_append(out, "null", 4);
}

void json_put_int(struct buf *out, int64_t value) {
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        *--at = '-';
    buf_append(out, at, (size_t)(digits + sizeof digits - at));
}

void json_put_logprob(struct buf *out, float value) {
    if (!(value > JSON_PUT_LOGPROB_MIN)) /* NaN too */
        value = JSON_PUT_LOGPROB_MIN;
    if (value > 0)
        value = 0; /* rounding: a probability is at most one */
    char text[32];
    int n = snprintf(text, sizeof text, "%.9g", (double)value);
    buf_append(out, text, (size_t)n);
    if (!strpbrk(text, ".e"))
        buf_append(out, ".0", 2); /* stays a real for clients that tell the two apart */
}

void json_put_ids(struct buf *out, const uint32_t *ids, size_t n) {
    buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        json_put_int(out, ids[i]);
        buf_putc(out, ',');
    }
    json_put_close(out, ']');
}

void json_put_value(struct buf *out, const json_t *value) {
    size_t flags = JSON_ENCODE_ANY | JSON_COMPACT, n = json_dumpb(value, NULL, 0, flags);
    char *text = malloc(n > 0 ? n : 1);
    if (text && n > 0 && json_dumpb(value, text, n, flags) == n)
        buf_append(out, text, n);
    else
        out->failed = true;
    free(text);
}

void json_put_bytes(struct buf *out, const char *bytes, size_t n) {
    buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        json_put_int(out, (unsigned char)bytes[i]);
        buf_putc(out, ',');
    }
    json_put_close(out, ']');
}

void json_put_member(struct buf *out, const char *name, const char *value) {
    buf_printf(out, "\"%s\":", name);
    json_put_string(out, value, strlen(value));
    buf_putc(out, ',');
}

void json_put_number(struct buf *out, const char *name, uint64_t value) {
    buf_printf(out, "\"%s\":%llu,", name, (unsigned long long)value);
}

void json_put_key(struct buf *out, const char *name) {
    buf_putc(out, ',');
    json_put_string(out, name, strlen(name));
    buf_putc(out, ':');
}

void json_put_members(struct buf *out, const json_t *object, const struct json_put_copy *members,
                      size_t n) {
    const char *comma = "";
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, members[i].name);
        if (!value || json_is_null(value))
            continue;
        buf_printf(out, "%s\"%s\":", comma, members[i].as ? members[i].as : members[i].name);
        json_put_value(out, value);
        comma = ",";
    }
}

void json_put_close(struct buf *out, char bracket) {
    if (buf_status(out) != STATUS_OK)
        return;
    if (out->data[out->n - 1] == ',')
        out->data[out->n - 1] = bracket;
    else
        buf_putc(out, bracket);
}
