/* model/text/template/jinja/builtin/jinja_string.h: what methods and filters of strings share. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

enum { JINJA_LEFT = 1, JINJA_RIGHT = 2 };

/* Without blanks, or the given characters, on the sides named. chars: ABSENT, none or a string. */
NODISCARD enum status jinja_strip(struct jinja_run *run, struct jinja_value self,
                                  struct jinja_value chars, unsigned sides,
                                  struct jinja_value *value);

enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITALIZE };

/* Unicode's simple mappings, the German sharp s and the Turkish dotted I. */
NODISCARD enum status jinja_change_case(struct jinja_run *run, struct jinja_value self,
                                        enum jinja_case change, struct jinja_value *value);

/* A list of the lines, as str.splitlines() knows them: jinja_split.c. */
NODISCARD enum status jinja_split_lines(struct jinja_run *run, struct jinja_value self,
                                        bool keep_ends, struct jinja_value *value);

/* The first n_max occurrences; all when that is negative. */
NODISCARD enum status jinja_replace(struct jinja_run *run, struct jinja_value self,
                                    struct jinja_value old, struct jinja_value new, int64_t n_max,
                                    struct jinja_value *value);
