/* model/text/template/jinja/builtin/jinja_builtin.h: functions, methods, filters and tests: which
 * there are, and how one is called. */
#pragma once

#include "base/span.h"
#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

struct jinja_named {
    const char *name;
    struct jinja_value value;
};

/* Arguments as given, and for a builtin with named parameters the same by parameter. */
struct jinja_args {
    struct jinja_value *values; /* (n) */
    size_t n;
    struct jinja_named *named; /* (n_named) */
    size_t n_named;
};

#define JINJA_PARAMS_MAX 5

enum jinja_arguments {
    JINJA_NAMED,      /* by place or by name */
    JINJA_POSITIONAL, /* by place alone, as most methods of Python */
    JINJA_ANY,        /* takes what comes and reads args itself */
};

/* A filter, test, function or method. */
struct jinja_builtin {
    const char *name;
    const char *params[JINJA_PARAMS_MAX];
    unsigned n_required;
    enum jinja_arguments arguments;
    /* bound: by params, ABSENT where not given */
    enum status (*call)(struct jinja_run *run, struct jinja_value self,
                        const struct jinja_value *bound, const struct jinja_args *args,
                        struct jinja_value *value);
};

/* The head of a builtin's function, as in `call`; most use some of the parameters. */
#define JINJA_BUILTIN(name)                                                                        \
    static enum status name(__attribute__((unused)) struct jinja_run *run,                         \
                            __attribute__((unused)) struct jinja_value self,                       \
                            __attribute__((unused)) const struct jinja_value *bound,               \
                            __attribute__((unused)) const struct jinja_args *args,                 \
                            __attribute__((unused)) struct jinja_value *value)

/* Binds the arguments and calls. STATUS_INVALID for too many, too few or unknown ones. */
NODISCARD enum status jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                                   struct jinja_value self, const struct jinja_args *args,
                                   struct jinja_value *value);

/* The member of that name in a table that ends with a NULL name; NULL when there is none. */
const struct jinja_builtin *jinja_find_in(const struct jinja_builtin *table, struct span name);

/* By name; NULL when there is none. */
const struct jinja_builtin *jinja_find_filter(const char *name);
const struct jinja_builtin *jinja_find_test(const char *name);
const struct jinja_builtin *jinja_find_function(const char *name);
/* Of the kinds that have methods. */
const struct jinja_builtin *jinja_find_method(enum jinja_kind kind, struct span name);

/* The parts of those tables that have files of their own; each ends with a NULL name. */
extern const struct jinja_builtin jinja_json_filters[];
extern const struct jinja_builtin jinja_string_methods[];
extern const struct jinja_builtin jinja_split_methods[];
extern const struct jinja_builtin jinja_box_filters[];
extern const struct jinja_builtin jinja_text_filters[];
