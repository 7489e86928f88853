/* model/json_file.h: a JSON file from a stranger, read whole (jansson), with a bound on its size.
 * Only includes the forward declaration of json_t, so that headers stay free of jansson. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdint.h>

struct json_t;

#define JSON_FILE_BYTES_MAX ((uint64_t)96 << 20) /* the largest seen have 35 MB */

/* Parses the file, whose top must be an object; no key may stand twice in an object. The caller
 * ends *root with json_decref(). STATUS_NOT_FOUND, STATUS_IO, STATUS_LIMIT, STATUS_NOMEM;
 * STATUS_CORRUPT with the line where the file is no JSON. */
NODISCARD enum status json_file_load(const char *path, struct json_t **root, struct error *error);
