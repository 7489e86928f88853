#include "router/api/messages_about.h"

#include "model/text/template/template_request.h"
#include "router/api/ask.h"

#define FORMAT                                                                                     \
    {                                                                                              \
        "type" : "object", "required" : [ "type", "schema" ], "properties" : {                     \
            "type" : {"const" : "json_schema"}, "schema" : {                                       \
                "type" : [ "object", "boolean", "string" ]                                         \
            }                                                                                      \
        }                                                                                          \
    }
#define TEXTS                                                                                      \
    SCHEMA({                                                                                       \
        "type" : [ "string", "array" ],                                                            \
        "maxItems" : MESSAGES_BLOCKS_MAX,                                                          \
        "items" : {                                                                                \
            "type" : "object",                                                                     \
            "required" : [ "type", "text" ],                                                       \
            "properties" : {"type" : {"const" : "text"}, "text" : {"type" : "string"}}             \
        }                                                                                          \
    })
#define MESSAGES                                                                                   \
    SCHEMA({                                                                                       \
        "type" : "array",                                                                          \
        "minItems" : 1,                                                                            \
        "maxItems" : TEMPLATE_MESSAGES_MAX,                                                        \
        "items" : {                                                                                \
            "type" : "object",                                                                     \
            "required" : [ "role", "content" ],                                                    \
            "properties" : {                                                                       \
                "role" : {"enum" : [ "user", "assistant", "system" ]},                             \
                "content" : {                                                                      \
                    "type" : [ "string", "array" ],                                                \
                    "maxItems" : MESSAGES_BLOCKS_MAX,                                              \
                    "items" : {                                                                    \
                        "type" : "object",                                                         \
                        "required" : ["type"],                                                     \
                        "properties" : {                                                           \
                            "type" : {                                                             \
                                "enum" : [                                                         \
                                    "text", "thinking", "redacted_thinking", "tool_use",           \
                                    "tool_result"                                                  \
                                ]                                                                  \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define CHOICE                                                                                     \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["type"],                                                                     \
        "properties" : {                                                                           \
            "type" : {"enum" : [ "auto", "any", "none", "tool" ]},                                 \
            "name" : {"type" : [ "string", "null" ], "maxLength" : ASK_NAME_BYTES_MAX},            \
            "disable_parallel_tool_use" : {"type" : [ "boolean", "null" ]}                         \
        }                                                                                          \
    })

const struct dialect_member messages_members[] = {
    {"cache_salt", .as = "cache_salt"},
    {"chat_template_kwargs", .as = "chat_template_kwargs"},
    {"container", .schema = SCHEMA({"type" : "null"}), .says = "not served"},
    {"logit_bias", .as = "logit_bias"},
    {"max_tokens", .as = "max_tokens",
     .schema = SCHEMA({"type" : "integer", "minimum" : 1, "maximum" : 2147483647}),
     .says = "the answer ends with the context at the latest"},
    {"mcp_servers", .schema = SCHEMA({"type" : "null"}), .says = "not served"},
    {"messages", .schema = MESSAGES},
    {.name = "metadata"},
    {"model", .as = "model"},
    {"output_config", .schema = SCHEMA({
                          "type" : "object",
                          "properties" : {"format" : {"anyOf" : [ FORMAT, {"type" : "null"} ]}}
                      }),
     .says = "`format`: the answer's form"},
    {"output_format", .schema = SCHEMA({"type" : "object"}),
     .says = "the older name of `output_config.format`"},
    {"priority", .as = "priority"},
    {"seed", .as = "seed"},
    {.name = "service_tier"},
    {"stop_sequences", .as = "stop"},
    {"stream", .as = "stream"},
    {"system", .schema = TEXTS},
    {"temperature", .as = "temperature"},
    {"thinking", .schema = SCHEMA({
                     "type" : "object",
                     "properties" : {"type" : {"type" : [ "string", "null" ], "maxLength" : 64}}
                 }),
     .says = "of type `disabled`: the model does not think"},
    {"tool_choice", .schema = CHOICE},
    {"tools",
     .schema =
         SCHEMA({"type" : "array", "maxItems" : TEMPLATE_TOOLS_MAX, "items" : {"type" : "object"}}),
     .says = "of type `custom`, or without one: functions with `name`, `description`, "
             "`input_schema`, `strict`; other types are left out"},
    {"top_k", .as = "top_k"},
    {"top_p", .as = "top_p"},
    {.name = NULL},
};

const struct dialect_about messages_about = {
    .summary = "Anthropic's Messages: a conversation in, one message out",
    .members = messages_members,
    .needs = SCHEMA([ "messages", "max_tokens" ]),
    .answer = SCHEMA({
        "type" : "object",
        "required" :
            [ "id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage" ],
        "properties" : {
            "id" : {"type" : "string"},
            "type" : {"const" : "message"},
            "role" : {"const" : "assistant"},
            "model" : {"type" : "string"},
            "content" : {
                "type" : "array",
                "items" : {
                    "type" : "object",
                    "required" : ["type"],
                    "properties" : {"type" : {"enum" : [ "text", "thinking", "tool_use" ]}}
                }
            },
            "stop_reason" : {
                "enum" : [
                    "end_turn", "tool_use", "stop_sequence", "max_tokens",
                    "model_context_window_exceeded"
                ]
            },
            "stop_sequence" : {"type" : [ "string", "null" ]},
            "usage" : {
                "type" : "object",
                "required" : [ "input_tokens", "output_tokens" ],
                "properties" : {
                    "input_tokens" : {"type" : "integer", "minimum" : 0},
                    "output_tokens" : {"type" : "integer", "minimum" : 0},
                    "cache_creation_input_tokens" : {"type" : "integer", "minimum" : 0},
                    "cache_read_input_tokens" : {"type" : "integer", "minimum" : 0}
                }
            }
        }
    }),
    .events =
        "message_start, then content_block_start, _delta and _stop of each block, message_delta, "
        "message_stop; each `event: NAME` and `data: ` with one object of that type",
};

const struct dialect_about messages_about_count = {
    .summary = "The tokens of a request of /v1/messages, without a worker",
    .members = messages_members,
    .needs = SCHEMA(["messages"]),
    .answer = SCHEMA({
        "type" : "object",
        "required" : ["input_tokens"],
        "properties" : {"input_tokens" : {"type" : "integer", "minimum" : 0}}
    }),
};

/* What the HTTP server refuses by itself (a body that is too large or too slow) has OpenAI's form, whose `error` has these
 * members, too. */
const char messages_error[] = SCHEMA({
    "type" : "object",
    "required" : ["error"],
    "properties" : {
        "type" : {"const" : "error"},
        "error" : {
            "type" : "object",
            "required" : [ "type", "message" ],
            "properties" : {"type" : {"type" : "string"}, "message" : {"type" : "string"}}
        }
    }
});
