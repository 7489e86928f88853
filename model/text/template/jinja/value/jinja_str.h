/* model/text/template/jinja/value/jinja_str.h: str() and repr() as Python writes them. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;
struct jinja_text;

/* str(value), as `{{ }}` and `~` write it. STATUS_INVALID for what has no text (a macro). */
NODISCARD enum status jinja_put_value(struct jinja_run *run, struct jinja_text *text,
                                      struct jinja_value value);
/* Python's repr(value). */
NODISCARD enum status jinja_put_repr(struct jinja_run *run, struct jinja_text *text,
                                     struct jinja_value value, unsigned depth);
/* Python's repr of a float, into out (32 bytes). */
void jinja_float_text(double number, char out[32]);

/* str(value) as a string; a string stays itself. */
NODISCARD enum status jinja_to_string(struct jinja_run *run, struct jinja_value value,
                                      const struct jinja_string **string);
