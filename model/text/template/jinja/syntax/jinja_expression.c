/* Expressions' operators, by recursive descent. Each bracket, `not`, sign and `else` counts as one
 * level of nesting, and operators of one rank become one node with a list, so that the tree is no
 * deeper than the source is nested, but for postfixes and filters, which count too. */
#include "model/text/template/jinja/syntax/jinja_parser.h"

/* A sign binds weaker than postfixes and stronger than filters. */
static enum status jinja_parse_unary(struct jinja_parser *parser, bool with_filters,
                                     struct jinja_node **node) {
    unsigned before = parser->nesting;
    if (jinja_at_op(parser, '-') || jinja_at_op(parser, '+')) {
        bool is_minus = jinja_at_op(parser, '-');
        struct jinja_node *inner;
        jinja_skip(parser);
        TRY(jinja_nest(parser));
        TRY(jinja_parse_unary(parser, false, &inner));
        TRY(jinja_wrap(parser, is_minus ? JINJA_NEGATE : JINJA_PLUS, inner, node));
    } else {
        TRY(jinja_parse_primary(parser, node));
    }
    TRY(jinja_parse_postfix(parser, node));
    for (bool more = with_filters; more;) {
        TRY(jinja_nest(parser));
        if (jinja_skip_op(parser, '|'))
            TRY(jinja_parse_filter(parser, node));
        else if (jinja_at_name(parser, "is"))
            TRY(jinja_parse_test(parser, node));
        else if (jinja_at_op(parser, '('))
            TRY(jinja_parse_call(parser, node));
        else
            more = false;
    }
    parser->nesting = before;
    return STATUS_OK;
}

static enum jinja_op jinja_arith_op(const struct jinja_token *token, unsigned rank) {
    static const struct {
        uint16_t token;
        enum jinja_op op;
        unsigned rank;
    } ops[] = {
        {'+', JINJA_ADD, 0},
        {'-', JINJA_SUB, 0},
        {'*', JINJA_MUL, 1},
        {'/', JINJA_DIV, 1},
        {'%', JINJA_MOD, 1},
        {JINJA_OP2('/', '/'), JINJA_FLOORDIV, 1},
        {JINJA_OP2('*', '*'), JINJA_POW, 2},
    };
    for (size_t i = 0; token->kind == JINJA_T_OPERATOR && i < sizeof ops / sizeof *ops; i++)
        if (ops[i].token == token->op && ops[i].rank == rank)
            return ops[i].op;
    return JINJA_OP_NONE;
}

static enum status jinja_parse_concat(struct jinja_parser *parser, struct jinja_node **node);

/* Rank 0: + -; between 0 and 1 stands ~; rank 1: * / // %; rank 2: **; all from the left. */
static enum status jinja_parse_arith(struct jinja_parser *parser, unsigned rank,
                                     struct jinja_node **node) {
    struct jinja_nodes operands = {0};
    struct jinja_node *operand;
    enum jinja_op op = JINJA_OP_NONE;
    do {
        if (op != JINJA_OP_NONE) {
            TRY(jinja_node_new(parser, JINJA_OPERAND, &operand));
            operand->op = op;
            jinja_skip(parser);
            jinja_nodes_add(&operands, operand);
        }
        struct jinja_node **to = operands.last ? &operands.last->a : node;
        if (rank == 0)
            TRY(jinja_parse_concat(parser, to));
        else if (rank == 1)
            TRY(jinja_parse_arith(parser, 2, to));
        else
            TRY(jinja_parse_unary(parser, true, to));
        op = jinja_arith_op(jinja_token(parser), rank);
    } while (op != JINJA_OP_NONE);
    if (!operands.first)
        return STATUS_OK;
    TRY(jinja_wrap(parser, JINJA_ARITH, *node, node));
    (*node)->b = operands.first;
    return STATUS_OK;
}

/* A list of what `parse` reads with `between` between; one alone stays itself. */
static enum status
jinja_parse_chain(struct jinja_parser *parser, enum jinja_node_kind kind, const char *between,
                  enum status (*parse)(struct jinja_parser *, struct jinja_node **),
                  struct jinja_node **node) {
    struct jinja_nodes items = {0};
    do {
        struct jinja_node *item;
        TRY(parse(parser, &item));
        jinja_nodes_add(&items, item);
    } while (between[0] == '~' ? jinja_skip_op(parser, '~') : jinja_skip_name(parser, between));
    *node = items.first;
    return items.first->next ? jinja_wrap(parser, kind, items.first, node) : STATUS_OK;
}

static enum status jinja_parse_product(struct jinja_parser *parser, struct jinja_node **node) {
    return jinja_parse_arith(parser, 1, node);
}

