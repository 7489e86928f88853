/* router/call/calls.h: clients' calls on their way: the table in stages.c has the stages in order.
 *
 * Callbacks (client gone, tokens, an end) only note what happened and put the call on a list; once
 * per turn of the loop the work is done, so that everything there is for a client leaves with one
 * write. Loop's thread only. */
#pragma once

#include "base/span.h"
#include "base/status.h"

#include <stdint.h>

struct calls;
struct dialect;
struct exchange;
struct quota;
struct request_end;
struct serving;
struct token_run;

/* With n_sequences in all at once. */
NODISCARD enum status calls_new(struct serving *serving, uint32_t n_sequences,
                                struct calls **calls);

/* Ends what is left without a word. NULL is fine. */
void calls_free(struct calls *calls);

/* Takes a request for a dialect that parses bodies. `origin` (borrowed for life): CORS lets this
 * one read the answer; or NULL. `quota` (borrowed for life) has taken the call, and is given back
 * at its end; or NULL. */
void calls_begin(struct serving *serving, struct exchange *exchange, const struct dialect *dialect,
                 const char *origin, struct quota *quota);

/* The core's sink: notes tokens and ends. Must not, and does not, call the core. */
void calls_tokens(struct calls *calls, uint64_t user, const struct token_run *run);
void calls_end(struct calls *calls, uint64_t user, const struct request_end *end);

/* The id that client and log know, for the core's number of a sequence. Borrowed from the call. */
const char *calls_id(const struct calls *calls, uint64_t user);

/* Fails the calls of that dialect to which their clients gave this name (the field request_id), as
 * aborted; what a thread of the pool has in hand at this moment goes on. */
void calls_abort(struct calls *calls, const struct dialect *dialect, struct span name);

uint32_t calls_count(const struct calls *calls);
