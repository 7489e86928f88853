/* router/call/answer.h: the stages stream and finish: tokens become text, text becomes the
 * reply. */
#pragma once

#include <stdbool.h>

struct call;

/* Reads the new tokens of all sequences and, for a stream, writes what there is to say. Does
 * nothing while the client cannot take more. */
void answer_advance(struct call *call);

/* Makes the whole of a reply that is not a stream. False: it is a long one, which a thread of the pool
 * makes meanwhile; call again when the call is looked at next. */
bool answer_build(struct call *call);

/* The end of the reply: usage and [DONE], or the whole of it, or the error. */
void answer_finish(struct call *call);
