/* base/remarks.h: what a reader of files passes over and goes on, for who logs it: one line each.
 *
 * Filled while files are read, read-only afterwards. */
#pragma once

#include "base/error.h"

#define REMARKS_MAX 8

struct remarks {
    unsigned n;
    char lines[REMARKS_MAX][ERROR_TEXT_MAX];
};

/* Adds a line, unless it is there already or REMARKS_MAX are. */
void remarks_add(struct remarks *remarks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