static enum status jinja_parse_concat(struct jinja_parser *parser, struct jinja_node **node) {
    return jinja_parse_chain(parser, JINJA_CONCAT, "~", jinja_parse_product, node);
}

/* The comparison at the current token, its tokens skipped. */
static enum jinja_op jinja_skip_comparison(struct jinja_parser *parser) {
    static const struct {
        uint16_t token;
        enum jinja_op op;
    } ops[] = {
        {JINJA_OP2('=', '='), JINJA_EQ},
        {JINJA_OP2('!', '='), JINJA_NE},
        {JINJA_OP2('<', '='), JINJA_LE},
        {JINJA_OP2('>', '='), JINJA_GE},
        {'<', JINJA_LT},
        {'>', JINJA_GT},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (jinja_skip_op(parser, ops[i].token))
            return ops[i].op;
    if (jinja_skip_name(parser, "in"))
        return JINJA_IN;
    if (!jinja_at_name(parser, "not") || !jinja_token_is_name(jinja_next_token(parser), "in"))
        return JINJA_OP_NONE;
    jinja_skip(parser);
    jinja_skip(parser);
    return JINJA_NOT_IN;
}

static enum status jinja_parse_compare(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_nodes operands = {0};
    enum jinja_op op;
    TRY(jinja_parse_arith(parser, 0, node));
    while ((op = jinja_skip_comparison(parser)) != JINJA_OP_NONE) {
        struct jinja_node *operand;
        TRY(jinja_node_new(parser, JINJA_OPERAND, &operand));
        operand->op = op;
        TRY(jinja_parse_arith(parser, 0, &operand->a));
        jinja_nodes_add(&operands, operand);
    }
    if (!operands.first)
        return STATUS_OK;
    TRY(jinja_wrap(parser, JINJA_COMPARE, *node, node));
    (*node)->b = operands.first;
    return STATUS_OK;
}

static enum status jinja_parse_not(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_node *inner;
    if (!jinja_skip_name(parser, "not"))
        return jinja_parse_compare(parser, node);
    TRY(jinja_nest(parser));
    TRY(jinja_parse_not(parser, &inner));
    jinja_unnest(parser);
    return jinja_wrap(parser, JINJA_NOT, inner, node);
}

static enum status jinja_parse_and(struct jinja_parser *parser, struct jinja_node **node) {
    return jinja_parse_chain(parser, JINJA_AND, "and", jinja_parse_not, node);
}

static enum status jinja_parse_or(struct jinja_parser *parser, struct jinja_node **node) {
    return jinja_parse_chain(parser, JINJA_OR, "or", jinja_parse_and, node);
}

enum status jinja_parse_expression(struct jinja_parser *parser, bool with_if_else,
                                   struct jinja_node **node) {
    unsigned before = parser->nesting;
    const struct jinja_node *unknown = parser->unknown;
    TRY(jinja_nest(parser));
    TRY(jinja_parse_or(parser, node));
    while (with_if_else && jinja_skip_name(parser, "if")) {
        struct jinja_node *made;
        TRY(jinja_nest(parser));
        TRY(jinja_node_new(parser, JINJA_IF_ELSE, &made));
        made->b = *node;
        TRY(jinja_parse_or(parser, &made->a));
        if (jinja_skip_name(parser, "else"))
            TRY(jinja_parse_expression(parser, true, &made->c));
        *node = made;
        parser->unknown = unknown; /* only the branch that is taken needs its filters */
    }
    parser->nesting = before;
    return STATUS_OK;
}

static bool jinja_ends_tuple(const struct jinja_parser *parser) {
    const struct jinja_token *token = jinja_token(parser);
    return token->kind == JINJA_T_VARIABLE_END || token->kind == JINJA_T_BLOCK_END ||
           token->kind == JINJA_T_END || jinja_token_is_op(token, ')');
}

enum status jinja_parse_tuple(struct jinja_parser *parser, bool with_if_else,
                              struct jinja_node **node) {
    struct jinja_nodes items = {0};
    bool is_tuple = false;
    while (!items.first || jinja_skip_op(parser, ',')) {
        struct jinja_node *item;
        is_tuple = items.first != NULL;
        if (is_tuple && jinja_ends_tuple(parser))
            break;
        TRY(jinja_parse_expression(parser, with_if_else, &item));
        jinja_nodes_add(&items, item);
    }
    *node = items.first;
    if (!is_tuple)
        return STATUS_OK;
    TRY(jinja_node_new(parser, JINJA_MAKE_TUPLE, node));
    (*node)->a = items.first;
    return STATUS_OK;
}
