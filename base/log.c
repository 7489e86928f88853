#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *program_name = "tandem";
static enum log_level level_min = LOG_INFO;
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *program, enum log_level level) {
    program_name = program;
    level_min = level;
}

bool log_level_parse(const char *text, enum log_level *level) {
    for (unsigned i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

void log_line(enum log_level level, const char *message, const char *format, ...) {
    if (level < level_min)
        return;
    char line[2048];
    uint64_t now_ns = clock_unix_ns();
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(line, sizeof line, "ts=%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03uZ level=%s prog=%s msg=\"%s\"",
                          (unsigned)(now_ns % NS_PER_S / NS_PER_MS), level_names[level],
                          program_name, message);
    if (format && format[0] && n + 2 < sizeof line) {
        line[n++] = ' ';
        va_list args;
        va_start(args, format);
        int more = vsnprintf(line + n, sizeof line - n, format, args);
        va_end(args);
        n += more > 0 ? (size_t)more : 0;
    }
    if (n > sizeof line - 1)
        n = sizeof line - 1;
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* a full or closed stderr must not stop the daemon */
}

static bool is_plain(const char *text) {
    if (*text == 0)
        return false;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 0x7f)
            return false;
    return true;
}

const char *log_text(char *out, size_t size, const char *text) {
    if (is_plain(text) && strlen(text) < size) {
        memcpy(out, text, strlen(text) + 1);
        return out;
    }
    if (size < 8) {
        if (size > 0)
            out[0] = 0;
        return out;
    }
    size_t n = 0;
    out[n++] = '"';
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (n + 9 > size) { /* longest escape, "...", quote and NUL */
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        if (*at == '"' || *at == '\\')
            n += (size_t)snprintf(out + n, size - n, "\\%c", *at);
        else if (*at < ' ' || *at == 0x7f)
            n += (size_t)snprintf(out + n, size - n, "\\x%02x", *at);
        else
            out[n++] = (char)*at;
    }
    out[n++] = '"';
    out[n] = 0;
    return out;
}
