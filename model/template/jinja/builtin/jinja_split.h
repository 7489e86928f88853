/* model/template/jinja/builtin/jinja_split.h: texts cut into lists. */
#pragma once

#include "base/status.h"
#include "model/template/jinja/value/jinja_value.h"

struct jinja_run;

/* str.splitlines() */
NODISCARD enum status jinja_split_lines(struct jinja_run *run, struct jinja_value self,
                                        bool keep_ends, struct jinja_value *value);
