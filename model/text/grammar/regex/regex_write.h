/* model/text/grammar/regex/regex_write.h: a regular expression as bytes, for the notations that hold
 * some. */
#pragma once

#include "base/span.h"
#include "base/status.h"

#include <stdint.h>

struct compile;

/* Writes what the expression matches from end to end between two nodes. `flags`: regex.h. Errors of
 * regex_parse() and program_status(). */
NODISCARD enum status regex_write(struct compile *compile, struct span source, unsigned flags,
                                  uint32_t from, uint32_t to);
