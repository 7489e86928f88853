/* Filters that give lists and their parts. */
#include "model/template/jinja/builtin/jinja_arith.h"
#include "model/template/jinja/builtin/jinja_builtin.h"
#include "model/template/jinja/builtin/jinja_get.h"
#include "model/template/jinja/builtin/jinja_string.h"
#include "model/template/jinja/builtin/jinja_tables.h"
#include "model/template/jinja/value/jinja_box.h"
#include "model/template/jinja/value/jinja_compare.h"
#include "model/template/jinja/value/jinja_items.h"
#include "model/template/jinja/value/jinja_run.h"
#include "model/template/jinja/value/jinja_text.h"
#include "model/template/jinja/value/jinja_value.h"

#include <string.h>

static enum status copy_items(struct jinja_run *run, struct jinja_value self,
                              struct jinja_list **list) {
    const struct jinja_list *items;
    TRY(jinja_items_of(run, self, &items));
    TRY(jinja_list_new(run, items->n, list));
    for (size_t i = 0; i < items->n; i++)
        TRY(jinja_list_push(run, *list, items->items[i]));
    return STATUS_OK;
}

JINJA_BUILTIN(to_list) {
    struct jinja_list *list;
    TRY(copy_items(run, self, &list));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

JINJA_BUILTIN(first) {
    const struct jinja_list *items;
    TRY(jinja_items_of(run, self, &items));
    *value = items->n > 0 ? items->items[0] : jinja_undefined("the first item of nothing");
    return STATUS_OK;
}

JINJA_BUILTIN(last) {
    const struct jinja_list *items;
    if (self.kind == JINJA_ITERATOR)
        return jinja_fail(run, STATUS_INVALID, "%s cannot be reversed", jinja_type_name(self));
    TRY(jinja_items_of(run, self, &items));
    *value =
        items->n > 0 ? items->items[items->n - 1] : jinja_undefined("the last item of nothing");
    return STATUS_OK;
}

JINJA_BUILTIN(reverse) {
    struct jinja_list *list;
    struct jinja_text text = {0};
    TRY(copy_items(run, self, &list));
    for (size_t i = 0; i < list->n / 2; i++) {
        struct jinja_value item = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = item;
    }
    *value = jinja_list_value(JINJA_ITERATOR, list);
    if (!jinja_is_string(self))
        return STATUS_OK;
    for (size_t i = 0; i < list->n; i++)
        TRY(jinja_put_string(run, &text, list->items[i].string));
    return jinja_text_done(run, &text, value);
}

JINJA_BUILTIN(items) {
    struct jinja_list *none;
    if (self.kind == JINJA_DICT)
        return jinja_dict_items(run, self.dict, JINJA_ITERATOR, value);
    if (self.kind != JINJA_UNDEFINED)
        return jinja_fail(run, STATUS_INVALID, "items takes a dict, not %s", jinja_type_name(self));
    TRY(jinja_list_new(run, 0, &none));
    *value = jinja_list_value(JINJA_ITERATOR, none);
    return STATUS_OK;
}

/* ---- order ---- */

/* What an item is compared by: itself or an attribute, strings without their case. */
static enum status key_of(struct jinja_run *run, struct jinja_value item,
                          struct jinja_value attribute, bool case_sensitive,
                          struct jinja_value *key) {
    *key = item;
    if (jinja_given(attribute) && attribute.kind != JINJA_NONE)
        TRY(jinja_get_path(run, item, attribute, key));
    if (!case_sensitive && jinja_is_string(*key))
        return jinja_change_case(run, *key, JINJA_LOWER, key);
    return STATUS_OK;
}

/* A merge sort: stable, as Python's. keys and items (n) move together; `reverse` keeps equals in
 * order too. */
static enum status sort_items(struct jinja_run *run, struct jinja_value *keys,
                              struct jinja_value *items, size_t n, bool reverse) {
    struct jinja_value *other_keys;
    struct jinja_value *other_items;
    TRY(jinja_alloc(run, n, sizeof *keys, &other_keys));
    TRY(jinja_alloc(run, n, sizeof *items, &other_items));
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = begin + 2 * width < n ? begin + 2 * width : n;
            size_t a = begin;
            size_t b = middle;
            for (size_t i = begin; i < end; i++) {
                int order = 0;
                if (a < middle && b < end)
                    TRY(jinja_order(run, keys[a], keys[b], &order));
                bool takes_a = b == end || (a < middle && (reverse ? order >= 0 : order <= 0));
                other_keys[i] = keys[takes_a ? a : b];
                other_items[i] = items[takes_a ? a++ : b++];
            }
        }
        memcpy(keys, other_keys, n * sizeof *keys);
        memcpy(items, other_items, n * sizeof *items);
    }
    return STATUS_OK;
}

static enum status sort_by(struct jinja_run *run, struct jinja_list *list,
                           struct jinja_value attribute, bool case_sensitive, bool reverse) {
    struct jinja_value *keys;
    TRY(jinja_alloc(run, list->n, sizeof *keys, &keys));
    for (size_t i = 0; i < list->n; i++)
        TRY(key_of(run, list->items[i], attribute, case_sensitive, &keys[i]));
    return sort_items(run, keys, list->items, list->n, reverse);
}

