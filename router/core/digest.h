/* router/core/digest.h: once a second a worker lists what it holds for us; both sides' books are
 * compared. What it holds and should not is cancelled, what it should hold and does not is
 * replayed, tokens that only the worker has are requested, and a request without progress is
 * noticed. */
#pragma once

#include "router/core/slot.h"

struct router;

void digest_read(struct router *router, struct slot *slot, const struct digest *digest);
