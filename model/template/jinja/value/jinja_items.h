/* model/template/jinja/value/jinja_items.h: what is in a value: its items, how many they are, whether one is
 * there. */
#pragma once

#include "base/status.h"
#include "model/template/jinja/value/jinja_value.h"

struct jinja_run;

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
