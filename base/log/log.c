#include "base/log/log.h"

#include "base/log/log_writer.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic(enum log_level) level_min = LOG_INFO;

void log_init(const char *program, enum log_level level) {
    log_format_init(program);
    log_set_level(level);
}

void log_set_level(enum log_level level) {
    atomic_store_explicit(&level_min, level, memory_order_relaxed);
}

bool log_is_on(enum log_level level) {
    return level >= atomic_load_explicit(&level_min, memory_order_relaxed);
}

void log_line(enum log_level level, const char *message, const char *format, ...) {
    if (!log_is_on(level))
        return;
    char line[2048];
    va_list args;
    va_start(args, format);
    size_t n = log_format_args(line, sizeof line, level, message, format, args);
    va_end(args);
    log_writer_put(line, n, level >= LOG_ERROR ? LOG_LAST : LOG_ORDINARY);
}

void log_words(const char *format, ...) {
    char line[LOG_LINE_MAX + 1];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log_writer_put(line,
                   n < 0                     ? 0
                   : (size_t)n < sizeof line ? (size_t)n
                                             : sizeof line - 1,
                   LOG_ORDINARY);
}

static bool log_value_is_plain(const char *text) {
    if (*text == 0)
        return false;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 0x7f)
            return false;
    return true;
}

const char *log_text(char *out, size_t size, const char *text) {
    if (log_value_is_plain(text) && strlen(text) < size) {
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
