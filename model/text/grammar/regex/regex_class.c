/* The classes of regular expressions: \d, \w, \s and \p{...}. */
#include "model/text/grammar/regex/regex.h"

#include <stdlib.h>
#include <utf8proc.h>

static int regex_class_compare_ranges(const void *left, const void *right) {
    const struct regex_range *a = left;
    const struct regex_range *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

uint32_t regex_join_ranges(struct regex_range *ranges, uint32_t n) {
    uint32_t n_kept = 0;
    if (n > 0)
        qsort(ranges, n, sizeof *ranges, regex_class_compare_ranges);
    for (uint32_t i = 0; i < n; i++) {
        if (n_kept > 0 && ranges[i].low <= ranges[n_kept - 1].high + 1) {
            if (ranges[i].high > ranges[n_kept - 1].high)
                ranges[n_kept - 1].high = ranges[i].high;
        } else {
            ranges[n_kept++] = ranges[i];
        }
    }
    return n_kept;
}

enum status regex_add_range(struct regex *regex, uint32_t low, uint32_t high) {
    if (regex->n_ranges == regex->ranges_size) {
        if (regex->n_ranges >= REGEX_NODES_MAX * 4)
            return STATUS_LIMIT;
        uint32_t size = regex->ranges_size ? regex->ranges_size * 2 : 64;
        struct regex_range *grown = realloc(regex->ranges, size * sizeof *grown);
        if (!grown)
            return STATUS_NOMEM;
        regex->ranges = grown;
        regex->ranges_size = size;
    }
    regex->ranges[regex->n_ranges++] = (struct regex_range){low, high};
    return STATUS_OK;
}

/* Whether some dialect counts a character beyond ASCII into \d, \w or \s. */
static bool regex_class_may_be(char class, uint32_t point) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    switch (class) {
    case 'd':
        return category == UTF8PROC_CATEGORY_ND;
    case 'w':
        return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
    default:
        return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
    }
}

static bool regex_class_is_ascii_of(char class, uint32_t point) {
    switch (class) {
    case 'd':
        return point >= '0' && point <= '9';
    case 'w':
        return (point >= '0' && point <= '9') || (point >= 'a' && point <= 'z') ||
               (point >= 'A' && point <= 'Z') || point == '_';
    default:
        return point == ' ' || (point >= '\t' && point <= '\r');
    }
}

/* Some dialect's \s has these control characters, too. */
static bool regex_class_is_doubtful(char class, uint32_t point) {
    return class == 's' && ((point >= 0x1c && point <= 0x1f) || point == 0x85 || point == 0xfeff);
}

/* Whether a character is of a class in every dialect, or (`is_wide`) in some. */
static bool regex_class_is_of_class(char class, uint32_t point, bool is_wide) {
    if (point < 0x80 && regex_class_is_ascii_of(class, point))
        return true;
    return is_wide && (regex_class_is_doubtful(class, point) ||
                       (point >= 0x80 && regex_class_may_be(class, point)));
}

enum status regex_add_class(struct regex *regex, char letter, bool is_wide) {
    bool is_negated = letter < 'a';
    char class = is_negated ? (char)(letter | 0x20) : letter;
    uint32_t begin = UINT32_MAX;
    for (uint32_t point = 0; point <= 0x110000; point++) {
        bool is_in = point < 0x110000 &&
                     regex_class_is_of_class(class, point, is_wide != is_negated) != is_negated;
        if (is_in && begin == UINT32_MAX)
            begin = point;
        if (!is_in && begin != UINT32_MAX) {
            TRY(regex_add_range(regex, begin, point - 1));
            begin = UINT32_MAX;
        }
        if (!is_in && !is_wide && !is_negated && point >= 0x80)
            break; /* ASCII alone */
    }
    return STATUS_OK;
}

enum status regex_add_category(struct regex *regex, struct span name, bool is_negated) {
    uint32_t begin = UINT32_MAX;
    if (name.n < 1 || name.n > 2 || name.bytes[0] == 0)
        return STATUS_UNSUPPORTED;
    bool is_known = false;
    for (uint32_t point = 0; point <= 0x110000; point++) {
        const char *category =
            point < 0x110000 ? utf8proc_category_string((utf8proc_int32_t)point) : "";
        bool is_of = category[0] == name.bytes[0] && (name.n == 1 || category[1] == name.bytes[1]);
        bool is_in = point < 0x110000 && is_of != is_negated;
        is_known |= is_of;
        if (is_in && begin == UINT32_MAX)
            begin = point;
        if (!is_in && begin != UINT32_MAX) {
            TRY(regex_add_range(regex, begin, point - 1));
            begin = UINT32_MAX;
        }
    }
    return is_known ? STATUS_OK : STATUS_UNSUPPORTED;
}
