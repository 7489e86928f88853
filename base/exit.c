#include "base/exit.h"

#include <stdio.h>
#include <string.h>

int exit_with(int code, const char *lines) {
    while (*lines) {
        int n = (int)strcspn(lines, "\n");
        if (n > 0)
            fprintf(stderr, "error: %.*s\n", n, lines);
        lines += n + (lines[n] == '\n');
    }
    return code;
}
