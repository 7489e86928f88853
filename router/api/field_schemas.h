/* router/api/field_schemas.h: what the values of several fields, and of those that hold much, look like (field_table.c). */
#pragma once

#include "model/text/template/template_request.h"
#include "router/api/about.h"
#include "router/api/ask.h"

#define SCHEMA_GRAMMAR     SCHEMA({"type" : "string"})
#define SCHEMA_JSON_SCHEMA SCHEMA({"type" : [ "object", "boolean", "string" ]})
#define SCHEMA_REGEX       SCHEMA({"type" : "string", "minLength" : 1})
#define SCHEMA_OBJECTS(n_max)                                                                      \
    SCHEMA({"type" : "array", "items" : {"type" : "object"}, "maxItems" : n_max})

#define SCHEMA_MESSAGES                                                                            \
    SCHEMA({                                                                                       \
        "type" : "array",                                                                          \
        "minItems" : 1,                                                                            \
        "maxItems" : TEMPLATE_MESSAGES_MAX,                                                        \
        "items" : {                                                                                \
            "type" : "object",                                                                     \
            "maxProperties" : TEMPLATE_MEMBERS_MAX,                                                \
            "required" : ["role"],                                                                 \
            "properties" : {                                                                       \
                "role" : {"enum" : [ "system", "developer", "user", "assistant", "tool" ]},        \
                "content" : {                                                                      \
                    "type" : [ "string", "array", "null" ],                                        \
                    "maxItems" : TEMPLATE_TOOLS_MAX,                                               \
                    "items" : {                                                                    \
                        "type" : "object",                                                         \
                        "required" : [ "type", "text" ],                                           \
                        "properties" :                                                             \
                            {"type" : {"const" : "text"}, "text" : {"type" : "string"}}            \
                    }                                                                              \
                },                                                                                 \
                "reasoning_content" : {"type" : [ "string", "null" ]},                             \
                "name" : {"type" : [ "string", "null" ], "maxLength" : TEMPLATE_NAME_MAX},         \
                "tool_call_id" : {"type" : [ "string", "null" ], "maxLength" : TEMPLATE_NAME_MAX}, \
                "tool_calls" : {                                                                   \
                    "type" : [ "array", "null" ],                                                  \
                    "maxItems" : TEMPLATE_TOOLS_MAX,                                               \
                    "items" : {"type" : "object"}                                                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })

#define SCHEMA_PROMPT                                                                              \
    SCHEMA({                                                                                       \
        "anyOf" : [                                                                                \
            {"type" : "string", "minLength" : 1}, {                                                \
                "type" : "array",                                                                  \
                "minItems" : 1,                                                                    \
                "maxItems" : ASK_PROMPTS_MAX,                                                      \
                "items" : {"type" : "string", "minLength" : 1}                                     \
            },                                                                                     \
            {"type" : "array", "minItems" : 1, "items" : {"type" : "integer", "minimum" : 0}}, {   \
                "type" : "array",                                                                  \
                "minItems" : 1,                                                                    \
                "maxItems" : ASK_PROMPTS_MAX,                                                      \
                "items" : {                                                                        \
                    "type" : "array",                                                              \
                    "minItems" : 1,                                                                \
                    "items" : {"type" : "integer", "minimum" : 0}                                  \
                }                                                                                  \
            }                                                                                      \
        ]                                                                                          \
    })
