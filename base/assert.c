#include "base/assert.h"

#include "base/log/log_writer.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_failed(const char *expression, const char *file, int line) {
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "level=fatal msg=\"assertion failed\" expression=\"%.400s\" at=%.400s:%d\n",
                     expression, file, line);
    log_writer_last(text, n > 0 ? (size_t)n : 0);
    abort();
}
