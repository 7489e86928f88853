/* router/api/openapi_body.h: schemas of /openapi.json, and those of requests' bodies: openapi.c's half that reads the table
 * of fields. Pure. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

struct dialect_about;
struct openapi_of;

/* A text of SCHEMA() as compact JSON. */
void openapi_put_schema(const char *text, struct buf *out);

/* The members of an object that say: as this schema, or null where that is as good as nothing. A comma follows. */
void openapi_put_nullable(const char *schema, bool may_be_null, struct buf *out);

/* The schema of a request's body. */
void openapi_put_body(const struct openapi_of *of, const struct dialect_about *about,
                      struct buf *out);
