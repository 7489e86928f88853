/* router/api/tools_schema.h: schemas of a tool's arguments as parts of a grammar. Pure, any thread. */
#pragma once

#include "model/text/grammar/grammar.h"
#include "router/api/ask.h"

#include <jansson.h>

/* The part, without a region: values of `schema`, which goes without what is only for readers (titles, descriptions, defaults ...).
 * `root`: whose $defs it may point to. NULL: `schema` is that of all arguments; where it lists them, others do not come unless it
 * says so. Of the ask's arena. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status tools_schema_part(struct ask *ask, const json_t *schema, const json_t *root,
                                        bool lenient, struct grammar_part *part);

/* The first keyword of a schema that is none of `known` (ends with NULL), nor only for readers; NULL: there is none. */
const char *tools_schema_other(const json_t *schema, const char *const *known);

/* The same of a whole schema, whose names and definitions say nothing of its own values either. */
const char *tools_schema_other_of_root(const json_t *schema, const char *const *known);

/* What `to`, a reference into the root's definitions, points to; NULL: it is none, or there is nothing. */
const json_t *tools_schema_pointed(const json_t *root, const char *to);
