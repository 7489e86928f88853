/* model/json/json_get.h: typed reading of JSON requests.
 *
 * Getters read one member of an object. An absent member and a null one are the same: STATUS_OK,
 * and the result keeps what it held. A wrong type or a value out of range is STATUS_INVALID with
 * the member's name in error->field (the `param` of the error object). Integers are int64 and never
 * pass for reals that happen to be whole; reals accept integers. Pure; any thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 64

/* An object being read. */
struct json_get {
    const json_t *object; /* borrowed */
    const char *prefix;   /* before a name in errors: "" or, say, "stream_options." */
    struct error *error;  /* borrowed; filled on failure */
};

/* Parses a request body: one object, at most JSON_DEPTH_MAX deep, no key twice; NUL is allowed in
 * strings. STATUS_INVALID with line and column. On success the caller owns *root. */
NODISCARD enum status json_get_parse(const char *bytes, size_t n, json_t **root,
                                     struct error *error);

/* The member, or NULL when it is absent or null. */
const json_t *json_get_member(const struct json_get *get, const char *name);

/* Fills the error with the member's full name and answers STATUS_INVALID. */
enum status json_get_fail(const struct json_get *get, enum status status, const char *name,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

NODISCARD enum status json_get_bool(const struct json_get *get, const char *name, bool *value);
NODISCARD enum status json_get_int(const struct json_get *get, const char *name, int64_t min,
                                   int64_t max, int64_t *value);
NODISCARD enum status json_get_real(const struct json_get *get, const char *name, double min,
                                    double max, double *value);

/* A string of at most max bytes, borrowed from the document; it may hold NULs. */
NODISCARD enum status json_get_text(const struct json_get *get, const char *name, size_t max,
                                    struct span *value);
NODISCARD enum status json_get_object(const struct json_get *get, const char *name,
                                      const json_t **value);
NODISCARD enum status json_get_array(const struct json_get *get, const char *name, size_t n_max,
                                     const json_t **value);
