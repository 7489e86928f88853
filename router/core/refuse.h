/* router/core/refuse.h: workers that get nothing, and are told why.
 *
 * A router serves one model, its own, from its start to its end: prompts were cut by its tokenizer,
 * and clients asked for that model. A refused worker keeps its slot, so that status and metrics
 * show it, until it is no longer announced; it is looked at again where the reason may pass. */
#pragma once

#include "router/core/slot.h"

struct router;

/* What its WELCOME has against it; REFUSAL_NONE: nothing. */
enum refusal refuse_why(const struct router *router, const struct slot *slot);

/* Ends its session, tells it and the log. `holder` has its name, or NULL. */
void refuse_worker(struct router *router, struct slot *slot, enum refusal refusal,
                   const struct slot *holder);
