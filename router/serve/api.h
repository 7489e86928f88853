/* router/serve/api.h: what is served: the table of dialects, and how a path finds its row. */
#pragma once

#include "router/api/dialect.h"

#include <stdbool.h>

/* The n-th dialect, or NULL past the last. */
const struct dialect *api_dialect(unsigned n);

/* The first dialect at a decoded path, whatever the method; or NULL. */
const struct dialect *api_at(const char *path);

/* The form of the family that sends bodies of this type (NULL: none was named); where nobody does,
 * that of the table's first row. */
const struct dialect_form *api_form(const char *content_type);

/* A path that is served and looks like this one: with /v1 in front (a client's base URL lacks it)
 * or without it, without doubled slashes or one at the end. False: none. */
bool api_near(const char *path, char near[256]);

/* The dialect for a method and a decoded path; `*rest` points at the last segment where it takes
 * one. NULL when there is none; then `allow` holds the methods of that path, or "". */
const struct dialect *api_find(const char *method, const char *path, const char **rest,
                               char allow[64]);
