/* model/text/template/jinja/syntax/jinja_ast.h: a template as a tree, and the program that holds
 * it.
 *
 * Nodes lie in the program's arena and are read-only once parsed. Lists of nodes hang together by
 * `next`. Which child means what stands beside each kind. */
#pragma once

#include "base/arena.h"
#include "model/text/template/jinja/builtin/jinja_arith.h"
#include "model/text/template/jinja/value/jinja_value.h"

enum jinja_node_kind {
    /* expressions */
    JINJA_CONST,  /* value */
    JINJA_NAME,   /* atom, name */
    JINJA_ATTR,   /* a.name */
    JINJA_ITEM,   /* a[b] */
    JINJA_SLICE,  /* a[b:c:d], each may be NULL but a */
    JINJA_CALL,   /* a(b...): b is a list of arguments */
    JINJA_FILTER, /* a | builtin(b...): a is NULL for the body of a filter block */
    JINJA_TEST,   /* a is builtin(b...) */
    JINJA_NOT,
    JINJA_NEGATE,
    JINJA_PLUS,
    JINJA_AND,     /* list a */
    JINJA_OR,      /* list a */
    JINJA_COMPARE, /* a, then OPERANDs b */
    JINJA_ARITH,   /* a, then OPERANDs b, from left to right */
    JINJA_OPERAND, /* op, a */
    JINJA_CONCAT,  /* list a */
    JINJA_IF_ELSE, /* b if a else c; c may be NULL */
    JINJA_MAKE_LIST,
    JINJA_MAKE_TUPLE, /* list a; also as a target */
    JINJA_MAKE_DICT,  /* PAIRs a */
    JINJA_PAIR,       /* a: b */
    JINJA_KEYWORD,    /* an argument: name = a */
    JINJA_STAR,       /* an argument: *a */
    JINJA_STAR_STAR,  /* an argument: **a */
    JINJA_NS_REF,     /* a target: atom.name */
    /* statements */
    JINJA_DATA,        /* value: a string */
    JINJA_OUTPUT,      /* expression a */
    JINJA_IF,          /* BRANCHes a */
    JINJA_BRANCH,      /* if a (NULL: else) then statements b */
    JINJA_FOR,         /* target a in b if c (or NULL): d, else e */
    JINJA_SET,         /* target a = b */
    JINJA_SET_TEXT,    /* target a = filters b (or NULL) of statements c */
    JINJA_DEFINE,      /* macro atom, name: PARAMs a, statements b */
    JINJA_PARAM,       /* atom, name; default a or NULL */
    JINJA_CALL_BLOCK,  /* call of c with caller: PARAMs a, statements b */
    JINJA_FILTER_TEXT, /* filters b of statements c */
    JINJA_SCOPE,       /* PARAMs a with their values, statements b (with, generation) */
    JINJA_BREAK,
    JINJA_CONTINUE,
};

struct jinja_node {
    enum jinja_node_kind kind;
    enum jinja_op op;
    uint32_t line;
    uint32_t atom; /* number of a variable's name in the program */
    const char *name;
    struct jinja_node *a;
    struct jinja_node *b;
    struct jinja_node *c;
    struct jinja_node *d;
    struct jinja_node *e;
    struct jinja_node *next;
    const struct jinja_builtin *builtin;
    struct jinja_value value;
    unsigned takes; /* DEFINE: bits 1 << atom: its body names caller, varargs, kwargs */
};

/* Variables' names that the interpreter itself looks for; the parser numbers them first. */
enum { JINJA_ATOM_LOOP, JINJA_ATOM_CALLER, JINJA_ATOM_VARARGS, JINJA_ATOM_KWARGS, JINJA_ATOMS };

#define JINJA_ATOMS_MAX 4096u

struct jinja_program {
    struct arena arena; /* owned: nodes, names, constants */
    struct jinja_node *body;
    const char **atoms; /* in the arena (n_atoms): variables' names by number */
    uint32_t n_atoms;
};
