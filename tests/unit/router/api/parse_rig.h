/* Requests of both dialects, read within the limits of a made-up model. */
#pragma once

#include "router/api/dialect.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static const struct interval textless[] = {{500, 501}, {990, 1000}};
static const uint32_t ends[] = {2, 256};
static const struct ask_limits limits = {.model = "m",
                                         .n_tokens = 1000,
                                         .n_textless = 2,
                                         .textless = textless,
                                         .n_ends = 2,
                                         .ends = ends,
                                         .prompt_max = 4096};

static inline enum status parse_all(const struct dialect *dialect, const char *body,
                                    struct ask *ask, struct api_error *error) {
    memset(error, 0, sizeof *error);
    ask_init(ask);
    const struct span bytes = {body, strlen(body)};
    enum status status = dialect->parse(&bytes, &limits, ask, error);
    error->status = status;
    return status;
}

/* The members go into an otherwise good request of the dialect. */
static inline enum status parse_with(const struct dialect *dialect, const char *members,
                                     struct ask *ask, struct api_error *error) {
    char body[4096];
    const char *base = dialect == &dialect_chat
                           ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
                           : "\"prompt\":\"hi\"";
    snprintf(body, sizeof body, "{%s%s%s}", base, members[0] ? "," : "", members);
    return parse_all(dialect, body, ask, error);
}

static inline void refused(const struct dialect *dialect, const char *members, enum status status,
                           const char *param) {
    struct ask ask;
    struct api_error error;
    enum status got = parse_with(dialect, members, &ask, &error);
    ck_assert_msg(got == status, "%s: %s answered %s (%s)", dialect->name, members,
                  status_name(got), error.error.text);
    ck_assert_msg(strcmp(error.error.field, param) == 0, "%s: %s names `%s`", dialect->name,
                  members, error.error.field);
    ask_fini(&ask);
}

static inline void accepted(const struct dialect *dialect, const char *members, struct ask *ask) {
    struct api_error error;
    enum status got = parse_with(dialect, members, ask, &error);
    ck_assert_msg(got == STATUS_OK, "%s: %s: %s", dialect->name, members, error.error.text);
}

static const struct dialect *const both[] = {&dialect_chat, &dialect_completions};
