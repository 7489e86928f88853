/* The operands of expressions: names, literals, brackets, and what stands behind them: attributes,
 * indexes, calls, filters, tests. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/syntax/jinja_parser.h"

enum status jinja_wrap(struct jinja_parser *parser, enum jinja_node_kind kind, struct jinja_node *a,
                       struct jinja_node **node) {
    TRY(jinja_node_new(parser, kind, node));
    (*node)->a = a;
    (*node)->line = a->line;
    return STATUS_OK;
}

/* Items up to the closing bracket, a comma between, perhaps one behind the last. */
static enum status jinja_parse_list(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_nodes items = {0};
    TRY(jinja_node_new(parser, JINJA_MAKE_LIST, node));
    jinja_skip(parser);
    while (!jinja_at_op(parser, ']')) {
        struct jinja_node *item;
        if (items.first && !jinja_skip_op(parser, ','))
            return jinja_parse_expected(parser, "a comma");
        if (jinja_at_op(parser, ']'))
            break;
        TRY(jinja_parse_expression(parser, true, &item));
        jinja_nodes_add(&items, item);
    }
    jinja_skip(parser);
    (*node)->a = items.first;
    return STATUS_OK;
}

static enum status jinja_parse_dict(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_nodes items = {0};
    TRY(jinja_node_new(parser, JINJA_MAKE_DICT, node));
    jinja_skip(parser);
    while (!jinja_at_op(parser, '}')) {
        struct jinja_node *pair;
        if (items.first && !jinja_skip_op(parser, ','))
            return jinja_parse_expected(parser, "a comma");
        if (jinja_at_op(parser, '}'))
            break;
        TRY(jinja_node_new(parser, JINJA_PAIR, &pair));
        TRY(jinja_parse_expression(parser, true, &pair->a));
        if (!jinja_skip_op(parser, ':'))
            return jinja_parse_expected(parser, "a colon");
        TRY(jinja_parse_expression(parser, true, &pair->b));
        jinja_nodes_add(&items, pair);
    }
    jinja_skip(parser);
    (*node)->a = items.first;
    return STATUS_OK;
}

static enum status jinja_parse_parentheses(struct jinja_parser *parser, struct jinja_node **node) {
    jinja_skip(parser);
    if (jinja_at_op(parser, ')'))
        TRY(jinja_node_new(parser, JINJA_MAKE_TUPLE, node));
    else
        TRY(jinja_parse_tuple(parser, true, node));
    return jinja_skip_op(parser, ')') ? STATUS_OK : jinja_parse_expected(parser, "a parenthesis");
}

/* Strings beside each other are one. */
static enum status jinja_parse_strings(struct jinja_parser *parser, struct jinja_node *node) {
    TRY(jinja_parse_literal(parser, &node->value));
    jinja_skip(parser);
    while (jinja_token(parser)->kind == JINJA_T_STRING) {
        struct jinja_value more;
        TRY(jinja_parse_literal(parser, &more));
        jinja_skip(parser);
        size_t n = node->value.string->n + more.string->n;
        char *both = arena_alloc(&parser->program->arena, n + 1);
        if (!both)
            return jinja_parse_fail(parser, STATUS_LIMIT, "the template's strings are too long");
        memcpy(both, node->value.string->bytes, node->value.string->n);
        memcpy(both + node->value.string->n, more.string->bytes, more.string->n);
        TRY(jinja_constant_string(parser, both, n, &node->value));
    }
    return STATUS_OK;
}

static enum status jinja_parse_name(struct jinja_parser *parser, struct jinja_node **node) {
    struct span name = jinja_token(parser)->text;
    bool is_true = span_is(name, "true") || span_is(name, "True");
    TRY(jinja_node_new(parser, JINJA_CONST, node));
    if (is_true || span_is(name, "false") || span_is(name, "False")) {
        (*node)->value = jinja_bool(is_true);
    } else if (span_is(name, "none") || span_is(name, "None")) {
        (*node)->value = jinja_none();
    } else {
        (*node)->kind = JINJA_NAME;
        TRY(jinja_atom(parser, name, *node));
        if (parser->macro && (*node)->atom < JINJA_ATOMS)
            parser->macro->takes |= 1u << (*node)->atom;
    }
    jinja_skip(parser);
    return STATUS_OK;
}

