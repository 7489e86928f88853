#include "model/text/template/template_list.h"

#include "model/text/template/template_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

json_t *template_list_fit(const json_t *list, template_list_entry *fit, const void *how) {
    json_t *fitting = json_array();
    bool differs = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        json_t *seen = NULL;
        if (fit(entry, how, &seen) != STATUS_OK ||
            (seen && json_array_append_new(fitting, seen) != 0)) {
            json_decref(fitting);
            return NULL;
        }
        differs |= seen != entry;
    }
    if (differs)
        return fitting;
    json_decref(fitting);
    return template_keep(list);
}

json_t *template_list_fit_member(const json_t *object, const char *name, template_list_entry *fit,
                                 const void *how) {
    const json_t *list = json_object_get(object, name);
    json_t *fitting = template_list_fit(list, fit, how), *copy = NULL;
    if (fitting == list)
        copy = template_keep(object);
    else if (fitting)
        copy = json_copy((json_t *)(uintptr_t)object);
    if (copy && fitting != list && json_object_set(copy, name, fitting) != 0) {
        json_decref(copy);
        copy = NULL;
    }
    json_decref(fitting);
    return copy;
}
