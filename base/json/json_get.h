/* base/json/json_get.h: typed reading of JSON objects: requests and the files of models.
 *
 * Getters read one member of an object. An absent member and a null one are the same: json_get_*
 * returns STATUS_OK and keeps what the result held, json_need_* says that it is missing. A wrong
 * type or a value out of range is the reader's `wrong`, with a line that names the member, and its
 * name in error->field (the `param` of the error object). Integers are int64, as JSON Schema has
 * them: 16.0 and 1e1 are, 16.5 is not; those beyond 64 bits are reals (json_read.h) and out of any
 * range. Reals accept integers. Values are borrowed from the document.
 * Pure; any thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 64

/* An object being read, and how its mistakes are told. All is borrowed. */
struct json_get {
    const json_t *object; /* NULL reads as an empty one */
    struct error *error;  /* filled on failure */
    const char *parent;   /* before a name, with a dot between: "messages[2]"; or NULL */
    const char *file;     /* of a model file: before the name, or "" where the caller puts it.
                             NULL: a request; names are in backquotes, values are not shown */
    enum status wrong;    /* for what is missing or not as expected; 0: STATUS_INVALID */
};

/* A reader of part of a file: mistakes are STATUS_CORRUPT, and the caller puts before the line where
 * the part is. */
struct json_get json_get_part(const json_t *object, struct error *error);

/* Parses a request body: one object, at most JSON_DEPTH_MAX deep, no key twice; NUL is allowed in
 * strings. STATUS_INVALID with line and column. On success the caller owns *root. */
NODISCARD enum status json_get_parse(const char *bytes, size_t n, json_t **root,
                                     struct error *error);

/* The member, or NULL when it is absent or null. */
const json_t *json_get_member(const struct json_get *get, const char *name);

/* A whole number that no 64 bits hold. */
bool json_get_is_huge(const json_t *value);

/* The integer that a value is, a whole real as well. False: it is none, or 64 bits do not hold it; *whole is then as it
 * was. NULL is none. */
bool json_get_whole(const json_t *value, int64_t *whole);

/* Fills the error with the member's full name and answers the status. */
enum status json_get_fail(const struct json_get *get, enum status status, const char *name,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
#ifdef __clang_analyzer__ /* as base/error.h */
#define json_get_fail(get, status, name, ...)                                                      \
    (json_get_fail(get, status, name, __VA_ARGS__), (status))
#endif

NODISCARD enum status json_get_bool(const struct json_get *get, const char *name, bool *value);
NODISCARD enum status json_get_int(const struct json_get *get, const char *name, int64_t min,
                                   int64_t max, int64_t *value);
NODISCARD enum status json_get_u32(const struct json_get *get, const char *name, uint32_t *value);
NODISCARD enum status json_get_real(const struct json_get *get, const char *name, double min,
                                    double max, double *value);
NODISCARD enum status json_get_f64(const struct json_get *get, const char *name, double *value);

/* A string of at most max bytes; it may hold NULs where the document may. */
NODISCARD enum status json_get_text(const struct json_get *get, const char *name, size_t max,
                                    struct span *value);

/* A string of a document without NULs. */
NODISCARD enum status json_get_string(const struct json_get *get, const char *name,
                                      const char **value);

/* A reader of the member; its object is NULL when there is none. Names of its own members go by
 * `name`, which must live as long. */
NODISCARD enum status json_get_object(const struct json_get *get, const char *name,
                                      struct json_get *inner);
NODISCARD enum status json_get_array(const struct json_get *get, const char *name, size_t n_max,
                                     const json_t **value);

/* STATUS_UNSUPPORTED unless the member is absent, or a bool of this value. */
NODISCARD enum status json_get_want(const struct json_get *get, const char *name, bool wanted);

/* The same of members that must be there; texts and lists of any length. */
NODISCARD enum status json_need_u32(const struct json_get *get, const char *name, uint32_t *value);
NODISCARD enum status json_need_f64(const struct json_get *get, const char *name, double *value);
NODISCARD enum status json_need_text(const struct json_get *get, const char *name,
                                     struct span *value);
NODISCARD enum status json_need_array(const struct json_get *get, const char *name,
                                      const json_t **value);
