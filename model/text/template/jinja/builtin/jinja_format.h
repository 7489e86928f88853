/* model/text/template/jinja/builtin/jinja_format.h: values put into formats, as in Python. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_args;
struct jinja_run;

/* '{} {name} {0:>4}'.format(...): fields of Python's mini-language without attributes. */
enum status jinja_format_method(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_value *bound, const struct jinja_args *args,
                                struct jinja_value *value);
