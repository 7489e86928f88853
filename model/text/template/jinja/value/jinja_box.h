/* model/text/template/jinja/value/jinja_box.h: lists and dicts, growing in the run's arena or from
 * JSON; and what is in a value: its items, how many they are, whether one is there. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

/* A new, empty list; `size` items can be pushed without another allocation. */
NODISCARD enum status jinja_list_new(struct jinja_run *run, size_t size, struct jinja_list **list);
NODISCARD enum status jinja_list_push(struct jinja_run *run, struct jinja_list *list,
                                      struct jinja_value item);
NODISCARD enum status jinja_list_push_all(struct jinja_run *run, struct jinja_list *list,
                                          const struct jinja_value *items, size_t n);
/* A new list of copies of n items. */
NODISCARD enum status jinja_list_of(struct jinja_run *run, const struct jinja_value *items,
                                    size_t n, struct jinja_list **list);
void jinja_list_reverse(struct jinja_list *list);

NODISCARD enum status jinja_dict_new(struct jinja_run *run, size_t size, struct jinja_dict **dict);
/* Sets or replaces. STATUS_INVALID for a key that cannot be one (a list, a dict). */
NODISCARD enum status jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict,
                                     struct jinja_value key, struct jinja_value value);
/* ABSENT when there is none. */
NODISCARD enum status jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict,
                                     struct jinja_value key, struct jinja_value *value);
NODISCARD enum status jinja_dict_get_name(struct jinja_run *run, const struct jinja_dict *dict,
                                          struct span name, struct jinja_value *value);

/* From JSON. Texts are plain (the request's) or not. STATUS_LIMIT when nested too deeply. */
NODISCARD enum status jinja_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
                                      unsigned depth, struct jinja_value *value);

/* Whether `item` is in `box`. */
NODISCARD enum status jinja_contains(struct jinja_run *run, struct jinja_value box,
                                     struct jinja_value item, bool *found);

/* What a `for` over the value would visit: a list's items, a dict's keys, a string's characters.
 * Borrowed or new; an iterator is spent by it. STATUS_INVALID for what cannot be iterated. */
NODISCARD enum status jinja_items_of(struct jinja_run *run, struct jinja_value value,
                                     const struct jinja_list **items);

/* len(): STATUS_INVALID for what has none. */
NODISCARD enum status jinja_length(struct jinja_run *run, struct jinja_value value, size_t *n);

/* (key, value) tuples of a dict, as a view or an iterator. */
NODISCARD enum status jinja_dict_items(struct jinja_run *run, const struct jinja_dict *from,
                                       enum jinja_kind kind, struct jinja_value *value);
