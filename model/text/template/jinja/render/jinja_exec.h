/* model/text/template/jinja/render/jinja_exec.h: statements, and the macros made of them. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_args;
struct jinja_node;
struct jinja_run;
struct jinja_scope;

/* Statements into run->out. */
NODISCARD enum status jinja_exec(struct jinja_run *run, struct jinja_scope *scope,
                                 const struct jinja_node *first);

/* A macro's text, or a call block's. `caller`: ABSENT or the call block's own. */
NODISCARD enum status jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                                       const struct jinja_args *args, struct jinja_value *value);
