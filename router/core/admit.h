/* router/core/admit.h: who may enter. */
#pragma once

#include "base/status.h"
#include "router/core/stage.h"

#include <stdint.h>

struct request;
struct request_spec;
struct router;

/* Could all of these specs (n) be let in now? STATUS_OK, BUSY, CLOSED, LIMIT, INVALID. */
NODISCARD enum status admit_check(const struct router *router, const struct request_spec *specs,
                                  uint32_t n);

enum turn admit_request(struct router *router, struct request *req);

/* No worker for too long: everybody who waits gets their answer. */
void admit_tick(struct router *router);
