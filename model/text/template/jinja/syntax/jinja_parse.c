/* Statements. */
#include "model/text/template/jinja/syntax/jinja_parser.h"

#include <string.h>

static enum status jinja_parse_body(struct jinja_parser *parser, const char *const *ends,
                                    struct jinja_node **first, const char **end);

/* What a statement's tag ends with. */
static enum status jinja_expect_tag_end(struct jinja_parser *parser) {
    if (jinja_token(parser)->kind != JINJA_T_BLOCK_END)
        return jinja_parse_expected(parser, "the end of the tag");
    jinja_skip(parser);
    return STATUS_OK;
}

static enum status jinja_expect_op(struct jinja_parser *parser, uint16_t op, const char *what) {
    return jinja_skip_op(parser, op) ? STATUS_OK : jinja_parse_expected(parser, what);
}

/* The rest of a tag, a body, and the name of its end tag, whose end is not read. A body of its own
 * frame is never soft. */
static enum status jinja_parse_block(struct jinja_parser *parser, const char *end, bool is_soft,
                                     struct jinja_node **body) {
    const char *const ends[] = {end, NULL};
    const char *found;
    bool was_soft = parser->is_soft;
    parser->is_soft = is_soft;
    TRY(jinja_expect_tag_end(parser));
    TRY(jinja_parse_body(parser, ends, body, &found));
    parser->is_soft = was_soft;
    return jinja_expect_tag_end(parser);
}

static enum status jinja_parse_name_target(struct jinja_parser *parser, bool with_namespace,
                                           struct jinja_node **node) {
    static const char *const words[] = {"true", "false", "True", "False", "none", "None"};
    const struct jinja_token *token = jinja_token(parser);
    if (token->kind != JINJA_T_NAME)
        return jinja_parse_expected(parser, "a name");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(token->text, words[i]))
            return jinja_parse_expected(parser, "a name");
    TRY(jinja_node_new(parser, JINJA_NAME, node));
    TRY(jinja_atom(parser, token->text, *node));
    jinja_skip(parser);
    if (!with_namespace || !jinja_skip_op(parser, '.'))
        return STATUS_OK;
    (*node)->kind = JINJA_NS_REF;
    if (jinja_token(parser)->kind != JINJA_T_NAME)
        return jinja_parse_expected(parser, "a name");
    TRY(jinja_name_copy(parser, jinja_token(parser)->text, &(*node)->name));
    jinja_skip(parser);
    return STATUS_OK;
}

static enum status jinja_parse_target(struct jinja_parser *parser, bool with_namespace,
                                      struct jinja_node **node);

static enum status jinja_parse_one_target(struct jinja_parser *parser, bool with_namespace,
                                          struct jinja_node **node) {
    if (!jinja_skip_op(parser, '('))
        return jinja_parse_name_target(parser, with_namespace, node);
    TRY(jinja_nest(parser));
    TRY(jinja_parse_target(parser, with_namespace, node));
    jinja_unnest(parser);
    return jinja_expect_op(parser, ')', "a parenthesis");
}

/* `a`, `a, b`, `(a, b), c`, `ns.a` */
static enum status jinja_parse_target(struct jinja_parser *parser, bool with_namespace,
                                      struct jinja_node **node) {
    struct jinja_nodes items = {0};
    bool is_tuple = false;
    do {
        struct jinja_node *item;
        if (is_tuple && jinja_token(parser)->kind != JINJA_T_NAME && !jinja_at_op(parser, '('))
            break; /* a comma behind the last */
        TRY(jinja_parse_one_target(parser, with_namespace, &item));
        jinja_nodes_add(&items, item);
        is_tuple |= jinja_at_op(parser, ',');
    } while (jinja_skip_op(parser, ',') && !jinja_at_name(parser, "in"));
    *node = items.first;
    if (!is_tuple)
        return STATUS_OK;
    TRY(jinja_node_new(parser, JINJA_MAKE_TUPLE, node));
    (*node)->a = items.first;
    return STATUS_OK;
}

static enum status jinja_parse_if(struct jinja_parser *parser, struct jinja_node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    struct jinja_nodes branches = {0};
    const char *found = "elif";
    bool was_soft = parser->is_soft;
    node->kind = JINJA_IF;
    parser->is_soft = true;
    while (strcmp(found, "endif") != 0) {
        struct jinja_node *branch;
        bool is_else = strcmp(found, "else") == 0;
        TRY(jinja_node_new(parser, JINJA_BRANCH, &branch));
        if (!is_else)
            TRY(jinja_parse_tuple(parser, false, &branch->a));
        TRY(jinja_expect_tag_end(parser));
        TRY(jinja_parse_body(parser, is_else ? last : ends, &branch->b, &found));
        jinja_nodes_add(&branches, branch);
    }
    parser->is_soft = was_soft;
    node->a = branches.first;
    return jinja_expect_tag_end(parser);
}

