/* router/call/prepare.h: from a body to prompts of ids: the stages parse and tokenize.
 *
 * Short ones are done at once; long ones would hold up every stream, so they go to the text pool,
 * and the call waits. Each answers true when its stage is over or the call has failed. */
#pragma once

#include <stdbool.h>

struct call;

bool prepare_parse(struct call *call);
bool prepare_tokenize(struct call *call);

/* The body's bytes, and their share of the budget, are given back. */
void prepare_drop_body(struct call *call);
