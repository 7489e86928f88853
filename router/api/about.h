/* router/api/about.h: what /openapi.json says of a dialect (openapi.c).
 *
 * A dialect's file describes its own request and answers, beside the rows of field_table.c. Constant; any thread. */
#pragma once

#include <stddef.h>

/* A JSON schema, written as it is; bounds may be named by their macros, "#/components/schemas/Usage" by `$ref`. That a
 * value may be null, and so absent, is said for it. */
#define SCHEMA_TEXT(...) #__VA_ARGS__
#define SCHEMA(...)      SCHEMA_TEXT(__VA_ARGS__)

/* A member of a request's body that no row of this dialect's routes says, or that is otherwise there than the row has it. */
struct dialect_member {
    const char *name;
    const char *as; /* the row of field_table.c that it is read as; or NULL */
    const char *
        schema; /* SCHEMA() of its values; NULL: those of `as`, or without that any, and it means nothing */
    const char *says; /* beside its schema; or NULL */
};

struct dialect_about {
    const char *summary;                  /* one line */
    unsigned fields;                      /* bits of enum field_route: their rows are its members */
    const struct dialect_member *members; /* further ones, up to one without a name; or NULL */
    const char *needs;  /* SCHEMA() of a list: members that must be there, and not null; or NULL */
    const char *either; /* SCHEMA() of what else holds for the body; or NULL */
    const char *rest;   /* what stands behind a path that takes more: its name; or NULL */
    unsigned status;    /* of the answer; 0: 200 */
    unsigned also;      /* another status with such a body; or 0 */
    const char
        *answer;      /* SCHEMA() of the answer's body; NULL: a text, or of a refusal the error's */
    const char *type; /* the answer's content type; NULL: the form's */
    const char *events; /* what the events are of an answer that streams; or NULL */
};
