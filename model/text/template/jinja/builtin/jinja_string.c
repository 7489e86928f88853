/* Methods of strings, as Python's: blanks, letter case, searching, replacing. */
#include "model/text/template/jinja/builtin/jinja_string.h"

#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_format.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>
#include <utf8proc.h>

static bool has_char(const struct jinja_string *set, const char *at, size_t n) {
    if (!set)
        return jinja_is_space(jinja_char_at(at));
    for (size_t i = 0; i < set->n; i += jinja_char_size(set->bytes + i))
        if (jinja_char_size(set->bytes + i) == n && memcmp(set->bytes + i, at, n) == 0)
            return true;
    return false;
}

enum status jinja_strip(struct jinja_run *run, struct jinja_value self, struct jinja_value chars,
                        unsigned sides, struct jinja_value *value) {
    const struct jinja_string *string = self.string;
    const struct jinja_string *set = jinja_is_string(chars) ? chars.string : NULL;
    size_t from = 0;
    size_t to = string->n;
    if (!set && jinja_is_some(chars))
        return jinja_fail_kind(run, "strip takes a string", chars);
    while ((sides & JINJA_LEFT) && from < to) {
        size_t n = jinja_char_size(string->bytes + from);
        if (!has_char(set, string->bytes + from, n))
            break;
        from += n;
    }
    while ((sides & JINJA_RIGHT) && from < to) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)string->bytes[at] & 0xc0) == 0x80)
            at--;
        if (!has_char(set, string->bytes + at, to - at))
            break;
        to = at;
    }
    TRY(jinja_charge(run, (string->n - (to - from)) / 256 * (set ? 1 + set->n : 1)));
    TRY(jinja_string_slice(run, string, from, to, value));
    value->is_safe = self.is_safe;
    return STATUS_OK;
}

#define STRIP(name, sides)                                                                         \
    JINJA_BUILTIN(name) {                                                                          \
        return jinja_strip(run, self, bound[0], sides, value);                                     \
    }
STRIP(strip, JINJA_LEFT | JINJA_RIGHT)
STRIP(lstrip, JINJA_LEFT)
STRIP(rstrip, JINJA_RIGHT)

/* ---- letter case ---- */

static bool is_cased(uint32_t point) {
    return utf8proc_toupper((utf8proc_int32_t)point) != (utf8proc_int32_t)point ||
           utf8proc_tolower((utf8proc_int32_t)point) != (utf8proc_int32_t)point;
}

enum status jinja_change_case(struct jinja_run *run, struct jinja_value self,
                              enum jinja_case change, struct jinja_value *value) {
    const struct jinja_string *string = self.string;
    struct jinja_text text = {0};
    bool is_first = true; /* of a word, or of the text */
    TRY(jinja_charge(run, string->n / 64));
    for (size_t at = 0; at < string->n;) {
        size_t size = jinja_char_size(string->bytes + at);
        utf8proc_int32_t point = (utf8proc_int32_t)jinja_char_at(string->bytes + at);
        bool is_upper = change == JINJA_UPPER ||
                        ((change == JINJA_TITLE || change == JINJA_CAPITALIZE) && is_first);
        char out[4];
        if (!is_upper && point == 0x130) { /* a dotted I keeps its dot */
            TRY(jinja_put(run, &text, "i\xcc\x87", 3, jinja_plain_at(string, at)));
        } else if (is_upper && point == 0xdf) {
            TRY(jinja_put(run, &text, change == JINJA_UPPER ? "SS" : "Ss", 2,
                          jinja_plain_at(string, at)));
        } else {
            utf8proc_int32_t made = is_upper ? (change == JINJA_UPPER ? utf8proc_toupper(point)
                                                                      : utf8proc_totitle(point))
                                             : utf8proc_tolower(point);
            size_t n = (size_t)utf8proc_encode_char(made, (utf8proc_uint8_t *)out);
            TRY(jinja_put(run, &text, out, n, jinja_plain_at(string, at)));
        }
        is_first = change == JINJA_TITLE ? !is_cased((uint32_t)point) : false;
        at += size;
    }
    TRY(jinja_text_done(run, &text, value));
    value->is_safe = self.is_safe;
    return STATUS_OK;
}

#define CASE(name, change)                                                                         \
    JINJA_BUILTIN(name) {                                                                          \
        return jinja_change_case(run, self, change, value);                                        \
    }
CASE(upper, JINJA_UPPER)
CASE(lower, JINJA_LOWER)
CASE(title, JINJA_TITLE)
CASE(capitalize, JINJA_CAPITALIZE)

bool jinja_has_case(const struct jinja_string *string, bool upper) {
    bool any = false;
    for (size_t at = 0; at < string->n; at += jinja_char_size(string->bytes + at)) {
        uint32_t point = jinja_char_at(string->bytes + at);
        if (!is_cased(point))
            continue;
        bool is_upper = utf8proc_tolower((utf8proc_int32_t)point) != (utf8proc_int32_t)point;
        if (is_upper != upper)
            return false;
        any = true;
    }
    return any;
}

