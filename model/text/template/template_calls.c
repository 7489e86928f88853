#include "model/text/template/template_calls.h"

#include "base/json/json_read.h"

#include <stdint.h>
#include <stdlib.h>

json_t *template_call_arguments(const json_t *call) {
    const json_t *text = json_object_get(json_object_get(call, "function"), "arguments");
    json_t *value = NULL;
    json_error_t wrong;
    if (json_is_string(text))
        value =
            json_read(json_string_value(text), json_string_length(text), JSON_ALLOW_NUL, &wrong);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

enum status template_call_read(const json_t *json, const char *field, struct template_call *call,
                               struct error *error) {
    const json_t *function = json_object_get(json, "function");
    const json_t *name = json_object_get(function, "name");
    const json_t *given = json_object_get(function, "arguments");
    if (!json_is_string(name) || json_string_length(name) == 0)
        return error_field(error, STATUS_INVALID, field, "`%s.function.name` is missing", field);
    json_t *arguments = json_is_object(given) ? json_incref((json_t *)(uintptr_t)given)
                                              : template_call_arguments(json);
    if (!arguments)
        return error_field(error, STATUS_INVALID, field,
                           "`%s.function.arguments` must be the text of a JSON object", field);
    *call = (struct template_call){{json_string_value(name), json_string_length(name)}, arguments};
    return STATUS_OK;
}

void template_call_fini(struct template_call *call) {
    if (!call)
        return;
    json_decref(call->arguments);
    *call = (struct template_call){0};
}

/* A string or a number as JSON writes it, and Python too. */
static enum status template_calls_put_json(const json_t *value, struct buf *out) {
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (!text)
        return STATUS_NOMEM;
    buf_puts(out, text);
    free(text);
    return buf_status(out);
}

static enum status template_calls_put_key(const char *key, struct buf *out) {
    json_t *name = json_string_nocheck(key);
    enum status status = name ? template_calls_put_json(name, out) : STATUS_NOMEM;
    json_decref(name);
    buf_puts(out, ": ");
    return status;
}

static enum status template_calls_put_value(const json_t *value, struct buf *out) {
    const char *key;
    json_t *entry;
    size_t i, n = 0;
    if (json_is_array(value)) {
        buf_putc(out, '[');
        json_array_foreach((json_t *)(uintptr_t)value, i, entry) {
            buf_puts(out, i > 0 ? ", " : "");
            TRY(template_calls_put_value(entry, out));
        }
        buf_putc(out, ']');
    } else if (json_is_object(value)) {
        buf_putc(out, '{');
        json_object_foreach((json_t *)(uintptr_t)value, key, entry) {
            buf_puts(out, n++ > 0 ? ", " : "");
            TRY(template_calls_put_key(key, out));
            TRY(template_calls_put_value(entry, out));
        }
        buf_putc(out, '}');
    } else if (json_is_boolean(value) || json_is_null(value)) {
        buf_puts(out, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
    } else {
        return template_calls_put_json(value, out);
    }
    return buf_status(out);
}

enum status template_put_python_call(const json_t *arguments, struct buf *out) {
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)arguments, key, value) {
        buf_puts(out, n++ > 0 ? ", " : "");
        buf_puts(out, key);
        buf_putc(out, '=');
        TRY(template_calls_put_value(value, out));
    }
    return buf_status(out);
}