enum status jinja_parse_primary(struct jinja_parser *parser, struct jinja_node **node) {
    const struct jinja_token *token = jinja_token(parser);
    enum status status;
    switch (token->kind) {
    case JINJA_T_NAME:
        return jinja_parse_name(parser, node);
    case JINJA_T_STRING:
        TRY(jinja_node_new(parser, JINJA_CONST, node));
        return jinja_parse_strings(parser, *node);
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT:
        TRY(jinja_node_new(parser, JINJA_CONST, node));
        TRY(jinja_parse_literal(parser, &(*node)->value));
        jinja_skip(parser);
        return STATUS_OK;
    default:
        break;
    }
    if (!jinja_token_is_op(token, '(') && !jinja_token_is_op(token, '[') &&
        !jinja_token_is_op(token, '{'))
        return jinja_parse_expected(parser, "an expression");
    TRY(jinja_nest(parser));
    status = token->op == '('   ? jinja_parse_parentheses(parser, node)
             : token->op == '[' ? jinja_parse_list(parser, node)
                                : jinja_parse_dict(parser, node);
    jinja_unnest(parser);
    return status;
}

enum status jinja_parse_arguments(struct jinja_parser *parser, struct jinja_node **first) {
    struct jinja_nodes items = {0};
    bool has_named = false;
    jinja_skip(parser);
    while (!jinja_at_op(parser, ')')) {
        struct jinja_node *item = NULL;
        if (items.first && !jinja_skip_op(parser, ','))
            return jinja_parse_expected(parser, "a comma");
        if (jinja_at_op(parser, ')'))
            break;
        bool is_all = jinja_at_op(parser, JINJA_OP2('*', '*'));
        bool is_list = jinja_at_op(parser, '*');
        bool is_named = jinja_token(parser)->kind == JINJA_T_NAME &&
                        jinja_token_is_op(jinja_next_token(parser), '=');
        if (has_named && !is_named && !is_all)
            return jinja_parse_fail(parser, STATUS_INVALID,
                                    "an argument without a name follows one with a name");
        if (is_all || is_list || is_named) {
            TRY(jinja_node_new(parser,
                               is_all    ? JINJA_STAR_STAR
                               : is_list ? JINJA_STAR
                                         : JINJA_KEYWORD,
                               &item));
            if (is_named)
                TRY(jinja_name_copy(parser, jinja_token(parser)->text, &item->name));
            jinja_skip(parser);
            if (is_named)
                jinja_skip(parser);
            TRY(jinja_parse_expression(parser, true, &item->a));
            has_named |= !is_list;
        } else {
            TRY(jinja_parse_expression(parser, true, &item));
        }
        jinja_nodes_add(&items, item);
    }
    jinja_skip(parser);
    *first = items.first;
    return STATUS_OK;
}

/* a[b], a[b:c:d]; commas make a tuple, which no value here takes as a key but a dict. */
static enum status jinja_parse_subscript(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_node *made;
    TRY(jinja_node_new(parser, JINJA_ITEM, &made));
    made->a = *node;
    jinja_skip(parser);
    struct jinja_node **bound = &made->b;
    for (unsigned n_colons = 0; !jinja_at_op(parser, ']');) {
        if (jinja_at_op(parser, ':') && n_colons < 2) {
            made->kind = JINJA_SLICE;
            bound = n_colons++ == 0 ? &made->c : &made->d;
            jinja_skip(parser);
            continue;
        }
        if (*bound)
            return jinja_parse_expected(parser, "a bracket");
        TRY(jinja_parse_expression(parser, true, bound));
    }
    if (made->kind == JINJA_ITEM && !made->b) /* x[] is x[()] */
        TRY(jinja_node_new(parser, JINJA_MAKE_TUPLE, &made->b));
    jinja_skip(parser);
    *node = made;
    return STATUS_OK;
}