static enum status jinja_parse_for(struct jinja_parser *parser, struct jinja_node *node) {
    static const char *const ends[] = {"endfor", "else", NULL};
    const char *found;
    bool was_soft = parser->is_soft;
    node->kind = JINJA_FOR;
    TRY(jinja_parse_target(parser, false, &node->a));
    if (!jinja_skip_name(parser, "in"))
        return jinja_parse_expected(parser, "in");
    TRY(jinja_parse_tuple(parser, false, &node->b));
    if (jinja_skip_name(parser, "if"))
        TRY(jinja_parse_expression(parser, true, &node->c));
    if (jinja_at_name(parser, "recursive"))
        return jinja_parse_fail(parser, STATUS_UNSUPPORTED, "recursive loops are not supported");
    TRY(jinja_expect_tag_end(parser));
    parser->is_soft = false;
    parser->n_loops++;
    TRY(jinja_parse_body(parser, ends, &node->d, &found));
    parser->n_loops--;
    parser->is_soft = was_soft;
    if (strcmp(found, "else") != 0)
        return jinja_expect_tag_end(parser);
    return jinja_parse_block(parser, "endfor", false, &node->e);
}

static enum status jinja_parse_set(struct jinja_parser *parser, struct jinja_node *node) {
    node->kind = JINJA_SET;
    TRY(jinja_parse_target(parser, true, &node->a));
    if (jinja_skip_op(parser, '=')) {
        TRY(jinja_parse_tuple(parser, true, &node->b));
        return jinja_expect_tag_end(parser);
    }
    node->kind = JINJA_SET_TEXT;
    TRY(jinja_parse_filters(parser, &node->b));
    return jinja_parse_block(parser, "endset", false, &node->c);
}

/* `(a, b=1)` */
static enum status jinja_parse_params(struct jinja_parser *parser, struct jinja_node **first) {
    struct jinja_nodes params = {0};
    TRY(jinja_expect_op(parser, '(', "a parenthesis"));
    while (!jinja_at_op(parser, ')')) {
        struct jinja_node *param;
        if (params.first)
            TRY(jinja_expect_op(parser, ',', "a comma"));
        TRY(jinja_parse_name_target(parser, false, &param));
        param->kind = JINJA_PARAM;
        if (jinja_skip_op(parser, '='))
            TRY(jinja_parse_expression(parser, true, &param->a));
        else if (params.last && params.last->a)
            return jinja_parse_fail(parser, STATUS_INVALID,
                                    "a parameter without a default follows one with a default");
        jinja_nodes_add(&params, param);
    }
    jinja_skip(parser);
    *first = params.first;
    return STATUS_OK;
}

/* The body of a macro or a call block: no loop around it counts. */
static enum status jinja_parse_callable(struct jinja_parser *parser, struct jinja_node *node,
                                        const char *end) {
    struct jinja_node *outer = parser->macro;
    unsigned n_loops = parser->n_loops;
    parser->macro = node;
    parser->n_loops = 0;
    TRY(jinja_parse_block(parser, end, false, &node->b));
    parser->macro = outer;
    parser->n_loops = n_loops;
    /* What a block inside names, the macro around it takes too (compiler.py, find_undeclared). */
    if (outer)
        outer->takes |= node->takes;
    return STATUS_OK;
}

static enum status jinja_parse_macro(struct jinja_parser *parser, struct jinja_node *node) {
    struct jinja_node *name;
    node->kind = JINJA_DEFINE;
    TRY(jinja_parse_name_target(parser, false, &name));
    node->atom = name->atom;
    node->name = name->name;
    TRY(jinja_parse_params(parser, &node->a));
    return jinja_parse_callable(parser, node, "endmacro");
}

static enum status jinja_parse_call_block(struct jinja_parser *parser, struct jinja_node *node) {
    node->kind = JINJA_CALL_BLOCK;
    if (jinja_at_op(parser, '('))
        TRY(jinja_parse_params(parser, &node->a));
    TRY(jinja_parse_expression(parser, true, &node->c));
    if (node->c->kind != JINJA_CALL)
        return jinja_parse_fail(parser, STATUS_INVALID, "a call block needs a call");
    return jinja_parse_callable(parser, node, "endcall");
}

static enum status jinja_parse_filter_block(struct jinja_parser *parser, struct jinja_node *node) {
    node->kind = JINJA_FILTER_TEXT;
    TRY(jinja_parse_filter(parser, &node->b));
    TRY(jinja_parse_filters(parser, &node->b));
    return jinja_parse_block(parser, "endfilter", false, &node->c);
}

static enum status jinja_parse_generation(struct jinja_parser *parser, struct jinja_node *node) {
    node->kind = JINJA_SCOPE;
    return jinja_parse_block(parser, "endgeneration", false, &node->b);
}

