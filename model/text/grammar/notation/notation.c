#include "model/text/grammar/notation/notation.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

void notation_fini(struct notation *notation) {
    free(notation->names);
    free(notation->slots);
    regex_parse_fini(&notation->set);
    *notation = (struct notation){0};
}

enum status notation_fail(struct notation *notation, enum status status, const char *format, ...) {
    char text[256];
    size_t line = 1;
    size_t begin = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < notation->at && i < notation->source.n; i++)
        if (notation->source.bytes[i] == '\n') {
            line++;
            begin = i + 1;
        }
    return error_set(notation->compile->error, status, "%s, line %zu, column %zu: %s",
                     notation->title, line, notation->at - begin + 1, text);
}

enum status notation_point(struct notation *notation, uint32_t *point) {
    size_t n_left = notation->source.n - notation->at;
    unsigned n = n_left > 0 ? utf8_decode(notation->source.bytes + notation->at, n_left, point) : 0;
    if (n == 0)
        return notation_fail(notation, STATUS_INVALID,
                             n_left > 0 ? "not valid UTF-8" : "the source ends here");
    notation->at += n;
    return STATUS_OK;
}

enum status notation_hex(struct notation *notation, unsigned n, uint32_t *point) {
    unsigned n_read = 0;
    uint32_t value = 0;
    for (; n_read < (n > 0 ? n : 6); n_read++, notation->at++) {
        int digit = notation_at_end(notation) ? -1 : hex_value(notation_peek(notation, 0));
        if (digit < 0)
            break;
        value = value * 16 + (uint32_t)digit;
    }
    if (n_read == 0 || (n > 0 && n_read < n))
        return notation_fail(notation, STATUS_INVALID, "expected a hexadecimal digit");
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return notation_fail(notation, STATUS_INVALID, "no character has the number 0x%x", value);
    *point = value;
    return STATUS_OK;
}

enum status notation_number(struct notation *notation, uint32_t *number) {
    size_t begin = notation->at;
    uint32_t value = 0;
    for (; notation_peek(notation, 0) >= '0' && notation_peek(notation, 0) <= '9'; notation->at++)
        if (value <= REGEX_REPEAT_MAX)
            value = value * 10 + (uint32_t)(notation_peek(notation, 0) - '0');
    if (notation->at == begin)
        return notation_fail(notation, STATUS_INVALID, "expected a number");
    if (value > REGEX_REPEAT_MAX)
        return notation_fail(notation, STATUS_LIMIT, "a number above %u", REGEX_REPEAT_MAX);
    *number = value;
    return STATUS_OK;
}

/* --- names */

static uint32_t *notation_slot_of(struct notation *notation, struct span name) {
    uint32_t at = (uint32_t)XXH3_64bits(name.bytes, name.n) & (notation->n_slots - 1);
    while (notation->slots[at] != 0 &&
           !span_equal(notation->names[notation->slots[at] - 1].name, name))
        at = (at + 1) & (notation->n_slots - 1);
    return &notation->slots[at];
}

struct named *notation_find(struct notation *notation, struct span name) {
    uint32_t slot = notation->n_slots > 0 ? *notation_slot_of(notation, name) : 0;
    return slot > 0 ? &notation->names[slot - 1] : NULL;
}

static enum status notation_make_room(struct notation *notation) {
    if (notation->n_names < notation->names_size)
        return STATUS_OK;
    uint32_t size = notation->names_size ? notation->names_size * 2 : 32;
    struct named *names = realloc(notation->names, size * sizeof *names);
    if (names)
        notation->names = names;
    uint32_t *slots = calloc((size_t)size * 2, sizeof *slots);
    if (!names || !slots) {
        free(slots);
        return error_set(notation->compile->error, STATUS_NOMEM, "out of memory");
    }
    free(notation->slots);
    notation->slots = slots;
    notation->n_slots = size * 2;
    notation->names_size = size;
    for (uint32_t i = 0; i < notation->n_names; i++)
        *notation_slot_of(notation, notation->names[i].name) = i + 1;
    return STATUS_OK;
}

enum status notation_name(struct notation *notation, struct span name, struct named **named) {
    *named = notation_find(notation, name);
    if (*named)
        return STATUS_OK;
    TRY(notation_make_room(notation));
    uint32_t rule = program_rule(notation->program);
    TRY(program_status(notation->program, notation->compile->error));
    notation->names[notation->n_names] =
        (struct named){.name = name, .rule = rule, .at = notation->at - name.n};
    *notation_slot_of(notation, name) = ++notation->n_names;
    *named = &notation->names[notation->n_names - 1];
    return STATUS_OK;
}

