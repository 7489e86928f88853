/* router/serve/grpc_question.h: calls of gRPC that are answered at once: one message in, one out.
 * Loop's thread. */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct endpoint_request;
struct server;

#define GRPC_QUESTION_BYTES 65536u /* of a question, inflated; a dialect's body_max */

/* Unpacks the question and hands it on; refuses it where it is none of `type`. */
void grpc_question(struct server *server, const struct endpoint_request *request,
                   const ProtobufCMessageDescriptor *type,
                   void (*answer)(struct server *server, const struct endpoint_request *request,
                                  const ProtobufCMessage *question));

/* The head of a dialect's answer() to questions of a type: the body that follows has the question,
 * which is gone when it returns, and answers it. */
#define GRPC_ANSWER(name, type)                                                                    \
    static void name##_to(struct server *server, const struct endpoint_request *request,           \
                          const ProtobufCMessage *question);                                       \
    static void name(struct server *server, const struct endpoint_request *request) {              \
        grpc_question(server, request, &(type), name##_to);                                        \
    }                                                                                              \
    static void name##_to(struct server *server, const struct endpoint_request *request,           \
                          __attribute__((unused)) const ProtobufCMessage *question)

/* Replies with the message and a good status. */
void grpc_answer(struct server *server, const struct endpoint_request *request,
                 const ProtobufCMessage *message);
