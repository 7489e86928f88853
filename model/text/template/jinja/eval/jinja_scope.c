#include "model/text/template/jinja/eval/jinja_scope.h"

#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_value.h"

enum status jinja_lookup(struct jinja_run *run, const struct jinja_scope *scope, uint32_t atom,
                         struct jinja_value *value) {
    for (; scope->parent; scope = scope->parent) {
        TRY(jinja_charge(run, 1));
        for (const struct jinja_var *var = scope->vars; var; var = var->next) {
            if (var->atom != atom || !jinja_given(var->value))
                continue;
            *value = var->value;
            return STATUS_OK;
        }
    }
    *value = run->globals[atom];
    return STATUS_OK;
}

enum status jinja_assign(struct jinja_run *run, struct jinja_scope *scope, uint32_t atom,
                         struct jinja_value value) {
    if (!scope->parent) {
        run->globals[atom] = value;
        return STATUS_OK;
    }
    struct jinja_var *var = scope->vars;
    while (var && var->atom != atom)
        var = var->next;
    if (!var) {
        TRY(jinja_alloc(run, 1, sizeof *var, &var));
        var->atom = atom;
        var->next = scope->vars;
        scope->vars = var;
    }
    var->value = value;
    return STATUS_OK;
}

enum status jinja_scope_new(struct jinja_run *run, struct jinja_scope *parent,
                            struct jinja_scope **scope) {
    TRY(jinja_alloc(run, 1, sizeof **scope, scope));
    (*scope)->parent = parent;
    return STATUS_OK;
}
