/* base/remarks.h: what a reader of files passes over and goes on, for who logs it: one line each.
 *
 * Filled while files are read, read-only afterwards. */
#pragma once

#include "base/error.h"

#define REMARKS_MAX 24

struct remarks {
    unsigned n;
    unsigned n_more; /* that had no place: the last line says how many */
    char lines[REMARKS_MAX][ERROR_TEXT_MAX];
};

/* Adds a line, unless it is there already. Where REMARKS_MAX are, the last one says how many more there were. */
void remarks_add(struct remarks *remarks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
