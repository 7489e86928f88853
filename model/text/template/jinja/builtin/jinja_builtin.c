#include "model/text/template/jinja/builtin/jinja_builtin.h"

#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

enum status jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                         struct jinja_value self, const struct jinja_args *args,
                         struct jinja_value *value) {
    struct jinja_value bound[JINJA_PARAMS_MAX] = {{0}};
    size_t n_params = 0;
    struct jinja_value result;
    while (n_params < JINJA_PARAMS_MAX && builtin->params[n_params])
        n_params++;
    if (builtin->arguments != JINJA_ANY && args->n > n_params)
        return jinja_fail(run, STATUS_INVALID, "%s takes %zu arguments, not %zu", builtin->name,
                          n_params, args->n);
    for (size_t i = 0; i < args->n && i < n_params; i++)
        bound[i] = args->values[i];
    for (size_t i = 0; i < args->n_named && builtin->arguments != JINJA_ANY; i++) {
        size_t at = 0;
        while (at < n_params && strcmp(builtin->params[at], args->named[i].name) != 0)
            at++;
        if (at == n_params || builtin->arguments == JINJA_POSITIONAL || jinja_given(bound[at]))
            return jinja_fail(run, STATUS_INVALID, "%s takes no argument \"%.96s\"", builtin->name,
                              args->named[i].name);
        bound[at] = args->named[i].value;
    }
    for (size_t i = 0; i < builtin->n_required && builtin->arguments != JINJA_ANY; i++)
        if (!jinja_given(bound[i]))
            return jinja_fail(run, STATUS_INVALID, "%s needs an argument \"%s\"", builtin->name,
                              builtin->params[i]);
    TRY(jinja_charge(run, 1));
    TRY(jinja_enter(run));
    TRY(builtin->call(run, self, bound, args, &result));
    jinja_leave(run);
    *value = result;
    return STATUS_OK;
}

const struct jinja_builtin *jinja_find_in(const struct jinja_builtin *table, struct span name) {
    for (; table->name; table++)
        if (span_is(name, table->name))
            return table;
    return NULL;
}
