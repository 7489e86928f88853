/* model/text/grammar/schema/pattern.h: a regular expression of a schema as an automaton. */
#pragma once

#include "base/span.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

struct chars;
struct schema;

/* On success the caller owns *chars. `searches`: the expression may match anywhere, as `pattern` does;
 * else it matches the whole. Failures name `keyword` of `node`. */
NODISCARD enum status pattern_compile(struct schema *schema, const json_t *node,
                                      const char *keyword, struct span source, bool searches,
                                      struct chars *chars);
