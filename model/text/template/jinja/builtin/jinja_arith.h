/* model/text/template/jinja/builtin/jinja_arith.h: arithmetic as in Python. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

enum jinja_op {
    JINJA_OP_NONE,
    JINJA_ADD,
    JINJA_SUB,
    JINJA_MUL,
    JINJA_DIV,
    JINJA_FLOORDIV,
    JINJA_MOD,
    JINJA_POW,
    JINJA_EQ,
    JINJA_NE,
    JINJA_LT,
    JINJA_LE,
    JINJA_GT,
    JINJA_GE,
    JINJA_IN,
    JINJA_NOT_IN,
};

/* a OP b for +, -, *, /, //, %, **. */
NODISCARD enum status jinja_arith(struct jinja_run *run, enum jinja_op op, struct jinja_value a,
                                  struct jinja_value b, struct jinja_value *value);
