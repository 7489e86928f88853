/* Numbers within bounds: automata over decimal digits. A bounded number is written without an
 * exponent, so that digits can be compared from the left. */
#include "model/text/grammar/schema/schema.h"

#include "model/text/grammar/regex/chars.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX   400u
#define MULTIPLE_MAX 4096

/* A bound's digits, without its sign. */
struct decimal {
    char whole[DIGITS_MAX];    /* no leading zeros but "0" */
    char fraction[DIGITS_MAX]; /* no trailing zeros */
    bool is_negative;
    bool is_zero;
    bool is_open; /* the bound itself is no value */
};

struct bounds {
    const json_t *low; /* the tightest; NULL: none */
    const json_t *high;
    bool low_is_open;
    bool high_is_open;
};

/* Order of two JSON numbers: integers exactly, else as doubles. */
static int schema_number_compare(const json_t *left, const json_t *right) {
    if (json_is_integer(left) && json_is_integer(right)) {
        json_int_t a = json_integer_value(left);
        json_int_t b = json_integer_value(right);
        return (a > b) - (a < b);
    }
    long double a = json_is_integer(left) ? (long double)json_integer_value(left)
                                          : (long double)json_real_value(left);
    long double b = json_is_integer(right) ? (long double)json_integer_value(right)
                                           : (long double)json_real_value(right);
    return (a > b) - (a < b);
}

static void schema_number_tighten(const json_t *value, bool is_open, int sign, const json_t **bound,
                                  bool *bound_is_open) {
    if (!value)
        return;
    int order = *bound ? schema_number_compare(value, *bound) * sign : 1;
    if (order > 0 || (order == 0 && is_open)) {
        *bound = value;
        *bound_is_open = is_open;
    }
}

static void schema_number_decimal_of(const json_t *value, bool is_open, struct decimal *decimal) {
    char text[DIGITS_MAX];
    *decimal = (struct decimal){.is_open = is_open};
    if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        /* The shortest digits that are this double, then the same without an exponent. */
        double number = json_real_value(value);
        char shortest[64];
        int precision = 1;
        do
            snprintf(shortest, sizeof shortest, "%.*e", precision++, number);
        while (strtod(shortest, NULL) != number && precision < 18);
        int exponent = atoi(strchr(shortest, 'e') + 1);
        int n_fraction = precision - 1 - exponent;
        snprintf(text, sizeof text, "%.*f", n_fraction > 0 ? n_fraction : 0, number);
    }
    char *digits = text + (text[0] == '-');
    char *point = strchr(digits, '.');
    if (point) {
        *point = 0;
        size_t n = strlen(point + 1);
        while (n > 0 && point[n] == '0')
            n--;
        memcpy(decimal->fraction, point + 1, n);
    }
    snprintf(decimal->whole, sizeof decimal->whole, "%s", digits);
    decimal->is_zero = strcmp(digits, "0") == 0 && decimal->fraction[0] == 0;
    decimal->is_negative = text[0] == '-' && !decimal->is_zero;
}

/* Digits from a node back to itself. */
static void schema_number_add_loop(struct chars *chars, uint32_t node, char low) {
    chars_edge(chars, node, CHARS_RANGE, (uint32_t)low, '9', node);
}

static void schema_number_add_digit(struct chars *chars, uint32_t from, char low, char high,
                                    uint32_t to) {
    if (low <= high)
        chars_edge(chars, from, CHARS_RANGE, (uint32_t)low, (uint32_t)high, to);
}

static void schema_number_add_end(struct chars *chars, uint32_t from) {
    chars_edge(chars, from, CHARS_EMPTY, 0, 0, chars->end);
}

/* What may stand behind the whole digits of a number that needs no more comparing. */
static void schema_number_add_free_fraction(struct chars *chars, uint32_t from, bool is_integer) {
    schema_number_add_end(chars, from);
    if (is_integer)
        return;
    uint32_t point = chars_node(chars);
    uint32_t digits = chars_node(chars);
    chars_edge(chars, from, CHARS_RANGE, '.', '.', point);
    schema_number_add_digit(chars, point, '0', '9', digits);
    schema_number_add_loop(chars, digits, '0');
    schema_number_add_end(chars, digits);
}

/* `n` free digits, then a free fraction. */
static void schema_number_add_free(struct chars *chars, uint32_t from, size_t n, bool is_integer) {
    for (size_t i = 0; i < n; i++) {
        uint32_t next = chars_node(chars);
        schema_number_add_digit(chars, from, '0', '9', next);
        from = next;
    }
    schema_number_add_free_fraction(chars, from, is_integer);
}

