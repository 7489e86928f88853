/* router/serve/grpc_question.h: calls of gRPC that are answered at once: one message in, one out.
 * Loop's thread. */
#pragma once

#include "base/arena.h"

#include <protobuf-c/protobuf-c.h>

struct exchange;
struct server;

#define GRPC_QUESTION_BYTES 65536u /* of a question, inflated; a dialect's body_max */

/* The question, unpacked into the arena (initialised here; the caller ends it with arena_fini()
 * whatever comes back). NULL: it was refused, the exchange is answered. */
ProtobufCMessage *grpc_question(struct server *server, struct exchange *exchange,
                                const ProtobufCMessageDescriptor *type, struct arena *arena);

/* Replies with the message and a good status. */
void grpc_answer(struct server *server, struct exchange *exchange, const ProtobufCMessage *message);
