/* router/api/errors.h: what a failure looks like to a client: one table from status to HTTP.
 *
 * The object is OpenAI's: {"error":{"message","type","param","code"}}. Pure. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/status.h"

/* A failure on its way to a client. */
struct api_error {
    enum status status;
    const char *code;   /* constant; NULL: the table's own for the status */
    struct error error; /* message and `param` */
};

/* The HTTP status that stands for it. */
int errors_http(const struct api_error *error);

/* Seconds for Retry-After, or 0 for none (R10: 429 and 503 carry one). */
int errors_retry_after_s(const struct api_error *error);

/* Appends the compact error object. */
void errors_put(const struct api_error *error, struct buf *out);

/* Appends it as the last but one event of a stream: after a 200 nothing else can say it. */
void errors_put_event(const struct api_error *error, struct buf *out);
