/* tools/bench/counter.h: how many tokens a text has, by one of several ways. Main thread; each count
 * is waited for. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "tools/bench/core/workload.h"

#include <stdbool.h>

struct counter;
struct http_url;

struct counter_spec {
    const struct http_url *url; /* borrowed */
    const char *api_key;        /* borrowed; or NULL */
    struct ask_form form;
    const char *tokenizer; /* borrowed; NULL: the server counts */
    double timeout_s;      /* of a request */
};

/* Errors: those of model_open_tokenizer(), STATUS_NOMEM. */
NODISCARD enum status counter_new(const struct counter_spec *spec, struct counter **counter,
                                  struct error *error);
void counter_free(struct counter *counter); /* NULL is fine */

/* Tokens of a text, the same constant more for every text (a begin of sequence, a chat's format).
 * False: they are not counted. */
bool counter_text(struct counter *counter, struct span text, uint32_t *n_tokens);

/* Tokens of a whole prompt in the form that is measured, by the server's usage. False: no usage. */
bool counter_prompt(struct counter *counter, struct span text, uint32_t *n_tokens);

const char *counter_name(const struct counter *counter); /* constant: who counts texts */

/* How many texts may be counted: a tokenizer of ours takes microseconds, a server's answer does
 * not. */
uint32_t counter_budget(const struct counter *counter);
