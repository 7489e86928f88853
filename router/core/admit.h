/* router/core/admit.h: who may enter, and in which order they wait. */
#pragma once

#include "router/core/path.h"
#include "router/core/router.h"

struct router;
struct request;

/* Could all of these specs (n) be let in now? STATUS_OK, BUSY, CLOSED, LIMIT, INVALID. */
NODISCARD enum status admit_check(const struct router *router, const struct request_spec *specs,
                                  uint32_t n);

enum turn admit_request(struct router *router, struct request *req);

/* Puts a request into the queue: by priority, then by arrival, so a replay comes before what came
 * after it. */
void admit_wait(struct router *router, struct request *req);
void admit_unwait(struct router *router, struct request *req);

/* Walks the queue in order and advances whoever can go. */
void admit_pump(struct router *router);

/* No worker for too long: everybody who waits gets their answer. */
void admit_tick(struct router *router);
