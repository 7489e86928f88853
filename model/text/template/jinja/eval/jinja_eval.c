#include "model/text/template/jinja/eval/jinja_eval.h"

#include "model/text/template/jinja/builtin/jinja_arith.h"
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_get.h"
#include "model/text/template/jinja/eval/jinja_scope.h"
#include "model/text/template/jinja/syntax/jinja_ast.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_compare.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

static enum status jinja_eval_and_or(struct jinja_run *run, struct jinja_scope *scope,
                                     const struct jinja_node *node, struct jinja_value *value) {
    for (const struct jinja_node *item = node->a; item; item = item->next) {
        TRY(jinja_eval(run, scope, item, value));
        if (jinja_true(*value) != (node->kind == JINJA_AND))
            return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status jinja_eval_compare(struct jinja_run *run, enum jinja_op op, struct jinja_value a,
                                      struct jinja_value b, bool *result) {
    int order;
    bool is_equality = op == JINJA_EQ || op == JINJA_NE;
    if (is_equality || op == JINJA_IN || op == JINJA_NOT_IN) {
        bool holds;
        TRY(is_equality ? jinja_equal(run, a, b, &holds) : jinja_contains(run, b, a, &holds));
        *result = holds == (op == JINJA_EQ || op == JINJA_IN);
        return STATUS_OK;
    }
    TRY(jinja_order(run, a, b, &order));
    *result = op == JINJA_LT   ? order < 0
              : op == JINJA_LE ? order <= 0
              : op == JINJA_GT ? order > 0
                               : order >= 0;
    /* Nothing is below, at or above what is not a number. */
    if ((a.kind == JINJA_FLOAT && a.number != a.number) ||
        (b.kind == JINJA_FLOAT && b.number != b.number))
        *result = false;
    return STATUS_OK;
}

/* a < b < c is a < b and b < c. */
static enum status jinja_eval_comparison(struct jinja_run *run, struct jinja_scope *scope,
                                         const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_value left;
    bool result = true;
    TRY(jinja_eval(run, scope, node->a, &left));
    for (const struct jinja_node *operand = node->b; operand && result; operand = operand->next) {
        struct jinja_value right;
        TRY(jinja_eval(run, scope, operand->a, &right));
        TRY(jinja_eval_compare(run, operand->op, left, right, &result));
        left = right;
    }
    *value = jinja_bool(result);
    return STATUS_OK;
}

static enum status jinja_eval_arith(struct jinja_run *run, struct jinja_scope *scope,
                                    const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_value result;
    TRY(jinja_eval(run, scope, node->a, &result));
    for (const struct jinja_node *operand = node->b; operand; operand = operand->next) {
        struct jinja_value right;
        TRY(jinja_eval(run, scope, operand->a, &right));
        TRY(jinja_arith(run, operand->op, result, right, &result));
    }
    *value = result;
    return STATUS_OK;
}

static enum status jinja_eval_concat(struct jinja_run *run, struct jinja_scope *scope,
                                     const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_text text = {0};
    for (const struct jinja_node *item = node->a; item; item = item->next) {
        struct jinja_value part;
        TRY(jinja_eval(run, scope, item, &part));
        TRY(jinja_put_value(run, &text, part));
    }
    return jinja_text_done(run, &text, value);
}

static enum status jinja_eval_sign(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_value inner;
    TRY(jinja_eval(run, scope, node->a, &inner));
    if (!jinja_is_number(inner))
        return jinja_fail(run, STATUS_INVALID, "%s has no sign", jinja_type_name(inner));
    return jinja_arith(run, node->kind == JINJA_NEGATE ? JINJA_SUB : JINJA_ADD, jinja_int(0), inner,
                       value);
}

static enum status jinja_eval_list(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_list *list;
    TRY(jinja_list_new(run, 0, &list));
    for (const struct jinja_node *item = node->a; item; item = item->next) {
        struct jinja_value part;
        TRY(jinja_eval(run, scope, item, &part));
        TRY(jinja_list_push(run, list, part));
    }
    *value = jinja_list_value(node->kind == JINJA_MAKE_LIST ? JINJA_LIST : JINJA_TUPLE, list);
    return STATUS_OK;
}

static enum status jinja_eval_dict(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_dict *dict;
    TRY(jinja_dict_new(run, 0, &dict));
    for (const struct jinja_node *pair = node->a; pair; pair = pair->next) {
        struct jinja_value key;
        struct jinja_value item;
        TRY(jinja_eval(run, scope, pair->a, &key));
        TRY(jinja_eval(run, scope, pair->b, &item));
        TRY(jinja_dict_set(run, dict, key, item));
    }
    *value = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
    return STATUS_OK;
}

static enum status jinja_eval_slice(struct jinja_run *run, struct jinja_scope *scope,
                                    const struct jinja_node *node, struct jinja_value *value) {
    const struct jinja_node *const nodes[] = {node->b, node->c, node->d};
    struct jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_none()};
    struct jinja_value object;
    TRY(jinja_eval(run, scope, node->a, &object));
    for (size_t i = 0; i < 3; i++)
        if (nodes[i])
            TRY(jinja_eval(run, scope, nodes[i], &bounds[i]));
    return jinja_get_slice(run, object, bounds, value);
}

struct arguments {
    struct jinja_args args;
    size_t values_size;
    size_t named_size;
};

static enum status jinja_add_argument(struct jinja_run *run, struct arguments *to,
                                      struct jinja_value value) {
    TRY(jinja_grow(run, &to->args.values, to->args.n, &to->values_size, sizeof value));
    to->args.values[to->args.n++] = value;
    return STATUS_OK;
}

static enum status jinja_add_named_argument(struct jinja_run *run, struct arguments *to,
                                            const char *name, struct jinja_value value) {
    TRY(jinja_grow(run, &to->args.named, to->args.n_named, &to->named_size,
                   sizeof *to->args.named));
    to->args.named[to->args.n_named++] = (struct jinja_named){name, value};
    return STATUS_OK;
}

static enum status jinja_add_all_arguments(struct jinja_run *run, struct arguments *to,
                                           enum jinja_node_kind kind, struct jinja_value all) {
    const struct jinja_list *items;
    if (kind == JINJA_STAR) {
        TRY(jinja_items_of(run, all, &items));
        for (size_t i = 0; i < items->n; i++)
            TRY(jinja_add_argument(run, to, items->items[i]));
        return STATUS_OK;
    }
    if (all.kind != JINJA_DICT)
        return jinja_fail_kind(run, "** needs a dict", all);
    for (size_t i = 0; i < all.dict->n; i++) {
        struct jinja_value key = all.dict->keys[i];
        if (!jinja_is_string(key))
            return jinja_fail(run, STATUS_INVALID, "an argument's name is not a string");
        const char *name = arena_copy(&run->arena, key.string->bytes, key.string->n);
        if (!name)
            return jinja_fail(run, STATUS_LIMIT, "no memory for an argument's name");
        TRY(jinja_add_named_argument(run, to, name, all.dict->values[i]));
    }
    return STATUS_OK;
}

static enum status jinja_eval_arguments(struct jinja_run *run, struct jinja_scope *scope,
                                        const struct jinja_node *first, struct arguments *to) {
    for (const struct jinja_node *item = first; item; item = item->next) {
        bool is_value = item->kind != JINJA_KEYWORD && item->kind != JINJA_STAR &&
                        item->kind != JINJA_STAR_STAR;
        struct jinja_value value;
        TRY(jinja_eval(run, scope, is_value ? item : item->a, &value));
        if (is_value)
            TRY(jinja_add_argument(run, to, value));
        else if (item->kind == JINJA_KEYWORD)
            TRY(jinja_add_named_argument(run, to, item->name, value));
        else
            TRY(jinja_add_all_arguments(run, to, item->kind, value));
    }
    return STATUS_OK;
}

/* Calls any value. */
static enum status jinja_call_value(struct jinja_run *run, struct jinja_value callee,
                                    const struct jinja_args *args, struct jinja_value *value) {
    switch (callee.kind) {
    case JINJA_METHOD:
        return jinja_invoke(run, callee.method->builtin, callee.method->self, args, value);
    case JINJA_MACRO:
        return run->call_macro(run, callee.macro, args, value);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    default:
        return jinja_fail(run, STATUS_INVALID, "%s cannot be called", jinja_type_name(callee));
    }
}

enum status jinja_eval_call(struct jinja_run *run, struct jinja_scope *scope,
                            const struct jinja_node *node, struct jinja_value caller,
                            struct jinja_value *value) {
    struct arguments to = {0};
    struct jinja_value callee;
    TRY(jinja_eval(run, scope, node->a, &callee));
    TRY(jinja_eval_arguments(run, scope, node->b, &to));
    if (jinja_given(caller))
        TRY(jinja_add_named_argument(run, &to, "caller", caller));
    return jinja_call_value(run, callee, &to.args, value);
}

/* A filter or a test. */
static enum status jinja_eval_builtin(struct jinja_run *run, struct jinja_scope *scope,
                                      const struct jinja_node *node, struct jinja_value subject,
                                      struct jinja_value *value) {
    struct arguments to = {0};
    if (!node->builtin)
        return jinja_fail(run, STATUS_UNSUPPORTED, "there is no %s \"%.96s\"",
                          node->kind == JINJA_FILTER ? "filter" : "test", node->name);
    TRY(jinja_eval_arguments(run, scope, node->b, &to));
    run->line = node->line;
    return jinja_invoke(run, node->builtin, subject, &to.args, value);
}

enum status jinja_eval_filters(struct jinja_run *run, struct jinja_scope *scope,
                               const struct jinja_node *filters, struct jinja_value subject,
                               struct jinja_value *value) {
    if (!filters) {
        *value = subject;
        return STATUS_OK;
    }
    TRY(jinja_enter(run));
    TRY(jinja_eval_filters(run, scope, filters->a, subject, &subject));
    TRY(jinja_eval_builtin(run, scope, filters, subject, value));
    jinja_leave(run);
    return STATUS_OK;
}

static enum status jinja_eval_if_else(struct jinja_run *run, struct jinja_scope *scope,
                                      const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_value test;
    TRY(jinja_eval(run, scope, node->a, &test));
    const struct jinja_node *taken = jinja_true(test) ? node->b : node->c;
    if (taken)
        return jinja_eval(run, scope, taken, value);
    *value = jinja_undefined("an expression whose condition is false and that has no else");
    return STATUS_OK;
}

static enum status jinja_eval_name(struct jinja_run *run, const struct jinja_scope *scope,
                                   const struct jinja_node *node, struct jinja_value *value) {
    TRY(jinja_lookup(run, scope, node->atom, value));
    if (!jinja_given(*value))
        *value = jinja_undefined(node->name);
    return STATUS_OK;
}

static enum status jinja_eval_unary(struct jinja_run *run, struct jinja_scope *scope,
                                    const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_value a;
    struct jinja_value b;
    TRY(jinja_eval(run, scope, node->a, &a));
    switch (node->kind) {
    case JINJA_ATTR:
        return jinja_get_attr(run, a, (struct span){node->name, strlen(node->name)}, value);
    case JINJA_ITEM:
        TRY(jinja_eval(run, scope, node->b, &b));
        return jinja_get_item(run, a, b, value);
    case JINJA_NOT:
        *value = jinja_bool(!jinja_true(a));
        return STATUS_OK;
    default:
        return jinja_eval_builtin(run, scope, node, a, value);
    }
}

static enum status jinja_eval_kind(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node, struct jinja_value *value) {
    switch (node->kind) {
    case JINJA_CONST:
        *value = node->value;
        return STATUS_OK;
    case JINJA_NAME:
        return jinja_eval_name(run, scope, node, value);
    case JINJA_SLICE:
        return jinja_eval_slice(run, scope, node, value);
    case JINJA_CALL:
        return jinja_eval_call(run, scope, node, (struct jinja_value){0}, value);
    case JINJA_NEGATE:
    case JINJA_PLUS:
        return jinja_eval_sign(run, scope, node, value);
    case JINJA_AND:
    case JINJA_OR:
        return jinja_eval_and_or(run, scope, node, value);
    case JINJA_COMPARE:
        return jinja_eval_comparison(run, scope, node, value);
    case JINJA_ARITH:
        return jinja_eval_arith(run, scope, node, value);
    case JINJA_CONCAT:
        return jinja_eval_concat(run, scope, node, value);
    case JINJA_IF_ELSE:
        return jinja_eval_if_else(run, scope, node, value);
    case JINJA_MAKE_LIST:
    case JINJA_MAKE_TUPLE:
        return jinja_eval_list(run, scope, node, value);
    case JINJA_MAKE_DICT:
        return jinja_eval_dict(run, scope, node, value);
    default:
        return jinja_eval_unary(run, scope, node, value);
    }
}

enum status jinja_eval(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *node, struct jinja_value *value) {
    uint32_t line = run->line;
    run->line = node->line;
    TRY(jinja_charge(run, 1));
    TRY(jinja_enter(run));
    TRY(jinja_eval_kind(run, scope, node, value));
    jinja_leave(run);
    run->line = line; /* an error of what is around it names its own line */
    return STATUS_OK;
}
