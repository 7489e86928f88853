/* tests/unit/router/api/tool_rig.h: answers of one request with tools, in a format. */
#pragma once

#include "model/text/grammar/grammar.h"
#include "model/text/template/tool_format.h"
#include "router/api/dialect.h"
#include "router/api/tools.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `tools`: entries of the list; `fields`: more fields, each with a comma before it. */
static inline enum status rig_parse(const struct tool_format *format, const char *tools,
                                    const char *fields, struct ask *ask, struct api_error *error) {
    const struct ask_limits limits = {
        .model = "m", .n_tokens = 1000, .prompt_max = 4000, .tool_format = format};
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
        status = tools_compile(ask, &error->error);
    ask_drop_body(ask);
    free(body);
    return status;
}

static inline void rig_open(const struct tool_format *format, const char *tools, const char *fields,
                            struct ask *ask) {
    struct api_error error;
    ck_assert_msg(rig_parse(format, tools, fields, ask, &error) == STATUS_OK, "%s%s: %s", tools,
                  fields, error.error.text);
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
