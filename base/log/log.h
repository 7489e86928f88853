/* base/log/log.h: logfmt lines on standard error; no caller waits for them to be written
 * (log_writer.h).
 *
 * The message is a constant that can be grepped; data follows as key=value. Values that come from
 * outside go through log_text(), so that nothing can forge a line. Rooms of floors 0 and 1 return
 * errors and log nothing above debug. Any thread. */
#pragma once

#include "base/log/log_format.h"

#include <stdbool.h>
#include <stddef.h>

/* Once at start: the program's name goes into each line; lines below `level` are dropped. */
void log_init(const char *program, enum log_level level);

/* At any time, for all threads. */
void log_set_level(enum log_level level);

/* Whether lines of this level are written: looked at before data is formatted. */
bool log_is_on(enum log_level level);

/* log_line(LOG_INFO, "worker ready", "name=%s blocks=%u", name, n) */
void log_line(enum log_level level, const char *message, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(message, ...) log_line(LOG_DEBUG, message, __VA_ARGS__)
#define log_info(message, ...)  log_line(LOG_INFO, message, __VA_ARGS__)
#define log_warn(message, ...)  log_line(LOG_WARN, message, __VA_ARGS__)
#define log_error(message, ...) log_line(LOG_ERROR, message, __VA_ARGS__)

/* One line of plain words, without time or level: for people before a terminal, and for what
 * another program said. */
void log_words(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Copies `text` into `out` (of `size` bytes) as a logfmt value: quoted where needed, control bytes
 * and quotes escaped, cut with "..." when too long. Returns out. */
const char *log_text(char *out, size_t size, const char *text);
