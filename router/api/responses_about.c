#include "router/api/responses_about.h"

#include "model/text/template/template_request.h"
#include "router/api/ask.h"

#define STATELESS "is not served: nothing is stored here, so send the whole conversation as `input`"

#define TEXT                                                                                       \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "properties" : {                                                                           \
            "format" : {                                                                           \
                "anyOf" : [                                                                        \
                    {                                                                              \
                        "type" : "object",                                                         \
                        "properties" :                                                             \
                            {"type" : {"enum" : [ "text", "json_object", "json_schema", null ]}}   \
                    },                                                                             \
                    {"type" : "null"}                                                              \
                ]                                                                                  \
            },                                                                                     \
            "verbosity" : {"type" : [ "string", "null" ], "maxLength" : 64}                        \
        }                                                                                          \
    })
#define CHOICE                                                                                     \
    SCHEMA({                                                                                       \
        "anyOf" : [                                                                                \
            {"enum" : [ "none", "auto", "required" ]}, {                                           \
                "type" : "object",                                                                 \
                "required" : ["type"],                                                             \
                "properties" : {"type" : {"type" : "string"}}                                      \
            }                                                                                      \
        ]                                                                                          \
    })

/* Of what is not served: other values are a 400 that says why. */
static const char refused[] = SCHEMA({"const" : false});

const struct dialect_member responses_members[RESPONSES_MEMBERS + 1] = {
    {"allowed_token_ids", .as = "allowed_token_ids"},
    {"background", .schema = refused,
     .says = "is not served: an answer comes as the reply to its request; leave it "
             "out or false"},
    {"cache_salt", .as = "cache_salt"},
    {"chat_template_kwargs", .as = "chat_template_kwargs"},
    {"context_management", .schema = refused,
     .says = "is not served: shorten the conversation yourself"},
    {"conversation", .schema = refused, .says = STATELESS},
    {"enable_thinking", .as = "enable_thinking"},
    {"frequency_penalty", .as = "frequency_penalty"},
    {"ignore_eos", .as = "ignore_eos"},
    {"include",
     .schema = SCHEMA({"type" : "array", "maxItems" : 64, "items" : {"type" : "string"}}),
     .says = "`message.output_text.logprobs`, `reasoning.encrypted_content`; others are "
             "taken and mean nothing"},
    {"input", .schema = SCHEMA({
                  "type" : [ "string", "array" ],
                  "minItems" : 1,
                  "maxItems" : TEMPLATE_MESSAGES_MAX,
                  "items" : {"type" : "object"}
              }),
     .says = "needed: a string, or 1 to 4,096 items, as above"},
    {"instructions", .schema = SCHEMA({"type" : "string"}),
     .says = "a string: a system message, the first"},
    {"logit_bias", .as = "logit_bias"},
    {"max_output_tokens", .as = "max_completion_tokens",
     .schema = SCHEMA({"type" : "integer", "minimum" : 1, "maximum" : 2147483647})},
    {"max_tool_calls", .says = "a bound of hosted tools"},
    {"metadata", .schema = SCHEMA({"type" : "object"}),
     .says = "an object; comes back in the reply"},
    {"min_p", .as = "min_p"},
    {"min_tokens", .as = "min_tokens"},
    {"model", .as = "model"},
    {"moderation", .schema = refused, .says = "is not served"},
    {"parallel_tool_calls", .as = "parallel_tool_calls"},
    {"presence_penalty", .as = "presence_penalty"},
    {"previous_response_id", .schema = refused, .says = STATELESS},
    {"priority", .as = "priority"},
    {"prompt", .schema = refused, .says = "is not served: no prompts are stored here"},
    {"prompt_cache_key", .says = "prefixes are kept by what they are; `cache_salt` parts tenants"},
    {.name = "prompt_cache_options"},
    {.name = "prompt_cache_retention"},
    {"reasoning",
     .schema = SCHEMA({
         "type" : "object",
         "properties" :
             {"effort" : {"type" : [ "string", "null" ], "maxLength" : ASK_NAME_BYTES_MAX}}
     }),
     .says = "`effort` is the chat's `reasoning_effort`, and `none` also "
             "`enable_thinking` false; `summary` means nothing: no summaries are made"},
    {"repetition_penalty", .as = "repetition_penalty"},
    {"request_id", .as = "request_id"},
    {.name = "safety_identifier"},
    {"seed", .as = "seed"},
    {.name = "service_tier"},
    {"stop", .as = "stop"},
    {"stop_token_ids", .as = "stop_token_ids"},
    {"store", .says = "true is taken, and nothing is stored"},
    {"stream", .as = "stream"},
    {.name = "stream_options"},
    {"structured_outputs", .as = "structured_outputs"},
    {"temperature", .as = "temperature"},
    {"text", .schema = TEXT,
     .says = "`format` is the chat's `response_format`: `text`, `json_object` or "
             "`json_schema`; `verbosity` means nothing"},
    {"timeout", .as = "timeout"},
    {"tool_choice", .as = "tool_choice", .schema = CHOICE,
     .says = "of tools' names, as this API writes them"},
    {"tools",
     .schema =
         SCHEMA({"type" : "array", "maxItems" : TEMPLATE_TOOLS_MAX, "items" : {"type" : "object"}}),
     .says = "functions, whose members stand beside `type`, and custom tools; those of other "
             "types are left out"},
    {"top_k", .as = "top_k"},
    {"top_logprobs",
     .schema = SCHEMA({"type" : "integer", "minimum" : 0, "maximum" : ASK_TOP_CHAT_MAX}),
     .says = "integer, 0 to 20; with more than 0 texts have `logprobs`"},
    {"top_p", .as = "top_p"},
    {"truncate_prompt_tokens", .as = "truncate_prompt_tokens"},
    {"truncation", .schema = SCHEMA({"enum" : [ "auto", "disabled" ]}),
     .says = "`disabled` or `auto`; either way a prompt that is too long is a 400"},
    {.name = "user"},
    {.name = NULL},
};

