/* model/template/jinja/builtin/jinja_tables.h: what there is, by name. */
#pragma once

#include "base/span.h"
#include "model/template/jinja/builtin/jinja_builtin.h"
#include "model/template/jinja/value/jinja_value.h"

/* By name; NULL when there is none. */
const struct jinja_builtin *jinja_find_filter(const char *name);
const struct jinja_builtin *jinja_find_test(const char *name);
const struct jinja_builtin *jinja_find_function(const char *name);
/* Of the kinds that have methods. */
const struct jinja_builtin *jinja_find_method(enum jinja_kind kind, struct span name);

/* The parts of those tables that stand in files of their own; each ends with a NULL name. */
extern const struct jinja_builtin jinja_string_methods[];
extern const struct jinja_builtin jinja_split_methods[];
extern const struct jinja_builtin jinja_box_filters[];
extern const struct jinja_builtin jinja_text_filters[];
