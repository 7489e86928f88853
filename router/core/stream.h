/* router/core/stream.h: tokens from workers become the client's stream: no gap, no repeat. */
#pragma once

#include "router/core/request.h"
#include "router/core/stage.h"

enum turn stream_request(struct router *router, struct request *req);

void stream_step(struct router *router, struct slot *slot, const struct step *step);

/* Asks for the tokens from `n_emitted` on, unless that was asked a moment ago. */
void stream_resend(struct router *router, struct slot *slot, struct request *req);
