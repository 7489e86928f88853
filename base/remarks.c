#include "base/remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void remarks_add(struct remarks *remarks, const char *format, ...) {
    char line[sizeof remarks->lines[0]];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?'; /* as in a struct error: files choose parts of the line */
    for (unsigned i = 0; i < remarks->n; i++)
        if (strcmp(remarks->lines[i], line) == 0)
            return;
    if (remarks->n < REMARKS_MAX) {
        memcpy(remarks->lines[remarks->n++], line, sizeof line);
        return;
    }
    remarks->n_more += remarks->n_more == 0 ? 2 : 1; /* the last line's own is the first of them */
    snprintf(remarks->lines[REMARKS_MAX - 1], sizeof line, "and %u more of that kind",
             remarks->n_more);
}
