/* router/core/replay.h: attempts that came to nothing, and what that says about the request.
 *
 * A loss counts only if the attempt brought no new token; a new token sets the count to zero. After
 * 3 in a row the request runs alone until its next token; if that worker dies too, it is refused as
 * poisoned. 8 in a row end with an error. There is no other budget. */
#pragma once

#include "base/clock.h"
#include "router/core/request.h"
#include "router/core/slot.h"

#define REPLAY_PATIENCE_NS (3 * NS_PER_S) /* neither queued nor advancing: replaced */
/* What widens that, a worker's silence or its long step, may be over sooner than it was said to be: it
 * is looked at again after so long. */
#define REPLAY_LOOK_NS (200 * NS_PER_MS)
/* In own time. A queued attempt gets on while its worker does; but a worker that keeps it so long, and
 * computes later ones, loses it to another one. */
#define REPLAY_QUEUED_NS    (60 * NS_PER_S)
#define REPLAY_LOSSES_ALONE 3
#define REPLAY_LOSSES_MAX   8

struct router;

/* `slot` is out of this attempt: the other worker is told, the request waits for a place again, or
 * ends. */
void replay_lost(struct router *router, struct request *req, struct slot *slot, enum loss loss);

/* The same for every attempt on a slot. */
void replay_all(struct router *router, struct slot *slot, enum loss loss);

/* The same for the slots that lost theirs in this event (fleet_lose()). */
void replay_losses(struct router *router);

/* REFUSED or FAILED: this attempt does not begin, or does not go on, at that worker. */
void replay_rejected(struct router *router, struct slot *slot, struct attempt_id attempt,
                     enum reason reason);

/* FINISH_ERROR: the numbers there were unusable. */
void replay_unusable(struct router *router, struct request *req, struct slot *slot);

/* The context of the worker ended the answer, and another worker's is longer: it goes on there. */
void replay_outgrown(struct router *router, struct request *req, struct slot *slot);

/* It brought a token: innocent. */
void replay_reset_losses(struct router *router, struct request *req);

/* A request's time has come: its deadline, or an attempt that does not advance. */
void replay_timer(struct router *router, struct request *req);
