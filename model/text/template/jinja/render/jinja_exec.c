#include "model/text/template/jinja/render/jinja_exec.h"

#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/eval/jinja_eval.h"
#include "model/text/template/jinja/eval/jinja_scope.h"
#include "model/text/template/jinja/syntax/jinja_ast.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

static enum status jinja_set_target(struct jinja_run *run, struct jinja_scope *scope,
                                    const struct jinja_node *target, struct jinja_value value) {
    struct jinja_value object;
    const struct jinja_list *items;
    size_t i = 0;
    switch (target->kind) {
    case JINJA_NAME:
        return jinja_assign(run, scope, target->atom, value);
    case JINJA_NS_REF:
        TRY(jinja_lookup(run, scope, target->atom, &object));
        if (object.kind != JINJA_NAMESPACE)
            return jinja_fail(run, STATUS_INVALID, "attributes can be set on namespaces alone");
        struct jinja_string *name;
        TRY(jinja_alloc(run, 1, sizeof *name, &name));
        *name = (struct jinja_string){.bytes = target->name, .n = strlen(target->name)};
        return jinja_dict_set(run, object.dict, jinja_text_value(name), value);
    default:
        break;
    }
    TRY(jinja_items_of(run, value, &items));
    for (const struct jinja_node *item = target->a; item; item = item->next, i++) {
        if (i == items->n)
            return jinja_fail(run, STATUS_INVALID, "too few values to unpack");
        TRY(jinja_set_target(run, scope, item, items->items[i]));
    }
    return i == items->n ? STATUS_OK : jinja_fail(run, STATUS_INVALID, "too many values to unpack");
}

/* What the statements write, as a string. */
static enum status jinja_capture(struct jinja_run *run, struct jinja_scope *scope,
                                 const struct jinja_node *body, struct jinja_value *value) {
    struct jinja_text text = {0};
    struct jinja_text *outer = run->out;
    run->out = &text;
    TRY(jinja_exec(run, scope, body));
    run->out = outer;
    return jinja_text_done(run, &text, value);
}

/* The items that pass the loop's own `if`. */
static enum status jinja_filter_loop_items(struct jinja_run *run, struct jinja_scope *scope,
                                           const struct jinja_node *node,
                                           const struct jinja_list **items) {
    struct jinja_scope *inner;
    struct jinja_list *kept;
    TRY(jinja_scope_new(run, scope, &inner));
    TRY(jinja_list_new(run, 0, &kept));
    for (size_t i = 0; i < (*items)->n; i++) {
        struct jinja_value test;
        TRY(jinja_set_target(run, inner, node->a, (*items)->items[i]));
        TRY(jinja_eval(run, inner, node->c, &test));
        if (jinja_true(test))
            TRY(jinja_list_push(run, kept, (*items)->items[i]));
    }
    *items = kept;
    return STATUS_OK;
}

static enum status jinja_exec_for(struct jinja_run *run, struct jinja_scope *scope,
                                  const struct jinja_node *node) {
    const struct jinja_list *items;
    struct jinja_value value;
    struct jinja_scope *inner;
    struct jinja_loop *loop;
    TRY(jinja_eval(run, scope, node->b, &value));
    TRY(jinja_items_of(run, value, &items));
    if (node->c)
        TRY(jinja_filter_loop_items(run, scope, node, &items));
    if (items->n == 0)
        return jinja_exec(run, scope, node->e);
    TRY(jinja_scope_new(run, scope, &inner));
    TRY(jinja_alloc(run, 1, sizeof *loop, &loop));
    loop->items = items;
    for (size_t i = 0; i < items->n; i++) {
        TRY(jinja_charge(run, 1));
        /* Each round begins without the variables of the one before. */
        for (struct jinja_var *var = inner->vars; var; var = var->next)
            var->value = (struct jinja_value){0};
        loop->index = i;
        value = (struct jinja_value){.kind = JINJA_LOOP, .loop = loop};
        TRY(jinja_assign(run, inner, JINJA_ATOM_LOOP, value));
        TRY(jinja_set_target(run, inner, node->a, items->items[i]));
        TRY(jinja_exec(run, inner, node->d));
        if (run->flow == JINJA_FLOW_BREAK)
            break;
        run->flow = JINJA_FLOW_NEXT;
    }
    run->flow = JINJA_FLOW_NEXT;
    return STATUS_OK;
}

