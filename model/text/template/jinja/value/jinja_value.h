/* model/text/template/jinja/value/jinja_value.h: what a template computes with: Python's values, as
 * far as templates see them.
 *
 * Values are passed by copy; what they point to lies in the render's arena (or, for constants, in
 * the program's) and never changes, but for namespaces and spent iterators. */
#pragma once

#include "model/text/template/jinja/jinja.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jinja_node;
struct jinja_scope;
struct jinja_builtin;

enum jinja_kind {
    JINJA_ABSENT = 0, /* an argument that was not given; never seen by templates */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_ITERATOR, /* of map, select, items...: always true, read once */
    JINJA_VIEW,     /* of dict.keys() and such */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_METHOD, /* a function, or a method bound to its object */
};

/* Text: UTF-8 with its origin. */
struct jinja_string {
    const char *bytes; /* (n) */
    size_t n;
    const struct jinja_mark *marks; /* (n_marks), NULL when all is of one kind: is_plain */
    size_t n_marks;
    bool is_plain;
};

struct jinja_value {
    enum jinja_kind kind;
    bool is_safe;  /* a string that `safe` has marked: Markup, which escapes what is added to it */
    bool is_plain; /* a number that the request gave */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const struct jinja_string *string;
        struct jinja_list *list;
        struct jinja_dict *dict; /* also of a namespace */
        const struct jinja_loop *loop;
        const struct jinja_macro *macro;
        const struct jinja_method *method;
        const char *name;  /* UNDEFINED: what is missing, for the error; may be NULL */
        const void *thing; /* what any of these pointers points to: the value's identity */
    };
};

struct jinja_list {
    struct jinja_value *items; /* (n) */
    size_t n;
    size_t size;
    bool is_spent; /* an iterator that was read */
};

struct jinja_dict {
    struct jinja_value *keys;   /* (n) in order of insertion */
    struct jinja_value *values; /* (n) */
    size_t n;
    size_t size;
};

struct jinja_loop {
    const struct jinja_list *items;
    size_t index; /* from 0 */
    unsigned depth;
};

struct jinja_macro {
    const struct jinja_node *node; /* MACRO or CALL_BLOCK */
    struct jinja_scope *scope;     /* where it was defined */
};

struct jinja_method {
    const struct jinja_builtin *builtin;
    struct jinja_value self;
};

static inline struct jinja_value jinja_undefined(const char *name) {
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .name = name};
}
static inline struct jinja_value jinja_none(void) {
    return (struct jinja_value){.kind = JINJA_NONE};
}
static inline struct jinja_value jinja_bool(bool boolean) {
    return (struct jinja_value){.kind = JINJA_BOOL, .boolean = boolean};
}
static inline struct jinja_value jinja_int(int64_t integer) {
    return (struct jinja_value){.kind = JINJA_INT, .integer = integer};
}
static inline struct jinja_value jinja_float(double number) {
    return (struct jinja_value){.kind = JINJA_FLOAT, .number = number};
}
static inline struct jinja_value jinja_text_value(const struct jinja_string *string) {
    return (struct jinja_value){.kind = JINJA_STRING, .string = string};
}
static inline bool jinja_is_string(struct jinja_value value) {
    return value.kind == JINJA_STRING;
}
static inline struct span jinja_span(struct jinja_value value) {
    return (struct span){value.string->bytes, value.string->n};
}
/* A string that says this. */
static inline bool jinja_is_text(struct jinja_value value, const char *text) {
    return jinja_is_string(value) && span_is(jinja_span(value), text);
}
static inline bool jinja_given(struct jinja_value value) {
    return value.kind != JINJA_ABSENT;
}
/* An argument that was given and is not None. */
static inline bool jinja_is_some(struct jinja_value value) {
    return value.kind != JINJA_ABSENT && value.kind != JINJA_NONE;
}
/* bool, int or float: what arithmetic takes. */
static inline bool jinja_is_number(struct jinja_value value) {
    return value.kind == JINJA_BOOL || value.kind == JINJA_INT || value.kind == JINJA_FLOAT;
}
/* An int or a bool as one. */
static inline bool jinja_is_integral(struct jinja_value value) {
    return value.kind == JINJA_BOOL || value.kind == JINJA_INT;
}
static inline int64_t jinja_integer(struct jinja_value value) {
    return value.kind == JINJA_BOOL ? value.boolean : value.integer;
}
/* The same; `otherwise` for what is neither. */
static inline int64_t jinja_integer_or(struct jinja_value value, int64_t otherwise) {
    return jinja_is_integral(value) ? jinja_integer(value) : otherwise;
}
double jinja_double(struct jinja_value value); /* of a number */

/* "str", "list", "Undefined": Python's name of the type. */
const char *jinja_type_name(struct jinja_value value);

/* Python's truth. */
bool jinja_true(struct jinja_value value);

static inline struct jinja_value jinja_list_value(enum jinja_kind kind, struct jinja_list *list) {
    return (struct jinja_value){.kind = kind, .list = list};
}
