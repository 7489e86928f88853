#include "model/text/template/jinja/value/jinja_value.h"

double jinja_double(struct jinja_value value) {
    return value.kind == JINJA_FLOAT ? value.number : (double)jinja_integer(value);
}

const char *jinja_type_name(struct jinja_value value) {
    static const char *const names[] = {
        [JINJA_ABSENT] = "Undefined",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_STRING] = "str",
        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",
        [JINJA_ITERATOR] = "generator",
        [JINJA_VIEW] = "view",
        [JINJA_DICT] = "dict",
        [JINJA_NAMESPACE] = "Namespace",
        [JINJA_LOOP] = "LoopContext",
        [JINJA_MACRO] = "Macro",
        [JINJA_METHOD] = "method",
    };
    return names[value.kind];
}

bool jinja_true(struct jinja_value value) {
    switch (value.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.boolean;
    case JINJA_INT:
        return value.integer != 0;
    case JINJA_FLOAT:
        return value.number != 0;
    case JINJA_STRING:
        return value.string->n > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return value.list->n > 0;
    case JINJA_DICT:
        return value.dict->n > 0;
    default:
        return true;
    }
}