/* ---- kinds of characters ---- */

static bool is_digit(uint32_t point) {
    return utf8proc_category((utf8proc_int32_t)point) == UTF8PROC_CATEGORY_ND;
}

static bool is_alpha(uint32_t point) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool jinja_is_alnum(uint32_t point) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return is_alpha(point) || category == UTF8PROC_CATEGORY_ND ||
           category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

static bool all_are(const struct jinja_string *string, bool (*is_it)(uint32_t)) {
    for (size_t at = 0; at < string->n; at += jinja_char_size(string->bytes + at))
        if (!is_it(jinja_char_at(string->bytes + at)))
            return false;
    return string->n > 0;
}

#define IS(name, fact)                                                                             \
    JINJA_BUILTIN(name) {                                                                          \
        TRY(jinja_charge(run, self.string->n / 64));                                               \
        *value = jinja_bool(fact);                                                                 \
        return STATUS_OK;                                                                          \
    }
IS(digit_only, all_are(self.string, is_digit))
IS(alpha_only, all_are(self.string, is_alpha))
IS(alnum_only, all_are(self.string, jinja_is_alnum))
IS(space_only, all_are(self.string, jinja_is_space))
IS(upper_only, jinja_has_case(self.string, true))
IS(lower_only, jinja_has_case(self.string, false))

/* ---- searching ---- */

static enum status need_string(struct jinja_run *run, struct jinja_value value) {
    return jinja_is_string(value) ? STATUS_OK : jinja_fail_kind(run, "a string is needed", value);
}

static bool has_edge(const struct jinja_string *string, const struct jinja_string *edge,
                     bool is_end) {
    return edge->n <= string->n &&
           (edge->n == 0 ||
            memcmp(string->bytes + (is_end ? string->n - edge->n : 0), edge->bytes, edge->n) == 0);
}

/* startswith, endswith: of one string or any of a tuple. */
static enum status edge(struct jinja_run *run, struct jinja_value self, struct jinja_value edges,
                        bool is_end, struct jinja_value *value) {
    *value = jinja_bool(false);
    if (edges.kind != JINJA_TUPLE) {
        TRY(need_string(run, edges));
        *value = jinja_bool(has_edge(self.string, edges.string, is_end));
        return STATUS_OK;
    }
    for (size_t i = 0; i < edges.list->n; i++) {
        TRY(need_string(run, edges.list->items[i]));
        if (has_edge(self.string, edges.list->items[i].string, is_end))
            *value = jinja_bool(true);
    }
    return STATUS_OK;
}

static enum status remove_edge(struct jinja_run *run, struct jinja_value self,
                               struct jinja_value part, bool is_end, struct jinja_value *value) {
    TRY(need_string(run, part));
    size_t n = has_edge(self.string, part.string, is_end) ? part.string->n : 0;
    return jinja_string_slice(run, self.string, is_end ? 0 : n, self.string->n - (is_end ? n : 0),
                              value);
}

#define EDGE(name, does, is_end)                                                                   \
    JINJA_BUILTIN(name) {                                                                          \
        return does(run, self, bound[0], is_end, value);                                           \
    }
EDGE(startswith, edge, false)
EDGE(endswith, edge, true)
EDGE(removeprefix, remove_edge, false)
EDGE(removesuffix, remove_edge, true)

/* Offset in bytes of the first or last occurrence; SIZE_MAX when there is none. */
static size_t search(const struct jinja_string *string, const struct jinja_string *part,
                     bool from_end) {
    if (part->n > string->n)
        return SIZE_MAX;
    if (part->n == 0)
        return from_end ? string->n : 0;
    if (!from_end) {
        const char *hit = memmem(string->bytes, string->n, part->bytes, part->n);
        return hit ? (size_t)(hit - string->bytes) : SIZE_MAX;
    }
    for (size_t at = string->n - part->n + 1; at-- > 0;)
        if (memcmp(string->bytes + at, part->bytes, part->n) == 0)
            return at;
    return SIZE_MAX;
}

static enum status find_char(struct jinja_run *run, struct jinja_value self,
                             struct jinja_value part, bool from_end, bool must_be,
                             struct jinja_value *value) {
    TRY(need_string(run, part));
    TRY(jinja_charge(run, self.string->n / 64));
    size_t at = search(self.string, part.string, from_end);
    if (at == SIZE_MAX && must_be)
        return jinja_fail(run, STATUS_INVALID, "a substring is not found");
    int64_t n = at == SIZE_MAX ? -1 : 0;
    for (size_t i = 0; at != SIZE_MAX && i < at; i++)
        n += ((unsigned char)self.string->bytes[i] & 0xc0) != 0x80;
    *value = jinja_int(n);
    return STATUS_OK;
}

