/* model/text/template/jinja/eval/jinja_eval.h: expressions. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_node;
struct jinja_run;
struct jinja_scope;

NODISCARD enum status jinja_eval(struct jinja_run *run, struct jinja_scope *scope,
                                 const struct jinja_node *node, struct jinja_value *value);

/* A CALL node; `caller` is ABSENT but for a call block. */
NODISCARD enum status jinja_eval_call(struct jinja_run *run, struct jinja_scope *scope,
                                      const struct jinja_node *node, struct jinja_value caller,
                                      struct jinja_value *value);

/* Filters of a filter block or a block set, on `subject`. filters may be NULL. */
NODISCARD enum status jinja_eval_filters(struct jinja_run *run, struct jinja_scope *scope,
                                         const struct jinja_node *filters,
                                         struct jinja_value subject, struct jinja_value *value);
