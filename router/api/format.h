/* router/api/format.h: the form that an answer must have. Each field of a request that says it, in
 * the words of OpenAI, vLLM, SGLang or llama-server, becomes one description of a grammar. Pure,
 * any thread. */
#pragma once

#include "base/json/json_get.h"
#include "router/api/ask.h"

/* Reads `response_format`, `structured_outputs`, `guided_*`, `regex`, `json_schema`, `grammar` and `ebnf` into ask->format and
 * the bytes of ask->sampling.grammar; at most one of them may ask for something. Errors name the
 * field. Nothing is compiled. */
NODISCARD enum status format_read(const struct json_get *get, struct ask *ask);

/* Keywords of tools' schemas that are not enforced: the first, and how many there are. */
struct format_loss {
    char keyword[32];
    char path[96];
    uint32_t n;
};

/* Compiles the ask's form, which it has, to see whether it can be kept: milliseconds, for bad ones up to the bounds of
 * grammar_limits. STATUS_INVALID or STATUS_UNSUPPORTED with the field and the path in its schema;
 * STATUS_NOMEM. */
NODISCARD enum status format_check(const struct ask *ask, struct format_loss *loss,
                                   struct error *error);
