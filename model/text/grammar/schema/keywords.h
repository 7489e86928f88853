/* model/text/grammar/schema/keywords.h: the table of JSON Schema's keywords. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct json_t json_t; /* jansson's */

enum keyword_kind {
    KEYWORD_KEPT,
    KEYWORD_NOTE,    /* says nothing about values */
    KEYWORD_REFUSED, /* cannot be kept */
};

struct keyword {
    const char *name;
    enum keyword_kind kind;
    unsigned types; /* of values that it is about (enum value_type); 0: none by itself */
    /* Kept: whether its value has the right form; refused: whether it says nothing. May be NULL. */
    bool (*fits)(const json_t *value);
    const char *expected; /* kept: what it must be */
};

/* NULL behind the last. */
const struct keyword *keywords_row(size_t i);
