#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Model files and requests choose parts of these lines: nothing in them may forge a log line. */
static void error_make_printable(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at != 0; at++)
        if (*at < 0x20 || *at == 0x7f)
            *at = '?';
}

__attribute__((format(printf, 2, 0))) static void
error_format_line(struct error *error, const char *format, va_list args) {
    vsnprintf(error->text, sizeof error->text, format, args);
    error_make_printable(error->text);
    error->may_pass = false;
}

enum status(error_set)(struct error *error, enum status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_format_line(error, format, args);
    va_end(args);
    error->field[0] = 0;
    return status;
}

enum status(error_field)(struct error *error, enum status status, const char *field,
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_format_line(error, format, args);
    va_end(args);
    snprintf(error->field, sizeof error->field, "%s", field);
    error_make_printable(error->field);
    return status;
}

__attribute__((format(printf, 2, 0))) static void
error_prefix_line(struct error *error, const char *format, va_list args) {
    char prefix[ERROR_TEXT_MAX];
    char rest[ERROR_TEXT_MAX];
    vsnprintf(prefix, sizeof prefix, format, args);
    memcpy(rest, error->text, sizeof rest);
    size_t n = strnlen(prefix, sizeof prefix);
    if (n > sizeof error->text - 3)
        n = sizeof error->text - 3;
    memcpy(error->text, prefix, n);
    snprintf(error->text + n, sizeof error->text - n, ": %s", rest);
    error_make_printable(error->text);
}

void error_prefix(struct error *error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_prefix_line(error, format, args);
    va_end(args);
}

enum status(error_within)(struct error *error, enum status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (status != STATUS_OK)
        error_prefix_line(error, format, args);
    va_end(args);
    return status;
}

void error_rename(struct error *error, const char *name) {
    char rest[ERROR_TEXT_MAX];
    size_t n = strlen(error->field);
    bool leads = n > 0 && strncmp(error->text, error->field, n) == 0 && error->text[n] == ' ';
    if (!leads) {
        error_prefix(error, "%s", name);
    } else {
        memcpy(rest, error->text, sizeof rest);
        snprintf(error->text, sizeof error->text, "%s%s", name, rest + n);
        error_make_printable(error->text);
    }
    snprintf(error->field, sizeof error->field, "%s", name);
    error_make_printable(error->field);
}

enum status(error_passing)(struct error *error, enum status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_format_line(error, format, args);
    va_end(args);
    error->field[0] = 0;
    error->may_pass = true;
    return status;
}

enum status(error_of_errno)(struct error *error, enum status status, int number) {
    static const int passing[] = {EADDRINUSE,   EADDRNOTAVAIL, EAGAIN,    EHOSTDOWN,
                                  EHOSTUNREACH, EIO,           ENETDOWN,  ENETUNREACH,
                                  ENODEV,       ENOENT,        ENOMEDIUM, ENOTCONN,
                                  ENXIO,        EREMOTEIO,     ESTALE,    ETIMEDOUT};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        error->may_pass |= number == passing[i];
    return status;
}

enum status(error_errno)(struct error *error, enum status status, int number, const char *format,
                         ...) {
    va_list args;
    va_start(args, format);
    error_format_line(error, format, args);
    va_end(args);
    size_t n = strlen(error->text);
    snprintf(error->text + n, sizeof error->text - n, ": %s", strerror(number));
    error->field[0] = 0;
    return error_of_errno(error, status, number);
}
