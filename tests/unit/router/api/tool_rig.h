/* tests/unit/router/api/tool_rig.h: answers of one request with tools, in a format. */
#pragma once

#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "model/text/template/tool_format.h"
#include "router/api/dialect.h"
#include "router/api/thoughts.h"
#include "router/api/tools.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `tools`: entries of the list; `fields`: more fields, each with a comma before it; `start`: how an answer begins, of a model that
 * thinks. */
static inline enum status rig_parse_from(const struct tool_format *format, const char *tools,
                                         const char *fields, enum thought_start start,
                                         struct ask *ask, struct api_error *error) {
    const struct ask_limits limits = {.model = "m",
                                      .n_tokens = 1000,
                                      .prompt_max = 4000,
                                      .tool_format = format,
                                      .thought_format = thought_format_nth(0)};
    size_t size = strlen(tools) + strlen(fields) + 96;
    char *body = malloc(size);
    int n = snprintf(body, size,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[%s]%s}",
                     tools, fields);
    const struct span span = {body, (size_t)n};
    *error = (struct api_error){0};
    ask_init(ask);
    enum status status = dialect_chat.parse(&span, &limits, ask, error);
    if (status == STATUS_OK)
        status = thoughts_set(ask, &limits, start, &error->error);
    if (status == STATUS_OK)
        status = tools_compile(ask, &error->error);
    ask_drop_body(ask);
    free(body);
    return status;
}

static inline enum status rig_parse(const struct tool_format *format, const char *tools,
                                    const char *fields, struct ask *ask, struct api_error *error) {
    return rig_parse_from(format, tools, fields, THOUGHT_NONE, ask, error);
}

/* The answer of a tool with n parameters that may come. */
static inline enum status rig_parse_many(const char *format, int n, const char *strict,
                                         struct ask *ask, struct api_error *error) {
    char *tool = malloc((size_t)n * 32 + 128);
    int at = sprintf(tool,
                     "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":%s,"
                     "\"parameters\":{\"properties\":{",
                     strict);
    for (int i = 0; i < n; i++)
        at += sprintf(tool + at, "%s\"p%d\":{\"type\":\"string\"}", i > 0 ? "," : "", i);
    sprintf(tool + at, "}}}}");
    enum status status = rig_parse(tool_format_find(format), tool, "", ask, error);
    free(tool);
    return status;
}

static inline void rig_open_from(const struct tool_format *format, const char *tools,
                                 const char *fields, enum thought_start start, struct ask *ask) {
    struct api_error error;
    ck_assert_msg(rig_parse_from(format, tools, fields, start, ask, &error) == STATUS_OK,
                  "%s%s: %s", tools, fields, error.error.text);
}

static inline void rig_open(const struct tool_format *format, const char *tools, const char *fields,
                            struct ask *ask) {
    rig_open_from(format, tools, fields, THOUGHT_NONE, ask);
}

/* Whether an answer may be this. */
static inline bool rig_takes(const struct ask *ask, const char *text) {
    struct grammar_state *state;
    size_t n;
    ck_assert_int_eq(grammar_state_new(ask->calls_grammar, 0, &state), STATUS_OK);
    bool takes = grammar_follow(state, span_of(text), &n) == STATUS_OK && grammar_may_end(state);
    grammar_state_free(state);
    return takes;
}

/* Whether workers let it be written: by the grammar that they are sent, where all marks are text. */
static inline bool rig_lets(const struct ask *ask, const char *text) {
    const struct span packed = {(const char *)ask->sampling.grammar, ask->sampling.n_grammar};
    const struct grammar_part *sent;
    struct grammar *grammar;
    struct grammar_state *state;
    struct arena arena;
    struct error error;
    size_t n;
    arena_init(&arena, 1 << 20);
    ck_assert_int_eq(grammar_unpack(packed, &arena, &sent, &error), STATUS_OK);
    ck_assert_int_eq(grammar_compile(sent, NULL, &grammar_limits, &grammar, &error), STATUS_OK);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    bool lets = grammar_follow(state, span_of(text), &n) == STATUS_OK && grammar_may_end(state);
    grammar_state_free(state);
    grammar_unref(grammar);
    arena_fini(&arena);
    return lets;
}
