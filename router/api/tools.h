/* router/api/tools.h: tools that an answer may call: `tools`, `tool_choice` and `parallel_tool_calls` of a chat become the
 * form of its answer. Pure, any thread. */
#pragma once

#include "base/json/json_get.h"
#include "router/api/ask.h"

/* Regions of the grammar, by which an answer is read (tool_reader.h). */
#define TOOLS_CONTENT   "content"
#define TOOLS_NAME      "name"
#define TOOLS_CUSTOM    "custom" /* the name of a custom tool */
#define TOOLS_ARGUMENTS "arguments"
#define TOOLS_INPUT     "input" /* a custom tool's text, as a JSON string */
#define TOOLS_RAW       "raw"   /* or as it is */

/* And of arguments that are written one by one, of which JSON is made (tool_arguments.h). */
#define TOOLS_PARAMETER "parameter" /* a name */
#define TOOLS_TEXT      "text"      /* a value that is this text */
#define TOOLS_VALUE     "value"     /* one that is JSON */
#define TOOLS_LITERAL   "literal"   /* one that is Python, or JSON */
#define TOOLS_END       "end"       /* begins behind the last value */

#define TOOLS_NAME_MAX 128 /* bytes of a tool's name */

/* After the other fields, of which `response_format` and its like have set ask->format. Where tools may be called, ask->calls
 * is set, and ask->format and ask->sampling.grammar become the form of an answer with calls. Errors name the field. Nothing is compiled. */
NODISCARD enum status tools_read(const struct json_get *get, const struct ask_limits *limits,
                                 struct ask *ask);

/* Compiles the form for tool readers, without what may be thought before it: ask->calls_grammar. After format_check(). STATUS_NOMEM, STATUS_INVALID. */
NODISCARD enum status tools_compile(struct ask *ask, struct error *error);
