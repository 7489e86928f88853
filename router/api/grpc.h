/* router/api/grpc.h: what the dialects of gRPC share: protobuf messages in gRPC's frames.
 *
 * A request becomes JSON by the names of its fields and goes where an HTTP client's body goes: so both
 * have the same fields, bounds, defaults and words. Replies are packed directly. Pure. */
#pragma once

#include "router/api/dialect.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

/* grpc-status and grpc-message in trailers, or in the head of a reply that fails at once. */
extern const struct dialect_form grpc_form;

/* The dialect's headers(): grpc-timeout and grpc-encoding. */
NODISCARD enum status grpc_read_headers(const struct exchange *exchange, struct ask *ask,
                                        struct api_error *error);

/* The one message of a body, unpacked into the arena; its strings may hold any bytes.
 * STATUS_INVALID for what is no message of the type, STATUS_LIMIT for one that needs more than the
 * arena has, and as grpc_take_only(). */
NODISCARD enum status grpc_unpack(const struct span *body, const char *encoding,
                                  const ProtobufCMessageDescriptor *type, struct arena *arena,
                                  ProtobufCMessage **message, struct api_error *error);
#define GRPC_ARENA_BYTES (64u << 20)

/* The message as a JSON object: what is absent is left out, chats and lists of ids are part of the
 * object itself, and members `x_json` are JSON of their own, called `x`. STATUS_INVALID with the field
 * for text that is not UTF-8 and for JSON that is not one list or object. */
NODISCARD enum status grpc_put_json(const ProtobufCMessage *message, struct buf *json,
                                    struct error *error);

/* A field of text, borrowed: strings are bytes to protobuf-c here. And back: an empty one has no data. */
static inline ProtobufCBinaryData grpc_bytes(struct span span) {
    return (ProtobufCBinaryData){span.n, (uint8_t *)(uintptr_t)span.bytes};
}

static inline ProtobufCBinaryData grpc_text(const char *text) {
    return grpc_bytes((struct span){text, strlen(text)});
}

static inline struct span grpc_span(ProtobufCBinaryData data) {
    return (struct span){data.len > 0 ? (const char *)data.data : "", data.len};
}

/* Appends the message in its frame. */
void grpc_put(const ProtobufCMessage *message, struct buf *out);

extern const struct dialect dialect_grpc_generate, dialect_grpc_complete, dialect_grpc_tokenize,
    dialect_grpc_detokenize, dialect_vllm_generate;