/* The fraction of a number whose whole digits are the bound's. */
static void schema_number_add_fraction(struct chars *chars, uint32_t from,
                                       const struct decimal *bound, bool is_least,
                                       bool is_integer) {
    const char *digits = bound->fraction;
    bool equal_fits = !bound->is_open;
    bool is_whole = digits[0] == 0;
    /* Without a fraction it is the bound, or below it. */
    if (is_whole ? equal_fits : !is_least)
        schema_number_add_end(chars, from);
    if (is_integer)
        return;
    uint32_t at = chars_node(chars);
    uint32_t free_digits = chars_node(chars);
    chars_edge(chars, from, CHARS_RANGE, '.', '.', at);
    schema_number_add_loop(chars, free_digits, '0');
    schema_number_add_end(chars, free_digits);
    for (size_t i = 0; digits[i]; i++) {
        uint32_t next = chars_node(chars);
        if (is_least)
            schema_number_add_digit(chars, at, (char)(digits[i] + 1), '9', free_digits);
        else
            schema_number_add_digit(chars, at, '0', (char)(digits[i] - 1), free_digits);
        schema_number_add_digit(chars, at, digits[i], digits[i], next);
        /* Cut short behind a digit it is below the bound, unless that was the last. */
        bool is_last = digits[i + 1] == 0;
        if (is_last ? equal_fits : !is_least)
            schema_number_add_end(chars, next);
        at = next;
    }
    /* Further zeros change nothing, any other digit makes it larger. */
    uint32_t zeros = chars_node(chars);
    schema_number_add_digit(chars, at, '0', '0', zeros);
    chars_edge(chars, zeros, CHARS_RANGE, '0', '0', zeros);
    if (equal_fits)
        schema_number_add_end(chars, zeros);
    if (is_least) {
        schema_number_add_digit(chars, at, '1', '9', free_digits);
        schema_number_add_digit(chars, zeros, '1', '9', free_digits);
    }
}

/* Numbers without a sign that are at least the bound (`is_least`), or at most it. */
static void schema_number_compare_with(const struct decimal *bound, bool is_least, bool is_integer,
                                       uint32_t n_max, struct chars *chars) {
    size_t n = strlen(bound->whole);
    chars_init(chars, n_max);
    /* Of another length: longer ones are larger. */
    if (is_least) {
        uint32_t at = chars_node(chars);
        schema_number_add_digit(chars, chars->start, '1', '9', at);
        for (size_t i = 1; i < n + 1; i++) {
            uint32_t next = chars_node(chars);
            schema_number_add_digit(chars, at, '0', '9', next);
            at = next;
        }
        schema_number_add_loop(chars, at, '0');
        schema_number_add_free_fraction(chars, at, is_integer);
    } else {
        for (size_t length = 1; length < n; length++) {
            uint32_t first = chars_node(chars);
            schema_number_add_digit(chars, chars->start, length == 1 ? '0' : '1', '9', first);
            schema_number_add_free(chars, first, length - 1, is_integer);
        }
    }
    /* Of the same length: digit by digit. */
    uint32_t at = chars->start;
    for (size_t i = 0; i < n; i++) {
        char digit = bound->whole[i];
        char least = i == 0 && n > 1 ? '1' : '0';
        uint32_t next = chars_node(chars);
        uint32_t apart = chars_node(chars);
        if (is_least)
            schema_number_add_digit(chars, at, (char)(digit + 1), '9', apart);
        else
            schema_number_add_digit(chars, at, least, (char)(digit - 1), apart);
        schema_number_add_free(chars, apart, n - i - 1, is_integer);
        schema_number_add_digit(chars, at, digit, digit, next);
        at = next;
    }
    schema_number_add_fraction(chars, at, bound, is_least, is_integer);
}

/* Any number without a sign and an exponent. */
static void schema_number_any_number(bool is_integer, uint32_t n_max, struct chars *chars) {
    chars_init(chars, n_max);
    uint32_t zero = chars_node(chars);
    uint32_t digits = chars_node(chars);
    schema_number_add_digit(chars, chars->start, '0', '0', zero);
    schema_number_add_digit(chars, chars->start, '1', '9', digits);
    schema_number_add_loop(chars, digits, '0');
    schema_number_add_free_fraction(chars, zero, is_integer);
    schema_number_add_free_fraction(chars, digits, is_integer);
}

/* Integers without a sign that `divisor` divides. */
static void schema_number_multiples(uint32_t divisor, uint32_t n_max, struct chars *chars) {
    chars_init(chars, n_max);
    uint32_t first = chars->n_nodes;
    for (uint32_t i = 0; i < divisor; i++)
        chars_node(chars);
    for (uint32_t rest = 0; rest < divisor && chars->status == STATUS_OK; rest++)
        for (uint32_t digit = 0; digit < 10; digit++)
            chars_edge(chars, first + rest, CHARS_RANGE, '0' + digit, '0' + digit,
                       first + (rest * 10 + digit) % divisor);
    for (uint32_t digit = 0; digit < 10; digit++)
        chars_edge(chars, chars->start, CHARS_RANGE, '0' + digit, '0' + digit,
                   first + digit % divisor);
    if (chars->status == STATUS_OK)
        chars_edge(chars, first, CHARS_EMPTY, 0, 0, chars->end);
}