enum status notation_define(struct notation *notation, struct span name, uint32_t *rule) {
    struct named *named;
    TRY(notation_name(notation, name, &named));
    if (named->is_defined)
        return notation_fail(notation, STATUS_INVALID, "\"%.*s\" is defined twice",
                             span_shown(name), name.bytes);
    named->is_defined = true;
    *rule = named->rule;
    return STATUS_OK;
}

enum status notation_check(struct notation *notation) {
    for (uint32_t i = 0; i < notation->n_names; i++) {
        const struct named *named = &notation->names[i];
        if (named->is_defined)
            continue;
        notation->at = named->at;
        return notation_fail(notation, STATUS_INVALID, "undefined name \"%.*s\"",
                             span_shown(named->name), named->name.bytes);
    }
    return STATUS_OK;
}

/* --- sets */

void notation_set_begin(struct notation *notation) {
    notation->set.n_ranges = 0;
}

enum status notation_set_add(struct notation *notation, uint32_t low, uint32_t high) {
    if (low > high)
        return notation_fail(notation, STATUS_INVALID, "a range whose end is below its start");
    enum status status = regex_add_range(&notation->set, low, high);
    if (status == STATUS_NOMEM)
        return error_set(notation->compile->error, status, "out of memory");
    return status == STATUS_OK ? STATUS_OK : notation_fail(notation, status, "too many ranges");
}

enum status notation_set_end(struct notation *notation, bool is_negated) {
    struct regex *set = &notation->set;
    set->n_ranges = regex_join_ranges(set->ranges, set->n_ranges);
    if (!is_negated)
        return STATUS_OK;
    uint32_t n = set->n_ranges;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct regex_range range = set->ranges[i];
        if (range.low > begin)
            TRY(notation_set_add(notation, begin, range.low - 1));
        begin = range.high + 1;
    }
    if (begin <= 0x10ffff)
        TRY(notation_set_add(notation, begin, 0x10ffff));
    memmove(set->ranges, set->ranges + n, (set->n_ranges - n) * sizeof *set->ranges);
    set->n_ranges -= n;
    return STATUS_OK;
}

void notation_set_write(struct notation *notation, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < notation->set.n_ranges; i++)
        program_points(notation->program, from, notation->set.ranges[i].low,
                       notation->set.ranges[i].high, to);
}

/* --- repeats */

/* Many characters of one set are counted, not written out, as in regular expressions. */
static uint32_t notation_count_set(struct notation *notation, uint32_t min, uint32_t max) {
    struct program *program = notation->program;
    uint32_t inner = program_rule(program);
    if (!program_ok(program))
        return 0;
    uint32_t loop = program->rules[inner].start;
    program_empty(program, loop, program->rules[inner].end);
    notation_set_write(notation, loop, loop);
    program_close(program, inner);
    return program_count(program, inner, loop, min, max);
}

enum status notation_repeat(struct notation *notation, struct element *element, uint32_t min,
                            uint32_t max) {
    struct program *program = notation->program;
    if (min > max)
        return notation_fail(notation, STATUS_INVALID, "a repeat whose most is below its least");
    uint32_t begin = program_node(program);
    uint32_t end = program_node(program);
    bool is_counted = min > 1 || (max > 1 && max != PROGRAM_NO_BOUND);
    if (element->is_set && is_counted) {
        program_call(program, begin, notation_count_set(notation, min, max), end);
    } else {
        if (element->is_set)
            notation_set_write(notation, element->begin, element->end);
        if (is_counted) {
            uint32_t rule = program_rule(program);
            TRY(program_status(program, notation->compile->error));
            program_empty(program, program->rules[rule].start, element->begin);
            program_empty(program, element->end, program->rules[rule].end);
            program_call(program, begin, program_repeat(program, rule, min, max), end);
        } else {
            if (max > 0) {
                program_empty(program, begin, element->begin);
                program_empty(program, element->end, end);
            }
            if (max == PROGRAM_NO_BOUND)
                program_empty(program, element->end, element->begin);
            if (min == 0)
                program_empty(program, begin, end);
        }
    }
    *element = (struct element){.begin = begin, .end = end};
    return program_status(program, notation->compile->error);
}