enum responses_use responses_use(const struct dialect_member *member) {
    if (member->as)
        return RESPONSES_COPIED;
    if (!member->schema)
        return RESPONSES_IDLE;
    return member->schema == refused ? RESPONSES_REFUSED : RESPONSES_READ;
}

const struct dialect_about responses_about = {
    .summary = "OpenAI's Responses: a conversation in, a list of items out; nothing is stored",
    .members = responses_members,
    .needs = SCHEMA(["input"]),
    .answer = SCHEMA({
        "type" : "object",
        "required" : [
            "id", "object", "created_at", "status", "error", "incomplete_details", "model",
            "output", "parallel_tool_calls", "tool_choice", "tools", "usage"
        ],
        "properties" : {
            "id" : {"type" : "string"},
            "object" : {"const" : "response"},
            "created_at" : {"type" : "integer"},
            "status" : {"enum" : [ "completed", "incomplete" ]},
            "error" : {"type" : "null"},
            "incomplete_details" : {"type" : [ "object", "null" ]},
            "model" : {"type" : "string"},
            "output" : {
                "type" : "array",
                "items" : {
                    "type" : "object",
                    "required" : [ "id", "type" ],
                    "properties" : {
                        "id" : {"type" : "string"},
                        "type" : {
                            "enum" : [ "reasoning", "message", "function_call", "custom_tool_call" ]
                        }
                    }
                }
            },
            "parallel_tool_calls" : {"type" : "boolean"},
            "tools" : {"type" : "array", "items" : {"type" : "object"}},
            "usage" : {
                "type" : "object",
                "required" : [
                    "input_tokens", "input_tokens_details", "output_tokens",
                    "output_tokens_details", "total_tokens"
                ],
                "properties" : {
                    "input_tokens" : {"type" : "integer", "minimum" : 0},
                    "output_tokens" : {"type" : "integer", "minimum" : 0},
                    "total_tokens" : {"type" : "integer", "minimum" : 0}
                }
            }
        }
    }),
    .events = "response.created, response.in_progress, then those of each item, at last "
              "response.completed, .incomplete or .failed; each `event: NAME` and `data: ` with "
              "one object of that type and its `sequence_number`",
};
