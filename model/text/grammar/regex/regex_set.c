/* Characters, escapes and sets of regular expressions. */
#include "base/hex.h"
#include "base/utf8.h"
#include "model/text/grammar/regex/regex_reader.h"

static enum status regex_set_read_hex(struct reader *reader, unsigned n_min, unsigned n_max,
                                      uint32_t *point) {
    uint32_t value = 0;
    unsigned n = 0;
    for (; n < n_max && !reader_at_end(reader); n++, reader->at++) {
        int digit = hex_value(reader_peek(reader));
        if (digit < 0)
            break;
        value = value * 16 + (uint32_t)digit;
    }
    if (n < n_min || value > 0x10ffff)
        return reader_fail(reader, STATUS_INVALID, "not a hexadecimal code point");
    *point = value;
    return STATUS_OK;
}

/* \u1234, \u{1f600}, and two halves of a surrogate pair. */
static enum status regex_set_read_unicode(struct reader *reader, uint32_t *point) {
    if (reader_take(reader, "{")) {
        TRY(regex_set_read_hex(reader, 1, 6, point));
        return reader_take(reader, "}") ? STATUS_OK
                                        : reader_fail(reader, STATUS_INVALID, "expected '}'");
    }
    TRY(regex_set_read_hex(reader, 4, 4, point));
    if (*point < 0xd800 || *point > 0xdbff)
        return STATUS_OK;
    uint32_t low;
    if (!reader_take(reader, "\\u"))
        return reader_fail(reader, STATUS_INVALID, "half a surrogate pair");
    TRY(regex_set_read_hex(reader, 4, 4, &low));
    if (low < 0xdc00 || low > 0xdfff)
        return reader_fail(reader, STATUS_INVALID, "half a surrogate pair");
    *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
    return STATUS_OK;
}

/* Behind a backslash: one character, or a class, whose ranges are added (*is_class; `is_wide`:
 * regex_add_class). */
