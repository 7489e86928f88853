/* router/api/openapi.h: the HTTP API as a document of OpenAPI 3.1.
 *
 * Made from the table of what is served, what each dialect says of itself (about.h) and the rows of field_table.c; gRPC has
 * its own (reflection). Pure. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

struct dialect;

/* Of one router. All is borrowed. */
struct openapi_of {
    const struct dialect *(*nth)(unsigned n); /* what is served; NULL past the last */
    const char *model;                        /* the id that clients may name */
    bool needs_key;                           /* of clients, */
    bool needs_admin_key;                     /* and on admin routes */
};

/* Appends the document. */
void openapi_put(const struct openapi_of *of, struct buf *out);
