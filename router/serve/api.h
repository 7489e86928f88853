/* router/serve/api.h: what is served: the table of dialects, and how a path finds its row. */
#pragma once

#include "router/api/dialect.h"

#include <stdbool.h>

/* The n-th dialect, or NULL past the last. */
const struct dialect *api_dialect(unsigned n);

/* What the table has for a method and a path. All is borrowed for life, but for `rest`, which points
 * into the path. */
struct api_match {
    const struct dialect *dialect; /* for the method and the path; NULL: none */
    const struct dialect *at_path; /* the first at the path, whichever its method; NULL: none */
    const char *rest;              /* the segments behind the dialect's path, or "" */
    char allow[64];                /* without a dialect: the methods that the path has, or "" */
};

/* Looks a method and a decoded path up. */
void api_find(const char *method, const char *path, struct api_match *match);

/* The segments of a path that fits the dialect behind the dialect's own, or "". */
const char *api_rest(const struct dialect *dialect, const char *path);

/* The form of the family that sends bodies of this type (NULL: none was named); where no family
 * does, that of the table's first row. */
const struct dialect_form *api_form(const char *content_type);

/* A path that is served and looks like this one: with /v1 in front (a client's base URL lacks it)
 * or without it, without doubled slashes or one at the end. False: none. */
bool api_near(const char *path, char near[256]);
