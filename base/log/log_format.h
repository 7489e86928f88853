/* base/log/log_format.h: how a log line reads. For log.c and log_writer.c; others include
 * base/log/log.h. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Once at start: the program's name, borrowed, goes into each line. Where standard error is the
 * journal ($JOURNAL_STREAM), lines carry their priority in place of the time. */
void log_format_init(const char *program);

/* What a line for the journal begins with: "<6>", a syslog priority (sd-daemon(3)); else "". */
const char *log_priority(enum log_level level);

/* "debug", "info", "warn", "error" for the levels, NULL past the last. */
const char *log_level_word(unsigned level);

/* Writes the line that log_line() would put, with its newline and without NUL, and returns its
 * bytes: at most `size`, which is at least 128. */
size_t log_format(char *out, size_t size, enum log_level level, const char *message,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
size_t log_format_args(char *out, size_t size, enum log_level level, const char *message,
                       const char *format, va_list args) __attribute__((format(printf, 5, 0)));
