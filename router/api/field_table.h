/* router/api/field_table.h: every member of a request that anybody sends: served, refused or
 * without meaning here.
 *
 * One row a field: its bounds are what fields.c checks, its words what docs/http-api.md says (a
 * test compares). What nobody knows is ignored and logged once; but a field that would change the
 * text or its form, in OpenAI's words or another server's, must be in the table: ignoring it would
 * answer a question that was not asked. Constant; any thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Where a row holds: bits. /tokenize reads as the route whose prompt it is given, and its own. */
enum field_route { FIELD_CHAT = 1, FIELD_COMPLETIONS = 2, FIELD_TOKENIZE = 4 };

enum field_type {
    FIELD_ANY,
    FIELD_BOOL,
    FIELD_INT,
    FIELD_REAL,
    FIELD_STRING,
    FIELD_LIST,
    FIELD_OBJECT
};

struct field_row {
    const char *name;
    unsigned served;  /* bits of enum field_route */
    unsigned refused; /* a 400 that names it, unless its value asks for nothing */
    unsigned idle;    /* taken and not looked at: it asks nothing of the answer */
    enum field_type type;
    double min, max;       /* of a number; both 0: see `says` */
    const char *neutral;   /* refused: a value that asks for nothing beside null, false and empty
                              ones, as JSON without quotation marks; or NULL */
    const char *says;      /* further bounds and remarks for the documentation, or NULL */
    const char *otherwise; /* what holds without it, or NULL */
};

/* The row of that name, or NULL: nobody knows it. */
const struct field_row *field_find(const char *name);

/* The n-th row in order of names, or NULL past the last. */
const struct field_row *field_nth(size_t n);

/* Whether a value of a refused field asks for nothing. */
bool field_is_neutral(const struct field_row *row, const json_t *value);