JINJA_BUILTIN(sort) {
    struct jinja_list *list;
    TRY(copy_items(run, self, &list));
    TRY(sort_by(run, list, bound[2], jinja_true(bound[1]), jinja_true(bound[0])));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

JINJA_BUILTIN(dictsort) {
    if (self.kind != JINJA_DICT)
        return jinja_fail(run, STATUS_INVALID, "dictsort takes a dict, not %s",
                          jinja_type_name(self));
    bool by_value = jinja_given(bound[1]) && jinja_is_string(bound[1]) &&
                    span_is(jinja_span(bound[1]), "value");
    TRY(jinja_dict_items(run, self.dict, JINJA_LIST, value));
    return sort_by(run, value->list, jinja_int(by_value), jinja_true(bound[0]),
                   jinja_true(bound[2]));
}

static enum status extreme(struct jinja_run *run, struct jinja_value self,
                           const struct jinja_value *bound, int sign, struct jinja_value *value) {
    const struct jinja_list *items;
    struct jinja_value best = {0};
    TRY(jinja_items_of(run, self, &items));
    *value = jinja_undefined("the extreme of nothing");
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value key;
        int order = 1;
        TRY(key_of(run, items->items[i], bound[1], jinja_true(bound[0]), &key));
        if (i > 0)
            TRY(jinja_order(run, key, best, &order));
        if (i > 0 && order * sign <= 0)
            continue;
        best = key;
        *value = items->items[i];
    }
    return STATUS_OK;
}

JINJA_BUILTIN(minimum) {
    return extreme(run, self, bound, -1, value);
}

JINJA_BUILTIN(maximum) {
    return extreme(run, self, bound, 1, value);
}

JINJA_BUILTIN(unique) {
    const struct jinja_list *items;
    struct jinja_list *seen;
    struct jinja_list *list;
    TRY(jinja_items_of(run, self, &items));
    TRY(jinja_list_new(run, 0, &seen));
    TRY(jinja_list_new(run, 0, &list));
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value key;
        bool found;
        TRY(key_of(run, items->items[i], bound[1], jinja_true(bound[0]), &key));
        if (key.kind == JINJA_LIST || key.kind == JINJA_DICT)
            return jinja_fail(run, STATUS_INVALID, "%s cannot be a key", jinja_type_name(key));
        TRY(jinja_contains(run, jinja_list_value(JINJA_LIST, seen), key, &found));
        if (found)
            continue;
        TRY(jinja_list_push(run, seen, key));
        TRY(jinja_list_push(run, list, items->items[i]));
    }
    *value = jinja_list_value(JINJA_ITERATOR, list);
    return STATUS_OK;
}

JINJA_BUILTIN(sum) {
    const struct jinja_list *items;
    struct jinja_value total = jinja_given(bound[1]) ? bound[1] : jinja_int(0);
    TRY(jinja_items_of(run, self, &items));
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item = items->items[i];
        if (jinja_given(bound[0]) && bound[0].kind != JINJA_NONE)
            TRY(jinja_get_path(run, item, bound[0], &item));
        if (jinja_is_string(item))
            return jinja_fail(run, STATUS_INVALID, "sum does not take strings");
        TRY(jinja_arith(run, JINJA_ADD, total, item, &total));
    }
    *value = total;
    return STATUS_OK;
}

/* Lists of so many items; the last one filled up if there is something to fill with. */
JINJA_BUILTIN(batch) {
    const struct jinja_list *items;
    struct jinja_list *batches;
    struct jinja_list *part = NULL;
    if (!jinja_is_integral(bound[0]) || jinja_integer(bound[0]) < 1)
        return jinja_fail(run, STATUS_INVALID, "batch needs a number above 0");
    uint64_t size = (uint64_t)jinja_integer(bound[0]);
    TRY(jinja_items_of(run, self, &items));
    TRY(jinja_list_new(run, 0, &batches));
    for (size_t i = 0; i < items->n; i++) {
        if (!part || part->n == size) {
            TRY(jinja_list_new(run, 0, &part));
            TRY(jinja_list_push(run, batches, jinja_list_value(JINJA_LIST, part)));
        }
        TRY(jinja_list_push(run, part, items->items[i]));
    }
    while (part && part->n < size && jinja_given(bound[1]) && bound[1].kind != JINJA_NONE)
        TRY(jinja_list_push(run, part, bound[1]));
    *value = jinja_list_value(JINJA_ITERATOR, batches);
    return STATUS_OK;
}

const struct jinja_builtin jinja_box_filters[] = {
    {"list", {0}, 0, JINJA_NAMED, to_list},
    {"first", {0}, 0, JINJA_NAMED, first},
    {"last", {0}, 0, JINJA_NAMED, last},
    {"reverse", {0}, 0, JINJA_NAMED, reverse},
    {"items", {0}, 0, JINJA_NAMED, items},
    {"sort", {"reverse", "case_sensitive", "attribute"}, 0, JINJA_NAMED, sort},
    {"dictsort", {"case_sensitive", "by", "reverse"}, 0, JINJA_NAMED, dictsort},
    {"min", {"case_sensitive", "attribute"}, 0, JINJA_NAMED, minimum},
    {"max", {"case_sensitive", "attribute"}, 0, JINJA_NAMED, maximum},
    {"unique", {"case_sensitive", "attribute"}, 0, JINJA_NAMED, unique},
    {"sum", {"attribute", "start"}, 0, JINJA_NAMED, sum},
    {"batch", {"linecount", "fill_with"}, 1, JINJA_NAMED, batch},
    {0},
};
