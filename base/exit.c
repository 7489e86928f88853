#include "base/exit.h"

#include "base/log.h"
#include "base/log_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_LINES_MS 100

int exit_with(int code, const char *lines) {
    while (*lines) {
        int n = (int)strcspn(lines, "\n");
        if (n > 0)
            log_words("%serror: %.*s", log_priority(LOG_ERROR), n, lines);
        lines += n + (lines[n] == '\n');
    }
    return code;
}

void exit_now(int code) {
    (void)log_writer_flush(LAST_LINES_MS);
    _exit(code);
}

static void check_stdout(int code, void *unused) {
    (void)unused;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    log_words("error: standard output: %s", errno ? strerror(errno) : "something was not written");
    exit_now(code ? code : EXIT_FAILURE);
}

void exit_checks_stdout(void) {
    (void)on_exit(check_stdout, NULL);
}
