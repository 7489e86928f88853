/* base/json/json_text.h: JSON from model files, read within written bounds.
 *
 * The text is counted before it is parsed: depth and number of values are known to be small before
 * anything is allocated for them. Keys that repeat are refused. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct remarks;

typedef struct json_t json_t; /* jansson's */

struct json_limits {
    uint64_t n_bytes;  /* of the text */
    uint32_t depth;    /* of objects and arrays in each other */
    uint64_t n_values; /* members and items, all together */
    bool takes_nul;    /* texts may hold "\u0000": who reads them goes by their length */
};

/* For config.json and its like; for a tokenizer's files. */
extern const struct json_limits json_limits_config;
extern const struct json_limits json_limits_tokenizer;

/* Counts the containers and commas outside of strings: every value but the first of a container
 * follows a comma, so *n_values is no less than what a parser will make. False when containers nest
 * deeper than depth_max, with the byte *at which they do: parsers recurse, and jansson's own bound
 * (2,048) is compiled in. Malformed text is left for the parser to name. */
NODISCARD bool json_text_count(struct span text, uint32_t depth_max, uint64_t *n_values,
                               size_t *at);

/* The text as an object; the caller gives it back with json_decref(). `name` is used in messages.
 * STATUS_CORRUPT with line and column, STATUS_LIMIT past a bound, STATUS_NOMEM. */
NODISCARD enum status json_text_parse(struct span text, const char *name,
                                      const struct json_limits *limits, json_t **root,
                                      struct error *error);

/* The same for the file at `path`. Errors of file_read() too. */
NODISCARD enum status json_text_load(const char *path, const struct json_limits *limits,
                                     json_t **root, struct error *error);

/* The same for a file without which a model is what it is: one that cannot be read counts as absent
 * (*root is untouched), with a remark. STATUS_NOMEM alone is an error. */
NODISCARD enum status json_text_load_helper(const char *path, const struct json_limits *limits,
                                            json_t **root, struct remarks *remarks,
                                            struct error *error);