static enum status regex_set_read_escape(struct reader *reader, bool is_wide, uint32_t *point,
                                         bool *is_class) {
    static const char letters[] = "nrtfv0";
    static const char values[] = "\n\r\t\f\v";
    char c = reader_peek(reader);
    *is_class = false;
    if (reader_at_end(reader))
        return reader_fail(reader, STATUS_INVALID, "a backslash at the end");
    if (reader_is(c, "dwsDWS")) {
        *is_class = true;
        reader->at++;
        enum status status = regex_add_class(reader->regex, c, is_wide);
        return status == STATUS_OK ? STATUS_OK : reader_fail(reader, status, "too many ranges");
    }
    if (c == 'p' || c == 'P') {
        *is_class = true;
        reader->at++;
        size_t begin = reader->at + 1;
        const char *close = reader_peek(reader) == '{' ? memchr(reader->source.bytes + begin, '}',
                                                                reader->source.n - begin)
                                                       : NULL;
        if (!close)
            return reader_fail(reader, STATUS_INVALID, "expected {category} after \\p");
        struct span name = {reader->source.bytes + begin,
                            (size_t)(close - reader->source.bytes) - begin};
        reader->at = begin + name.n + 1;
        enum status status = regex_add_category(reader->regex, name, c == 'P');
        return status == STATUS_OK
                   ? STATUS_OK
                   : reader_fail(reader, status,
                                 "only general categories (\\p{L}, \\p{Nd}) are known");
    }
    const char *known = c != 0 ? strchr(letters, c) : NULL;
    if (known) {
        reader->at++;
        *point = (uint8_t)values[known - letters];
        if (c == '0' && reader_peek(reader) >= '0' && reader_peek(reader) <= '9')
            return reader_fail(reader, STATUS_UNSUPPORTED, "octal escapes");
        return STATUS_OK;
    }
    if (reader_take(reader, "x"))
        return regex_set_read_hex(reader, 2, 2, point);
    if (reader_take(reader, "u"))
        return regex_set_read_unicode(reader, point);
    if (c == 'U') {
        reader->at++;
        return regex_set_read_hex(reader, 8, 8, point);
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return reader_fail(reader, STATUS_UNSUPPORTED,
                           c == 'b' || c == 'B' || c == 'A' || c == 'Z'
                               ? "word boundaries, \\A and \\Z"
                               : "this escape is not known");
    unsigned n =
        utf8_decode(reader->source.bytes + reader->at, reader->source.n - reader->at, point);
    reader->at += n > 0 ? n : 1;
    return n > 0 ? STATUS_OK : reader_fail(reader, STATUS_INVALID, "not valid UTF-8");
}

static enum status regex_set_read_point(struct reader *reader, uint32_t *point) {
    unsigned n =
        utf8_decode(reader->source.bytes + reader->at, reader->source.n - reader->at, point);
    if (n == 0)
        return reader_fail(reader, STATUS_INVALID, "not valid UTF-8");
    reader->at += n;
    return STATUS_OK;
}

static enum status regex_set_add_point(struct reader *reader, uint32_t low, uint32_t high) {
    enum status status = regex_add_range(reader->regex, low, high);
    return status == STATUS_OK ? STATUS_OK : reader_fail(reader, status, "it is too large");
}

/* ASCII letters of the ranges from `first` on in their other case. What a set must not have is taken
 * wider: beyond ASCII dialects differ in what they fold, so all that may fold to a letter of it is
 * named by the caller's complement, or refused. */
static enum status regex_set_add_other_case(struct reader *reader, uint32_t first,
                                            bool is_negated) {
    static const uint32_t folded[][2] = {{'K', 0x212a}, {'S', 0x17f}}; /* Kelvin's, long s */
    struct regex *regex = reader->regex;
    uint32_t n = regex->n_ranges;
    for (uint32_t i = first; i < n; i++) {
        for (uint32_t base = 'A'; base <= 'a'; base += 'a' - 'A') {
            struct regex_range range = regex->ranges[i];
            uint32_t low = range.low > base ? range.low : base;
            uint32_t high = range.high < base + 25 ? range.high : base + 25;
            if (low > high)
                continue;
            TRY(regex_set_add_point(reader, low ^ 0x20, high ^ 0x20));
            for (unsigned k = 0; is_negated && k < 2; k++)
                if ((low & 0x5f) <= folded[k][0] && (high & 0x5f) >= folded[k][0])
                    TRY(regex_set_add_point(reader, folded[k][1], folded[k][1]));
        }
        if (is_negated && regex->ranges[i].high >= 0x80)
            return reader_fail(reader, STATUS_UNSUPPORTED,
                               "the complement of characters beyond ASCII under (?i)");
    }
    return STATUS_OK;
}

/* A set of the ranges from `first` on, or of all other characters. */
static enum status regex_set_add_set(struct reader *reader, uint32_t first, bool is_negated,
                                     uint32_t *made) {
    struct regex *regex = reader->regex;
    if (reader->flags & REGEX_IGNORE_CASE)
        TRY(regex_set_add_other_case(reader, first, is_negated));
    uint32_t n = regex_join_ranges(regex->ranges + first, regex->n_ranges - first);
    regex->n_ranges = first + n;
    if (is_negated) {
        uint32_t begin = 0;
        for (uint32_t i = 0; i <= n; i++) {
            struct regex_range range =
                i < n ? regex->ranges[first + i] : (struct regex_range){0x110000, 0};
            if (range.low > begin && regex_add_range(regex, begin, range.low - 1) != STATUS_OK)
                return reader_fail(reader, STATUS_NOMEM, "");
            begin = range.high + 1;
        }
        first += n;
    }
    return reader_add(
        reader,
        (struct regex_node){.kind = REGEX_SET, .first = first, .n = regex->n_ranges - first}, made);
}

enum status reader_set(struct reader *reader, uint32_t *made) {
    uint32_t first = reader->regex->n_ranges;
    bool is_negated = reader_take(reader, "^");
    bool is_first = true;
    while (!reader_at_end(reader) && (is_first || reader_peek(reader) != ']')) {
        uint32_t low;
        uint32_t high;
        bool is_class = false;
        is_first = false;
        if (reader_peek(reader) == '[' && reader->at + 1 < reader->source.n &&
            reader->source.bytes[reader->at + 1] == ':')
            return reader_fail(reader, STATUS_UNSUPPORTED, "POSIX classes");
        if (reader_peek(reader) ==
            ']') /* [] is none and [^] any in ECMA-262, []] a bracket in Python */
            return reader_fail(reader, STATUS_UNSUPPORTED,
                               "an empty set, or ']' that is first in one");
        if (reader_take(reader, "\\")) {
            if (reader_peek(reader) == 'b') {
                reader->at++;
                low = '\b';
            } else {
                TRY(regex_set_read_escape(reader, is_negated, &low, &is_class));
            }
        } else {
            TRY(regex_set_read_point(reader, &low));
        }
        if (is_class)
            continue;
        high = low;
        if (reader_peek(reader) == '-' && reader->at + 1 < reader->source.n &&
            reader->source.bytes[reader->at + 1] != ']') {
            reader->at++;
            if (reader_take(reader, "\\"))
                TRY(regex_set_read_escape(reader, is_negated, &high, &is_class));
            else
                TRY(regex_set_read_point(reader, &high));
            if (is_class || high < low)
                return reader_fail(reader, STATUS_INVALID, "a range whose end is below its start");
        }
        TRY(regex_set_add_point(reader, low, high));
    }
    if (!reader_take(reader, "]"))
        return reader_fail(reader, STATUS_INVALID, "expected ']'");
    return regex_set_add_set(reader, first, is_negated, made);
}

enum status reader_dot(struct reader *reader, uint32_t *made) {
    uint32_t first = reader->regex->n_ranges;
    unsigned flags = reader->flags;
    if (!(flags & REGEX_DOT_ALL)) {
        TRY(regex_set_add_point(reader, '\n', '\n'));
        if (flags & REGEX_ECMA_DOT) {
            TRY(regex_set_add_point(reader, '\r', '\r'));
            TRY(regex_set_add_point(reader, 0x2028, 0x2029));
        }
    }
    reader->flags &= ~(unsigned)REGEX_IGNORE_CASE;
    enum status status = regex_set_add_set(reader, first, true, made);
    reader->flags = flags;
    return status;
}

enum status reader_escape(struct reader *reader, uint32_t *made) {
    uint32_t first = reader->regex->n_ranges;
    uint32_t point;
    bool is_class;
    TRY(regex_set_read_escape(reader, false, &point, &is_class));
    if (!is_class) {
        TRY(regex_set_add_point(reader, point, point));
        return regex_set_add_set(reader, first, false, made);
    }
    unsigned flags = reader->flags;
    reader->flags &= ~(unsigned)REGEX_IGNORE_CASE;
    enum status status = regex_set_add_set(reader, first, false, made);
    reader->flags = flags;
    return status;
}

enum status reader_plain(struct reader *reader, uint32_t *made) {
    uint32_t first = reader->regex->n_ranges;
    uint32_t point;
    TRY(regex_set_read_point(reader, &point));
    TRY(regex_set_add_point(reader, point, point));
    return regex_set_add_set(reader, first, false, made);
}
