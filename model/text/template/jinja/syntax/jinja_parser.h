/* model/text/template/jinja/syntax/jinja_parser.h: what the parser's files share. Grammar as
 * jinja2/parser.py (3.1). */
#pragma once

#include "model/text/template/jinja/syntax/jinja_ast.h"
#include "model/text/template/jinja/syntax/jinja_lex.h"

#define JINJA_ATOM_SLOTS 8192u /* power of two, above JINJA_ATOMS_MAX */

struct jinja_parser {
    struct jinja_program *program; /* being filled */
    struct jinja_tokens tokens;
    size_t pos;
    uint32_t n_nodes;
    unsigned nesting;
    unsigned n_loops; /* `for` around the place, within the macro */
    bool is_soft;     /* directly inside `if`: an unknown filter fails when it is met */
    const struct jinja_node *unknown; /* the first filter or test that does not exist, or NULL */
    struct jinja_node *macro;         /* whose body is being read, or NULL */
    uint32_t *atom_slots; /* (JINJA_ATOM_SLOTS): number of atom + 1 by hash, 0 is free */
    struct error *error;
};

/* A list of nodes being put together. */
struct jinja_nodes {
    struct jinja_node *first;
    struct jinja_node *last;
};

static inline void jinja_nodes_add(struct jinja_nodes *nodes, struct jinja_node *node) {
    if (nodes->last)
        nodes->last->next = node;
    else
        nodes->first = node;
    nodes->last = node;
}

static inline const struct jinja_token *jinja_token(const struct jinja_parser *parser) {
    return &parser->tokens.at[parser->pos];
}
/* The last token is the end, and no parser steps over it. */
static inline const struct jinja_token *jinja_next_token(const struct jinja_parser *parser) {
    size_t next = parser->pos + 1 < parser->tokens.n ? parser->pos + 1 : parser->pos;
    return &parser->tokens.at[next];
}
static inline void jinja_skip(struct jinja_parser *parser) {
    if (parser->pos + 1 < parser->tokens.n)
        parser->pos++;
}
static inline bool jinja_token_is_op(const struct jinja_token *token, uint16_t op) {
    return token->kind == JINJA_T_OPERATOR && token->op == op;
}
static inline bool jinja_token_is_name(const struct jinja_token *token, const char *name) {
    return token->kind == JINJA_T_NAME && span_is(token->text, name);
}
static inline bool jinja_at_op(const struct jinja_parser *parser, uint16_t op) {
    return jinja_token_is_op(jinja_token(parser), op);
}
static inline bool jinja_at_name(const struct jinja_parser *parser, const char *name) {
    return jinja_token_is_name(jinja_token(parser), name);
}
static inline bool jinja_skip_op(struct jinja_parser *parser, uint16_t op) {
    bool is_it = jinja_at_op(parser, op);
    if (is_it)
        jinja_skip(parser);
    return is_it;
}
static inline bool jinja_skip_name(struct jinja_parser *parser, const char *name) {
    bool is_it = jinja_at_name(parser, name);
    if (is_it)
        jinja_skip(parser);
    return is_it;
}

/* "line N: ..." at the current token. */
enum status jinja_parse_fail(struct jinja_parser *parser, enum status status, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));
/* "line N: WHAT expected, not ..." */
enum status jinja_parse_expected(struct jinja_parser *parser, const char *what);
#ifdef __clang_analyzer__ /* as base/error.h */
#define jinja_parse_fail(parser, status, ...)                                                      \
    (jinja_parse_fail(parser, status, __VA_ARGS__), (status))
#define jinja_parse_expected(parser, what) (jinja_parse_expected(parser, what), STATUS_INVALID)
#endif

NODISCARD enum status jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind,
                                     struct jinja_node **node);
/* A NUL-terminated copy in the program. */
NODISCARD enum status jinja_name_copy(struct jinja_parser *parser, struct span name,
                                      const char **copy);
/* The number of a variable's name, and its copy. */
NODISCARD enum status jinja_atom(struct jinja_parser *parser, struct span name,
                                 struct jinja_node *node);

/* Brackets and statements inside each other. */
NODISCARD enum status jinja_nest(struct jinja_parser *parser);
static inline void jinja_unnest(struct jinja_parser *parser) {
    parser->nesting--;
}

/* ---- jinja_primary.c, jinja_expression.c: they call each other, as the grammar does ---- */

/* A new node around `a`. */
NODISCARD enum status jinja_wrap(struct jinja_parser *parser, enum jinja_node_kind kind,
                                 struct jinja_node *a, struct jinja_node **node);

/* Notes a filter or test without builtin: refused at the end unless its place is soft. */
void jinja_parse_unknown(struct jinja_parser *parser, const struct jinja_node *node);

/* One expression; without `if ... else` where a statement's own `if` follows. */
NODISCARD enum status jinja_parse_expression(struct jinja_parser *parser, bool with_if_else,
                                             struct jinja_node **node);
/* One, or a tuple of several with commas between. */
NODISCARD enum status jinja_parse_tuple(struct jinja_parser *parser, bool with_if_else,
                                        struct jinja_node **node);
NODISCARD enum status jinja_parse_primary(struct jinja_parser *parser, struct jinja_node **node);
NODISCARD enum status jinja_parse_arguments(struct jinja_parser *parser, struct jinja_node **first);
/* `| name(...)` again and again; *node is what the first one is applied to, may be NULL. */
NODISCARD enum status jinja_parse_filters(struct jinja_parser *parser, struct jinja_node **node);
/* One filter whose name is the current token. */
NODISCARD enum status jinja_parse_filter(struct jinja_parser *parser, struct jinja_node **node);
NODISCARD enum status jinja_parse_call(struct jinja_parser *parser, struct jinja_node **node);
/* At `is`. */
NODISCARD enum status jinja_parse_test(struct jinja_parser *parser, struct jinja_node **node);
/* Attributes, indexes and calls behind *node. */
NODISCARD enum status jinja_parse_postfix(struct jinja_parser *parser, struct jinja_node **node);

/* ---- jinja_parse.c ---- */

/* The whole template. */
NODISCARD enum status jinja_parse_statements(struct jinja_parser *parser,
                                             struct jinja_node **first);

/* ---- jinja_literal.c ---- */

/* The current token, a string, integer or float, as a value in the program. */
NODISCARD enum status jinja_parse_literal(struct jinja_parser *parser, struct jinja_value *value);
NODISCARD enum status jinja_constant_string(struct jinja_parser *parser, const char *bytes,
                                            size_t n, struct jinja_value *value);
