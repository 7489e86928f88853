/* model/json/json_keys.h: typed values of a JSON object, with messages that name file and key.
 *
 * A key that is absent or null counts as not there. The plain getters want the key
 * (STATUS_INVALID when it is not there), those ending in _or keep what *value holds. A value of
 * another type or out of range is STATUS_INVALID and named. Borrowed from the object. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct json_t json_t; /* jansson's */

struct json_keys {
    const json_t *object;
    const char *file;   /* for messages */
    const char *parent; /* of a nested object: its key; else NULL */
    struct error *error;
};

/* NULL when it is not there. */
const json_t *json_keys_get(const struct json_keys *keys, const char *key);

NODISCARD enum status json_keys_u32(const struct json_keys *keys, const char *key, uint32_t *value);
NODISCARD enum status json_keys_u32_or(const struct json_keys *keys, const char *key,
                                       uint32_t *value);
NODISCARD enum status json_keys_f64(const struct json_keys *keys, const char *key, double *value);
NODISCARD enum status json_keys_f64_or(const struct json_keys *keys, const char *key,
                                       double *value);
NODISCARD enum status json_keys_bool_or(const struct json_keys *keys, const char *key, bool *value);
NODISCARD enum status json_keys_text_or(const struct json_keys *keys, const char *key,
                                        const char **value);

/* The object of that key; its own object is NULL when it is not there. */
NODISCARD enum status json_keys_object_or(const struct json_keys *keys, const char *key,
                                          struct json_keys *value);

/* STATUS_UNSUPPORTED unless the key is absent, or a bool of this value. */
NODISCARD enum status json_keys_want(const struct json_keys *keys, const char *key, bool wanted);

/* Fills the error: "FILE: KEY ...", and returns the status. */
enum status json_keys_fail(const struct json_keys *keys, enum status status, const char *key,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
