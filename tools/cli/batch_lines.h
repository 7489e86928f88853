/* tools/cli/batch_lines.h: the two files of `tandem batch`: requests, a line each, and their answers.
 *
 * Lines are those of OpenAI's Batch API: {"custom_id", "method", "url", "body"}, and {"id", "custom_id", "response":
 * {"status_code", "request_id", "body"}, "error"}. An answer is appended in one write, so that a file that was left in the middle of
 * a run has whole lines but for the last; that one is cut off, and what has no answer yet is asked again. One thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct batch_lines;

#define BATCH_LINE_MAX ((size_t)64 << 20) /* bytes */

struct batch_line {
    char *id; /* all owned */
    char *url;
    char *body; /* JSON */
};

/* Reads all of both files. STATUS_INVALID, STATUS_EXISTS (a custom_id that comes twice), STATUS_CORRUPT (answers that are
 * none), STATUS_NOT_FOUND and STATUS_IO name the file and the line. */
NODISCARD enum status batch_lines_open(const char *in, const char *out, struct batch_lines **lines,
                                       struct error *error);
void batch_lines_close(struct batch_lines *lines); /* NULL is fine */

size_t batch_lines_n(const struct batch_lines *lines);          /* requests */
size_t batch_lines_n_answered(const struct batch_lines *lines); /* of them, */
size_t batch_lines_n_refused(
    const struct batch_lines *lines); /* and of these, with another status than 200 */

/* The next request that has no answer, in the order of the file. STATUS_CLOSED: there is none. */
NODISCARD enum status batch_lines_next(struct batch_lines *lines, struct batch_line *line,
                                       struct error *error);
void batch_line_fini(struct batch_line *line); /* fine on a zeroed one */

/* Appends its answer; `body` is JSON, or a text. */
NODISCARD enum status batch_lines_answer(struct batch_lines *lines, const struct batch_line *line,
                                         int http_status, const char *body, size_t n,
                                         struct error *error);
