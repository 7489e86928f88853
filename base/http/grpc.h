/* base/http/grpc.h: gRPC over HTTP/2 as bytes: messages in a body, status and timeout in headers
 * (grpc/grpc, doc/PROTOCOL-HTTP2.md and doc/compression.md).
 *
 * A message is a flag byte (1: compressed), four bytes of length, big-endian, and so many bytes; where
 * a DATA frame ends means nothing. Pure; any thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_CONTENT_TYPE    "application/grpc+proto"
#define GRPC_PREFIX_BYTES    5u
#define GRPC_MESSAGE_MAX     (4u << 20) /* bytes of a message, inflated */
#define GRPC_ACCEPT_ENCODING "identity,gzip"

/* Is it application/grpc, or that with "+proto", with or without parameters? NULL is not. */
bool grpc_is_type(const char *content_type);

/* "100m" and its like, at most 8 digits and a unit, in nanoseconds; false: it is not a timeout. What
 * exceeds 64 bits is UINT64_MAX. */
NODISCARD bool grpc_timeout(const char *text, uint64_t *ns);

/* Percent-codes the text of a status for grpc-message; what does not fit is cut between characters
 * of the code. */
void grpc_put_message(char *out, size_t size, const char *text);

/* The length that a prefix (GRPC_PREFIX_BYTES of it are there) claims. */
size_t grpc_length(struct span bytes);

/* Takes the first message off `*bytes`. `encoding` is grpc-encoding (NULL: none); a compressed
 * message is inflated into `room`, and `*message` borrows from one of the two. STATUS_BUSY: it is not
 * complete, nothing was taken. STATUS_LIMIT: it has, or grows to, more than `max` bytes.
 * STATUS_UNSUPPORTED: an encoding other than gzip and identity. STATUS_CORRUPT: neither flag, a flag
 * without encoding, or broken gzip. */
NODISCARD enum status grpc_take(struct span *bytes, const char *encoding, size_t max,
                                struct buf *room, struct span *message, struct error *error);

/* The one message of a whole body. Errors as grpc_take(), STATUS_CORRUPT for a body that ends within it,
 * and STATUS_INVALID for one that has none or more. */
NODISCARD enum status grpc_take_only(struct span body, const char *encoding, size_t max,
                                     struct buf *room, struct span *message, struct error *error);

/* Appends an uncompressed message: what is appended to `out` between the two. */
size_t grpc_begin(struct buf *out);
void grpc_end(struct buf *out, size_t begun);
