/* router/api/field_table.h: every member of a request that anybody sends: served, refused or
 * without meaning here.
 *
 * One row a field: fields.c checks its bounds and puts the value where it goes, and
 * docs/http-api.md prints its words (a test compares). An unknown field is ignored and logged once;
 * but a field that would change the text or its form, in OpenAI's words or another server's, must
 * be in the table: ignoring it would answer a question that was not asked. Constant; any thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Where a row holds: bits. /tokenize reads as the route whose prompt it is given, and its own. */
enum field_route { FIELD_CHAT = 1, FIELD_COMPLETIONS = 2, FIELD_TOKENIZE = 4 };

/* Behind each: the member of struct ask that it goes into. */
enum field_type {
    FIELD_ANY,    /* read by hand, as lists and objects are */
    FIELD_BOOL,   /* bool */
    FIELD_INT,    /* uint32_t or int32_t */
    FIELD_INT64,  /* uint64_t: any 64-bit integer */
    FIELD_REAL,   /* float */
    FIELD_STRING, /* struct span, of the arena; `max` is in bytes */
    FIELD_IDS,    /* const uint32_t *, of the arena; at most `max` token ids */
    FIELD_LIST,
    FIELD_OBJECT
};

struct field_row {
    const char *name;
    unsigned served;  /* bits of enum field_route */
    unsigned refused; /* a 400 that names it, unless its value asks for nothing */
    unsigned idle;    /* taken and not looked at: it asks nothing of the answer */
    enum field_type type;
    size_t at;             /* offset in struct ask; 0: who needs it reads it by hand */
    size_t n_at;           /* IDS: offset of their number, a uint32_t */
    double min, max;       /* of a number, or see the type; both 0: see `says` */
    bool is_above;         /* REAL: `min` itself is out of bounds */
    bool has_text;         /* IDS: each must be one that an answer can hold */
    const char *neutral;   /* refused: a value that asks for nothing beside null, false and empty
                              ones, as JSON without quotation marks; or NULL */
    const char *schema;    /* ANY, LIST, OBJECT: SCHEMA() of its values (about.h); or NULL */
    const char *says;      /* further bounds and remarks for the documentation, or NULL */
    const char *otherwise; /* what holds without it, or NULL */
};

/* The row of that name, or NULL: the field is unknown. */
const struct field_row *field_find(const char *name);

/* The n-th row in order of names, or NULL past the last. */
const struct field_row *field_nth(size_t n);

/* Whether a value of a refused field asks for nothing. */
bool field_is_neutral(const struct field_row *row, const json_t *value);
