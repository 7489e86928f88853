#include "model/template/jinja/value/jinja_value.h"

double jinja_double(struct jinja_value value) {
    return value.kind == JINJA_FLOAT ? value.number : (double)jinja_integer(value);
}

const char *jinja_type_name(struct jinja_value value) {
    switch (value.kind) {
    case JINJA_NONE:
        return "NoneType";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return "str";
    case JINJA_LIST:
        return "list";
    case JINJA_TUPLE:
        return "tuple";
    case JINJA_ITERATOR:
        return "generator";
    case JINJA_VIEW:
        return "view";
    case JINJA_DICT:
        return "dict";
    case JINJA_NAMESPACE:
        return "Namespace";
    case JINJA_LOOP:
        return "LoopContext";
    case JINJA_MACRO:
        return "Macro";
    case JINJA_METHOD:
        return "method";
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        break;
    }
    return "Undefined";
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
    case JINJA_ITERATOR:
    case JINJA_NAMESPACE:
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_METHOD:
        break;
    }
    return true;
}
