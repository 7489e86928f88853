/* router/api/errors.h: what a failure looks like to a client: one table from status to HTTP and
 * gRPC.
 *
 * The object is OpenAI's: {"error":{"message","type","param","code"}}. Pure. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A failure on its way to a client. */
struct api_error {
    enum status status;
    const char *code;   /* constant; NULL: the table's own for the status */
    uint32_t retry_ms;  /* when to come again; 0: as the queue is */
    const char *allow;  /* of method_not_allowed: the path's methods; or NULL */
    struct error error; /* message and `param` */
};

/* A prompt that leaves no room, in the words that client libraries look for to shorten it (LiteLLM:
 * "maximum context length is", LangChain: "prompt is too long"). n_prompt 0: more than the context,
 * the count ended there. STATUS_LIMIT. */
enum status errors_too_long(struct error *error, const char *field, uint32_t context,
                            size_t n_prompt);

/* A request that is dropped because memory is short. STATUS_NOMEM. */
enum status errors_no_memory(struct error *error);

/* Its HTTP status. */
int errors_http(const struct api_error *error);

/* Its gRPC status, never 0. */
int errors_grpc(const struct api_error *error);

/* Does the client learn when to come again (429 and 503: Retry-After)? */
bool errors_want_retry(const struct api_error *error);

/* What it is called in the error object's `code`; NULL: null. */
const char *errors_code(const struct api_error *error);

/* Appends the compact error object. */
void errors_put(const struct api_error *error, struct buf *out);
