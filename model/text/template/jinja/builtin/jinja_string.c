/* Methods of strings, as Python's: blanks, letter case, searching, replacing. */
#include "model/text/template/jinja/builtin/jinja_string.h"

#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_format.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>
#include <utf8proc.h>

static bool jinja_has_char(const struct jinja_string *set, const char *at, size_t n) {
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
        if (!jinja_has_char(set, string->bytes + from, n))
            break;
        from += n;
    }
    while ((sides & JINJA_RIGHT) && from < to) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)string->bytes[at] & 0xc0) == 0x80)
            at--;
        if (!jinja_has_char(set, string->bytes + at, to - at))
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

/* ---- searching ---- */

static enum status need_string(struct jinja_run *run, struct jinja_value value) {
    return jinja_is_string(value) ? STATUS_OK : jinja_fail_kind(run, "a string is needed", value);
}

static bool jinja_has_edge(const struct jinja_string *string, const struct jinja_string *edge,
                           bool is_end) {
    return edge->n <= string->n &&
           (edge->n == 0 ||
            memcmp(string->bytes + (is_end ? string->n - edge->n : 0), edge->bytes, edge->n) == 0);
}

/* startswith, endswith: of one string or any of a tuple. */
static enum status jinja_starts_or_ends(struct jinja_run *run, struct jinja_value self,
                                        struct jinja_value edges, bool is_end,
                                        struct jinja_value *value) {
    *value = jinja_bool(false);
    if (edges.kind != JINJA_TUPLE) {
        TRY(need_string(run, edges));
        *value = jinja_bool(jinja_has_edge(self.string, edges.string, is_end));
        return STATUS_OK;
    }
    for (size_t i = 0; i < edges.list->n; i++) {
        TRY(need_string(run, edges.list->items[i]));
        if (jinja_has_edge(self.string, edges.list->items[i].string, is_end))
            *value = jinja_bool(true);
    }
    return STATUS_OK;
}

static enum status jinja_remove_edge(struct jinja_run *run, struct jinja_value self,
                                     struct jinja_value part, bool is_end,
                                     struct jinja_value *value) {
    TRY(need_string(run, part));
    size_t n = jinja_has_edge(self.string, part.string, is_end) ? part.string->n : 0;
    return jinja_string_slice(run, self.string, is_end ? 0 : n, self.string->n - (is_end ? n : 0),
                              value);
}

#define EDGE(name, does, is_end)                                                                   \
    JINJA_BUILTIN(name) {                                                                          \
        return does(run, self, bound[0], is_end, value);                                           \
    }
EDGE(startswith, jinja_starts_or_ends, false)
EDGE(endswith, jinja_starts_or_ends, true)
EDGE(removeprefix, jinja_remove_edge, false)
EDGE(removesuffix, jinja_remove_edge, true)

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
    {"title", {0}, 0, JINJA_NAMED, title},
    {"capitalize", {0}, 0, JINJA_NAMED, capitalize},
    {"startswith", {"prefix"}, 1, JINJA_POSITIONAL, startswith},
    {"endswith", {"suffix"}, 1, JINJA_POSITIONAL, endswith},
    {"removeprefix", {"prefix"}, 1, JINJA_POSITIONAL, removeprefix},
    {"removesuffix", {"suffix"}, 1, JINJA_POSITIONAL, removesuffix},
    {"replace", {"old", "new", "count"}, 2, JINJA_POSITIONAL, replace},
    {"format", {0}, 0, JINJA_ANY, jinja_format_method},
    {0},
};
