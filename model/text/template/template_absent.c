#include "model/text/template/template_absent.h"

#include "model/text/template/template_list.h"
#include "model/text/template/template_run.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DEPTH_MAX 2u /* a message, its call, the call's function */

/* Members that hold objects, or lists of them, whose members have a meaning of their own. */
static const char *const entered[] = {"content", "custom", "function", "function_call",
                                      "tool_calls"};

static bool template_is_entered(const char *name) {
    for (size_t i = 0; i < sizeof entered / sizeof *entered; i++)
        if (strcmp(name, entered[i]) == 0)
            return true;
    return false;
}

static bool template_is_absent(const char *name, const json_t *value, bool is_message) {
    if (json_is_null(value))
        return !is_message || strcmp(name, "content") != 0;
    return json_is_array(value) && json_array_size(value) == 0 && strcmp(name, "tool_calls") == 0;
}

static json_t *template_fitting_object(const json_t *object, bool is_message, unsigned depth);

struct template_absent_place {
    bool is_message; /* what stands there, where it is an object */
    unsigned depth;
};

static enum status template_fit_entry(const json_t *entry, const void *how, json_t **fitting) {
    const struct template_absent_place *place = how;
    *fitting = json_is_object(entry)
                   ? template_fitting_object(entry, place->is_message, place->depth)
                   : template_keep(entry);
    return *fitting ? STATUS_OK : STATUS_NOMEM;
}

/* Objects and lists of them, else the value as it is; NULL when memory is short. */
static json_t *template_fitting_value(const json_t *value, struct template_absent_place place) {
    if (json_is_object(value) && place.depth <= DEPTH_MAX)
        return template_fitting_object(value, place.is_message, place.depth);
    if (!json_is_array(value) || place.depth > DEPTH_MAX)
        return template_keep(value);
    return template_list_fit(value, template_fit_entry, &place);
}

/* Puts the member into the copy, or takes it out; what is as it was makes no copy. */
static bool template_fit_member(const json_t *object, const char *name, json_t *fitting,
                                json_t **copy) {
    if (!*copy)
        *copy = json_copy((json_t *)(uintptr_t)object);
    return fitting ? json_object_set(*copy, name, fitting) == 0 : json_object_del(*copy, name) == 0;
}

/* Templates know what an assistant thought by one of the two names that clients have for it. */
static bool template_name_thought(const json_t *message, json_t **copy) {
    json_t *thought = json_object_get(message, "reasoning");
    if (!json_is_string(thought) || json_is_string(json_object_get(message, "reasoning_content")))
        return true;
    return template_fit_member(message, "reasoning_content", thought, copy);
}

static json_t *template_fitting_object(const json_t *object, bool is_message, unsigned depth) {
    json_t *copy = NULL, *value;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        bool absent = template_is_absent(name, value, is_message), fits = true;
        json_t *fitting = NULL;
        if (!absent && template_is_entered(name)) {
            fitting =
                template_fitting_value(value, (struct template_absent_place){false, depth + 1});
            fits = fitting != NULL;
        }
        if (fits && (absent || (fitting && fitting != value)))
            fits = template_fit_member(object, name, fitting, &copy);
        json_decref(fitting);
        if (!fits) {
            json_decref(copy);
            return NULL;
        }
    }
    if (is_message && !template_name_thought(object, &copy)) {
        json_decref(copy);
        return NULL;
    }
    return copy ? copy : template_keep(object);
}

json_t *template_leave_out_absent(const json_t *list, bool of_messages) {
    return template_fitting_value(list, (struct template_absent_place){of_messages, 0});
}