#define FIND(name, from_end, must_be)                                                              \
    JINJA_BUILTIN(name) {                                                                          \
        return find_char(run, self, bound[0], from_end, must_be, value);                           \
    }
FIND(find, false, false)
FIND(rfind, true, false)
FIND(find_index, false, true)

JINJA_BUILTIN(count) {
    const struct jinja_string *string = self.string;
    size_t n = 0;
    TRY(need_string(run, bound[0]));
    const struct jinja_string *part = bound[0].string;
    if (part->n == 0) {
        TRY(jinja_count_chars(run, string, &n));
        *value = jinja_int((int64_t)n + 1);
        return STATUS_OK;
    }
    TRY(jinja_charge(run, string->n / 64));
    for (size_t at = 0; at < string->n; n++) {
        const char *hit = memmem(string->bytes + at, string->n - at, part->bytes, part->n);
        if (!hit)
            break;
        at = (size_t)(hit - string->bytes) + part->n;
    }
    *value = jinja_int((int64_t)n);
    return STATUS_OK;
}

enum status jinja_replace(struct jinja_run *run, struct jinja_value self, struct jinja_value old,
                          struct jinja_value new, int64_t n_max, struct jinja_value *value) {
    const struct jinja_string *string = self.string;
    struct jinja_text text = {0};
    size_t from = 0;
    TRY(need_string(run, old));
    TRY(need_string(run, new));
    TRY(jinja_charge(run, string->n / 64));
    for (size_t at = 0; n_max != 0 && at <= string->n; n_max--) {
        size_t hit = at;
        if (old.string->n > 0) {
            const char *found = at < string->n ? memmem(string->bytes + at, string->n - at,
                                                        old.string->bytes, old.string->n)
                                               : NULL;
            if (!found)
                break;
            hit = (size_t)(found - string->bytes);
        }
        TRY(jinja_put_slice(run, &text, string, from, hit));
        TRY(jinja_put_string(run, &text, new.string));
        TRY(jinja_charge(run, 1));
        from = hit + old.string->n;
        /* An empty one stands before each character and at the end. */
        at = old.string->n > 0 ? from
             : hit < string->n ? hit + jinja_char_size(string->bytes + hit)
                               : hit + 1;
    }
    TRY(jinja_put_slice(run, &text, string, from, string->n));
    TRY(jinja_text_done(run, &text, value));
    value->is_safe = self.is_safe;
    return STATUS_OK;
}

JINJA_BUILTIN(replace) {
    return jinja_replace(run, self, bound[0], bound[1], jinja_integer_or(bound[2], -1), value);
}

const struct jinja_builtin jinja_string_methods[] = {
    {"strip", {"chars"}, 0, JINJA_POSITIONAL, strip},
    {"lstrip", {"chars"}, 0, JINJA_POSITIONAL, lstrip},
    {"rstrip", {"chars"}, 0, JINJA_POSITIONAL, rstrip},
    {"upper", {0}, 0, JINJA_NAMED, upper},
    {"lower", {0}, 0, JINJA_NAMED, lower},
    {"casefold", {0}, 0, JINJA_NAMED, lower},
    {"title", {0}, 0, JINJA_NAMED, title},
    {"capitalize", {0}, 0, JINJA_NAMED, capitalize},
    {"isdigit", {0}, 0, JINJA_NAMED, digit_only},
    {"isdecimal", {0}, 0, JINJA_NAMED, digit_only},
    {"isnumeric", {0}, 0, JINJA_NAMED, digit_only},
    {"isalpha", {0}, 0, JINJA_NAMED, alpha_only},
    {"isalnum", {0}, 0, JINJA_NAMED, alnum_only},
    {"isspace", {0}, 0, JINJA_NAMED, space_only},
    {"isupper", {0}, 0, JINJA_NAMED, upper_only},
    {"islower", {0}, 0, JINJA_NAMED, lower_only},
    {"startswith", {"prefix"}, 1, JINJA_POSITIONAL, startswith},
    {"endswith", {"suffix"}, 1, JINJA_POSITIONAL, endswith},
    {"removeprefix", {"prefix"}, 1, JINJA_POSITIONAL, removeprefix},
    {"removesuffix", {"suffix"}, 1, JINJA_POSITIONAL, removesuffix},
    {"find", {"sub"}, 1, JINJA_POSITIONAL, find},
    {"rfind", {"sub"}, 1, JINJA_POSITIONAL, rfind},
    {"index", {"sub"}, 1, JINJA_POSITIONAL, find_index},
    {"count", {"sub"}, 1, JINJA_POSITIONAL, count},
    {"replace", {"old", "new", "count"}, 2, JINJA_POSITIONAL, replace},
    {"format", {0}, 0, JINJA_ANY, jinja_format_method},
    {0},
};
