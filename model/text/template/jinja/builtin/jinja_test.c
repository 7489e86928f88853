/* Tests: the words behind `is`. */
#include "model/text/template/jinja/builtin/jinja_arith.h"
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_string.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_compare.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_value.h"

#define TEST(name, fact)                                                                           \
    JINJA_BUILTIN(name) {                                                                          \
        *value = jinja_bool(fact);                                                                 \
        return STATUS_OK;                                                                          \
    }

/* Whether it has a length and items: an undefined value has both. */
static bool jinja_is_sequence(struct jinja_value value) {
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE ||
           value.kind == JINJA_DICT || value.kind == JINJA_UNDEFINED;
}

TEST(is_defined, self.kind != JINJA_UNDEFINED)
TEST(is_undefined, self.kind == JINJA_UNDEFINED)
TEST(is_none, self.kind == JINJA_NONE)
TEST(is_boolean, self.kind == JINJA_BOOL)
TEST(is_true, self.kind == JINJA_BOOL && self.boolean)
TEST(is_false, self.kind == JINJA_BOOL && !self.boolean)
TEST(is_integer, self.kind == JINJA_INT)
TEST(is_float, self.kind == JINJA_FLOAT)
TEST(is_number, jinja_is_number(self))
TEST(is_string, self.kind == JINJA_STRING)
TEST(is_mapping, self.kind == JINJA_DICT)
TEST(is_sequence_test, jinja_is_sequence(self))
TEST(is_iterable, jinja_is_sequence(self) || self.kind == JINJA_ITERATOR ||
                      self.kind == JINJA_VIEW || self.kind == JINJA_LOOP)

/* self % divisor == rest */
static enum status divides(struct jinja_run *run, struct jinja_value self,
                           struct jinja_value divisor, int64_t rest, struct jinja_value *value) {
    bool equal;
    TRY(jinja_arith(run, JINJA_MOD, self, divisor, &self));
    TRY(jinja_equal(run, self, jinja_int(rest), &equal));
    *value = jinja_bool(equal);
    return STATUS_OK;
}

JINJA_BUILTIN(is_odd) {
    return divides(run, self, jinja_int(2), 1, value);
}

JINJA_BUILTIN(is_even) {
    return divides(run, self, jinja_int(2), 0, value);
}

JINJA_BUILTIN(is_equal) {
    bool equal;
    TRY(jinja_equal(run, self, bound[0], &equal));
    *value = jinja_bool(equal);
    return STATUS_OK;
}

JINJA_BUILTIN(is_unequal) {
    TRY(is_equal(run, self, bound, args, value));
    value->boolean = !value->boolean;
    return STATUS_OK;
}

#define ORDER(name, fact)                                                                          \
    JINJA_BUILTIN(name) {                                                                          \
        int order;                                                                                 \
        TRY(jinja_order(run, self, bound[0], &order));                                             \
        *value = jinja_bool(fact);                                                                 \
        return STATUS_OK;                                                                          \
    }
ORDER(is_greater, order > 0)
ORDER(is_least, order >= 0)
ORDER(is_less, order < 0)
ORDER(is_most, order <= 0)

JINJA_BUILTIN(is_in) {
    bool found;
    TRY(jinja_contains(run, bound[0], self, &found));
    *value = jinja_bool(found);
    return STATUS_OK;
}

const struct jinja_builtin *jinja_find_test(const char *name) {
    static const struct jinja_builtin tests[] = {
        {"defined", {0}, 0, JINJA_NAMED, is_defined},
        {"undefined", {0}, 0, JINJA_NAMED, is_undefined},
        {"none", {0}, 0, JINJA_NAMED, is_none},
        {"boolean", {0}, 0, JINJA_NAMED, is_boolean},
        {"true", {0}, 0, JINJA_NAMED, is_true},
        {"false", {0}, 0, JINJA_NAMED, is_false},
        {"integer", {0}, 0, JINJA_NAMED, is_integer},
        {"float", {0}, 0, JINJA_NAMED, is_float},
        {"number", {0}, 0, JINJA_NAMED, is_number},
        {"string", {0}, 0, JINJA_NAMED, is_string},
        {"mapping", {0}, 0, JINJA_NAMED, is_mapping},
        {"sequence", {0}, 0, JINJA_NAMED, is_sequence_test},
        {"iterable", {0}, 0, JINJA_NAMED, is_iterable},
        {"odd", {0}, 0, JINJA_NAMED, is_odd},
        {"even", {0}, 0, JINJA_NAMED, is_even},
        {"eq", {"other"}, 1, JINJA_NAMED, is_equal},
        {"==", {"other"}, 1, JINJA_NAMED, is_equal},
        {"equalto", {"other"}, 1, JINJA_NAMED, is_equal},
        {"ne", {"other"}, 1, JINJA_NAMED, is_unequal},
        {"!=", {"other"}, 1, JINJA_NAMED, is_unequal},
        {"gt", {"other"}, 1, JINJA_NAMED, is_greater},
        {">", {"other"}, 1, JINJA_NAMED, is_greater},
        {"greaterthan", {"other"}, 1, JINJA_NAMED, is_greater},
        {"ge", {"other"}, 1, JINJA_NAMED, is_least},
        {">=", {"other"}, 1, JINJA_NAMED, is_least},
        {"lt", {"other"}, 1, JINJA_NAMED, is_less},
        {"<", {"other"}, 1, JINJA_NAMED, is_less},
        {"lessthan", {"other"}, 1, JINJA_NAMED, is_less},
        {"le", {"other"}, 1, JINJA_NAMED, is_most},
        {"<=", {"other"}, 1, JINJA_NAMED, is_most},
        {"in", {"seq"}, 1, JINJA_NAMED, is_in},
        {0},
    };
    return jinja_find_in(tests, span_of(name));
}
