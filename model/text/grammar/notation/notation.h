/* model/text/grammar/notation/notation.h: what the readers of grammars share: a place in the source,
 * rules by name, sets of characters, repeats.
 *
 * A rule's text is written straight between two nodes of the program; a name that is used before it
 * is defined has its rule already. One owner thread. */
#pragma once

#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/compile.h"
#include "model/text/grammar/regex/regex.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct named {
    struct span name; /* in the source, or a constant */
    uint32_t rule;
    size_t at; /* where it was read first */
    bool is_defined;
};

struct notation {
    struct compile *compile; /* borrowed */
    struct program *program; /* compile's */
    const char *title;       /* of the notation, for messages: a constant */
    struct span source;
    size_t at;
    struct named *names; /* owned (n_names) */
    uint32_t n_names;
    uint32_t names_size;
    uint32_t *slots; /* owned (n_slots): indices + 1 by the hash of the name */
    uint32_t n_slots;
    struct regex set; /* owned; of it the ranges alone: the set that is being read */
};

void notation_fini(struct notation *notation);

/* Fails with the line and column of `notation->at`. */
enum status notation_fail(struct notation *notation, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool notation_at_end(const struct notation *notation) {
    return notation->at >= notation->source.n;
}

/* The byte that is `ahead` behind the place; 0 past the end. */
static inline char notation_peek(const struct notation *notation, size_t ahead) {
    return ahead < notation->source.n - notation->at ? notation->source.bytes[notation->at + ahead]
                                                     : 0;
}

static inline bool notation_take(struct notation *notation, const char *text) {
    struct span rest = {notation->source.bytes + notation->at, notation->source.n - notation->at};
    if (!span_begins(rest, text))
        return false;
    notation->at += strlen(text);
    return true;
}

/* One character of the source. */
NODISCARD enum status notation_point(struct notation *notation, uint32_t *point);
/* A number of exactly n hexadecimal digits, or (n 0) of one to six. */
NODISCARD enum status notation_hex(struct notation *notation, unsigned n, uint32_t *point);
/* Decimal digits; STATUS_INVALID without any, STATUS_LIMIT above REGEX_REPEAT_MAX. */
NODISCARD enum status notation_number(struct notation *notation, uint32_t *number);

/* The rule of a name, made where it is new. *named lives until the next name is asked for. */
NODISCARD enum status notation_name(struct notation *notation, struct span name,
                                    struct named **named);
/* The same where it was named before; else NULL. */
struct named *notation_find(struct notation *notation, struct span name);
/* Says that a name is being defined; STATUS_INVALID where it is already. */
NODISCARD enum status notation_define(struct notation *notation, struct span name, uint32_t *rule);
/* STATUS_INVALID for the first name without a definition. */
NODISCARD enum status notation_check(struct notation *notation);

/* Forgets the set; puts characters into it; writes it, or all others, between two nodes. */
void notation_set_begin(struct notation *notation);
NODISCARD enum status notation_set_add(struct notation *notation, uint32_t low, uint32_t high);
NODISCARD enum status notation_set_end(struct notation *notation, bool is_negated);
void notation_set_write(struct notation *notation, uint32_t from, uint32_t to);

/* A text that may be repeated, from one node to another. */
struct element {
    uint32_t begin;
    uint32_t end;
    bool is_set; /* it is the notation's set, which is written by notation_repeat() */
};

/* The element again and again, min to max times (PROGRAM_NO_BOUND), becomes the element. */
NODISCARD enum status notation_repeat(struct notation *notation, struct element *element,
                                      uint32_t min, uint32_t max);
