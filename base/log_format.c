#include "base/log_format.h"

#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static const char *program_name = "tandem";
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_format_init(const char *program) {
    program_name = program;
}

const char *log_level_word(unsigned level) {
    return level < sizeof level_names / sizeof *level_names ? level_names[level] : NULL;
}

size_t log_format_args(char *out, size_t size, enum log_level level, const char *message,
                       const char *format, va_list args) {
    uint64_t now_ns = clock_unix_ns();
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, size, "ts=%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(out + n, size - n, ".%03uZ level=%s prog=%s msg=\"%s\"",
                          (unsigned)(now_ns % NS_PER_S / NS_PER_MS), level_names[level],
                          program_name, message);
    if (format && format[0] && n + 2 < size) {
        out[n++] = ' ';
        int more = vsnprintf(out + n, size - n, format, args);
        n += more > 0 ? (size_t)more : 0;
    }
    if (n > size - 1)
        n = size - 1;
    out[n++] = '\n';
    return n;
}

size_t log_format(char *out, size_t size, enum log_level level, const char *message,
                  const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t n = log_format_args(out, size, level, message, format, args);
    va_end(args);
    return n;
}
