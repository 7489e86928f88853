#include "base/log/log_format.h"

#include "base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *program_name = "tandem";
static bool is_journal; /* it writes the time itself, and takes a priority before the line */
static const char *const priorities[] = {"<7>", "<6>", "<4>", "<3>"};
static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* $JOURNAL_STREAM is "device:inode" of the journal's socket (systemd.exec(5)): standard error may be
 * that, or have been led elsewhere since. */
static bool stderr_is_journal(void) {
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat stat;
    return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &stat) == 0 && stat.st_dev == device && stat.st_ino == inode;
}

void log_format_init(const char *program) {
    program_name = program;
    is_journal = stderr_is_journal();
}

const char *log_priority(enum log_level level) {
    return is_journal ? priorities[level] : "";
}

const char *log_level_word(unsigned level) {
    return level < sizeof level_names / sizeof *level_names ? level_names[level] : NULL;
}

/* The time, or what the journal takes in its place. */
static size_t log_put_origin(char *out, size_t size, enum log_level level) {
    if (is_journal)
        return (size_t)snprintf(out, size, "%s", log_priority(level));
    uint64_t now_ns = clock_unix_ns();
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, size, "ts=%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(out + n, size - n, ".%03uZ ",
                                (unsigned)(now_ns % NS_PER_S / NS_PER_MS));
}

size_t log_format_args(char *out, size_t size, enum log_level level, const char *message,
                       const char *format, va_list args) {
    size_t n = log_put_origin(out, size, level);
    n += (size_t)snprintf(out + n, size - n, "level=%s prog=%s msg=\"%s\"", level_names[level],
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
