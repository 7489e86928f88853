/* router/api/fields.h: the request fields that the dialects share (facts: vLLM's extensions beside
 * OpenAI's own). Pure; any thread. */
#pragma once

#include "base/json/json_get.h"
#include "router/api/ask.h"
#include "router/api/errors.h"

/* Reads `model`. STATUS_NOT_FOUND when it names another one, with a code of its own in `error`. */
NODISCARD enum status fields_model(const struct json_get *get, const struct ask_limits *limits,
                                   struct api_error *error);

/* Reads everything about sampling, stopping, streaming and scheduling. STATUS_UNSUPPORTED for what
 * is known but not served on the route; the first unknown field becomes ask->unknown. Call it after
 * `n_prompts`, `is_chat` and `only_tokens` are set. */
NODISCARD enum status fields_read(const struct json_get *get, const struct ask_limits *limits,
                                  struct ask *ask);

/* A list of token ids below n_tokens, appended to ids. STATUS_INVALID naming `name`. */
NODISCARD enum status fields_ids(const struct json_get *get, const char *name, const json_t *list,
                                 uint32_t n_tokens, struct ids *ids);

/* An integer within the bounds of its row in field_table.c. Errors as json_get_int(). */
NODISCARD enum status fields_int(const struct json_get *get, const char *name, int64_t *value);
