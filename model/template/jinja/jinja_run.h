/* model/template/jinja/jinja_run.h: one render at work: its memory, its budgets, its variables.
 *
 * One thread. Whatever fails has written the run's error ("line N: ...") before it returns. */
#pragma once

#include "base/arena.h"
#include "model/template/jinja/jinja_ast.h"
#include "model/template/jinja/jinja_text.h"

struct jinja_var {
    struct jinja_var *next;
    uint32_t atom;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent; /* NULL: the template itself, whose variables are the globals */
    struct jinja_var *vars;
};

enum jinja_flow { JINJA_FLOW_NEXT, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE };

struct jinja_run {
    const struct jinja_program *program; /* borrowed */
    struct arena arena;                  /* owned: all values of this render */
    struct jinja_value *globals;         /* (n_atoms) by atom; ABSENT: never set */
    struct jinja_text *out;              /* where output goes: the prompt or a macro's text */
    size_t n_steps;
    size_t steps_max;
    size_t output_max; /* bytes of any one text that is written */
    unsigned depth;
    enum jinja_flow flow; /* on the way to the loop's end after break or continue */
    uint32_t line;        /* of the node at work */
    int64_t now_s;
    struct error *error; /* borrowed */
};

/* "line N: ..." into the run's error; returns status. */
enum status jinja_fail(struct jinja_run *run, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Spends steps. */
NODISCARD enum status jinja_charge(struct jinja_run *run, size_t n_steps);

/* One evaluation deeper; STATUS_LIMIT past JINJA_DEPTH_MAX. A render that fails is over, so only
 * the way without errors leaves again. */
NODISCARD enum status jinja_enter(struct jinja_run *run);
static inline void jinja_leave(struct jinja_run *run) {
    run->depth--;
}

/* Zeroed memory of the run into *(T **)memory: n of `size` bytes. */
NODISCARD enum status jinja_alloc(struct jinja_run *run, size_t n, size_t size, void *memory);

/* Room for one more: doubles *items (n used of *size, each of item_size bytes) when it is full. */
NODISCARD enum status jinja_grow(struct jinja_run *run, void *items, size_t n, size_t *size,
                                 size_t item_size);

/* ---- expressions (jinja_eval.c) ---- */

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

/* a OP b for +, -, *, /, //, %, **. */
NODISCARD enum status jinja_arith(struct jinja_run *run, enum jinja_op op, struct jinja_value a,
                                  struct jinja_value b, struct jinja_value *value);

/* format % values, as in Python (jinja_format.c). */
NODISCARD enum status jinja_format_percent(struct jinja_run *run, struct jinja_value format,
                                           struct jinja_value values, struct jinja_value *value);

/* ---- attributes and items (jinja_get.c) ---- */

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

/* ---- calls ---- */

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

/* Binds the arguments and calls. STATUS_INVALID for too many, too few or unknown ones. */
NODISCARD enum status jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                                   struct jinja_value self, const struct jinja_args *args,
                                   struct jinja_value *value);

/* Calls any value. */
NODISCARD enum status jinja_call(struct jinja_run *run, struct jinja_value callee,
                                 const struct jinja_args *args, struct jinja_value *value);

/* A macro's text, or a call block's (jinja_exec.c). `caller`: ABSENT or the call block's own. */
NODISCARD enum status jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                                       const struct jinja_args *args, struct jinja_value *value);

/* By name; NULL when there is none. */
const struct jinja_builtin *jinja_find_filter(const char *name);
const struct jinja_builtin *jinja_find_test(const char *name);
const struct jinja_builtin *jinja_find_function(const char *name);
/* Of the kinds that have methods. */
const struct jinja_builtin *jinja_find_method(enum jinja_kind kind, struct span name);

/* Members of those tables that stand in files of their own; each ends with a NULL name. */
/* (key, value) tuples of a dict, as a view or an iterator. */
NODISCARD enum status jinja_dict_items(struct jinja_run *run, const struct jinja_dict *from,
                                       enum jinja_kind kind, struct jinja_value *value);

extern const struct jinja_builtin jinja_string_methods[];
extern const struct jinja_builtin jinja_split_methods[];
extern const struct jinja_builtin jinja_box_filters[];
extern const struct jinja_builtin jinja_text_filters[];
extern const struct jinja_builtin jinja_choice_filters[];

/* ---- variables (jinja_exec.c) ---- */

/* ABSENT when there is none. */
NODISCARD enum status jinja_lookup(struct jinja_run *run, const struct jinja_scope *scope,
                                   uint32_t atom, struct jinja_value *value);
NODISCARD enum status jinja_assign(struct jinja_run *run, struct jinja_scope *scope, uint32_t atom,
                                   struct jinja_value value);

/* Statements into run->out. */
NODISCARD enum status jinja_exec(struct jinja_run *run, struct jinja_scope *scope,
                                 const struct jinja_node *first);
