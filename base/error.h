/* base/error.h: one line of text beside a status: what was wrong, where, and the way out.
 *
 * Parsers of files and requests take a `struct error *` (never NULL) and fill it when they fail.
 * The line carries the caller's own names (field, file, offset), never addresses or other data. */
#pragma once

#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ERROR_TEXT_MAX 512

struct error {
    char text[ERROR_TEXT_MAX]; /* NUL-terminated, cut if longer; control bytes replaced by '?' */
    char field[64];            /* the offending field or option, or "" */
    bool may_pass;             /* what is missing may come by itself: a later try may succeed */
};

/* Writes the line and returns `status`, so that a parser can `return error_set(...)`. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, naming the field (R3 of the HTTP rules: `param`). */
enum status error_field(struct error *error, enum status status, const char *field,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Calls the field as the reader of the line knows it: in place of its name where the line begins
 * with that, else before the line. */
void error_rename(struct error *error, const char *name);

/* Puts "prefix: " before the line that is there. Keeps the field. */
void error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status of a call; where that failed, with the prefix before its line:
 * TRY(error_within(error, read_part(..., error), "part %u", i)). */
enum status error_within(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set(), for what may pass, as a mount that comes late does. */
enum status error_passing(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Says of the line that is there that its cause may pass where `number`, an errno, is of a file, device, address or
 * network that is not there (ENOENT, ENODEV, EADDRNOTAVAIL, ...), does not answer (EIO, ESTALE, ENOTCONN, ...) or is
 * held by another (EADDRINUSE). Returns `status`. */
enum status error_of_errno(struct error *error, enum status status, int number);

/* As error_set() with ": " and the errno's words behind the line, and error_of_errno(). */
enum status error_errno(struct error *error, enum status status, int number, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/* clang's analyzer looks into one file at a time (tools/tidy --analyze): it has to be told that the
 * status comes back. */
#ifdef __clang_analyzer__
#define error_set(error, status, ...) (error_set(error, status, __VA_ARGS__), (status))
#define error_field(error, status, field, ...)                                                     \
    (error_field(error, status, field, __VA_ARGS__), (status))
#define error_within(error, status, ...)      (status)
#define error_passing(error, status, ...)     (error_passing(error, status, __VA_ARGS__), (status))
#define error_of_errno(error, status, number) (error_of_errno(error, status, number), (status))
#define error_errno(error, status, number, ...)                                                    \
    (error_errno(error, status, number, __VA_ARGS__), (status))
#endif

#ifdef __cplusplus
}
#endif
