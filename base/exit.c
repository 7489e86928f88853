#include "base/exit.h"

#include "base/error.h"
#include "base/log/log.h"
#include "base/log/log_writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int exit_with(int code, const char *lines) {
    char line[LOG_LINE_MAX + 1];
    while (*lines) {
        int n = (int)strcspn(lines, "\n");
        int size = snprintf(line, sizeof line, "%serror: %.*s", log_priority(LOG_ERROR), n, lines);
        if (n > 0 && size > 0)
            log_writer_put(line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1,
                           LOG_LAST);
        lines += n + (lines[n] == '\n');
    }
    return code;
}

int exit_fail(int code, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return exit_with(code, text);
}

int exit_of(const struct error *error) {
    if (!error->may_pass)
        return exit_with(EXIT_CONFIG, error->text);
    return exit_fail(EXIT_LATER, "%s; a later start may succeed", error->text);
}

void exit_now(int code) {
    (void)log_writer_finish();
    _exit(code);
}

static void exit_check_stdout(int code, void *unused) {
    (void)unused;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    log_words("error: standard output: %s", errno ? strerror(errno) : "something was not written");
    exit_now(code ? code : EXIT_FAILURE);
}

void exit_checks_stdout(void) {
    (void)on_exit(exit_check_stdout, NULL);
}
