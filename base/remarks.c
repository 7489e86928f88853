#include "base/remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void remarks_add(struct remarks *remarks, const char *format, ...) {
    if (remarks->n == REMARKS_MAX)
        return;
    char *line = remarks->lines[remarks->n];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof remarks->lines[0], format, args);
    va_end(args);
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?'; /* as in a struct error: files choose parts of the line */
    for (unsigned i = 0; i < remarks->n; i++)
        if (strcmp(remarks->lines[i], line) == 0)
            return;
    remarks->n++;
}
