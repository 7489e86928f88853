/* model/text/template/jinja/eval/jinja_scope.h: variables and where they are seen. As in Jinja,
 * `for`, macros and blocks have variables of their own and see those around them; `if` has none. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

struct jinja_var {
    struct jinja_var *next;
    uint32_t atom;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent; /* NULL: the template itself, whose variables are the globals */
    struct jinja_var *vars;
};

/* ABSENT when there is none. */
NODISCARD enum status jinja_lookup(struct jinja_run *run, const struct jinja_scope *scope,
                                   uint32_t atom, struct jinja_value *value);
NODISCARD enum status jinja_assign(struct jinja_run *run, struct jinja_scope *scope, uint32_t atom,
                                   struct jinja_value value);

/* A new one inside `parent`, in the run's arena: a macro defined in it may outlive it. */
NODISCARD enum status jinja_scope_new(struct jinja_run *run, struct jinja_scope *parent,
                                      struct jinja_scope **scope);
