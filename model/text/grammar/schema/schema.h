/* model/text/grammar/schema/schema.h: what the files of the JSON schema compiler share.
 *
 * A place of a value has a conjunction: the schemas that the value must all satisfy, after
 * references and allOf were followed. Equal conjunctions are one rule, which is written once; so
 * recursion ends, and keywords of several schemas meet where they are read: each file below takes one
 * kind of value and looks at all of them. The schema stays the parsed document: a path in an error is
 * found by looking for the node. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/compile.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What of a schema was followed already and stands in the conjunction by itself. */
enum member_skip { SKIP_REF = 1, SKIP_ALL_OF = 2, SKIP_ANY_OF = 4, SKIP_ONE_OF = 8 };

struct member {
    const json_t *schema; /* borrowed: an object of the document */
    uint32_t number;      /* its place there (order.c) */
    unsigned skip;        /* enum member_skip */
};

#define CONJUNCTION_MAX 64u

struct conjunction {
    struct member members[CONJUNCTION_MAX];
    uint32_t n;
    bool is_false; /* some schema is false: no value */
};

/* Kinds of JSON values: bits. */
enum value_type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8, /* with TYPE_INTEGER: any number; alone: any number, too */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127,
};

/* A conjunction that has a rule. */
struct known_rule {
    struct member *members; /* in the arena (n), sorted */
    uint32_t n;
    uint32_t rule;
    bool is_false;
};

struct order_slot {
    const json_t *node;
    uint32_t number;
    uint32_t resource;
};

/* A part with a URI of its own, or the whole document (refer.c). */
struct resource {
    const json_t *part;
    const char *uri; /* in the arena */
};

struct schema {
    struct compile *compile;
    struct program *program;
    struct error *error;
    json_t *root; /* owned */
    bool lenient;
    struct arena arena;       /* conjunctions of rules, URIs */
    struct known_rule *known; /* owned (n_known): in the order in which they are written */
    uint32_t n_known;
    uint32_t known_size;
    uint32_t *slots; /* owned (n_slots): by the hash of their members */
    uint32_t n_slots;
    struct order_slot *order_slots; /* owned (n_order_slots): by node */
    uint32_t n_order_slots;
    struct resource *resources; /* owned (n_resources): in their order in the document */
    uint32_t n_resources;
    json_t *targets; /* owned: the part of each URI, and of each name behind URI and "#" */
};

/* --- order.c */

/* Room for all objects of the document. */
NODISCARD enum status schema_order(struct schema *schema);
/* Its number in the order of the document, and the resource that it stands in, or is. */
void schema_put(struct schema *schema, const json_t *node, uint32_t number, uint32_t resource);
uint32_t schema_number(const struct schema *schema, const json_t *node);
uint32_t schema_resource(const struct schema *schema, const json_t *node);

/* --- rules.c */

/* The rule of a conjunction, written later; false ones have a rule without any text. */
NODISCARD enum status schema_rule(struct schema *schema, const struct conjunction *conjunction,
                                  uint32_t *rule);

/* Puts a schema (an object or a boolean) into a conjunction. STATUS_INVALID for anything else. */
NODISCARD enum status conjunction_add(struct schema *schema, struct conjunction *conjunction,
                                      const json_t *node, unsigned skip);

/* --- schema_path.c */

/* Fails with the path of a node (a JSON pointer): "/properties/a/minLength: ...". `keyword` may be
 * NULL: the node itself. */
enum status schema_fail(struct schema *schema, enum status status, const json_t *node,
                        const char *keyword, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What cannot be kept: an error in strict schemas; else it is counted, and STATUS_OK. */
NODISCARD enum status schema_cannot(struct schema *schema, const json_t *node, const char *keyword,
                                    const char *why);

/* --- refer.c */

/* Puts all objects of the document in their order, with the URIs and names that references may have. */
NODISCARD enum status schema_enter(struct schema *schema);

/* The schema that a $ref of `node` names. NULL in *found where it was counted as unenforced. */
NODISCARD enum status schema_follow(struct schema *schema, const json_t *node,
                                    const json_t **found);

/* --- keywords.c: one row a keyword */

/* Looks at all keywords of a schema, for values of `types`: those that cannot be kept fail or are
 * counted, those of a wrong type fail. */
NODISCARD enum status keywords_check(struct schema *schema, const json_t *node, unsigned types);

/* The types that "type" allows, TYPE_ANY without it. */
NODISCARD enum status keywords_types(struct schema *schema, const json_t *node, unsigned *types);

/* The least and the most of a count ("minLength", ...) over a conjunction; UINT32_MAX: no bound. */
void keywords_counts(const struct conjunction *conjunction, const char *min_name,
                     const char *max_name, uint32_t *min, uint32_t *max);

/* --- number.c, string.c, array.c, object.c: values of one kind between two nodes */

NODISCARD enum status schema_write_number(struct schema *schema,
                                          const struct conjunction *conjunction, bool is_integer,
                                          uint32_t from, uint32_t to);
NODISCARD enum status schema_write_string(struct schema *schema,
                                          const struct conjunction *conjunction, uint32_t from,
                                          uint32_t to);
NODISCARD enum status schema_write_array(struct schema *schema,
                                         const struct conjunction *conjunction, uint32_t from,
                                         uint32_t to);
NODISCARD enum status schema_write_object(struct schema *schema,
                                          const struct conjunction *conjunction, uint32_t from,
                                          uint32_t to);

/* --- value.c: JSON text */

/* White space where JSON may have some: a line end with up to 32 blanks or tabs, or at most 2 of
 * these. Nothing, too. */
uint32_t value_blank(struct compile *compile);
/* A string's characters and its closing quote. */
uint32_t value_chars(struct compile *compile);
uint32_t value_number(struct compile *compile, bool is_integer);
/* Any value. */
uint32_t value_any(struct compile *compile);
/* A text as a JSON string, with quotes. */
void value_quote(struct program *program, struct span text, uint32_t from, uint32_t to);
/* These texts as the inside of JSON strings; sorts them. */
NODISCARD enum status value_choice(struct compile *compile, struct span *texts, size_t n,
                                   uint32_t from, uint32_t to);
/* One value: strings with their shortest escapes, blanks where any value has some. */
void value_constant(struct compile *compile, const json_t *value, uint32_t from, uint32_t to);

/* --- format.c */

/* The expression of a format; NULL: not known. */
const char *format_expression(const char *name);

/* --- admit.c */

/* Whether a value satisfies all of a conjunction, by the keywords that are kept. */
NODISCARD enum status schema_admits(struct schema *schema, const struct conjunction *conjunction,
                                    const json_t *value, bool *admits);

/* --- disjoint.c */

/* Whether no value satisfies both, as far as it can be told from types, constants, bounds and required
 * properties. */
bool schema_disjoint(struct schema *schema, const json_t *left, const json_t *right,
                     uint32_t depth);
