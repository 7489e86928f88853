/* base/json/json_read.h: JSON text as jansson's values, with integers of any length.
 *
 * Integers that fit into 64 bits are integers. Larger ones are reals, correctly rounded, where the
 * library itself refuses the whole text; a number that is too large for a double stays an error.
 * Pure; any thread. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* As json_loadb(): NULL with *error where the text is not JSON. Takes neither JSON_DISABLE_EOF_CHECK
 * nor JSON_DECODE_INT_AS_REAL. The text is not copied, and the line and column of an error are its own. The
 * caller gives the value back with json_decref(). */
json_t *json_read(const char *bytes, size_t n, size_t flags, json_error_t *error);