static enum status jinja_parse_with(struct jinja_parser *parser, struct jinja_node *node) {
    struct jinja_nodes params = {0};
    node->kind = JINJA_SCOPE;
    while (jinja_token(parser)->kind != JINJA_T_BLOCK_END) {
        struct jinja_node *param;
        if (params.first)
            TRY(jinja_expect_op(parser, ',', "a comma"));
        TRY(jinja_parse_name_target(parser, false, &param));
        param->kind = JINJA_PARAM;
        TRY(jinja_expect_op(parser, '=', "an equals sign"));
        TRY(jinja_parse_expression(parser, true, &param->a));
        jinja_nodes_add(&params, param);
    }
    node->a = params.first;
    return jinja_parse_block(parser, "endwith", false, &node->b);
}

static enum status jinja_parse_break(struct jinja_parser *parser, struct jinja_node *node) {
    node->kind = JINJA_BREAK;
    if (parser->n_loops == 0)
        return jinja_parse_fail(parser, STATUS_INVALID, "break or continue outside of a loop");
    return jinja_expect_tag_end(parser);
}

static enum status jinja_parse_continue(struct jinja_parser *parser, struct jinja_node *node) {
    TRY(jinja_parse_break(parser, node));
    node->kind = JINJA_CONTINUE;
    return STATUS_OK;
}

static enum status jinja_parse_statement(struct jinja_parser *parser, struct jinja_node **node) {
    static const struct {
        const char *name;
        enum status (*parse)(struct jinja_parser *parser, struct jinja_node *node);
    } statements[] = {
        {"if", jinja_parse_if},
        {"for", jinja_parse_for},
        {"set", jinja_parse_set},
        {"macro", jinja_parse_macro},
        {"call", jinja_parse_call_block},
        {"filter", jinja_parse_filter_block},
        {"generation", jinja_parse_generation},
        {"with", jinja_parse_with},
        {"break", jinja_parse_break},
        {"continue", jinja_parse_continue},
    };
    const struct jinja_token *token = jinja_token(parser);
    if (token->kind != JINJA_T_NAME)
        return jinja_parse_expected(parser, "a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!span_is(token->text, statements[i].name))
            continue;
        TRY(jinja_node_new(parser, JINJA_SCOPE, node));
        jinja_skip(parser);
        return statements[i].parse(parser, *node);
    }
    return jinja_parse_fail(parser, STATUS_UNSUPPORTED, "unknown statement \"%.*s\"",
                            span_shown(token->text), token->text.bytes);
}

static enum status jinja_parse_output(struct jinja_parser *parser, struct jinja_node **node) {
    TRY(jinja_node_new(parser, JINJA_OUTPUT, node));
    jinja_skip(parser);
    TRY(jinja_parse_tuple(parser, true, &(*node)->a));
    if (jinja_token(parser)->kind != JINJA_T_VARIABLE_END)
        return jinja_parse_expected(parser, "the end of the tag");
    jinja_skip(parser);
    return STATUS_OK;
}

/* Whether the tag at the current token is one of `ends`; then stands behind its name. */
static bool jinja_at_end(struct jinja_parser *parser, const char *const *ends, const char **end) {
    for (; *ends; ends++) {
        if (!jinja_token_is_name(jinja_next_token(parser), *ends))
            continue;
        *end = *ends;
        jinja_skip(parser);
        jinja_skip(parser);
        return true;
    }
    return false;
}

static enum status jinja_parse_body(struct jinja_parser *parser, const char *const *ends,
                                    struct jinja_node **first, const char **end) {
    struct jinja_nodes nodes = {0};
    TRY(jinja_nest(parser));
    for (;;) {
        struct jinja_node *node = NULL;
        const struct jinja_token *token = jinja_token(parser);
        if (token->kind == JINJA_T_END) {
            if (!ends)
                break;
            return jinja_parse_fail(parser, STATUS_INVALID, "the template ends before %s", ends[0]);
        }
        if (token->kind == JINJA_T_BLOCK_BEGIN) {
            if (ends && jinja_at_end(parser, ends, end))
                break;
            jinja_skip(parser);
            TRY(jinja_parse_statement(parser, &node));
        } else if (token->kind == JINJA_T_VARIABLE_BEGIN) {
            TRY(jinja_parse_output(parser, &node));
        } else {
            TRY(jinja_node_new(parser, JINJA_DATA, &node));
            TRY(jinja_constant_string(parser, token->text.bytes, token->text.n, &node->value));
            jinja_skip(parser);
        }
        jinja_nodes_add(&nodes, node);
    }
    jinja_unnest(parser);
    *first = nodes.first;
    return STATUS_OK;
}

enum status jinja_parse_statements(struct jinja_parser *parser, struct jinja_node **first) {
    return jinja_parse_body(parser, NULL, first, NULL);
}
