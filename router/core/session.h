/* router/core/session.h: how workers come and go: announced, welcomed, fenced, lost. */
#pragma once

#include "router/core/slot.h"

struct router;

void session_announced(struct router *router, const struct announce *announce);
void session_welcomed(struct router *router, struct slot *slot, const struct welcome *welcome);

/* It was welcomed and nothing speaks against it: work may go there. */
void session_join(struct router *router, struct slot *slot);

/* Ends the session: attempts there are lost, late words are dropped; asks for a new session. `why`
 * is a constant for the log. */
void session_fence(struct router *router, struct slot *slot, enum loss loss, const char *why);

/* The link is gone, for any reason: the slot is free afterwards. */
void session_lost(struct router *router, struct slot *slot, const char *why);

/* Closes the link and frees the slot. */
void session_close(struct router *router, struct slot *slot, const char *why);
