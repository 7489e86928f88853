/* Methods that take strings apart and put them together. */
#include "model/text/template/jinja/builtin/jinja_string.h"

#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

static enum status jinja_push_slice(struct jinja_run *run, struct jinja_list *list,
                                    struct jinja_value self, size_t from, size_t to) {
    struct jinja_value part;
    TRY(jinja_charge(run, 1));
    TRY(jinja_string_slice(run, self.string, from, to, &part));
    part.is_safe = self.is_safe;
    return jinja_list_push(run, list, part);
}

/* At runs of blanks; those at the edges go, but for the far edge of a rest that is not split. */
static enum status jinja_split_blanks(struct jinja_run *run, struct jinja_value self, int64_t n_max,
                                      struct jinja_list *list) {
    const struct jinja_string *string = self.string;
    size_t at = jinja_skip_space(string->bytes, string->n, 0);
    while (at < string->n) {
        size_t end = at;
        if (n_max >= 0 && list->n == (size_t)n_max)
            return jinja_push_slice(run, list, self, at, string->n);
        while (end < string->n && !jinja_is_space(jinja_char_at(string->bytes + end)))
            end += jinja_char_size(string->bytes + end);
        TRY(jinja_push_slice(run, list, self, at, end));
        at = jinja_skip_space(string->bytes, string->n, end);
    }
    return STATUS_OK;
}

static enum status jinja_split_at(struct jinja_run *run, struct jinja_value self,
                                  const struct jinja_string *separator, int64_t n_max,
                                  struct jinja_list *list) {
    const struct jinja_string *string = self.string;
    size_t at = 0;
    for (; n_max != 0; n_max--) {
        const char *hit = at < string->n ? memmem(string->bytes + at, string->n - at,
                                                  separator->bytes, separator->n)
                                         : NULL;
        if (!hit)
            break;
        TRY(jinja_push_slice(run, list, self, at, (size_t)(hit - string->bytes)));
        at = (size_t)(hit - string->bytes) + separator->n;
    }
    return jinja_push_slice(run, list, self, at, string->n);
}

/* str.split(): at blanks when separator is ABSENT or none. */
static enum status jinja_split_text(struct jinja_run *run, struct jinja_value self,
                                    struct jinja_value separator, int64_t n_max,
                                    struct jinja_value *value) {
    struct jinja_list *list;
    TRY(jinja_charge(run, self.string->n / 64));
    TRY(jinja_list_new(run, 0, &list));
    if (!jinja_is_some(separator))
        TRY(jinja_split_blanks(run, self, n_max, list));
    else if (!jinja_is_string(separator) || separator.string->n == 0)
        return jinja_fail(run, STATUS_INVALID, "split needs a separator that is a string");
    else
        TRY(jinja_split_at(run, self, separator.string, n_max, list));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

JINJA_BUILTIN(split) {
    return jinja_split_text(run, self, bound[0], jinja_integer_or(bound[1], -1), value);
}

/* Length of the line break at `at`, as str.splitlines() knows them; 0 when there is none. */
static size_t jinja_line_break(const struct jinja_string *string, size_t at) {
    uint32_t point = jinja_char_at(string->bytes + at);
    if (point == '\r' && at + 1 < string->n && string->bytes[at + 1] == '\n')
        return 2;
    bool is_break = (point >= 0x0a && point <= 0x0d) || (point >= 0x1c && point <= 0x1e) ||
                    point == 0x85 || point == 0x2028 || point == 0x2029;
    return is_break ? jinja_char_size(string->bytes + at) : 0;
}

enum status jinja_split_lines(struct jinja_run *run, struct jinja_value self, bool keep_ends,
                              struct jinja_value *value) {
    const struct jinja_string *string = self.string;
    struct jinja_list *list;
    size_t from = 0;
    TRY(jinja_charge(run, string->n / 64));
    TRY(jinja_list_new(run, 0, &list));
    for (size_t at = 0; at < string->n;) {
        size_t n = jinja_line_break(string, at);
        if (n == 0) {
            at += jinja_char_size(string->bytes + at);
            continue;
        }
        TRY(jinja_push_slice(run, list, self, from, keep_ends ? at + n : at));
        at += n;
        from = at;
    }
    if (from < string->n)
        TRY(jinja_push_slice(run, list, self, from, string->n));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

JINJA_BUILTIN(join) {
    const struct jinja_list *items;
    struct jinja_text text = {0};
    TRY(jinja_items_of(run, bound[0], &items));
    for (size_t i = 0; i < items->n; i++) {
        if (!jinja_is_string(items->items[i]))
            return jinja_fail_kind(run, "join takes strings", items->items[i]);
        TRY(jinja_charge(run, 1));
        if (i > 0)
            TRY(jinja_put_string(run, &text, self.string));
        TRY(jinja_put_string(run, &text, items->items[i].string));
    }
    return jinja_text_done(run, &text, value);
}

const struct jinja_builtin jinja_split_methods[] = {
    {"split", {"sep", "maxsplit"}, 0, JINJA_NAMED, split},
    {"join", {"iterable"}, 1, JINJA_POSITIONAL, join},
    {0},
};
