/* model/text/template/jinja/value/jinja_run.h: one render at work: its memory and its budgets.
 *
 * One thread. A function that fails has written the run's error ("line N: ...") before it returns. */
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct error;
struct jinja_args;
struct jinja_program;
struct jinja_text;

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
    /* jinja_call_macro(): statements lie above the expressions that call macros. */
    enum status (*call_macro)(struct jinja_run *run, const struct jinja_macro *macro,
                              const struct jinja_args *args, struct jinja_value *value);
    struct error *error; /* borrowed */
};

/* "line N: ..." into the run's error; returns status. */
enum status jinja_fail(struct jinja_run *run, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* as base/error.h */
#define jinja_fail(run, status, ...) (jinja_fail(run, status, __VA_ARGS__), (status))
#endif

/* For what Python does not do with an undefined value. */
static inline enum status jinja_fail_undefined(struct jinja_run *run, struct jinja_value value) {
    return jinja_fail(run, STATUS_INVALID, "%.96s is undefined",
                      value.name ? value.name : "a value");
}

/* "abs takes a number", and what the value is instead. */
static inline enum status jinja_fail_kind(struct jinja_run *run, const char *wanted,
                                          struct jinja_value value) {
    return jinja_fail(run, STATUS_INVALID, "%s, not %s", wanted, jinja_type_name(value));
}

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
