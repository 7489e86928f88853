/* Arithmetic as Python's, but for integers beyond 64 bits, which are refused. */
#include "model/text/template/jinja/builtin/jinja_arith.h"

#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <math.h>

static enum status jinja_too_big(struct jinja_run *run) {
    return jinja_fail(run, STATUS_LIMIT, "a number has more than 64 bits");
}

static enum status jinja_integer_power(struct jinja_run *run, int64_t base, int64_t exponent,
                                       struct jinja_value *value) {
    int64_t result = 1;
    if (exponent < 0) {
        if (base == 0)
            return jinja_fail(run, STATUS_INVALID, "a power of zero is divided by");
        *value = jinja_float(pow((double)base, (double)exponent));
        return STATUS_OK;
    }
    /* 64 rounds at most: what does not fit is refused at the first product that does not. */
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return jinja_too_big(run);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return jinja_too_big(run);
    }
    *value = jinja_int(result);
    return STATUS_OK;
}

/* Quotients are rounded down, and remainders have the divisor's sign. */
static enum status jinja_integer_divide(struct jinja_run *run, enum jinja_op op, int64_t a,
                                        int64_t b, struct jinja_value *value) {
    if (b == 0)
        return jinja_fail(run, STATUS_INVALID, "a division by zero");
    if (b == -1) { /* INT64_MIN / -1 overflows */
        int64_t negated;
        if (__builtin_sub_overflow((int64_t)0, a, &negated) && op == JINJA_FLOORDIV)
            return jinja_too_big(run);
        *value = jinja_int(op == JINJA_FLOORDIV ? negated : 0);
        return STATUS_OK;
    }
    int64_t quotient = a / b;
    int64_t rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *value = jinja_int(op == JINJA_FLOORDIV ? quotient : rest);
    return STATUS_OK;
}

static enum status jinja_arith_integers(struct jinja_run *run, enum jinja_op op, int64_t a,
                                        int64_t b, struct jinja_value *value) {
    int64_t result;
    bool overflows;
    switch (op) {
    case JINJA_ADD:
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case JINJA_SUB:
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_MUL:
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_POW:
        return jinja_integer_power(run, a, b, value);
    case JINJA_DIV:
        if (b == 0)
            return jinja_fail(run, STATUS_INVALID, "a division by zero");
        *value = jinja_float((double)a / (double)b);
        return STATUS_OK;
    default:
        return jinja_integer_divide(run, op, a, b, value);
    }
    if (overflows)
        return jinja_too_big(run);
    *value = jinja_int(result);
    return STATUS_OK;
}

static enum status jinja_arith_floats(struct jinja_run *run, enum jinja_op op, double a, double b,
                                      struct jinja_value *value) {
    double rest;
    if (b == 0 && (op == JINJA_DIV || op == JINJA_FLOORDIV || op == JINJA_MOD))
        return jinja_fail(run, STATUS_INVALID, "a division by zero");
    switch (op) {
    case JINJA_ADD:
        *value = jinja_float(a + b);
        return STATUS_OK;
    case JINJA_SUB:
        *value = jinja_float(a - b);
        return STATUS_OK;
    case JINJA_MUL:
        *value = jinja_float(a * b);
        return STATUS_OK;
    case JINJA_DIV:
        *value = jinja_float(a / b);
        return STATUS_OK;
    case JINJA_POW:
        *value = jinja_float(pow(a, b));
        return STATUS_OK;
    default:
        break;
    }
    rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    *value = jinja_float(op == JINJA_MOD ? rest : floor((a - rest) / b + 0.5));
    return STATUS_OK;
}

static enum status jinja_add_strings(struct jinja_run *run, struct jinja_value a,
                                     struct jinja_value b, struct jinja_value *value) {
    struct jinja_text text = {0};
    bool is_safe = a.is_safe || b.is_safe;
    for (unsigned i = 0; i < 2; i++) {
        struct jinja_value part = i == 0 ? a : b;
        if (is_safe && !part.is_safe)
            TRY(jinja_put_escaped(run, &text, part.string, jinja_escape_html, NULL));
        else
            TRY(jinja_put_string(run, &text, part.string));
    }
    TRY(jinja_text_done(run, &text, value));
    value->is_safe = is_safe;
    return STATUS_OK;
}

static enum status jinja_add_lists(struct jinja_run *run, struct jinja_value a,
                                   struct jinja_value b, struct jinja_value *value) {
    struct jinja_list *list;
    TRY(jinja_list_new(run, a.list->n + b.list->n, &list));
    TRY(jinja_list_push_all(run, list, a.list->items, a.list->n));
    TRY(jinja_list_push_all(run, list, b.list->items, b.list->n));
    *value = jinja_list_value(a.kind, list);
    return STATUS_OK;
}

static bool jinja_is_sequence(struct jinja_value value) {
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

static enum status jinja_repeat(struct jinja_run *run, struct jinja_value sequence, int64_t times,
                                struct jinja_value *value) {
    struct jinja_text text = {0};
    struct jinja_list *list;
    if (jinja_is_string(sequence)) {
        for (int64_t i = 0; i < times && sequence.string->n > 0; i++) {
            TRY(jinja_charge(run, 1));
            TRY(jinja_put_string(run, &text, sequence.string));
        }
        TRY(jinja_text_done(run, &text, value));
        value->is_safe = sequence.is_safe;
        return STATUS_OK;
    }
    TRY(jinja_list_new(run, 0, &list));
    for (int64_t i = 0; i < times && sequence.list->n > 0; i++) {
        TRY(jinja_charge(run, 1));
        TRY(jinja_list_push_all(run, list, sequence.list->items, sequence.list->n));
    }
    *value = jinja_list_value(sequence.kind, list);
    return STATUS_OK;
}

enum status jinja_arith(struct jinja_run *run, enum jinja_op op, struct jinja_value a,
                        struct jinja_value b, struct jinja_value *value) {
    if (jinja_is_integral(a) && jinja_is_integral(b)) {
        TRY(jinja_arith_integers(run, op, jinja_integer(a), jinja_integer(b), value));
        value->is_plain = a.is_plain || b.is_plain;
        return STATUS_OK;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        TRY(jinja_arith_floats(run, op, jinja_double(a), jinja_double(b), value));
        value->is_plain = a.is_plain || b.is_plain;
        return STATUS_OK;
    }
    if (op == JINJA_ADD && jinja_is_string(a) && jinja_is_string(b))
        return jinja_add_strings(run, a, b, value);
    if (op == JINJA_ADD && a.kind == b.kind && jinja_is_sequence(a))
        return jinja_add_lists(run, a, b, value);
    if (op == JINJA_MUL && jinja_is_sequence(a) && jinja_is_integral(b))
        return jinja_repeat(run, a, jinja_integer(b), value);
    if (op == JINJA_MUL && jinja_is_sequence(b) && jinja_is_integral(a))
        return jinja_repeat(run, b, jinja_integer(a), value);
    struct jinja_value missing = a.kind == JINJA_UNDEFINED ? a : b;
    if (missing.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, missing);
    return jinja_fail(run, STATUS_INVALID, "an operator does not take %s and %s",
                      jinja_type_name(a), jinja_type_name(b));
}
