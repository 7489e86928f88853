/* router/api/openai.h: what OpenAI's dialects share: bodies of JSON, streams of server-sent events.
 *
 * Pure. */
#pragma once

#include "router/api/about.h"
#include "router/api/dialect.h"

#include <jansson.h>

/* JSON replies, SSE streams that end with [DONE], and OpenAI's error object. Also the form of
 * everything here that answers at once in JSON. */
extern const struct dialect_form openai_form;

/* SCHEMA() of its errors (about.h), by their name in /openapi.json. */
#define OPENAI_ERROR_NAME "Error"
extern const char openai_error[];

/* SCHEMA() of an answer: its `object`, the reasons why a choice ends (a macro that is their list), and the member
 * with what the model said, with that member's schema. */
#define OPENAI_ANSWER(kind, reasons, member, ...)                                                  \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "id", "object", "created", "model", "choices", "usage" ],                   \
        "properties" : {                                                                           \
            "id" : {"type" : "string"},                                                            \
            "object" : {"const" : kind},                                                           \
            "created" : {"type" : "integer"},                                                      \
            "model" : {"type" : "string"},                                                         \
            "system_fingerprint" : {"type" : "string"},                                            \
            "choices" : {                                                                          \
                "type" : "array",                                                                  \
                "minItems" : 1,                                                                    \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "index", member, "logprobs", "finish_reason" ],                 \
                    "properties" : {                                                               \
                        "index" : {"type" : "integer", "minimum" : 0},                             \
                        member : __VA_ARGS__,                                                      \
                        "logprobs" : {"type" : [ "object", "null" ]},                              \
                        "finish_reason" : {"enum" : [reasons]},                                    \
                        "stop_reason" : {"type" : [ "string", "integer", "null" ]},                \
                        "token_ids" : {"type" : "array", "items" : {"type" : "integer"}},          \
                        "prompt_token_ids" :                                                       \
                            {"type" : "array", "items" : {"type" : "integer"}}                     \
                    }                                                                              \
                }                                                                                  \
            },                                                                                     \
            "usage" : {"$ref" : "#/components/schemas/Usage"}                                      \
        }                                                                                          \
    })

/* The heads of streams of server-sent events, here and in other protocols of JSON. */
#define OPENAI_STREAM_HEADERS 2
extern const struct header openai_stream_headers[OPENAI_STREAM_HEADERS];

/* Parses a body; the tree becomes the ask's. Errors as json_tree_parse(); a body that is too large as
 * a tree is `body_too_large`. */
NODISCARD enum status ask_read_json(const struct span *body, struct ask *ask,
                                    struct api_error *error);

/* A chat's, a completion's request as a tree that outlives the prompts. Errors as parse(). */
NODISCARD enum status openai_read_chat(const json_t *root, const struct ask_limits *limits,
                                       struct ask *ask, struct api_error *error);
NODISCARD enum status openai_read_completion(const json_t *root, const struct ask_limits *limits,
                                             struct ask *ask, struct api_error *error);

/* A sampled token and the likeliest ones, as an entry of a chat's `logprobs`. */
void openai_put_logprob(const struct reply *reply, uint32_t token,
                        const struct token_logprobs *logprobs, struct buf *out);

/* An event: `{"id":...,"object":OBJECT,...,` to begin with, and what closes it. */
void openai_begin_event(const struct reply *reply, const char *object, struct buf *out);
void openai_end_event(const struct reply *reply, struct buf *out);

/* A stream's end: usage where it was asked for, in a chunk without choices, and [DONE]. */
void openai_end_stream(const struct reply *reply, const char *object, struct buf *out);