static enum status jinja_exec_if(struct jinja_run *run, struct jinja_scope *scope,
                                 const struct jinja_node *node) {
    for (const struct jinja_node *branch = node->a; branch; branch = branch->next) {
        struct jinja_value test = jinja_bool(true);
        if (branch->a)
            TRY(jinja_eval(run, scope, branch->a, &test));
        if (jinja_true(test))
            return jinja_exec(run, scope, branch->b);
    }
    return STATUS_OK;
}

/* What the block node->c prints in a scope of its own, through the filters node->b. */
static enum status jinja_capture_filtered(struct jinja_run *run, struct jinja_scope *scope,
                                          const struct jinja_node *node,
                                          struct jinja_value *value) {
    struct jinja_scope *inner;
    TRY(jinja_scope_new(run, scope, &inner));
    TRY(jinja_capture(run, inner, node->c, value));
    return jinja_eval_filters(run, inner, node->b, *value, value);
}

static enum status jinja_new_macro(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node, struct jinja_value *value) {
    struct jinja_macro *macro;
    TRY(jinja_alloc(run, 1, sizeof *macro, &macro));
    *macro = (struct jinja_macro){node, scope};
    *value = (struct jinja_value){.kind = JINJA_MACRO, .macro = macro};
    return STATUS_OK;
}

static enum status jinja_exec_scope(struct jinja_run *run, struct jinja_scope *scope,
                                    const struct jinja_node *node) {
    struct jinja_scope *inner;
    TRY(jinja_scope_new(run, scope, &inner));
    for (const struct jinja_node *param = node->a; param; param = param->next) {
        struct jinja_value value;
        TRY(jinja_eval(run, scope, param->a, &value));
        TRY(jinja_assign(run, inner, param->atom, value));
    }
    return jinja_exec(run, inner, node->b);
}

static enum status jinja_exec_node(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node) {
    struct jinja_value value;
    struct jinja_value caller;
    switch (node->kind) {
    case JINJA_DATA:
        return jinja_put_string(run, run->out, node->value.string);
    case JINJA_OUTPUT:
        TRY(jinja_eval(run, scope, node->a, &value));
        return jinja_put_value(run, run->out, value);
    case JINJA_IF:
        return jinja_exec_if(run, scope, node);
    case JINJA_FOR:
        return jinja_exec_for(run, scope, node);
    case JINJA_SET:
        TRY(jinja_eval(run, scope, node->b, &value));
        return jinja_set_target(run, scope, node->a, value);
    case JINJA_SET_TEXT:
        TRY(jinja_capture_filtered(run, scope, node, &value));
        return jinja_set_target(run, scope, node->a, value);
    case JINJA_DEFINE:
        TRY(jinja_new_macro(run, scope, node, &value));
        return jinja_assign(run, scope, node->atom, value);
    case JINJA_CALL_BLOCK:
        TRY(jinja_new_macro(run, scope, node, &caller));
        TRY(jinja_eval_call(run, scope, node->c, caller, &value));
        return jinja_put_value(run, run->out, value);
    case JINJA_FILTER_TEXT:
        TRY(jinja_capture_filtered(run, scope, node, &value));
        return jinja_put_value(run, run->out, value);
    case JINJA_SCOPE:
        return jinja_exec_scope(run, scope, node);
    case JINJA_BREAK:
        run->flow = JINJA_FLOW_BREAK;
        return STATUS_OK;
    case JINJA_CONTINUE:
        run->flow = JINJA_FLOW_CONTINUE;
        return STATUS_OK;
    default:
        return jinja_fail(run, STATUS_UNSUPPORTED, "a statement of an unknown kind");
    }
}

enum status jinja_exec(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *first) {
    uint32_t line = run->line;
    TRY(jinja_enter(run));
    for (const struct jinja_node *node = first; node && run->flow == JINJA_FLOW_NEXT;
         node = node->next) {
        run->line = node->line;
        TRY(jinja_charge(run, 1));
        TRY(jinja_exec_node(run, scope, node));
    }
    jinja_leave(run);
    run->line = line;
    return STATUS_OK;
}

/* ---- macros ---- */

