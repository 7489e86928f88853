/* router/api/thoughts.h: a model that thinks before it answers: how a chat's answer begins, and what that does to its form.
 *
 * Known only once the prompt is there, as its template decides it. Pure, any thread. */
#pragma once

#include "base/error.h"
#include "router/api/ask.h"

/* After the prompt was made: `start` says how its answer begins. Sets ask->thoughts; a form of the answer (ask->format and
 * what workers are sent) becomes what the model may think and then that form; ask->proper is the form alone. Where the request
 * wants thoughts left in the text, all stays as it is. STATUS_INVALID, with the form's field, where that makes it too long; STATUS_NOMEM. */
NODISCARD enum status thoughts_set(struct ask *ask, const struct ask_limits *limits,
                                   enum thought_start start, struct error *error);
