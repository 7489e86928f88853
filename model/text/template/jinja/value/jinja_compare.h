/* model/text/template/jinja/value/jinja_compare.h: which values are equal, which comes first, and
 * where a dict has a key. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

/* Whether a == b; never an error. Charges the run for what it compares. */
NODISCARD enum status jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                                  bool *equal);

/* Orders a and b: below, at or above 0. STATUS_INVALID for kinds that have no order. */
NODISCARD enum status jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                                  int *order);

/* The indexes of n keys by their order, the greatest first with `reverse`; equal ones stay as they are, as in
 * Python. In the run's arena. */
NODISCARD enum status jinja_sort(struct jinja_run *run, const struct jinja_value *keys, size_t n,
                                 bool reverse, size_t **order);

/* The place of a key, dict->n when it is not there. STATUS_INVALID for a key that cannot be one. */
NODISCARD enum status jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                                      struct jinja_value key, size_t *at);