/* *chars becomes what is in both; the other one is given back. */
static void schema_number_keep_both(struct chars *chars, struct chars *other) {
    struct chars made;
    chars_both(chars, other, &made);
    chars_fini(chars);
    chars_fini(other);
    *chars = made;
}

/* Numbers of one sign: from `least` to `most`, both without it; NULL: no bound. */
static void schema_number_write_side(struct schema *schema, const struct decimal *least,
                                     const struct decimal *most, uint32_t divisor, bool is_integer,
                                     uint32_t from, uint32_t to) {
    uint32_t n_max = schema->program->limits.n_nodes;
    struct chars chars;
    struct chars other;
    schema_number_any_number(is_integer, n_max, &chars);
    if (least) {
        schema_number_compare_with(least, true, is_integer, n_max, &other);
        schema_number_keep_both(&chars, &other);
    }
    if (most) {
        schema_number_compare_with(most, false, is_integer, n_max, &other);
        schema_number_keep_both(&chars, &other);
    }
    if (divisor > 1) {
        schema_number_multiples(divisor, n_max, &other);
        schema_number_keep_both(&chars, &other);
    }
    program_work(schema->program, chars.n_edges);
    chars_write(&chars, schema->program, false, from, to);
    chars_fini(&chars);
}

static enum status schema_number_find_divisor(struct schema *schema,
                                              const struct conjunction *conjunction,
                                              uint32_t *divisor) {
    *divisor = 0;
    for (uint32_t i = 0; i < conjunction->n; i++) {
        const json_t *node = conjunction->members[i].schema;
        const json_t *value = json_object_get(node, "multipleOf");
        double number = json_number_value(value);
        if (!value)
            continue;
        if (!(number > 0))
            return schema_fail(schema, STATUS_INVALID, node, "multipleOf", "must be above 0");
        if (number > MULTIPLE_MAX || number != (double)(uint32_t)number) {
            TRY(schema_cannot(schema, node, "multipleOf", "only integers up to 4096 are kept"));
            continue;
        }
        uint32_t own = (uint32_t)number;
        uint32_t a = *divisor ? *divisor : own;
        uint32_t b = own;
        while (b != 0) {
            uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        *divisor = *divisor ? *divisor / a * own : own; /* least common multiple */
        if (*divisor > MULTIPLE_MAX)
            return schema_cannot(schema, node, "multipleOf", "only integers up to 4096 are kept");
    }
    return STATUS_OK;
}

enum status schema_write_number(struct schema *schema, const struct conjunction *conjunction,
                                bool is_integer, uint32_t from, uint32_t to) {
    struct program *program = schema->program;
    struct bounds bounds = {0};
    struct decimal low;
    struct decimal high;
    uint32_t divisor;
    for (uint32_t i = 0; i < conjunction->n; i++) {
        const json_t *node = conjunction->members[i].schema;
        schema_number_tighten(json_object_get(node, "minimum"), false, 1, &bounds.low,
                              &bounds.low_is_open);
        schema_number_tighten(json_object_get(node, "exclusiveMinimum"), true, 1, &bounds.low,
                              &bounds.low_is_open);
        schema_number_tighten(json_object_get(node, "maximum"), false, -1, &bounds.high,
                              &bounds.high_is_open);
        schema_number_tighten(json_object_get(node, "exclusiveMaximum"), true, -1, &bounds.high,
                              &bounds.high_is_open);
    }
    TRY(schema_number_find_divisor(schema, conjunction, &divisor));
    is_integer = is_integer || divisor > 0; /* what an integer divides is one */
    if (!bounds.low && !bounds.high && divisor <= 1) {
        program_call(program, from, value_number(schema->compile, is_integer), to);
        return STATUS_OK;
    }
    if (bounds.low)
        schema_number_decimal_of(bounds.low, bounds.low_is_open, &low);
    if (bounds.high)
        schema_number_decimal_of(bounds.high, bounds.high_is_open, &high);
    /* Above zero, and zero: at least `low` where that is not below, at most `high`. */
    bool has_plus = !bounds.high || !(high.is_negative || (high.is_zero && high.is_open));
    if (has_plus)
        schema_number_write_side(schema, bounds.low && !low.is_negative ? &low : NULL,
                                 bounds.high ? &high : NULL, divisor, is_integer, from, to);
    /* Below zero, behind the sign: at least -high, at most -low. */
    bool has_minus = !bounds.low || low.is_negative;
    if (has_minus) {
        uint32_t minus = program_node(program);
        struct decimal above_zero = {.whole = "0", .is_zero = true, .is_open = true};
        const struct decimal *least = bounds.high && high.is_negative ? &high : &above_zero;
        program_bytes(program, from, '-', '-', minus);
        schema_number_write_side(schema, least, bounds.low ? &low : NULL, divisor, is_integer,
                                 minus, to);
    }
    return STATUS_OK;
}
