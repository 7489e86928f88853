/* model/text/grammar/regex/regex.h: regular expressions as trees over characters.
 *
 * What ECMA-262 and Python's re both know: classes, groups, alternatives, greedy and lazy repeats
 * (the same language), ^ and $, \d \w \s, \x \u, \p{...} by general category. \d, \w, \s take ASCII
 * alone, and their complements nothing that either dialect counts in, so that what is written suits
 * both. Look-around, back-references, \b and flags but (?i) and (?s) are refused. Pure. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum regex_kind {
    REGEX_EMPTY,
    REGEX_SET,    /* one character of ranges[first..first + n) */
    REGEX_CAT,    /* a, then b */
    REGEX_EITHER, /* a or b */
    REGEX_REPEAT, /* a, min to max times */
    REGEX_BEGIN,  /* ^ */
    REGEX_END,    /* $ */
};

struct regex_node {
    uint8_t kind;
    uint32_t a;
    uint32_t b;
    uint32_t min;
    uint32_t max; /* UINT32_MAX: no bound */
    uint32_t first;
    uint32_t n;
};

struct regex_range {
    uint32_t low; /* code points */
    uint32_t high;
};

enum regex_flags {
    REGEX_DOT_ALL = 1,
    REGEX_IGNORE_CASE = 2, /* of ASCII letters */
    REGEX_ECMA_DOT = 4,    /* . is none of ECMA-262's four line ends */
    REGEX_TERMINAL = 8, /* of a lexer: lazy repeats and anchors, which look at what is around, are
                              refused */
};

struct regex {
    struct regex_node *nodes;   /* owned (n_nodes) */
    struct regex_range *ranges; /* owned (n_ranges): sorted and apart within a set */
    uint32_t n_nodes;
    uint32_t n_ranges;
    uint32_t nodes_size;
    uint32_t ranges_size;
    uint32_t root;
    bool has_anchors;
};

#define REGEX_NODES_MAX  200000u
#define REGEX_REPEAT_MAX 100000u

/* STATUS_INVALID with the column for what is no expression, STATUS_UNSUPPORTED for what is refused,
 * STATUS_LIMIT for brackets deeper than depth_max or too many nodes, STATUS_NOMEM. */
NODISCARD enum status regex_parse(struct span source, unsigned flags, uint32_t depth_max,
                                  struct regex *regex, struct error *error);
void regex_parse_fini(struct regex *regex);

/* Sorts ranges and joins those that touch; answers how many are left. */
uint32_t regex_join_ranges(struct regex_range *ranges, uint32_t n);

/* Appends the characters of \d, \w, \s, or with a capital their complements: what every dialect counts
 * in, or, where it will be complemented (`is_wide`), what some dialect does. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status regex_add_range(struct regex *regex, uint32_t low, uint32_t high);
NODISCARD enum status regex_add_class(struct regex *regex, char letter, bool is_wide);
/* \p{name}: a general category of one or two letters, "L&" apart. STATUS_UNSUPPORTED for others. */
NODISCARD enum status regex_add_category(struct regex *regex, struct span name, bool is_negated);