static enum status jinja_parse_dot(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_node *made;
    jinja_skip(parser);
    const struct jinja_token *token = jinja_token(parser);
    if (token->kind != JINJA_T_NAME && token->kind != JINJA_T_INTEGER)
        return jinja_parse_expected(parser, "a name");
    TRY(jinja_node_new(parser, token->kind == JINJA_T_NAME ? JINJA_ATTR : JINJA_ITEM, &made));
    made->a = *node;
    if (made->kind == JINJA_ATTR) {
        TRY(jinja_name_copy(parser, token->text, &made->name));
    } else {
        TRY(jinja_node_new(parser, JINJA_CONST, &made->b));
        TRY(jinja_parse_literal(parser, &made->b->value));
    }
    jinja_skip(parser);
    *node = made;
    return STATUS_OK;
}

enum status jinja_parse_call(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_node *made;
    TRY(jinja_node_new(parser, JINJA_CALL, &made));
    made->a = *node;
    TRY(jinja_parse_arguments(parser, &made->b));
    *node = made;
    return STATUS_OK;
}

enum status jinja_parse_filter(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_node *made;
    if (jinja_token(parser)->kind != JINJA_T_NAME)
        return jinja_parse_expected(parser, "a filter's name");
    TRY(jinja_node_new(parser, JINJA_FILTER, &made));
    TRY(jinja_name_copy(parser, jinja_token(parser)->text, &made->name));
    made->builtin = jinja_find_filter(made->name);
    if (!made->builtin)
        jinja_parse_unknown(parser, made);
    made->a = *node;
    jinja_skip(parser);
    if (jinja_at_op(parser, '('))
        TRY(jinja_parse_arguments(parser, &made->b));
    *node = made;
    return STATUS_OK;
}

enum status jinja_parse_filters(struct jinja_parser *parser, struct jinja_node **node) {
    unsigned before = parser->nesting;
    while (jinja_skip_op(parser, '|')) {
        TRY(jinja_nest(parser));
        TRY(jinja_parse_filter(parser, node));
    }
    parser->nesting = before;
    return STATUS_OK;
}

enum status jinja_parse_test(struct jinja_parser *parser, struct jinja_node **node) {
    struct jinja_node *made;
    jinja_skip(parser);
    bool is_not = jinja_skip_name(parser, "not");
    const struct jinja_token *token = jinja_token(parser);
    if (token->kind != JINJA_T_NAME)
        return jinja_parse_expected(parser, "a test's name");
    TRY(jinja_node_new(parser, JINJA_TEST, &made));
    TRY(jinja_name_copy(parser, token->text, &made->name));
    made->builtin = jinja_find_test(made->name);
    if (!made->builtin)
        jinja_parse_unknown(parser, made);
    made->a = *node;
    jinja_skip(parser);
    token = jinja_token(parser);
    bool begins_value = token->kind == JINJA_T_NAME || token->kind == JINJA_T_STRING ||
                        token->kind == JINJA_T_INTEGER || token->kind == JINJA_T_FLOAT ||
                        jinja_token_is_op(token, '[') || jinja_token_is_op(token, '{');
    if (jinja_token_is_op(token, '(')) {
        TRY(jinja_parse_arguments(parser, &made->b));
    } else if (begins_value && !jinja_token_is_name(token, "else") &&
               !jinja_token_is_name(token, "or") && !jinja_token_is_name(token, "and")) {
        if (jinja_token_is_name(token, "is"))
            return jinja_parse_fail(parser, STATUS_INVALID, "tests cannot be chained");
        TRY(jinja_parse_primary(parser, &made->b));
        TRY(jinja_parse_postfix(parser, &made->b));
    }
    *node = made;
    return is_not ? jinja_wrap(parser, JINJA_NOT, made, node) : STATUS_OK;
}

enum status jinja_parse_postfix(struct jinja_parser *parser, struct jinja_node **node) {
    unsigned before = parser->nesting;
    for (;;) {
        TRY(jinja_nest(parser));
        if (jinja_at_op(parser, '.'))
            TRY(jinja_parse_dot(parser, node));
        else if (jinja_at_op(parser, '['))
            TRY(jinja_parse_subscript(parser, node));
        else if (jinja_at_op(parser, '('))
            TRY(jinja_parse_call(parser, node));
        else
            break;
    }
    parser->nesting = before;
    return STATUS_OK;
}
