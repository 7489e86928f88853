/* model/template/jinja/value/jinja_box.h: lists and dicts, growing in the run's arena; and from JSON. */
#pragma once

#include "base/status.h"
#include "model/template/jinja/value/jinja_value.h"

struct jinja_run;

/* A new, empty list; `size` items can be pushed without another allocation. */
NODISCARD enum status jinja_list_new(struct jinja_run *run, size_t size, struct jinja_list **list);
NODISCARD enum status jinja_list_push(struct jinja_run *run, struct jinja_list *list,
                                      struct jinja_value item);

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
