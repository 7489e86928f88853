/* router/core/dispatch.h: telling the chosen workers, and what they answer before the first token.
 *
 * A hand-off asks the decode worker for blocks first; its answer releases SUBMIT to both. */
#pragma once

#include "router/core/request.h"
#include "router/core/stage.h"

struct router;

enum turn dispatch_request(struct router *router, struct request *req);

/* The decode worker has blocks. The request, which goes on now; NULL: no request waits for them. */
struct request *dispatch_reserved(struct router *router, struct slot *slot,
                                  const struct reserved *reserved);
