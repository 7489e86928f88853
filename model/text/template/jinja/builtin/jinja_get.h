/* model/text/template/jinja/builtin/jinja_get.h: attributes, items and slices. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

/* object.name: a method, an entry of a dict, or undefined. */
NODISCARD enum status jinja_get_attr(struct jinja_run *run, struct jinja_value object,
                                     struct span name, struct jinja_value *value);
/* object[key] */
NODISCARD enum status jinja_get_item(struct jinja_run *run, struct jinja_value object,
                                     struct jinja_value key, struct jinja_value *value);
/* object[start:stop:step], bounds may be none. */
NODISCARD enum status jinja_get_slice(struct jinja_run *run, struct jinja_value object,
                                      const struct jinja_value bounds[3],
                                      struct jinja_value *value);
/* The value at a path "a.b.0" as map(attribute=) and sort(attribute=) read it. */
NODISCARD enum status jinja_get_path(struct jinja_run *run, struct jinja_value object,
                                     struct jinja_value path, struct jinja_value *value);
