/* model/json/json_fields.h: fields of a JSON object of a tokenizer file, with their mistakes named.
 *
 * A line says "key is not text"; who calls puts before it where that is. Texts are borrowed from the
 * object. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct json_t;

/* Must be there. */
NODISCARD enum status json_field_text(const struct json_t *object, const char *key,
                                      struct span *text, struct error *error);
NODISCARD enum status json_field_u32(const struct json_t *object, const char *key, uint32_t *number,
                                     struct error *error);

/* Keeps the value that is there when the key is absent or null. */
NODISCARD enum status json_field_bool(const struct json_t *object, const char *key, bool *value,
                                      struct error *error);

/* A list that must be there; *n items. */
NODISCARD enum status json_field_list(const struct json_t *object, const char *key,
                                      struct json_t **list, struct error *error);