static bool jinja_has_param(const struct jinja_node *macro, const char *name) {
    for (const struct jinja_node *param = macro->a; param; param = param->next)
        if (strcmp(param->name, name) == 0)
            return true;
    return false;
}

/* Arguments that no parameter takes: varargs and kwargs if the body names them. */
static enum status jinja_bind_rest(struct jinja_run *run, struct jinja_scope *scope,
                                   const struct jinja_node *node, const struct jinja_args *args,
                                   size_t n_params) {
    struct jinja_list *values;
    struct jinja_dict *named;
    TRY(jinja_list_new(run, 0, &values));
    TRY(jinja_dict_new(run, 0, &named));
    if (args->n > n_params)
        TRY(jinja_list_push_all(run, values, args->values + n_params, args->n - n_params));
    for (size_t i = 0; i < args->n_named; i++) {
        const char *name = args->named[i].name;
        struct jinja_value key;
        if (jinja_has_param(node, name))
            continue;
        if (strcmp(name, "caller") == 0 && (node->takes & 1u << JINJA_ATOM_CALLER)) {
            TRY(jinja_assign(run, scope, JINJA_ATOM_CALLER, args->named[i].value));
            continue;
        }
        TRY(jinja_string_new(run, name, strlen(name), false, &key));
        TRY(jinja_dict_set(run, named, key, args->named[i].value));
    }
    if (values->n > 0 && !(node->takes & 1u << JINJA_ATOM_VARARGS))
        return jinja_fail(run, STATUS_INVALID, "a macro takes %zu arguments, not %zu", n_params,
                          args->n);
    if (named->n > 0 && !(node->takes & 1u << JINJA_ATOM_KWARGS))
        return jinja_fail(run, STATUS_INVALID, "a macro has no parameter \"%.96s\"",
                          named->keys[0].string->bytes);
    if (node->takes & 1u << JINJA_ATOM_VARARGS)
        TRY(jinja_assign(run, scope, JINJA_ATOM_VARARGS, jinja_list_value(JINJA_TUPLE, values)));
    if (node->takes & 1u << JINJA_ATOM_KWARGS)
        TRY(jinja_assign(run, scope, JINJA_ATOM_KWARGS,
                         (struct jinja_value){.kind = JINJA_DICT, .dict = named}));
    return STATUS_OK;
}

/* Parameters by place, by name, by default; what is left is undefined. Defaults see the parameters
 * before them. */
static enum status jinja_bind_params(struct jinja_run *run, struct jinja_scope *scope,
                                     const struct jinja_node *node, const struct jinja_args *args) {
    size_t n_params = 0;
    for (const struct jinja_node *param = node->a; param; param = param->next)
        n_params++;
    if (node->takes & 1u << JINJA_ATOM_CALLER)
        TRY(jinja_assign(run, scope, JINJA_ATOM_CALLER, jinja_undefined("caller")));
    TRY(jinja_bind_rest(run, scope, node, args, n_params));
    size_t at = 0;
    for (const struct jinja_node *param = node->a; param; param = param->next, at++) {
        struct jinja_value value = at < args->n ? args->values[at] : (struct jinja_value){0};
        for (size_t i = 0; i < args->n_named; i++) {
            if (strcmp(args->named[i].name, param->name) != 0)
                continue;
            if (jinja_given(value))
                return jinja_fail(run, STATUS_INVALID, "the parameter \"%.96s\" is given twice",
                                  param->name);
            value = args->named[i].value;
        }
        if (!jinja_given(value) && param->a)
            TRY(jinja_eval(run, scope, param->a, &value));
        if (!jinja_given(value))
            value = jinja_undefined(param->name);
        TRY(jinja_assign(run, scope, param->atom, value));
    }
    return STATUS_OK;
}

enum status jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                             const struct jinja_args *args, struct jinja_value *value) {
    struct jinja_scope *scope;
    enum jinja_flow flow = run->flow;
    TRY(jinja_scope_new(run, macro->scope, &scope));
    TRY(jinja_bind_params(run, scope, macro->node, args));
    run->flow = JINJA_FLOW_NEXT;
    TRY(jinja_capture(run, scope, macro->node->b, value));
    run->flow = flow;
    return STATUS_OK;
}
