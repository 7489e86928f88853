/* router/core/dispatch.h: telling the chosen workers, and what they answer before the first token.
 *
 * A hand-off asks the decode worker for blocks first; its answer releases SUBMIT to both. */
#pragma once

#include "router/core/fleet.h"
#include "router/core/path.h"
#include "router/core/request.h"

enum turn dispatch_request(struct router *router, struct request *req);

void dispatch_reserved(struct router *router, struct slot *slot, const struct reserved *reserved);

/* The worker's figures now count this part. */
void dispatch_reflected(struct slot *slot, struct part *part);

/* Takes the part off its slot's books. */
void dispatch_leave(struct router *router, struct part *part);
